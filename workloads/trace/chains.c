/* chains.c -- conversations out of parent links, as Qwen-Bailian writes them.
 *
 *     add(id, parent):
 *         parent = -1:            a first turn; its conversation is id
 *         parent known:           the parent's conversation, one turn later
 *         parent not known (yet): a first turn, marked as an orphan
 *
 * A table of open addressing, from chat to (conversation, turn): linear probing,
 * at most half full, never shrunk. */
#include <inttypes.h>
#include <stdlib.h>

#include "kvt/hash.h"
#include "trace_file.h"

struct link {
    uint64_t key; /* the chat's id plus one; 0: empty */
    uint64_t root_id;
    uint32_t turn;
};

struct kvt_trace_chains {
    struct link *links; /* [capacity], a power of two */
    size_t capacity, count;
};

enum {
    CAPACITY_FIRST = 64
};

static struct link *links_new(size_t capacity)
{
    return calloc(capacity, sizeof(struct link));
}

struct kvt_trace_chains *kvt_trace_chains_new(void)
{
    struct kvt_trace_chains *chains = calloc(1, sizeof *chains);
    if (chains == NULL)
        return NULL;
    chains->links = links_new(CAPACITY_FIRST);
    chains->capacity = CAPACITY_FIRST;
    if (chains->links == NULL) {
        free(chains);
        return NULL;
    }
    return chains;
}

void kvt_trace_chains_free(struct kvt_trace_chains *chains)
{
    if (chains != NULL)
        free(chains->links);
    free(chains);
}

/* The key's place, or the empty one where it belongs. */
static struct link *place_of(struct link *links, size_t capacity, uint64_t key)
{
    size_t i = (size_t)kvt_mix64(key) & (capacity - 1);
    while (links[i].key != 0 && links[i].key != key)
        i = (i + 1) & (capacity - 1);
    return &links[i];
}

static bool grow(struct kvt_trace_chains *chains)
{
    size_t capacity = chains->capacity * 2;
    struct link *links = links_new(capacity);
    if (links == NULL)
        return false;
    for (size_t i = 0; i < chains->capacity; i++) {
        const struct link *old = &chains->links[i];
        if (old->key != 0)
            *place_of(links, capacity, old->key) = *old;
    }
    free(chains->links);
    chains->links = links;
    chains->capacity = capacity;
    return true;
}

kvt_status kvt_trace_chains_add(struct kvt_trace_chains *chains, uint64_t chat_id,
                                int64_t parent_id, const struct kvt_trace_place *place,
                                struct kvt_trace_row *row, struct kvt_error *err)
{
    if (2 * (chains->count + 1) > chains->capacity && !grow(chains))
        return kvt_fail_nomem(err, "the conversations of a trace");

    struct link *link = place_of(chains->links, chains->capacity, chat_id + 1);
    if (link->key != 0) {
        char where[256];
        kvt_trace_where(place, where);
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "chat %" PRIu64 " is already above; a chat_id names one request", chat_id);
    }
    row->session = chat_id;
    row->turn = 0;
    row->is_orphan = false;
    if (parent_id >= 0) {
        const struct link *parent =
            place_of(chains->links, chains->capacity, (uint64_t)parent_id + 1);
        if (parent->key != 0) {
            row->session = parent->root_id;
            row->turn = parent->turn + 1;
        } else {
            row->is_orphan = true;
        }
    }
    *link = (struct link){.key = chat_id + 1, .root_id = row->session, .turn = row->turn};
    chains->count++;
    return KVT_OK;
}
