/* contract_speculation.c -- a speculation method played: requests that go through rounds.
 *
 *     for each plan: a batch of some requests, in any order
 *         every instance plans it; rounds are checked as a run does, and compared
 *         where no round depends on load: one instance plans the batch turned round, and one
 *         plans each request by itself, and both must come to the same
 */
#include <stdlib.h>
#include <string.h>

#include "contract.h"
#include "kvt/speculation.h"

enum {
    REQUESTS = 9,
    MOVE_EVERY = 5
};

struct bench {
    struct contract_play *play;
    const struct kvt_speculation_method *method;
    void *data;
    struct kvt_speculation_shape shape;
    struct kvt_llm llm;
    struct kvt_drafter drafter;
    struct contract_state states[CONTRACT_ROLES][REQUESTS];
    uint32_t batch[REQUESTS], batch_count; /* requests of the plan, by number */
    uint32_t queries_max[REQUESTS], generated[REQUESTS];
    struct kvt_round rounds[CONTRACT_ROLES][REQUESTS]; /* by number */
    void *scratch;
    size_t scratch_bytes;
};

static double step_ns(void *context, uint32_t requests, uint32_t draft_tokens, uint32_t queries)
{
    (void)context;
    return 1e7 + 1e5 * requests + 2e4 * draft_tokens + 1e5 * queries;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static kvt_status check_shape(const struct bench *bench, struct kvt_error *err)
{
    const struct kvt_speculation_shape *shape = &bench->shape;

    if (shape->queries_max >= 1 && shape->queries_max <= KVT_QUERIES_MAX)
        return KVT_OK;
    return contract_broken(bench->play, err, "rounds of 1 to 32 queries",
                           "shape() says that a round has up to %u queries", shape->queries_max);
}

static kvt_status prepare(struct bench *bench, struct kvt_error *err)
{
    static const char *const tasks[] = {"default"};
    const struct kvt_speculation_env env = {.params = bench->play->params,
                                            .llm = &bench->llm,
                                            .drafter = &bench->drafter,
                                            .tasks = tasks,
                                            .task_count = 1,
                                            .run_seed = 2385,
                                            .host = kvt_host()};

    bench->llm = (struct kvt_llm){.name = "contract",
                                  .layers = 2,
                                  .hidden = 1024,
                                  .heads = 8,
                                  .latent_dim = 512,
                                  .rope_dim = 64,
                                  .index_heads = 8,
                                  .index_dim = 128,
                                  .top_k = 64,
                                  .max_position_tokens = 1 << 20,
                                  .store_count = 1,
                                  .selector_count = 1,
                                  .stores = {{.layers = 2, .compress_ratio = 1}}};
    bench->drafter = (struct kvt_drafter){
        .name = "contract", .layers = 1, .kv_heads = 1, .head_dim = 64, .block_max = 32};
    contract_enter(bench->play, "prepare");
    kvt_status status = KVT_PLUGIN_CALL(bench->method, prepare, err, &env, &bench->data);
    if (status != KVT_OK)
        return status;
    contract_enter(bench->play, "shape");
    bench->method->shape(bench->data, &bench->shape);
    return check_shape(bench, err);
}

static kvt_status make_scratch(struct bench *bench, struct kvt_error *err)
{
    if (bench->method->plan_bytes != NULL) {
        contract_enter(bench->play, "plan_bytes");
        bench->scratch_bytes = bench->method->plan_bytes(bench->data, REQUESTS);
    }
    bench->scratch = malloc(bench->scratch_bytes + 1);
    return bench->scratch != NULL ? KVT_OK : kvt_fail_nomem(err, "a plan");
}

static kvt_status open_request(struct bench *bench, uint32_t n, uint32_t id, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    bench->generated[n] = 0;
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        struct contract_state *state = &bench->states[r][n];
        contract_enter(bench->play, "request_bytes");
        status =
            contract_state_new(bench->play, bench->method->request_bytes(bench->data), state, err);
        if (status != KVT_OK)
            return status;
        contract_enter(bench->play, "request_init");
        bench->method->request_init(bench->data, state->bytes, id, 0);
        status = contract_state_check(bench->play, state, err);
    }
    return status;
}

static void close_requests(struct bench *bench)
{
    for (int r = 0; r < CONTRACT_ROLES; r++) {
        for (uint32_t n = 0; n < REQUESTS; n++)
            contract_state_free(&bench->states[r][n]);
    }
}

/* ---- A plan ---------------------------------------------------------------------------------- */

static void draw_batch(struct bench *bench)
{
    struct contract_draws *draws = &bench->play->draws;
    uint32_t first = contract_draw(draws, REQUESTS);

    bench->batch_count = contract_draw_from(draws, 1, REQUESTS);
    for (uint32_t i = 0; i < bench->batch_count; i++) {
        uint32_t n = (first + i) % REQUESTS;
        bench->batch[i] = n;
        bench->queries_max[n] = contract_chance(draws, 80)
                                    ? bench->shape.queries_max
                                    : contract_draw_from(draws, 1, bench->shape.queries_max);
    }
}

/* Plans `count` of the batch, from place `first` on, backwards where asked. */
static kvt_status plan_part(struct bench *bench, int role, uint32_t first, uint32_t count,
                            bool backwards, struct kvt_error *err)
{
    struct kvt_speculation_request requests[REQUESTS];
    struct kvt_round rounds[REQUESTS];
    const struct kvt_speculation_view view = {.requests = requests,
                                              .request_count = count,
                                              .step_ns = step_ns,
                                              .scratch = bench->scratch};
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = bench->batch[first + (backwards ? count - 1 - i : i)];
        requests[i] = (struct kvt_speculation_request){.state = bench->states[role][n].bytes,
                                                       .id = n,
                                                       .context_tokens = 1000 + bench->generated[n],
                                                       .generated_tokens = bench->generated[n],
                                                       .queries_max = bench->queries_max[n]};
    }
    memset(rounds, 0xff, sizeof rounds);
    memset(bench->scratch, 0x5a, bench->scratch_bytes);
    contract_enter(bench->play, "plan");
    bench->method->plan(bench->data, &view, rounds);
    for (uint32_t i = 0; i < count && status == KVT_OK; i++) {
        bench->rounds[role][requests[i].id] = rounds[i];
        status = contract_state_check(bench->play, &bench->states[role][requests[i].id], err);
    }
    return status;
}

