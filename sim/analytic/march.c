/* march.c -- mean numbers of requests on their way through a run, without events.
 *
 *     time goes by cells of decoded tokens; in each
 *         step time    = the timing model, at the mean load of those that decode
 *         cell's time  = tokens of a cell / tokens a round x step time
 *         arrivals -> prefill -> slots -> import -> decode, each as much as its queue lets
 *             through in that time (queue_cost.c)
 *         those that began together decode together, and end as the lengths say
 *         what is spare fills with history, what is short takes it back (spare.c)
 *
 * Renewal theory in tokens, fluid queues in time: a steady load is its fixed point, and
 * the way there and the drain come out with it. What is left at the end of a closed run
 * counts as done once it is less than half a request over all ranks. */
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "march_state.h"

/* ---- Rounds ------------------------------------------------------------------------ */

/* Ages of the rounds of each cell of a life, `rounds` rounds a cell. The wait for the first is no
 * round. */
static void make_ages(struct march *march, double rounds)
{
    if (rounds == march->aged_for)
        return;
    march->aged_for = rounds;
    for (uint32_t n = 0; n <= march->env->life_cells; n++) {
        double from = n * rounds - ROUNDS_UNTIL_TAKEN_IN, to = from + rounds;
        for (uint32_t a = 0; a < SURFACE_AGES; a++) {
            double low = a > 0 ? (double)(1u << (a - 1)) : 0;
            double high = a + 1 < SURFACE_AGES ? (double)(1u << a) : INFINITY;
            double both = fmin(to, high) - fmax(from, low);
            march->ages[n][a] = both > 0 ? both / rounds : 0;
        }
    }
}

/* Where those that decode stand: coverage and age, as shares of those in a round. */
static void place_cohorts(struct march *march, double places[SURFACE_COVERAGES][SURFACE_AGES],
                          double *coverage, double *context_tokens)
{
    const struct march_env *env = march->env;
    double pages = 0, eligible = 0, tokens = 0;

    march->in_round = 0;
    memset(places, 0, SURFACE_COVERAGES * sizeof *places);
    for (uint32_t j = march_oldest(march); j < march->cell; j++) {
        const struct cohort *cohort = &march->cohorts[j];
        uint32_t age = march->cell - j - 1;
        double context = env->surfaces->input_tokens + (age + 0.5) * env->cell_tokens;
        double whole = (context - KVT_TAIL_ROWS) / KVT_PAGE_ROWS - 0.5;
        march->eligible_pages[j] = whole > 0 ? whole : 0;
        if (cohort->alive <= 0)
            continue;
        double covered = whole > 0 ? fmin(cohort->pages / whole, 1) : 0;
        double at = covered * (SURFACE_COVERAGES - 1);
        uint32_t low = at < SURFACE_COVERAGES - 1 ? (uint32_t)at : SURFACE_COVERAGES - 2;
        double upper = cohort->alive * (at - low);
        double lower = cohort->alive - upper;
        for (uint32_t a = 0; a < SURFACE_AGES; a++) {
            places[low][a] += lower * march->ages[age][a];
            places[low + 1][a] += upper * march->ages[age][a];
            march->in_round += cohort->alive * march->ages[age][a];
        }
        pages += cohort->alive * cohort->pages;
        eligible += cohort->alive * march->eligible_pages[j];
        tokens += cohort->alive * context;
    }
    for (uint32_t c = 0; c < SURFACE_COVERAGES && march->in_round > 0; c++) {
        for (uint32_t a = 0; a < SURFACE_AGES; a++)
            places[c][a] /= march->in_round;
    }
    bool tiered = !env->surfaces->run->rank->needs.history_in_hbm;
    *coverage = tiered && eligible > 0 ? pages / eligible : NAN;
    *context_tokens = march->decoding > 0 ? tokens / march->decoding : env->surfaces->input_tokens;
}

