/* analytic.c -- a run without events: what it can stand for, and its answer as a run's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "kvt/strata.h"

enum {
    LIVES_MAX = 1000, /* a longer run is one of so many, and its totals in proportion */
    /* Below these, what single requests do shows in a run's means (docs/fidelity.md). */
    REQUESTS_MIN = 32, /* that begin; where a closed loop drains, twice as many as exist at once */
    OUTPUT_TOKENS_MIN = 32
};

/* ---- What is refused ---------------------------------------------------------------- */

static kvt_status refuse(const char *where, const char *what, struct kvt_error *err)
{
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, where,
                    "fidelity \"analytic\" knows mean values only, and %s; run.fidelity exact or "
                    "sampled does",
                    what);
}

/* Whether a parameter of the residency policy has its default; true where it has none so called. */
static bool at_default(const struct kvt_choice *choice, const char *name)
{
    for (size_t i = 0; i < choice->info->param_count; i++) {
        const struct kvt_param_spec *spec = &choice->info->params[i];
        const struct kvt_param_value *value = &choice->params.values[i];
        if (strcmp(spec->name, name) != 0)
            continue;
        return spec->type == KVT_PARAM_CHOICE ? strcmp(value->text, spec->default_text) == 0
                                              : value->number == spec->default_number;
    }
    return true;
}

static kvt_status refuse_changed(const char *name, struct kvt_error *err)
{
    char key[64];

    (void)snprintf(key, sizeof key, "residency.%s", name);
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, key,
                    "fidelity \"analytic\" knows \"adaptive\" with %s at its default only; "
                    "run.fidelity exact or sampled takes any",
                    name);
}

/* What of `adaptive` the levelling of spare.c and the surfaces' order of pages stand for. */
static kvt_status check_adaptive(const struct kvt_choice *residency, struct kvt_error *err)
{
    static const char *const fixed[] = {"landing_fraction", "backup_below_fraction",
                                        "landing_writes_later", "release_order", "refill_order"};

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (!at_default(residency, fixed[i]))
            return refuse_changed(fixed[i], err);
    }
    return KVT_OK;
}

kvt_status kvt_analytic_check(const struct kvt_analytic_env *env, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = env->scenario;
    const char *arrival = scenario->arrival.info->name, *residency = scenario->residency.info->name;
    bool moves = env->rank->residency->boundary || env->rank->residency->admit ||
                 env->rank->needs.starts_whole;

    if (strcmp(arrival, "closed") != 0 && strcmp(arrival, "open") != 0)
        return refuse("workload.arrival",
                      "a load that is not steady (trace, phases, sessions) has none", err);
    if (scenario->pool_count > 1)
        return refuse("cluster.decode", "several pools share no mean rank", err);
    if (strcmp(scenario->scheduling.info->name, "fcfs") != 0)
        return refuse("cluster.scheduling.policy", "no scheduling but \"fcfs\"", err);
    if (moves && strcmp(residency, "adaptive") != 0)
        return refuse("residency.policy", "follows no policy that moves pages but \"adaptive\"",
                      err);
    if (scenario->prefill.mode != KVT_PREFILL_NONE &&
        scenario->prefill.mode != KVT_PREFILL_SEPARATE)
        return refuse("cluster.prefill.mode", "a prefill that shares the decoding GPUs has none",
                      err);
    for (uint32_t k = 0; k < scenario->kind_count && scenario->has_task_table; k++) {
        const char *task = scenario->kinds[k].task;
        if (task && strcmp(task, scenario->tasks[0]) != 0)
            return refuse("workload.classes", "has all requests draft as workload.task does", err);
    }
    if (kvt_scenario_takes_turns(scenario))
        return refuse("speculation.staging_fraction",
                      "makes no waves of calls that outgrow their staging", err);
    return moves ? check_adaptive(&scenario->residency, err) : KVT_OK;
}

