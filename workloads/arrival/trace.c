/* trace.c -- requests as a trace file has them.
 *
 *     poll:  the file's next rows whose time has come: those that follow a turn which has not
 *            ended for long enough are held, the first other one arrives
 *            one that was held and is due by then arrives before it
 *
 * The file is scanned once at the start, which finds everything that can be wrong
 * with it, and streamed again during the run (workloads/trace). */
#include <stdlib.h>

#include "kvt/workload.h"
#include "turns.h"

enum {
    PARAM_PATH = 0,
    PARAM_FORMAT,
    PARAM_RATE_SCALE,
    PARAM_WINDOW
};

struct replay {
    struct kvt_trace *trace;
    struct kvt_turns *turns;      /* NULL: no request of the file waits for another */
    struct kvt_request_spec next; /* while has_next; not yet offered to turns */
    bool has_next;
    bool is_given; /* next has arrived: what it borrows is in use until the next call */
};

static void replay_close(void *source)
{
    struct replay *replay = source;
    if (replay == NULL)
        return;
    kvt_trace_close(replay->trace);
    kvt_turns_free(replay->turns);
    free(replay);
}

static kvt_status replay_open(const struct kvt_arrival_env *env, void **out, struct kvt_error *err)
{
    const struct kvt_param_value *values = env->params.values;
    struct kvt_trace_options options = {
        .path = values[PARAM_PATH].text,
        .format = values[PARAM_FORMAT].text,
        .rate_scale = values[PARAM_RATE_SCALE].number,
        .run_seed = env->run_seed,
        .slo_classes = env->slo_classes,
        .slo_class_count = env->slo_class_count,
        .tasks = env->tasks,
        .task_count = env->task_count,
        .page_keys = true,
    };
    kvt_status status = kvt_trace_parse_window(values[PARAM_WINDOW].text, "window",
                                               &options.window_from_s, &options.window_to_s, err);
    if (status != KVT_OK)
        return status;
    struct replay *replay = calloc(1, sizeof *replay);
    if (replay == NULL)
        return kvt_fail_nomem(err, "a trace");
    status = kvt_trace_open(&options, &replay->trace, err);
    if (status == KVT_OK && kvt_trace_has_followers(replay->trace)) {
        replay->turns = kvt_turns_new();
        if (replay->turns == NULL)
            status = kvt_fail_nomem(err, "the turns of a trace");
    }
    if (status == KVT_OK)
        status = kvt_trace_next(replay->trace, &replay->next, &replay->has_next, err);
    if (status != KVT_OK) {
        replay_close(replay);
        return status;
    }
    *out = replay;
    return KVT_OK;
}

/* When something can arrive at the earliest: a held one, or the file's next; KVT_NS_NEVER. */
static kvt_ns next_ns(const struct replay *replay, bool *is_held)
{
    kvt_ns held_ns = replay->turns != NULL ? kvt_turns_due_ns(replay->turns) : KVT_NS_NEVER;
    *is_held = held_ns != KVT_NS_NEVER && (!replay->has_next || held_ns <= replay->next.arrival_ns);
    if (*is_held)
        return held_ns;
    return replay->has_next ? replay->next.arrival_ns : KVT_NS_NEVER;
}

/* Gives or holds what comes next, whose time has come. */
static kvt_status pass_on(struct replay *replay, bool is_held, enum kvt_arrival_answer *answer,
                          struct kvt_request_spec *spec, struct kvt_error *err)
{
    *answer = KVT_ARRIVAL_NOW;
    if (is_held) {
        kvt_turns_take(replay->turns, spec);
        return KVT_OK;
    }
    bool waits = false;
    kvt_status status = KVT_OK;
    replay->next.tag = KVT_TURNS_NO_TAG;
    if (replay->turns != NULL && replay->next.session != UINT64_MAX)
        status = kvt_turns_offer(replay->turns, &replay->next, &waits, err);
    if (status != KVT_OK)
        return status;
    if (waits) {
        *answer = KVT_ARRIVAL_WAIT;
        return kvt_trace_next(replay->trace, &replay->next, &replay->has_next, err);
    }
    replay->is_given = true;
    *spec = replay->next;
    return KVT_OK;
}