static void add_rows(const struct march_env *env, const struct surface *surface, double share,
                     double places[SURFACE_COVERAGES][SURFACE_AGES],
                     struct surface_cell rows[KVT_STRATA_MAX])
{
    for (uint32_t c = 0; c < SURFACE_COVERAGES; c++) {
        for (uint32_t a = 0; a < SURFACE_AGES; a++) {
            double weight = share * places[c][a];
            if (weight <= 0)
                continue;
            for (uint32_t s = 0; s < env->surfaces->stratum_count; s++) {
                for (int n = 0; n < SURFACE_COUNTS; n++)
                    rows[s].counts[n] += weight * surface->cells[s][c][a].counts[n];
            }
        }
    }
}

static void mix_means(const struct round_means *a, const struct round_means *b, double share,
                      struct round_means *out)
{
    out->queries = (1 - share) * a->queries + share * b->queries;
    out->draft_tokens = (1 - share) * a->draft_tokens + share * b->draft_tokens;
    out->committed_tokens = (1 - share) * a->committed_tokens + share * b->committed_tokens;
    out->committed_squares = (1 - share) * a->committed_squares + share * b->committed_squares;
}

/* Whether requests come to the ranks from outside, whichever of them has fewest, instead of one for
 * one that has ended there. */
static bool comes_from_outside(const struct march_env *env)
{
    return !env->closed || env->prefill.servers > 0;
}

/* How many more requests the slowest rank of a step decodes than the mean one. In a closed loop the
 * numbers that each imports differ, as in a queue of memoryless arrivals. Of those that come from
 * outside the sum is seldom one that the ranks can share evenly; and they share what imports too,
 * so that a rank which imports nothing has one more to decode than those that import. */
static double excess_requests(const struct march *march, double largest)
{
    const struct march_env *env = march->env;
    double ranks = env->surfaces->run->rank_count;
    double there = march->import.burst + march->import.queue;
    double variance = there * (1 + there) * (1 + env->import.service_scv) / 2;
    double most =
        march->import.burst > 0 ? env->import.service_scv * march->decoding : march->decoding;

    if (comes_from_outside(env))
        return fmin((ranks - 1) / (2 * ranks) + fmin(there, 1), march->decoding * (ranks - 1));
    return fmin(largest * sqrt(fmin(variance, most)), there);
}

/* Number n's weight over number n - 1's, times n: of a mean of `all`, of `exist` at most. */
static double more_odds(double all, double n, double exist)
{
    return isinf(exist) ? all : (exist - n + 1) * all / fmax(exist - all, 1e-9);
}

/* Of so many a rank on average, of whole numbers on each. */
static void note_seen(double each, double weight, double *weights, double *squares)
{
    double part = each - floor(each);

    *weights += weight * each;
    *squares += weight * (each * each + part * (1 - part));
}

/* How many requests one finds decoding on its rank, itself included, where its rank steps alone:
 * those of all ranks are shared evenly, and whoever looks sees the fuller ranks more often. There
 * are about as many as Poisson's law says, or the binomial where no more than some exist. */
static double seen_by_each(const struct march *march)
{
    const struct march_env *env = march->env;
    double ranks = env->surfaces->run->rank_count, all = ranks * march->in_round;
    double exist = env->closed ? ranks * env->in_flight : INFINITY;
    double middle = floor(all), weights = 0, squares = 0;

    /* Weights of the law over that of about its mode, down from it and up. */
    for (double n = middle, weight = 1; n >= 1 && weight > 1e-9; n--) {
        note_seen(n / ranks, weight, &weights, &squares);
        weight *= n / more_odds(all, n, exist);
    }
    double n = middle, weight = 1;
    while (++n <= exist) {
        weight *= more_odds(all, n, exist) / n;
        if (weight <= 1e-9)
            break;
        note_seen(n / ranks, weight, &weights, &squares);
    }
    return weights > 0 ? squares / weights : 1;
}

/* Seconds of a step and how many of them the mean rank waits for the slowest: one has more
 * requests, another misses more rows, and the largest of ranks that differ in both is as far out
 * as both together (G. Blom's approximation of the largest of G normal ones). */
