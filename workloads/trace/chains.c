/* chains.c -- conversations out of parent links, as Qwen-Bailian writes them.
 *
 *     add(id, parent):
 *         parent = -1:            a first turn; its conversation is id
 *         parent known:           the parent's conversation, one turn later; its prompt begins
 *                                 with min(input, all of the parent) tokens of the parent
 *         parent not known (yet): a first turn, marked as an orphan
 *     keys(last): from its first ancestor down, of each what the next one repeats of it beyond
 *                 what it repeats itself, and then its own tokens
 *
 * Ancestors that add nothing to that are skipped when a chat is added, so that a walk up is never
 * longer than the prompt. A table of open addressing from ids to chats: linear probing, at
 * most half full, never shrunk. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "trace_file.h"

#define NONE UINT32_MAX

enum {
    CAPACITY_FIRST = 64
};

struct chat {
    uint64_t id;
    uint32_t root;          /* first chat of its conversation */
    uint32_t parent;        /* nearest ancestor with tokens of its own in the prompt, or NONE */
    uint32_t turn;          /* 0-based */
    uint32_t shared_tokens; /* the prompt's first so many are its ancestors' */
    uint32_t total_tokens;  /* prompt and answer */
};

struct kvt_trace_chains {
    struct chat *chats; /* [capacity] */
    uint32_t *table;    /* [2 * capacity], a power of two: chats by id, or NONE */
    uint32_t capacity, count;
    uint32_t *path; /* scratch [path_capacity]: from a chat up */
    uint32_t path_capacity;
};

struct kvt_trace_chains *kvt_trace_chains_new(void)
{
    return calloc(1, sizeof(struct kvt_trace_chains));
}

void kvt_trace_chains_free(struct kvt_trace_chains *chains)
{
    if (chains != NULL) {
        free(chains->chats);
        free(chains->table);
        free(chains->path);
    }
    free(chains);
}

/* The id's place, or the empty one where it belongs. */
static uint32_t *place_of(const struct kvt_trace_chains *chains, uint32_t *table, uint32_t capacity,
                          uint64_t id)
{
    uint32_t mask = 2 * capacity - 1;
    uint32_t i = (uint32_t)kvt_mix64(id + 1) & mask;
    while (table[i] != NONE && chains->chats[table[i]].id != id)
        i = (i + 1) & mask;
    return &table[i];
}

static kvt_status grow(struct kvt_trace_chains *chains, struct kvt_error *err)
{
    uint32_t capacity = chains->capacity > 0 ? 2 * chains->capacity : CAPACITY_FIRST;
    if (capacity > UINT32_MAX / 4)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "trace", "more than %" PRIu32 " chats",
                        chains->capacity);
    uint32_t *table = malloc(2 * (size_t)capacity * sizeof *table);
    struct chat *chats = realloc(chains->chats, capacity * sizeof *chats);
    if (chats != NULL)
        chains->chats = chats;
    if (table == NULL || chats == NULL) {
        free(table);
        return kvt_fail_nomem(err, "the conversations of a trace");
    }
    memset(table, 0xff, 2 * (size_t)capacity * sizeof *table);
    for (uint32_t i = 0; i < chains->count; i++)
        *place_of(chains, table, capacity, chats[i].id) = i;
    free(chains->table);
    chains->table = table;
    chains->capacity = capacity;
    return KVT_OK;
}

static uint32_t find(const struct kvt_trace_chains *chains, uint64_t id)
{
    return *place_of(chains, chains->table, chains->capacity, id);
}

/* A child of the chat at `parent`, which repeats as much of it as its prompt holds. */
static void join(const struct kvt_trace_chains *chains, uint32_t parent, uint32_t input_tokens,
                 struct chat *chat)
{
    const struct chat *chats = chains->chats;
    chat->root = chats[parent].root;
    chat->turn = chats[parent].turn + 1;
    chat->shared_tokens =
        input_tokens < chats[parent].total_tokens ? input_tokens : chats[parent].total_tokens;
    chat->parent = chat->shared_tokens > 0 ? parent : NONE;
    while (chat->parent != NONE && chats[chat->parent].shared_tokens >= chat->shared_tokens)
        chat->parent = chats[chat->parent].parent;
}

kvt_status kvt_trace_chains_add(struct kvt_trace_chains *chains, uint64_t chat_id,
                                int64_t parent_id, const struct kvt_trace_place *place,
                                struct kvt_trace_row *row, struct kvt_error *err)
{
    kvt_status status = chains->count == chains->capacity ? grow(chains, err) : KVT_OK;
    if (status != KVT_OK)
        return status;
    if (find(chains, chat_id) != NONE) {
        char where[256];
        kvt_trace_where(place, where);
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "chat %" PRIu64 " is already above; a chat_id names one request", chat_id);
    }
    struct chat *chat = &chains->chats[chains->count];
    *chat = (struct chat){.id = chat_id,
                          .root = chains->count,
                          .parent = NONE,
                          .total_tokens = row->input_tokens + row->output_tokens};
    uint32_t parent = parent_id >= 0 ? find(chains, (uint64_t)parent_id) : NONE;
    if (parent != NONE)
        join(chains, parent, row->input_tokens, chat);
    row->is_orphan = parent_id >= 0 && parent == NONE;
    row->session = chains->chats[chat->root].id;
    row->turn = chat->turn;
    *place_of(chains, chains->table, chains->capacity, chat_id) = chains->count;
    chains->count++;
    return KVT_OK;
}

/* Puts the chat added last and its ancestors into path, upwards. */
static kvt_status walk_up(struct kvt_trace_chains *chains, uint32_t *length, struct kvt_error *err)
{
    *length = 0;
    for (uint32_t i = chains->count - 1; i != NONE; i = chains->chats[i].parent) {
        if (*length == chains->path_capacity) {
            uint32_t capacity = chains->path_capacity > 0 ? 2 * chains->path_capacity : 16;
            uint32_t *path = realloc(chains->path, capacity * sizeof *path);
            if (path == NULL)
                return kvt_fail_nomem(err, "the turns of a conversation");
            chains->path = path;
            chains->path_capacity = capacity;
        }
        chains->path[(*length)++] = i;
    }
    return KVT_OK;
}

kvt_status kvt_trace_chains_keys(struct kvt_trace_chains *chains, struct kvt_page_keys *keys,
                                 struct kvt_error *err)
{
    const struct chat *chats = chains->chats;
    uint32_t length = 0;
    kvt_status status = walk_up(chains, &length, err);
    if (status == KVT_OK)
        status = kvt_page_keys_begin(keys, chats[chains->path[0]].total_tokens, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t i = length; i-- > 0;) {
        const struct chat *chat = &chats[chains->path[i]];
        uint32_t end = i > 0 ? chats[chains->path[i - 1]].shared_tokens : chat->total_tokens;
        kvt_page_keys_run(keys, kvt_content(KVT_CONTENT_CHAT, chat->id), end - chat->shared_tokens);
    }
    return KVT_OK;
}
