/* engine_rules.c -- the rules of an engine file: what it runs, refuses and leaves out.
 *
 *     "when": [["hierarchy", "=", true], ["hot_tokens", "<", {"fact": "hot_least"}]]
 *
 * A condition is a fact, an operator, and what it is compared with: a number, true or false, a
 * text, a list of texts for "in" and "not in", or another fact, times a number where that is
 * given. */
#include <stdio.h>
#include <string.h>

#include "engine_read.h"
#include "kvt/json.h"

static const struct {
    const char *text;
    enum kvt_engine_operator op;
} operators[] = {
    {"=", KVT_ENGINE_IS},
    {"!=", KVT_ENGINE_IS_NOT},
    {"<", KVT_ENGINE_BELOW},
    {">", KVT_ENGINE_ABOVE},
    {"in", KVT_ENGINE_IN},
    {"not in", KVT_ENGINE_NOT_IN},
    {"known", KVT_ENGINE_KNOWN},
    {"unknown", KVT_ENGINE_UNKNOWN},
    {"not a multiple of", KVT_ENGINE_NOT_MULTIPLE},
};
enum {
    OPERATORS = sizeof operators / sizeof operators[0]
};

static kvt_status find_operator(const cJSON *item, const char *where, enum kvt_engine_operator *op,
                                struct kvt_error *err)
{
    for (size_t i = 0; cJSON_IsString(item) && i < OPERATORS; i++) {
        if (strcmp(item->valuestring, operators[i].text) == 0) {
            *op = operators[i].op;
            return KVT_OK;
        }
    }
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "a condition's second element is one of = != < > \"in\" \"not in\" \"known\" "
                    "\"unknown\" \"not a multiple of\"");
}

/* The texts that a text may be. */
static kvt_status read_choice(const cJSON *item, const char *where, struct kvt_arena *arena,
                              struct kvt_engine_condition *condition, struct kvt_error *err)
{
    bool is_list = cJSON_IsArray(item);
    int count = is_list ? cJSON_GetArraySize(item) : 1;
    const char **texts =
        kvt_arena_array(arena, (size_t)count + 1, sizeof *texts, _Alignof(const char *));

    if (texts == NULL)
        return kvt_fail_nomem(err, where);
    for (int i = 0; i < count; i++) {
        const cJSON *text = is_list ? cJSON_GetArrayItem(item, i) : item;
        if (!cJSON_IsString(text))
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "a text is compared with texts, \"in\" and \"not in\" with a list of "
                            "them");
        texts[i] = kvt_arena_strdup(arena, text->valuestring);
        if (texts[i] == NULL)
            return kvt_fail_nomem(err, where);
    }
    condition->texts = texts;
    condition->text_count = (uint32_t)count;
    return KVT_OK;
}

static kvt_status read_bound(const cJSON *item, const char *where,
                             struct kvt_engine_condition *condition, struct kvt_error *err)
{
    static const char *const keys[] = {"fact", "times"};
    const char *name = NULL;

    if (cJSON_IsNumber(item) || cJSON_IsBool(item)) {
        condition->number = cJSON_IsNumber(item) ? item->valuedouble : cJSON_IsTrue(item);
        return KVT_OK;
    }
    if (!cJSON_IsObject(item))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "expected a number, true, false or {\"fact\": .., \"times\": ..}");
    condition->number = 1;
    kvt_status status = kvt_json_check_keys(item, where, keys, 2, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(item, where, "fact", true, &name, err);
    if (status == KVT_OK)
        status = kvt_json_get_f64(item, where, "times", false, 1e-9, 1e9, &condition->number, err);
    if (status != KVT_OK)
        return status;
    condition->other = kvt_engine_fact_find(name);
    if (condition->other < 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "\"%.40s\" is no fact", name);
    return KVT_OK;
}

static kvt_status read_condition(const cJSON *item, const char *where, struct kvt_arena *arena,
                                 struct kvt_engine_condition *out, struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_engine_fact_doc *docs = kvt_engine_facts(&count);
    const cJSON *name = cJSON_GetArrayItem(item, 0);
    struct kvt_engine_condition condition = {.other = -1};
    int elements = cJSON_IsArray(item) ? cJSON_GetArraySize(item) : 0;

    if (elements < 2 || elements > 3 || !cJSON_IsString(name))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "a condition is [FACT, OPERATOR, VALUE], or [FACT, \"known\"]");
    condition.fact = kvt_engine_fact_find(name->valuestring);
    if (condition.fact < 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "\"%.40s\" is no fact; docs/engines.md lists them", name->valuestring);
    kvt_status status = find_operator(cJSON_GetArrayItem(item, 1), where, &condition.op, err);
    if (status != KVT_OK)
        return status;
    bool wants_value = condition.op != KVT_ENGINE_KNOWN && condition.op != KVT_ENGINE_UNKNOWN;
    if (wants_value != (elements == 3))
        return kvt_fail(err, KVT_ERR_INVALID, where, "%s",
                        wants_value ? "nothing to compare with" : "nothing is compared here");
    bool is_text = docs[condition.fact].kind == KVT_FACT_TEXT;
    bool is_order = condition.op == KVT_ENGINE_BELOW || condition.op == KVT_ENGINE_ABOVE ||
                    condition.op == KVT_ENGINE_NOT_MULTIPLE;
    bool is_choice = condition.op == KVT_ENGINE_IN || condition.op == KVT_ENGINE_NOT_IN;
    if ((is_text && is_order) || (!is_text && is_choice))
        return kvt_fail(err, KVT_ERR_INVALID, where, "\"%s\" is %s: the operator is another's",
                        name->valuestring, is_text ? "a text" : "no text");
    if (wants_value && is_text)
        status = read_choice(cJSON_GetArrayItem(item, 2), where, arena, &condition, err);
    else if (wants_value)
        status = read_bound(cJSON_GetArrayItem(item, 2), where, &condition, err);
    *out = condition;
    return status;
}

