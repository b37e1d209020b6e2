/* march_flow.c -- a cell of a march: who comes, waits, is let in and ends, and whose pages move. */
#include <math.h>

#include "march_state.h"

/* ---- Queues -------------------------------------------------------------------------- */

/* What leaves the queue of a rank's share of a stage, `together` ranks of which queue as one. */
static double leave(const struct march_queue *law, double queue, double together, double dt_s)
{
    return queue_served(together * queue, together * law->servers, law->service_s, law->variability,
                        law->load, dt_s) /
           together;
}

/* What leaves a rank's share of a stage in dt_s, as ranks queue together (1) or apart (0); its
 * integral of numbers x time is added to *there_s. The burst is
 * whole requests, each of them there until its own service ends: half a service more than the
 * flow's integral. */
static double serve(struct stage *stage, const struct march_queue *law, double together,
                    double burst_service_s, double dt_s, double *there_s)
{
    double servers = law->servers;
    double busy_s = fmin(stage->burst * burst_service_s / servers, dt_s);
    double of_burst = burst_service_s > 0 ? busy_s * servers / burst_service_s : stage->burst;
    double of_queue = 0;

    *there_s += (stage->burst - 0.5 * of_burst) * busy_s + 0.5 * of_burst * burst_service_s;
    *there_s += (stage->burst - of_burst) * (dt_s - busy_s) + stage->queue * busy_s;
    stage->burst -= of_burst;
    if (busy_s < dt_s) {
        stage->burst = 0;
        of_queue = together * leave(law, stage->queue, law->shares, dt_s - busy_s);
        if (together < 1)
            of_queue += (1 - together) * leave(law, stage->queue, 1, dt_s - busy_s);
        stage->queue -= of_queue;
    }
    *there_s += stage->queue * (dt_s - busy_s);
    return of_burst + of_queue;
}

double march_arrivals(struct march *march, double dt_s, double ended)
{
    const struct march_env *env = march->env;
    double left = env->requests - march->out->arrived, come;

    if (env->closed)
        come = march->cell == 0 ? env->in_flight : ended;
    else
        come = env->arrivals_per_s * dt_s;
    come = fmin(come, left > 0 ? left : 0);
    march->out->arrived += come;
    march->out->counted_arrived += march->counting ? come : 0;
    return come;
}

/* Whether slots keep up with what comes, while it comes: by mean values somebody waits only where
 * they do not. */
static void note_full(struct march *march, double come, double admitted)
{
    bool is_full = march->waiting > 0;

    march->full_come = is_full ? march->full_come + come : 0;
    march->full_let_in = is_full ? march->full_let_in + admitted : 0;
    if (march->out->arrived < march->env->requests)
        march->out->slot_load = march->waiting * march->env->surfaces->run->rank_count >= 1
                                    ? march->full_come / march->full_let_in
                                    : (double)NAN;
}

double march_let_in(struct march *march, double come, double ended, double dt_s)
{
    const struct march_env *env = march->env;
    struct march_result *out = march->out;
    double prefilling_s = 0, importing_s = 0;
    double held = march->import.burst + march->import.queue + march->decoding - ended;
    bool first = march->cell == 0 && env->closed;

    if (env->prefill.servers > 0) {
        *(first ? &march->prefill.burst : &march->prefill.queue) += come;
        come =
            serve(&march->prefill, &env->prefill, 1, env->prefill.service_s, dt_s, &prefilling_s);
        first = false;
    }
    march->waiting += come;
    double admitted = fmin(march->waiting, fmax(env->slots - held, 0));
    march->waiting -= admitted;
    note_full(march, come, admitted);
    *(first ? &march->import.burst : &march->import.queue) += admitted;
    /* The router counts all that a rank has: it sees who imports as long as few decode. */
    double seen = 1 / (1 + 0.25 * march->decoding * march->decoding);
    double served =
        serve(&march->import, &env->import, seen, env->burst_import_s, dt_s, &importing_s);
    if (march->counting) {
        out->admitted += admitted;
        out->prefilling_s += prefilling_s;
        out->importing_s += importing_s;
        out->waiting_s += march->waiting * dt_s;
    }
    march->trail[march->cell].unserved_s = prefilling_s + importing_s + march->waiting * dt_s;
    out->first_tokens += served;
    march->import_bytes_per_s = dt_s > 0 ? served * env->import_hbm_bytes / dt_s : 0;
    return served;
}

