/* axis.c -- "PATH=V1,V2,.." into a key and its values, ranges spelled out. */
#include "axis.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"

enum {
    NUMBER_BYTES = 64,
    DECIMALS_MAX = 15
};

/* Where HIGH is met but for rounding, it is met. */
static const double slack = 1e-9;

bool cli_path_holds(const char *above, const char *path)
{
    size_t length = strlen(above);

    return strncmp(path, above, length) == 0 && (path[length] == '\0' || path[length] == '.');
}

size_t cli_piece_length(const char *text)
{
    unsigned depth = 0;
    bool quoted = false;
    size_t i = 0;

    for (; text[i] != '\0'; i++) {
        if (quoted && text[i] == '\\' && text[i + 1] != '\0')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && (text[i] == '[' || text[i] == '{'))
            depth++;
        else if (!quoted && (text[i] == ']' || text[i] == '}') && depth > 0)
            depth--;
        else if (!quoted && depth == 0 && text[i] == ',')
            break;
    }
    return i;
}

/* ---- Ranges ------------------------------------------------------------------------------ */

struct range {
    double low, high, step; /* step: a factor where is_geometric */
    bool is_geometric;
    bool of_top_k; /* "2k:8k:1k": in multiples of top-k, as residency.hot_tokens takes them */
    int decimals;  /* of what is added up */
    size_t count;
};

static bool is_range(const char *piece, size_t bytes)
{
    bool has_colon = false;

    for (size_t i = 0; i < bytes; i++) {
        if (piece[i] == '\0' || strchr("0123456789+-.eE*:k", piece[i]) == NULL)
            return false;
        has_colon = has_colon || piece[i] == ':';
    }
    return has_colon;
}

/* Decimals that the text of a number needs: 2 of "0.25", 0 of "1e3", 4 of "2.5e-3". */
static int decimals_of(const char *text)
{
    const char *point = strchr(text, '.');
    const char *exponent = strpbrk(text, "eE");
    size_t digits = point != NULL ? strspn(point + 1, "0123456789") : 0;
    double power = 0;

    if (exponent != NULL && kvt_text_real(exponent + 1 + (exponent[1] == '+'), "", -DECIMALS_MAX,
                                          DECIMALS_MAX, &power, NULL) != KVT_OK)
        return DECIMALS_MAX;
    double decimals = (double)digits - power;
    return decimals < 0 ? 0 : decimals > DECIMALS_MAX ? DECIMALS_MAX : (int)decimals;
}

static bool read_number(const char *text, size_t bytes, double *out, int *decimals)
{
    char number[NUMBER_BYTES];

    if (bytes >= sizeof number)
        return false;
    memcpy(number, text, bytes);
    number[bytes] = '\0';
    if (kvt_text_real(number, "", -DBL_MAX, DBL_MAX, out, NULL) != KVT_OK)
        return false;
    int own = decimals_of(number);
    if (own > *decimals)
        *decimals = own;
    return true;
}

static bool read_range(const char *piece, size_t bytes, struct range *out)
{
    const char *first = memchr(piece, ':', bytes);
    const char *end = piece + bytes;
    const char *second = first != NULL ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
    int of_high = 0; /* says nothing of the values */

    if (second == NULL)
        return false;
    const char *step = second + 1;
    *out = (struct range){0};
    out->is_geometric = step < end && step[0] == '*';
    out->of_top_k = first > piece && first[-1] == 'k';
    step += out->is_geometric;
    /* All of it is in one unit, but for a factor, which has none. */
    if (out->of_top_k != (second[-1] == 'k') ||
        (out->of_top_k && !out->is_geometric) != (end[-1] == 'k'))
        return false;
    size_t unit = out->of_top_k, of_step = out->of_top_k && !out->is_geometric;
    return read_number(piece, (size_t)(first - piece) - unit, &out->low, &out->decimals) &&
           read_number(first + 1, (size_t)(second - first - 1) - unit, &out->high, &of_high) &&
           read_number(step, (size_t)(end - step) - of_step, &out->step, &out->decimals);
}

/* NULL where it is a range with an end; else what is wrong with it. */
static const char *fault_of(struct range *range)
{
    if (range->low > range->high)
        return "is empty: the low end is above the high end";
    if (range->is_geometric && range->low <= 0)
        return "has no end: with a factor the low end is above 0";
    if (range->is_geometric && range->step <= 1)
        return "has no end: the factor is above 1";
    if (!range->is_geometric && range->step <= 0)
        return "has no end: the step is above 0";
    double steps = range->is_geometric ? log(range->high / range->low) / log(range->step)
                                       : (range->high - range->low) / range->step;
    if (!(steps < CLI_AXIS_VALUES_MAX))
        return "has more values than the 1000000 that are taken";
    range->count = (size_t)floor(steps + slack) + 1;
    return NULL;
}

