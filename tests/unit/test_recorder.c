/* test_recorder.c -- what a law answers is kept, and read again by whose it is. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/kvsel.h"
#include "kvt/recorder.h"
#include "kvt/rng.h"
#include "kvt/speculation.h"
#include "support/law_setting.h"
#include "support/support.h"

extern const struct kvt_law kvt_law_score, kvt_law_recorded;

static const struct kvt_law *const plain = &kvt_law_score, *const own = &kvt_law_recorded;

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

static void folder_make(void)
{
    support_folder_make(&folder);
    (void)support_path(&folder, "a.kvsel", path);
}

static void folder_remove(void)
{
    support_folder_remove(&folder);
}

enum {
    TOP_K = 16,
    SELECTORS = 2,
    SIDE_PATHS = 3,
    SIDE_TOKENS = 3,
    ROUNDS = 60,
    ACTORS = 7,
};

static const uint32_t stores[SELECTORS] = {0, 1}, ratios[SELECTORS] = {1, 4};

/* A request that begins with so many tokens, and has so many rounds. */
struct actor {
    uint32_t request, context_tokens, rounds;
};

/* One outgrows top_k within a round, one begins in a fourth of a row, one is near the end of a
 * segment of 131,072 rows and stops before it, one comes twice. */
static const struct actor actors[ACTORS] = {{7, 300, ROUNDS}, {2, 9, ROUNDS}, {5, 302, 25},
                                            {3, 13, ROUNDS},  {6, 131060, 4}, {7, 390, ROUNDS},
                                            {0, 1001, 20}};

static void setting_init(struct law_setting *setting, const struct kvt_law *law)
{
    law_setting_init(setting, law, TOP_K);
    setting->env.stream_count = SELECTORS;
    setting->env.stream_store = stores;
    setting->env.stream_tokens_per_row = ratios;
    setting->env.side_paths = SIDE_PATHS;
    setting->env.side_tokens = SIDE_TOKENS;
}

static struct kvt_law_stream_env env_of(const struct actor *actor, uint32_t selector)
{
    return (struct kvt_law_stream_env){
        .request = actor->request,
        .selector = selector,
        .context_rows = (actor->context_tokens + 1) / ratios[selector],
        .rows_max = (actor->context_tokens + 8 * ROUNDS) / ratios[selector] + 8,
        .tokens_per_row = ratios[selector],
        .context_tokens = actor->context_tokens};
}

/* The n-th round of an actor: nothing drafted; a chain; or a tree whose third path parts from its
 * second at depth 3, below where that one parted from path 0. */
static void plan(uint32_t request, uint32_t n, struct kvt_round *round)
{
    static const struct kvt_law_query tree[] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 1}, {2, 1, 1},
                                                {2, 2, 2}, {3, 2, 2}, {3, 3, 2}, {4, 3, 2}};
    struct kvt_rng rng = kvt_rng_stream(4, KVT_RNG_SELECTION, (uint64_t)request << 32 | n);
    uint32_t committed = 1 + (uint32_t)kvt_rng_below(&rng, 4);
    switch (n % 3) {
    case 0:
        kvt_round_chain(round, 1, 1);
        break;
    case 1:
        kvt_round_chain(round, committed + (uint32_t)kvt_rng_below(&rng, SIDE_TOKENS + 1),
                        committed);
        break;
    default:
        *round = (struct kvt_round){.query_count = 8, .committed_tokens = 2};
        memcpy(round->queries, tree, sizeof tree);
        break;
    }
}

/* What a stream was asked for and answered, round by round. */
struct asked {
    struct kvt_round round;
    uint32_t visible_rows[KVT_QUERIES_MAX];
    struct kvt_law_round law_round;
    size_t words;
    uint64_t *block, *sets[KVT_QUERIES_MAX];
};

