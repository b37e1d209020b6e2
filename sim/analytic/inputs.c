/* inputs.c -- what a march is told: lengths, imports, places and memory of a scenario. */
#include "inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTHS_MAX = 4096, /* requests whose lengths stand for all */
    IMPORTS_MAX = 2048, /* and whose imports do */
    CELLS_OF_A_LIFE = 48,
    CELLS_OF_A_LIFE_MIN = 8,
    CELLS_WANTED = 1200
};

static double param_of(const struct kvt_choice *choice, const char *name, double otherwise)
{
    for (size_t i = 0; i < choice->info->param_count; i++) {
        if (strcmp(choice->info->params[i].name, name) == 0)
            return choice->params.values[i].number;
    }
    return otherwise;
}

/* The lengths of the first requests, as the run itself would draw them; where they come by the
 * clock, of those that come before it ends. */
static kvt_status read_lengths(const struct kvt_analytic_env *run, struct inputs *inputs,
                               struct kvt_error *err)
{
    double input = 0, output = 0, duration_s = run->scenario->duration_s;
    kvt_ns now_ns = 0;

    while (inputs->length_count < LENGTHS_MAX) {
        enum kvt_arrival_answer answer;
        struct kvt_request_spec spec = {0};
        kvt_ns due_ns = KVT_NS_NEVER;
        kvt_status status =
            run->arrival->poll(run->source, now_ns, 0, &answer, &spec, &due_ns, err);
        if (status != KVT_OK)
            return status;
        if (answer == KVT_ARRIVAL_LATER) {
            double due_s = (double)due_ns * 1e-9;
            if (duration_s > 0 && due_s >= duration_s && inputs->length_count > 0)
                break;
            now_ns = due_ns;
            continue;
        }
        if (answer != KVT_ARRIVAL_NOW)
            break;
        if ((uint64_t)spec.input_tokens + spec.output_tokens >
            run->scenario->llm->max_position_tokens)
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, run->scenario->name,
                            "a request of %u input and %u output tokens is longer than the %u that "
                            "the model takes: fidelity \"analytic\" leaves nobody out; exact does",
                            spec.input_tokens, spec.output_tokens,
                            run->scenario->llm->max_position_tokens);
        inputs->input_tokens[inputs->length_count] = spec.input_tokens;
        inputs->output_tokens[inputs->length_count++] = spec.output_tokens;
        input += spec.input_tokens;
        output += spec.output_tokens;
    }
    if (inputs->length_count == 0)
        return kvt_fail(err, KVT_ERR_INVALID, run->scenario->name, "no request ever arrives");
    if (output <= (double)inputs->length_count)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "workload.lengths.output",
                        "an answer of one token has no decode step, and fidelity \"analytic\" is "
                        "about nothing else; exact and sampled take it, or two tokens or more");
    inputs->mean_input_tokens = input / (double)inputs->length_count;
    inputs->mean_output_tokens = output / (double)inputs->length_count;
    return KVT_OK;
}

static kvt_status read_slots_of_twice_hot(const struct kvt_analytic_env *run, uint32_t input,
                                          uint32_t last, struct inputs *inputs,
                                          struct kvt_error *err)
{
    uint64_t slots[2];
    kvt_status status = kvt_rank_slots_by_pool(run->rank, input, last, 2, slots, NULL, err);

    if (status != KVT_OK)
        return status;
    inputs->slots_of_twice_hot = slots[0] < slots[1] ? slots[0] : slots[1];
    if (inputs->slots_by.host < inputs->slots_of_twice_hot)
        inputs->slots_of_twice_hot = inputs->slots_by.host;
    return KVT_OK;
}

static kvt_status read_slots(const struct kvt_analytic_env *run, struct inputs *inputs,
                             struct kvt_error *err)
{
    uint32_t input = (uint32_t)llround(inputs->mean_input_tokens);
    uint64_t longest = (uint64_t)input + inputs->output_cap, by_pools = 0, by_host = 0;
    uint32_t limit = run->scenario->llm->max_position_tokens;
    uint32_t last = longest < limit ? (uint32_t)longest : limit;
    kvt_status status =
        kvt_rank_required(run->rank, input, last, run->rank->hot_tokens, &inputs->required, err);

