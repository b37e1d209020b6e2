/* bench_real_time.c -- how much faster than time a run goes once its batch is full: GLM-5.3,
 * 100,032 tokens, offered 128 on 4 GPUs, adaptive with DFlash2, on one thread and on two.
 *
 * All requests are there from the start and imports take no time, so that every rank decodes
 * its 32 from the first second on; the selections are recorded, and one simulated second has
 * passed, before the clock starts; a sampled run records tapes as it draws them, and so has two,
 * which are there by then. $KVT_BENCH_CACHE may name a folder where the selections are kept. One
 * JSON line a case; a number as argument measures that case alone. */
#include <stdio.h>
#include <stdlib.h>

#include "kvt/clock.h"
#include "kvt/sim.h"

enum {
    SETS_MAX = 8,
    WARM_S = 1
};

struct bench_case {
    const char *name;
    const char *fidelity, *tapes; /* as settings */
    unsigned threads;
    double measured_s; /* simulated */
};

static void must_be_ok(kvt_status status, const struct kvt_error *err)
{
    if (status != KVT_OK) {
        fprintf(stderr, "bench_real_time: %s: %s\n", err->where, err->message);
        exit(EXIT_FAILURE);
    }
}

static double selected_rows(const struct kvt_run *run)
{
    double selected = 0;
    for (uint32_t s = 0; s < run->stratum_count; s++)
        selected += (double)run->total.rows[s].selected;
    return selected;
}

static void measure(const struct bench_case *bench)
{
    const char *sets[SETS_MAX] = {"speculation.method=dflash2",
                                  "cluster.import.law=rate",
                                  "cluster.import.rate=100000",
                                  bench->fidelity,
                                  "workload.requests=128",
                                  "workload.lengths.output.mean_tokens=100000",
                                  bench->tapes};
    struct kvt_scenario_options options = {.data_dir = ".", .sets = sets, .set_count = 7};
    struct kvt_sim_options sim_options = {.threads = bench->threads,
                                          .cache_dir = getenv("KVT_BENCH_CACHE")};
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_scenario scenario;
    const struct kvt_run *run = NULL;
    struct kvt_sim *sim = NULL;
    struct kvt_error err;
    bool more = true;

    must_be_ok(kvt_scenario_load("workloads/scenarios/glm-5.3-100k.json", &options, arena,
                                 &scenario, &err),
               &err);
    scenario.warmup_rule = KVT_WARMUP_SECONDS;
    scenario.warmup_value = WARM_S;
    must_be_ok(kvt_sim_new(&scenario, &sim_options, &sim, &err), &err);
    must_be_ok(kvt_sim_run_until(sim, WARM_S * KVT_NS_PER_S, &more, &err), &err);
    struct kvt_wall start = kvt_wall_now();
    kvt_ns end_ns = (kvt_ns)((WARM_S + bench->measured_s) * (double)KVT_NS_PER_S);
    must_be_ok(kvt_sim_run_until(sim, end_ns, &more, &err), &err);
    double wall_s = kvt_wall_seconds_since(start);
    must_be_ok(kvt_sim_finish(sim, false, &run, &err), &err);
    double selected = selected_rows(run);
    printf("{\"bench\": \"real_time\", \"case\": \"%s\", \"threads\": %u, \"simulated_s\": %g, "
           "\"wall_s\": %.3f, \"times_real_time\": %.2f, \"followed_rows_per_simulated_s\": %.4g, "
           "\"followed_rows_per_s\": %.4g, \"active\": %.1f, \"tokens_per_round\": %.3f}\n",
           bench->name, bench->threads, bench->measured_s, wall_s, bench->measured_s / wall_s,
           selected / bench->measured_s, selected / wall_s, run->active_mean,
           (double)run->total.round_tokens / (double)run->total.rounds);
    kvt_sim_free(sim);
    kvt_arena_free(arena);
}

int main(int argc, char **argv)
{
    static const struct bench_case cases[] = {
        {"exact", "run.fidelity=exact", "selection.tapes=32", 1, 4},
        {"exact", "run.fidelity=exact", "selection.tapes=32", 2, 4},
        {"sampled", "run.fidelity=sampled", "selection.tapes=2", 1, 60},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc < 2 || i == (size_t)strtoul(argv[1], NULL, 10))
            measure(&cases[i]);
    }
    return EXIT_SUCCESS;
}
