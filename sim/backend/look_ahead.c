/* look_ahead.c -- when each row of a store is selected next.
 *
 *     a second stream of each selector, of the same chances, and the request's drafting state as
 *     it will be go ahead, round by round:
 *         plan the round -> select -> for each call c of it, for each row that it selects:
 *             uses[row] |= bit c modulo the bits of a row
 *     as call c comes, its bits are cleared; the next use of a row is then the first of its bits
 *     from c + 1 on, round the ring
 *
 * A row takes KVT_LOOK_AHEAD_CALLS bits and those of two rounds, the one under way and the one
 * that reaches furthest. */
#include "kvt/look_ahead.h"

#include <stdlib.h>
#include <string.h>

struct kvt_look_ahead {
    const struct kvt_look_ahead_env *env;
    const struct kvt_store *store;
    uint32_t selectors; /* that read the store */
    uint32_t words;     /* of a row */
    uint32_t pages, page_rows;
    uint64_t made, passed; /* calls */
    /* The request before the next round to be looked at. */
    struct kvt_speculation_request request;
    void *scratch;        /* the method's */
    uint32_t last_tokens; /* with so many, the newest not committed, it has ended */
    void **streams;       /* [selectors] */
    uint64_t *uses;       /* [rows][words] */
    uint32_t *page_uses;  /* [rows / rows of a page, rounded up] the bits of their rows */
};

static uint32_t calls_of(const struct kvt_look_ahead *ahead, uint32_t queries)
{
    return ahead->selectors * (ahead->env->resolve_each_query ? queries : 1);
}

/* ---- Memory ---------------------------------------------------------------------------- */

void kvt_look_ahead_free(struct kvt_look_ahead *ahead)
{
    if (!ahead)
        return;
    for (uint32_t i = 0; i < ahead->selectors; i++)
        free(ahead->streams[i]);
    free(ahead->streams);
    free(ahead->request.state);
    free(ahead->scratch);
    free(ahead->uses);
    free(ahead->page_uses);
    free(ahead);
}

kvt_status kvt_look_ahead_new(const struct kvt_look_ahead_env *env, uint32_t store,
                              const struct kvt_backend_admission *admission, void **streams,
                              uint32_t selectors, struct kvt_look_ahead **out,
                              struct kvt_error *err)
{
    const struct kvt_speculation_method *method = env->speculation;
    uint32_t rows =
        kvt_store_rows(&env->llm->stores[store], admission->last_tokens + env->queries_max);
    uint32_t page_rows = KVT_PAGE_ROWS / env->llm->stores[store].compress_ratio;
    size_t state_bytes = method->request_bytes(env->speculation_data);
    size_t scratch_bytes = method->plan_bytes ? method->plan_bytes(env->speculation_data, 1) : 0;
    struct kvt_look_ahead *ahead = calloc(1, sizeof *ahead);

    if (!ahead) {
        for (uint32_t i = 0; i < selectors; i++)
            free(streams[i]);
        free(streams);
        return kvt_fail_nomem(err, "a look ahead");
    }
    *ahead = (struct kvt_look_ahead){.env = env,
                                     .store = &env->llm->stores[store],
                                     .selectors = selectors,
                                     .pages = rows / page_rows + 1,
                                     .page_rows = page_rows,
                                     .request = {.id = admission->request,
                                                 .context_tokens = admission->context_tokens,
                                                 .generated_tokens = admission->generated_tokens},
                                     .last_tokens = admission->last_tokens,
                                     .streams = streams};
    uint32_t bits = KVT_LOOK_AHEAD_CALLS + 2 * calls_of(ahead, env->queries_max);
    ahead->words = (bits + 63) / 64;
    ahead->request.state = kvt_plugin_state_new(state_bytes);
    ahead->scratch = kvt_plugin_state_new(scratch_bytes);
    ahead->uses = calloc((size_t)rows * ahead->words + 1, sizeof *ahead->uses);
    ahead->page_uses = calloc(ahead->pages, sizeof *ahead->page_uses);
    if (!ahead->request.state || !ahead->scratch || !ahead->uses || !ahead->page_uses) {
        kvt_look_ahead_free(ahead);
        return kvt_fail_nomem(err, "a look ahead");
    }
    memcpy(ahead->request.state, admission->drafting, state_bytes);
    *out = ahead;
    return KVT_OK;
}

/* ---- Ahead ------------------------------------------------------------------------------- */

static bool has_ended(const struct kvt_look_ahead *ahead)
{
    return ahead->request.context_tokens + 1 >= ahead->last_tokens;
}

/* Bit `call` of every row that one of the sets has: comes, or is not to come any more. A word of
 * rows is whole pages. */
