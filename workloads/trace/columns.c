/* columns.c -- which field a column is, and its values as numbers with units. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/hash.h"
#include "trace_file.h"

#define UNIT_S KVT_NS_PER_S
#define UNIT_MS INT64_C(1000000)
#define UNIT_US INT64_C(1000)
#define UNIT_NS INT64_C(1)

#define SECONDS_MAX 4.0e9 /* of epoch time, about the year 2096; 2^62 ns is not far behind */

/* Every name that a field goes by, as kvt_trace_spell() spells it. */
static const struct alias {
    const char *name;
    struct kvt_trace_column column;
} aliases[] = {
    {"arrival_s", {KVT_TRACE_ARRIVAL, UNIT_S}},
    {"arrival_ms", {KVT_TRACE_ARRIVAL, UNIT_MS}},
    {"arrival_us", {KVT_TRACE_ARRIVAL, UNIT_US}},
    {"arrival_ns", {KVT_TRACE_ARRIVAL, UNIT_NS}},
    {"arrival_time", {KVT_TRACE_ARRIVAL, KVT_TRACE_UNIT_OF_FORMAT}},
    {"arrival_time_ms", {KVT_TRACE_ARRIVAL, UNIT_MS}},
    {"arrival_time_us", {KVT_TRACE_ARRIVAL, UNIT_US}},
    {"arrival_time_ns", {KVT_TRACE_ARRIVAL, UNIT_NS}},
    {"arrival_timestamp", {KVT_TRACE_ARRIVAL, KVT_TRACE_UNIT_OF_FORMAT}},
    {"arrived_at", {KVT_TRACE_ARRIVAL, KVT_TRACE_UNIT_OF_FORMAT}},
    {"starttimeoffset", {KVT_TRACE_ARRIVAL, UNIT_NS}},
    {"timestamp", {KVT_TRACE_ARRIVAL, KVT_TRACE_UNIT_OF_FORMAT}},
    {"contexttokens", {KVT_TRACE_INPUT, 0}},
    {"in", {KVT_TRACE_INPUT, 0}},
    {"input_length", {KVT_TRACE_INPUT, 0}},
    {"input_tokens", {KVT_TRACE_INPUT, 0}},
    {"input_toks", {KVT_TRACE_INPUT, 0}},
    {"num_prefill_tokens", {KVT_TRACE_INPUT, 0}},
    {"prompt_size", {KVT_TRACE_INPUT, 0}},
    {"prompt_tokens", {KVT_TRACE_INPUT, 0}},
    {"request_tokens", {KVT_TRACE_INPUT, 0}},
    {"generatedtokens", {KVT_TRACE_OUTPUT, 0}},
    {"num_decode_tokens", {KVT_TRACE_OUTPUT, 0}},
    {"out", {KVT_TRACE_OUTPUT, 0}},
    {"output_length", {KVT_TRACE_OUTPUT, 0}},
    {"output_tokens", {KVT_TRACE_OUTPUT, 0}},
    {"output_toks", {KVT_TRACE_OUTPUT, 0}},
    {"response_tokens", {KVT_TRACE_OUTPUT, 0}},
    {"token_size", {KVT_TRACE_OUTPUT, 0}},
    {"session_id", {KVT_TRACE_SESSION, 0}},
    {"turn", {KVT_TRACE_TURN, 0}},
    {"round_index", {KVT_TRACE_TURN, 0}},
    {"slo_class", {KVT_TRACE_SLO_CLASS, 0}},
    {"prefix_tokens", {KVT_TRACE_PREFIX_TOKENS, 0}},
    {"prefix_length", {KVT_TRACE_PREFIX_TOKENS, 0}},
    {"think_s", {KVT_TRACE_THINK_S, UNIT_S}},
    {"think_time_us", {KVT_TRACE_THINK_S, UNIT_US}},
    {"hash_ids", {KVT_TRACE_HASH_IDS, 0}},
    {"block_hash_ids", {KVT_TRACE_HASH_IDS, 0}},
    {"chat_id", {KVT_TRACE_CHAT_ID, 0}},
    {"parent_chat_id", {KVT_TRACE_PARENT_CHAT_ID, 0}},
    {"prefix_group", {KVT_TRACE_PREFIX_GROUP, 0}},
    {"tenant", {KVT_TRACE_TENANT, 0}},
    {"tenant_id", {KVT_TRACE_TENANT, 0}},
    {"task", {KVT_TRACE_TASK, 0}},
    {"sub_requests", {KVT_TRACE_SUB_REQUESTS, 0}},
};
enum {
    ALIAS_COUNT = sizeof aliases / sizeof aliases[0]
};

