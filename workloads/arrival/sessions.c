/* sessions.c -- a closed loop of conversations.
 *
 *     so many conversations at once; each is a line of turns:
 *     turn 0:      a prompt of new_tokens[0], of which shared_prefix_tokens are everybody's
 *     turn t + 1:  think_s after turn t has finished; its prompt is all of turn t, prompt and
 *                  answer, and new_tokens[t + 1] more
 *     the last turn has finished, or one was dropped: the next conversation begins at once
 *
 * As agents and chats load a server: what is asked next depends on when the last answer came, and
 * repeats everything before it. Lengths and thinking times are drawn from streams of the turn's
 * own, so that they do not depend on the order in which turns end. */
#include <math.h>
#include <stdlib.h>

#include "kvt/clock.h"
#include "kvt/page_keys.h"
#include "kvt/workload.h"

enum {
    PARAM_CONCURRENCY = 0,
    PARAM_CONVERSATIONS,
    PARAM_TURNS,
    PARAM_NEW_TOKENS,
    PARAM_OUTPUT_TOKENS,
    PARAM_LENGTH_SPREAD,
    PARAM_SHARED_PREFIX_TOKENS,
    PARAM_THINK_S,
    PARAM_THINK_LAW
};

enum think_law {
    THINK_FIXED = 0,
    THINK_EXPONENTIAL
};

/* A conversation under way: its next turn, or the one that runs. */
struct place {
    uint64_t session;
    uint32_t turn;
    uint32_t context_tokens; /* of the turns before, prompt and answer */
    kvt_ns due_ns, think_ns;
};

struct sessions {
    uint64_t run_seed;
    uint32_t concurrency, turns, shared_prefix_tokens;
    uint64_t conversations; /* 0: no end */
    double spread_fraction, think_s;
    enum think_law think_law;
    uint32_t *new_tokens, *output_tokens; /* [turns] means */
    struct place *places;                 /* [concurrency] */
    uint32_t *due;                        /* heap [due_count] of places by (due_ns, place) */
    uint32_t due_count, running;
    uint64_t begun; /* conversations */
    struct kvt_page_keys keys;
};

/* ---- Turns in order of time ------------------------------------------------------------ */

static bool is_before(const struct sessions *sessions, uint32_t a, uint32_t b)
{
    kvt_ns a_ns = sessions->places[a].due_ns;
    kvt_ns b_ns = sessions->places[b].due_ns;
    return a_ns != b_ns ? a_ns < b_ns : a < b;
}

