/* paper_judges.c -- values of the paper that take more than a path into one tree. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "paper.h"

#define OUTPUT "metrics.output_throughput_per_gpu"

enum {
    SAYS_BYTES = 512
};

/* A line that grows. */
struct says {
    char text[SAYS_BYTES];
    size_t used;
};

static void say(struct says *says, const char *fmt, ...) KVT_PRINTF(2, 3);
static void say(struct says *says, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int wrote = vsnprintf(says->text + says->used, sizeof says->text - says->used, fmt, args);
    va_end(args);
    if (wrote > 0)
        says->used += (size_t)wrote;
    if (says->used >= sizeof says->text)
        says->used = sizeof says->text - 1;
}

static kvt_status holds(const struct paper_judge_call *call, bool is_so, const struct says *says,
                        struct paper_value *out, struct kvt_error *err)
{
    out->found = PAPER_HOLDS;
    out->holds = is_so;
    out->says = kvt_arena_strdup(call->arena, says->text);
    return out->says != NULL ? KVT_OK : kvt_fail_nomem(err, call->target->id);
}

/* ---- Sweeps ----------------------------------------------------------------------------- */

/* The next point of a family behind *index, in order; NULL at its end. */
static const struct paper_point *next_of(const struct paper *paper, const char *family,
                                         size_t *index)
{
    while (*index < paper->point_count) {
        const struct paper_point *point = &paper->points[(*index)++];
        if (strcmp(point->family, family) == 0)
            return point;
    }
    return NULL;
}

static const struct paper_point *at_x(const struct paper *paper, const char *family, double x)
{
    size_t index = 0;
    const struct paper_point *point;

    while ((point = next_of(paper, family, &index)) != NULL) {
        if (point->x == x)
            return point;
    }
    return NULL;
}

/* ---- Bytes ------------------------------------------------------------------------------ */

/* Bytes of missed rows: as the timing model has a row on the link, where that is a fitted constant,
 * else as rows are stored. */
static double bytes_of(const struct paper_point *point)
{
    double bytes = paper_number(point->tree, "metrics.h2d_payload_bytes");
    double fitted = paper_number(point->tree, "scenario.timing.wire_row_bytes");

    return isnan(fitted) ? bytes : bytes * fitted / paper_number(point->tree, "payload_row_bytes");
}

static kvt_status bytes_per_miss(const struct paper_judge_call *call, struct paper_value *out,
                                 struct kvt_error *err)
{
    (void)err;
    for (size_t i = 0; i < call->point_count; i++) {
        const cJSON *tree = call->points[i]->tree;
        double missed = paper_number(tree, "missed_selections");
        out->numbers[out->count++] = bytes_of(call->points[i]) / missed;
    }
    return KVT_OK;
}

/* Of a request's decoded tokens: those of rounds, a token each without drafts. */
static kvt_status bytes_per_token(const struct paper_judge_call *call, struct paper_value *out,
                                  struct kvt_error *err)
{
    (void)err;
    for (size_t i = 0; i < call->point_count; i++)
        out->numbers[out->count++] =
            bytes_of(call->points[i]) / paper_number(call->points[i]->tree, "rounds");
    return KVT_OK;
}

/* ---- Numbers of each point -------------------------------------------------------------- */

static kvt_status list_at(const struct paper_judge_call *call, const char *path,
                          struct paper_value *out)
{
    for (size_t i = 0; i < call->point_count; i++)
        out->numbers[out->count++] = paper_number(call->points[i]->tree, path);
    return KVT_OK;
}

/* Where print has a range, the ends of ours. */
static kvt_status active_per_gpu(const struct paper_judge_call *call, struct paper_value *out,
                                 struct kvt_error *err)
{
    struct says says = {.text = ""};
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < call->point_count; i++) {
        double active = paper_number(call->points[i]->tree, "active_per_gpu");
        low = fmin(low, active);
        high = fmax(high, active);
        say(&says, "%s%s %.1f", i > 0 ? ", " : "", call->points[i]->id, active);
    }
    out->numbers[out->count++] = low;
    if (call->target->number_count > 1)
        out->numbers[out->count++] = high;
    out->says = kvt_arena_strdup(call->arena, says.text);
    return out->says != NULL ? KVT_OK : kvt_fail_nomem(err, call->target->id);
}