static void ask(struct asked *asked, const struct actor *actor, uint32_t selector, uint32_t n,
                uint32_t moved)
{
    uint32_t deepest = 0;
    plan(actor->request, n, &asked->round);
    for (uint32_t q = 0; q < asked->round.query_count; q++)
        deepest = asked->round.queries[q].depth > deepest ? asked->round.queries[q].depth : deepest;
    for (uint32_t d = 0; d <= deepest; d++)
        asked->visible_rows[d] = (actor->context_tokens + moved + d + 1) / ratios[selector];
    asked->law_round = (struct kvt_law_round){.queries = asked->round.queries,
                                              .query_count = asked->round.query_count,
                                              .committed_tokens = asked->round.committed_tokens,
                                              .visible_rows = asked->visible_rows};
    asked->words = kvt_row_words(asked->visible_rows[deepest]);
    ck_assert_uint_gt(asked->round.query_count * asked->words, 0);
    asked->block = malloc(asked->round.query_count * asked->words * sizeof *asked->block);
    ck_assert_ptr_nonnull(asked->block);
    memset(asked->block, 0xff, asked->round.query_count * asked->words * sizeof *asked->block);
    for (uint32_t q = 0; q < asked->round.query_count; q++)
        asked->sets[q] = asked->block + q * asked->words;
}

static void check_same(const struct asked *a, const struct asked *b)
{
    for (uint32_t q = 0; q < a->round.query_count; q++)
        ck_assert_msg(memcmp(a->sets[q], b->sets[q], a->words * sizeof(uint64_t)) == 0,
                      "query %u: depth %u, path %u, fork %u", q, a->round.queries[q].depth,
                      a->round.queries[q].path, a->round.queries[q].fork);
}

/* Two streams of one selector that are asked the same, and answer the same. Where `is_seen` says
 * no, the second is asked without sets now and then. */
struct twins {
    const struct kvt_law *first, *second;
    void *first_data, *second_data;
};

static void compare_stream(const struct twins *twins, const struct actor *actor, uint32_t selector,
                           void *a, void *b, bool is_seen)
{
    uint32_t moved = 0;
    for (uint32_t n = 0; n < actor->rounds; n++) {
        struct asked x, y;
        bool looks = is_seen || n % 4 != 1;
        ask(&x, actor, selector, n, moved);
        ask(&y, actor, selector, n, moved);
        twins->first->select(twins->first_data, a, &x.law_round, x.sets);
        twins->second->select(twins->second_data, b, &y.law_round, looks ? y.sets : NULL);
        if (looks)
            check_same(&x, &y);
        moved += x.round.committed_tokens;
        free(x.block);
        free(y.block);
        if (twins->second->end_step != NULL)
            ck_assert_int_eq(twins->second->end_step(twins->second_data, NULL), KVT_OK);
    }
}

/* Streams of all selectors of an actor. `is_seen`: of the second one too. */
static void compare(const struct twins *twins, const struct actor *actor, bool is_seen)
{
    void *a[SELECTORS], *b[SELECTORS];
    for (uint32_t s = 0; s < SELECTORS; s++) {
        struct kvt_law_stream_env env = env_of(actor, s);
        a[s] = law_stream_new(twins->first, twins->first_data, &env);
        b[s] = law_stream_new(twins->second, twins->second_data, &env);
    }
    for (uint32_t s = 0; s < SELECTORS; s++)
        compare_stream(twins, actor, s, a[s], b[s], is_seen || s == 0);
    for (uint32_t s = 0; s < SELECTORS; s++) {
        if (twins->second->stream_fini != NULL)
            twins->second->stream_fini(twins->second_data, b[s]);
        free(a[s]);
        free(b[s]);
    }
}

static char *note_of(const struct kvt_recorder *recorder)
{
    static char note[2048];
    struct kvt_recorder_totals totals;
    kvt_recorder_totals(recorder, &totals);
    int used = snprintf(note, sizeof note, "{\"stores\": [0, 1], \"requests\": [");
    for (uint32_t r = 0; r < totals.recording_count; r++)
        used += snprintf(note + used, sizeof note - (size_t)used,
                         "%s{\"request\": %u, \"context_tokens\": %u}", r > 0 ? ", " : "",
                         totals.recordings[r].request, totals.recordings[r].context_tokens);
    (void)snprintf(note + used, sizeof note - (size_t)used, "]}");
    return note;
}

