/* names.c -- SLO classes and tasks that rows name: each kept once, by number.
 *
 * They are few, so that a list is looked through; memory does not grow with the file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace_file.h"

static const struct {
    const char *field;
    const char *noun;
    const char *known; /* "is not ... there are: " */
    uint16_t maximum;
} kinds[KVT_TRACE_NAME_KINDS] = {
    [KVT_TRACE_NAME_CLASS] = {"slo_class", "SLO class", "among the scenario's slo.classes",
                              KVT_SLO_CLASSES_MAX},
    [KVT_TRACE_NAME_TASK] = {"task", "task", "in the table of speculation.acceptance",
                             KVT_TASKS_MAX},
};

static bool is_same(const struct kvt_trace_name *name, const char *text)
{
    return name->bytes < sizeof name->text && strcmp(name->text, text) == 0;
}

kvt_status kvt_trace_names_check(const struct kvt_trace_names *names,
                                 const struct kvt_trace_row *row, const char *path,
                                 struct kvt_error *err)
{
    const struct kvt_trace_name *name = &row->names[names->kind];
    if (name->bytes == 0 || names->known_count == 0)
        return KVT_OK;
    char known[256] = "";
    for (size_t i = 0; i < names->known_count; i++) {
        if (is_same(name, names->known[i]))
            return KVT_OK;
        kvt_trace_list(known, sizeof known, names->known[i]);
    }
    char where[256];
    const char *field = kinds[names->kind].field;
    const struct kvt_trace_place place = {
        .path = path, .line = row->line, .column = name->column, .name = field};
    kvt_trace_where(&place, where);
    return kvt_fail(err, KVT_ERR_INVALID, where, "%s \"%s\" is not %s; there are: %s", field,
                    name->text, kinds[names->kind].known, known);
}

kvt_status kvt_trace_names_add(struct kvt_trace_names *names, const struct kvt_trace_row *row,
                               const char *path, uint16_t *number, struct kvt_error *err)
{
    const struct kvt_trace_name *name = &row->names[names->kind];
    *number = KVT_TRACE_NO_NAME;
    if (name->bytes == 0 || !names->is_wanted)
        return KVT_OK;
    for (uint16_t i = 0; i < names->count; i++) {
        if (is_same(name, names->texts[i])) {
            *number = i;
            return KVT_OK;
        }
    }
    const char *noun = kinds[names->kind].noun;
    int maximum = kinds[names->kind].maximum;
    char where[256];
    (void)snprintf(where, sizeof where, "%s:%" PRIu64, path, row->line);
    if (name->bytes >= sizeof name->text)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "the %s \"%.40s\" has %zu bytes; at most %zu are taken", noun, name->text,
                        name->bytes, sizeof name->text - 1);
    if (names->count == maximum)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "\"%s\" is one %s more than the %d that are taken", name->text, noun,
                        maximum);
    memcpy(names->texts[names->count], name->text, name->bytes + 1);
    *number = names->count++;
    return KVT_OK;
}
