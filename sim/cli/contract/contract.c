/* contract.c -- what the drivers of all kinds share: draws, states with a canary, sentences. */
#include "contract.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "kvt/plugins.h"

enum {
    CANARY_BYTES = 64,
    CANARY = 0xa5,
    STATE_BYTES_MAX = 1 << 30
};

/* ---- Draws ---------------------------------------------------------------------------- */

/* As many bytes as the bound has, so that a byte of input changes one draw. */
static uint64_t draw_bytes(struct contract_draws *draws, uint64_t bound)
{
    uint64_t value = 0;

    for (uint64_t left = bound - 1; left > 0; left >>= 8) {
        if (draws->byte_count == 0) {
            draws->ended = true;
            return 0;
        }
        value = value << 8 | *draws->bytes++;
        draws->byte_count--;
    }
    return value % bound;
}

uint32_t contract_draw(struct contract_draws *draws, uint64_t bound)
{
    return (uint32_t)(draws->bytes != NULL ? draw_bytes(draws, bound)
                                           : kvt_rng_below(&draws->rng, bound));
}

uint32_t contract_draw_from(struct contract_draws *draws, uint32_t least, uint32_t most)
{
    return least + contract_draw(draws, (uint64_t)most - least + 1);
}

bool contract_chance(struct contract_draws *draws, uint32_t percent)
{
    return contract_draw(draws, 100) < percent;
}

bool contract_goes_on(const struct contract_play *play, uint64_t first_call)
{
    return !play->draws.ended && play->note->calls - first_call < play->calls;
}

/* ---- States --------------------------------------------------------------------------- */

kvt_status contract_state_new(const struct contract_play *play, size_t byte_count,
                              struct contract_state *out, struct kvt_error *err)
{
    *out = (struct contract_state){.byte_count = byte_count};
    if (byte_count > STATE_BYTES_MAX)
        return contract_broken(play, err, "at most 1 GiB", "its state takes %zu bytes", byte_count);
    out->bytes = calloc(1, byte_count + CANARY_BYTES);
    if (out->bytes == NULL)
        return kvt_fail_nomem(err, "a plug-in's state");
    memset(out->bytes + byte_count, CANARY, CANARY_BYTES);
    return KVT_OK;
}

void contract_state_free(struct contract_state *state)
{
    free(state->bytes);
    free(state->attic);
    *state = (struct contract_state){.bytes = NULL};
}

kvt_status contract_state_move(struct contract_state *state, struct kvt_error *err)
{
    unsigned char *bytes = malloc(state->byte_count + CANARY_BYTES);

    if (bytes == NULL)
        return kvt_fail_nomem(err, "a plug-in's state");
    memcpy(bytes, state->bytes, state->byte_count + CANARY_BYTES);
    /* Kept, so that a pointer into it reads what is wrong and not what is nowhere. */
    memset(state->bytes, CANARY, state->byte_count);
    free(state->attic);
    state->attic = state->bytes;
    state->bytes = bytes;
    return KVT_OK;
}

kvt_status contract_state_check(const struct contract_play *play,
                                const struct contract_state *state, struct kvt_error *err)
{
    for (size_t i = 0; i < CANARY_BYTES; i++) {
        if (state->bytes[state->byte_count + i] != CANARY)
            return contract_broken(play, err, "a state stays within its bytes",
                                   "%s() wrote behind its state of %zu bytes, at byte %zu",
                                   play->note->function, state->byte_count, state->byte_count + i);
    }
    return KVT_OK;
}

/* ---- Sentences ------------------------------------------------------------------------ */

kvt_status contract_broken(const struct contract_play *play, struct kvt_error *err,
                           const char *contract, const char *fmt, ...)
{
    char found[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(found, sizeof found, fmt, args);
    va_end(args);
    return kvt_fail(err, KVT_ERR_POLICY, play->info->name, "%s; contract: %s", found, contract);
}

kvt_status contract_differs(const struct contract_play *play, enum contract_role role,
                            const char *function, struct kvt_error *err)
{
    if (role == CONTRACT_MOVED)
        return contract_broken(
            play, err, "a copy of the bytes is a copy of the policy, no pointers lie within",
            "%s() answers otherwise after its state was copied to another place", function);
    if (role == CONTRACT_OTHER && play->kind == KVT_PLUGIN_REPLACEMENT)
        return contract_broken(play, err, "every level of the processor gives the same answers",
                               "%s() answers otherwise where cpu is plain", function);
    if (role == CONTRACT_OTHER && play->kind == KVT_PLUGIN_RESIDENCY)
        return contract_broken(
            play, err, "never the future without the parameter " KVT_CLAIRVOYANT,
            "%s() answers otherwise where future_output_tokens is there: it reads the future",
            function);
    return contract_broken(
        play, err, "equal calls get equal answers; nothing is kept but in the state",
        "%s() answers two instances otherwise that were asked the same", function);
}

/* ---- A play --------------------------------------------------------------------------- */

bool contract_sees_future(const struct contract_play *play)
{
    const struct kvt_choice choice = {.info = play->info, .params = play->params};

    return kvt_choice_has(&choice, KVT_CLAIRVOYANT);
}

kvt_status contract_play_init(struct contract_play *play, enum kvt_plugin_kind kind,
                              const struct kvt_plugin_info *info, uint64_t seed,
                              struct contract_note *note, struct kvt_arena *arena,
                              const char **missing, struct kvt_error *err)
{
    *play = (struct contract_play){.kind = kind,
                                   .info = info,
                                   .draws = {.rng = kvt_rng_stream(seed, KVT_RNG_TEST, 6)},
                                   .note = note};
    return kvt_plugin_defaults(info, cli_data_dir(), arena, &play->params, missing, err);
}

kvt_status contract_play(struct contract_play *play, struct kvt_error *err)
{
    switch (play->kind) {
    case KVT_PLUGIN_REPLACEMENT:
        return contract_play_replacement(play, err);
    case KVT_PLUGIN_RESIDENCY:
        return contract_play_residency(play, err);
    case KVT_PLUGIN_SCHEDULING:
        return contract_play_scheduling(play, err);
    case KVT_PLUGIN_ROUTER:
        return contract_play_router(play, err);
    case KVT_PLUGIN_LAW:
        return contract_play_law(play, err);
    case KVT_PLUGIN_SPECULATION:
        return contract_play_speculation(play, err);
    default:
        return KVT_OK;
    }
}