/* Every actor, recorded into `path`. Rounds of the second selector are not all looked at. */
static void record(void)
{
    struct law_setting setting, recording;
    struct kvt_recorder *recorder = NULL;
    struct kvt_error err;
    ck_assert_msg(kvt_recorder_new(plain, path, &recorder, &err) == KVT_OK, "%s", err.message);
    const struct kvt_law *law = kvt_recorder_law(recorder);
    setting_init(&setting, plain);
    setting_init(&recording, plain);
    recording.env.context = recorder;
    const struct twins twins = {plain, law, law_prepared(plain, &setting),
                                law_prepared(law, &recording)};
    for (uint32_t i = 0; i < ACTORS; i++)
        compare(&twins, &actors[i], false);
    char *note = note_of(recorder);
    ck_assert_msg(kvt_recorder_commit(recorder, note, strlen(note), &err) == KVT_OK, "%s",
                  err.message);
    law->free(twins.second_data);
    plain->free(twins.first_data);
    kvt_recorder_free(recorder);
}

static void own_setting_init(struct law_setting *setting)
{
    setting_init(setting, own);
    setting->values[0].text = path;
    law_setting_set(setting, own, "assign", 1);
}

START_TEST(a_recorder_answers_as_its_law_and_its_file_answers_as_it_did)
{
    struct law_setting setting, replaying;
    record();
    setting_init(&setting, plain);
    own_setting_init(&replaying);
    const struct twins twins = {plain, own, law_prepared(plain, &setting),
                                law_prepared(own, &replaying)};
    for (uint32_t i = 0; i < ACTORS; i++)
        compare(&twins, &actors[i], true);
    own->free(twins.second_data);
    plain->free(twins.first_data);
}
END_TEST

START_TEST(each_opening_is_a_recording_in_the_order_of_openings_and_rows_are_counted)
{
    struct kvt_kvsel *file = NULL;
    struct kvt_error err;
    record();
    ck_assert_msg(kvt_kvsel_load(path, true, &file, &err) == KVT_OK, "%s", err.message);
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(file);
    ck_assert_uint_eq(header->request_count, ACTORS);
    ck_assert_uint_eq(header->selector_count, SELECTORS);
    for (uint32_t i = 0; i < ACTORS; i++) {
        uint32_t tokens = 0;
        for (uint32_t n = 0; n < actors[i].rounds; n++) {
            struct kvt_round round;
            plan(actors[i].request, n, &round);
            tokens += round.committed_tokens;
        }
        const struct kvt_kvsel_stream *first = kvt_kvsel_stream_of(file, i, 0);
        const struct kvt_kvsel_stream *second = kvt_kvsel_stream_of(file, i, 1);
        uint32_t lead = (actors[i].context_tokens + 1) % 4;
        ck_assert_uint_eq(first->token_count, tokens);
        ck_assert_uint_eq(first->shape.first_rows, actors[i].context_tokens + 1);
        ck_assert_uint_eq(second->token_count, tokens + lead);
        ck_assert_uint_eq(second->shape.first_rows, (actors[i].context_tokens + 1) / 4);
    }
    kvt_kvsel_free(file);
}
END_TEST

/* ---- A few streams, and what becomes of them --------------------------------------------------
 */

struct stage {
    struct law_setting setting;
    struct kvt_recorder *recorder;
    const struct kvt_law *law;
    void *data;
};

static void stage_open(struct stage *stage)
{
    struct kvt_error err;
    ck_assert_msg(kvt_recorder_new(plain, path, &stage->recorder, &err) == KVT_OK, "%s",
                  err.message);
    stage->law = kvt_recorder_law(stage->recorder);
    setting_init(&stage->setting, plain);
    stage->setting.env.side_paths = stage->setting.env.side_tokens = 0;
    stage->setting.env.context = stage->recorder;
    stage->data = law_prepared(stage->law, &stage->setting);
}

static void stage_close(struct stage *stage, bool commits)
{
    struct kvt_error err;
    char *note = note_of(stage->recorder);
    if (commits)
        ck_assert_msg(kvt_recorder_commit(stage->recorder, note, strlen(note), &err) == KVT_OK,
                      "%s", err.message);
    stage->law->free(stage->data);
    kvt_recorder_free(stage->recorder);
}

/* Tokens of one query each. */
static void go_on(const struct kvt_law *law, const void *data, void *stream, uint32_t from,
                  uint32_t tokens)
{
    uint32_t rows[TOP_K];
    for (uint32_t t = 0; t < tokens; t++)
        ck_assert_uint_eq(law_select_one(law, data, stream, from + 1 + t, rows), TOP_K);
}

