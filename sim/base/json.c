/* json.c -- cJSON's tree, read by exact name and by type. */
#include "kvt/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_check.h"
#include "kvt/file.h"
#include "number.h"

#define INFINITE "Infinity"
#define INFINITE_AS_TEXT "\"inf\"   " /* as long, and how vLLM writes it */

enum {
    QUOTED_BYTES_MAX = 40
}; /* of a text, in a message */

kvt_status kvt_json_parse(const char *text, size_t text_bytes, const char *name,
                          uint64_t first_line, cJSON **out, struct kvt_error *err)
{
    if (text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        text_bytes -= 3;
    }
    kvt_status status = kvt_json_check(text, text_bytes, name, first_line, err);
    if (status != KVT_OK)
        return status;
    /* Whatever the grammar above accepts, cJSON does, given memory. */
    cJSON *tree = cJSON_ParseWithLengthOpts(text, text_bytes, NULL, false);
    if (tree == NULL)
        return kvt_fail_nomem(err, name);
    *out = tree;
    return KVT_OK;
}

void kvt_json_mend_infinity(char *text)
{
    bool is_quoted = false;
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '\\' && is_quoted && c[1] != '\0')
            c++;
        else if (*c == '"')
            is_quoted = !is_quoted;
        else if (*c == 'I' && !is_quoted && strncmp(c, INFINITE, sizeof INFINITE - 1) == 0 &&
                 (c == text || c[-1] != '-')) {
            memcpy(c, INFINITE_AS_TEXT, sizeof INFINITE_AS_TEXT - 1);
            c += sizeof INFINITE_AS_TEXT - 2;
        }
    }
}

static kvt_status load(const char *path, size_t max_bytes, bool is_mended, cJSON **out,
                       struct kvt_error *err)
{
    char *text = NULL;
    size_t text_bytes = 0;
    kvt_status status = kvt_file_read(path, max_bytes, &text, &text_bytes, err);
    if (status != KVT_OK)
        return status;
    if (is_mended)
        kvt_json_mend_infinity(text);
    status = kvt_json_parse(text, text_bytes, path, 1, out, err);
    free(text);
    return status;
}

kvt_status kvt_json_load(const char *path, size_t max_bytes, cJSON **out, struct kvt_error *err)
{
    return load(path, max_bytes, false, out, err);
}

kvt_status kvt_json_load_mended(const char *path, size_t max_bytes, cJSON **out,
                                struct kvt_error *err)
{
    return load(path, max_bytes, true, out, err);
}

const cJSON *kvt_json_find(const cJSON *object, const char *key)
{
    if (!cJSON_IsObject(object))
        return NULL;
    const cJSON *member;
    cJSON_ArrayForEach(member, object)
    {
        if (strcmp(member->string, key) == 0)
            return member;
    }
    return NULL;
}

