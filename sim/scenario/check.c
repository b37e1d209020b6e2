/* check.c -- values against the table of keys. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/file.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

enum {
    RANGE_BYTES = 320,
    QUOTED_BYTES = 40
};

const char *kvt_value_describe(const cJSON *value, char out[KVT_DESCRIBED_BYTES])
{
    if (cJSON_IsNumber(value)) {
        char number[32];
        kvt_json_print_number(value->valuedouble, number);
        (void)snprintf(out, KVT_DESCRIBED_BYTES, "%s", number);
    } else if (cJSON_IsString(value)) {
        const char *more = strlen(value->valuestring) > QUOTED_BYTES ? "..." : "";
        (void)snprintf(out, KVT_DESCRIBED_BYTES, "\"%.*s%s\"", (int)QUOTED_BYTES,
                       value->valuestring, more);
    } else {
        const char *words = "null";
        if (cJSON_IsObject(value))
            words = "an object";
        else if (cJSON_IsArray(value))
            words = "a list";
        else if (cJSON_IsBool(value))
            words = cJSON_IsTrue(value) ? "true" : "false";
        (void)snprintf(out, KVT_DESCRIBED_BYTES, "%s", words);
    }
    return out;
}

/* ---- Leaves ------------------------------------------------------------------- */

/* "VALUE is out of range, expected RANGE". */
static kvt_status refuse_range(const struct kvt_key *key, const struct kvt_at *at,
                               const cJSON *value, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char described[KVT_DESCRIBED_BYTES];
    char range[RANGE_BYTES];
    return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                    "%s is out of range, expected %s", kvt_value_describe(value, described),
                    kvt_key_range(key, range, sizeof range));
}

/* "VALUE is WHAT (RANGE)". */
static kvt_status refuse(const struct kvt_key *key, const struct kvt_at *at, const cJSON *value,
                         const char *what, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char described[KVT_DESCRIBED_BYTES];
    char range[RANGE_BYTES];
    (void)kvt_key_range(key, range, sizeof range);
    return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place), "%s is %s%s%s%s",
                    kvt_value_describe(value, described), what, range[0] != '\0' ? " (" : "", range,
                    range[0] != '\0' ? ")" : "");
}

static bool is_within(const struct kvt_key *key, const cJSON *value)
{
    return cJSON_IsNumber(value) && isfinite(value->valuedouble) &&
           value->valuedouble >= key->minimum && value->valuedouble <= key->maximum;
}

/* "16.5 is not a whole number (1 to 4096)", "5000 is out of range, expected 1 to 4096". */
static kvt_status check_number(const struct kvt_key *key, const struct kvt_at *at,
                               const cJSON *value, const char *otherwise, struct kvt_error *err)
{
    if (!cJSON_IsNumber(value))
        return refuse(key, at, value, otherwise, err);
    if (!is_within(key, value))
        return refuse_range(key, at, value, err);
    return KVT_OK;
}

static kvt_status check_count(const struct kvt_key *key, const struct kvt_at *at,
                              const cJSON *value, struct kvt_error *err)
{
    if (cJSON_IsNumber(value) && value->valuedouble != floor(value->valuedouble))
        return refuse(key, at, value, "not a whole number", err);
    return check_number(key, at, value, "not a whole number", err);
}

static kvt_status check_choice(const struct kvt_key *key, const struct kvt_at *at,
                               const cJSON *value, struct kvt_error *err)
{
    if (!cJSON_IsString(value))
        return refuse(key, at, value, "not one of its choices", err);
    if (kvt_choice_index(key->choices, value->valuestring) < 0)
        return refuse(key, at, value, "not one of its choices", err);
    return KVT_OK;
}

/* The first control character, 0: there is none. Text is printed as it is, on terminals too. */
static unsigned char find_control(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at >= 0x20 && *at != 0x7f)
        at++;
    return *at;
}

static kvt_status check_text(const struct kvt_key *key, const struct kvt_at *at, const cJSON *value,
                             struct kvt_error *err)
{
    if (!cJSON_IsString(value))
        return refuse(key, at, value, "not text", err);
    char place[KVT_PLACE_BYTES];
    double length = (double)strlen(value->valuestring);
    unsigned char control = find_control(value->valuestring);
    if (length < key->minimum || length > key->maximum)
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                        "a text of %.0f bytes; %.0f to %.0f are expected", length, key->minimum,
                        key->maximum);
    if (control != 0)
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                        "text with the control character 0x%02x; plain text is expected", control);
    return KVT_OK;
}