/* A recording of 10 tokens of requests 4 and 5 from 100 tokens on, selector 0. */
static void record_two(void)
{
    struct stage stage;
    stage_open(&stage);
    for (uint32_t request = 4; request < 6; request++) {
        const struct actor actor = {.request = request, .context_tokens = 100};
        struct kvt_law_stream_env env = env_of(&actor, 0);
        void *stream = law_stream_new(stage.law, stage.data, &env);
        go_on(stage.law, stage.data, stream, 100, 10);
        stage.law->stream_fini(stage.data, stream);
        free(stream);
    }
    stage_close(&stage, true);
}

static void *own_prepared(struct law_setting *setting)
{
    own_setting_init(setting);
    setting->env.side_paths = setting->env.side_tokens = 0;
    return law_prepared(own, setting);
}

static void check_attach(void *data, const struct kvt_law_stream_env *env, const char *part)
{
    struct kvt_error err = {0};
    void *stream = calloc(1, own->stream_bytes(data, env));
    kvt_status status = own->stream_init(data, stream, env, &err);
    ck_assert_int_eq(status, part != NULL ? KVT_ERR_INVALID : KVT_OK);
    if (part != NULL)
        ck_assert_msg(strstr(err.message, part) != NULL, "%s", err.message);
    free(stream);
}

START_TEST(a_request_a_context_or_a_selector_that_is_not_there_is_refused)
{
    struct law_setting setting;
    record_two();
    void *data = own_prepared(&setting);
    struct actor actor = {.request = 5, .context_tokens = 100};
    struct kvt_law_stream_env env = env_of(&actor, 0);
    check_attach(data, &env, NULL);
    env = env_of(&actor, 1);
    check_attach(data, &env, NULL); /* nobody has read it yet */
    actor.context_tokens = 101;
    env = env_of(&actor, 0);
    check_attach(data, &env, "request 5 begins with 101 tokens");
    check_attach(data, &env, "has it from 100 tokens on");
    actor.request = 6;
    env = env_of(&actor, 0);
    check_attach(data, &env, "request 6 is not recorded");
    check_attach(data, &env, "it has 2 recordings, of requests 4 to 5");
    actor = (struct actor){.request = 4, .context_tokens = 100};
    env = env_of(&actor, 0);
    env.tokens_per_row = 2;
    check_attach(data, &env, "gains a row every 2 tokens");
    own->free(data);
}
END_TEST

START_TEST(who_reads_past_the_end_is_named_behind_the_step_and_the_first_of_several)
{
    struct law_setting setting;
    struct kvt_error err = {0};
    record_two();
    void *data = own_prepared(&setting), *streams[2];
    for (uint32_t i = 0; i < 2; i++) {
        const struct actor actor = {.request = 4 + i, .context_tokens = 100};
        struct kvt_law_stream_env env = env_of(&actor, 0);
        streams[i] = law_stream_new(own, data, &env);
        go_on(own, data, streams[i], 100, 10);
    }
    ck_assert_int_eq(own->end_step(data, &err), KVT_OK);
    go_on(own, data, streams[1], 110, 1); /* valid all the same */
    go_on(own, data, streams[0], 110, 1);
    ck_assert_int_eq(own->end_step(data, &err), KVT_ERR_INVALID);
    ck_assert_msg(strstr(err.message, "request 4 reads past the 10 tokens") != NULL, "%s",
                  err.message);
    free(streams[0]);
    free(streams[1]);
    own->free(data);
}
END_TEST

START_TEST(a_selector_that_was_not_followed_is_told_from_one_that_ended)
{
    struct law_setting setting;
    struct kvt_error err = {0};
    const struct actor actor = {.request = 5, .context_tokens = 100};
    struct kvt_law_stream_env env = env_of(&actor, 1);
    record_two();
    void *data = own_prepared(&setting), *stream = law_stream_new(own, data, &env);
    go_on(own, data, stream, 25, 1);
    ck_assert_int_eq(own->end_step(data, &err), KVT_ERR_INVALID);
    ck_assert_msg(strstr(err.message, "selector 1 of request 5, from 100 tokens on, was not "
                                      "followed") != NULL,
                  "%s", err.message);
    free(stream);
    own->free(data);
}
END_TEST