static void flip(struct kvt_look_ahead *ahead, uint64_t call, bool comes,
                 const uint64_t *const *sets, uint32_t count, uint32_t visible_rows)
{
    uint32_t at = (uint32_t)(call % (ahead->words * UINT64_C(64)));
    uint64_t *uses = ahead->uses + at / 64;

    for (size_t w = 0; w < kvt_row_words(visible_rows); w++) {
        uint64_t rows = 0;
        for (uint32_t s = 0; s < count; s++)
            rows |= sets[s][w];
        for (uint32_t at_row = 0; at_row < 64 && rows >> at_row != 0; at_row += ahead->page_rows) {
            uint64_t of_page = rows >> at_row & UINT64_MAX >> (64 - ahead->page_rows);
            uint32_t found = (uint32_t)__builtin_popcountll(of_page);
            uint32_t *page_uses = &ahead->page_uses[(w * 64 + at_row) / ahead->page_rows];
            *page_uses += comes ? found : -found;
        }
        for (; rows != 0; rows &= rows - 1)
            uses[(w * 64 + (size_t)__builtin_ctzll(rows)) * ahead->words] ^= UINT64_C(1) << at % 64;
    }
}

static void look_at_round(struct kvt_look_ahead *ahead, const struct kvt_round *round,
                          uint64_t *const *sets)
{
    const struct kvt_look_ahead_env *env = ahead->env;
    uint32_t visible_rows[KVT_QUERIES_MAX], visible;
    struct kvt_law_round asked = kvt_round_of_store(
        round, ahead->store, ahead->request.context_tokens, visible_rows, &visible);
    uint32_t queries = env->resolve_each_query ? 1 : round->query_count;

    for (uint32_t s = 0; s < ahead->selectors; s++) {
        env->law->select(env->law_data, ahead->streams[s], &asked, sets);
        for (uint32_t q = 0; q < round->query_count; q += queries)
            flip(ahead, ahead->made++, true, (const uint64_t *const *)sets + q, queries, visible);
    }
}

void kvt_look_ahead_fill(struct kvt_look_ahead *ahead, uint32_t queries, uint64_t *const *sets)
{
    const struct kvt_look_ahead_env *env = ahead->env;
    struct kvt_speculation_request *request = &ahead->request;
    struct kvt_round round;

    while (ahead->made - ahead->passed < KVT_LOOK_AHEAD_CALLS + calls_of(ahead, queries) &&
           !has_ended(ahead)) {
        request->queries_max =
            kvt_queries_left(env->llm, request->context_tokens, env->queries_max);
        struct kvt_speculation_view view = {
            .requests = request, .request_count = 1, .scratch = ahead->scratch};
        env->speculation->plan(env->speculation_data, &view, &round);
        look_at_round(ahead, &round, sets);
        request->context_tokens += round.committed_tokens;
        request->generated_tokens += round.committed_tokens;
    }
}

/* ---- Now ----------------------------------------------------------------------------------- */

void kvt_look_ahead_pass(struct kvt_look_ahead *ahead, const uint64_t *const *selections,
                         uint32_t query_count, uint32_t visible_rows)
{
    flip(ahead, ahead->passed++, false, selections, query_count, visible_rows);
}

void kvt_look_ahead_pages(const struct kvt_look_ahead *ahead, uint32_t *future, uint32_t page_count)
{
    for (uint32_t page = 0; page < page_count && page < ahead->pages; page++)
        future[page] += ahead->page_uses[page];
}

/* The first of a row's bits from `at` on, round the ring: how far it is; KVT_CALL_NEVER: none. */
static uint32_t first_use(const uint64_t *uses, uint32_t words, uint32_t at)
{
    uint32_t word = at / 64, shift = at % 64;
    uint64_t bits = uses[word] >> shift;

    if (bits != 0)
        return (uint32_t)__builtin_ctzll(bits);
    for (uint32_t w = 1; w <= words; w++) {
        bits = uses[(word + w) % words]; /* the last: what lies before `at` */
        if (bits != 0)
            return w * 64 - shift + (uint32_t)__builtin_ctzll(bits);
    }
    return KVT_CALL_NEVER;
}

void kvt_look_ahead_next_use(const struct kvt_look_ahead *ahead, const uint32_t *slot_rows,
                             uint32_t slot_count, uint32_t *next_use)
{
    uint32_t at = (uint32_t)(ahead->passed % (ahead->words * UINT64_C(64)));

    for (kvt_slot slot = 0; slot < slot_count; slot++) {
        next_use[slot] = KVT_CALL_NEVER;
        if (slot_rows[slot] == KVT_ROW_NONE)
            continue;
        uint32_t calls =
            first_use(ahead->uses + (size_t)slot_rows[slot] * ahead->words, ahead->words, at);
        if (calls < KVT_LOOK_AHEAD_CALLS)
            next_use[slot] = calls + 1;
    }
}