static kvt_status plan(struct bench *bench, int role, struct kvt_error *err)
{
    bool by_itself = role == CONTRACT_OTHER && !bench->shape.rounds_by_load;
    bool backwards = role == CONTRACT_MOVED && !bench->shape.rounds_by_load;
    kvt_status status = KVT_OK;

    if (!by_itself)
        return plan_part(bench, role, 0, bench->batch_count, backwards, err);
    for (uint32_t i = 0; i < bench->batch_count && status == KVT_OK; i++)
        status = plan_part(bench, role, i, 1, false, err);
    return status;
}

/* Path 0 rises by one from depth 0, and others part from it: what a law relies on. */
static bool queries_fit(const struct kvt_round *round)
{
    uint32_t committed = 0;

    for (uint32_t q = 0; q < round->query_count; q++) {
        const struct kvt_law_query *query = &round->queries[q];
        if (query->depth >= round->query_count)
            return false;
        if (query->path == 0 && (query->depth != committed++ || query->fork != 0))
            return false;
        if (query->path != 0 && (query->fork < 1 || query->fork > query->depth ||
                                 query->fork > round->committed_tokens))
            return false;
    }
    return committed == round->committed_tokens;
}

static kvt_status check_round(const struct bench *bench, uint32_t n, struct kvt_error *err)
{
    const struct kvt_round *round = &bench->rounds[0][n];

    if (round->query_count < 1 || round->query_count > bench->queries_max[n] ||
        round->committed_tokens < 1 || round->committed_tokens > round->query_count)
        return contract_broken(bench->play, err,
                               "1 to queries_max queries, of which 1 to all are committed",
                               "plan() makes a round of %u queries that commits %u tokens for a "
                               "request that may have %u queries",
                               round->query_count, round->committed_tokens, bench->queries_max[n]);
    if (!queries_fit(round))
        return contract_broken(bench->play, err,
                               "path 0 rises from depth 0 by one, as many as are committed; a "
                               "rejected path parts from it at a depth from 1 to its own",
                               "plan() makes a round of %u queries, %u of them committed, whose "
                               "paths do not fit",
                               round->query_count, round->committed_tokens);
    return KVT_OK;
}

static bool are_equal(const struct kvt_round *a, const struct kvt_round *b)
{
    bool same = a->draft_tokens == b->draft_tokens && a->query_count == b->query_count &&
                a->committed_tokens == b->committed_tokens;

    for (uint32_t q = 0; same && q < a->query_count; q++)
        same = a->queries[q].depth == b->queries[q].depth &&
               a->queries[q].path == b->queries[q].path && a->queries[q].fork == b->queries[q].fork;
    return same;
}

static kvt_status compare(const struct bench *bench, int role, struct kvt_error *err)
{
    for (uint32_t i = 0; i < bench->batch_count; i++) {
        uint32_t n = bench->batch[i];
        if (are_equal(&bench->rounds[role][n], &bench->rounds[0][n]))
            continue;
        if (role == CONTRACT_OTHER && !bench->shape.rounds_by_load)
            return contract_broken(bench->play, err,
                                   "what is drawn depends on the request and its rounds, never on "
                                   "the others or their order, unless shape() says rounds_by_load",
                                   "plan() plans request %u otherwise where it is alone", n);
        return contract_differs(bench->play, (enum contract_role)role, "plan", err);
    }
    return KVT_OK;
}

static kvt_status play_plan(struct bench *bench, uint32_t number, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t n = 0; n < REQUESTS && number % MOVE_EVERY == MOVE_EVERY - 1 && status == KVT_OK;
         n++)
        status = contract_state_move(&bench->states[CONTRACT_MOVED][n], err);
    draw_batch(bench);
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        status = plan(bench, r, err);
        for (uint32_t i = 0; i < bench->batch_count && r == 0 && status == KVT_OK; i++)
            status = check_round(bench, bench->batch[i], err);
        if (status == KVT_OK)
            status = compare(bench, r, err);
    }
    for (uint32_t i = 0; i < bench->batch_count && status == KVT_OK; i++)
        bench->generated[bench->batch[i]] += bench->rounds[0][bench->batch[i]].committed_tokens;
    return status;
}

kvt_status contract_play_speculation(struct contract_play *play, struct kvt_error *err)
{
    struct bench *bench = calloc(1, sizeof *bench);
    uint64_t first_call = play->note->calls;

    if (bench == NULL)
        return kvt_fail_nomem(err, "a batch of requests");
    bench->play = play;
    bench->method = (const struct kvt_speculation_method *)(const void *)play->info;
    kvt_status status = prepare(bench, err);
    if (status == KVT_OK)
        status = make_scratch(bench, err);
    for (uint32_t n = 0; n < REQUESTS && status == KVT_OK; n++)
        status = open_request(bench, n, n, err);
    for (uint32_t i = 0; status == KVT_OK && contract_goes_on(play, first_call); i++)
        status = play_plan(bench, i, err);
    close_requests(bench);
    contract_enter(play, "free");
    bench->method->free(bench->data);
    free(bench->scratch);
    free(bench);
    return status;
}