START_TEST(a_stream_that_looks_ahead_is_not_recorded_and_sees_nothing_behind_the_end)
{
    struct law_setting setting;
    uint32_t rows[TOP_K];
    struct stage stage;
    const struct actor actor = {.request = 4, .context_tokens = 100};
    struct kvt_law_stream_env env = env_of(&actor, 0), second = env;
    second.looks_ahead = true;
    stage_open(&stage);
    void *stream = law_stream_new(stage.law, stage.data, &env);
    void *ahead = law_stream_new(stage.law, stage.data, &second);
    go_on(stage.law, stage.data, ahead, 100, 30);
    go_on(stage.law, stage.data, stream, 100, 10);
    struct kvt_recorder_totals totals;
    kvt_recorder_totals(stage.recorder, &totals);
    ck_assert_uint_eq(totals.recording_count, 1);
    ck_assert_uint_eq(totals.tokens, 10);
    ck_assert_uint_eq(totals.rows, 10 * TOP_K);
    stage_close(&stage, true); /* with the stream open */
    free(stream);
    free(ahead);

    void *data = own_prepared(&setting);
    stream = law_stream_new(own, data, &env);
    ahead = law_stream_new(own, data, &second);
    go_on(own, data, ahead, 100, 10);
    ck_assert_uint_eq(law_select_one(own, data, ahead, 111, rows), 0);
    ck_assert_int_eq(own->end_step(data, NULL), KVT_OK);
    free(stream);
    free(ahead);
    own->free(data);
}
END_TEST

START_TEST(the_second_opening_of_a_request_reads_its_second_recording)
{
    struct law_setting setting;
    struct stage stage;
    struct kvt_error err = {0};
    const struct actor actor = {.request = 4, .context_tokens = 100};
    const struct kvt_law_stream_env env = env_of(&actor, 0);
    stage_open(&stage);
    for (uint32_t tokens = 3; tokens <= 6; tokens += 3) {
        void *stream = law_stream_new(stage.law, stage.data, &env);
        go_on(stage.law, stage.data, stream, 100, tokens);
        stage.law->stream_fini(stage.data, stream);
        free(stream);
    }
    stage_close(&stage, true);

    void *data = own_prepared(&setting);
    void *first = law_stream_new(own, data, &env), *second = law_stream_new(own, data, &env);
    void *third = law_stream_new(own, data, &env); /* the last there is */
    go_on(own, data, second, 100, 6);
    go_on(own, data, third, 100, 6);
    go_on(own, data, first, 100, 3);
    ck_assert_int_eq(own->end_step(data, &err), KVT_OK);
    go_on(own, data, first, 103, 1);
    ck_assert_int_eq(own->end_step(data, &err), KVT_ERR_INVALID);
    ck_assert_msg(strstr(err.message, "past the 3 tokens") != NULL, "%s", err.message);
    free(first);
    free(second);
    free(third);
    own->free(data);
}
END_TEST

/* A file of one recording of 10 tokens, with this note. */
static void record_with(const char *note)
{
    struct stage stage;
    const struct actor actor = {.request = 4, .context_tokens = 100};
    const struct kvt_law_stream_env env = env_of(&actor, 0);
    stage_open(&stage);
    void *stream = law_stream_new(stage.law, stage.data, &env);
    go_on(stage.law, stage.data, stream, 100, 10);
    ck_assert_int_eq(
        kvt_recorder_commit(stage.recorder, note, note != NULL ? strlen(note) : 0, NULL), KVT_OK);
    stage.law->stream_fini(stage.data, stream);
    free(stream);
    stage_close(&stage, false);
}