/* More than every pool holds at once: requests would lose their memory. */
static kvt_status check_growth(const struct march_env *march, const struct march_result *result,
                               const char *name, struct kvt_error *err)
{
    double held = result->held_peak * (march->held_bytes + march->other_held_bytes);
    double room = march->pool_bytes + march->other_pool_bytes + march->reserve_bytes;

    if (held + result->growth_peak_bytes <= room || result->held_peak < 1)
        return KVT_OK;
    return kvt_fail(
        err, KVT_ERR_UNSUPPORTED, name,
        "%.1f requests a rank would grow past the %.2f GiB that it has, and some be put "
        "aside; fidelity \"analytic\" puts nobody aside: run.fidelity exact or sampled "
        "does, or a larger growth_reserve_gib avoids it",
        result->held_peak, room / (double)KVT_GIB);
}

/* ---- Surfaces -------------------------------------------------------------------------- */

/* With everything in HBM a query reads its rows where they are. */
static void fill_resident(const struct surface_env *env, const struct round_means *means,
                          struct surface *out)
{
    const struct kvt_llm *llm = env->run->scenario->llm;

    for (uint32_t s = 0; s < env->stratum_count; s++) {
        uint32_t visible = (env->input_tokens + 1) / env->strata[s].compress_ratio;
        double calls = env->strata[s].selectors * means->queries;
        double rows = calls * fmin(llm->top_k, visible);
        for (uint32_t c = 0; c < SURFACE_COVERAGES; c++) {
            for (uint32_t a = 0; a < SURFACE_AGES; a++) {
                double *counts = out->cells[s][c][a].counts;
                counts[SURFACE_CALLS] = counts[SURFACE_SKIPPED] = calls;
                counts[SURFACE_SELECTED] = counts[SURFACE_PAGE] = rows;
                counts[SURFACE_UNION] = counts[SURFACE_UNION_PAGE] = rows;
            }
        }
    }
}

/* One for each power of two of requests that may decode at once in a step; own[load_count] holds
 * those that no law is needed for. */
static kvt_status gather_surfaces(const struct surface_env *env, double active, struct surface *own,
                                  struct march_env *march, struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    bool resident = env->run->rank->needs.history_in_hbm;

    march->load_count = 1;
    while (march->load_count < MARCH_LOADS && (double)(1u << (march->load_count - 1)) < active)
        march->load_count++;
    for (uint32_t i = 0; i < march->load_count && status == KVT_OK; i++) {
        status = surface_get(env, 1u << i, &march->loads[i], err);
        if (status == KVT_OK && resident) {
            own[i] = *march->loads[i];
            fill_resident(env, &own[i].rounds, &own[i]);
            march->loads[i] = &own[i];
        }
    }
    return status;
}

/* A step of one request that misses nothing: as short as any. */
static double shortest_step_s(const struct march_env *march)
{
    struct round_load load = {.means = march->loads[0]->rounds,
                              .context_tokens = march->surfaces->input_tokens};
    double parts_s[KVT_PARTS];
    struct step_range range;

    return step_cost(march, &load, 1, 1, parts_s, &range);
}

/* ---- The answer as a run's ----------------------------------------------------------------- */

static uint64_t whole(double value)
{
    return value > 0 ? (uint64_t)llround(value) : 0;
}

static kvt_ns in_ns(double seconds)
{
    return (kvt_ns)llround(seconds * 1e9);
}

/* Of all stores of the stratum; both conservation lines hold in whole rows. */
static void fill_rows(const struct surface_cell *cell, double stores, struct kvt_tally *tally,
                      uint32_t s)
{
    struct kvt_row_counts *out = &tally->rows[s];
    const double *counts = cell->counts;

    *out = (struct kvt_row_counts){.calls = whole(stores * counts[SURFACE_CALLS]),
                                   .skipped_calls = whole(stores * counts[SURFACE_SKIPPED]),
                                   .tail = whole(stores * counts[SURFACE_TAIL]),
                                   .page = whole(stores * counts[SURFACE_PAGE]),
                                   .hot = whole(stores * counts[SURFACE_HOT]),
                                   .missed = whole(stores * counts[SURFACE_MISSED]),
                                   .union_tail = whole(stores * counts[SURFACE_UNION_TAIL]),
                                   .union_page = whole(stores * counts[SURFACE_UNION_PAGE]),
                                   .union_hot = whole(stores * counts[SURFACE_UNION_HOT]),
                                   .filled = whole(stores * counts[SURFACE_FILLED]),
                                   .staged = whole(stores * counts[SURFACE_STAGED])};
    out->selected = out->tail + out->page + out->hot + out->missed;
    out->union_rows =
        out->union_tail + out->union_page + out->union_hot + out->filled + out->staged;
    tally->counts[KVT_SAMPLED_SELECTED] += (double)out->selected;
    tally->counts[KVT_SAMPLED_MISSED] += (double)out->missed;
    tally->counts[KVT_SAMPLED_LOOKED_UP] += (double)(out->hot + out->missed);
    tally->counts[KVT_SAMPLED_FETCHED] += (double)(out->filled + out->staged);
}

