/* explain_check.c -- whether what a file says of where time and bytes went is all there. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain_private.h"
#include "kvt/json.h"

enum {
    PLACE_BYTES = 512
};

enum kind {
    NUMBER, /* or null: not known */
    COUNT,  /* a number that is always known */
    TEXT,
    TEXT_OR_NULL,
    BOOL,
    OBJECT,
    ARRAY,
    NUMBERS, /* an object of nothing else */
    CHOICE   /* of a plug-in: its name, or an object */
};

struct member {
    const char *name;
    enum kind kind;
    bool may_lack;
};

static bool is_number(const cJSON *item)
{
    return cJSON_IsNumber(item) || cJSON_IsNull(item);
}

static const char *fault_of(const cJSON *item, enum kind kind)
{
    switch (kind) {
    case NUMBER:
        return is_number(item) ? NULL : "a number";
    case COUNT:
        return cJSON_IsNumber(item) ? NULL : "a number";
    case CHOICE:
        return cJSON_IsString(item) || cJSON_IsObject(item) ? NULL : "a text or an object";
    case TEXT:
        return cJSON_IsString(item) ? NULL : "a text";
    case TEXT_OR_NULL:
        return cJSON_IsString(item) || cJSON_IsNull(item) ? NULL : "a text or null";
    case BOOL:
        return cJSON_IsBool(item) ? NULL : "true or false";
    case ARRAY:
        return cJSON_IsArray(item) ? NULL : "an array";
    case OBJECT:
    case NUMBERS:
        break;
    }
    return cJSON_IsObject(item) ? NULL : "an object";
}

static const char *found(const cJSON *item)
{
    return item == NULL           ? "none"
           : cJSON_IsNull(item)   ? "null"
           : cJSON_IsNumber(item) ? "a number"
           : cJSON_IsString(item) ? "a text"
           : cJSON_IsArray(item)  ? "an array"
           : cJSON_IsObject(item) ? "an object"
                                  : "true or false";
}

static kvt_status refuse(const cJSON *item, const char *place, const char *expected,
                         struct kvt_error *err)
{
    return kvt_fail(err, KVT_ERR_INVALID, place, "found %s, expected %s", found(item), expected);
}

static kvt_status check_numbers(const cJSON *object, const char *place, const char *but,
                                struct kvt_error *err)
{
    const cJSON *item = NULL;
    char inner[PLACE_BYTES];

    cJSON_ArrayForEach(item, object)
    {
        (void)snprintf(inner, sizeof inner, "%.400s/%.100s", place, item->string);
        if (!is_number(item) && strcmp(item->string, but) != 0)
            return refuse(item, inner, "a number", err);
    }
    return KVT_OK;
}

static kvt_status check_members(const cJSON *object, const char *place,
                                const struct member *members, size_t count, struct kvt_error *err)
{
    char inner[PLACE_BYTES];
    kvt_status status = cJSON_IsObject(object) ? KVT_OK : refuse(object, place, "an object", err);

    for (size_t i = 0; i < count && status == KVT_OK; i++) {
        const cJSON *item = kvt_json_find(object, members[i].name);
        const char *expected = fault_of(item, members[i].kind);
        (void)snprintf(inner, sizeof inner, "%.400s/%s", place, members[i].name);
        if (expected != NULL && !(item == NULL && members[i].may_lack))
            return refuse(item, inner, expected, err);
        if (members[i].kind == NUMBERS)
            status = check_numbers(item, inner, "", err);
    }
    return status;
}
#define CHECK(object, place, members, err)                                                         \
    check_members(object, place, members, sizeof(members) / sizeof(members)[0], err)

/* ---- Sums -------------------------------------------------------------------------------------
 */

/* Members whose names end so; *known: any of them is a number. */
static double sum_of(const cJSON *object, const char *ending, bool *known)
{
    const cJSON *item = NULL;
    size_t tail = strlen(ending);
    double sum = 0;

    *known = false;
    cJSON_ArrayForEach(item, object)
    {
        size_t length = strlen(item->string);
        if (!cJSON_IsNumber(item) || length < tail ||
            strcmp(item->string + length - tail, ending) != 0)
            continue;
        sum += item->valuedouble;
        *known = true;
    }
    return sum;
}

/* Parts that do not make up the whole: one has been taken out or changed. */
static kvt_status check_sum(const cJSON *parts, const char *ending, double whole, const char *place,
                            struct kvt_error *err)
{
    bool known = false;
    double sum = sum_of(parts, ending, &known);