static kvt_status check_list(const struct kvt_at *at, const cJSON *value, const char *of,
                             struct kvt_error *err)
{
    if (cJSON_IsArray(value))
        return KVT_OK;
    char place[KVT_PLACE_BYTES];
    char described[KVT_DESCRIBED_BYTES];
    return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place), "%s is not a list of %s",
                    kvt_value_describe(value, described), of);
}

static kvt_status check_numbers(const struct kvt_key *key, const struct kvt_at *at,
                                const cJSON *value, struct kvt_error *err)
{
    if (cJSON_IsNumber(value))
        return check_number(key, at, value, "not a number", err);
    kvt_status status = check_list(at, value, "numbers", err);
    unsigned index = 0;
    const cJSON *item = NULL;
    for (item = value->child; status == KVT_OK && item != NULL; item = item->next) {
        char name[16];
        (void)snprintf(name, sizeof name, "%u", index++);
        struct kvt_at element = kvt_at_member(at, name);
        status = check_number(key, &element, item, "not a number", err);
    }
    return status;
}

/* Exactly the members that choices name, each a number in range. */
static kvt_status check_record(const struct kvt_key *key, const struct kvt_at *at,
                               const cJSON *record, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char described[KVT_DESCRIBED_BYTES];
    char names[RANGE_BYTES];
    struct kvt_key choice = {.type = KVT_KEY_CHOICE, .choices = key->choices};
    (void)kvt_key_range(&choice, names, sizeof names);
    if (!cJSON_IsObject(record)) {
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place), "%s is not an object of %s",
                        kvt_value_describe(record, described), names);
    }
    int given = 0;
    for (const cJSON *item = record->child; item != NULL; item = item->next, given++) {
        struct kvt_at member = kvt_at_member(at, item->string);
        if (kvt_choice_index(key->choices, item->string) < 0) {
            return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(&member, place),
                            "unknown key \"%s\"; there are: %s", item->string, names);
        }
        kvt_status status = check_number(key, &member, item, "not a number", err);
        if (status != KVT_OK)
            return status;
    }
    if (given != (int)kvt_choice_count(key->choices)) {
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                        "a member is missing; all of these are needed: %s", names);
    }
    return KVT_OK;
}

static kvt_status check_records(const struct kvt_key *key, const struct kvt_at *at,
                                const cJSON *value, struct kvt_error *err)
{
    kvt_status status = check_list(at, value, "objects", err);
    if (status == KVT_OK && value->child == NULL) {
        char place[KVT_PLACE_BYTES];
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                        "an empty list; one element at least is needed");
    }
    unsigned index = 0;
    for (const cJSON *item = value->child; status == KVT_OK && item != NULL; item = item->next) {
        char name[16];
        (void)snprintf(name, sizeof name, "%u", index++);
        struct kvt_at element = kvt_at_member(at, name);
        status = check_record(key, &element, item, err);
    }
    return status;
}

bool kvt_hot_multiple(const char *text, double *multiple)
{
    char digits[32];
    size_t length = strlen(text);
    if (length < 2 || length > sizeof digits || text[length - 1] != 'k')
        return false;
    memcpy(digits, text, length - 1);
    digits[length - 1] = '\0';
    return kvt_text_real(digits, "", 0.001, 1e6, multiple, NULL) == KVT_OK;
}

static kvt_status check_hot(const struct kvt_key *key, const struct kvt_at *at, const cJSON *value,
                            struct kvt_error *err)
{
    double multiple = 0;
    if (cJSON_IsString(value) && kvt_hot_multiple(value->valuestring, &multiple))
        return KVT_OK;
    return check_count(key, at, value, err);
}

kvt_status kvt_value_check(const struct kvt_key *key, const struct kvt_at *at, const cJSON *value,
                           struct kvt_error *err)
{
    if (key->word != NULL && cJSON_IsString(value) &&
        kvt_choice_index(key->word, value->valuestring) >= 0)
        return KVT_OK;
    switch (key->type) {
    case KVT_KEY_COUNT:
        return check_count(key, at, value, err);
    case KVT_KEY_REAL:
        return check_number(key, at, value, "not a number", err);
    case KVT_KEY_BOOL:
        if (!cJSON_IsBool(value))
            return refuse(key, at, value, "neither true nor false", err);
        return KVT_OK;
    case KVT_KEY_TEXT:
        return check_text(key, at, value, err);
    case KVT_KEY_CHOICE:
        return check_choice(key, at, value, err);
    case KVT_KEY_NUMBERS:
        return check_numbers(key, at, value, err);
    case KVT_KEY_RECORDS:
        return check_records(key, at, value, err);
    case KVT_KEY_HOT:
        return check_hot(key, at, value, err);
    case KVT_KEY_EXTENDS:
    case KVT_KEY_FILE:
    case KVT_KEY_OBJECT:
    case KVT_KEY_LIST:
    case KVT_KEY_PLUGIN:
        break;
    }
    return refuse(key, at, value, "of no known type", err);
}

