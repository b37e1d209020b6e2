/* number.c -- strtod() and "%g" with a point, where a locale may have put a comma. */
#include "number.h"

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits_at(const char *text, size_t text_bytes, size_t at)
{
    size_t end = at;
    while (end < text_bytes && is_digit(text[end]))
        end++;
    return end - at;
}

/* number = [ "-" ] ( "0" / 1-9 *DIGIT ) [ "." 1*DIGIT ] [ ("e"/"E") ["+"/"-"] 1*DIGIT ]
 * RFC 8259, section 6. What does not belong any more ends the number. */
size_t kvt_number_scan(const char *text, size_t text_bytes)
{
    size_t at = text_bytes > 0 && text[0] == '-' ? 1 : 0;
    size_t whole_digits = digits_at(text, text_bytes, at);
    if (whole_digits == 0)
        return 0;
    at += text[at] == '0' ? 1 : whole_digits;

    if (at < text_bytes && text[at] == '.') {
        size_t digits = digits_at(text, text_bytes, at + 1);
        if (digits == 0)
            return at;
        at += 1 + digits;
    }
    if (at < text_bytes && (text[at] == 'e' || text[at] == 'E')) {
        size_t digits_from = at + 1;
        if (digits_from < text_bytes && (text[digits_from] == '+' || text[digits_from] == '-'))
            digits_from++;
        size_t digits = digits_at(text, text_bytes, digits_from);
        if (digits > 0)
            at = digits_from + digits;
    }
    return at;
}

double kvt_number_value(const char *text, size_t text_bytes)
{
    assert(text_bytes <= KVT_NUMBER_BYTES_MAX);
    char local[KVT_NUMBER_BYTES_MAX + MB_LEN_MAX + 1];
    const char *point = memchr(text, '.', text_bytes);
    if (point == NULL) {
        memcpy(local, text, text_bytes);
        local[text_bytes] = '\0';
        return strtod(local, NULL);
    }
    const char *local_point = localeconv()->decimal_point;
    size_t local_point_bytes = strnlen(local_point, MB_LEN_MAX);
    size_t before = (size_t)(point - text);
    size_t after = text_bytes - before - 1;
    memcpy(local, text, before);
    memcpy(local + before, local_point, local_point_bytes);
    memcpy(local + before + local_point_bytes, point + 1, after);
    local[before + local_point_bytes + after] = '\0';
    return strtod(local, NULL);
}

/* Whatever stands where "%g" puts its point becomes '.'. */
static void restore_point(char *text)
{
    size_t start = strspn(text, "-0123456789");
    size_t end = start;
    while (text[end] != '\0' && text[end] != 'e' && !is_digit(text[end]))
        end++;
    if (end == start)
        return;
    text[start] = '.';
    memmove(text + start + 1, text + end, strlen(text + end) + 1);
}

void kvt_json_print_number(double value, char out[32])
{
    const double exact_counts = 0x1p53;
    if (!isfinite(value)) {
        (void)snprintf(out, 32, "null");
        return;
    }
    if (fabs(value) <= exact_counts && value == floor(value)) {
        (void)snprintf(out, 32, "%.0f", value);
        return;
    }
    /* Every decimal of 15 digits survives a normal double, so fewer than 15 are
     * found by "%.15g", which drops the zeros at the end; 17 always do. Below
     * DBL_MIN doubles carry fewer bits, and the search starts at one digit. */
    char text[32 + MB_LEN_MAX] = "";
    bool reads_back = false;
    for (int digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG; !reads_back; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        restore_point(text);
        reads_back = digits == DBL_DECIMAL_DIG || kvt_number_value(text, strlen(text)) == value;
    }
    memcpy(out, text, strlen(text) + 1);
}

void kvt_number_print_bound(double value, char out[32])
{
    if (isinf(value))
        (void)snprintf(out, 32, "%s", value < 0.0 ? "-inf" : "inf");
    else
        kvt_json_print_number(value, out);
}
