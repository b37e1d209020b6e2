/* sweep_record.c -- one run as a line of JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "sweep.h"

static const char *const outcome_names[SWEEP_OUTCOMES] = {"ok", "refused", "failed"};

const char *sweep_outcome_name(enum sweep_outcome outcome)
{
    return outcome_names[outcome];
}

bool sweep_may_pass(kvt_status status)
{
    return status == KVT_ERR_NOMEM || status == KVT_ERR_IO || status == KVT_ERR_DEVICE ||
           status == KVT_ERR_HUNG || status == KVT_ERR_SYSTEM;
}

/* No text of JSON holds a line end, so what follows one is our own indent. */
char *sweep_print_line(const cJSON *tree)
{
    char *text = kvt_json_print(tree);
    size_t to = 0;

    for (size_t from = 0; text != NULL && text[from] != '\0';) {
        if (text[from] == '\n')
            from += 1 + strspn(text + from + 1, " ");
        else
            text[to++] = text[from++];
    }
    if (text != NULL)
        text[to] = '\0';
    return text;
}

static bool add_hash(cJSON *object, const char *key, uint64_t hash)
{
    char text[SWEEP_HASH_BYTES];

    (void)snprintf(text, sizeof text, "%016" PRIx64, hash);
    return kvt_json_add_text(object, key, text);
}

static bool add_metrics(cJSON *object, const double *metrics)
{
    size_t count = 0;
    cJSON *array = cJSON_AddArrayToObject(object, "metrics");
    bool ok = array != NULL;

    (void)kvt_metric_docs(&count);
    for (size_t m = 0; ok && metrics != NULL && m < count; m++)
        ok = cJSON_AddItemToArray(array, isfinite(metrics[m]) ? cJSON_CreateNumber(metrics[m])
                                                              : cJSON_CreateNull());
    return ok;
}

/* As facts and not as said, so that badges of several runs join as they would have at once. */
static bool add_claims(cJSON *object, const struct kvt_badge *badge)
{
    cJSON *array = cJSON_AddArrayToObject(object, "claims");
    bool ok = array != NULL;

    for (int k = 0; ok && k < KVT_CLAIMS; k++) {
        const struct kvt_claim *claim = &badge->claims[k];
        cJSON *entry = kvt_json_add_element(array);
        ok = entry != NULL && kvt_json_add_text(entry, "word", claim->word) &&
             kvt_json_add_text(entry, "reason", claim->reason) &&
             kvt_json_add_number(entry, "in_range_share", claim->in_range_share);
    }
    return ok;
}

char *sweep_record_print(const struct sweep_record *record)
{
    cJSON *object = cJSON_CreateObject();
    bool ok = object != NULL && kvt_json_add_number(object, "run", (double)record->run) &&
              kvt_json_add_text(object, "status", sweep_outcome_name(record->outcome)) &&
              kvt_json_add_bool(object, "may_pass", record->may_pass) &&
              kvt_json_add_text(object, "message", record->message) &&
              kvt_json_add_bool(object, "bound", record->is_bound) &&
              kvt_json_add_text(object, "basis", record->basis) &&
              add_hash(object, "scenario_hash", record->scenario_hash) &&
              add_hash(object, "decision_hash", record->decision_hash) &&
              add_metrics(object, record->metrics) && add_claims(object, &record->badge);
    char *text = ok ? sweep_print_line(object) : NULL;

    cJSON_Delete(object);
    return text;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static kvt_status read_hash(const cJSON *tree, const char *where, const char *key, uint64_t *out,
                            struct kvt_error *err)
{
    const char *text = NULL;
    kvt_status status = kvt_json_get_text(tree, where, key, true, &text, err);

    if (status == KVT_OK && strspn(text, "0123456789abcdef") != SWEEP_HASH_BYTES - 1)
        return kvt_fail(err, KVT_ERR_PARSE, where, "\"%s\" is no hash of 16 digits", key);
    if (status == KVT_OK)
        *out = strtoull(text, NULL, 16);
    return status;
}

static kvt_status read_metrics(const cJSON *tree, const char *where, double *metrics,
                               struct kvt_error *err)
{
    size_t count = 0, m = 0;
    const cJSON *array = NULL;
    kvt_status status = kvt_json_get_array(tree, where, "metrics", true, &array, err);

    (void)kvt_metric_docs(&count);
    if (status != KVT_OK)
        return status;
    for (const cJSON *item = array->child; item != NULL && m < count; item = item->next)
        metrics[m++] = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
    return m == count ? KVT_OK
                      : kvt_fail(err, KVT_ERR_PARSE, where,
                                 "found %zu metrics in a record, expected %zu", m, count);
}

static kvt_status read_claims(const cJSON *tree, const char *where, struct kvt_badge *out,
                              struct kvt_error *err)
{
    const cJSON *array = NULL;
    kvt_status status = kvt_json_get_array(tree, where, "claims", true, &array, err);
    const cJSON *item = status == KVT_OK ? array->child : NULL;

    for (int k = 0; status == KVT_OK && k < KVT_CLAIMS; k++) {
        struct kvt_claim *claim = &out->claims[k];
        const cJSON *word = kvt_json_find(item, "word"), *reason = kvt_json_find(item, "reason");
        const cJSON *share = kvt_json_find(item, "in_range_share");
        if (!cJSON_IsString(word) || !cJSON_IsString(reason))
            return kvt_fail(err, KVT_ERR_PARSE, where, "\"claims\" are not those of a badge");
        (void)snprintf(claim->word, sizeof claim->word, "%s", word->valuestring);
        (void)snprintf(claim->reason, sizeof claim->reason, "%s", reason->valuestring);
        claim->in_range_share = cJSON_IsNumber(share) ? share->valuedouble : (double)NAN;
        item = item->next;
    }
    return status;
}

static kvt_status read_outcome(const cJSON *tree, const char *where, enum sweep_outcome *out,
                               struct kvt_error *err)
{
    const char *name = NULL;
    kvt_status status = kvt_json_get_text(tree, where, "status", true, &name, err);

    for (size_t i = 0; status == KVT_OK && i < SWEEP_OUTCOMES; i++) {
        if (strcmp(name, outcome_names[i]) == 0) {
            *out = (enum sweep_outcome)i;
            return KVT_OK;
        }
    }
    return status != KVT_OK
               ? status
               : kvt_fail(err, KVT_ERR_PARSE, where,
                          "found the status \"%.40s\", expected ok, refused or failed", name);
}

kvt_status sweep_record_read(const cJSON *tree, const char *where, double *metrics,
                             struct sweep_record *out, struct kvt_error *err)
{
    uint64_t run = 0;
    kvt_status status =
        kvt_json_get_u64(tree, where, "run", true, 0, SWEEP_RUNS_MAX - 1, &run, err);

    *out = (struct sweep_record){.run = (size_t)run};
    if (status == KVT_OK)
        status = read_outcome(tree, where, &out->outcome, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(tree, where, "may_pass", true, &out->may_pass, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(tree, where, "message", true, &out->message, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(tree, where, "bound", true, &out->is_bound, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(tree, where, "basis", true, &out->basis, err);
    if (status == KVT_OK)
        status = read_hash(tree, where, "scenario_hash", &out->scenario_hash, err);
    if (status == KVT_OK)
        status = read_hash(tree, where, "decision_hash", &out->decision_hash, err);
    if (status == KVT_OK && out->outcome == SWEEP_OK) {
        out->metrics = metrics;
        status = read_metrics(tree, where, metrics, err);
    }
    return status == KVT_OK ? read_claims(tree, where, &out->badge, err) : status;
}
