/* bind.c -- the tree in force as a struct: models read, plug-ins with their values, cross checks.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bind.h"
#include "kvt/speculation.h"

/* ---- Plug-ins ------------------------------------------------------------------------- */

/* Numbers of a list of numbers, or of records row by row, in the order of names. */
static kvt_status bind_list(struct kvt_arena *arena, const struct kvt_param_spec *spec,
                            const cJSON *node, struct kvt_param_value *out, struct kvt_error *err)
{
    size_t columns = spec->type == KVT_PARAM_RECORDS ? kvt_choice_count(spec->choices) : 1;
    bool is_alone = cJSON_IsNumber(node);
    size_t rows = is_alone ? 1 : (size_t)cJSON_GetArraySize(node);
    double *list = kvt_arena_array(arena, rows * columns, sizeof(double), _Alignof(double));
    if (list == NULL)
        return kvt_fail_nomem(err, "a scenario");
    size_t at = 0;
    if (is_alone)
        list[at++] = node->valuedouble;
    for (const cJSON *item = node->child; item != NULL; item = item->next) {
        if (spec->type == KVT_PARAM_LIST) {
            list[at++] = item->valuedouble;
            continue;
        }
        for (size_t i = 0; i < columns; i++) {
            char name[64];
            size_t length = 0;
            const char *choice = kvt_choice_at(spec->choices, i, &length);
            (void)snprintf(name, sizeof name, "%.*s", (int)length, choice);
            list[at++] = kvt_real_at(item, name);
        }
    }
    out->list = list;
    out->list_length = at;
    return KVT_OK;
}

kvt_status kvt_bind_param(struct kvt_arena *arena, const struct kvt_param_spec *spec,
                          const cJSON *node, struct kvt_param_value *out, struct kvt_error *err)
{
    switch (spec->type) {
    case KVT_PARAM_COUNT:
    case KVT_PARAM_REAL:
        out->number = node->valuedouble;
        return KVT_OK;
    case KVT_PARAM_BOOL:
        out->number = cJSON_IsTrue(node) ? 1 : 0;
        return KVT_OK;
    case KVT_PARAM_CHOICE:
        out->number = kvt_choice_index(spec->choices, node->valuestring);
        out->text = node->valuestring;
        return KVT_OK;
    case KVT_PARAM_TEXT:
        out->text = node->valuestring;
        return KVT_OK;
    case KVT_PARAM_LIST:
    case KVT_PARAM_RECORDS:
        return bind_list(arena, spec, node, out, err);
    }
    return kvt_fail(err, KVT_ERR_INTERNAL, spec->name, "this parameter has no known type");
}

/* Files that a plug-in will read are found and hashed here, where the tree is at hand. A
 * drafter is the host's to read. */
static kvt_status bind_file(struct kvt_load *load, const struct kvt_param_spec *spec,
                            const char *dotted, struct kvt_param_value *value,
                            struct kvt_error *err)
{
    char path[KVT_DOTTED_BYTES];
    char place[KVT_PLACE_BYTES];
    struct kvt_found found;
    const struct kvt_key key = kvt_key_of_param(spec);

    (void)snprintf(path, sizeof path, "%s.%s", dotted, spec->name);
    const char *where = kvt_load_place(load, path, place);
    if (key.is_path && value->text[0] != '\0')
        return kvt_hash_input(load, &(struct kvt_found){value->text, value->text}, where, err);
    if (!key.is_name || strcmp(spec->name, "drafter") == 0 || strcmp(value->text, "none") == 0)
        return KVT_OK;
    kvt_status status =
        kvt_find_file(load, value->text, key.folder, key.noun, "", where, &found, err);
    if (status != KVT_OK)
        return status;
    value->text = found.path;
    return kvt_hash_input(load, &found, where, err);
}

/* Elements of a list are called by their number, and have their list's members. */
static const struct kvt_key *key_at(const char *dotted)
{
    const struct kvt_key *key = kvt_keys_root();
    char name[KVT_DOTTED_BYTES];
    for (const char *at = dotted; *at != '\0';) {
        size_t length = strcspn(at, ".");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (strspn(name, "0123456789") != length)
            key = kvt_key_member(key, name);
        at += length + (at[length] == '.' ? 1 : 0);
    }
    return key;
}

