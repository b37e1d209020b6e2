/* bind_kinds.c -- kinds of requests, and what they name elsewhere in the scenario. */
#include <math.h>
#include <stdio.h>

#include "bind.h"

/* The optional text, or NULL. */
static const char *text_or_none(const cJSON *object, const char *name)
{
    const cJSON *node = kvt_tree_find(object, name);
    return cJSON_IsString(node) ? node->valuestring : NULL;
}

static kvt_status bind_lengths(struct kvt_load *load, struct kvt_scenario *out, uint32_t number,
                               struct kvt_error *err)
{
    static const char *const names[] = {"input", "output"};
    struct kvt_choice *choices[] = {&out->kinds[number].input_length,
                                    &out->kinds[number].output_length};
    kvt_status status = KVT_OK;

    for (size_t i = 0; i < 2 && status == KVT_OK; i++) {
        char dotted[KVT_DOTTED_BYTES];
        (void)snprintf(dotted, sizeof dotted, "workload.classes.%u.lengths.%s", number, names[i]);
        status = kvt_bind_choice(load, dotted, choices[i], err);
        if (status == KVT_OK)
            status = kvt_check_length(load, out, dotted, choices[i], err);
    }
    return status;
}

static kvt_status check_name(struct kvt_load *load, const struct kvt_scenario *scenario,
                             const struct kvt_kind *kind, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];

    for (const struct kvt_kind *other = scenario->kinds; other < kind; other++) {
        if (strcmp(other->name, kind->name) == 0)
            return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "workload.classes", place),
                            "two classes are called \"%s\"; each needs a name of its own",
                            kind->name);
    }
    return KVT_OK;
}

/* Mean values are of no class: it has left the scenario in force then. */
static kvt_status check_slo_class(struct kvt_load *load, const struct kvt_scenario *scenario,
                                  uint32_t number, struct kvt_kind *kind, struct kvt_error *err)
{
    char dotted[KVT_DOTTED_BYTES];
    char place[KVT_PLACE_BYTES];
    char names[256] = "";
    size_t used = 0;

    if (scenario->fidelity == KVT_FIDELITY_ANALYTIC)
        kind->slo_class = NULL;
    if (kind->slo_class == NULL)
        return KVT_OK;
    for (uint32_t c = 0; c < scenario->slo_class_count; c++) {
        const char *name = scenario->slo_classes[c].name;
        if (strcmp(name, kind->slo_class) == 0)
            return KVT_OK;
        int wrote = snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", name);
        used = wrote > 0 && used + (size_t)wrote < sizeof names ? used + (size_t)wrote : used;
    }
    (void)snprintf(dotted, sizeof dotted, "workload.classes.%u.slo_class", number);
    return kvt_fail(err, KVT_ERR_NOT_FOUND, kvt_load_place(load, dotted, place),
                    "\"%s\" is not among the scenario's slo.classes; there are: %s",
                    kind->slo_class, scenario->slo_class_count > 0 ? names : "none");
}

static kvt_status check_task(struct kvt_load *load, const struct kvt_scenario *scenario,
                             uint32_t number, const struct kvt_kind *kind, struct kvt_error *err)
{
    char dotted[KVT_DOTTED_BYTES];
    char place[KVT_PLACE_BYTES];

    if (kind->task == NULL || !scenario->has_task_table)
        return KVT_OK;
    for (uint32_t t = 0; t < scenario->task_count; t++) {
        if (strcmp(scenario->tasks[t], kind->task) == 0)
            return KVT_OK;
    }
    (void)snprintf(dotted, sizeof dotted, "workload.classes.%u.task", number);
    return kvt_fail(err, KVT_ERR_NOT_FOUND, kvt_load_place(load, dotted, place),
                    "\"%.64s\": no such task in the table of speculation.acceptance", kind->task);
}

static kvt_status bind_kind(struct kvt_load *load, struct kvt_scenario *out, const cJSON *item,
                            struct kvt_error *err)
{
    uint32_t number = out->kind_count;
    struct kvt_kind *kind = &out->kinds[number];

    *kind = (struct kvt_kind){.name = kvt_text_at(item, "name"),
                              .share = kvt_real_at(item, "share"),
                              .slo_class = text_or_none(item, "slo_class"),
                              .task = text_or_none(item, "task"),
                              .shared_prefix_tokens = kvt_count_at(item, "shared_prefix_tokens")};
    kvt_status status = check_name(load, out, kind, err);
    if (status == KVT_OK)
        status = bind_lengths(load, out, number, err);
    if (status == KVT_OK)
        status = check_slo_class(load, out, number, kind, err);
    if (status == KVT_OK)
        status = check_task(load, out, number, kind, err);
    out->kind_count++;
    return status;
}

kvt_status kvt_bind_kinds(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char number[32];
    double sum = 0;
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, kvt_tree_at(load->tree, "workload.classes"))
    {
        kvt_status status = bind_kind(load, out, item, err);
        if (status != KVT_OK)
            return status;
        sum += out->kinds[out->kind_count - 1].share;
    }
    if (out->kind_count == 0 || fabs(sum - 1) <= 1e-9)
        return KVT_OK;
    kvt_json_print_number(sum, number);
    return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "workload.classes", place),
                    "the shares of the classes sum to %s; 1 is expected", number);
}