static const char *const field_names[KVT_TRACE_FIELDS] = {
    [KVT_TRACE_ARRIVAL] = "arrival time",
    [KVT_TRACE_INPUT] = "input length",
    [KVT_TRACE_OUTPUT] = "output length",
    [KVT_TRACE_SESSION] = "session",
    [KVT_TRACE_TURN] = "turn",
    [KVT_TRACE_SLO_CLASS] = "SLO class",
    [KVT_TRACE_PREFIX_TOKENS] = "prefix length",
    [KVT_TRACE_THINK_S] = "thinking time",
    [KVT_TRACE_HASH_IDS] = "list of block hashes",
    [KVT_TRACE_CHAT_ID] = "chat",
    [KVT_TRACE_PARENT_CHAT_ID] = "parent chat",
    [KVT_TRACE_PREFIX_GROUP] = "prefix group",
    [KVT_TRACE_TENANT] = "tenant",
    [KVT_TRACE_TASK] = "task",
    [KVT_TRACE_SUB_REQUESTS] = "list of later turns",
};

static char spelled_letter(char c)
{
    static const char small[] = "abcdefghijklmnopqrstuvwxyz";
    if (c >= 'A' && c <= 'Z')
        return small[c - 'A'];
    if (c == ' ')
        return '_';
    return c;
}

bool kvt_trace_spell(const char *name, char out[64])
{
    size_t length = 0;
    for (; name[length] != '\0'; length++) {
        if (length == 63)
            return false;
        out[length] = spelled_letter(name[length]);
    }
    out[length] = '\0';
    return true;
}

struct kvt_trace_column kvt_trace_column_of(const char *name)
{
    char spelled[64];
    if (kvt_trace_spell(name, spelled)) {
        for (size_t i = 0; i < ALIAS_COUNT; i++) {
            if (strcmp(aliases[i].name, spelled) == 0)
                return aliases[i].column;
        }
    }
    return (struct kvt_trace_column){.field = KVT_TRACE_OTHER};
}

const char *kvt_trace_field_name(enum kvt_trace_field field)
{
    return field < KVT_TRACE_FIELDS ? field_names[field] : "other";
}

void kvt_trace_list(char *list, size_t list_bytes, const char *name)
{
    static const char more[] = ", ...";
    size_t used = strlen(list);
    size_t separator_bytes = used > 0 ? 2 : 0;
    if (used >= sizeof more - 1 && strcmp(list + used - (sizeof more - 1), more) == 0)
        return;
    if (used + separator_bytes + strlen(name) + sizeof more > list_bytes)
        (void)snprintf(list + used, list_bytes - used, "%s", more);
    else
        (void)snprintf(list + used, list_bytes - used, "%s%s", used > 0 ? ", " : "", name);
}

void kvt_trace_aliases(enum kvt_trace_field field, char *list, size_t list_bytes)
{
    list[0] = '\0';
    for (size_t i = 0; i < ALIAS_COUNT; i++) {
        if (aliases[i].column.field == field)
            kvt_trace_list(list, list_bytes, aliases[i].name);
    }
}

static bool has_field(uint32_t fields, enum kvt_trace_field field)
{
    return (fields >> field & 1) != 0;
}

bool kvt_trace_reads_hash_ids(const struct kvt_trace_source *source)
{
    return source->format->block_tokens > 0 || source->has_parts;
}

/* Whether what a file says in this field reaches the run. */
static bool is_used(enum kvt_trace_field field, uint32_t fields,
                    const struct kvt_trace_source *source)
{
    bool follows_chats = source->format->shape == KVT_TRACE_JSON_LINES;
    switch (field) {
    case KVT_TRACE_SESSION:
    case KVT_TRACE_TURN:
    case KVT_TRACE_PREFIX_TOKENS:
        return true;
    case KVT_TRACE_PREFIX_GROUP:
        return has_field(fields, KVT_TRACE_PREFIX_TOKENS);
    case KVT_TRACE_THINK_S:
        return has_field(fields, KVT_TRACE_SESSION);
    case KVT_TRACE_CHAT_ID:
        return follows_chats;
    case KVT_TRACE_PARENT_CHAT_ID:
        return follows_chats && has_field(fields, KVT_TRACE_CHAT_ID);
    case KVT_TRACE_HASH_IDS:
        return kvt_trace_reads_hash_ids(source);
    case KVT_TRACE_SUB_REQUESTS:
        return source->format->reader == &kvt_trace_agentic_reader;
    default:
        return false;
    }
}

