/* report.c -- what an engine would do with its flags, as JSON and for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "engine.h"
#include "kvt/json.h"

/* ---- JSON --------------------------------------------------------------------------------- */

kvt_status engine_rules_tree(const struct kvt_engine *engine, const struct kvt_engine_facts *facts,
                             enum kvt_engine_effect effect, struct kvt_arena *arena, cJSON **out,
                             struct kvt_error *err)
{
    cJSON *array = cJSON_CreateArray();
    bool ok = array != NULL;

    for (uint32_t i = 0; ok && i < engine->rule_count; i++) {
        const struct kvt_engine_rule *rule = &engine->rules[i];
        if (rule->effect != effect || !kvt_engine_applies(rule, facts))
            continue;
        const char *instead =
            rule->instead != NULL ? kvt_engine_sentence(rule->instead, facts, arena) : NULL;
        cJSON *entry = kvt_json_add_element(array);
        ok = entry != NULL && kvt_json_add_text(entry, "id", rule->id) &&
             kvt_json_add_text(entry, "says", kvt_engine_sentence(rule->says, facts, arena)) &&
             (instead == NULL || kvt_json_add_text(entry, "instead", instead)) &&
             kvt_json_add_text(entry, "source", rule->source);
    }
    *out = array;
    return ok ? KVT_OK : kvt_fail_nomem(err, "the rules of an engine");
}

static bool add_notes(cJSON *tree, const char *key, const struct engine_notes *notes)
{
    cJSON *array = cJSON_AddArrayToObject(tree, key);

    for (size_t i = 0; array != NULL && i < notes->count; i++) {
        if (!cJSON_AddItemToArray(array, cJSON_CreateString(notes->items[i])))
            return false;
    }
    return array != NULL;
}

static bool add_facts(cJSON *tree, const struct kvt_engine_facts *facts)
{
    size_t count = 0;
    const struct kvt_engine_fact_doc *docs = kvt_engine_facts(&count);
    cJSON *object = kvt_json_add_object(tree, "facts");
    bool ok = object != NULL;

    for (size_t i = 0; ok && i < count; i++) {
        if (!facts->of[i].is_known)
            continue;
        ok = docs[i].kind == KVT_FACT_TEXT
                 ? kvt_json_add_text(object, docs[i].name, facts->of[i].text)
             : docs[i].kind == KVT_FACT_BOOL
                 ? kvt_json_add_bool(object, docs[i].name, facts->of[i].number != 0)
                 : kvt_json_add_number(object, docs[i].name, facts->of[i].number);
    }
    return ok;
}

/* The figures that people see of the pool, GiB of a GPU. */
static bool add_memory(cJSON *tree, const struct engine_start *start)
{
    const struct kvt_decode_pool *pool = &start->scenario.pools[0];
    cJSON *memory = NULL;
    double pool_bytes = (double)(pool->index_pool_bytes + pool->rows_pool_bytes);

    if (!start->is_bound)
        return true;
    memory = kvt_json_add_object(tree, "memory");
    if (memory == NULL ||
        !kvt_json_add_number(memory, "sold_gib", pool->hardware->hbm_gb * 1e9 / (double)KVT_GIB) ||
        !kvt_json_add_number(memory, "weights_gib", pool->weights_gib_per_gpu) ||
        !kvt_json_add_number(memory, "workspace_gib", pool->hardware->workspace_gib) ||
        !kvt_json_add_bool(memory, "weights_fit", pool->weights_fit) ||
        !kvt_json_add_number(memory, "pool_gib", pool_bytes / (double)KVT_GIB))
        return false;
    if (start->engine->layout.kind != KVT_ENGINE_BLOCKS ||
        !kvt_engine_is(&start->facts, "hierarchy"))
        return true;
    struct kvt_engine_blocks blocks =
        kvt_engine_blocks_of(&start->engine->layout, start->scenario.llm);
    uint64_t count = (uint64_t)pool_bytes / blocks.block_bytes;
    return kvt_json_add_number(memory, "block_bytes", (double)blocks.block_bytes) &&
           kvt_json_add_number(memory, "blocks", (double)count) &&
           kvt_json_add_number(memory, "payload_groups", blocks.payload_groups);
}

static kvt_status add_rules(cJSON *tree, const struct engine_start *start, struct kvt_arena *arena,
                            struct kvt_error *err)
{
    static const struct {
        const char *key;
        enum kvt_engine_effect effect;
    } lists[] = {
        {"refused", KVT_ENGINE_REFUSES}, {"off", KVT_ENGINE_OFF}, {"warnings", KVT_ENGINE_WARNS}};
    kvt_status status = KVT_OK;