static double slowest_step(const struct march *march, const struct round_load *load,
                           double parts_s[KVT_PARTS], double *waited_s, struct step_range *range)
{
    const struct march_env *env = march->env;
    double ranks = env->surfaces->run->lockstep ? env->surfaces->run->rank_count : 1;
    double seen = march->in_round;
    /* Of requests that come on their own, each sees the others' mean and itself. */
    if (comes_from_outside(env))
        seen = ranks < 2 ? seen_by_each(march)
                         : seen + (1 - (env->closed ? seen / env->in_flight : 0)) / ranks;
    double mean_s = step_cost(env, load, seen, seen, parts_s, range);

    *waited_s = 0;
    if (ranks < 2)
        return mean_s;
    double largest = gsl_cdf_ugaussian_Pinv((ranks - 0.375) / (ranks + 0.25));
    double excess = excess_requests(march, largest), more_parts_s[KVT_PARTS];
    double more_s = step_cost(env, load, seen, seen + excess, more_parts_s, range) - mean_s;
    double fetch_s = largest * load->fetched_spread / sqrt(fmax(seen, 1)) * parts_s[KVT_PART_FETCH];
    *waited_s = hypot(more_s, fetch_s);
    double share = more_s + fetch_s > 0 ? *waited_s / (more_s + fetch_s) : 0;
    for (int p = 0; p < KVT_PARTS; p++)
        parts_s[p] += share * (more_parts_s[p] - parts_s[p]);
    parts_s[KVT_PART_FETCH] += share * fetch_s;
    return mean_s + *waited_s;
}

/* What is no number is none either. */
static bool is_step(double step_s)
{
    return step_s * (double)KVT_NS_PER_S <= (double)KVT_STEP_NS_MAX;
}

kvt_status march_check_step(const struct march_env *env, double step_s, struct kvt_error *err)
{
    char where[96];

    if (is_step(step_s))
        return KVT_OK;
    (void)snprintf(where, sizeof where, "timing \"%s\"", env->surfaces->run->timing->info.name);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "%s predicts a step of %.4g s; at most %lld s are expected: is a constant in "
                    "another unit?",
                    env->surfaces->run->timing->info.name, step_s,
                    (long long)(KVT_STEP_NS_MAX / KVT_NS_PER_S));
}

/* ---- The march -------------------------------------------------------------------------- */

/* Each way to be out of range by itself; past OUTSIDE_MAX of them new ones are left out. */
static void note_outside(struct march *march, const struct step_range *range, double steps)
{
    uint32_t i = 0;

    if (!range->says_outside)
        return;
    while (i < march->outside_count && (march->outside[i].first.part != range->outside.part ||
                                        march->outside[i].first.feature != range->outside.feature))
        i++;
    if (i == OUTSIDE_MAX)
        return;
    if (i == march->outside_count)
        march->outside[march->outside_count++] = (struct outside_count){.first = range->outside};
    march->outside[i].steps += steps;
}

/* What was most often out of range; of equals the first. */
static void describe_outside(const struct march *march, struct march_result *out)
{
    double most = 0;

    for (uint32_t i = 0; i < march->outside_count; i++) {
        if (march->outside[i].steps <= most)
            continue;
        most = march->outside[i].steps;
        out->outside = march->outside[i].first;
    }
    out->says_outside = most > 0;
}

