/* prefix.c -- the store of pages that outlive their request.
 *
 *     lookup(keys):   probe each key until both kinds of rows have ended
 *     adopt(keys):    from the last page to the first: a copy that nobody held leaves its
 *                     home's list; one more holds it
 *     release(keys):  from the last page to the first: one less holds it; a copy that nobody
 *                     holds any more goes to the new end of its home's list
 *     insert(keys):   from the last page to the first: a new copy, or the one that is there,
 *                     goes to the new end (or is held)
 *     reclaim(home):  the copy at the old end of the home's list goes, until enough have; and
 *                     with it the others of a page that has lost its index rows or its payload
 *
 * Every operation goes through a prefix from its tail to its head. So in each list a page
 * stands behind (newer than) all that continue it, whoever used them, and the plain order of
 * the list is "least recently used, leaves first" without a tree: vLLM's free queue (v1,
 * kv_cache_manager: blocks are freed in reverse order) keeps the same invariant.
 *
 * Pages are found through open addressing over 32-bit numbers of nodes: linear probing, at
 * most half full, deletion by moving back. Nothing is ever walked in table order. */
#include "kvt/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"

#define NONE UINT32_MAX

#define ROWS_HOMES (KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM) | KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST))

enum {
    CAPACITY_FIRST = 1024,
    CAPACITY_MAX = 1 << 30
};

/* A copy of a page in one home. */
struct copy {
    uint32_t holders;
    uint32_t older, newer; /* nodes beside it in its home's list, while nobody holds it */
};

struct node {
    uint64_t key;
    struct copy copies[KVT_PREFIX_HOMES];
    uint32_t next_free; /* of a node that is not in use */
    kvt_prefix_homes homes;
};

struct list {
    uint32_t oldest, newest;
    uint64_t count;
};

struct kvt_prefix {
    uint64_t page_bytes[KVT_PREFIX_HOMES];
    kvt_prefix_homes index_homes;        /* those with a page's index rows in them */
    uint64_t copies[KVT_PREFIX_HOMES];   /* in each home, held or not */
    struct list lists[KVT_PREFIX_HOMES]; /* those that nobody holds */
    struct node *nodes;                  /* [capacity], node_count of them ever used */
    uint32_t *table;                     /* [2 * capacity], a power of two: nodes by key, or NONE */
    uint32_t capacity, node_count, used_count;
    uint32_t first_free; /* nodes to use again, or NONE */
    struct kvt_prefix_counters counters;
};

const char *kvt_prefix_home_name(enum kvt_prefix_home home)
{
    switch (home) {
    case KVT_PREFIX_INDEX_HBM:
        return "index in HBM";
    case KVT_PREFIX_INDEX_HOST:
        return "index on host";
    case KVT_PREFIX_ROWS_HBM:
        return "rows in HBM";
    case KVT_PREFIX_ROWS_HOST:
        return "rows on host";
    case KVT_PREFIX_HOMES:
        break;
    }
    return "unknown";
}

/* ---- Pages by key ------------------------------------------------------------------ */

static uint32_t slot_mask(uint32_t capacity)
{
    return 2 * capacity - 1;
}

/* The place in the table that holds the key's node, or the empty one where it belongs. */
static uint32_t place_of(const uint32_t *table, uint32_t mask, const struct node *nodes,
                         uint64_t key)
{
    uint32_t at = (uint32_t)kvt_mix64(key) & mask;
    while (table[at] != NONE && nodes[table[at]].key != key)
        at = (at + 1) & mask;
    return at;
}

static uint32_t find(const struct kvt_prefix *store, uint64_t key)
{
    return store->table[place_of(store->table, slot_mask(store->capacity), store->nodes, key)];
}

