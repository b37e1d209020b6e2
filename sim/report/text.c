/* text.c -- lines for people, 80 columns of them. */
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

const char *text_figure(double value, char out[TEXT_FIGURE_BYTES])
{
    if (!isfinite(value))
        snprintf(out, TEXT_FIGURE_BYTES, "-");
    else if (value != 0 && fabs(value) < 0.01)
        snprintf(out, TEXT_FIGURE_BYTES, "%.2g", value);
    else if (fabs(value) < 10)
        snprintf(out, TEXT_FIGURE_BYTES, "%.2f", value);
    else if (fabs(value) < 1000)
        snprintf(out, TEXT_FIGURE_BYTES, "%.1f", value);
    else
        snprintf(out, TEXT_FIGURE_BYTES, "%.0f", value);
    return out;
}

void text_line(FILE *stream, const char *fmt, ...)
{
    char line[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    const char *rest = line;
    int width = TEXT_COLUMNS;
    while (strlen(rest) > (size_t)width) {
        int cut = width;
        while (cut > 1 && rest[cut] != ' ')
            cut--;
        if (cut == 1)
            cut = width;
        fprintf(stream, "%.*s\n%11s", cut, rest, "");
        rest += cut;
        while (*rest == ' ')
            rest++;
        width = TEXT_COLUMNS - 11;
    }
    fprintf(stream, "%s\n", rest);
}

void text_rule(FILE *stream)
{
    for (int i = 0; i < TEXT_COLUMNS; i++)
        fputc('-', stream);
    fputc('\n', stream);
}
