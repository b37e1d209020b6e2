/* date.c -- times written as dates, to nanoseconds since 1970. */
#include "trace_file.h"

enum {
    YEAR_FIRST = 1970,
    YEAR_LAST = 2095,
    LEAP_DAYS_BEFORE_1970 = 1969 / 4 - 1969 / 100 + 1969 / 400
};

/* Reads exactly `digits` of them. */
static bool number_of(const char **text, int digits, int64_t *out)
{
    int64_t value = 0;
    for (int i = 0; i < digits; i++) {
        char c = (*text)[i];
        if (c < '0' || c > '9')
            return false;
        value = value * 10 + (c - '0');
    }
    *text += digits;
    *out = value;
    return true;
}

static bool skip(const char **text, char expected)
{
    if (**text != expected)
        return false;
    (*text)++;
    return true;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t days_of_month(int64_t year, int64_t month)
{
    static const int8_t days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

/* Days since 1970-01-01 in the Gregorian calendar: leap days up to the year's
 * start, then the months before. */
static int64_t days_since_1970(int64_t year, int64_t month, int64_t day)
{
    int64_t before = year - 1;
    int64_t leap_days = before / 4 - before / 100 + before / 400 - LEAP_DAYS_BEFORE_1970;
    int64_t days = (year - YEAR_FIRST) * 365 + leap_days;
    for (int64_t m = 1; m < month; m++)
        days += days_of_month(year, m);
    return days + day - 1;
}

/* ".9799600": up to nine digits; ".": none. No point: no fraction. */
static bool fraction_of(const char **text, int64_t *out_ns)
{
    *out_ns = 0;
    if (!skip(text, '.'))
        return true;
    int64_t weight_ns = KVT_NS_PER_S / 10;
    while (**text >= '0' && **text <= '9') {
        if (weight_ns == 0)
            return false;
        *out_ns += (**text - '0') * weight_ns;
        weight_ns /= 10;
        (*text)++;
    }
    return true;
}

/* "Z", "+00:00", "-0730", "+02", or nothing. */
static bool zone_of(const char **text, int64_t *out_s)
{
    *out_s = 0;
    if (**text == '\0' || skip(text, 'Z'))
        return true;
    int64_t sign = **text == '-' ? -1 : 1;
    int64_t hours = 0;
    int64_t minutes = 0;
    if (!skip(text, '+') && !skip(text, '-'))
        return false;
    if (!number_of(text, 2, &hours) || hours > 14)
        return false;
    if (**text != '\0') {
        (void)skip(text, ':');
        if (!number_of(text, 2, &minutes) || minutes > 59)
            return false;
    }
    *out_s = sign * (hours * 3600 + minutes * 60);
    return true;
}

bool kvt_trace_date_ns(const char *text, int64_t *out_ns)
{
    int64_t year = 0;
    int64_t month = 0;
    int64_t day = 0;
    if (!number_of(&text, 4, &year) || !skip(&text, '-') || !number_of(&text, 2, &month) ||
        !skip(&text, '-') || !number_of(&text, 2, &day))
        return false;
    if (year < YEAR_FIRST || year > YEAR_LAST || month < 1 || month > 12 || day < 1 ||
        day > days_of_month(year, month))
        return false;
    if (!skip(&text, ' ') && !skip(&text, 'T'))
        return false;

    int64_t hour = 0;
    int64_t minute = 0;
    int64_t second = 0;
    if (!number_of(&text, 2, &hour) || !skip(&text, ':') || !number_of(&text, 2, &minute) ||
        !skip(&text, ':') || !number_of(&text, 2, &second))
        return false;
    if (hour > 23 || minute > 59 || second > 59)
        return false;

    int64_t fraction_ns = 0;
    int64_t zone_s = 0;
    if (!fraction_of(&text, &fraction_ns) || !zone_of(&text, &zone_s) || *text != '\0')
        return false;
    int64_t seconds =
        days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone_s;
    if (seconds < 0)
        return false;
    *out_ns = seconds * KVT_NS_PER_S + fraction_ns;
    return true;
}
