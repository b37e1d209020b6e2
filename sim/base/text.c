/* text.c -- text to numbers: all of it, in decimal, or a reason why not. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kvt/file.h"
#include "number.h"

enum {
    QUOTED_BYTES_MAX = 40
}; /* of the text, in a message */

/* A decimal taken apart: digits (without the point) times 10^exponent. */
struct decimal {
    char digits[KVT_NUMBER_BYTES_MAX];
    size_t digit_count;
    int64_t exponent;
};

static kvt_status refuse(struct kvt_error *err, kvt_status status, const char *where,
                         const char *text, const char *expected)
{
    if (text[0] == '\0')
        return kvt_fail(err, status, where, "empty; expected %s", expected);
    const char *more = strlen(text) > QUOTED_BYTES_MAX ? "..." : "";
    return kvt_fail(err, status, where, "\"%.*s%s\" is not %s", QUOTED_BYTES_MAX, text, more,
                    expected);
}

/* Leading zeros are ordinary in fixed-width columns, so they are stepped over;
 * everything else is JSON's grammar. NULL when the text is not a number. */
static const char *number_in(const char *text, size_t *out_bytes)
{
    size_t bytes = strlen(text);
    while (bytes > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9') {
        text++;
        bytes--;
    }
    if (bytes > KVT_NUMBER_BYTES_MAX || bytes == 0 || kvt_number_scan(text, bytes) != bytes)
        return NULL;
    *out_bytes = bytes;
    return text;
}

static int64_t exponent_of(const char *text, size_t bytes)
{
    const int64_t enough = 1000000; /* past any number of digits that is read */
    bool is_negative = text[0] == '-';
    size_t at = text[0] == '-' || text[0] == '+' ? 1 : 0;
    int64_t exponent = 0;
    for (; at < bytes; at++) {
        if (exponent < enough)
            exponent = exponent * 10 + (text[at] - '0');
    }
    return is_negative ? -exponent : exponent;
}

static void take_apart(const char *number, size_t bytes, struct decimal *out)
{
    out->digit_count = 0;
    out->exponent = 0;
    bool is_fraction = false;
    for (size_t i = 0; i < bytes; i++) {
        if (number[i] == 'e' || number[i] == 'E') {
            out->exponent += exponent_of(number + i + 1, bytes - i - 1);
            break;
        }
        if (number[i] == '.') {
            is_fraction = true;
            continue;
        }
        out->digits[out->digit_count++] = number[i];
        out->exponent -= is_fraction ? 1 : 0;
    }
    while (out->digit_count > 0 && out->digits[out->digit_count - 1] == '0') {
        out->digit_count--;
        out->exponent++;
    }
}

/* digits * 10^exponent, exactly; false past 64 bits. */
static bool whole_value(const struct decimal *decimal, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < decimal->digit_count; i++) {
        uint64_t digit = (uint64_t)(decimal->digits[i] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    for (int64_t i = 0; i < decimal->exponent && value > 0; i++) {
        if (value > UINT64_MAX / 10)
            return false;
        value *= 10;
    }
    *out = value;
    return true;
}

kvt_status kvt_text_count(const char *text, const char *where, uint64_t maximum, uint64_t *out,
                          struct kvt_error *err)
{
    const char *expected = "a whole number in decimal, without a sign";
    size_t bytes = 0;
    const char *number = number_in(text, &bytes);
    if (number == NULL || number[0] == '-')
        return refuse(err, KVT_ERR_PARSE, where, text, expected);

    struct decimal decimal;
    take_apart(number, bytes, &decimal);
    if (decimal.digit_count > 0 && decimal.exponent < 0)
        return refuse(err, KVT_ERR_PARSE, where, text, expected);

    uint64_t value = 0;
    if (!whole_value(&decimal, &value) || value > maximum) {
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%.*s is too large; at most %" PRIu64 " is taken", (int)bytes, number,
                        maximum);
    }
    *out = value;
    return KVT_OK;
}

kvt_status kvt_text_real(const char *text, const char *where, double minimum, double maximum,
                         double *out, struct kvt_error *err)
{
    size_t bytes = 0;
    size_t sign_bytes = text[0] == '-' ? 1 : 0;
    const char *number = number_in(text + sign_bytes, &bytes);
    if (number == NULL || number[0] == '-')
        return refuse(err, KVT_ERR_PARSE, where, text, "a finite decimal number");

    double magnitude = kvt_number_value(number, bytes);
    double value = sign_bytes > 0 ? -magnitude : magnitude;
    if (!(value >= minimum && value <= maximum) || !isfinite(magnitude)) {
        char least[32];
        char most[32];
        kvt_number_print_bound(minimum, least);
        kvt_number_print_bound(maximum, most);
        return kvt_fail(err, KVT_ERR_INVALID, where, "%s is out of range, expected %s to %s", text,
                        least, most);
    }
    *out = value;
    return KVT_OK;
}
