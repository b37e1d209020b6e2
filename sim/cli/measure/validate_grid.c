/* validate_grid.c -- two backends driven directly, over policies, queries, hot caches and coverage.
 *
 *     for each policy, K and mode, on any thread: open both, GLM-5.3's selectors with one payload
 *     layer each, since decisions do not hang on how many follow
 *         for each size of hot cache, each coverage: requests of 20,480 tokens are admitted
 *             step after step: a round of each, selections that walk (validate_walk.c), drafts
 *             accepted by chance, ready pages that change: until there are enough calls
 *
 * There is no serving and no clock: decisions only. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/clock.h"
#include "kvt/crew.h"
#include "kvt/layout.h"
#include "validate_decisions.h"

enum {
    CONTEXT_TOKENS = 20480,
    OUTPUT_TOKENS = 2048,
    APART_TOKENS = 7, /* contexts differ by so many, that pages and tails do not end alike */
    SHARED_TOKENS = CONTEXT_TOKENS - 2 * KVT_PAGE_ROWS, /* host rows that all read, of a GPU */
    REQUESTS = 16,
    QUICK_REQUESTS = 4,
    CALLS = 20000,
    FULL_COVERAGE_SHARE = 10, /* of those, where nothing is ever resolved */
    QUICK_SHARE = 100,
    PAGE_WORDS = (CONTEXT_TOKENS + OUTPUT_TOKENS + KVT_PAGE_ROWS) / KVT_PAGE_ROWS / 64 + 1,
    CHANGE_SHARE = 64, /* of the pages, one in so many goes and comes from step to step */
    OWN_SETS = 5,
    SEED = 2385
};
#define ACCEPTANCE 0.65
#define MODEL                                                                                      \
    "model={\"base\": \"glm-5.3\", \"layers\": 21, \"stores\": [{\"first_layer\": 0, \"layers\": " \
    "1, "                                                                                          \
    "\"compress_ratio\": 1, \"repeat\": 21, \"stride_layers\": 1}], \"weight_bytes\": "            \
    "12884901888, "                                                                                \
    "\"dense_weight_bytes\": 4294967296, \"weights_replicated_gib\": 4, \"weights_expert_gib\": "  \
    "8}"

const char *const decisions_mode_names[DECISIONS_MODES] = {"shared", "promoted", "each query",
                                                           "turns"};

static const uint64_t hot_sizes[] = {2048, 4096, 8192};
static const double coverages[] = {0, 0.5, 1};
enum {
    HOT_SIZES = sizeof hot_sizes / sizeof hot_sizes[0],
    COVERAGES = sizeof coverages / sizeof coverages[0]
};

/* What a pair of backends is opened for. The first policies at every K, of the others a few at one;
 * the ways of resolving that a device has of its own, where K is widest. */
static const struct opening {
    const char *policy;
    uint32_t queries;
    enum decisions_mode mode;
} openings[] = {
    {"lru", 1, DECISIONS_SHARED},         {"lru", 4, DECISIONS_SHARED},
    {"lru", 8, DECISIONS_SHARED},         {"fifo", 1, DECISIONS_SHARED},
    {"fifo", 4, DECISIONS_SHARED},        {"fifo", 8, DECISIONS_SHARED},
    {"clock", 1, DECISIONS_SHARED},       {"clock", 4, DECISIONS_SHARED},
    {"clock", 8, DECISIONS_SHARED},       {"access-lru", 1, DECISIONS_SHARED},
    {"access-lru", 4, DECISIONS_SHARED},  {"access-lru", 8, DECISIONS_SHARED},
    {"s3fifo", 1, DECISIONS_SHARED},      {"arc", 1, DECISIONS_SHARED},
    {"sharded-lru", 4, DECISIONS_SHARED}, {"lru", 8, DECISIONS_PROMOTED},
    {"lru", 8, DECISIONS_EACH_QUERY},     {"lru", 8, DECISIONS_TURNS},
};
enum {
    OPENINGS = sizeof openings / sizeof openings[0]
};
_Static_assert(sizeof openings / sizeof openings[0] * (sizeof hot_sizes / sizeof hot_sizes[0]) *
                       (sizeof coverages / sizeof coverages[0]) <=
                   DECISIONS_CELLS_MAX,
               "every cell of the grid has its place");