static kvt_status budgets(const struct paper_judge_call *call, struct paper_value *out,
                          struct kvt_error *err)
{
    (void)err;
    return list_at(call, "budget", out);
}

static kvt_status not_modelled(const struct paper_judge_call *call, struct paper_value *out,
                               struct kvt_error *err)
{
    (void)call, (void)err;
    out->found = PAPER_ABSENT;
    return KVT_OK;
}

/* ---- At the same bounds of latency ------------------------------------------------------ */

static const double tpot_bounds_ms[] = {30, 40, 50};
static const double ttft_bound_ms = 15000;

/* The largest load of a family that keeps both; 0: none does. */
static double largest_load(const struct paper *paper, const char *family, double tpot_ms)
{
    const struct paper_point *point;
    size_t index = 0;
    double largest = 0;

    while ((point = next_of(paper, family, &index)) != NULL) {
        if (paper_number(point->tree, "metrics.mean_tpot_ms") <= tpot_ms &&
            paper_number(point->tree, "metrics.mean_ttft_ms") <= ttft_bound_ms)
            largest = fmax(largest, point->x);
    }
    return largest;
}

static kvt_status bounded_concurrency(const struct paper_judge_call *call, struct paper_value *out,
                                      struct kvt_error *err)
{
    struct says says = {.text = ""};
    double best = 0;

    for (size_t b = 0; b < sizeof tpot_bounds_ms / sizeof tpot_bounds_ms[0]; b++) {
        double first = largest_load(call->paper, call->families[0], tpot_bounds_ms[b]);
        double second = largest_load(call->paper, call->families[1], tpot_bounds_ms[b]);
        say(&says, "%s%.0f ms: C%.0f against C%.0f", b > 0 ? "; " : "", tpot_bounds_ms[b], second,
            first);
        if (first > 0)
            best = fmax(best, second / first);
    }
    out->numbers[out->count++] = best;
    out->says = kvt_arena_strdup(call->arena, says.text);
    return out->says != NULL ? KVT_OK : kvt_fail_nomem(err, call->target->id);
}

/* ---- Blocks ----------------------------------------------------------------------------- */

/* "block-4": 4. */
static double block_of(const char *family)
{
    const char *dash = strrchr(family, '-');
    double block = 0;

    (void)sscanf(dash != NULL ? dash + 1 : "", "%lf", &block);
    return block;
}

/* Output of each family's point at a load; the index of the best. */
static size_t best_family(const struct paper_judge_call *call, double x,
                          double output[PAPER_LIST_MAX])
{
    size_t best = 0;

    for (size_t f = 0; f < call->family_count; f++) {
        const struct paper_point *point = at_x(call->paper, call->families[f], x);
        output[f] = point != NULL ? paper_number(point->tree, OUTPUT) : (double)NAN;
        if (output[f] > output[best])
            best = f;
    }
    return best;
}

/* The paper's block at each load, in the order of the first family's points: ours is the best. */
static kvt_status best_blocks(const struct paper_judge_call *call, struct paper_value *out,
                              struct kvt_error *err)
{
    const struct paper_target *target = call->target;
    const struct paper_point *point;
    struct says says = {.text = ""};
    size_t index = 0;
    bool all = true;