    for (size_t i = 0; status == KVT_OK && i < sizeof lists / sizeof lists[0]; i++) {
        cJSON *array = NULL;
        status =
            engine_rules_tree(start->engine, &start->facts, lists[i].effect, arena, &array, err);
        if (!kvt_json_add(tree, lists[i].key, array) && status == KVT_OK)
            status = kvt_fail_nomem(err, "the rules of an engine");
    }
    return status;
}

kvt_status engine_start_tree(const struct engine_start *start, const struct engine_notes *ignored,
                             struct kvt_arena *arena, cJSON **out, struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();
    cJSON *sizes = start->is_bound ? kvt_size_tree(&start->scenario, start->engine, start->sizes,
                                                   start->length_count)
                                   : NULL;
    bool ok = tree != NULL && kvt_json_add_text(tree, "schema", "kvtide/engine-check/1") &&
              kvt_json_add_text(tree, "engine", start->engine->name) &&
              kvt_json_add_text(tree, "describes", start->engine->describes) &&
              add_facts(tree, &start->facts) &&
              kvt_json_add(tree, "scenario", cJSON_Duplicate(start->tree, true)) &&
              add_memory(tree, start) &&
              kvt_json_add_text(tree, "admission", start->engine->admission);
    kvt_status status = ok ? add_rules(tree, start, arena, err) : kvt_fail_nomem(err, "an answer");

    if (status == KVT_OK)
        ok = add_notes(tree, "faults", &start->faults) &&
             add_notes(tree, "assumed", &start->assumed) &&
             add_notes(tree, "not_considered", ignored);
    if (status == KVT_OK && start->is_bound) {
        double says = engine_says_concurrency(start);
        ok = ok && kvt_json_add(tree, "sizes", sizes) &&
             (says <= 0 || kvt_json_add_number(tree, "engine_says_concurrency", says));
        sizes = NULL;
    }
    if (status == KVT_OK)
        ok = ok && kvt_json_add_bool(tree, "starts", engine_starts(tree));
    if (status == KVT_OK && !ok)
        status = kvt_fail_nomem(err, "an answer");
    cJSON_Delete(sizes);
    *out = tree;
    return status;
}

bool engine_starts(const cJSON *tree)
{
    const cJSON *memory = kvt_json_find(tree, "memory");
    const cJSON *sizes = kvt_json_find(tree, "sizes");
    const cJSON *size = NULL;
    bool runs = false;

    if (cJSON_GetArraySize(kvt_json_find(tree, "refused")) > 0 ||
        cJSON_GetArraySize(kvt_json_find(tree, "faults")) > 0)
        return false;
    if (memory != NULL && cJSON_IsFalse(kvt_json_find(memory, "weights_fit")))
        return false;
    cJSON_ArrayForEach(size, kvt_json_find(sizes, "sizes"))
    {
        runs = runs || kvt_json_find(size, "running")->valuedouble > 0;
    }
    return runs;
}

/* ---- For people ----------------------------------------------------------------------------- */