static kvt_status read_effect(const cJSON *object, const char *where, struct kvt_engine_rule *rule,
                              struct kvt_error *err)
{
    const char *text = NULL;
    kvt_status status = kvt_json_get_text(object, where, "effect", true, &text, err);

    for (int i = 0; status == KVT_OK && i < KVT_ENGINE_EFFECTS; i++) {
        if (strcmp(text, kvt_engine_effect_name((enum kvt_engine_effect)i)) == 0) {
            rule->effect = (enum kvt_engine_effect)i;
            return KVT_OK;
        }
    }
    return status != KVT_OK
               ? status
               : kvt_fail(err, KVT_ERR_INVALID, where,
                          "effect is \"%.40s\"; refuses, cannot, off or warns is expected", text);
}

static kvt_status read_when(const cJSON *object, const char *where, struct kvt_arena *arena,
                            struct kvt_engine_rule *rule, struct kvt_error *err)
{
    const cJSON *array = NULL, *item = NULL;
    kvt_status status = kvt_json_get_array(object, where, "when", true, &array, err);

    if (status != KVT_OK)
        return status;
    if (cJSON_GetArraySize(array) < 1 || cJSON_GetArraySize(array) > KVT_ENGINE_CONDITIONS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where, "when has %d conditions; 1 to %d are expected",
                        cJSON_GetArraySize(array), KVT_ENGINE_CONDITIONS_MAX);
    cJSON_ArrayForEach(item, array)
    {
        char place[ENGINE_PLACE_BYTES];

        (void)snprintf(place, sizeof place, "%.300s/when/%u", where, rule->when_count);
        status = read_condition(item, place, arena, &rule->when[rule->when_count++], err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static kvt_status read_rule(const cJSON *object, const char *where, struct kvt_arena *arena,
                            struct kvt_engine_rule *out, struct kvt_error *err)
{
    static const char *const keys[] = {"id",      "effect", "when", "says",
                                       "instead", "source", "fatal"};
    struct kvt_engine_rule rule = {.id = NULL};
    kvt_status status = kvt_json_check_keys(object, where, keys, sizeof keys / sizeof keys[0], err);

    if (status == KVT_OK)
        status = kvt_json_copy_text(object, where, "id", arena, &rule.id, err);
    if (status == KVT_OK)
        status = read_effect(object, where, &rule, err);
    if (status == KVT_OK)
        status = read_when(object, where, arena, &rule, err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(object, where, "says", arena, &rule.says, err);
    if (status == KVT_OK && kvt_json_find(object, "instead") != NULL)
        status = kvt_json_copy_text(object, where, "instead", arena, &rule.instead, err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(object, where, "source", arena, &rule.source, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(object, where, "fatal", false, &rule.is_fatal, err);
    *out = rule;
    return status;
}

kvt_status engine_read_rules(const cJSON *tree, const char *where, struct kvt_arena *arena,
                             struct kvt_engine *engine, struct kvt_error *err)
{
    const cJSON *array = NULL, *item = NULL;
    kvt_status status = kvt_json_get_array(tree, where, "rules", true, &array, err);

    if (status != KVT_OK)
        return status;
    struct kvt_engine_rule *rules =
        kvt_arena_array(arena, (size_t)cJSON_GetArraySize(array) + 1, sizeof *rules,
                        _Alignof(struct kvt_engine_rule));
    if (rules == NULL)
        return kvt_fail_nomem(err, where);
    cJSON_ArrayForEach(item, array)
    {
        char place[ENGINE_PLACE_BYTES];

        (void)snprintf(place, sizeof place, "%.300s/rules/%u", where, engine->rule_count);
        status = read_rule(item, place, arena, &rules[engine->rule_count], err);
        if (status != KVT_OK)
            return status;
        for (uint32_t i = 0; i < engine->rule_count; i++) {
            if (strcmp(rules[i].id, rules[engine->rule_count].id) == 0)
                return kvt_fail(err, KVT_ERR_INVALID, place, "a second rule \"%.60s\"",
                                rules[i].id);
        }
        engine->rule_count++;
    }
    engine->rules = rules;
    return KVT_OK;
}