static kvt_status replay_poll(void *source, kvt_ns now_ns, uint64_t in_flight,
                              enum kvt_arrival_answer *answer, struct kvt_request_spec *spec,
                              kvt_ns *due_ns, struct kvt_error *err)
{
    struct replay *replay = source;
    kvt_status status = KVT_OK;
    (void)in_flight;
    if (replay->is_given) {
        replay->is_given = false;
        status = kvt_trace_next(replay->trace, &replay->next, &replay->has_next, err);
    }
    while (status == KVT_OK) {
        bool is_held = false;
        kvt_ns first_ns = next_ns(replay, &is_held);
        if (first_ns == KVT_NS_NEVER) {
            bool is_over = replay->turns == NULL || kvt_turns_held(replay->turns) == 0;
            *answer = is_over ? KVT_ARRIVAL_END : KVT_ARRIVAL_WAIT;
            return KVT_OK;
        }
        if (first_ns > now_ns) {
            *answer = KVT_ARRIVAL_LATER;
            *due_ns = first_ns;
            return KVT_OK;
        }
        status = pass_on(replay, is_held, answer, spec, err);
        if (status == KVT_OK && *answer == KVT_ARRIVAL_NOW)
            return KVT_OK;
    }
    return status;
}

static void replay_on_finished(void *source, uint64_t tag, bool is_completed, kvt_ns now_ns)
{
    struct replay *replay = source;
    (void)is_completed; /* dropped or not, the next turn has nobody left to wait for */
    if (tag != KVT_TURNS_NO_TAG)
        kvt_turns_end(replay->turns, tag, now_ns);
}

static uint32_t replay_phase_count(const void *source)
{
    (void)source;
    return 1;
}

static uint32_t replay_phase_at(const void *source, kvt_ns now_ns)
{
    (void)source;
    (void)now_ns;
    return 0;
}

static kvt_ns replay_end_ns(const void *source)
{
    (void)source;
    return KVT_NS_NEVER;
}

static uint64_t replay_first_wave(const void *source)
{
    (void)source;
    return 0;
}

static const struct kvt_trace_account *replay_account(const void *source)
{
    const struct replay *replay = source;
    return kvt_trace_account_of(replay->trace);
}

static uint64_t replay_expected(const void *source)
{
    return replay_account(source)->requests;
}

static void replay_extent(const void *source, uint32_t *longest_tokens, uint32_t *output_tokens,
                          uint32_t *inputs, size_t *input_count)
{
    const struct replay *replay = source;
    kvt_trace_extent(replay->trace, longest_tokens, output_tokens, inputs, input_count);
}

static const struct kvt_param_spec replay_params[] = {
    [PARAM_PATH] = {.name = "path",
                    .help = "the trace file",
                    .type = KVT_PARAM_TEXT,
                    .minimum = 1,
                    .maximum = 4096},
    [PARAM_FORMAT] =
        {.name = "format",
         .help = "the file's format; auto: by its content",
         .type = KVT_PARAM_CHOICE,
         .default_text = "auto",
         .choices =
             "auto|kvtide|qwen-bailian|ragpulse|mooncake|aiperf|weka|guidellm|blis|azure|burstgpt|"
             "servegen|llmservingsim-agentic|llmservingsim|vidur|splitwise|vllm|sglang|apex|csv|"
             "jsonl"},
    [PARAM_RATE_SCALE] = {.name = "rate_scale",
                          .help = "how many times faster than recorded requests come",
                          .type = KVT_PARAM_REAL,
                          .minimum = 1e-6,
                          .maximum = 1e6,
                          .default_number = 1},
    [PARAM_WINDOW] = {.name = "window",
                      .help = "part of the file's time to use, FROM:TO in seconds after its first "
                              "arrival; empty: all",
                      .type = KVT_PARAM_TEXT,
                      .minimum = 0,
                      .maximum = 64,
                      .default_text = ""},
};

const struct kvt_arrival kvt_arrival_trace = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_arrival_trace,
             .name = "trace",
             .summary = "requests as a trace file has them",
             .params = replay_params,
             .param_count = sizeof replay_params / sizeof replay_params[0]},
    .uses_lengths = false,
    .closed_loop = false,
    .open = replay_open,
    .close = replay_close,
    .poll = replay_poll,
    .phase_count = replay_phase_count,
    .phase_at = replay_phase_at,
    .end_ns = replay_end_ns,
    .first_wave = replay_first_wave,
    .expected = replay_expected,
    .extent = replay_extent,
    .account = replay_account,
    .on_finished = replay_on_finished,
};