kvt_status kvt_bind_choice(struct kvt_load *load, const char *dotted, struct kvt_choice *out,
                           struct kvt_error *err)
{
    const struct kvt_key *key = key_at(dotted);
    const cJSON *object = kvt_tree_at(load->tree, dotted);
    const struct kvt_plugin_info *info = kvt_chosen(load, key, object);
    struct kvt_param_value *values = kvt_arena_array(load->arena, info->param_count, sizeof *values,
                                                     _Alignof(struct kvt_param_value));
    if (values == NULL)
        return kvt_fail_nomem(err, "a scenario");
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        const cJSON *node = kvt_tree_find(object, spec->name);
        kvt_status status = kvt_bind_param(load->arena, spec, node, &values[i], err);
        if (status == KVT_OK)
            status = bind_file(load, spec, dotted, &values[i], err);
        if (status != KVT_OK)
            return status;
    }
    out->info = info;
    out->params = (struct kvt_params){.values = values, .count = info->param_count};
    return KVT_OK;
}

static kvt_status bind_choices(struct kvt_load *load, struct kvt_scenario *out,
                               struct kvt_error *err)
{
    const struct {
        const char *dotted;
        struct kvt_choice *choice;
    } choices[] = {
        {"cluster.import", &out->import},
        {"cluster.router", &out->router},
        {"cluster.scheduling", &out->scheduling},
        {"residency", &out->residency},
        {"replacement", &out->replacement},
        {"speculation", &out->speculation},
        {"selection", &out->selection},
        {"timing", &out->timing},
        {"workload", &out->arrival},
        {"workload.lengths.input", &out->input_length},
        {"workload.lengths.output", &out->output_length},
        {"backend", &out->backend},
    };
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (kvt_tree_at(load->tree, choices[i].dotted) == NULL)
            continue; /* lengths, where the arrival brings its own */
        kvt_status status = kvt_bind_choice(load, choices[i].dotted, choices[i].choice, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* ---- The rest ---------------------------------------------------------------------------------
 */

static kvt_status bind_classes(struct kvt_load *load, struct kvt_scenario *out,
                               struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    double sum = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, kvt_tree_at(load->tree, "slo.classes"))
    {
        struct kvt_slo_class *slo = &out->slo_classes[out->slo_class_count];
        *slo = (struct kvt_slo_class){.name = kvt_text_at(item, "name"),
                                      .share = kvt_real_at(item, "share"),
                                      .priority = kvt_count_at(item, "priority"),
                                      .ttft_ms = kvt_real_at(item, "ttft_ms"),
                                      .tpot_ms = kvt_real_at(item, "tpot_ms"),
                                      .e2el_ms = kvt_real_at(item, "e2el_ms"),
                                      .attain = kvt_real_at(item, "attain")};
        for (uint32_t i = 0; i < out->slo_class_count; i++) {
            if (strcmp(out->slo_classes[i].name, slo->name) != 0)
                continue;
            return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "slo.classes", place),
                            "two classes are called \"%s\"; each needs a name of its own",
                            slo->name);
        }
        sum += slo->share;
        out->slo_class_count++;
    }
    if (out->slo_class_count > 0 && fabs(sum - 1) > 1e-9) {
        char number[32];
        kvt_json_print_number(sum, number);
        return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "slo.classes", place),
                        "the shares of the classes sum to %s; 1 is expected", number);
    }
    return KVT_OK;
}

enum {
    SAMPLE_REQUESTS = 2 /* where the key run.sample_requests has no effect: its default */
};

static kvt_status bind_run(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const cJSON *run = kvt_tree_at(load->tree, "run");
    const cJSON *warmup = kvt_tree_find(run, "warmup");
    const char *rule = kvt_text_at(warmup, "rule");
    out->duration_s = kvt_real_at(run, "duration_s");
    out->interval_s = kvt_real_at(run, "interval_s");
    for (int f = 0; f < KVT_FIDELITIES; f++) {
        if (strcmp(kvt_text_at(run, "fidelity"), kvt_fidelity_name((enum kvt_fidelity)f)) == 0)
            out->fidelity = (enum kvt_fidelity)f;
    }
    out->sample_stores = (uint32_t)kvt_real_or(run, "sample_stores", out->llm->store_count);
    out->sample_requests = (uint32_t)kvt_real_or(run, "sample_requests", SAMPLE_REQUESTS);
    if (out->sample_stores > out->llm->store_count) {
        return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "run.sample_stores", place),
                        "%u stores to follow; %s has %u", out->sample_stores, out->llm->name,
                        out->llm->store_count);
    }
    if (strcmp(rule, "none") != 0) {
        bool is_seconds = strcmp(rule, "seconds") == 0;
        out->warmup_rule = is_seconds ? KVT_WARMUP_SECONDS : KVT_WARMUP_REQUESTS;
        out->warmup_value = kvt_real_at(warmup, "value");
        if (!is_seconds && out->warmup_value != floor(out->warmup_value)) {
            char number[32];
            kvt_json_print_number(out->warmup_value, number);
            return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "run.warmup.value", place),
                            "%s is not a whole number of requests", number);
        }
    }
    return KVT_OK;
}

