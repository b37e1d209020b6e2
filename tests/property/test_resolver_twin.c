/* test_resolver_twin.c -- the resolver against a twin written from the words of the design with
 * plain lists and linear searches, over random calls; every answer and the whole state agree. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/resolver.h"
#include "kvt/rng.h"

extern const struct kvt_replacement_policy kvt_replacement_lru;

enum {
    ROWS_MAX = 700,
    SLOTS_MAX = 300,
    QUERIES_MAX = 8,
    CASES = 96,
    CALLS = 80,
    EMPTY = -1,
};

/* ---- The twin --------------------------------------------------------------------- */

struct list {
    int items[ROWS_MAX];
    int count;
};

struct twin {
    int slot_count;
    int rows[SLOTS_MAX]; /* EMPTY or the row */
    struct list order;   /* slots, oldest first */
};

struct answer {
    struct list tail, page, hits, hit_slots, misses, fills, evicted;
    int tail_selected, page_selected, hot_selected, missed_selected;
    bool skipped;
};

static bool has(const struct list *list, int item)
{
    for (int i = 0; i < list->count; i++) {
        if (list->items[i] == item)
            return true;
    }
    return false;
}

static void append(struct list *list, int item)
{
    list->items[list->count++] = item;
}

static void append_all(struct list *list, const struct list *more)
{
    for (int i = 0; i < more->count; i++)
        append(list, more->items[i]);
}

static void twin_init(struct twin *twin, int slot_count)
{
    memset(twin, 0, sizeof *twin);
    twin->slot_count = slot_count;
    for (int slot = 0; slot < slot_count; slot++) {
        twin->rows[slot] = EMPTY;
        append(&twin->order, slot);
    }
}

static bool is_page_ready(const struct kvt_resolve_call *call, int row)
{
    uint32_t page = (uint32_t)row / call->rows_per_page;
    if (call->ready_bits == NULL || page >= call->ready_pages)
        return false;
    return (call->ready_bits[page / 64] & (UINT64_C(1) << page % 64)) != 0;
}

static int slot_of(const struct twin *twin, int row)
{
    for (int slot = 0; slot < twin->slot_count; slot++) {
        if (twin->rows[slot] == row)
            return slot;
    }
    return EMPTY;
}

/* Steps 1 to 3: each row of U once, in order, goes to where it was found. */
static void twin_look(const struct twin *twin, const struct kvt_resolve_call *call,
                      struct answer *answer)
{
    struct list seen = {.count = 0};

    for (uint32_t query = 0; query < call->query_count; query++) {
        for (uint32_t i = 0; i < call->selection_counts[query]; i++) {
            int row = (int)call->selections[query][i];
            if (has(&seen, row))
                continue;
            append(&seen, row);
            if ((uint32_t)row >= call->tail_first_row) {
                append(&answer->tail, row);
            } else if (is_page_ready(call, row)) {
                append(&answer->page, row);
            } else if (slot_of(twin, row) != EMPTY) {
                append(&answer->hits, row);
                append(&answer->hit_slots, slot_of(twin, row));
            } else {
                append(&answer->misses, row);
            }
        }
    }
    answer->skipped = answer->hits.count == 0 && answer->misses.count == 0;
}

static void twin_count(const struct kvt_resolve_call *call, struct answer *answer)
{
    for (uint32_t query = 0; query < call->query_count; query++) {
        for (uint32_t i = 0; i < call->selection_counts[query]; i++) {
            int row = (int)call->selections[query][i];
            answer->tail_selected += has(&answer->tail, row);
            answer->page_selected += has(&answer->page, row);
            answer->hot_selected += has(&answer->hits, row);
            answer->missed_selected += has(&answer->misses, row);
        }
    }
}

/* Step 4: empty slots, lowest first; then the oldest slots that did not hit. */
static void twin_victims(const struct twin *twin, struct answer *answer)
{
    struct list candidates = {.count = 0};

    for (int slot = 0; slot < twin->slot_count; slot++) {
        if (twin->rows[slot] == EMPTY)
            append(&candidates, slot);
    }
    for (int i = 0; i < twin->order.count; i++) {
        int slot = twin->order.items[i];
        if (twin->rows[slot] != EMPTY && !has(&answer->hit_slots, slot))
            append(&candidates, slot);
    }
    for (int i = 0; i < answer->misses.count && i < candidates.count; i++)
        append(&answer->fills, candidates.items[i]);
}

static void twin_replace(struct twin *twin, struct answer *answer)
{
    struct list unused = {.count = 0}, hits = {.count = 0};

    for (int i = 0; i < answer->fills.count; i++) {
        append(&answer->evicted, twin->rows[answer->fills.items[i]]);
        twin->rows[answer->fills.items[i]] = answer->misses.items[i];
    }
    for (int i = 0; i < twin->order.count; i++) {
        int slot = twin->order.items[i];
        if (has(&answer->hit_slots, slot))
            append(&hits, slot);
        else if (!has(&answer->fills, slot))
            append(&unused, slot);
    }
    twin->order.count = 0;
    append_all(&twin->order, &unused);
    append_all(&twin->order, &answer->fills);
    append_all(&twin->order, &hits);
}