START_TEST(a_note_that_does_not_say_whose_recordings_are_is_refused)
{
    static const struct {
        const char *note, *part;
        kvt_status status;
    } bad[] = {
        {NULL, "does not say whose its recordings are", KVT_ERR_INVALID},
        {"{\"stores\": [0, 1]}", "does not say whose", KVT_ERR_INVALID},
        {"{\"stores\": [0, 0], \"requests\": [{\"request\": 4, \"context_tokens\": 100}]}",
         "other stores", KVT_ERR_INVALID},
        {"{\"stores\": [0], \"requests\": [{\"request\": 4, \"context_tokens\": 100}]}",
         "other stores", KVT_ERR_INVALID},
        {"{\"stores\": [0, 1, 2], \"requests\": [{\"request\": 4, \"context_tokens\": 100}]}",
         "other stores", KVT_ERR_INVALID},
        {"{\"stores\": [0, 1], \"requests\": []}", "not as many", KVT_ERR_PARSE},
        {"{\"stores\": [0, 1], \"requests\": [{\"request\": 4, \"context_tokens\": 1}, "
         "{\"request\": 5, \"context_tokens\": 1}]}",
         "not as many", KVT_ERR_PARSE},
        {"{\"stores\": [0, 1], \"requests\": [4]}", "an object", KVT_ERR_PARSE},
        {"{\"stores\": [0, 1], \"requests\": [{\"request\": -4, \"context_tokens\": 1}]}", "-4",
         KVT_ERR_INVALID},
        {"{\"stores\": [0, 1], \"requests\": [{\"request\": 4}]}", "context_tokens",
         KVT_ERR_INVALID},
    };
    record_with(bad[_i].note);
    struct law_setting setting;
    struct kvt_error err = {0};
    void *data = NULL;
    own_setting_init(&setting);
    setting.env.side_paths = setting.env.side_tokens = 0;
    kvt_status status = own->prepare(&setting.env, &data, &err);
    ck_assert_int_ne(status, KVT_OK);
    ck_assert_msg(strstr(err.message, bad[_i].part) != NULL ||
                      strstr(err.where, bad[_i].part) != NULL,
                  "%s: %s", err.where, err.message);
}
END_TEST

START_TEST(nothing_recorded_is_no_file_and_a_second_backend_is_refused)
{
    struct stage stage;
    struct kvt_error err = {0};
    void *again = NULL;
    stage_open(&stage);
    ck_assert_int_eq(stage.law->prepare(&stage.setting.env, &again, &err), KVT_ERR_UNSUPPORTED);
    ck_assert_ptr_null(again);
    ck_assert_int_eq(kvt_recorder_commit(stage.recorder, NULL, 0, &err), KVT_ERR_INVALID);
    stage_close(&stage, false);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_null(file);
    struct kvt_recorder *recorder = NULL;
    ck_assert_int_ne(kvt_recorder_new(plain, "/no/such/folder/a.kvsel", &recorder, &err), KVT_OK);
    ck_assert_ptr_null(recorder);
}
END_TEST

START_TEST(sets_of_any_size_are_no_recording)
{
    struct kvt_law varying = *plain;
    struct kvt_recorder *recorder = NULL;
    struct kvt_error err = {0};
    varying.varies = true;
    ck_assert_int_eq(kvt_recorder_new(&varying, path, &recorder, &err), KVT_ERR_UNSUPPORTED);
    ck_assert_ptr_null(recorder);
    ck_assert_ptr_nonnull(strstr(err.message, "as many rows as it takes"));
}
END_TEST

START_TEST(a_stream_that_begins_before_its_first_row_is_refused)
{
    struct stage stage;
    struct kvt_error err = {0};
    const struct actor actor = {.request = 4, .context_tokens = 2};
    const struct kvt_law_stream_env env = env_of(&actor, 1);
    stage_open(&stage);
    void *stream = calloc(1, stage.law->stream_bytes(stage.data, &env));
    ck_assert_int_eq(stage.law->stream_init(stage.data, stream, &env, &err), KVT_ERR_INVALID);
    ck_assert_msg(strstr(err.message, "begins with 0 rows") != NULL, "%s", err.message);
    free(stream);
    stage_close(&stage, false);
}
END_TEST