static void push_due(struct sessions *sessions, uint32_t place)
{
    uint32_t at = sessions->due_count++;
    while (at > 0 && is_before(sessions, place, sessions->due[(at - 1) / 2])) {
        sessions->due[at] = sessions->due[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sessions->due[at] = place;
}

static uint32_t pop_due(struct sessions *sessions)
{
    uint32_t first = sessions->due[0];
    uint32_t last = sessions->due[--sessions->due_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= sessions->due_count)
            break;
        if (child + 1 < sessions->due_count &&
            is_before(sessions, sessions->due[child + 1], sessions->due[child]))
            child++;
        if (!is_before(sessions, sessions->due[child], last))
            break;
        sessions->due[at] = sessions->due[child];
        at = child;
    }
    sessions->due[at] = last;
    return first;
}

/* ---- Lengths and thinking times ---------------------------------------------------------- */

static uint32_t least_of(const struct sessions *sessions, uint32_t mean_tokens)
{
    double least = ceil(mean_tokens * (1 - sessions->spread_fraction));
    return least > 1 ? (uint32_t)least : 1;
}

static uint32_t most_of(const struct sessions *sessions, uint32_t mean_tokens)
{
    return (uint32_t)floor(mean_tokens * (1 + sessions->spread_fraction));
}

static uint64_t entity_of(const struct sessions *sessions, const struct place *place)
{
    return place->session * sessions->turns + place->turn;
}

/* Two streams a turn, so that other prompts leave the answers alone. */
static uint32_t draw_length(const struct sessions *sessions, uint32_t mean_tokens, uint64_t stream)
{
    uint32_t least = least_of(sessions, mean_tokens);
    uint32_t most = most_of(sessions, mean_tokens);
    struct kvt_rng rng = kvt_rng_stream(sessions->run_seed, KVT_RNG_LENGTH, stream);
    return least + (uint32_t)kvt_rng_below(&rng, (uint64_t)most - least + 1);
}

static kvt_ns draw_think_ns(const struct sessions *sessions, const struct place *place)
{
    double seconds = sessions->think_s;
    if (sessions->think_law == THINK_EXPONENTIAL) {
        struct kvt_rng rng =
            kvt_rng_stream(sessions->run_seed, KVT_RNG_ARRIVAL, entity_of(sessions, place));
        seconds = kvt_rng_exponential(&rng, sessions->think_s);
    }
    kvt_ns think_ns = 0;
    return kvt_ns_from_seconds(seconds, &think_ns) ? think_ns : INT64_MAX / 2;
}

static bool begin_conversation(struct sessions *sessions, uint32_t at, kvt_ns now_ns)
{
    if (sessions->conversations > 0 && sessions->begun == sessions->conversations)
        return false;
    sessions->places[at] = (struct place){.session = sessions->begun++, .due_ns = now_ns};
    push_due(sessions, at);
    return true;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static void sessions_close(void *source)
{
    struct sessions *sessions = source;
    if (sessions == NULL)
        return;
    free(sessions->new_tokens);
    free(sessions->output_tokens);
    free(sessions->places);
    free(sessions->due);
    kvt_page_keys_free(&sessions->keys);
    free(sessions);
}

/* One figure a turn; the last of the list stands for all later ones. */
static kvt_status spell_out(const char *name, const struct kvt_param_value *value, uint32_t turns,
                            uint32_t *out, struct kvt_error *err)
{
    if (value->list_length == 0 || value->list_length > turns)
        return kvt_fail(err, KVT_ERR_INVALID, name,
                        "%zu lengths for %u turns; from one to one a turn are taken, the last "
                        "standing for all later turns",
                        value->list_length, turns);
    for (uint32_t turn = 0; turn < turns; turn++) {
        size_t at = turn < value->list_length ? turn : value->list_length - 1;
        double tokens = value->list[at];
        if (floor(tokens) != tokens)
            return kvt_fail(err, KVT_ERR_INVALID, name, "%g is not a whole number of tokens",
                            tokens);
        out[turn] = (uint32_t)tokens;
    }
    return KVT_OK;
}

/* The longest prompt and answer of each turn, summed up to the last. */
static uint64_t longest_of(const struct sessions *sessions)
{
    uint64_t longest_tokens = 0;
    for (uint32_t turn = 0; turn < sessions->turns; turn++)
        longest_tokens += (uint64_t)most_of(sessions, sessions->new_tokens[turn]) +
                          most_of(sessions, sessions->output_tokens[turn]);
    return longest_tokens;
}

static kvt_status check(const struct sessions *sessions, struct kvt_error *err)
{
    uint32_t least = least_of(sessions, sessions->new_tokens[0]);
    if (sessions->shared_prefix_tokens > least)
        return kvt_fail(err, KVT_ERR_INVALID, "shared_prefix_tokens",
                        "a shared prefix of %u tokens does not fit a first prompt of %u",
                        sessions->shared_prefix_tokens, least);
    if (sessions->think_s > 0 && sessions->turns == 1)
        return kvt_fail(err, KVT_ERR_INVALID, "think_s",
                        "%g s between turns, and a conversation has one turn; two or more are "
                        "expected",
                        sessions->think_s);
    if (sessions->think_law != THINK_FIXED && sessions->think_s == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "think_law",
                        "a law of thinking times about a mean of 0 s; think_s above 0 is expected");
    uint64_t longest_tokens = longest_of(sessions);
    if (longest_tokens > INT32_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, "turns",
                        "%u turns of these lengths make a conversation of %llu tokens; at most "
                        "%d are taken",
                        sessions->turns, (unsigned long long)longest_tokens, INT32_MAX);
    return KVT_OK;
}

static kvt_status fill(struct sessions *sessions, const struct kvt_param_value *values,
                       struct kvt_error *err)
{
    sessions->concurrency = (uint32_t)values[PARAM_CONCURRENCY].number;
    sessions->conversations = (uint64_t)values[PARAM_CONVERSATIONS].number;
    sessions->turns = (uint32_t)values[PARAM_TURNS].number;
    sessions->spread_fraction = values[PARAM_LENGTH_SPREAD].number;
    sessions->shared_prefix_tokens = (uint32_t)values[PARAM_SHARED_PREFIX_TOKENS].number;
    sessions->think_s = values[PARAM_THINK_S].number;
    sessions->think_law = (enum think_law)values[PARAM_THINK_LAW].number;
    sessions->new_tokens = calloc(sessions->turns, sizeof *sessions->new_tokens);
    sessions->output_tokens = calloc(sessions->turns, sizeof *sessions->output_tokens);
    sessions->places = calloc(sessions->concurrency, sizeof *sessions->places);
    sessions->due = calloc(sessions->concurrency, sizeof *sessions->due);
    if (sessions->new_tokens == NULL || sessions->output_tokens == NULL ||
        sessions->places == NULL || sessions->due == NULL)
        return kvt_fail_nomem(err, "a loop of conversations");
    kvt_status status = spell_out("new_tokens", &values[PARAM_NEW_TOKENS], sessions->turns,
                                  sessions->new_tokens, err);
    if (status == KVT_OK)
        status = spell_out("output_tokens", &values[PARAM_OUTPUT_TOKENS], sessions->turns,
                           sessions->output_tokens, err);
    return status == KVT_OK ? check(sessions, err) : status;
}

static kvt_status sessions_open(const struct kvt_arrival_env *env, void **out,
                                struct kvt_error *err)
{
    struct sessions *sessions = calloc(1, sizeof *sessions);
    if (sessions == NULL)
        return kvt_fail_nomem(err, "a loop of conversations");
    sessions->run_seed = env->run_seed;
    kvt_status status = fill(sessions, env->params.values, err);
    if (status != KVT_OK) {
        sessions_close(sessions);
        return status;
    }
    for (uint32_t at = 0; at < sessions->concurrency; at++) {
        if (!begin_conversation(sessions, at, 0))
            break;
    }
    *out = sessions;
    return KVT_OK;
}

/* ---- Running -------------------------------------------------------------------------------- */

static kvt_status give_turn(struct sessions *sessions, uint32_t at, struct kvt_request_spec *spec,
                            struct kvt_error *err)
{
    struct place *place = &sessions->places[at];
    uint64_t stream = 2 * entity_of(sessions, place);
    uint32_t shared_tokens = sessions->shared_prefix_tokens;
    uint32_t input_tokens =
        place->context_tokens + draw_length(sessions, sessions->new_tokens[place->turn], stream);
    uint32_t output_tokens =
        draw_length(sessions, sessions->output_tokens[place->turn], stream + 1);
    place->context_tokens = input_tokens + output_tokens;
    kvt_status status = kvt_page_keys_begin(&sessions->keys, place->context_tokens, err);
    if (status != KVT_OK)
        return status;
    kvt_page_keys_run(&sessions->keys, kvt_content(KVT_CONTENT_GROUP, 0), shared_tokens);
    kvt_page_keys_run(&sessions->keys, kvt_content(KVT_CONTENT_SESSION, place->session),
                      place->context_tokens - shared_tokens);
    *spec = (struct kvt_request_spec){
        .arrival_ns = place->due_ns,
        .input_tokens = input_tokens,
        .output_tokens = output_tokens,
        .session = place->session,
        .turn = place->turn,
        .prefix_tokens = shared_tokens,
        .follows = place->turn > 0,
        .think_ns = place->think_ns,
        .page_keys = sessions->keys.keys,
        .page_key_count = sessions->keys.count,
        .tag = at,
    };
    return KVT_OK;
}

static kvt_status sessions_poll(void *source, kvt_ns now_ns, uint64_t in_flight,
                                enum kvt_arrival_answer *answer, struct kvt_request_spec *spec,
                                kvt_ns *due_ns, struct kvt_error *err)
{
    struct sessions *sessions = source;
    (void)in_flight;
    if (sessions->due_count == 0) {
        *answer = sessions->running > 0 ? KVT_ARRIVAL_WAIT : KVT_ARRIVAL_END;
        return KVT_OK;
    }
    kvt_ns first_ns = sessions->places[sessions->due[0]].due_ns;
    if (first_ns > now_ns) {
        *answer = KVT_ARRIVAL_LATER;
        *due_ns = first_ns;
        return KVT_OK;
    }
    *answer = KVT_ARRIVAL_NOW;
    sessions->running++;
    return give_turn(sessions, pop_due(sessions), spec, err);
}

static void sessions_on_finished(void *source, uint64_t tag, bool is_completed, kvt_ns now_ns)
{
    struct sessions *sessions = source;
    struct place *place = &sessions->places[tag];
    sessions->running--;
    if (!is_completed || place->turn + 1 == sessions->turns) {
        (void)begin_conversation(sessions, (uint32_t)tag, now_ns);
        return;
    }
    place->turn++;
    place->think_ns = draw_think_ns(sessions, place);
    place->due_ns = place->think_ns < INT64_MAX - now_ns ? now_ns + place->think_ns : INT64_MAX;
    push_due(sessions, (uint32_t)tag);
}

static uint32_t sessions_phase_count(const void *source)
{
    (void)source;
    return 1;
}

static uint32_t sessions_phase_at(const void *source, kvt_ns now_ns)
{
    (void)source;
    (void)now_ns;
    return 0;
}

static kvt_ns sessions_end_ns(const void *source)
{
    (void)source;
    return KVT_NS_NEVER;
}

static uint64_t sessions_first_wave(const void *source)
{
    const struct sessions *sessions = source;
    bool is_short = sessions->conversations > 0 && sessions->conversations < sessions->concurrency;
    return is_short ? sessions->conversations : sessions->concurrency;
}

static uint64_t sessions_expected(const void *source)
{
    const struct sessions *sessions = source;
    return sessions->conversations * sessions->turns;
}

/* Prompts are few where lengths are fixed and turns are; they grow from turn to turn. */
static void sessions_extent(const void *source, uint32_t *longest_tokens, uint32_t *output_tokens,
                            uint32_t *inputs, size_t *input_count)
{
    const struct sessions *sessions = source;
    bool are_few = sessions->spread_fraction == 0 && sessions->turns <= *input_count;
    uint32_t context_tokens = 0;
    *longest_tokens = (uint32_t)longest_of(sessions);
    *output_tokens = 0;
    *input_count = are_few ? sessions->turns : 0;
    for (uint32_t turn = 0; turn < sessions->turns; turn++) {
        uint32_t most = most_of(sessions, sessions->output_tokens[turn]);
        if (most > *output_tokens)
            *output_tokens = most;
        context_tokens += sessions->new_tokens[turn];
        if (are_few)
            inputs[turn] = context_tokens;
        context_tokens += sessions->output_tokens[turn];
    }
}

static const struct kvt_trace_account *sessions_account(const void *source)
{
    (void)source;
    return NULL;
}

static const struct kvt_param_spec sessions_params[] = {
    [PARAM_CONCURRENCY] = {.name = "concurrency",
                           .help = "conversations at once",
                           .type = KVT_PARAM_COUNT,
                           .minimum = 1,
                           .maximum = 1e6,
                           .default_number = 16},
    [PARAM_CONVERSATIONS] = {.name = "conversations",
                             .help = "conversations in all; 0: as many as run.duration_s allows",
                             .type = KVT_PARAM_COUNT,
                             .minimum = 0,
                             .maximum = 1e9,
                             .default_number = 0},
    [PARAM_TURNS] = {.name = "turns",
                     .help = "requests of a conversation, one after the other",
                     .type = KVT_PARAM_COUNT,
                     .minimum = 1,
                     .maximum = 1e5,
                     .default_number = 8},
    [PARAM_NEW_TOKENS] = {.name = "new_tokens",
                          .help = "tokens that each turn adds to the prompt, beside the answer "
                                  "before it: first turn, second, ...; the last stands for all "
                                  "later ones",
                          .type = KVT_PARAM_LIST,
                          .minimum = 1,
                          .maximum = 1e9,
                          .default_text = "[8192, 1024]"},
    [PARAM_OUTPUT_TOKENS] = {.name = "output_tokens",
                             .help = "tokens of each turn's answer, as new_tokens",
                             .type = KVT_PARAM_LIST,
                             .minimum = 1,
                             .maximum = 1e9,
                             .default_text = "[256]"},
    [PARAM_LENGTH_SPREAD] = {.name = "length_spread_fraction",
                             .help = "new_tokens and output_tokens are uniform within this share "
                                     "of their figure",
                             .type = KVT_PARAM_REAL,
                             .minimum = 0,
                             .maximum = 1,
                             .default_number = 0},
    [PARAM_SHARED_PREFIX_TOKENS] = {.name = "shared_prefix_tokens",
                                    .help = "the first so many tokens are the same in all "
                                            "conversations",
                                    .type = KVT_PARAM_COUNT,
                                    .minimum = 0,
                                    .maximum = 1e9,
                                    .default_number = 0},
    [PARAM_THINK_S] = {.name = "think_s",
                       .help = "seconds from the end of a turn to the next one, on average",
                       .type = KVT_PARAM_REAL,
                       .minimum = 0,
                       .maximum = 1e6,
                       .default_number = 0},
    [PARAM_THINK_LAW] = {.name = "think_law",
                         .idle = {{.beside = "think_s", .cure = "a think_s above 0"}},
                         .help = "how those seconds vary",
                         .type = KVT_PARAM_CHOICE,
                         .default_text = "fixed",
                         .choices = "fixed|exponential"},
};

const struct kvt_arrival kvt_arrival_sessions = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_arrival_sessions,
             .name = "sessions",
             .summary = "conversations: each turn follows the one before and repeats all of it",
             .params = sessions_params,
             .param_count = sizeof sessions_params / sizeof sessions_params[0]},
    .uses_lengths = false,
    .closed_loop = true,
    .open = sessions_open,
    .close = sessions_close,
    .poll = sessions_poll,
    .phase_count = sessions_phase_count,
    .phase_at = sessions_phase_at,
    .end_ns = sessions_end_ns,
    .first_wave = sessions_first_wave,
    .expected = sessions_expected,
    .extent = sessions_extent,
    .account = sessions_account,
    .on_finished = sessions_on_finished,
    .most_in_flight = sessions_first_wave,
};