static void count_cell(struct march *march, double committed_tokens,
                       const double parts_s[KVT_PARTS], double waited_s,
                       const struct step_range *range, double dt_s,
                       const struct surface_cell rows[KVT_STRATA_MAX])
{
    const struct kvt_analytic_env *run = march->env->surfaces->run;
    struct march_result *out = march->out;
    double step_s = march->step_s, ranks = run->lockstep ? run->rank_count : 1;
    double rounds = march->in_round * dt_s / step_s;
    double steps = dt_s / step_s * fmin(march->in_round * ranks, 1);

    if (!march->counting)
        return;
    out->counted_s += dt_s;
    out->rounds += rounds;
    out->decode_tokens += rounds * committed_tokens * (1 - march->env->overshoot_share);
    out->steps += steps;
    out->step_s += steps * step_s;
    out->rank_step_s += steps * step_s * ranks;
    out->waited_s += steps * waited_s * ranks;
    if (!range->in_range) {
        out->extrapolated_steps += steps;
        note_outside(march, range, steps);
    }
    for (int p = 0; p < KVT_PARTS; p++)
        out->parts_s[p] += steps * parts_s[p];
    out->running_s += march->decoding * dt_s;
    for (uint32_t s = 0; s < march->env->surfaces->stratum_count; s++) {
        for (int n = 0; n < SURFACE_COUNTS; n++)
            out->rows[s].counts[n] += rounds * rows[s].counts[n];
    }
}

static void look(struct march *march, struct round_load *load, double *coverage,
                 struct surface_cell rows[KVT_STRATA_MAX])
{
    const struct march_env *env = march->env;
    double places[SURFACE_COVERAGES][SURFACE_AGES];
    double active =
        march->decoding * (env->surfaces->run->lockstep ? env->surfaces->run->rank_count : 1);
    uint32_t low;
    double share = step_cost_between(env, active, &low);
    const struct surface *below = env->loads[low];
    const struct surface *above = env->loads[env->load_count > 1 ? low + 1 : low];

    mix_means(&below->rounds, &above->rounds, share, &load->means);
    make_ages(march, env->cell_tokens / load->means.committed_tokens);
    place_cohorts(march, places, coverage, &load->context_tokens);
    memset(rows, 0, KVT_STRATA_MAX * sizeof *rows);
    add_rows(env, below, 1 - share, places, rows);
    add_rows(env, above, share, places, rows);
    step_cost_fold(env, rows, load);
    if (env->surfaces->run->rank->needs.host_backing)
        load->backup_bytes =
            load->means.committed_tokens * (double)env->surfaces->run->rank->row_bytes_per_token;
    load->fill_bytes_per_s = march->fill_bytes_per_s;
    load->import_bytes_per_s = march->import_bytes_per_s;
}

/* One cell; false at the end of the run, or at a step that is too long for any. */
static bool advance(struct march *march, double *ended)
{
    const struct march_env *env = march->env;
    struct march_result *out = march->out;
    struct round_load load = {0};
    struct surface_cell rows[KVT_STRATA_MAX];
    double parts_s[KVT_PARTS], coverage, waited_s;
    struct step_range range;

    look(march, &load, &coverage, rows);
    march->step_s = slowest_step(march, &load, parts_s, &waited_s, &range);
    if (!is_step(march->step_s))
        return false;
    double cell_s = env->cell_tokens / load.means.committed_tokens * march->step_s;
    double dt_s = fmin(cell_s, env->duration_s - march->now_s);
    double middle_s = march->now_s + 0.5 * dt_s, share = cell_s > 0 ? dt_s / cell_s : 1;

    march->counting = march->now_s >= env->warmup_s && out->completed >= env->warmup_requests;
    march->trail[march->cell] = (struct trail){.from_s = march->now_s,
                                               .running = march->decoding,
                                               .coverage = isnan(coverage) ? 0 : coverage,
                                               .covered = isnan(coverage) ? 0 : 1,
                                               .arrived = out->arrived,
                                               .served = out->first_tokens};
    march->cut = march->counting ? march->cut : out->arrived;
    count_cell(march, load.means.committed_tokens, parts_s, waited_s, &range, dt_s, rows);
    double freed = march_end_cell(march, middle_s, share);
    double come = march_arrivals(march, dt_s, freed + *ended);
    out->in_flight_peak = fmax(out->in_flight_peak, out->arrived - out->completed - freed);
    double served = march_let_in(march, come, freed, dt_s);
    march_move_pages(march, dt_s);
    march_begin_cohort(march, served, middle_s);
    *ended = served * env->chance_of_life[0]; /* answers of one token, whose places are free next */
    out->completed += freed + *ended;
    out->counted_completed += march->counting ? freed + *ended : 0;
    out->first_counted += march->counting ? served : 0;
    march->now_s += dt_s;
    march->last_share = share;
    march->cell++;
    march->decoding = 0;
    for (uint32_t j = march_oldest(march); j < march->cell; j++)
        march->decoding += march->cohorts[j].alive;
    double left = env->requests - out->completed;
    return march->now_s < env->duration_s && march->cell < MARCH_CELLS &&
           left * env->surfaces->run->rank_count > 0.5;
}