double kvt_json_number_or(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

/* where + "/" + key, the key escaped as a JSON pointer has it (RFC 6901). */
static void print_place(const char *where, const char *key, char *out, size_t out_bytes)
{
    int length = snprintf(out, out_bytes, "%s/", where);
    size_t used = length < 0 ? 0 : (size_t)length;
    for (const char *at = key; *at != '\0' && used + 3 <= out_bytes; at++) {
        if (*at == '~' || *at == '/') {
            out[used++] = '~';
            out[used++] = *at == '~' ? '0' : '1';
        } else {
            out[used++] = *at;
        }
    }
    if (used < out_bytes)
        out[used] = '\0';
}

/* What a message calls a value: `the text "lru"`, `0.5`, `an array`. */
static void print_value(const cJSON *item, char out[64])
{
    if (cJSON_IsNumber(item)) {
        kvt_number_print_bound(item->valuedouble, out);
    } else if (cJSON_IsString(item)) {
        const char *more = strlen(item->valuestring) > QUOTED_BYTES_MAX ? "..." : "";
        (void)snprintf(out, 64, "the text \"%.*s%s\"", QUOTED_BYTES_MAX, item->valuestring, more);
    } else if (cJSON_IsBool(item)) {
        (void)snprintf(out, 64, "%s", cJSON_IsTrue(item) ? "true" : "false");
    } else if (cJSON_IsNull(item)) {
        (void)snprintf(out, 64, "null");
    } else {
        (void)snprintf(out, 64, "%s", cJSON_IsObject(item) ? "an object" : "an array");
    }
}

KVT_PRINTF(5, 6)
static kvt_status fail_member(struct kvt_error *err, const char *where, const char *key,
                              const cJSON *member, const char *expected, ...)
{
    char place[sizeof err->where];
    print_place(where, key, place, sizeof place);
    char wanted[256];
    va_list args;
    va_start(args, expected);
    (void)vsnprintf(wanted, sizeof wanted, expected, args);
    va_end(args);
    if (member == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, place, "missing; expected %s", wanted);
    char found[64];
    print_value(member, found);
    return kvt_fail(err, KVT_ERR_INVALID, place, "%s is not %s", found, wanted);
}

/* "0 is out of range, expected 1 to 1000". */
static kvt_status fail_range(struct kvt_error *err, const char *where, const char *key,
                             const cJSON *member, double minimum, double maximum)
{
    char place[sizeof err->where];
    char found[64];
    char least[32];
    char most[32];
    print_place(where, key, place, sizeof place);
    print_value(member, found);
    kvt_number_print_bound(minimum, least);
    kvt_number_print_bound(maximum, most);
    return kvt_fail(err, KVT_ERR_INVALID, place, "%s is out of range, expected %s to %s", found,
                    least, most);
}

static kvt_status fail_not_object(struct kvt_error *err, const char *where, const cJSON *item)
{
    if (item == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, where, "missing; expected an object");
    char found[64];
    print_value(item, found);
    return kvt_fail(err, KVT_ERR_INVALID, where, "%s is not an object", found);
}

/* The member, or NULL when it is absent and not required. */
static kvt_status find_member(const cJSON *object, const char *where, const char *key,
                              bool required, const char *expected, const cJSON **out,
                              struct kvt_error *err)
{
    if (!cJSON_IsObject(object))
        return fail_not_object(err, where, object);
    const cJSON *member = kvt_json_find(object, key);
    if (member == NULL && required)
        return fail_member(err, where, key, NULL, "%s", expected);
    *out = member;
    return KVT_OK;
}

bool kvt_json_is_count(const cJSON *item)
{
    if (!cJSON_IsNumber(item))
        return false;
    double value = item->valuedouble;
    return !signbit(value) && value <= 0x1p53 && value == floor(value);
}

kvt_status kvt_json_get_u64(const cJSON *object, const char *where, const char *key, bool required,
                            uint64_t minimum, uint64_t maximum, uint64_t *out,
                            struct kvt_error *err)
{
    const uint64_t countable = UINT64_C(1) << 53;
    const uint64_t most = maximum < countable ? maximum : countable;
    char expected[80];
    (void)snprintf(expected, sizeof expected, "a whole number (%llu to %llu)",
                   (unsigned long long)minimum, (unsigned long long)most);

    const cJSON *member = NULL;
    kvt_status status = find_member(object, where, key, required, expected, &member, err);
    if (status != KVT_OK || member == NULL)
        return status;
    double value = cJSON_IsNumber(member) ? member->valuedouble : 0.5;
    if (value != floor(value) || (value == 0 && signbit(value)))
        return fail_member(err, where, key, member, "%s", expected);
    if (value < 0 || value > 0x1p53 || (uint64_t)value < minimum || (uint64_t)value > most)
        return fail_range(err, where, key, member, (double)minimum, (double)most);
    *out = (uint64_t)value;
    return KVT_OK;
}

kvt_status kvt_json_get_f64(const cJSON *object, const char *where, const char *key, bool required,
                            double minimum, double maximum, double *out, struct kvt_error *err)
{
    char least[32];
    char most[32];
    char expected[96];
    kvt_number_print_bound(minimum, least);
    kvt_number_print_bound(maximum, most);
    (void)snprintf(expected, sizeof expected, "a number (%s to %s)", least, most);

    const cJSON *member = NULL;
    kvt_status status = find_member(object, where, key, required, expected, &member, err);
    if (status != KVT_OK || member == NULL)
        return status;
    if (!cJSON_IsNumber(member))
        return fail_member(err, where, key, member, "%s", expected);
    if (!(member->valuedouble >= minimum && member->valuedouble <= maximum))
        return fail_range(err, where, key, member, minimum, maximum);
    *out = member->valuedouble;
    return KVT_OK;
}

kvt_status kvt_json_get_text(const cJSON *object, const char *where, const char *key, bool required,
                             const char **out, struct kvt_error *err)
{
    const cJSON *member = NULL;
    kvt_status status = find_member(object, where, key, required, "a text", &member, err);
    if (status != KVT_OK || member == NULL)
        return status;
    if (!cJSON_IsString(member))
        return fail_member(err, where, key, member, "a text");
    *out = member->valuestring;
    return KVT_OK;
}

kvt_status kvt_json_copy_text(const cJSON *object, const char *where, const char *key,
                              struct kvt_arena *arena, const char **out, struct kvt_error *err)
{
    const char *text = NULL;
    kvt_status status = kvt_json_get_text(object, where, key, true, &text, err);

    if (status != KVT_OK)
        return status;
    *out = kvt_arena_strdup(arena, text);
    return *out ? KVT_OK : kvt_fail_nomem(err, "a text of a file");
}

kvt_status kvt_json_get_bool(const cJSON *object, const char *where, const char *key, bool required,
                             bool *out, struct kvt_error *err)
{
    const cJSON *member = NULL;
    kvt_status status = find_member(object, where, key, required, "true or false", &member, err);
    if (status != KVT_OK || member == NULL)
        return status;
    if (!cJSON_IsBool(member))
        return fail_member(err, where, key, member, "true or false");
    *out = cJSON_IsTrue(member) != 0;
    return KVT_OK;
}

kvt_status kvt_json_get_object(const cJSON *object, const char *where, const char *key,
                               bool required, const cJSON **out, struct kvt_error *err)
{
    const cJSON *member = NULL;
    kvt_status status = find_member(object, where, key, required, "an object", &member, err);
    if (status != KVT_OK)
        return status;
    if (member != NULL && !cJSON_IsObject(member))
        return fail_member(err, where, key, member, "an object");
    *out = member;
    return KVT_OK;
}

kvt_status kvt_json_get_array(const cJSON *object, const char *where, const char *key,
                              bool required, const cJSON **out, struct kvt_error *err)
{
    const cJSON *member = NULL;
    kvt_status status = find_member(object, where, key, required, "an array", &member, err);
    if (status != KVT_OK)
        return status;
    if (member != NULL && !cJSON_IsArray(member))
        return fail_member(err, where, key, member, "an array");
    *out = member;
    return KVT_OK;
}

static bool is_listed(const char *key, const char *const *keys, size_t key_count)
{
    for (size_t i = 0; i < key_count; i++) {
        if (strcmp(key, keys[i]) == 0)
            return true;
    }
    return false;
}

static kvt_status fail_unknown_key(struct kvt_error *err, const char *where, const char *key,
                                   const char *const *keys, size_t key_count)
{
    char known[sizeof err->message] = "";
    size_t used = 0;
    for (size_t i = 0; i < key_count && used < sizeof known; i++) {
        int length = snprintf(known + used, sizeof known - used, " %s", keys[i]);
        used += length < 0 ? 0 : (size_t)length;
    }
    char place[sizeof err->where];
    print_place(where, key, place, sizeof place);
    return kvt_fail(err, KVT_ERR_INVALID, place, "no such key here; there are:%s",
                    key_count > 0 ? known : " none");
}

kvt_status kvt_json_check_keys(const cJSON *object, const char *where, const char *const *keys,
                               size_t key_count, struct kvt_error *err)
{
    if (!cJSON_IsObject(object))
        return fail_not_object(err, where, object);
    const cJSON *member;
    cJSON_ArrayForEach(member, object)
    {
        if (!is_listed(member->string, keys, key_count))
            return fail_unknown_key(err, where, member->string, keys, key_count);
    }
    return KVT_OK;
}
