/* contract_law.c -- a selection law played: streams of requests, rounds of one and several paths.
 *
 *     the law is prepared; for some (request, selector) streams, instances of each:
 *         every round each is asked for its sets, which are counted and compared
 *         one is never looked at (sets NULL) but now and then, and must be where the others are
 *         one is asked for page scores too, which must not move it
 */
#include <stdlib.h>
#include <string.h>

#include "contract.h"
#include "kvt/law.h"
#include "kvt/speculation.h"

enum {
    TOP_K = 24,
    SELECTORS = 3,
    QUERIES_MAX = 6,
    ROWS_MAX = 1200,
    WORDS = (ROWS_MAX + 63) / 64,
    GUARD = 2,
    ROUNDS_OF_A_STREAM = 40,
    MOVE_EVERY = 5,
    SCORE_ROWS = 64
};

struct bench {
    struct contract_play *play;
    const struct kvt_law *law;
    void *data;
    struct kvt_law_source source;
    struct kvt_law_stream_env env;
    struct contract_state streams[CONTRACT_ROLES];
    struct kvt_law_query queries[QUERIES_MAX];
    uint32_t visible_rows[QUERIES_MAX];
    struct kvt_law_round round;
    uint64_t sets[CONTRACT_ROLES][QUERIES_MAX][WORDS + GUARD];
    bool was_scored; /* the twin, in this round or before */
    float scores[ROWS_MAX / SCORE_ROWS + 2];
};

/* ---- What the law is lent ----------------------------------------------------------------- */

/* Neighbours from some row on, whoever asks: what an indexer would have selected. */
static uint32_t read_source(void *context, uint32_t request, uint32_t selector, uint32_t query,
                            uint32_t *rows)
{
    const struct bench *bench = context;
    uint32_t visible = bench->visible_rows[bench->queries[query].depth];
    uint32_t count = visible < TOP_K ? visible : TOP_K;
    uint32_t first = (request * 131 + selector * 31 + query * 7) % (visible - count + 1);

    for (uint32_t i = 0; i < count; i++)
        rows[i] = first + i;
    return count;
}

/* Preparing may take long; it goes on while it says so. */
static bool note_progress(void *context, double done_fraction, const char *what)
{
    struct contract_note *note = context;

    (void)done_fraction;
    (void)what;
    note->calls++;
    return true;
}

static kvt_status prepare(struct bench *bench, struct kvt_error *err)
{
    /* What is foreseen is made ahead, which takes long: input bytes are worth less than that. */
    const size_t foreseen = bench->play->draws.bytes == NULL;
    const uint32_t context_rows[] = {ROWS_MAX / 2}, tokens_per_row[] = {1};
    const struct kvt_law_env env = {.params = bench->play->params,
                                    .top_k = TOP_K,
                                    .stream_count = SELECTORS,
                                    .side_paths = 1,
                                    .side_tokens = QUERIES_MAX,
                                    .context_rows = context_rows,
                                    .context_tokens_per_row = tokens_per_row,
                                    .context_count = foreseen,
                                    .output_tokens = 100,
                                    .run_seed = 2385,
                                    .threads = 1,
                                    .progress = note_progress,
                                    .progress_context = bench->play->note,
                                    .host = kvt_host(),
                                    .source = bench->law->reads_source ? &bench->source : NULL};

    bench->source = (struct kvt_law_source){.context = bench, .read = read_source};
    contract_enter(bench->play, "prepare");
    return KVT_PLUGIN_CALL(bench->law, prepare, err, &env, &bench->data);
}