    if ((!known && parts->child != NULL) || !isfinite(whole) ||
        fabs(sum - whole) <= 1e-6 * fabs(whole) + 1e-6)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, place, "found parts that sum to %.9g, expected %.9g", sum,
                    whole);
}

/* ---- Parts ------------------------------------------------------------------------------------
 */

static kvt_status check_latency(const cJSON *tree, const char *name, const char *where,
                                struct kvt_error *err)
{
    static const struct member of_requests[] = {{"ms", NUMBER, false},
                                                {"by", TEXT, false},
                                                {"requests", NUMBER, false},
                                                {"parts_ms", NUMBERS, false}};
    static const struct member of_steps[] = {{"ms", NUMBER, false},
                                             {"parts_ms", NUMBERS, false},
                                             {"fetch_hidden_ms", NUMBER, false},
                                             {"barrier_wait_ms", NUMBER, false},
                                             {"backup_stall_ms", NUMBER, false},
                                             {"tokens_per_round", NUMBER, false}};
    const cJSON *object = kvt_json_find(tree, name);
    char place[PLACE_BYTES], parts[PLACE_BYTES + 16];

    (void)snprintf(place, sizeof place, "%.400s/%s", where, name);
    (void)snprintf(parts, sizeof parts, "%s/parts_ms", place);
    kvt_status status = strcmp(name, "step") == 0 ? CHECK(object, place, of_steps, err)
                                                  : CHECK(object, place, of_requests, err);
    return status == KVT_OK ? check_sum(kvt_json_find(object, "parts_ms"), "",
                                        explain_number(object, "ms"), parts, err)
                            : status;
}

static kvt_status check_bytes(const cJSON *tree, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {
        {"hbm_peak_by_class", NUMBERS, false}, {"hbm_peak_bytes", NUMBER, false},
        {"host_peak_bytes", NUMBER, false},    {"link_in", NUMBERS, false},
        {"link_out", NUMBERS, false},          {"dram", NUMBERS, false}};
    static const struct member of_flow[] = {{"bytes", NUMBER, false},
                                            {"bytes_per_s", NUMBER, false},
                                            {"capacity_bytes_per_s", NUMBER, false},
                                            {"utilisation", NUMBER, false}};
    static const struct member in[] = {{"misses_bytes", NUMBER, false},
                                       {"fills_bytes", NUMBER, false},
                                       {"recalls_bytes", NUMBER, false},
                                       {"imports_bytes", NUMBER, false}};
    static const struct member out[] = {{"backups_bytes", NUMBER, false}};
    static const struct member dram[] = {{"link_bytes", NUMBER, false},
                                         {"imports_bytes", NUMBER, false}};
    static const struct {
        const char *name;
        const struct member *parts;
        size_t part_count;
    } flows[] = {{"link_in", in, 4}, {"link_out", out, 1}, {"dram", dram, 2}};
    const cJSON *bytes = kvt_json_find(tree, "bytes");
    char place[PLACE_BYTES], inner[PLACE_BYTES + 32];

    (void)snprintf(place, sizeof place, "%.400s/bytes", where);
    kvt_status status = CHECK(bytes, place, members, err);
    (void)snprintf(inner, sizeof inner, "%s/hbm_peak_by_class", place);
    if (status == KVT_OK)
        status = check_sum(kvt_json_find(bytes, "hbm_peak_by_class"), "",
                           explain_number(bytes, "hbm_peak_bytes"), inner, err);
    for (size_t i = 0; i < sizeof flows / sizeof flows[0] && status == KVT_OK; i++) {
        const cJSON *flow = kvt_json_find(bytes, flows[i].name);
        (void)snprintf(inner, sizeof inner, "%s/%s", place, flows[i].name);
        status = CHECK(flow, inner, of_flow, err);
        if (status == KVT_OK)
            status = check_members(flow, inner, flows[i].parts, flows[i].part_count, err);
        if (status == KVT_OK)
            status = check_sum(flow, "_bytes", explain_number(flow, "bytes"), inner, err);
    }
    return status;
}

static kvt_status check_rows(const cJSON *tree, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {{"selected", NUMBER, false},
                                            {"tail", NUMBER, false},
                                            {"optional", NUMBER, false},
                                            {"hot", NUMBER, false},
                                            {"missed", NUMBER, false}};
    const cJSON *rows = kvt_json_find(tree, "rows");
    char place[PLACE_BYTES];

    (void)snprintf(place, sizeof place, "%.400s/rows", where);
    return CHECK(rows, place, members, err);
}