    while ((point = next_of(call->paper, call->families[0], &index)) != NULL &&
           out->count < target->number_count) {
        double output[PAPER_LIST_MAX] = {0};
        size_t best = best_family(call, point->x, output), paper = best;
        for (size_t f = 0; f < call->family_count; f++) {
            if (block_of(call->families[f]) == target->numbers[out->count])
                paper = f;
        }
        double behind = 1 - output[paper] / output[best];
        all = all && behind <= target->allowed;
        if (behind > 0)
            say(&says, "%sC%.0f: block %.0f is %.1f %% behind", says.used > 0 ? "; " : "", point->x,
                target->numbers[out->count], 100 * behind);
        out->numbers[out->count++] = block_of(call->families[best]);
    }
    out->is_decided = true;
    out->holds = all && out->count == target->number_count;
    out->says = kvt_arena_strdup(call->arena, says.text);
    return out->says != NULL ? KVT_OK : kvt_fail_nomem(err, target->id);
}

static kvt_status block_order(const struct paper_judge_call *call, struct paper_value *out,
                              struct kvt_error *err)
{
    const struct paper_point *point;
    struct says says = {.text = "tokens a round and best block:"};
    size_t index = 0;
    double last_best = INFINITY;
    bool rise = true, fall = true;

    says.used = strlen(says.text);
    while ((point = next_of(call->paper, call->families[0], &index)) != NULL) {
        double output[PAPER_LIST_MAX] = {0}, last = 0;
        say(&says, " C%.0f", point->x);
        for (size_t f = 0; f < call->family_count; f++) {
            const struct paper_point *other = at_x(call->paper, call->families[f], point->x);
            double tokens =
                other != NULL ? paper_number(other->tree, "metrics.tokens_per_round") : (double)NAN;
            rise = rise && tokens > last;
            last = tokens;
            say(&says, "%s%.2f", f > 0 ? "<" : " ", tokens);
        }
        /* As for the paper's own blocks, 2 % is no lead. */
        size_t best = best_family(call, point->x, output), largest = best;
        for (size_t f = 0; f < call->family_count; f++) {
            if (output[f] >= 0.98 * output[best] &&
                block_of(call->families[f]) > block_of(call->families[largest]))
                largest = f;
        }
        fall = fall && block_of(call->families[best]) <= last_best;
        last_best = block_of(call->families[largest]);
        say(&says, " (%.0f)", block_of(call->families[best]));
    }
    return holds(call, rise && fall, &says, out, err);
}

/* ---- The load step ---------------------------------------------------------------------- */

static kvt_status released(const struct paper_judge_call *call, struct paper_value *out,
                           struct kvt_error *err)
{
    const cJSON *tree = call->points[0]->tree;
    const cJSON *course = paper_at(tree, "timeline.coverage");
    struct says says = {.text = ""};
    double high = paper_number(tree, "phases.1.metrics.coverage_mean");
    double slots = paper_number(tree, "metrics.slots");
    double last = (double)NAN; /* while somebody has rows that can be covered */
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, course)
    {
        if (cJSON_IsNumber(item))
            last = item->valuedouble;
    }
    say(&says, "coverage %.2f at C16, %.2f at C256 with %.0f slots, %.2f at the end",
        paper_number(tree, "phases.0.metrics.coverage_mean"), high, slots, last);
    return holds(call, high < 0.1 && slots == 208 && last > 0.5, &says, out, err);
}

static kvt_status load_step(const struct paper_judge_call *call, struct paper_value *out,
                            struct kvt_error *err)
{
    static const double wanted[] = {16, 256, 16};
    struct says says = {.text = ""};
    bool is_so = true;

    for (size_t i = 0; i < call->point_count; i++) {
        const cJSON *tree = call->points[i]->tree;
        for (int p = 0; p < 3; p++) {
            const cJSON *phase = cJSON_GetArrayItem(paper_at(tree, "scenario.workload.phases"), p);
            const cJSON *done = cJSON_GetArrayItem(paper_at(tree, "phases"), p);
            double length_s = paper_number(done, "to_s") - paper_number(done, "from_s");
            is_so = is_so && paper_number(phase, "concurrency") == wanted[p] &&
                    fabs(length_s - 300) < 1e-6;
        }
        is_so = is_so && paper_number(tree, "scenario.run.interval_s") == 1 &&
                paper_number(tree, "requests.dropped.unservable") == 0;
        say(&says, "%s%s: %.0f completed, %.0f preempted, none dropped", i > 0 ? "; " : "",
            call->points[i]->id, paper_number(tree, "metrics.completed"),
            paper_number(tree, "metrics.preemptions"));
    }
    return holds(call, is_so, &says, out, err);
}