/* Records a stream and reads it back; the first failure. */
static kvt_status try_all(struct law_setting *recording, const struct law_setting *replaying,
                          struct kvt_error *err)
{
    const struct actor actor = {.request = 4, .context_tokens = 9};
    const struct kvt_law_stream_env env = env_of(&actor, 0);
    struct kvt_recorder *recorder = NULL;
    void *data = NULL;
    kvt_status status = kvt_recorder_new(plain, path, &recorder, err);
    if (status != KVT_OK)
        return status;
    const struct kvt_law *law = kvt_recorder_law(recorder);
    recording->env.context = recorder;
    status = law->prepare(&recording->env, &data, err);
    void *stream = status == KVT_OK ? calloc(1, law->stream_bytes(data, &env)) : NULL;
    if (status == KVT_OK && stream == NULL)
        status = kvt_fail_nomem(err, "the test's own stream");
    bool is_open = false;
    if (status == KVT_OK) {
        status = law->stream_init(data, stream, &env, err);
        is_open = status == KVT_OK;
    }
    uint32_t moved = 0;
    for (uint32_t n = 0; n < 40 && status == KVT_OK; n++) {
        static uint32_t visible[KVT_QUERIES_MAX];
        static struct kvt_round round;
        plan(4, n, &round);
        for (uint32_t d = 0; d < KVT_QUERIES_MAX; d++)
            visible[d] = 9 + moved + d + 1;
        const struct kvt_law_round unseen = {.queries = round.queries,
                                             .query_count = round.query_count,
                                             .committed_tokens = round.committed_tokens,
                                             .visible_rows = visible};
        law->select(data, stream, &unseen, NULL);
        moved += round.committed_tokens;
        status = law->end_step(data, err);
    }
    if (is_open)
        law->stream_fini(data, stream);
    if (status == KVT_OK) {
        static const char note[] = "{\"stores\": [0, 1], \"requests\": [{\"request\": 4, "
                                   "\"context_tokens\": 9}]}";
        status = kvt_recorder_commit(recorder, note, sizeof note - 1, err);
    }
    free(stream);
    if (data != NULL)
        law->free(data);
    kvt_recorder_free(recorder);
    if (status != KVT_OK)
        return status;
    status = own->prepare(&replaying->env, &data, err);
    if (status == KVT_OK)
        own->free(data);
    return status;
}

START_TEST(every_allocation_that_fails_is_told_and_nothing_is_left)
{
    struct kvt_error err;
    struct law_setting recording, replaying;
    uint64_t refused = 0;
    bool failed = true;
    setting_init(&recording, plain);
    own_setting_init(&replaying);
    if (!support_can_fail_allocations())
        return;
    for (uint64_t nth = 0; failed; nth++) {
        support_fail_allocation(nth);
        kvt_status status = try_all(&recording, &replaying, &err);
        failed = support_allocation_failed();
        /* A stream of the C library goes on without a buffer. */
        ck_assert_msg(status == KVT_OK || (failed && status == KVT_ERR_NOMEM), "%s: %s", err.where,
                      err.message);
        refused += status != KVT_OK;
        (void)remove(path);
    }
    ck_assert_uint_gt(refused, 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recorder");
    TCase *kept = tcase_create("kept");
    tcase_set_timeout(kept, 60);
    tcase_add_checked_fixture(kept, folder_make, folder_remove);
    tcase_add_test(kept, a_recorder_answers_as_its_law_and_its_file_answers_as_it_did);
    tcase_add_test(kept, each_opening_is_a_recording_in_the_order_of_openings_and_rows_are_counted);
    tcase_add_test(kept, nothing_recorded_is_no_file_and_a_second_backend_is_refused);
    tcase_add_test(kept, sets_of_any_size_are_no_recording);
    tcase_add_test(kept, a_stream_that_begins_before_its_first_row_is_refused);
    tcase_add_test(kept, every_allocation_that_fails_is_told_and_nothing_is_left);
    suite_add_tcase(suite, kept);
    TCase *read = tcase_create("own");
    tcase_set_timeout(read, 60);
    tcase_add_checked_fixture(read, folder_make, folder_remove);
    tcase_add_test(read, a_request_a_context_or_a_selector_that_is_not_there_is_refused);
    tcase_add_test(read, who_reads_past_the_end_is_named_behind_the_step_and_the_first_of_several);
    tcase_add_test(read, a_selector_that_was_not_followed_is_told_from_one_that_ended);
    tcase_add_test(read, a_stream_that_looks_ahead_is_not_recorded_and_sees_nothing_behind_the_end);
    tcase_add_test(read, the_second_opening_of_a_request_reads_its_second_recording);
    tcase_add_loop_test(read, a_note_that_does_not_say_whose_recordings_are_is_refused, 0, 10);
    suite_add_tcase(suite, read);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