/* ---- One request --------------------------------------------------------------------------- */

struct driven {
    uint32_t id, context_tokens;
    uint64_t step;
    uint32_t page_count; /* bits that are valid: pages wholly outside the tail */
    uint64_t ready_bits[PAGE_WORDS];
    struct kvt_round round;
};

/* What the threads share. */
struct work {
    const struct decisions_plan *plan;
    struct part {
        struct decisions_outcome out;
        kvt_status status;
        struct kvt_error error;
    } parts[OPENINGS];
    pthread_mutex_t lock; /* of what follows */
    struct cli_progress *progress;
    uint32_t cells_done, cells;
};

/* One opening's. */
struct grid {
    const struct decisions_plan *plan;
    struct decisions_outcome *out;
    struct work *work;
    const struct kvt_llm *llm;
    struct kvt_rng rng;
    struct kvt_backend *pair;
    uint32_t next_request, request_count;
    struct driven requests[REQUESTS];
    struct kvt_step_item items[REQUESTS];
};

static bool is_ready(const struct driven *request, uint32_t page)
{
    return request->ready_bits[page / 64] >> page % 64 & 1;
}

static void flip(struct driven *request, uint32_t page)
{
    request->ready_bits[page / 64] ^= UINT64_C(1) << page % 64;
}

static uint32_t ready_count(const struct driven *request)
{
    uint32_t count = 0;

    for (uint32_t page = 0; page < request->page_count; page++)
        count += is_ready(request, page);
    return count;
}

/* Some page that is ready, or that is not; there is one. */
static uint32_t draw_page(struct grid *grid, const struct driven *request, bool ready)
{
    uint32_t page;

    do
        page = (uint32_t)kvt_rng_below(&grid->rng, request->page_count);
    while (is_ready(request, page) != ready);
    return page;
}

/* Pages go and come so that the asked share is ready; at the ends of the range all are alike. */
static void change_pages(struct grid *grid, struct driven *request, double coverage,
                         uint32_t queries)
{
    uint32_t rows = request->context_tokens + queries;
    uint32_t tail = rows > KVT_TAIL_ROWS ? rows - KVT_TAIL_ROWS : 0;

    request->page_count = tail / KVT_PAGE_ROWS;
    uint32_t want = (uint32_t)(coverage * request->page_count + 0.5);
    uint32_t ready = ready_count(request), changes = request->page_count / CHANGE_SHARE;
    uint32_t least = ready > changes ? ready - changes : 0;
    if (coverage > 0 && coverage < 1) {
        for (; ready > least; ready--)
            flip(request, draw_page(grid, request, true));
    }
    for (; ready > want; ready--)
        flip(request, draw_page(grid, request, true));
    for (; ready < want; ready++)
        flip(request, draw_page(grid, request, false));
}

static void plan_round(struct grid *grid, struct driven *request, uint32_t queries)
{
    uint32_t committed = 1;

    while (committed < queries && kvt_rng_unit(&grid->rng) < ACCEPTANCE)
        committed++;
    kvt_round_chain(&request->round, queries, committed);
}

/* ---- One cell ------------------------------------------------------------------------------ */

static kvt_status admit(struct grid *grid, uint64_t hot_tokens, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < grid->request_count && status == KVT_OK; i++) {
        struct driven *request = &grid->requests[i];
        *request = (struct driven){.id = grid->next_request++,
                                   .context_tokens = CONTEXT_TOKENS - APART_TOKENS * i};
        const struct kvt_backend_admission admission = {
            .request = request->id,
            .context_tokens = request->context_tokens,
            .generated_tokens = 1,
            .max_tokens = CONTEXT_TOKENS + OUTPUT_TOKENS,
            .last_tokens = CONTEXT_TOKENS + OUTPUT_TOKENS,
            .hot_tokens = hot_tokens};
        status = grid->pair->ops->admit(grid->pair, &admission, err);
    }
    return status;
}