/* ---- Budgets ---------------------------------------------------------------------------- */

static kvt_status budget_order(const struct paper_judge_call *call, struct paper_value *out,
                               struct kvt_error *err)
{
    struct says says = {.text = ""};
    bool is_so = true;

    for (size_t f = 0; f < call->family_count; f++) {
        const struct paper_point *point, *last = NULL;
        double share = INFINITY, output = 0, best = 0;
        size_t index = 0;
        say(&says, "%s%s:", f > 0 ? "; " : "", call->families[f]);
        while ((point = next_of(call->paper, call->families[f], &index)) != NULL) {
            double next = paper_number(point->tree, "metrics.host_fetch_share");
            is_so = is_so && next < share;
            share = next;
            output = paper_number(point->tree, OUTPUT);
            best = fmax(best, output);
            last = point;
            say(&says, " %.0f %.1f %% %.0f", point->x, 100 * share, output);
        }
        is_so = is_so && last != NULL && output < best;
    }
    return holds(call, is_so, &says, out, err);
}

/* ---- Measured on a GPU ------------------------------------------------------------------ */

/* Times of the figures that begin so, in their order; how many. `of`: "us", the median of repeats,
 * or "low_us" and "high_us", their range. */
static size_t times_of(const cJSON *measured, const char *begins, const char *ends, const char *of,
                       double us[PAPER_LIST_MAX])
{
    const cJSON *command = NULL, *result = NULL;
    size_t count = 0;

    cJSON_ArrayForEach(command, kvt_json_find(measured, "commands"))
    {
        cJSON_ArrayForEach(result, kvt_json_find(command, "results"))
        {
            const cJSON *name = kvt_json_find(result, "name");
            if (!cJSON_IsString(name) || count == PAPER_LIST_MAX)
                continue;
            size_t length = strlen(name->valuestring), tail = strlen(ends);
            if (strncmp(name->valuestring, begins, strlen(begins)) == 0 && length >= tail &&
                strcmp(name->valuestring + length - tail, ends) == 0)
                us[count++] = paper_number(result, of);
        }
    }
    return count;
}

static kvt_status resolver_without_miss(const struct paper_judge_call *call,
                                        struct paper_value *out, struct kvt_error *err)
{
    const cJSON *tree = call->points[0]->tree;
    double few[PAPER_LIST_MAX], few_high[PAPER_LIST_MAX], many[PAPER_LIST_MAX];
    double direct[PAPER_LIST_MAX], direct_low[PAPER_LIST_MAX];
    size_t count = times_of(tree, "figure 8b, batch 8,", ", 0 misses", "us", few);
    size_t highs = times_of(tree, "figure 8b, batch 8,", ", 0 misses", "high_us", few_high);
    size_t other = times_of(tree, "figure 8b, batch 32,", ", 0 misses", "us", many);
    size_t floors = times_of(tree, "figure 8b, batch 8,", "all rows in frames", "us", direct);
    size_t lows = times_of(tree, "figure 8b, batch 8,", "all rows in frames", "low_us", direct_low);
    struct says says = {.text = ""};
    bool is_so = count > 1 && highs == count && other == count && floors == 1 && lows == 1;

    /* The smallest hot cache may be as fast as the direct path: no slower than repeats tell. */
    bool is_whole = is_so;
    for (size_t i = 0; is_whole && i < count; i++) {
        is_so = is_so && few_high[i] >= direct_low[0] && many[i] >= few[i] &&
                (i == 0 || few[i] >= few[i - 1]);
        say(&says, "%s%.2f", i > 0 ? " " : "batch 8, us by size: ", few[i]);
    }
    if (is_whole)
        say(&says, "; direct %.2f", direct[0]);
    if (count == 0) {
        out->found = PAPER_ABSENT;
        return KVT_OK;
    }
    return holds(call, is_so, &says, out, err);
}