static void fill_bytes(const struct march_env *march, const struct inputs *inputs,
                       const struct march_result *result, double scale, struct kvt_tally *tally)
{
    const struct kvt_analytic_env *run = march->surfaces->run;
    const struct kvt_llm *llm = run->scenario->llm;
    double gpus = run->gpus_per_rank, copies = run->rank->memory.host_copies, layer_rows = 0;
    const uint64_t *hbm = inputs->required.hbm_by_class;
    const struct march_memory *peak = &result->memory_peak;

    for (uint32_t s = 0; s < march->surfaces->stratum_count; s++)
        layer_rows += march->surfaces->strata[s].layers * (result->rows[s].counts[SURFACE_FILLED] +
                                                           result->rows[s].counts[SURFACE_STAGED]);
    tally->h2d_payload_bytes = scale * gpus * layer_rows * llm->payload.capacity_bytes;
    tally->h2d_wire_bytes = scale * gpus * layer_rows * llm->payload.wire_bytes;
    tally->fill_bytes = whole(scale * gpus * result->fill_bytes);
    tally->import_hbm_bytes = whole(scale * gpus * result->admitted *
                                    (double)(hbm[KVT_MEM_INDEX] + hbm[KVT_MEM_PAYLOAD]));
    tally->import_host_bytes =
        whole(scale * copies * result->admitted * (double)inputs->required.host_bytes);
    if (run->rank->needs.host_backing)
        tally->d2h_bytes =
            whole(scale * copies * result->decode_tokens * (double)run->rank->row_bytes_per_token);
    tally->pages_filled = whole(scale * result->fill_bytes / march->page_bytes);
    tally->pages_released = whole(scale * result->released_bytes / march->page_bytes);
    double ranks = run->rank_count;
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        double bytes = peak->held * (double)hbm[c] + peak->grown_tokens * march->grown_bytes[c];
        if (c == KVT_MEM_PAYLOAD)
            bytes += peak->optional_bytes;
        tally->hbm_peak_by_class[c] = whole(ranks * gpus * bytes);
        tally->hbm_peak_bytes += tally->hbm_peak_by_class[c];
    }
    tally->host_peak_bytes = whole(ranks * copies * result->host_peak_bytes);
}

/* Share of the time in which nobody decodes on ranks that step together, were requests to come and
 * go by themselves: a march has always somebody there, be it a fraction. */
static double idle_share(const struct march_env *march, const struct march_result *result)
{
    const struct kvt_analytic_env *run = march->surfaces->run;
    double ranks = run->lockstep ? run->rank_count : 1;
    double decoding = result->counted_s > 0 ? ranks * result->running_s / result->counted_s : 0;
    double places = ranks * march->in_flight;

    return march->closed ? pow(fmax(1 - decoding / places, 0), places) : exp(-decoding);
}