static kvt_status bind_hot_tokens(struct kvt_load *load, struct kvt_scenario *out,
                                  struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const cJSON *node = kvt_tree_at(load->tree, "residency.hot_tokens");
    double multiple = 0;
    double tokens = 0;
    if (cJSON_IsNumber(node)) {
        tokens = node->valuedouble;
    } else if (kvt_hot_multiple(node->valuestring, &multiple)) {
        tokens = floor(multiple * out->llm->top_k * kvt_llm_block_rows(out->llm));
    } else {
        uint32_t ratio = 1;
        for (uint32_t i = 0; i < out->llm->store_count; i++) {
            if (out->llm->stores[i].compress_ratio > ratio)
                ratio = out->llm->stores[i].compress_ratio;
        }
        tokens = ((double)out->queries_max + 1) * out->llm->top_k * ratio;
    }
    if (tokens < 1 || tokens > 1e9) {
        return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "residency.hot_tokens", place),
                        "\"%s\" is %.0f tokens; 1 to 1000000000 are expected", node->valuestring,
                        tokens);
    }
    out->hot_tokens = (uint64_t)tokens;
    return KVT_OK;
}

/* A length that can never be served is a fault of the scenario, found before the
 * run: fixed and mean lengths against what the model can hold. */
kvt_status kvt_check_length(struct kvt_load *load, const struct kvt_scenario *scenario,
                            const char *dotted, const struct kvt_choice *choice,
                            struct kvt_error *err)
{
    static const char *const params[] = {"tokens", "mean_tokens"};
    for (size_t i = 0; i < 2; i++) {
        char path[KVT_DOTTED_BYTES];
        char place[KVT_PLACE_BYTES];
        const struct kvt_param_value *value = kvt_param_of(choice, params[i]);
        if (value == NULL || value->number < scenario->llm->max_position_tokens)
            continue;
        (void)snprintf(path, sizeof path, "%s.%s", dotted, params[i]);
        return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, path, place),
                        "%.0f tokens; %s holds %u, prompt and answer together", value->number,
                        scenario->llm->name, scenario->llm->max_position_tokens);
    }
    return KVT_OK;
}

/* ---- Speculation ------------------------------------------------------------------------- */

enum {
    NAMES_BYTES = 256
};