/* Means over the central half of what was counted. */
static void central_half(struct march *march)
{
    struct march_result *out = march->out;
    double from_s = out->end_s - out->counted_s + 0.25 * out->counted_s;
    double to_s = from_s + 0.5 * out->counted_s, coverage = 0;

    for (uint32_t k = 0; k < march->cell; k++) {
        const struct trail *trail = &march->trail[k];
        double until_s = k + 1 < march->cell ? march->trail[k + 1].from_s : out->end_s;
        double both_s = fmin(until_s, to_s) - fmax(trail->from_s, from_s);
        if (both_s <= 0)
            continue;
        out->active += both_s * trail->running / (to_s - from_s);
        out->covered += both_s * trail->covered;
        coverage += both_s * trail->coverage;
    }
    out->coverage = out->covered > 0 ? coverage / out->covered : NAN;
}

static void close_march(struct march *march)
{
    const struct march_env *env = march->env;
    struct march_result *out = march->out;

    out->end_s = march->now_s;
    /* They began in the middle of their cell, the last of which is the share that was let pass. */
    for (uint32_t j = march_oldest(march); j < march->cell; j++) {
        bool is_last = j + 1 == march->cell;
        double cells =
            is_last ? 0.5 * march->last_share : march->cell - j - 1.5 + march->last_share;
        march_note_spans(march, &march->cohorts[j], march->cohorts[j].alive, cells, march->now_s,
                         false);
    }
    out->running_end = march->decoding;
    out->waiting_end = march->prefill.burst + march->prefill.queue + march->waiting +
                       march->import.burst + march->import.queue;
    if (env->requests - out->completed <= 0.5 / env->surfaces->run->rank_count) {
        out->counted_completed += env->requests - out->completed;
        out->completed = env->requests;
        out->running_end = out->waiting_end = 0;
    }
    double cut = march->counting ? march->cut : out->arrived;
    out->ttft_s = march_waits(march, cut, &out->ttft_requests);
    out->post_ttft_s = march_waits(march, fmax(cut, march->first_wave), &out->post_ttft_requests);
    describe_outside(march, out);
    out->released_bytes = march->released_pages * env->page_bytes;
    central_half(march);
}

kvt_status march_run(const struct march_env *env, struct march_result *out, struct kvt_error *err)
{
    struct march *march = calloc(1, sizeof *march);
    double ended = 0;
    kvt_status status = KVT_OK;

    *out = (struct march_result){.slot_load = NAN};
    if (march) {
        march->cohorts = calloc(MARCH_CELLS + 1, sizeof *march->cohorts);
        march->trail = calloc(MARCH_CELLS + 1, sizeof *march->trail);
        march->eligible_pages = calloc(MARCH_CELLS + 1, sizeof *march->eligible_pages);
    }
    bool ready = march && march->cohorts && march->trail && march->eligible_pages;
    if (ready) {
        march->env = env;
        march->out = out;
        march->first_wave = env->closed ? fmin(env->in_flight, env->requests) : 0;
        while (advance(march, &ended))
            ;
        status = march_check_step(env, march->step_s, err);
        close_march(march);
    }
    if (march) {
        free(march->cohorts);
        free(march->trail);
        free(march->eligible_pages);
    }
    free(march);
    return ready ? status : kvt_fail_nomem(err, "a march through a run");
}