static void fill_tally(const struct march_env *march, const struct inputs *inputs,
                       const struct march_result *result, double repeat, struct kvt_tally *tally)
{
    const struct kvt_analytic_env *run = march->surfaces->run;
    double scale = run->rank_count * repeat, groups = run->lockstep ? repeat : scale;

    *tally = (struct kvt_tally){
        .from_ns = in_ns((result->end_s - result->counted_s) * repeat),
        .to_ns = in_ns(result->end_s * repeat),
        .arrived = whole(scale * result->counted_arrived),
        .admitted = whole(scale * result->admitted),
        .completed = whole(scale * result->counted_completed),
        .output_tokens = whole(scale * (result->first_counted + result->decode_tokens)),
        .input_tokens = whole(scale * result->admitted * inputs->mean_input_tokens),
        .decode_steps = whole(groups * result->steps),
        .rounds = whole(scale * result->rounds),
        .round_tokens = whole(scale * result->decode_tokens),
        .extrapolated_steps = whole(groups * result->extrapolated_steps),
        .rank_ns = in_ns(groups * result->rank_step_s),
        .barrier_wait_ns = in_ns(groups * result->waited_s),
        .prefilling_ns = scale * result->prefilling_s * 1e9,
        .running_ns = scale * result->running_s * 1e9,
        .waiting_ns = scale * result->waiting_s * 1e9,
        .importing_ns = scale * result->importing_s * 1e9};
    for (uint32_t s = 0; s < march->surfaces->stratum_count; s++)
        fill_rows(&result->rows[s], scale * march->surfaces->strata[s].stores, tally, s);
    for (int p = 0; p < KVT_PARTS; p++) {
        tally->parts_ns[p] = in_ns(groups * result->parts_s[p]);
        tally->step_ns += tally->parts_ns[p];
    }
    tally->pool_busy_ns[0] = scale * result->counted_s * (1 - idle_share(march, result)) * 1e9;
    tally->prefill_busy_ns = scale * result->admitted * march->prefill.service_s * 1e9;
    tally->held_ns = tally->running_ns + tally->importing_ns;
    tally->covered_ns = isnan(result->coverage) ? 0 : (double)tally->to_ns;
    tally->coverage_ns = isnan(result->coverage) ? 0 : result->coverage * (double)tally->to_ns;
    fill_bytes(march, inputs, result, scale, tally);
}

static double ratio_ms(double seconds, double count)
{
    return count > 1e-9 ? seconds / count * 1e3 : NAN;
}

/* How much longer those that are done have waited for their first token than all that have it: less
 * where a run is cut while its queue grows. */
static double earlier_ms(const struct march_reach *begun, const struct march_reach *done)
{
    return ratio_ms(done->wait_s, done->requests) - ratio_ms(begun->wait_s, begun->requests);
}

static void fill_means(const struct march_env *march, const struct march_result *result,
                       struct kvt_mean_latencies *means)
{
    /* Who does not come at the end of a step waits for the end of one. */
    bool at_ends = march->closed && march->prefill.servers <= 0;
    double boundary_ms = at_ends ? 0 : 0.5 * ratio_ms(result->step_s, result->steps);

    means->ttft_ms = ratio_ms(result->ttft_s, result->ttft_requests) + boundary_ms;
    means->tpot_ms = ratio_ms(result->tpot_s, result->tpot_requests);
    means->itl_ms = ratio_ms(result->running_s, result->rounds);
    means->e2el_ms = means->ttft_ms + ratio_ms(result->span_s, result->span_requests) +
                     earlier_ms(&result->begun, &result->done);
    means->post_wave_ttft_ms = means->post_wave_tpot_ms = NAN;
    means->post_wave_itl_ms = means->post_wave_e2el_ms = NAN;
    if (!march->closed)
        return;
    means->post_wave_ttft_ms =
        ratio_ms(result->post_ttft_s, result->post_ttft_requests) + boundary_ms;
    means->post_wave_tpot_ms = ratio_ms(result->post_tpot_s, result->post_tpot_requests);
    means->post_wave_e2el_ms = means->post_wave_ttft_ms +
                               ratio_ms(result->post_span_s, result->post_span_requests) +
                               earlier_ms(&result->post_begun, &result->post_done);
}

/* A run that the clock cuts has no drain, whose last requests are chance. */
static bool is_few(const struct march_env *march, const struct march_result *result, double repeat)
{
    double ranks = march->surfaces->run->rank_count;
    bool drains = march->closed && result->running_end + result->waiting_end <= 0;
    double least = fmax(REQUESTS_MIN, drains ? 2 * ranks * march->in_flight : 0);

    return ranks * repeat * result->first_tokens < least - 0.5 ||
           march->mean_output_tokens < OUTPUT_TOKENS_MIN;
}