/* "a, b, c": what a message has room for. */
static void list_names(const cJSON *object, char out[NAMES_BYTES])
{
    size_t used = 0;
    out[0] = '\0';
    for (const cJSON *item = object->child; item != NULL && used < NAMES_BYTES; item = item->next) {
        int wrote =
            snprintf(out + used, NAMES_BYTES - used, "%s%s", used > 0 ? ", " : "", item->string);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* Names of the lists in the table, workload.task first. */
static kvt_status list_tasks(struct kvt_load *load, const cJSON *lists, const char *first,
                             struct kvt_scenario *out, struct kvt_error *err)
{
    size_t count = 1 + (size_t)cJSON_GetArraySize(lists);
    const char **tasks = kvt_arena_array(load->arena, count, sizeof *tasks, _Alignof(char *));
    const cJSON *list = NULL;

    if (tasks == NULL)
        return kvt_fail_nomem(err, "the tasks of a scenario");
    tasks[0] = first;
    out->task_count = 1;
    cJSON_ArrayForEach(list, lists)
    {
        if (strcmp(list->string, first) == 0)
            continue;
        const char *task = kvt_arena_strdup(load->arena, list->string);
        if (task == NULL)
            return kvt_fail_nomem(err, "the tasks of a scenario");
        tasks[out->task_count++] = task;
    }
    out->tasks = tasks;
    return KVT_OK;
}

/* Requests are about the tasks that the method's table of acceptance knows; without a table it is
 * all one. */
static kvt_status bind_tasks(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    enum {
        TABLE_BYTES_MAX = 1 << 20
    };
    char place[KVT_PLACE_BYTES];
    char names[NAMES_BYTES];
    const char *task = kvt_text_at(kvt_tree_at(load->tree, "workload"), "task");
    const struct kvt_param_value *table = kvt_param_of(&out->speculation, "acceptance");
    cJSON *tree = NULL;

    out->has_task_table = table != NULL;
    if (table == NULL)
        return list_tasks(load, NULL, task, out, err);
    kvt_status status = kvt_acceptance_check(table->text, err);
    if (status == KVT_OK)
        status = kvt_json_load(table->text, TABLE_BYTES_MAX, &tree, err);
    const cJSON *lists = kvt_json_find(tree, "tasks");
    if (status == KVT_OK && kvt_json_find(lists, task) == NULL) {
        list_names(lists, names);
        status = kvt_fail(err, KVT_ERR_NOT_FOUND, kvt_load_place(load, "workload.task", place),
                          "\"%.64s\": no such task in \"tasks\" of %s; there are: %s", task,
                          table->text, names);
    }
    if (status == KVT_OK)
        status = list_tasks(load, lists, task, out, err);
    cJSON_Delete(tree);
    return status;
}

/* The widest round: asked of the method itself, which reads its tables for it. */
static kvt_status bind_shape(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    const struct kvt_speculation_method *method =
        (const struct kvt_speculation_method *)(const void *)out->speculation.info;
    struct kvt_speculation_env env = {.params = out->speculation.params,
                                      .llm = out->llm,
                                      .drafter = out->drafter,
                                      .tasks = out->tasks,
                                      .task_count = out->task_count,
                                      .run_seed = out->seed,
                                      .host = kvt_host()};
    struct kvt_speculation_shape shape;
    char place[KVT_PLACE_BYTES];
    void *data = NULL;

    kvt_status status = KVT_PLUGIN_CALL(method, prepare, err, &env, &data);
    if (status != KVT_OK) {
        kvt_tree_locate(load->tree, load->main, err);
        return status;
    }
    method->shape(data, &shape);
    method->free(data);
    out->queries_max = shape.queries_max;
    out->draft_budget_tokens = shape.draft_budget_tokens;
    if (out->drafter != NULL && out->queries_max > out->drafter->block_max) {
        return kvt_fail(err, KVT_ERR_INVALID,
                        kvt_load_place(load,
                                       "speculation.drafter|speculation.drafts|speculation.method",
                                       place),
                        "%u queries a round; %s drafts for at most %u", out->queries_max,
                        out->drafter->name, out->drafter->block_max);
    }
    return KVT_OK;
}

static void bind_retrieval(const struct kvt_load *load, struct kvt_scenario *out)
{
    const cJSON *object = kvt_tree_at(load->tree, "speculation");
    bool by_count = strcmp(kvt_text_at(object, "promotion"), "by_count") == 0;

    out->resolve_each_query = strcmp(kvt_text_at(object, "retrieval"), "each_query") == 0;
    out->promotion = by_count ? KVT_PROMOTE_BY_COUNT : KVT_PROMOTE_NONE;
}

kvt_status kvt_tree_bind(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    out->name = kvt_text_at(load->tree, "name");
    out->seed = (uint64_t)kvt_real_at(load->tree, "seed");

    kvt_status status = bind_choices(load, out, err);
    if (status == KVT_OK)
        status = kvt_bind_model(load, out, err);
    if (status == KVT_OK)
        status = kvt_bind_hardware(load, "hardware", &out->hardware, err);
    if (status == KVT_OK)
        status = kvt_bind_drafter(load, out, err);
    if (status == KVT_OK)
        status = bind_tasks(load, out, err);
    if (status == KVT_OK)
        status = bind_shape(load, out, err);
    if (status != KVT_OK)
        return status;
    bind_retrieval(load, out);
    status = kvt_bind_pools(load, out, err);
    if (status == KVT_OK)
        status = bind_classes(load, out, err);
    if (status == KVT_OK)
        status = bind_run(load, out, err);
    if (status == KVT_OK)
        status = kvt_bind_backend(load, out, err);
    if (status == KVT_OK)
        status = kvt_bind_crossing(load, out, err);
    if (status == KVT_OK)
        status = bind_hot_tokens(load, out, err);
    if (status == KVT_OK)
        status = kvt_bind_staging(load, out, err);
    if (status == KVT_OK)
        status = kvt_check_length(load, out, "workload.lengths.input", &out->input_length, err);
    if (status == KVT_OK)
        status = kvt_check_length(load, out, "workload.lengths.output", &out->output_length, err);
    if (status == KVT_OK)
        status = kvt_bind_kinds(load, out, err);
    if (status == KVT_OK)
        status = kvt_bind_prefill(load, out, err);
    if (status == KVT_OK)
        status = kvt_bind_expenses(load, out, err);
    if (status == KVT_OK)
        status = kvt_bind_faults(load, out, err);
    return status;
}
