/* test_prefix_twin.c -- the prefix store against a naive one, over random lives of requests.
 *
 * The twin keeps every page in an array with its holders and the time of its last use, looks for
 * everything from the front, and picks what to give up by the least time, of equals the deepest
 * page. Requests of a few conversations that share their beginnings come, find, hold, add and
 * leave; memory is taken back at random. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/prefix.h"
#include "kvt/rng.h"

enum {
    TWIN_MAX = 4096,
    DEPTH = 24,
    CONVERSATIONS = 12,
    LIVES = 8,
    SEEDS = 12,
    STEPS = 3000
};

static const uint64_t page_bytes[KVT_PREFIX_HOMES] = {132, 264, 576, 1152};

struct twin_page {
    uint64_t key;
    uint32_t depth;
    kvt_prefix_homes homes;
    uint32_t holders[KVT_PREFIX_HOMES];
    uint64_t used_at[KVT_PREFIX_HOMES]; /* when nobody came to hold it */
};

struct twin {
    struct twin_page pages[TWIN_MAX];
    size_t count;
    uint64_t now;
};

/* A request: what it holds, page by page. */
struct life {
    bool is_there;
    uint64_t keys[DEPTH];
    kvt_prefix_homes held[DEPTH];
    uint32_t held_count;
};

struct world {
    struct kvt_prefix *store;
    struct twin twin;
    struct life lives[LIVES];
    struct kvt_rng rng;
};

static struct twin_page *twin_find(struct twin *twin, uint64_t key)
{
    for (size_t i = 0; i < twin->count; i++) {
        if (twin->pages[i].key == key && twin->pages[i].homes != 0)
            return &twin->pages[i];
    }
    return NULL;
}

static struct twin_page *twin_make(struct twin *twin, uint64_t key, uint32_t depth)
{
    struct twin_page *page = twin_find(twin, key);
    if (page != NULL)
        return page;
    size_t at = 0;
    while (at < twin->count && twin->pages[at].homes != 0)
        at++;
    if (at == twin->count)
        twin->count++;
    ck_assert_uint_le(twin->count, TWIN_MAX);
    twin->pages[at] = (struct twin_page){.key = key, .depth = depth};
    return &twin->pages[at];
}

/* The page to give up in a home, or NULL. */
static struct twin_page *twin_victim(struct twin *twin, int home)
{
    struct twin_page *victim = NULL;
    for (size_t i = 0; i < twin->count; i++) {
        struct twin_page *page = &twin->pages[i];
        if ((page->homes >> home & 1) == 0 || page->holders[home] > 0)
            continue;
        if (victim == NULL || page->used_at[home] < victim->used_at[home] ||
            (page->used_at[home] == victim->used_at[home] && page->depth > victim->depth))
            victim = page;
    }
    return victim;
}

static void twin_give_up(struct twin_page *page, int home, uint64_t freed_bytes[KVT_PREFIX_HOMES])
{
    page->homes &= (kvt_prefix_homes)~KVT_PREFIX_IN(home);
    freed_bytes[home] += page_bytes[home];
}

static void twin_reclaim(struct twin *twin, int home, uint64_t want_bytes,
                         uint64_t freed_bytes[KVT_PREFIX_HOMES])
{
    while (freed_bytes[home] < want_bytes) {
        struct twin_page *victim = twin_victim(twin, home);
        if (victim == NULL)
            return;
        twin_give_up(victim, home, freed_bytes);
        bool is_useful = (victim->homes & 3) != 0 && (victim->homes & 12) != 0;
        for (int h = 0; h < KVT_PREFIX_HOMES && !is_useful; h++) {
            if ((victim->homes >> h & 1) != 0 && victim->holders[h] == 0)
                twin_give_up(victim, h, freed_bytes);
        }
    }
}

/* ---- Requests ------------------------------------------------------------------------- */

/* Conversations 0..3 share eight pages, of which 0 and 1 share eight more. */
static void name_pages(uint64_t conversation, uint64_t keys[DEPTH])
{
    uint64_t chain = 0;
    for (uint32_t i = 0; i < DEPTH; i++) {
        uint64_t content = i < 8 ? conversation / 4 : i < 16 ? conversation / 2 : conversation;
        chain = kvt_chain64(chain, content << 8 | (i < 8 ? 1 : i < 16 ? 2 : 3));
        keys[i] = chain;
    }
}

static void check_lookup(struct world *world, const struct life *life, uint32_t count,
                         kvt_prefix_homes homes[DEPTH], struct kvt_prefix_hit *hit)
{
    uint32_t index_pages = 0;
    uint32_t rows_pages = 0;
    while (index_pages < count) {
        const struct twin_page *page = twin_find(&world->twin, life->keys[index_pages]);
        if (page == NULL || (page->homes & 3) == 0)
            break;
        index_pages++;
    }
    while (rows_pages < count) {
        const struct twin_page *page = twin_find(&world->twin, life->keys[rows_pages]);
        if (page == NULL || (page->homes & 12) == 0)
            break;
        rows_pages++;
    }
    kvt_prefix_lookup(world->store, life->keys, count, homes, hit);
    ck_assert_uint_eq(hit->index_pages, index_pages);
    ck_assert_uint_eq(hit->rows_pages, rows_pages);
    ck_assert_uint_eq(hit->pages, index_pages < rows_pages ? index_pages : rows_pages);
    for (uint32_t i = 0; i < hit->pages; i++)
        ck_assert_uint_eq(homes[i], twin_find(&world->twin, life->keys[i])->homes);
}