/* Every entry of a list. */
static kvt_status check_list(const cJSON *list, const char *where, const struct member *members,
                             size_t count, struct kvt_error *err)
{
    const cJSON *item = NULL;
    char place[PLACE_BYTES];
    kvt_status status = KVT_OK;
    int i = 0;

    cJSON_ArrayForEach(item, list)
    {
        (void)snprintf(place, sizeof place, "%.400s/%d", where, i++);
        if (status == KVT_OK)
            status = check_members(item, place, members, count, err);
    }
    return status;
}

static kvt_status check_batch(const cJSON *tree, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {{"now", TEXT, false},
                                            {"says", TEXT, false},
                                            {"next", TEXT_OR_NULL, false},
                                            {"next_at_times", NUMBER, false},
                                            {"decoding_mean", NUMBER, false},
                                            {"prefilling_mean", NUMBER, false},
                                            {"importing_mean", NUMBER, false},
                                            {"waiting_mean", NUMBER, false},
                                            {"slots", NUMBER, false},
                                            {"uses", ARRAY, false}};
    static const struct member of_use[] = {
        {"what", TEXT, false}, {"capacity", NUMBER, false}, {"utilisation", NUMBER, false}};
    const cJSON *batch = kvt_json_find(tree, "batch");
    char place[PLACE_BYTES], uses[PLACE_BYTES + 8];

    (void)snprintf(place, sizeof place, "%.400s/batch", where);
    (void)snprintf(uses, sizeof uses, "%s/uses", place);
    kvt_status status = CHECK(batch, place, members, err);
    return status == KVT_OK ? check_list(kvt_json_find(batch, "uses"), uses, of_use,
                                         sizeof of_use / sizeof of_use[0], err)
                            : status;
}

static kvt_status check_worth(const cJSON *tree, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {{"change", TEXT, false},
                                            {"tpot_ms", NUMBER, false},
                                            {"tpot_change", NUMBER, false},
                                            {"more_slots", NUMBER, false},
                                            {"output_tokens_per_s", NUMBER, false},
                                            {"assumes", TEXT, false}};
    const cJSON *worth = kvt_json_find(tree, "worth");
    char place[PLACE_BYTES];

    (void)snprintf(place, sizeof place, "%.400s/worth", where);
    return cJSON_IsArray(worth)
               ? check_list(worth, place, members, sizeof members / sizeof members[0], err)
               : refuse(worth, place, "an array", err);
}

static kvt_status check_basis(const cJSON *tree, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {
        {"mean_values", BOOL, false}, {"rows", TEXT, false},       {"step_times", TEXT, false},
        {"imports", TEXT, false},     {"selections", TEXT, false}, {"prefill", TEXT, true},
        {"drafts", TEXT, true},       {"added_parts", TEXT, true}, {"added", TEXT, true}};
    char place[PLACE_BYTES];

    (void)snprintf(place, sizeof place, "%.400s/basis", where);
    return CHECK(kvt_json_find(tree, "basis"), place, members, err);
}

/* A tree without its basis, which is of the run alone. */
static kvt_status check_tree(const cJSON *tree, const char *where, struct kvt_error *err)
{
    kvt_status status = cJSON_IsObject(tree) ? check_latency(tree, "tpot", where, err)
                                             : refuse(tree, where, "an object", err);

    if (status == KVT_OK)
        status = check_latency(tree, "ttft", where, err);
    if (status == KVT_OK)
        status = check_latency(tree, "step", where, err);
    if (status == KVT_OK)
        status = check_bytes(tree, where, err);
    if (status == KVT_OK)
        status = check_rows(tree, where, err);
    if (status == KVT_OK)
        status = check_batch(tree, where, err);
    return status == KVT_OK ? check_worth(tree, where, err) : status;
}

/* ---- Beside the tree --------------------------------------------------------------------------
 */