static kvt_status step(struct grid *grid, const struct decisions_cell *cell, struct kvt_error *err)
{
    struct kvt_rank_step rank = {.items = grid->items,
                                 .item_count = grid->request_count,
                                 .outcome = {.measured_ns = KVT_NS_NEVER}};

    for (uint32_t i = 0; i < grid->request_count; i++) {
        struct driven *request = &grid->requests[i];
        plan_round(grid, request, cell->queries);
        change_pages(grid, request, cell->coverage, cell->queries);
        grid->items[i] = (struct kvt_step_item){.request = request->id,
                                                .context_tokens = request->context_tokens,
                                                .step = request->step++,
                                                .round = &request->round,
                                                .ready_bits = request->ready_bits,
                                                .ready_pages = request->page_count};
        request->context_tokens += request->round.committed_tokens;
    }
    return grid->pair->ops->step(grid->pair, &rank, 1, err);
}

static uint64_t calls_wanted(const struct grid *grid, double coverage)
{
    uint64_t calls = coverage < 1 ? CALLS : CALLS / FULL_COVERAGE_SHARE;
    return grid->plan->quick ? calls / QUICK_SHARE : calls;
}

static kvt_status run_cell(struct grid *grid, struct decisions_cell *cell, struct kvt_error *err)
{
    struct kvt_pair_report before, now;
    struct kvt_backend_proof proven, proof;
    uint64_t ignored = 0;

    kvt_backend_pair_report(grid->pair, &before);
    grid->pair->ops->proof(grid->pair, &proven);
    kvt_status status = admit(grid, cell->hot_tokens, err);
    struct kvt_wall start = kvt_wall_now();
    for (now = before; status == KVT_OK && !grid->out->interrupted &&
                       now.calls - before.calls < calls_wanted(grid, cell->coverage);) {
        status = step(grid, cell, err);
        kvt_backend_pair_report(grid->pair, &now);
        grid->out->interrupted = cli_interrupted();
    }
    cell->seconds = kvt_wall_seconds_since(start);
    for (uint32_t i = 0; i < grid->request_count && status == KVT_OK; i++)
        grid->pair->ops->release(grid->pair, grid->requests[i].id, &ignored);
    kvt_backend_pair_report(grid->pair, &now);
    grid->pair->ops->proof(grid->pair, &proof);
    cell->on_device = proof.calls > proven.calls && proof.planned_calls == proven.planned_calls;
    cell->calls = now.calls - before.calls;
    cell->states = now.states - before.states;
    cell->mismatches = now.mismatches - before.mismatches;
    return status;
}

/* ---- One pair ------------------------------------------------------------------------------ */

static bool on_prepare(void *context, double fraction, const char *what)
{
    (void)context;
    (void)fraction;
    (void)what;
    return !cli_interrupted();
}

static void count_cell(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    work->cells_done++;
    cli_progress_show(work->progress, (double)work->cells_done / work->cells, "deciding");
    pthread_mutex_unlock(&work->lock);
}

/* The scenario that says what the grid is driven on: the model, and the backend's parameters. */
static kvt_status load(const struct decisions_plan *plan, const char *policy,
                       struct kvt_arena *arena, struct kvt_scenario **out, struct kvt_error *err)
{
    const char **sets = kvt_arena_array(arena, plan->sets->count + OWN_SETS + 1, sizeof *sets,
                                        _Alignof(const char *));
    struct kvt_scenario *scenario =
        kvt_arena_alloc(arena, sizeof *scenario, _Alignof(struct kvt_scenario));
    char *replacement = kvt_arena_printf(arena, "replacement=%s", policy);
    char *shared = kvt_arena_printf(arena, "backend.shared_tokens=%d", SHARED_TOKENS);
    size_t count = 0;

    if (!sets || !scenario || !replacement || !shared)
        return kvt_fail_nomem(err, "a grid of decisions");
    if (plan->on_gpu) {
        sets[count++] = "backend=cuda";
        sets[count++] = shared;
    }
    if (plan->on_gpu && plan->corrupt)
        sets[count++] = "backend.corrupt_step=2";
    sets[count++] = "run.fidelity=exact";
    sets[count++] = MODEL;
    for (size_t i = 0; i < plan->sets->count; i++)
        sets[count++] = plan->sets->items[i];
    sets[count++] = replacement;
    const struct kvt_scenario_options options = {
        .data_dir = cli_data_dir(), .plugins = cli_plugins(), .sets = sets, .set_count = count};
    kvt_status status = kvt_scenario_load("glm-5.3-100k", &options, arena, scenario, err);
    *out = status == KVT_OK ? scenario : NULL;
    return status;
}