static const char *range_value(const struct range *range, size_t i, struct kvt_arena *arena)
{
    char text[400]; /* the largest double has 309 digits */
    char shortest[32];
    double value = range->is_geometric ? range->low * pow(range->step, (double)i)
                                       : range->low + range->step * (double)i;

    if (fabs(value - range->high) <= slack * fabs(range->high)) /* which rounding misses by a bit */
        (void)snprintf(text, sizeof text, "%.*g", DBL_DECIMAL_DIG, range->high);
    else if (range->is_geometric)
        (void)snprintf(text, sizeof text, "%.*g", DBL_DIG, value);
    else
        (void)snprintf(text, sizeof text, "%.*f", range->decimals, value);
    if (kvt_text_real(text, "", -DBL_MAX, DBL_MAX, &value, NULL) != KVT_OK)
        return kvt_arena_printf(arena, "%s", text); /* beyond 63 digits: as it is */
    kvt_json_print_number(value, shortest);
    return kvt_arena_printf(arena, "%s%s", shortest, range->of_top_k ? "k" : "");
}

/* ---- The axis ---------------------------------------------------------------------------- */

/* A piece between commas, as so many values. */
static kvt_status count_piece(const char *piece, size_t bytes, const char *where, size_t *count,
                              struct kvt_error *err)
{
    struct range range;
    int shown = bytes < 100 ? (int)bytes : 100;

    *count = 1;
    if (bytes == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "found an empty value; PATH=V1,V2,.. has text between its commas");
    if (!is_range(piece, bytes))
        return KVT_OK;
    if (!read_range(piece, bytes, &range))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "found \"%.*s\"; a range is LOW:HIGH:STEP or LOW:HIGH:*FACTOR, and a text "
                        "with colons stands in quotes",
                        shown, piece);
    const char *fault = fault_of(&range);
    if (fault != NULL)
        return kvt_fail(err, KVT_ERR_INVALID, where, "the range \"%.*s\" %s", shown, piece, fault);
    *count = range.count;
    return KVT_OK;
}

static kvt_status count_values(const char *text, const char *where, size_t *out,
                               struct kvt_error *err)
{
    size_t total = 0;

    for (;;) {
        size_t bytes = cli_piece_length(text);
        size_t count = 0;
        kvt_status status = count_piece(text, bytes, where, &count, err);
        if (status != KVT_OK)
            return status;
        total += count;
        if (total > CLI_AXIS_VALUES_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "with \"%.*s\" there are more values than the %d that are taken",
                            bytes < 100 ? (int)bytes : 100, text, CLI_AXIS_VALUES_MAX);
        if (text[bytes] == '\0')
            break;
        text += bytes + 1;
    }
    *out = total;
    return KVT_OK;
}

/* Of text that count_values() took: false when memory is short. */
static bool fill_values(const char *text, size_t count, struct kvt_arena *arena,
                        const char **values)
{
    for (size_t at = 0; at < count;) {
        size_t bytes = cli_piece_length(text);
        struct range range = {.count = 1};
        bool ranges =
            is_range(text, bytes) && read_range(text, bytes, &range) && fault_of(&range) == NULL;
        for (size_t i = 0; i < (ranges ? range.count : 1); i++, at++) {
            values[at] = ranges ? range_value(&range, i, arena)
                                : kvt_arena_printf(arena, "%.*s", (int)bytes, text);
            if (values[at] == NULL)
                return false;
        }
        text += bytes + 1;
    }
    return true;
}

kvt_status cli_axis_parse(const char *text, const char *where, struct kvt_arena *arena,
                          struct cli_axis *out, struct kvt_error *err)
{
    const char *equals = strchr(text, '=');
    size_t count = 0;

    if (equals == NULL || equals == text)
        return kvt_fail(err, KVT_ERR_INVALID, where, "found \"%.100s\", expected PATH=V1,V2,..",
                        text);
    size_t path_bytes = (size_t)(equals - text);
    if (strcspn(text, " \t\n\",{[") < path_bytes)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "found the path \"%.*s\"; a dotted path of keys is expected before the =",
                        path_bytes < 100 ? (int)path_bytes : 100, text);
    kvt_status status = count_values(equals + 1, where, &count, err);
    if (status != KVT_OK)
        return status;
    const char *path = kvt_arena_printf(arena, "%.*s", (int)path_bytes, text);
    const char **values = kvt_arena_array(arena, count, sizeof *values, _Alignof(const char *));
    if (path == NULL || values == NULL || !fill_values(equals + 1, count, arena, values))
        return kvt_fail_nomem(err, "an axis");
    *out = (struct cli_axis){.path = path, .values = values, .value_count = count};
    return KVT_OK;
}