/* ---- Keys that nobody declared --------------------------------------------------- */

enum {
    NAME_BYTES_MAX = 48
};

/* Levenshtein's, in one row; names longer than ours are far from all of them. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_BYTES_MAX + 1];
    size_t columns = strlen(b);
    if (columns > NAME_BYTES_MAX || strlen(a) > NAME_BYTES_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
            size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < shorter ? change : shorter;
        }
    }
    return row[columns];
}

struct nearest {
    const char *wanted;
    const char *name;
    size_t distance;
    char all[320]; /* "a, b, c" */
    size_t used;
};

static void offer(struct nearest *nearest, const char *name)
{
    size_t distance = edit_distance(nearest->wanted, name);
    if (distance < nearest->distance) {
        nearest->distance = distance;
        nearest->name = name;
    }
    int wrote = snprintf(nearest->all + nearest->used, sizeof nearest->all - nearest->used, "%s%s",
                         nearest->used > 0 ? ", " : "", name);
    if (wrote > 0 && (size_t)wrote < sizeof nearest->all - nearest->used)
        nearest->used += (size_t)wrote;
    else
        nearest->all[nearest->used] = '\0';
}

/* Where a key of ours of this name lives: a dotted path into out. */
static bool find_elsewhere(const struct kvt_key *key, const char *prefix, const char *name,
                           char *out, size_t out_bytes)
{
    for (const struct kvt_key *member = key->members; kvt_key_is_one(member); member++) {
        char path[RANGE_BYTES];
        (void)snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                       member->name);
        if (strcmp(member->name, name) == 0 && member->refused == NULL) {
            (void)snprintf(out, out_bytes, "%s", path);
            return true;
        }
        if (member->type != KVT_KEY_LIST && find_elsewhere(member, path, name, out, out_bytes))
            return true;
    }
    return false;
}

/* Another plug-in of the kind that has this parameter, or NULL. */
static const char *find_owner(const struct kvt_plugins *plugins, const struct kvt_key *key,
                              const char *name)
{
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(plugins, key->kind, &count);
    for (size_t i = 0; i < count; i++) {
        if (kvt_param_find(list[i], name) != NULL)
            return list[i]->name;
    }
    return NULL;
}

kvt_status kvt_unknown_key(const struct kvt_plugins *plugins, const struct kvt_key *key,
                           const struct kvt_plugin_info *info, const struct kvt_at *at,
                           struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char elsewhere[RANGE_BYTES];
    (void)kvt_at_place(at, place);

    const char *owner = info != NULL ? find_owner(plugins, key, at->name) : NULL;
    if (owner != NULL) {
        const char *kind = strcmp(key->name_key, "name") == 0 ? key->name : key->name_key;
        return kvt_fail(err, KVT_ERR_INVALID, place, "%s belongs to %s \"%s\"; here %s is \"%s\"",
                        at->name, kind, owner, kind, info->name);
    }
    const char *ours = kvt_engine_key(at->name);
    if (ours != NULL)
        return kvt_fail(err, KVT_ERR_INVALID, place, "here this is %s", ours);

    struct nearest nearest = {.wanted = at->name, .distance = SIZE_MAX};
    if (info != NULL) {
        offer(&nearest, key->name_key);
        for (size_t i = 0; i < info->param_count; i++)
            offer(&nearest, info->params[i].name);
    }
    for (const struct kvt_key *member = key->members; kvt_key_is_one(member); member++) {
        if (member->refused == NULL)
            offer(&nearest, member->name);
    }
    if (nearest.name != NULL && 3 * nearest.distance <= strlen(at->name) + 1) {
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "unknown key \"%.60s\"; did you mean \"%s\"? There are: %s", at->name,
                        nearest.name, nearest.all);
    }
    if (find_elsewhere(kvt_keys_root(), "", at->name, elsewhere, sizeof elsewhere)) {
        if (strcmp(elsewhere, at->name) == 0)
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "unknown key \"%.60s\" here; it stands at the top of a scenario",
                            at->name);
        return kvt_fail(err, KVT_ERR_INVALID, place, "unknown key \"%.60s\" here; it is %s",
                        at->name, elsewhere);
    }
    return kvt_fail(err, KVT_ERR_INVALID, place, "unknown key \"%.60s\"; there are: %s", at->name,
                    nearest.all);
}

/* NOLINTEND(misc-no-recursion) */