static void come(struct world *world, struct life *life)
{
    kvt_prefix_homes homes[DEPTH];
    struct kvt_prefix_hit hit;
    uint32_t count = 1 + (uint32_t)kvt_rng_below(&world->rng, DEPTH);
    *life = (struct life){.is_there = true};
    name_pages(kvt_rng_below(&world->rng, CONVERSATIONS), life->keys);
    check_lookup(world, life, count, homes, &hit);
    for (uint32_t i = 0; i < hit.pages; i++) {
        struct twin_page *page = twin_find(&world->twin, life->keys[i]);
        life->held[i] = homes[i];
        for (int h = 0; h < KVT_PREFIX_HOMES; h++)
            page->holders[h] += homes[i] >> h & 1;
    }
    life->held_count = hit.pages;
    kvt_prefix_adopt(world->store, life->keys, life->held, life->held_count);
}

/* Adds all its pages in homes of its choice, and lets go of what it held. */
static void leave(struct world *world, struct life *life)
{
    kvt_prefix_homes homes[DEPTH];
    uint64_t added_bytes[KVT_PREFIX_HOMES];
    uint64_t expected_bytes[KVT_PREFIX_HOMES] = {0};
    uint32_t count = (uint32_t)kvt_rng_below(&world->rng, DEPTH + 1);
    world->twin.now++;
    for (uint32_t i = 0; i < count; i++) {
        homes[i] = (kvt_prefix_homes)kvt_rng_below(&world->rng, 1 << KVT_PREFIX_HOMES);
        if (homes[i] == 0)
            continue;
        struct twin_page *page = twin_make(&world->twin, life->keys[i], i);
        for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
            if ((homes[i] >> h & 1) == 0)
                continue;
            if ((page->homes >> h & 1) == 0)
                expected_bytes[h] += page_bytes[h];
            page->homes |= KVT_PREFIX_IN(h);
            page->used_at[h] = world->twin.now;
        }
    }
    ck_assert_int_eq(
        kvt_prefix_insert(world->store, life->keys, homes, count, false, added_bytes, NULL),
        KVT_OK);
    ck_assert_mem_eq(added_bytes, expected_bytes, sizeof added_bytes);
    world->twin.now++;
    for (uint32_t i = 0; i < life->held_count; i++) {
        struct twin_page *page = twin_find(&world->twin, life->keys[i]);
        for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
            if ((life->held[i] >> h & 1) != 0 && --page->holders[h] == 0)
                page->used_at[h] = world->twin.now;
        }
    }
    kvt_prefix_release(world->store, life->keys, life->held, life->held_count);
    life->is_there = false;
}

static void take_back(struct world *world)
{
    uint64_t freed_bytes[KVT_PREFIX_HOMES];
    uint64_t expected_bytes[KVT_PREFIX_HOMES] = {0};
    int home = (int)kvt_rng_below(&world->rng, KVT_PREFIX_HOMES);
    uint64_t want_bytes = kvt_rng_below(&world->rng, 40 * page_bytes[home]);
    kvt_prefix_reclaim(world->store, (enum kvt_prefix_home)home, want_bytes, freed_bytes);
    twin_reclaim(&world->twin, home, want_bytes, expected_bytes);
    ck_assert_mem_eq(freed_bytes, expected_bytes, sizeof freed_bytes);
}

static void compare(struct world *world)
{
    uint64_t bytes[KVT_PREFIX_HOMES] = {0};
    uint64_t free_bytes[KVT_PREFIX_HOMES] = {0};
    uint32_t count = 0;
    for (size_t i = 0; i < world->twin.count; i++) {
        const struct twin_page *page = &world->twin.pages[i];
        count += page->homes != 0;
        for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
            uint64_t copy_bytes = (page->homes >> h & 1) != 0 ? page_bytes[h] : 0;
            bytes[h] += copy_bytes;
            free_bytes[h] += page->holders[h] == 0 ? copy_bytes : 0;
        }
    }
    ck_assert_uint_eq(kvt_prefix_page_count(world->store), count);
    for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
        ck_assert_uint_eq(kvt_prefix_bytes(world->store, (enum kvt_prefix_home)h), bytes[h]);
        ck_assert_uint_eq(kvt_prefix_reclaimable_bytes(world->store, (enum kvt_prefix_home)h),
                          free_bytes[h]);
    }
}

START_TEST(the_store_and_its_twin_agree)
{
    struct world *world = calloc(1, sizeof *world);
    ck_assert_ptr_nonnull(world);
    world->rng = kvt_rng_stream((uint64_t)_i, KVT_RNG_TEST, 0);
    ck_assert_int_eq(kvt_prefix_new(page_bytes, &world->store, NULL), KVT_OK);
    for (int step = 0; step < STEPS; step++) {
        struct life *life = &world->lives[kvt_rng_below(&world->rng, LIVES)];
        if (kvt_rng_below(&world->rng, 5) == 0)
            take_back(world);
        else if (life->is_there)
            leave(world, life);
        else
            come(world, life);
        compare(world);
    }
    ck_assert(kvt_prefix_is_sane(world->store));
    kvt_prefix_free(world->store);
    free(world);
}
END_TEST

static Suite *prefix_twin_suite(void)
{
    Suite *suite = suite_create("prefix_twin");
    TCase *random = tcase_create("random");
    tcase_add_loop_test(random, the_store_and_its_twin_agree, 0, SEEDS);
    suite_add_tcase(suite, random);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(prefix_twin_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