void kvt_trace_name_unused(uint32_t fields, const struct kvt_trace_source *source, char *unused,
                           char *unconverted, size_t list_bytes)
{
    static const struct {
        const char *name;
        enum kvt_trace_field field;
    } names[] = {
        {"session_id", KVT_TRACE_SESSION},        {"turn", KVT_TRACE_TURN},
        {"chat_id", KVT_TRACE_CHAT_ID},           {"parent_chat_id", KVT_TRACE_PARENT_CHAT_ID},
        {"sub_requests", KVT_TRACE_SUB_REQUESTS}, {"hash_ids", KVT_TRACE_HASH_IDS},
        {"prefix_group", KVT_TRACE_PREFIX_GROUP}, {"prefix_tokens", KVT_TRACE_PREFIX_TOKENS},
        {"think_s", KVT_TRACE_THINK_S},           {"tenant", KVT_TRACE_TENANT},
    };
    unused[0] = '\0';
    unconverted[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        enum kvt_trace_field field = names[i].field;
        if (!has_field(fields, field))
            continue;
        bool used = is_used(field, fields, source);
        if (!used)
            kvt_trace_list(unused, list_bytes, names[i].name);
        if (!used || field == KVT_TRACE_HASH_IDS)
            kvt_trace_list(unconverted, list_bytes, names[i].name);
    }
}

void kvt_trace_where(const struct kvt_trace_place *place, char out[256])
{
    if (place->column > 0)
        (void)snprintf(out, 256, "%s:%" PRIu64 ":%zu", place->path, place->line, place->column);
    else
        (void)snprintf(out, 256, "%s:%" PRIu64 "#/%s", place->path, place->line, place->name);
}

kvt_status kvt_trace_value_of_json(const cJSON *item, const struct kvt_trace_place *place,
                                   struct kvt_trace_value *out, struct kvt_error *err)
{
    if (cJSON_IsNumber(item)) {
        *out = (struct kvt_trace_value){.number = item->valuedouble};
        return KVT_OK;
    }
    if (cJSON_IsString(item)) {
        *out = (struct kvt_trace_value){.text = item->valuestring};
        return KVT_OK;
    }
    const char *found = cJSON_IsNull(item)    ? "null"
                        : cJSON_IsBool(item)  ? "true or false"
                        : cJSON_IsArray(item) ? "an array"
                                              : "an object";
    char where[256];
    kvt_trace_where(place, where);
    return kvt_fail(err, KVT_ERR_PARSE, where, "a number is expected here, not %s", found);
}

/* The text readers of kvt/file.h want their place in words, which costs more
 * than the reading: it is made up only for a text already known to be refused. */
kvt_status kvt_trace_count(const struct kvt_trace_value *value, const struct kvt_trace_place *place,
                           uint64_t maximum, uint64_t *out, struct kvt_error *err)
{
    char where[256];
    if (value->text != NULL) {
        if (kvt_text_count(value->text, "", maximum, out, NULL) == KVT_OK)
            return KVT_OK;
        kvt_trace_where(place, where);
        return kvt_text_count(value->text, where, maximum, out, err);
    }
    double number = value->number;
    if (!signbit(number) && number <= (double)maximum && number <= 0x1p53 &&
        floor(number) == number) {
        *out = (uint64_t)number;
        return KVT_OK;
    }
    char found[32];
    kvt_json_print_number(number, found);
    kvt_trace_where(place, where);
    return kvt_fail(err, KVT_ERR_INVALID, where, "%s is not a whole number from 0 to %" PRIu64,
                    found, maximum);
}

static kvt_status real_of(const struct kvt_trace_value *value, const struct kvt_trace_place *place,
                          double maximum, double *out, struct kvt_error *err)
{
    char where[256];
    double number = value->number;
    if (value->text != NULL &&
        kvt_text_real(value->text, "", 0, maximum, &number, NULL) != KVT_OK) {
        kvt_trace_where(place, where);
        return kvt_text_real(value->text, where, 0, maximum, out, err);
    }
    if (signbit(number) || !(number <= maximum)) {
        char found[32];
        char limit[32];
        kvt_json_print_number(number, found);
        kvt_json_print_number(maximum, limit);
        kvt_trace_where(place, where);
        return kvt_fail(err, KVT_ERR_INVALID, where, "%s: found %s, expected a number from 0 to %s",
                        place->name, found, limit);
    }
    *out = number;
    return KVT_OK;
}

kvt_status kvt_trace_time(const struct kvt_trace_value *value, const struct kvt_trace_place *place,
                          int64_t unit_ns, int64_t *out_ns, struct kvt_error *err)
{
    if (unit_ns == KVT_TRACE_UNIT_OF_FORMAT) {
        if (value->text != NULL && strchr(value->text, ':') != NULL) {
            if (kvt_trace_date_ns(value->text, out_ns))
                return KVT_OK;
            char where[256];
            kvt_trace_where(place, where);
            return kvt_fail(err, KVT_ERR_PARSE, where,
                            "\"%s\" is not a time such as 2024-05-10 00:00:00.009930+00:00, "
                            "of the years 1970 to 2095",
                            value->text);
        }
        unit_ns = UNIT_S;
    }
    /* Whole nanoseconds since 1970 do not fit a double's 53 bits. */
    if (value->text != NULL && unit_ns == UNIT_NS) {
        uint64_t count = 0;
        kvt_status status =
            kvt_trace_count(value, place, (uint64_t)(SECONDS_MAX * 1e9), &count, err);
        *out_ns = (int64_t)count;
        return status;
    }
    double number = 0;
    double maximum = SECONDS_MAX * 1e9 / (double)unit_ns;
    kvt_status status = real_of(value, place, maximum, &number, err);
    if (status != KVT_OK)
        return status;
    /* Whole and part apart: seconds since 1970, times 1e9, would leave a double's
     * steps 256 ns wide. */
    double whole = floor(number);
    *out_ns = (int64_t)whole * unit_ns + (int64_t)llround((number - whole) * (double)unit_ns);
    return KVT_OK;
}