static kvt_status check_phases(const cJSON *result, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {
        {"phase", COUNT, false}, {"metrics", NUMBERS, false}, {"explain", OBJECT, false}};
    const cJSON *phase = NULL;
    char place[PLACE_BYTES], inner[PLACE_BYTES + 16];
    int i = 0;

    cJSON_ArrayForEach(phase, kvt_json_find(result, "phases"))
    {
        (void)snprintf(place, sizeof place, "%.400s#/phases/%d", where, i++);
        (void)snprintf(inner, sizeof inner, "%s/explain", place);
        kvt_status status = CHECK(phase, place, members, err);
        if (status == KVT_OK)
            status = check_tree(kvt_json_find(phase, "explain"), inner, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static kvt_status check_transitions(const cJSON *result, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {
        {"direction", TEXT, false}, {"to_concurrency", COUNT, false}, {"at_s", COUNT, false}};
    const cJSON *transition = NULL;
    char place[PLACE_BYTES];
    int i = 0;

    cJSON_ArrayForEach(transition, kvt_json_find(result, "transitions"))
    {
        (void)snprintf(place, sizeof place, "%.400s#/transitions/%d", where, i++);
        kvt_status status = CHECK(transition, place, members, err);
        if (status == KVT_OK)
            status = check_numbers(transition, place, "direction", err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* The scenario as far as the first line names it. */
static kvt_status check_scenario(const cJSON *result, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {{"name", TEXT, false},
                                            {"seed", COUNT, false},
                                            {"run", OBJECT, false},
                                            {"residency", CHOICE, false},
                                            {"timing", CHOICE, false}};
    static const struct {
        const char *key;
        struct member member;
    } inner[] = {{"run", {"fidelity", TEXT, false}},
                 {"residency", {"policy", TEXT, false}},
                 {"timing", {"model", TEXT, false}}};
    const cJSON *scenario = kvt_json_find(result, "scenario");
    char place[PLACE_BYTES], of[PLACE_BYTES + 16];

    (void)snprintf(place, sizeof place, "%.480s#/scenario", where);
    kvt_status status = CHECK(scenario, place, members, err);
    for (size_t i = 0; i < sizeof inner / sizeof inner[0] && status == KVT_OK; i++) {
        const cJSON *item = kvt_json_find(scenario, inner[i].key);
        (void)snprintf(of, sizeof of, "%s/%s", place, inner[i].key);
        if (!cJSON_IsString(item))
            status = check_members(item, of, &inner[i].member, 1, err);
    }
    return status;
}

static kvt_status check_requests(const cJSON *result, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {{"arrived", COUNT, false},
                                            {"completed", COUNT, false},
                                            {"running", COUNT, false},
                                            {"waiting", COUNT, false},
                                            {"dropped", NUMBERS, false}};
    char place[PLACE_BYTES];

    (void)snprintf(place, sizeof place, "%.480s#/requests", where);
    return CHECK(kvt_json_find(result, "requests"), place, members, err);
}

/* What stands beside the tree: its kinds, before anything visits it. */
static kvt_status check_beside(const cJSON *result, const char *where, struct kvt_error *err)
{
    static const struct member members[] = {{"version", TEXT, false},
                                            {"ending", TEXT, false},
                                            {"metrics", NUMBERS, false},
                                            {"phases", ARRAY, false},
                                            {"transitions", ARRAY, true}};
    char place[PLACE_BYTES];

    (void)snprintf(place, sizeof place, "%.480s#", where);
    kvt_status status = CHECK(result, place, members, err);
    if (status == KVT_OK)
        status = check_scenario(result, where, err);
    if (status == KVT_OK)
        status = check_requests(result, where, err);
    if (status == KVT_OK)
        status = check_phases(result, where, err);
    return status == KVT_OK ? check_transitions(result, where, err) : status;
}

kvt_status kvt_explain_check(const cJSON *result, const char *where, struct kvt_error *err)
{
    const cJSON *schema = kvt_json_find(result, "schema");
    const cJSON *tree = explain_object(result, "explain");
    char place[PLACE_BYTES];

    if (!cJSON_IsObject(result) || !cJSON_IsString(schema))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "found no \"schema\", expected a result of schema kvtide/result/1");
    if (strcmp(schema->valuestring, "kvtide/result/1") != 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "found schema \"%.64s\", expected kvtide/result/1", schema->valuestring);
    if (!tree)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "found a result without \"explain\", of an older kvtide; its run again has "
                        "it: kvtide run RESULT.json --out DIR");
    (void)snprintf(place, sizeof place, "%.480s#/explain", where);
    kvt_status status = check_tree(tree, place, err);
    if (status == KVT_OK)
        status = check_basis(tree, place, err);
    return status == KVT_OK ? check_beside(result, where, err) : status;
}