static kvt_status open_streams(struct bench *bench, uint32_t request, struct kvt_error *err)
{
    struct contract_draws *draws = &bench->play->draws;
    /* The prepared length, another, and fewer rows than are selected. Few of them: a law may make
     * something ahead for each. */
    static const uint32_t lengths[] = {ROWS_MAX / 2, ROWS_MAX / 2, 3 * TOP_K + 1, TOP_K / 2};
    uint32_t context = lengths[contract_draw(draws, sizeof lengths / sizeof lengths[0])];
    kvt_status status = KVT_OK;

    bench->env = (struct kvt_law_stream_env){.request = request,
                                             .selector = contract_draw(draws, SELECTORS),
                                             .context_rows = context,
                                             .rows_max = context + ROUNDS_OF_A_STREAM * QUERIES_MAX,
                                             .tokens_per_row = 1};
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        struct contract_state *stream = &bench->streams[r];
        contract_enter(bench->play, "stream_bytes");
        status = contract_state_new(bench->play, bench->law->stream_bytes(bench->data, &bench->env),
                                    stream, err);
        if (status != KVT_OK)
            return status;
        contract_enter(bench->play, "stream_init");
        status =
            KVT_PLUGIN_CALL(bench->law, stream_init, err, bench->data, stream->bytes, &bench->env);
        if (status == KVT_OK)
            status = contract_state_check(bench->play, stream, err);
    }
    return status;
}

static void close_streams(struct bench *bench)
{
    for (int r = 0; r < CONTRACT_ROLES; r++)
        contract_state_free(&bench->streams[r]);
}

/* ---- A round -------------------------------------------------------------------------------- */

/* Some committed queries, then drafts that part from them somewhere. */
static void draw_round(struct bench *bench, uint32_t context_rows)
{
    struct contract_draws *draws = &bench->play->draws;
    uint32_t committed = contract_draw_from(draws, 1, QUERIES_MAX);
    uint32_t side = contract_draw(draws, QUERIES_MAX - committed + 1);
    uint32_t fork = contract_draw_from(draws, 1, committed), count = 0;

    for (uint32_t depth = 0; depth < committed; depth++)
        bench->queries[count++] = (struct kvt_law_query){.depth = depth};
    for (uint32_t i = 0; i < side; i++)
        bench->queries[count++] =
            (struct kvt_law_query){.depth = fork + i, .path = 1, .fork = fork};
    for (uint32_t depth = 0; depth < QUERIES_MAX; depth++)
        bench->visible_rows[depth] = context_rows + depth;
    bench->round = (struct kvt_law_round){.queries = bench->queries,
                                          .query_count = count,
                                          .committed_tokens = committed,
                                          .visible_rows = bench->visible_rows};
}

static uint32_t deepest_visible(const struct bench *bench)
{
    uint32_t deepest = 0;

    for (uint32_t q = 0; q < bench->round.query_count; q++)
        deepest = bench->queries[q].depth > deepest ? bench->queries[q].depth : deepest;
    return bench->visible_rows[deepest];
}

static kvt_status check_sets(struct bench *bench, int role, struct kvt_error *err)
{
    size_t words = kvt_row_words(deepest_visible(bench));

    for (uint32_t q = 0; q < bench->round.query_count; q++) {
        uint64_t *set = bench->sets[role][q];
        uint32_t visible = bench->visible_rows[bench->queries[q].depth];
        uint32_t count = kvt_row_set_count(set, words), below = 0;
        uint32_t expected = visible < TOP_K ? visible : TOP_K;
        for (uint32_t row = 0; row < visible; row++)
            below += kvt_row_is_in(set, row);
        bool fits = bench->law->varies ? count >= 1 && count <= expected : count == expected;
        if (!fits || below != count)
            return contract_broken(bench->play, err,
                                   "min(top_k, visible_rows) rows of those that the query sees",
                                   "select() gives query %u of request %u %u rows, %u of them "
                                   "below visible_rows = %u; top_k is %d",
                                   q, bench->env.request, count, below, visible, TOP_K);
        for (size_t w = words; w < WORDS + GUARD; w++) {
            if (set[w] != UINT64_MAX)
                return contract_broken(bench->play, err,
                                       "it writes kvt_row_words(visible_rows) words of a set",
                                       "select() wrote word %zu of a set of %zu", w, words);
        }
    }
    return KVT_OK;
}

static kvt_status tell_difference(const struct bench *bench, int role, struct kvt_error *err)
{
    if (role == CONTRACT_OTHER)
        return contract_broken(bench->play, err,
                               "a stream that nobody looks at moves on as any other",
                               "select() selects otherwise after rounds with sets NULL");
    if (role == CONTRACT_TWIN && bench->was_scored)
        return contract_broken(bench->play, err, "a stream goes on as if nobody had asked",
                               "select() selects otherwise after page_scores()");
    return contract_differs(bench->play, (enum contract_role)role, "select", err);
}

