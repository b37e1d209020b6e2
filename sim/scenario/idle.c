/* idle.c -- what has no effect, for what is said elsewhere, and whether somebody asked for it.
 *
 *     said by nobody, or by an earlier file than what took its effect away: it goes
 *     said beside it or later:                                             refused
 *
 * A scenario that changes the policy of the one it extends need not know what that one said of the
 * old policy. The settings of a command line count as one: none of them goes without a word. Until
 * the tree is bound its default stands in its place, so that binding finds every value; then it
 * leaves the tree in force. */
#include <stdio.h>
#include <string.h>

#include "load.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

/* When a layer spoke: 0 for defaults, files in their order, then the command line. */
static size_t turn_of(const struct kvt_load *load, const struct kvt_layer *layer)
{
    if (layer->kind == KVT_LAYER_SET)
        return KVT_LAYERS_MAX + 1;
    for (size_t i = 0; i < load->layer_count; i++) {
        if (load->layers[i] == layer)
            return i + 1;
    }
    return 0;
}

/* The place of the first value at or below node that was given in the turn `least` or later. */
static bool find_given(struct kvt_load *load, const cJSON *node, const struct kvt_at *at,
                       size_t least, char place[KVT_PLACE_BYTES])
{
    unsigned index = 0;

    if (node->child == NULL) {
        const struct kvt_at given = {.up = at->up, .name = at->name, .layer = kvt_tree_layer(node)};
        size_t turn = turn_of(load, given.layer);
        if (turn == 0 || turn < least)
            return false;
        if (given.layer->kind == KVT_LAYER_SET && given.layer->set < load->options->common_sets) {
            load->idle_sets |= UINT64_C(1) << given.layer->set;
            return false;
        }
        (void)kvt_at_place(&given, place);
        return true;
    }
    for (const cJSON *item = node->child; item != NULL; item = item->next) {
        char name[16];
        (void)snprintf(name, sizeof name, "%u", index++);
        const struct kvt_at item_at = kvt_at_member(at, item->string != NULL ? item->string : name);
        if (find_given(load, item, &item_at, least, place))
            return true;
    }
    return false;
}

bool kvt_find_given(struct kvt_load *load, const cJSON *node, const struct kvt_at *at,
                    const struct kvt_layer *since, char place[KVT_PLACE_BYTES])
{
    return find_given(load, node, at, turn_of(load, since), place);
}

static kvt_status forget_later(struct kvt_load *load, cJSON *object, const char *name,
                               struct kvt_error *err)
{
    struct kvt_idle_value *idle =
        kvt_arena_alloc(load->arena, sizeof *idle, _Alignof(struct kvt_idle_value));

    if (idle == NULL)
        return kvt_fail_nomem(err, "a scenario");
    *idle = (struct kvt_idle_value){.object = object, .name = name, .next = load->idle};
    load->idle = idle;
    return KVT_OK;
}

void kvt_tree_forget_idle(struct kvt_load *load)
{
    for (const struct kvt_idle_value *idle = load->idle; idle != NULL; idle = idle->next)
        kvt_tree_remove(idle->object, idle->name);
    load->idle = NULL;
}

/* ---- Causes ---------------------------------------------------------------------------- */

static bool takes_effect_away(const struct kvt_idle *idle, const cJSON *cause)
{
    if (cause == NULL)
        return false; /* a key under a switch, which is off */
    if (cJSON_IsString(cause))
        return idle->values != NULL && kvt_choice_index(idle->values, cause->valuestring) >= 0;
    double number = cause->valuedouble;
    if (cJSON_IsBool(cause))
        number = cJSON_IsTrue(cause);
    else if (cJSON_IsArray(cause))
        number = cJSON_GetArraySize(cause);
    return idle->values == NULL && number >= idle->from && number <= idle->to;
}

/* The first of idle[] that holds for a member of object, with its cause; NULL when none does. */
static const struct kvt_idle *find_idle(const struct kvt_load *load, const cJSON *object,
                                        const struct kvt_idle *idle, const cJSON **cause)
{
    for (size_t i = 0; idle != NULL && i < KVT_IDLE_MAX && idle[i].beside != NULL; i++) {
        *cause = strchr(idle[i].beside, '.') != NULL ? kvt_tree_at(load->tree, idle[i].beside)
                                                     : kvt_tree_find(object, idle[i].beside);
        if (takes_effect_away(&idle[i], *cause))
            return &idle[i];
    }
    return NULL;
}

/* *found says whether what the key has is without effect. */
static kvt_status judge(struct kvt_load *load, const struct kvt_idle *rules,
                        const struct kvt_at *at, const cJSON *object, bool *found,
                        struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char value[KVT_DESCRIBED_BYTES];
    const cJSON *cause = NULL;
    const struct kvt_idle *idle = find_idle(load, object, rules, &cause);

    *found = idle != NULL;
    if (idle == NULL ||
        !kvt_find_given(load, kvt_tree_find(object, at->name), at, kvt_tree_layer(cause), place))
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, place, "%s has no effect while %s is %s; it takes %s",
                    at->name, idle->beside, kvt_value_describe(cause, value), idle->cure);
}

kvt_status kvt_idle_member(struct kvt_load *load, const struct kvt_key *member,
                           const struct kvt_at *at, cJSON *object, struct kvt_error *err)
{
    bool is_idle = false;
    kvt_status status = judge(load, member->idle, at, object, &is_idle, err);

    if (status == KVT_OK && is_idle)
        status = kvt_default_member(load, member, object, err);
    return status == KVT_OK && is_idle ? forget_later(load, object, member->name, err) : status;
}

kvt_status kvt_idle_param(struct kvt_load *load, const struct kvt_param_spec *spec,
                          const struct kvt_at *at, cJSON *object, struct kvt_error *err)
{
    bool is_idle = false;
    cJSON *param = NULL;
    kvt_status status = judge(load, spec->idle, at, object, &is_idle, err);

    if (status == KVT_OK && is_idle)
        status = kvt_default_param(load->arena, &load->defaults, spec, &param, err);
    if (status != KVT_OK || !is_idle)
        return status;
    kvt_tree_set(object, spec->name, param);
    return forget_later(load, object, spec->name, err);
}

/* NOLINTEND(misc-no-recursion) */