/* What comes to an open loop's stages over what they can do, in the order in which requests come to
 * them; those behind get what passes. Slots that imports fill wait for imports. */
static void find_loads(const struct march_env *march, const struct march_result *result,
                       double load[KVT_STAGES])
{
    for (int s = 0; s < KVT_STAGES; s++)
        load[s] = NAN;
    if (march->closed)
        return;
    if (march->prefill.servers > 0)
        load[KVT_STAGE_PREFILL] = march->prefill.load;
    load[KVT_STAGE_IMPORT] = march->import.load;
    if (march->import.load < 1)
        load[KVT_STAGE_SLOTS] = result->slot_load;
}

static bool is_saturated(const struct march_env *march, const struct march_result *result)
{
    double load[KVT_STAGES], most = 0;

    find_loads(march, result, load);
    for (int s = 0; s < KVT_STAGES; s++)
        most = fmax(most, load[s]);
    return most >= 1;
}

static uint64_t times(uint64_t slots, double ranks)
{
    return slots == UINT64_MAX ? slots : slots * (uint64_t)ranks;
}

static void fill_run(const struct march_env *march, const struct inputs *inputs,
                     const struct march_result *result, double repeat, struct kvt_run *run)
{
    double ranks = march->surfaces->run->rank_count;

    run->analytic = true;
    run->few_for_means = is_few(march, result, repeat);
    run->closed_loop = march->closed;
    run->first_wave = march->closed ? whole(ranks * march->in_flight) : 0;
    fill_tally(march, inputs, result, repeat, &run->total);
    run->phase_count = 1;
    run->phases[0] = run->total;
    run->end_ns = run->total.to_ns;
    run->warmup_ns = run->total.from_ns;
    fill_means(march, result, &run->mean_latencies);
    run->mean_counts =
        (struct kvt_request_counts){.completed = whole(ranks * repeat * result->completed),
                                    .running = whole(ranks * result->running_end),
                                    .waiting = whole(ranks * result->waiting_end)};
    run->active_mean = ranks * result->active;
    run->coverage_mean = result->coverage;
    run->phase_active_mean[0] = run->active_mean;
    run->phase_coverage_mean[0] = run->coverage_mean;
    run->max_concurrent_requests = whole(ranks * result->in_flight_peak);
    run->slots = inputs->slots * march->surfaces->run->rank_count;
    run->slots_by = (struct kvt_slots_by){
        .pool = {times(inputs->slots_by.pool[0], ranks), times(inputs->slots_by.pool[1], ranks)},
        .host = times(inputs->slots_by.host, ranks)};
    run->slots_of_twice_hot = times(inputs->slots_of_twice_hot, ranks);
    run->stratum_count = march->surfaces->stratum_count;
    memcpy(run->strata, march->surfaces->strata,
           run->stratum_count * sizeof *march->surfaces->strata);
    run->stopped_early = result->running_end + result->waiting_end > 0;
    run->says_outside = result->says_outside;
    run->outside = result->outside;
    find_loads(march, result, run->stage_load);
}

/* ---- Runs of very many lives ----------------------------------------------------------------- */

/* A run of very many lives is a shorter one several times over. */
static double shorten(struct march_env *march, double step_s)
{
    double life_s = march->mean_life_tokens * step_s / march->loads[0]->rounds.committed_tokens;
    double most_s = LIVES_MAX * life_s, repeat;

    /* It ends by what comes first: the clock, or the last request. */
    double by_requests = march->closed ? march->requests / (LIVES_MAX * march->in_flight)
                                       : march->requests / march->arrivals_per_s / most_s;
    repeat = fmax(fmin(by_requests, march->duration_s / most_s), 1);
    if (!isfinite(repeat))
        repeat = 1;
    if (repeat > 1) {
        march->requests /= repeat;
        march->duration_s /= repeat;
        march->warmup_s /= repeat;
        march->warmup_requests /= repeat;
    }
    return repeat;
}