/* ---- Waits ---------------------------------------------------------------------------

 * First come, first served: at any moment those without a first token are the ones that came last,
 * and what is before number `cut` of them is as much as has not been served of it. */

/* Requests x time of a cell that belong to those before `cut`. */
static double waits_before(const struct march *march, uint32_t k, double until_s,
                           double served_until, double cut)
{
    const struct march_env *env = march->env;
    const struct trail *trail = &march->trail[k];
    double before = fmax(cut - trail->served, 0), after = fmax(cut - served_until, 0);
    /* The burst is whole requests, as serve() has it. */
    double of_burst = fmax(fmin(cut, march->first_wave) - trail->served, 0) -
                      fmax(fmin(cut, march->first_wave) - served_until, 0);

    return (until_s - trail->from_s) * 0.5 * (before + after) +
           0.5 * of_burst * env->burst_import_s;
}

/* How long those have waited at the end that have no first token, the last `unserved` to come. */
static double waits_at_end(const struct march *march, double unserved)
{
    const struct march_result *out = march->out;
    double left = unserved, arrived = out->arrived, until_s = out->end_s, waits_s = 0;

    for (uint32_t k = march->cell; k-- > 0 && left > 0;) {
        const struct trail *trail = &march->trail[k];
        double came = arrived - trail->arrived, taken = fmin(came, left);
        bool at_once = march->env->closed && k == 0;
        double share = came > 0 ? taken / came : 0;
        double when_s = at_once ? trail->from_s : until_s - 0.5 * share * (until_s - trail->from_s);
        waits_s += taken * (out->end_s - when_s);
        left -= taken;
        arrived = trail->arrived;
        until_s = trail->from_s;
    }
    return waits_s;
}

double march_waits(const struct march *march, double cut, double *served)
{
    const struct march_result *out = march->out;
    double waits_s = 0;

    for (uint32_t k = 0; k < march->cell; k++) {
        bool is_last = k + 1 == march->cell;
        const struct trail *next = &march->trail[is_last ? k : k + 1];
        if ((is_last ? out->arrived : next->arrived) <= cut)
            continue;
        double before_s = cut > march->trail[k].served
                              ? waits_before(march, k, is_last ? out->end_s : next->from_s,
                                             is_last ? out->first_tokens : next->served, cut)
                              : 0;
        waits_s += fmax(march->trail[k].unserved_s - before_s, 0);
    }
    *served = fmax(out->first_tokens - cut, 0);
    waits_s -= waits_at_end(march, out->arrived - fmax(out->first_tokens, cut));
    return fmax(waits_s, 0);
}

/* ---- Memory --------------------------------------------------------------------------- */

static void note_peak(const struct march_env *env, struct march_result *out, double held,
                      double grown_tokens, double optional_bytes)
{
    const struct march_memory now = {
        .held = held,
        .grown_tokens = grown_tokens,
        .optional_bytes = optional_bytes,
        .bytes = held * (env->held_bytes + env->other_held_bytes) +
                 grown_tokens * (env->growth_bytes + env->other_growth_bytes) + optional_bytes};

    if (now.bytes > out->memory_peak.bytes)
        out->memory_peak = now;
    out->host_peak_bytes = fmax(out->host_peak_bytes, held * env->host_held_bytes +
                                                          grown_tokens * env->host_growth_bytes);
}

void march_move_pages(struct march *march, double dt_s)
{
    const struct march_env *env = march->env;
    struct march_result *out = march->out;
    double importing = march->import.burst + march->import.queue;
    double held = importing, grown = 0, pages = 0, eligible = 0;

    for (uint32_t j = march_oldest(march); j < march->cell; j++) {
        const struct cohort *cohort = &march->cohorts[j];
        held += cohort->alive;
        grown += cohort->alive * (march->cell - j - 0.5) * env->cell_tokens;
        pages += cohort->alive * cohort->pages;
        eligible += cohort->alive * march->eligible_pages[j];
    }
    double growth = grown * (env->growth_bytes + env->other_growth_bytes);
    out->growth_peak_bytes = fmax(out->growth_peak_bytes, growth);
    out->held_peak = fmax(out->held_peak, held);
    if (!env->refills) {
        note_peak(env, out, held, grown, 0);
        return;
    }
    double beyond = fmax(grown * env->growth_bytes - env->reserve_bytes, 0);
    double free_pages = (env->pool_bytes - held * env->held_bytes - beyond) / env->page_bytes;
    free_pages = fmax(free_pages, 0);
    if (pages > free_pages)
        march->released_pages +=
            spare_release(march->cohorts, march_oldest(march), march->cell, pages - free_pages);
    double room = env->spare_fraction * free_pages - pages;
    march->fill_bytes_per_s = 0;
    /* With requests waiting for memory nothing is brought up that would have to go again. */
    if (march->waiting < 0.5 && room > 0) {
        double most = env->refill_bytes_per_s * dt_s / env->page_bytes;
        double want = fmin(room, eligible - pages), alive = held - importing;
        double each = alive > 0 ? fmin(eligible, env->spare_fraction * free_pages) / alive : 0;
        double filled = spare_fill(march->cohorts, march_oldest(march), march->cell,
                                   march->eligible_pages, refill_done(want, each, alive, most));
        march->fill_bytes_per_s = dt_s > 0 ? filled * env->page_bytes / dt_s : 0;
        out->fill_bytes += march->counting ? filled * env->page_bytes : 0;
        pages += filled;
    }
    note_peak(env, out, held, grown, fmin(pages, free_pages) * env->page_bytes);
}