static kvt_status open_pair(struct grid *grid, const struct opening *opening,
                            const struct kvt_scenario *scenario, struct kvt_error *err)
{
    static const struct kvt_choice walk = {.info = &validate_walk.info};
    static const uint32_t inputs[] = {CONTEXT_TOKENS};
    uint32_t longest = CONTEXT_TOKENS + OUTPUT_TOKENS;
    struct kvt_pair_sides sides = {grid->plan->on_gpu ? &kvt_backend_cuda : &kvt_backend_sim,
                                   &kvt_backend_sim};
    const struct kvt_backend_env env = {
        .params = scenario->backend.params,
        .rank_count = 1,
        .rank_requests = grid->request_count,
        .rank_pages = (uint64_t)grid->request_count * (longest / KVT_PAGE_ROWS + 1),
        .llm = scenario->llm,
        .replacement = scenario->replacement,
        .selection = walk,
        .hot_tokens = hot_sizes[HOT_SIZES - 1],
        .speculation = {.queries_max = opening->queries,
                        .side_paths = opening->queries > 1,
                        .side_tokens = opening->queries - 1},
        .resolve_each_query = opening->mode == DECISIONS_EACH_QUERY,
        .promotion = opening->mode == DECISIONS_PROMOTED ? KVT_PROMOTE_BY_COUNT : KVT_PROMOTE_NONE,
        .staging = kvt_staging_of(scenario->llm, opening->queries,
                                  opening->mode == DECISIONS_TURNS ? 0.05 : 1),
        .hierarchy = true,
        .run_seed = SEED,
        .longest_tokens = longest,
        .output_tokens = OUTPUT_TOKENS,
        .input_tokens = inputs,
        .input_count = 1,
        .threads = 1,
        .on_prepare = on_prepare,
        .tp = 1,
        .ep = 1};

    grid->llm = scenario->llm;
    return kvt_backend_pair_open(&sides, &env, &grid->pair, err);
}

/* What the pair found goes to the outcome, and the pair. */
static kvt_status close_pair(struct grid *grid, struct kvt_error *err)
{
    struct decisions_outcome *out = grid->out;
    struct kvt_pair_report report;
    struct kvt_error unused;
    kvt_status status = grid->pair->ops->finish(grid->pair, err);

    kvt_backend_pair_report(grid->pair, &report);
    grid->pair->ops->proof(grid->pair, &out->proof);
    kvt_status kept =
        validate_keep_texts(&out->proof, &out->texts, status == KVT_OK ? err : &unused);
    status = status == KVT_OK ? kept : status;
    out->calls += report.calls;
    out->mismatches += report.mismatches;
    if (report.first_mismatch && !(out->first_mismatch = strdup(report.first_mismatch)) &&
        status == KVT_OK)
        status = kvt_fail_nomem(err, "what was found");
    out->corruption = kvt_backend_proof_corruption(&out->proof);
    grid->pair->ops->close(grid->pair);
    grid->pair = NULL;
    return status;
}

static kvt_status run_opening(struct grid *grid, const struct opening *opening,
                              struct kvt_arena *arena, struct kvt_error *err)
{
    struct kvt_scenario *scenario = NULL;
    struct decisions_outcome *out = grid->out;
    kvt_status status = load(grid->plan, opening->policy, arena, &scenario, err);

    if (!scenario)
        return status;
    status = open_pair(grid, opening, scenario, err);
    if (!grid->pair)
        return status;
    out->tolerance = validate_tolerance_of(&scenario->backend);
    for (size_t h = 0; h < HOT_SIZES && status == KVT_OK; h++) {
        for (size_t c = 0; c < COVERAGES && status == KVT_OK && !out->interrupted; c++) {
            struct decisions_cell *cell = &out->cells[out->cell_count++];
            *cell = (struct decisions_cell){.policy = opening->policy,
                                            .mode = opening->mode,
                                            .queries = opening->queries,
                                            .hot_tokens = hot_sizes[h],
                                            .coverage = coverages[c]};
            status = run_cell(grid, cell, err);
            count_cell(grid->work);
        }
    }
    struct kvt_error unused;
    kvt_status closed = close_pair(grid, status == KVT_OK ? err : &unused);
    return status == KVT_OK ? closed : status;
}