static void twin_resolve(struct twin *twin, const struct kvt_resolve_call *call,
                         struct answer *answer)
{
    memset(answer, 0, sizeof *answer);
    twin_look(twin, call, answer);
    twin_count(call, answer);
    if (answer->skipped)
        return;
    twin_victims(twin, answer);
    twin_replace(twin, answer);
}

static uint64_t twin_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(13787848793156543929);
    x ^= x >> 27;
    x *= UINT64_C(10723151780598845931);
    return x ^ x >> 31;
}

static uint64_t twin_hash(const struct twin *twin)
{
    uint64_t sum = 0;

    for (int rank = 0; rank < twin->order.count; rank++) {
        int slot = twin->order.items[rank];
        if (twin->rows[slot] == EMPTY)
            continue;
        uint64_t place = ((uint64_t)slot << 32) + (uint64_t)twin->rows[slot];
        sum += twin_mix(place * UINT64_C(11400714819323198485) + (uint64_t)rank + 1);
    }
    return sum;
}

/* ---- Random requests ----------------------------------------------------------------- */

/* What stays the same over the calls of one case, and the call being made. */
struct request {
    struct kvt_rng rng;
    uint32_t top_k, tail_rows, slot_count, change_percent, pages_percent;
    bool selected[ROWS_MAX]; /* by the last query */
    uint32_t rows[QUERIES_MAX][ROWS_MAX];
    const uint32_t *selections[QUERIES_MAX];
    uint32_t counts[QUERIES_MAX];
    uint64_t ready_bits[(ROWS_MAX + 63) / 64];
    struct kvt_resolve_call call;
};

static uint32_t draw(struct request *request, uint32_t least, uint32_t most)
{
    return least + (uint32_t)kvt_rng_below(&request->rng, (uint64_t)most - least + 1);
}

static bool chance(struct request *request, uint32_t percent)
{
    return draw(request, 1, 100) <= percent;
}

static void request_init(struct request *request, uint64_t seed)
{
    memset(request, 0, sizeof *request);
    request->rng = kvt_rng_stream(seed, KVT_RNG_TEST, 0);
    request->top_k = draw(request, 1, 40);
    request->tail_rows = draw(request, 0, 64);
    request->change_percent = draw(request, 0, 100);
    request->pages_percent = draw(request, 0, 1) * draw(request, 0, 100);
    switch (draw(request, 0, 3)) {
    case 0:
        request->slot_count = request->top_k;
        break;
    case 1:
        request->slot_count = draw(request, 1, request->top_k);
        break;
    case 2:
        request->slot_count = 2 * request->top_k;
        break;
    default:
        request->slot_count = draw(request, 1, SLOTS_MAX);
    }
    request->call.visible_rows = draw(request, 1, ROWS_MAX / 2);
    request->call.rows_per_page = 1u << draw(request, 0, 6);
}

/* Some rows leave, others come, until min(k, visible) are selected. */
static void select_rows(struct request *request, uint32_t query)
{
    uint32_t visible_rows = request->call.visible_rows;
    uint32_t wanted = request->top_k < visible_rows ? request->top_k : visible_rows;
    uint32_t held = 0, count = 0;

    for (uint32_t row = 0; row < visible_rows; row++) {
        if (request->selected[row] && chance(request, request->change_percent))
            request->selected[row] = false;
        held += request->selected[row];
    }
    while (held < wanted) {
        uint32_t row = draw(request, 0, visible_rows - 1);
        held += !request->selected[row];
        request->selected[row] = true;
    }
    for (uint32_t row = 0; row < visible_rows; row++) {
        if (request->selected[row])
            request->rows[query][count++] = row;
    }
    request->selections[query] = request->rows[query];
    request->counts[query] = count;
}

static void request_next(struct request *request)
{
    struct kvt_resolve_call *call = &request->call;
    uint32_t grown_rows = call->visible_rows + draw(request, 0, 8);

    call->step++;
    call->visible_rows = grown_rows < ROWS_MAX ? grown_rows : ROWS_MAX;
    call->tail_first_row =
        call->visible_rows > request->tail_rows ? call->visible_rows - request->tail_rows : 0;
    call->query_count = draw(request, 1, QUERIES_MAX);
    for (uint32_t query = 0; query < call->query_count; query++)
        select_rows(request, query);
    call->selections = request->selections;
    call->selection_counts = request->counts;
    for (uint32_t page = 0; page < ROWS_MAX; page++) {
        uint64_t bit = UINT64_C(1) << page % 64;
        if (chance(request, 20)) /* most pages stay what they were */
            request->ready_bits[page / 64] &= ~bit;
        if (chance(request, request->pages_percent / 4))
            request->ready_bits[page / 64] |= bit;
    }
    call->ready_bits =
        request->pages_percent > 0 && chance(request, 90) ? request->ready_bits : NULL;
    call->ready_pages = draw(request, 0, call->visible_rows / call->rows_per_page + 1);
}