/* Room for `more` pages, so that what follows cannot fail. */
static kvt_status reserve(struct kvt_prefix *store, uint32_t more, struct kvt_error *err)
{
    uint64_t wanted = (uint64_t)store->used_count + more;
    uint32_t capacity = store->capacity > 0 ? store->capacity : CAPACITY_FIRST;
    if (wanted > CAPACITY_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "prefix store",
                        "%llu pages are more than the %d that one store takes",
                        (unsigned long long)wanted, (int)CAPACITY_MAX);
    while (capacity < wanted)
        capacity *= 2;
    if (capacity == store->capacity)
        return KVT_OK;

    uint32_t *table = malloc(2 * (size_t)capacity * sizeof *table);
    if (table == NULL)
        return kvt_fail_nomem(err, "the pages of a prefix store");
    struct node *nodes = realloc(store->nodes, (size_t)capacity * sizeof *nodes);
    if (nodes == NULL) {
        free(table);
        return kvt_fail_nomem(err, "the pages of a prefix store");
    }
    memset(table, 0xff, 2 * (size_t)capacity * sizeof *table);
    for (uint32_t n = 0; n < store->node_count; n++) {
        if (nodes[n].homes != 0)
            table[place_of(table, slot_mask(capacity), nodes, nodes[n].key)] = n;
    }
    free(store->table);
    store->table = table;
    store->nodes = nodes;
    store->capacity = capacity;
    return KVT_OK;
}

/* The key's node, made where there is none; reserve() has made room. */
static uint32_t find_or_make(struct kvt_prefix *store, uint64_t key)
{
    uint32_t *place =
        &store->table[place_of(store->table, slot_mask(store->capacity), store->nodes, key)];
    if (*place != NONE)
        return *place;
    uint32_t n = store->first_free;
    if (n != NONE)
        store->first_free = store->nodes[n].next_free;
    else
        n = store->node_count++;
    store->nodes[n] = (struct node){.key = key, .next_free = NONE};
    store->used_count++;
    *place = n;
    return n;
}

/* Takes a key out and moves back those behind it that could not be found past the gap. */
static void forget(struct kvt_prefix *store, uint32_t n)
{
    uint32_t mask = slot_mask(store->capacity);
    uint32_t gap = place_of(store->table, mask, store->nodes, store->nodes[n].key);
    for (uint32_t at = (gap + 1) & mask; store->table[at] != NONE; at = (at + 1) & mask) {
        uint32_t home = (uint32_t)kvt_mix64(store->nodes[store->table[at]].key) & mask;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            store->table[gap] = store->table[at];
            gap = at;
        }
    }
    store->table[gap] = NONE;
    store->nodes[n].next_free = store->first_free;
    store->first_free = n;
    store->used_count--;
}

/* ---- Copies ------------------------------------------------------------------------- */

static bool has_copy(const struct node *node, int home)
{
    return (node->homes >> home & 1) != 0;
}

static void append(struct kvt_prefix *store, uint32_t n, int home)
{
    struct list *list = &store->lists[home];
    struct copy *copy = &store->nodes[n].copies[home];
    copy->older = list->newest;
    copy->newer = NONE;
    if (list->newest != NONE)
        store->nodes[list->newest].copies[home].newer = n;
    else
        list->oldest = n;
    list->newest = n;
    list->count++;
}

static void unlink_copy(struct kvt_prefix *store, uint32_t n, int home)
{
    struct list *list = &store->lists[home];
    const struct copy *copy = &store->nodes[n].copies[home];
    if (copy->older != NONE)
        store->nodes[copy->older].copies[home].newer = copy->newer;
    else
        list->oldest = copy->newer;
    if (copy->newer != NONE)
        store->nodes[copy->newer].copies[home].older = copy->older;
    else
        list->newest = copy->older;
    list->count--;
}

static void hold(struct kvt_prefix *store, uint32_t n, int home)
{
    struct copy *copy = &store->nodes[n].copies[home];
    if (copy->holders == 0)
        unlink_copy(store, n, home);
    copy->holders++;
}

/* A copy that nobody holds goes, and with the last one its page. */
static void give_up(struct kvt_prefix *store, uint32_t n, int home)
{
    struct node *node = &store->nodes[n];
    unlink_copy(store, n, home);
    node->homes &= (kvt_prefix_homes)~KVT_PREFIX_IN(home);
    store->copies[home]--;
    store->counters.reclaimed_pages[home]++;
    if (node->homes == 0)
        forget(store, n);
}

/* ---- The store ------------------------------------------------------------------------ */

