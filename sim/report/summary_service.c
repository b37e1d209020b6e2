/* summary_service.c -- the summary of classes, costs and the prefill pool. */
#include "summary.h"

#include <string.h>

#include "text.h"

/* In twenty columns, as much of it as has room, in whole characters. */
static void put_name(FILE *stream, const char *name)
{
    int cut = 18;

    if (strlen(name) <= 20) {
        fprintf(stream, "%-20s", name);
        return;
    }
    while (cut > 0 && ((unsigned char)name[cut] & 0xC0) == 0x80)
        cut--;
    fprintf(stream, "%.*s..", cut, name);
}

void summary_put_classes(FILE *stream, const cJSON *result)
{
    static const struct {
        const char *name;
        double scale;
    } columns[] = {{"attained_share", 100}, {"attain", 100},    {"request_goodput", 1},
                   {"p99_ttft_ms", 1e-3},   {"p99_tpot_ms", 1}, {"p99_e2el_ms", 1e-3}};
    const cJSON *classes = kvt_json_find(result, "classes"), *item;

    if (!classes)
        return;
    fprintf(stream, "%-20s %9s %9s %9s %9s %9s %9s\n", "class (p99)", "met %", "asked %", "good/s",
            "TTFT s", "TPOT ms", "E2E s");
    cJSON_ArrayForEach(item, classes)
    {
        put_name(stream, text_at(item, "name"));
        for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
            char text[16];
            const cJSON *value = kvt_json_find(item, columns[i].name);
            fprintf(stream, " %9s",
                    text_figure(cJSON_IsNumber(value) ? columns[i].scale * value->valuedouble : NAN,
                                text));
        }
        fputc('\n', stream);
    }
}

void summary_put_expenses(FILE *stream, const struct kvt_run *run, const cJSON *result)
{
    char a[16], b[16], c[16];

    if (run->scenario->has_usd)
        text_line(stream, "money      %s USD an hour, %s USD a million output tokens (your prices)",
                  text_figure(metric(result, "usd_per_hour"), a),
                  text_figure(metric(result, "usd_per_million_output_tokens"), b));
    if (run->scenario->has_watts)
        text_line(stream, "energy     %s kWh, %s kW on average, %s J an output token (your watts)",
                  text_figure(metric(result, "energy_kwh"), a),
                  text_figure(metric(result, "mean_power_watts") / 1e3, b),
                  text_figure(metric(result, "joules_per_output_token"), c));
}

void summary_put_prefill(FILE *stream, const struct kvt_run *run, const cJSON *result)
{
    const struct kvt_prefill *prefill = &run->scenario->prefill;
    double tokens =
        run->total.admitted > 0 ? (double)run->total.input_tokens / (double)run->total.admitted : 0;
    char a[16], b[16];

    if (prefill->mode != KVT_PREFILL_SEPARATE || !prefill->is_roofline || tokens <= 0)
        return;
    double seconds = kvt_prefill_seconds(prefill, 0, tokens);
    text_line(stream,
              "prefill    %u server%s of %u x %s: %.0f tokens in %s s each, %.0f a second; busy %s "
              "%% of the time",
              prefill->servers, prefill->servers == 1 ? "" : "s", prefill->tp,
              prefill->hardware->name, tokens, text_figure(seconds, a), tokens / seconds,
              text_figure(100 * metric(result, "prefill_busy_share"), b));
}