/* ---- Comparison -------------------------------------------------------------------------- */

struct place {
    int seed, call; /* where we are, for messages */
};

static void expect_number(struct place place, const char *what, uint64_t ours, int64_t twins)
{
    ck_assert_msg(ours == (uint64_t)twins,
                  "seed %d, call %d: %s is %" PRIu64 ", the twin says %" PRId64, place.seed,
                  place.call, what, ours, twins);
}

static void expect_list(struct place place, const char *what, const uint32_t *ours,
                        const struct list *twins)
{
    for (int i = 0; i < twins->count; i++)
        ck_assert_msg(ours[i] == (uint32_t)twins->items[i],
                      "seed %d, call %d: %s[%d] is %d, the twin says %d", place.seed, place.call,
                      what, i, (int)ours[i], twins->items[i]);
}

static void expect_equal(struct place place, const struct kvt_resolve_result *result,
                         const struct answer *answer)
{
    const struct {
        const char *what;
        uint32_t ours;
        int twins;
    } numbers[] = {
        {"tail_rows", result->tail_rows, answer->tail.count},
        {"page_rows", result->page_rows, answer->page.count},
        {"hot_rows", result->hot_rows, answer->hits.count},
        {"filled_rows", result->filled_rows, answer->fills.count},
        {"staged_rows", result->staged_rows, answer->misses.count - answer->fills.count},
        {"union_rows", result->union_rows,
         answer->tail.count + answer->page.count + answer->hits.count + answer->misses.count},
        {"tail_selected", result->tail_selected, answer->tail_selected},
        {"page_selected", result->page_selected, answer->page_selected},
        {"hot_selected", result->hot_selected, answer->hot_selected},
        {"missed_selected", result->missed_selected, answer->missed_selected},
        {"selected", result->selected,
         answer->tail_selected + answer->page_selected + answer->hot_selected +
             answer->missed_selected},
        {"skipped", result->skipped, answer->skipped},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        expect_number(place, numbers[i].what, numbers[i].ours, numbers[i].twins);
    expect_list(place, "missed", result->missed, &answer->misses);
    expect_list(place, "fills", result->fills, &answer->fills);
    expect_list(place, "evicted", result->evicted, &answer->evicted);
}

static void expect_equal_state(struct place place, struct kvt_resolver *resolver,
                               const struct kvt_hot_cache *cache, const struct twin *twin)
{
    uint32_t ranks[SLOTS_MAX];

    kvt_hot_cache_ranks(cache, ranks);
    for (int slot = 0; slot < twin->slot_count; slot++)
        expect_number(place, "the row in a slot", kvt_hot_cache_rows(cache)[slot],
                      (uint32_t)twin->rows[slot]);
    for (int rank = 0; rank < twin->order.count; rank++)
        expect_number(place, "a rank", ranks[twin->order.items[rank]], rank);
    expect_number(place, "the state hash", kvt_hot_cache_state_hash(resolver, cache),
                  (int64_t)twin_hash(twin));
}

START_TEST(every_answer_and_the_state_are_the_twins)
{
    static struct request request;
    static struct answer answer;
    static struct twin twin;
    struct kvt_resolver *resolver = NULL;
    struct kvt_hot_cache *cache = NULL;
    struct kvt_error err;

    request_init(&request, (uint64_t)_i);
    twin_init(&twin, (int)request.slot_count);
    struct kvt_replacement_env env = {.slot_count = request.slot_count, .top_k = request.top_k};
    ck_assert_int_eq(kvt_resolver_new(ROWS_MAX, SLOTS_MAX, QUERIES_MAX * 40, &resolver, &err),
                     KVT_OK);
    ck_assert_int_eq(kvt_hot_cache_new(&kvt_replacement_lru, &env, &cache, &err), KVT_OK);
    for (int i = 0; i < CALLS; i++) {
        struct place place = {.seed = _i, .call = i};
        struct kvt_resolve_result result;
        request_next(&request);
        twin_resolve(&twin, &request.call, &answer);
        kvt_status status = kvt_resolve(resolver, cache, &request.call, &result, &err);
        ck_assert_msg(status == KVT_OK, "seed %d, call %d: %s", _i, i, err.message);
        expect_equal(place, &result, &answer);
        expect_equal_state(place, resolver, cache, &twin);
    }
    kvt_hot_cache_free(cache);
    kvt_resolver_free(resolver);
}
END_TEST

static Suite *twin_suite(void)
{
    Suite *suite = suite_create("resolver twin");
    TCase *calls = tcase_create("random calls");

    tcase_add_loop_test(calls, every_answer_and_the_state_are_the_twins, 0, CASES);
    suite_add_tcase(suite, calls);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(twin_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