kvt_status kvt_prefix_new(const uint64_t page_bytes[KVT_PREFIX_HOMES], struct kvt_prefix **out,
                          struct kvt_error *err)
{
    struct kvt_prefix *store = calloc(1, sizeof *store);
    if (store == NULL)
        return kvt_fail_nomem(err, "a prefix store");
    memcpy(store->page_bytes, page_bytes, sizeof store->page_bytes);
    store->index_homes = KVT_PREFIX_IN(KVT_PREFIX_INDEX_HBM);
    store->index_homes |= page_bytes[KVT_PREFIX_INDEX_HOST] > 0
                              ? KVT_PREFIX_IN(KVT_PREFIX_INDEX_HOST)
                              : KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST);
    store->first_free = NONE;
    for (int h = 0; h < KVT_PREFIX_HOMES; h++)
        store->lists[h] = (struct list){.oldest = NONE, .newest = NONE};
    kvt_status status = reserve(store, 1, err);
    if (status != KVT_OK) {
        kvt_prefix_free(store);
        return status;
    }
    *out = store;
    return KVT_OK;
}

void kvt_prefix_free(struct kvt_prefix *store)
{
    if (store == NULL)
        return;
    free(store->nodes);
    free(store->table);
    free(store);
}

void kvt_prefix_lookup(const struct kvt_prefix *store, const uint64_t *keys, uint32_t count,
                       kvt_prefix_homes *homes, struct kvt_prefix_hit *hit)
{
    *hit = (struct kvt_prefix_hit){0};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = find(store, keys[i]);
        if (n == NONE)
            break;
        kvt_prefix_homes there = store->nodes[n].homes;
        bool has_index = hit->index_pages == i && (there & store->index_homes) != 0;
        bool has_rows = hit->rows_pages == i && (there & ROWS_HOMES) != 0;
        if (!has_index && !has_rows)
            break;
        hit->index_pages += has_index;
        hit->rows_pages += has_rows;
        if (!has_index || !has_rows)
            continue;
        hit->pages++;
        for (int h = 0; h < KVT_PREFIX_HOMES; h++)
            hit->in_home[h] += there >> h & 1;
        if (homes != NULL)
            homes[i] = there;
    }
}

bool kvt_prefix_has(const struct kvt_prefix *store, uint64_t key, enum kvt_prefix_home home)
{
    uint32_t n = find(store, key);
    return n != NONE && has_copy(&store->nodes[n], home);
}

void kvt_prefix_adopt(struct kvt_prefix *store, const uint64_t *keys, const kvt_prefix_homes *homes,
                      uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        uint32_t n = find(store, keys[i]);
        for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
            if ((homes[i] >> h & 1) != 0)
                hold(store, n, h);
        }
    }
    store->counters.adopted_pages += count;
}

void kvt_prefix_release(struct kvt_prefix *store, const uint64_t *keys,
                        const kvt_prefix_homes *homes, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        uint32_t n = find(store, keys[i]);
        for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
            if ((homes[i] >> h & 1) != 0 && --store->nodes[n].copies[h].holders == 0)
                append(store, n, h);
        }
    }
}

static void insert_copy(struct kvt_prefix *store, uint32_t n, int home, bool held,
                        uint64_t *added_bytes)
{
    struct node *node = &store->nodes[n];
    if (!has_copy(node, home)) {
        node->homes |= KVT_PREFIX_IN(home);
        node->copies[home].holders = 0;
        store->copies[home]++;
        store->counters.inserted_pages[home]++;
        *added_bytes += store->page_bytes[home];
        append(store, n, home);
    } else {
        store->counters.duplicate_pages[home]++;
        if (node->copies[home].holders == 0) {
            unlink_copy(store, n, home);
            append(store, n, home);
        }
    }
    if (held)
        hold(store, n, home);
}