/* looked: whether the role that may be left out is asked for its sets. */
static kvt_status select_all(struct bench *bench, bool looked, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        uint64_t *sets[QUERIES_MAX];
        bool asked = looked || r != CONTRACT_OTHER;
        for (uint32_t q = 0; q < QUERIES_MAX; q++)
            sets[q] = bench->sets[r][q];
        memset(bench->sets[r], 0xff, sizeof bench->sets[r]);
        contract_enter(bench->play, "select");
        bench->law->select(bench->data, bench->streams[r].bytes, &bench->round,
                           asked ? sets : NULL);
        status = contract_state_check(bench->play, &bench->streams[r], err);
        if (status != KVT_OK || !asked)
            continue;
        bool same = memcmp(bench->sets[r], bench->sets[0], sizeof bench->sets[r]) == 0;
        status = same ? check_sets(bench, r, err) : tell_difference(bench, r, err);
    }
    return status;
}

/* Asked of the twin alone, so that the next round tells whether that moved it. */
static kvt_status ask_scores(struct bench *bench, struct kvt_error *err)
{
    const struct contract_state *twin = &bench->streams[CONTRACT_TWIN];
    uint32_t visible = bench->visible_rows[bench->round.committed_tokens - 1];
    uint32_t pages = (visible + SCORE_ROWS - 1) / SCORE_ROWS;

    if (bench->law->page_scores == NULL)
        return KVT_OK;
    memset(bench->scores, 0xff, sizeof bench->scores);
    bench->was_scored = true;
    contract_enter(bench->play, "page_scores");
    bench->law->page_scores(bench->data, twin->bytes, visible, SCORE_ROWS, bench->scores);
    for (uint32_t page = 0; page < sizeof bench->scores / sizeof bench->scores[0]; page++) {
        bool wrote = bench->scores[page] == bench->scores[page]; /* all ones is no number */
        if (wrote != (page < pages))
            return contract_broken(bench->play, err,
                                   "a score, and no NaN, for each page that has "
                                   "a row",
                                   "page_scores() %s page %u of %u",
                                   wrote ? "wrote a score for" : "wrote none for", page, pages);
    }
    return contract_state_check(bench->play, twin, err);
}

static kvt_status play_stream(struct bench *bench, struct kvt_error *err)
{
    uint32_t rows = bench->env.context_rows;
    bench->was_scored = false;
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < ROUNDS_OF_A_STREAM && status == KVT_OK && !bench->play->draws.ended;
         i++) {
        if (i % MOVE_EVERY == MOVE_EVERY - 1)
            status = contract_state_move(&bench->streams[CONTRACT_MOVED], err);
        draw_round(bench, rows);
        if (status == KVT_OK)
            status = select_all(bench, contract_chance(&bench->play->draws, 40), err);
        if (status == KVT_OK && contract_chance(&bench->play->draws, 50))
            status = ask_scores(bench, err);
        rows += bench->round.committed_tokens;
    }
    return status;
}

kvt_status contract_play_law(struct contract_play *play, struct kvt_error *err)
{
    struct bench *bench = calloc(1, sizeof *bench);
    uint64_t first_call = play->note->calls;

    if (bench == NULL)
        return kvt_fail_nomem(err, "streams of a law");
    bench->play = play;
    bench->law = (const struct kvt_law *)(const void *)play->info;
    kvt_status status = prepare(bench, err);
    if (status == KVT_OK) {
        char line[160] = "";
        contract_enter(play, "describe");
        bench->law->describe(bench->data, line, sizeof line);
    }
    for (uint32_t i = 0; status == KVT_OK && contract_goes_on(play, first_call); i++) {
        status = open_streams(bench, i, err);
        if (status == KVT_OK)
            status = play_stream(bench, err);
        close_streams(bench);
    }
    contract_enter(play, "free");
    bench->law->free(bench->data);
    free(bench);
    return status;
}
