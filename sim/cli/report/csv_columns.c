/* csv_columns.c -- the columns of our own CSV files, by name. */
#include "csv_columns.h"

#include <math.h>
#include <string.h>

static kvt_status find(struct csv_columns *columns, const char *name, char **fields,
                       size_t field_count, struct kvt_error *err)
{
    for (size_t i = 0; i < field_count; i++) {
        if (strcmp(fields[i], name) == 0) {
            columns->places[columns->count++] = i;
            return KVT_OK;
        }
    }
    return kvt_fail(err, KVT_ERR_INVALID, columns->path, "found no column %s in the first line",
                    name);
}

kvt_status csv_columns_open(struct csv_columns *columns, const char *path, const char *const *names,
                            size_t count, struct kvt_error *err)
{
    char **fields = NULL;
    size_t field_count = 0;

    *columns = (struct csv_columns){.path = path};
    kvt_status status = kvt_csv_open(path, &columns->csv, err);
    if (status == KVT_OK)
        status = kvt_csv_next(columns->csv, &fields, &field_count, err);
    if (status == KVT_OK && fields == NULL)
        field_count = 0;
    for (size_t i = 0; i < count && status == KVT_OK; i++)
        status = find(columns, names[i], fields, field_count, err);
    if (status != KVT_OK)
        csv_columns_close(columns);
    return status;
}

kvt_status csv_columns_next(struct csv_columns *columns, double *values, bool *more,
                            struct kvt_error *err)
{
    char **fields = NULL;
    size_t field_count = 0;
    kvt_status status = kvt_csv_next(columns->csv, &fields, &field_count, err);

    *more = status == KVT_OK && fields != NULL;
    for (size_t i = 0; i < columns->count && *more && status == KVT_OK; i++) {
        char where[320];
        size_t place = columns->places[i];
        snprintf(where, sizeof where, "%s:%llu:%zu", columns->path,
                 (unsigned long long)kvt_csv_line(columns->csv), place + 1);
        if (place >= field_count)
            return kvt_fail(err, KVT_ERR_INVALID, where, "found %zu fields, expected more",
                            field_count);
        values[i] = (double)NAN;
        if (fields[place][0] != '\0')
            status = kvt_text_real(fields[place], where, -1e300, 1e300, &values[i], err);
    }
    return status;
}

void csv_columns_close(struct csv_columns *columns)
{
    kvt_csv_close(columns->csv);
    columns->csv = NULL;
}
