/* sweep_json.c -- results.json, written as it goes: a head, and an object for each point. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "sweep_results.h"

#define SCHEMA "kvtide/sweep/1"

static bool add_copy(cJSON *object, const char *key, const cJSON *header)
{
    return kvt_json_add(object, key, cJSON_Duplicate(kvt_json_find(header, key), true));
}

static cJSON *head_of(const struct sweep_table *table)
{
    static const char *const members[] = {"version", "commit",         "source", "axes",    "seeds",
                                          "plugins", "scenario_point", "inputs", "scenario"};
    cJSON *head = cJSON_CreateObject();
    bool ok = head != NULL && kvt_json_add_text(head, "schema", SCHEMA);

    for (size_t i = 0; ok && i < sizeof members / sizeof members[0]; i++)
        ok = add_copy(head, members[i], table->header);
    if (ok)
        return head;
    cJSON_Delete(head);
    return NULL;
}

kvt_status sweep_json_begin(FILE *stream, const struct sweep_table *table, struct kvt_error *err)
{
    cJSON *head = head_of(table);
    char *text = head != NULL ? kvt_json_print(head) : NULL;

    cJSON_Delete(head);
    if (text == NULL)
        return kvt_fail_nomem(err, "results.json");
    /* The object stays open for its last member. */
    char *end = strrchr(text, '}');
    while (end > text && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    fwrite(text, 1, (size_t)(end - text), stream);
    fputs(",\n  \"points\": [", stream);
    free(text);
    return KVT_OK;
}

/* As --set reads it: JSON where it is some, else a text. */
static cJSON *value_of(const char *text)
{
    cJSON *value = NULL;

    if (text == NULL)
        return cJSON_CreateNull();
    if (kvt_json_parse(text, strlen(text), "", 1, &value, NULL) == KVT_OK)
        return value;
    return cJSON_CreateString(text);
}

static bool add_inputs(cJSON *object, const struct sweep_grid *grid, size_t point)
{
    cJSON *inputs = kvt_json_add_object(object, "inputs");
    size_t group = 0;
    bool ok = inputs != NULL;

    for (size_t a = 0; ok && a < grid->axis_count; a++)
        ok = kvt_json_add(inputs, sweep_grid_axis(grid, a, &group)->path,
                          value_of(sweep_grid_value(grid, point, a)));
    return ok;
}

static bool add_hash(cJSON *object, const char *key, uint64_t hash, bool is_known)
{
    char text[SWEEP_HASH_BYTES];

    (void)snprintf(text, sizeof text, "%016" PRIx64, hash);
    return kvt_json_add_text(object, key, is_known ? text : NULL);
}

static bool add_interval(cJSON *object, const char *key, const struct kvt_estimate *estimate)
{
    const double ends[] = {estimate->low, estimate->high};

    return !isfinite(estimate->low) || !isfinite(estimate->high) ||
           kvt_json_add(object, key, cJSON_CreateDoubleArray(ends, 2));
}

static bool add_metrics(cJSON *object, const struct sweep_table *table, const struct sweep_row *row)
{
    cJSON *metrics = kvt_json_add_object(object, "metrics");
    cJSON *intervals = kvt_json_add_object(object, "metrics_ci95");
    bool ok = metrics != NULL && intervals != NULL;

    for (size_t m = 0; ok && row->estimate != NULL && m < table->metric_count; m++)
        ok = kvt_json_add_number(metrics, table->metrics[m].name, row->estimate[m].mean) &&
             (table->seed_count == 1 ||
              add_interval(intervals, table->metrics[m].name, &row->estimate[m]));
    return ok;
}

static cJSON *tree_of(const struct sweep_table *table, const struct sweep_row *row)
{
    cJSON *object = cJSON_CreateObject();
    bool has_run = row->outcome == SWEEP_OK;
    bool ok =
        object != NULL && kvt_json_add_number(object, "point", (double)row->point) &&
        add_inputs(object, &table->grid, row->point) &&
        kvt_json_add_text(object, "status", sweep_outcome_name(row->outcome)) &&
        kvt_json_add_text(object, "message", row->message) &&
        kvt_json_add_bool(object, "bound", row->is_bound) &&
        kvt_json_add_text(object, "basis", row->basis[0] != '\0' ? row->basis : NULL) &&
        add_hash(object, "scenario_hash", row->scenario_hash, row->outcome != SWEEP_REFUSED) &&
        add_hash(object, "decision_hash", row->decision_hash, has_run && row->decision_hash != 0) &&
        add_metrics(object, table, row) && kvt_badge_add(object, &row->badge);

    if (ok)
        return object;
    cJSON_Delete(object);
    return NULL;
}

kvt_status sweep_json_row(FILE *stream, const struct sweep_table *table,
                          const struct sweep_row *row, struct kvt_error *err)
{
    cJSON *tree = tree_of(table, row);
    char *text = tree != NULL ? sweep_print_line(tree) : NULL;

    cJSON_Delete(tree);
    if (text == NULL)
        return kvt_fail_nomem(err, "results.json");
    fprintf(stream, "%s\n    %s", row->point > 0 ? "," : "", text);
    free(text);
    return KVT_OK;
}

void sweep_json_end(FILE *stream, const struct sweep_counts *counts)
{
    fprintf(stream, "\n  ],\n  \"point_count\": %zu,\n  \"failed_points\": %zu\n}\n",
            counts->points, counts->failed_points);
}
