/* fuzz_policies.c -- policies, laws and methods of the tables, driven by calls made of input bytes.
 *
 *     byte 0: the kind; byte 1: the entry of its table
 *     bytes 2 and 3, of policies: a parameter, and where between its ends it is; 0: all by default
 *     the rest: every draw of a play (sim/cli/contract/contract.h), until there are no more
 *
 * A broken contract ends the process, as whatever a sanitizer finds does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/contract/contract.h"

enum {
    CALLS_MAX = 600,
    HEAD_BYTES = 4
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

static const enum kvt_plugin_kind kinds[] = {KVT_PLUGIN_REPLACEMENT, KVT_PLUGIN_RESIDENCY,
                                             KVT_PLUGIN_SCHEDULING,  KVT_PLUGIN_ROUTER,
                                             KVT_PLUGIN_SPECULATION, KVT_PLUGIN_LAW};

/* Numbers, truths and choices; what a law or a method prepares may grow with its own. */
static void set_param(struct contract_play *play, struct kvt_param_value *values, uint8_t which,
                      uint8_t share)
{
    const struct kvt_plugin_info *info = play->info;
    bool is_policy = play->kind != KVT_PLUGIN_LAW && play->kind != KVT_PLUGIN_SPECULATION;

    if (which == 0 || info->param_count == 0 || !is_policy)
        return;
    size_t at = which % info->param_count;
    const struct kvt_param_spec *spec = &info->params[at];
    double range = spec->maximum - spec->minimum;
    memcpy(values, play->params.values, info->param_count * sizeof *values);
    switch (spec->type) {
    case KVT_PARAM_REAL:
        values[at].number = spec->minimum + range * share / 255;
        break;
    case KVT_PARAM_COUNT:
        values[at].number = spec->minimum + (double)(uint64_t)(range * share / 255);
        break;
    case KVT_PARAM_BOOL:
        values[at].number = share % 2;
        break;
    case KVT_PARAM_CHOICE: {
        size_t choices = 1;
        for (const char *c = spec->choices; *c != '\0'; c++)
            choices += *c == '|';
        values[at].number = (double)(share % choices);
        break;
    }
    default:
        return;
    }
    play->params.values = values;
}

static void play_input(const uint8_t *bytes, size_t byte_count, struct kvt_arena *arena)
{
    enum kvt_plugin_kind kind = kinds[bytes[0] % (sizeof kinds / sizeof kinds[0])];
    struct kvt_param_value values[64];
    struct contract_note note = {.function = ""};
    struct contract_play play;
    struct kvt_error err = {.status = KVT_OK};
    const char *missing = NULL;
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(NULL, kind, &count);
    const struct kvt_plugin_info *info = list[bytes[1] % count];

    if (info->param_count > sizeof values / sizeof values[0] ||
        contract_play_init(&play, kind, info, 0, &note, arena, &missing, &err) != KVT_OK ||
        missing != NULL)
        return;
    set_param(&play, values, bytes[2], bytes[3]);
    play.calls = CALLS_MAX;
    play.draws.bytes = bytes + HEAD_BYTES;
    play.draws.byte_count = byte_count - HEAD_BYTES;
    if (contract_play(&play, &err) != KVT_ERR_POLICY)
        return;
    (void)fprintf(stderr, "%s %s: %s\n", kvt_plugin_kind_name(kind), err.where, err.message);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    if (byte_count <= HEAD_BYTES)
        return 0;
    struct kvt_arena *arena = kvt_arena_new(0);
    if (arena != NULL)
        play_input(bytes, byte_count, arena);
    kvt_arena_free(arena);
    return 0;
}