/* ---- Ends ------------------------------------------------------------------------------ */

static void add_reach(struct march_reach *reach, double requests, const struct cohort *cohort)
{
    reach->requests += requests;
    reach->wait_s += requests * cohort->wait_s;
}

void march_note_spans(struct march *march, const struct cohort *cohort, double requests,
                      double cells, double now_s, bool completed)
{
    const struct march_env *env = march->env;
    struct march_result *out = march->out;
    double span_s = now_s - cohort->entry_s;
    double tokens = cells * env->cell_tokens - (completed ? env->extra_tokens : 0);
    bool post = cohort->number >= march->first_wave;

    if (requests <= 0 || span_s <= 0 || !march->counting || cohort->number < march->cut)
        return;
    if (!completed && tokens < 1)
        return; /* it has no second token yet */
    tokens = fmax(tokens, 1);
    out->tpot_s += requests * span_s / tokens;
    out->tpot_requests += requests;
    out->post_tpot_s += post ? requests * span_s / tokens : 0;
    out->post_tpot_requests += post ? requests : 0;
    if (!completed)
        return;
    out->span_s += requests * span_s;
    out->span_requests += requests;
    out->post_span_s += post ? requests * span_s : 0;
    out->post_span_requests += post ? requests : 0;
    add_reach(&out->done, requests, cohort);
    add_reach(&out->post_done, post ? requests : 0, cohort);
}

double march_end_cell(struct march *march, double middle_s, double share)
{
    const struct march_env *env = march->env;
    double ended = 0;

    for (uint32_t j = march_oldest(march); j < march->cell; j++) {
        struct cohort *cohort = &march->cohorts[j];
        uint32_t cells = march->cell - j;
        double here = fmin(cohort->entered * env->chance_of_life[cells] * share, cohort->alive);
        cohort->alive -= here;
        march_note_spans(march, cohort, here, cells, middle_s, true);
        ended += here;
    }
    return ended;
}

/* When request `number` came, in this cell or one before. */
static double arrived_at(struct march *march, double number, double middle_s)
{
    const struct trail *trail = march->trail;

    while (march->oldest_waiting < march->cell &&
           trail[march->oldest_waiting + 1].arrived <= number)
        march->oldest_waiting++;
    uint32_t k = march->oldest_waiting;
    if (k == 0 && march->env->closed)
        return 0;
    if (k == march->cell)
        return middle_s;
    double came = trail[k + 1].arrived - trail[k].arrived;
    double share = came > 0 ? (number - trail[k].arrived) / came : 0;
    return trail[k].from_s + share * (trail[k + 1].from_s - trail[k].from_s);
}

void march_begin_cohort(struct march *march, double served, double middle_s)
{
    double alive = served * (1 - march->env->chance_of_life[0]);

    struct march_result *out = march->out;
    struct cohort *cohort = &march->cohorts[march->cell];

    *cohort = (struct cohort){.entered = served,
                              .alive = alive,
                              .entry_s = middle_s,
                              .number = out->first_tokens - 0.5 * served};
    cohort->wait_s = fmax(middle_s - arrived_at(march, cohort->number, middle_s), 0);
    bool counts = march->counting && cohort->number >= march->cut;
    add_reach(&out->begun, counts ? alive : 0, cohort);
    add_reach(&out->post_begun, counts && cohort->number >= march->first_wave ? alive : 0, cohort);
}