/* A figure that grows by as much in each stretch: its value after so many times the run, of what it
 * is after the run and after half of it. */
static double grown(double half, double whole, double repeat)
{
    return whole + 2 * (whole - half) * (repeat - 1);
}

/* A queue that grows all along is no repetition: what waits in it goes on from a run of half the
 * length. */
static kvt_status lengthen(const struct march_env *march, double repeat,
                           struct march_result *result, struct kvt_error *err)
{
    struct march_env shorter = *march;
    struct march_result half;

    shorter.requests /= 2;
    shorter.duration_s /= 2;
    shorter.warmup_s /= 2;
    shorter.warmup_requests /= 2;
    kvt_status status = march_run(&shorter, &half, err);
    if (status != KVT_OK || half.ttft_requests <= 0 || result->ttft_requests <= 0)
        return status;
    result->ttft_s = result->ttft_requests * grown(half.ttft_s / half.ttft_requests,
                                                   result->ttft_s / result->ttft_requests, repeat);
    /* Requests x time are sums over the run: twice those of the half are as many as did not grow.
     */
    result->waiting_s = grown(2 * half.waiting_s, result->waiting_s, repeat);
    result->prefilling_s = grown(2 * half.prefilling_s, result->prefilling_s, repeat);
    result->importing_s = grown(2 * half.importing_s, result->importing_s, repeat);
    result->waiting_end = grown(half.waiting_end, result->waiting_end, repeat);
    result->in_flight_peak = grown(half.in_flight_peak, result->in_flight_peak, repeat);
    return status;
}

/* ---- Solving -------------------------------------------------------------------------------- */

static kvt_status solve(const struct surface_env *surfaces, const struct inputs *inputs,
                        struct march_env *march, struct surface *own, struct kvt_run *run,
                        struct kvt_error *err)
{
    const struct kvt_analytic_env *env = surfaces->run;
    struct march_result result;
    kvt_status status = inputs_places(env, inputs, march, err);
    double together = march->closed ? fmin(march->in_flight, march->slots) : march->slots;

    march->surfaces = surfaces;
    if (status == KVT_OK)
        status = gather_surfaces(surfaces, together * (env->lockstep ? env->rank_count : 1), own,
                                 march, err);
    if (status != KVT_OK)
        return status;
    double step_s = shortest_step_s(march);
    status = march_check_step(march, step_s, err);
    if (status != KVT_OK)
        return status;
    inputs_lengths(inputs, step_s, march);
    double repeat = shorten(march, step_s);
    status = march_run(march, &result, err);
    if (status == KVT_OK && repeat > 1 && is_saturated(march, &result))
        status = lengthen(march, repeat, &result, err);
    if (status == KVT_OK)
        status = check_growth(march, &result, env->scenario->name, err);
    if (status == KVT_OK)
        fill_run(march, inputs, &result, repeat, run);
    return status;
}

kvt_status kvt_analytic_solve(const struct kvt_analytic_env *env, struct kvt_run *run,
                              struct kvt_error *err)
{
    struct kvt_strata strata;
    struct inputs inputs = {0};
    struct march_env *march = calloc(1, sizeof *march);
    struct surface *own = calloc(MARCH_LOADS, sizeof *own);

    if (!march || !own) {
        free(march);
        free(own);
        return kvt_fail_nomem(err, "mean values of a run");
    }
    kvt_status status = kvt_analytic_check(env, err);
    if (status == KVT_OK)
        status = kvt_strata_init(&strata, env->scenario->llm, 0, err);
    if (status == KVT_OK)
        status = inputs_read(env, &inputs, err);
    if (status == KVT_OK) {
        const struct surface_env surfaces = {.run = env,
                                             .strata = strata.strata,
                                             .stratum_of = strata.stratum_of,
                                             .stratum_count = strata.count,
                                             .input_tokens =
                                                 (uint32_t)llround(inputs.mean_input_tokens),
                                             .output_tokens = inputs.output_cap,
                                             .covered = env->rank->needs.optional_pages};
        status = solve(&surfaces, &inputs, march, own, run, err);
    }
    inputs_free(&inputs);
    free(march);
    free(own);
    return status;
}