static kvt_status resolver_with_misses(const struct paper_judge_call *call, struct paper_value *out,
                                       struct kvt_error *err)
{
    const cJSON *tree = call->points[0]->tree;
    double without[PAPER_LIST_MAX], with[PAPER_LIST_MAX];
    size_t count = times_of(tree, "figure 8c", ", 0 misses", "us", without);
    struct says says = {.text = ""};
    bool is_so = count > 0 && times_of(tree, "figure 8c", ", 77 misses", "us", with) == count;

    for (size_t i = 0; is_so && i < count; i++) {
        is_so = with[i] > without[i];
        say(&says, "%s%.2f/%.2f", i > 0 ? " " : "us with and without, by batch: ", with[i],
            without[i]);
    }
    if (count == 0) {
        out->found = PAPER_ABSENT;
        return KVT_OK;
    }
    return holds(call, is_so, &says, out, err);
}

/* ---- Properties ------------------------------------------------------------------------- */

/* "S.order": what the watched run has of "order". One that was never looked for, or whose occasion
 * never came, does not hold. */
static kvt_status property(const struct paper_judge_call *call, struct paper_value *out,
                           struct kvt_error *err)
{
    const char *dot = strchr(call->target->id, '.');
    const cJSON *found = kvt_json_find(call->points[0]->tree, dot != NULL ? dot + 1 : "");
    const cJSON *what = kvt_json_find(found, "what");
    double checks = paper_number(found, "checks"), faults = paper_number(found, "faults");
    double occasions = paper_number(found, "occasions");
    struct says says = {.text = ""};

    say(&says, "%.0f checks, %.0f faults, %.0f occasions: %s", checks, faults, occasions,
        cJSON_IsString(what) ? what->valuestring : "no such property");
    return holds(call, checks > 0 && faults == 0 && occasions > 0, &says, out, err);
}

/* ---- All of them ------------------------------------------------------------------------ */

kvt_status paper_judge(const char *name, const struct paper_judge_call *call,
                       struct paper_value *out, struct kvt_error *err)
{
    static const struct {
        const char *name;
        size_t points, families; /* at least */
        kvt_status (*judge)(const struct paper_judge_call *call, struct paper_value *out,
                            struct kvt_error *err);
    } judges[] = {{"bytes_per_miss", 1, 0, bytes_per_miss},
                  {"bytes_per_token", 1, 0, bytes_per_token},
                  {"active_per_gpu", 1, 0, active_per_gpu},
                  {"budgets", 1, 0, budgets},
                  {"not_modelled", 0, 0, not_modelled},
                  {"bounded_concurrency", 0, 2, bounded_concurrency},
                  {"best_blocks", 0, 2, best_blocks},
                  {"block_order", 0, 2, block_order},
                  {"released", 1, 0, released},
                  {"load_step", 1, 0, load_step},
                  {"budget_order", 0, 1, budget_order},
                  {"resolver_without_miss", 1, 0, resolver_without_miss},
                  {"resolver_with_misses", 1, 0, resolver_with_misses},
                  {"property", 1, 0, property}};

    for (size_t i = 0; i < sizeof judges / sizeof judges[0]; i++) {
        if (strcmp(name, judges[i].name) != 0)
            continue;
        if (call->point_count < judges[i].points || call->family_count < judges[i].families)
            return kvt_fail(err, KVT_ERR_INVALID, call->target->where,
                            "%s takes %zu points and %zu families at least", name, judges[i].points,
                            judges[i].families);
        return judges[i].judge(call, out, err);
    }
    return kvt_fail(err, KVT_ERR_INVALID, call->target->where, "there is no judge \"%.60s\"", name);
}