    if (status == KVT_OK)
        status = kvt_rank_slots(run->rank, input, last, &by_pools, &by_host, err);
    if (status != KVT_OK)
        return status;
    /* Ranks of a node share its DRAM. */
    if (by_host != UINT64_MAX)
        by_host = by_host * run->hosts / run->rank_count;
    inputs->slots = by_pools < by_host ? by_pools : by_host;
    inputs->slots_by.host = by_host;
    status = kvt_rank_slots_by_pool(run->rank, input, last, 1, inputs->slots_by.pool, NULL, err);
    if (status == KVT_OK && run->rank->hot_tokens > 0)
        status = read_slots_of_twice_hot(run, input, last, inputs, err);
    if (status != KVT_OK)
        return status;
    if (inputs->slots == 0)
        return kvt_fail(err, KVT_ERR_INVALID, run->scenario->name,
                        "a request of %u input tokens, the mean, fits no rank: larger "
                        "cluster.decode.pools or host_dram_gib_per_node are expected",
                        input);
    return KVT_OK;
}

kvt_status inputs_read(const struct kvt_analytic_env *run, struct inputs *out,
                       struct kvt_error *err)
{
    uint32_t longest, inputs[KVT_INPUTS_MAX];
    size_t input_count = KVT_INPUTS_MAX;
    uint64_t expected = run->arrival->expected(run->source);

    *out = (struct inputs){.requests = expected > 0 ? (double)expected : INFINITY};
    out->input_tokens = malloc(LENGTHS_MAX * sizeof *out->input_tokens);
    out->output_tokens = malloc(LENGTHS_MAX * sizeof *out->output_tokens);
    if (!out->input_tokens || !out->output_tokens)
        return kvt_fail_nomem(err, "the lengths of requests");
    run->arrival->extent(run->source, &longest, &out->output_cap, inputs, &input_count);
    kvt_status status = read_lengths(run, out, err);
    return status == KVT_OK ? read_slots(run, out, err) : status;
}

void inputs_free(struct inputs *inputs)
{
    free(inputs->input_tokens);
    free(inputs->output_tokens);
}

/* ---- Places ---------------------------------------------------------------------- */

static void read_arrivals(const struct kvt_analytic_env *run, const struct inputs *inputs,
                          struct march_env *march)
{
    double ranks = run->rank_count;
    const struct kvt_choice *arrival = &run->scenario->arrival;

    march->closed = run->arrival->closed_loop;
    march->requests = inputs->requests / ranks;
    march->in_flight = (double)run->arrival->first_wave(run->source) / ranks;
    march->arrivals_per_s = param_of(arrival, "rate", 0) / ranks;
    march->arrival_scv = 1 / param_of(arrival, "burstiness", 1);
    march->duration_s = run->scenario->duration_s > 0 ? run->scenario->duration_s : INFINITY;
    march->warmup_s =
        run->scenario->warmup_rule == KVT_WARMUP_SECONDS ? run->scenario->warmup_value : 0;
    march->warmup_requests =
        run->scenario->warmup_rule == KVT_WARMUP_REQUESTS ? run->scenario->warmup_value / ranks : 0;
}

/* The import times that the first requests of the run would have. */
static void read_imports(const struct kvt_analytic_env *run, const struct inputs *inputs,
                         struct march_env *march)
{
    const struct kvt_rank *rank = run->rank;
    const uint64_t *hbm = inputs->required.hbm_by_class;
    double sum = 0, squares = 0, count = fmin(inputs->requests, IMPORTS_MAX);
    double burst = (double)run->arrival->first_wave(run->source);

    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        double s =
            (double)rank->import->duration_ns(rank->import_state, i, inputs->required.host_bytes,
                                              hbm[KVT_MEM_INDEX] + hbm[KVT_MEM_PAYLOAD]) *
            1e-9;
        sum += s;
        squares += s * s;
        if (i + 1 == (uint32_t)burst)
            march->burst_import_s = sum / burst;
    }
    march->import_hbm_bytes = (double)(hbm[KVT_MEM_INDEX] + hbm[KVT_MEM_PAYLOAD]);
    march->import.servers = rank->import->servers(rank->import_state);
    march->import.service_s = sum / count;
    if (burst < 1 || burst > count)
        march->burst_import_s = march->import.service_s;
    march->import.service_scv = sum > 0 ? fmax(squares * count / (sum * sum) - 1, 0) : 0;
}