/* A number stays itself, so that our own files read back; other names are
 * hashed, which keeps memory flat and, at 2^64 values, conversations apart. */
static uint64_t name_of(const struct kvt_trace_value *value, const struct kvt_trace_place *place)
{
    uint64_t name = 0;
    if (kvt_trace_count(value, place, UINT64_MAX - 1, &name, NULL) == KVT_OK)
        return name;
    if (value->text != NULL)
        name = kvt_hash_bytes(0, value->text, strlen(value->text));
    else
        name = kvt_hash_bytes(0, &value->number, sizeof value->number);
    return name == UINT64_MAX ? 0 : name;
}

static void put_name(const char *text, size_t column, struct kvt_trace_name *name)
{
    name->bytes = strlen(text);
    name->column = column;
    (void)snprintf(name->text, sizeof name->text, "%s", text);
}

static kvt_status put_class(const struct kvt_trace_value *value,
                            const struct kvt_trace_place *place, struct kvt_trace_row *row,
                            struct kvt_error *err)
{
    char where[256];
    if (value->text == NULL) {
        kvt_trace_where(place, where);
        return kvt_fail(err, KVT_ERR_INVALID, where, "an SLO class is a name, not a number");
    }
    size_t length = strlen(value->text);
    if (length >= KVT_CLASS_NAME_BYTES) {
        kvt_trace_where(place, where);
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "the SLO class \"%.40s\" has %zu bytes; at most %d are taken", value->text,
                        length, KVT_CLASS_NAME_BYTES - 1);
    }
    put_name(value->text, place->column, &row->names[KVT_TRACE_NAME_CLASS]);
    return KVT_OK;
}

/* A number is a name like any other; who has no use for tasks takes any. */
static void put_task(const struct kvt_trace_value *value, const struct kvt_trace_place *place,
                     struct kvt_trace_row *row)
{
    char number[32];
    (void)snprintf(number, sizeof number, "%.17g", value->number);
    put_name(value->text != NULL ? value->text : number, place->column,
             &row->names[KVT_TRACE_NAME_TASK]);
}

kvt_status kvt_trace_put(struct kvt_trace_column column, const struct kvt_trace_value *value,
                         const struct kvt_trace_place *place, struct kvt_trace_row *row,
                         struct kvt_error *err)
{
    uint64_t count = 0;
    kvt_status status = KVT_OK;
    switch (column.field) {
    case KVT_TRACE_ARRIVAL:
        return kvt_trace_time(value, place, column.unit_ns, &row->time_ns, err);
    case KVT_TRACE_INPUT:
        status = kvt_trace_count(value, place, KVT_TRACE_TOKENS_MAX, &count, err);
        row->input_tokens = (uint32_t)count;
        return status;
    case KVT_TRACE_OUTPUT:
        status = kvt_trace_count(value, place, KVT_TRACE_TOKENS_MAX, &count, err);
        row->output_tokens = (uint32_t)count;
        return status;
    case KVT_TRACE_SESSION:
        row->session = name_of(value, place);
        return KVT_OK;
    case KVT_TRACE_TURN:
        status = kvt_trace_count(value, place, UINT32_MAX, &count, err);
        row->turn = (uint32_t)count;
        return status;
    case KVT_TRACE_SLO_CLASS:
        return put_class(value, place, row, err);
    case KVT_TRACE_TASK:
        put_task(value, place, row);
        return KVT_OK;
    case KVT_TRACE_PREFIX_GROUP:
        row->prefix_group = name_of(value, place);
        return KVT_OK;
    case KVT_TRACE_PREFIX_TOKENS:
        status = kvt_trace_count(value, place, KVT_TRACE_TOKENS_MAX, &count, err);
        row->prefix_tokens = (uint32_t)count;
        return status;
    case KVT_TRACE_THINK_S:
        row->follows = true;
        return kvt_trace_time(value, place, column.unit_ns, &row->think_ns, err);
    default:
        return KVT_OK;
    }
}

struct kvt_trace_row kvt_trace_row_at(uint64_t line)
{
    return (struct kvt_trace_row){.session = UINT64_MAX, .line = line};
}