static double number_of(const cJSON *tree, const char *key)
{
    const cJSON *item = kvt_json_find(tree, key);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static const char *text_of(const cJSON *tree, const char *key)
{
    const cJSON *item = kvt_json_find(tree, key);

    return cJSON_IsString(item) ? item->valuestring : "";
}

static void put_line(const char *label, const char *text)
{
    printf("%-11s", label);
    (void)cli_put_wrapped(text, 11, 11);
    putchar('\n');
}

static void print_rules(const char *label, const cJSON *array)
{
    const cJSON *rule = NULL;

    cJSON_ArrayForEach(rule, array)
    {
        const char *instead = text_of(rule, "instead");
        put_line(label, text_of(rule, "says"));
        if (instead[0] != '\0') {
            printf("%11sinstead: ", "");
            (void)cli_put_wrapped(instead, 20, 11);
            putchar('\n');
        }
        printf("%11s[", "");
        (void)cli_put_wrapped(text_of(rule, "source"), 12, 12);
        puts("]");
    }
}

static void print_notes(const char *label, const cJSON *array)
{
    const cJSON *note = NULL;

    cJSON_ArrayForEach(note, array)
    {
        put_line(note == array->child ? label : "", note->valuestring);
    }
}

static void print_head(const cJSON *tree)
{
    const cJSON *facts = kvt_json_find(tree, "facts");
    const cJSON *residency = kvt_json_find(kvt_json_find(tree, "scenario"), "residency");
    double hot = number_of(facts, "hot_tokens"), queries = number_of(facts, "queries");

    printf("%s: %s on %g x %s, tp %g, dp %g, ep %g\n", text_of(tree, "engine"),
           text_of(facts, "model"), number_of(facts, "gpus"), text_of(facts, "hardware"),
           number_of(facts, "tp"), number_of(facts, "dp"), number_of(facts, "ep"));
    printf("scenario   residency %s", text_of(residency, "policy"));
    if (hot > 0 && cJSON_IsTrue(kvt_json_find(facts, "hierarchy")))
        printf(", %.0f hot tokens", hot);
    printf(", %.0f quer%s a round, rows of %.0f B (--print gives it to be run)\n", queries,
           queries == 1 ? "y" : "ies", number_of(facts, "row_bytes"));
}

static void print_memory(const cJSON *memory, double beside_gib)
{
    if (memory == NULL)
        return;
    printf("memory     GiB of each GPU: %.1f sold, %.1f weights, %.1f workspace; ",
           number_of(memory, "sold_gib"), number_of(memory, "weights_gib"),
           number_of(memory, "workspace_gib"));
    if (cJSON_IsFalse(kvt_json_find(memory, "weights_fit"))) {
        puts("the weights do not fit");
        return;
    }
    printf("pool %.2f", number_of(memory, "pool_gib"));
    if (beside_gib > 0)
        printf(", %.2f of it not budgeted", beside_gib);
    putchar('\n');
    if (kvt_json_find(memory, "blocks") != NULL)
        printf("%11s%.0f blocks of %.0f B, %.0f groups of payload layers\n", "",
               number_of(memory, "blocks"), number_of(memory, "block_bytes"),
               number_of(memory, "payload_groups"));
}

/* Host DRAM beside what the engine pins, where it does. */
static void print_sizes(const cJSON *tree)
{
    const cJSON *facts = kvt_json_find(tree, "facts");
    const cJSON *size = NULL;
    double pinned = number_of(facts, "host_pinned_gib");

    printf("fits       %8s %7s %7s  %-10s %13s | %s\n", "tokens", "replica", "in all", "limited by",
           "host GiB/node", "all in HBM");
    cJSON_ArrayForEach(size, kvt_json_find(kvt_json_find(tree, "sizes"), "sizes"))
    {
        const cJSON *resident = kvt_json_find(size, "resident");
        printf("%11s%8.0f %7.0f %7.0f  %-10s %13.1f | %.0f\n", "", number_of(size, "tokens"),
               number_of(size, "running_per_gpu"), number_of(size, "running"),
               text_of(size, "limited_by"),
               number_of(size, "host_bytes_at_limit") / (double)KVT_GIB,
               number_of(resident, "running"));
    }
    if (pinned > 0)
        printf("%11sof %.1f GiB of host DRAM that a node pins, of %.0f that it has\n", "", pinned,
               number_of(facts, "host_node_gib"));
}

void engine_print_start(const cJSON *tree)
{
    const cJSON *says = kvt_json_find(tree, "engine_says_concurrency");

    print_head(tree);
    print_memory(kvt_json_find(tree, "memory"),
                 number_of(kvt_json_find(tree, "facts"), "index_unbudgeted_gib"));
    if (kvt_json_find(tree, "sizes") != NULL)
        print_sizes(tree);
    if (says != NULL)
        printf("says       \"Maximum concurrency for %.0f tokens per request: %.2fx\"%s\n",
               number_of(kvt_json_find(tree, "facts"), "max_tokens"), says->valuedouble,
               cJSON_IsTrue(kvt_json_find(kvt_json_find(tree, "facts"), "hierarchy")) ? " at most"
                                                                                      : "");
    put_line("admission", text_of(tree, "admission"));
    print_rules("refused", kvt_json_find(tree, "refused"));
    print_notes("refused", kvt_json_find(tree, "faults"));
    print_rules("off", kvt_json_find(tree, "off"));
    print_rules("warning", kvt_json_find(tree, "warnings"));
    print_notes("assumed", kvt_json_find(tree, "assumed"));
    int unknown = cJSON_GetArraySize(kvt_json_find(tree, "not_considered"));
    if (unknown > 0) {
        char label[48];
        (void)snprintf(label, sizeof label, "%d flag%s", unknown, unknown == 1 ? "" : "s");
        printf("%-11snot considered: nothing here knows\n", label);
        print_notes("", kvt_json_find(tree, "not_considered"));
    }
    printf("answer     %s\n", engine_starts(tree) ? "it starts and runs" : "it does not run so");
}