/* ---- All of them --------------------------------------------------------------------------- */

uint32_t validate_grid_parts(void)
{
    return OPENINGS;
}

static uint32_t request_count(const struct decisions_plan *plan)
{
    return plan->quick ? QUICK_REQUESTS : REQUESTS;
}

static void run_task(void *context, uint32_t task, unsigned worker)
{
    struct work *work = context;
    uint32_t o = work->plan->shard + task * work->plan->shards;
    struct part *part = &work->parts[o];
    struct kvt_arena *arena = kvt_arena_new(1 << 18);
    struct grid *grid = calloc(1, sizeof *grid);

    (void)worker;
    if (arena && grid) {
        *grid = (struct grid){.plan = work->plan,
                              .out = &part->out,
                              .work = work,
                              .rng = kvt_rng_stream(SEED, KVT_RNG_TEST, o),
                              .request_count = request_count(work->plan)};
        part->status = run_opening(grid, &openings[o], arena, &part->error);
    } else {
        part->status = kvt_fail_nomem(&part->error, "a grid of decisions");
    }
    free(grid);
    kvt_arena_free(arena);
}

/* An opening's cells and findings come behind those before it; texts that are not needed go. */
static kvt_status take_part(struct decisions_outcome *out, struct decisions_outcome *part,
                            struct kvt_error *err)
{
    memcpy(out->cells + out->cell_count, part->cells, part->cell_count * sizeof *part->cells);
    out->cell_count += part->cell_count;
    out->calls += part->calls;
    out->mismatches += part->mismatches;
    out->interrupted |= part->interrupted;
    out->tolerance = fmax(out->tolerance, part->tolerance); /* the same of all that were opened */
    if (!out->corruption)
        out->corruption = part->corruption;
    kvt_backend_proof_add(&out->proof, &part->proof);
    kvt_status status = validate_keep_texts(&out->proof, &out->texts, err);
    if (!out->first_mismatch) {
        out->first_mismatch = part->first_mismatch;
        part->first_mismatch = NULL;
    }
    decisions_free(part);
    return status;
}

static kvt_status run_all(struct work *work, struct decisions_outcome *out, struct kvt_error *err)
{
    const struct decisions_plan *plan = work->plan;
    uint32_t tasks = (OPENINGS - plan->shard + plan->shards - 1) / plan->shards;
    struct kvt_crew *crew = NULL;
    kvt_status status = kvt_crew_new(plan->threads, &crew, err);

    if (status != KVT_OK)
        return status;
    work->cells = tasks * HOT_SIZES * COVERAGES;
    kvt_crew_run(crew, tasks, run_task, work);
    kvt_crew_free(crew);
    for (uint32_t o = plan->shard; o < OPENINGS; o += plan->shards) {
        struct part *part = &work->parts[o];
        if (status == KVT_OK && part->status != KVT_OK) {
            status = part->status;
            *err = part->error;
        }
        kvt_status taken = take_part(out, &part->out, status == KVT_OK ? err : &part->error);
        status = status == KVT_OK ? taken : status;
    }
    return status;
}

kvt_status validate_grid(const struct decisions_plan *plan, struct decisions_outcome *out,
                         struct kvt_error *err)
{
    struct kvt_wall start;
    struct cli_progress progress;
    struct work *work = calloc(1, sizeof *work);

    if (!work)
        return kvt_fail_nomem(err, "a grid of decisions");
    work->plan = plan;
    work->progress = &progress;
    pthread_mutex_init(&work->lock, NULL);
    out->model = "glm-5.3's selectors, a payload layer each";
    out->requests = request_count(plan);
    out->context_tokens = CONTEXT_TOKENS;
    cli_progress_begin(&progress, &start, plan->quiet);
    kvt_status status = run_all(work, out, err);
    if (status != KVT_OK)
        (void)snprintf(out->failure, sizeof out->failure, "%s%s%s", err->where,
                       err->where[0] ? ": " : "", err->message);
    cli_progress_end(&progress);
    pthread_mutex_destroy(&work->lock);
    free(work);
    return status;
}