kvt_status kvt_prefix_insert(struct kvt_prefix *store, const uint64_t *keys,
                             const kvt_prefix_homes *homes, uint32_t count, bool held,
                             uint64_t added_bytes[KVT_PREFIX_HOMES], struct kvt_error *err)
{
    kvt_status status = reserve(store, count, err);
    if (status != KVT_OK)
        return status;
    memset(added_bytes, 0, KVT_PREFIX_HOMES * sizeof added_bytes[0]);
    for (uint32_t i = count; i-- > 0;) {
        if (homes[i] == 0)
            continue;
        uint32_t n = find_or_make(store, keys[i]);
        for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
            if ((homes[i] >> h & 1) != 0)
                insert_copy(store, n, h, held, &added_bytes[h]);
        }
    }
    return KVT_OK;
}

bool kvt_prefix_drop(struct kvt_prefix *store, uint64_t key, enum kvt_prefix_home home)
{
    uint32_t n = find(store, key);
    if (n == NONE || !has_copy(&store->nodes[n], home) || store->nodes[n].copies[home].holders > 0)
        return false;
    give_up(store, n, home);
    return true;
}

/* What nobody holds of a page that has one kind of rows only. */
static void give_up_rest(struct kvt_prefix *store, uint32_t n,
                         uint64_t freed_bytes[KVT_PREFIX_HOMES])
{
    const kvt_prefix_homes homes = store->nodes[n].homes;
    if ((homes & store->index_homes) != 0 && (homes & ROWS_HOMES) != 0)
        return;
    for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
        if ((homes >> h & 1) == 0 || store->nodes[n].copies[h].holders > 0)
            continue;
        give_up(store, n, h);
        freed_bytes[h] += store->page_bytes[h];
    }
}

void kvt_prefix_reclaim(struct kvt_prefix *store, enum kvt_prefix_home home, uint64_t want_bytes,
                        uint64_t freed_bytes[KVT_PREFIX_HOMES])
{
    memset(freed_bytes, 0, KVT_PREFIX_HOMES * sizeof freed_bytes[0]);
    while (freed_bytes[home] < want_bytes && store->lists[home].oldest != NONE) {
        uint32_t n = store->lists[home].oldest;
        give_up(store, n, home);
        freed_bytes[home] += store->page_bytes[home];
        give_up_rest(store, n, freed_bytes);
    }
}

uint64_t kvt_prefix_bytes(const struct kvt_prefix *store, enum kvt_prefix_home home)
{
    return store->copies[home] * store->page_bytes[home];
}

uint64_t kvt_prefix_reclaimable_bytes(const struct kvt_prefix *store, enum kvt_prefix_home home)
{
    return store->lists[home].count * store->page_bytes[home];
}

uint32_t kvt_prefix_page_count(const struct kvt_prefix *store)
{
    return store->used_count;
}

const struct kvt_prefix_counters *kvt_prefix_counters_of(const struct kvt_prefix *store)
{
    return &store->counters;
}

/* ---- Sanity ---------------------------------------------------------------------------- */

static bool list_is_sane(const struct kvt_prefix *store, int home)
{
    const struct list *list = &store->lists[home];
    uint32_t older = NONE;
    uint64_t count = 0;
    for (uint32_t n = list->oldest; n != NONE; n = store->nodes[n].copies[home].newer) {
        const struct node *node = &store->nodes[n];
        if (count++ == list->count || !has_copy(node, home) || node->copies[home].holders > 0 ||
            node->copies[home].older != older)
            return false;
        older = n;
    }
    return count == list->count && list->newest == older;
}

bool kvt_prefix_is_sane(const struct kvt_prefix *store)
{
    uint64_t copies[KVT_PREFIX_HOMES] = {0};
    uint64_t unheld[KVT_PREFIX_HOMES] = {0};
    uint32_t used = 0;
    for (uint32_t n = 0; n < store->node_count; n++) {
        const struct node *node = &store->nodes[n];
        if (node->homes == 0)
            continue;
        used++;
        if (find(store, node->key) != n)
            return false;
        for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
            copies[h] += has_copy(node, h);
            unheld[h] += has_copy(node, h) && node->copies[h].holders == 0;
        }
    }
    bool is_sane = used == store->used_count;
    for (int h = 0; h < KVT_PREFIX_HOMES; h++)
        is_sane = is_sane && copies[h] == store->copies[h] && unheld[h] == store->lists[h].count &&
                  list_is_sane(store, h);
    return is_sane;
}