/* Longer prompts take more than in proportion: the mean is over prompts, not of the mean one. */
static void read_prefill(const struct kvt_analytic_env *run, const struct inputs *inputs,
                         struct march_env *march)
{
    const struct kvt_prefill *prefill = &run->scenario->prefill;
    double sum = 0, squares = 0;

    if (prefill->mode != KVT_PREFILL_SEPARATE)
        return;
    march->prefill.servers = (double)prefill->servers / run->rank_count;
    for (size_t i = 0; i < inputs->length_count; i++) {
        double s = kvt_prefill_seconds(prefill, 0, inputs->input_tokens[i]);
        sum += s;
        squares += s * s;
    }
    march->prefill.service_s = sum / (double)inputs->length_count;
    march->prefill.service_scv =
        sum > 0 ? fmax(squares * (double)inputs->length_count / (sum * sum) - 1, 0) : 0;
}

/* Squared variation of how requests come to the prefill of a closed loop. No more than some exist,
 * and what a queue has let through evenly comes back about evenly: far from Poisson's 1. Set beside
 * simulation, for spreads of answers of 0.25; at 1 it is as near (docs/fidelity.md). */
static const double closed_arrivals_scv = 0.3;

/* How requests come to the queues. One pool prefills for all ranks. In an open loop the router
 * gives ranks requests in turn, about, so that theirs come more evenly than all do; and where it
 * sees who imports, it keeps them from one rank while another is idle, as if each two ranks had one
 * queue (march_let_in). Each rank of a closed loop has its own. */
static void shape_queues(const struct kvt_analytic_env *run, struct march_env *march)
{
    double ranks = run->rank_count, come_per_s = march->arrivals_per_s;
    struct march_queue *prefill = &march->prefill, *import = &march->import;
    double prefill_arrivals = march->closed ? closed_arrivals_scv : march->arrival_scv,
           import_arrivals = 1;

    prefill->shares = ranks;
    prefill->load = 0;
    import->shares = 1;
    import->load = 0;
    if (!march->closed) {
        if (prefill->servers > 0)
            prefill->load = come_per_s * prefill->service_s / prefill->servers;
        come_per_s /= fmax(prefill->load, 1);
        import->shares = fmin(ranks, 2);
        import->load = come_per_s * import->service_s / import->servers;
        import_arrivals = march->arrival_scv / ranks;
    }
    prefill->variability = (prefill_arrivals + prefill->service_scv) / 2;
    import->variability = (import_arrivals + import->service_scv) / 2;
}

/* Bytes of the pool that history shares, and of the one beside it. */
static kvt_status read_memory(const struct kvt_analytic_env *run, const struct inputs *inputs,
                              struct march_env *march, struct kvt_error *err)
{
    const struct kvt_rank *rank = run->rank;
    const uint8_t *pool_of = rank->memory.pool_of;
    uint8_t optional = pool_of[KVT_MEM_PAYLOAD];
    uint32_t input = (uint32_t)llround(inputs->mean_input_tokens);
    uint32_t grown = input + (uint32_t)llround(fmax(inputs->mean_output_tokens, 1));
    struct kvt_session_bytes later;
    kvt_status status =
        kvt_rank_required(rank, grown, grown + inputs->output_cap, rank->hot_tokens, &later, err);

    if (status != KVT_OK)
        return status;
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        double now = (double)inputs->required.hbm_by_class[c];
        bool grows = c == KVT_MEM_INDEX || c == KVT_MEM_PAYLOAD;
        march->grown_bytes[c] = grows ? ((double)later.hbm_by_class[c] - now) / (grown - input) : 0;
        *(pool_of[c] == optional ? &march->held_bytes : &march->other_held_bytes) += now;
        *(pool_of[c] == optional ? &march->growth_bytes : &march->other_growth_bytes) +=
            march->grown_bytes[c];
    }
    march->pool_bytes = (double)rank->memory.pool_bytes[optional];
    march->other_pool_bytes = (double)rank->memory.pool_bytes[1 - optional];
    march->host_held_bytes = (double)inputs->required.host_bytes;
    march->host_growth_bytes = rank->needs.host_backing ? (double)rank->row_bytes_per_token : 0;
    march->reserve_bytes = (double)rank->memory.reserve_bytes;
    march->page_bytes = (double)rank->page_bytes;
    march->refills = rank->needs.optional_pages;
    march->spare_fraction = param_of(&run->scenario->residency, "optional_capacity_fraction", 1);
    march->refill_bytes_per_s =
        fmin(param_of(&run->scenario->residency, "refill_gb_per_s", 0) * 1e9,
             (double)rank->h2d.bytes_per_s);
    return KVT_OK;
}

kvt_status inputs_places(const struct kvt_analytic_env *run, const struct inputs *inputs,
                         struct march_env *march, struct kvt_error *err)
{
    read_arrivals(run, inputs, march);
    read_imports(run, inputs, march);
    read_prefill(run, inputs, march);
    shape_queues(run, march);
    march->slots = (double)inputs->slots;
    march->mean_output_tokens = inputs->mean_output_tokens;
    return read_memory(run, inputs, march, err);
}

/* ---- Lengths ------------------------------------------------------------------------ */

/* Lives that follow one another in the run, about. */
static double lives(const struct march_env *march, double step_s, double tokens_per_round)
{
    double life_s = fmax(march->mean_life_tokens / tokens_per_round * step_s, 1e-9);
    double by_time = march->duration_s / life_s;
    double by_requests = march->closed ? march->requests / march->in_flight
                                       : march->requests / march->arrivals_per_s / life_s;
    return 2 + fmin(by_time, by_requests);
}

void inputs_lengths(const struct inputs *inputs, double step_s, struct march_env *march)
{
    const struct round_means *means = &march->loads[march->load_count - 1]->rounds;
    double committed = means->committed_tokens, longest = 0, sum = 0, wanted = 0;
    /* What the last round has too much: the mean overshoot of a renewal process. */
    double overshoot = (means->committed_squares - committed) / (2 * committed), decoding = 0;

    march->extra_tokens = ROUNDS_UNTIL_TAKEN_IN * committed + overshoot;
    for (size_t i = 0; i < inputs->length_count; i++) {
        double life =
            inputs->output_tokens[i] > 1 ? inputs->output_tokens[i] - 1 + march->extra_tokens : 0;
        longest = life > longest ? life : longest;
        sum += life;
        wanted += life > 0 ? inputs->output_tokens[i] - 1 : 0;
        decoding += life > 0;
    }
    march->overshoot_share = overshoot * decoding / (wanted + overshoot * decoding);
    march->mean_life_tokens = fmax(sum / (double)inputs->length_count, 1e-3);
    double cells = fmax(fmin(CELLS_WANTED / lives(march, step_s, committed), CELLS_OF_A_LIFE),
                        CELLS_OF_A_LIFE_MIN);
    march->cell_tokens = fmax(march->mean_life_tokens / cells, longest / (LIFE_CELLS - 2));
    march->life_cells = (uint32_t)(longest / march->cell_tokens) + 1;
    memset(march->chance_of_life, 0, sizeof march->chance_of_life);
    for (size_t i = 0; i < inputs->length_count; i++) {
        double share = 1 / (double)inputs->length_count;
        double life =
            inputs->output_tokens[i] > 1 ? inputs->output_tokens[i] - 1 + march->extra_tokens : 0;
        double at = life / march->cell_tokens;
        uint32_t low = (uint32_t)at;
        /* In whole cells, with the mean kept; an answer of two tokens takes one at least. */
        double upper = life > 0 && low == 0 ? 1 : at - low;
        march->chance_of_life[low] += share * (1 - upper);
        march->chance_of_life[low + 1] += share * upper;
    }
}
