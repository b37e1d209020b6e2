/* test_calls.c -- golden call vectors: calls in, states out, in tests/golden/calls/NAME.txt.
 *
 * docs/resolver.md describes the format, so that a GPU can reproduce them without this code.
 * The calls are read from the file and replayed by the resolver, at every level of the
 * processor, and by its twin; what each makes of them is printed and is the file to the letter.
 * KVT_GOLDEN_UPDATE=1 draws the calls anew and writes the files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "cli/measure/golden_calls.h"
#include "kv/resolver_passes.h"
#include "kvt/plugin.h"
#include "kvt/resolver.h"
#include "support/random_calls.h"
#include "support/resolver_twin.h"
#include "support/support.h"

enum {
    CALLS_MAX = 64,
    PATH_BYTES = 256
};

/* What a file begins with, and how its calls are drawn. */
struct vector_file {
    const char *name;
    uint32_t slots, top_k, rows_max;
    enum twin_policy policy;
    enum kvt_promotion promotion;
    uint32_t calls;
    uint64_t seed;
    uint32_t change_percent, pages_percent;
};
static const struct vector_file files[] = {
    {"k16-b16-by-count", 16, 16, 700, TWIN_LRU, KVT_PROMOTE_BY_COUNT, 40, 11, 20, 20},
    {"k16-b64", 64, 16, 1500, TWIN_LRU, KVT_PROMOTE_NONE, 40, 12, 30, 0},
    {"k64-b128-pages", 128, 64, 3000, TWIN_LRU, KVT_PROMOTE_NONE, 24, 13, 30, 50},
    {"k64-b96-by-count", 96, 64, 2000, TWIN_LRU, KVT_PROMOTE_BY_COUNT, 20, 14, 12, 10},
    {"k512-b1024", 1024, 512, 12000, TWIN_LRU, KVT_PROMOTE_BY_COUNT, 6, 15, 25, 20},
    {"access-lru-k16-b16-by-count", 16, 16, 700, TWIN_ACCESS_LRU, KVT_PROMOTE_BY_COUNT, 40, 21, 20,
     20},
    {"access-lru-k64-b192", 192, 64, 3000, TWIN_ACCESS_LRU, KVT_PROMOTE_NONE, 24, 22, 30, 20},
    {"clock-k16-b16-by-count", 16, 16, 700, TWIN_CLOCK, KVT_PROMOTE_BY_COUNT, 40, 23, 20, 20},
    {"clock-k64-b192", 192, 64, 3000, TWIN_CLOCK, KVT_PROMOTE_NONE, 24, 24, 30, 20},
    {"fifo-k16-b16-by-count", 16, 16, 700, TWIN_FIFO, KVT_PROMOTE_BY_COUNT, 40, 25, 20, 20},
    {"fifo-k64-b192", 192, 64, 3000, TWIN_FIFO, KVT_PROMOTE_NONE, 24, 26, 30, 20},
    {"sieve-k16-b32-by-count", 32, 16, 700, TWIN_SIEVE, KVT_PROMOTE_BY_COUNT, 40, 27, 20, 20},
    {"arc-k16-b32-by-count", 32, 16, 700, TWIN_ARC, KVT_PROMOTE_BY_COUNT, 40, 28, 20, 20},
};
enum {
    FILES = sizeof files / sizeof files[0]
};

/* One call as the file has it. */
struct vector_call {
    struct kvt_resolve_call call;
    uint64_t sets[TWIN_QUERIES_MAX][RANDOM_ROW_WORDS];
    const uint64_t *selections[TWIN_QUERIES_MAX];
    uint64_t page_rows[RANDOM_ROW_WORDS];
};
struct vectors {
    struct vector_file head;
    struct vector_call calls[CALLS_MAX];
};

/* ---- Printing ------------------------------------------------------------------------- */

static void print_head(FILE *out, const struct vector_file *head)
{
    (void)fprintf(out,
                  "kvtide resolver calls 1\nslots %" PRIu32 "\ntop_k %" PRIu32 "\nrows_max %" PRIu32
                  "\npolicy %s\npromotion %s\ncalls %" PRIu32 "\n",
                  head->slots, head->top_k, head->rows_max, twin_policy_name(head->policy),
                  head->promotion == KVT_PROMOTE_BY_COUNT ? "by_count" : "none", head->calls);
}

/* Runs of rows, "first+count". */
static void print_pages(FILE *out, const struct kvt_resolve_call *call)
{
    (void)fputs("pages", out);
    for (uint32_t row = 0; call->page_rows != NULL && row < call->visible_rows;) {
        uint32_t first = row;
        while (row < call->visible_rows && kvt_row_is_in(call->page_rows, row))
            row++;
        if (row > first)
            (void)fprintf(out, " %" PRIu32 "+%" PRIu32, first, row - first);
        else
            row++;
    }
    (void)fputc('\n', out);
}

/* The first row, then the distance of each to the one before. */
static void print_query(FILE *out, const struct kvt_resolve_call *call, uint32_t query)
{
    uint32_t last = 0;

    (void)fputs("query", out);
    for (uint32_t row = 0; row < call->visible_rows; row++) {
        if (!kvt_row_is_in(call->selections[query], row))
            continue;
        (void)fprintf(out, " %" PRIu32, row - last);
        last = row;
    }
    (void)fputc('\n', out);
}

static void print_list(FILE *out, const char *name, const uint32_t *items, uint32_t count)
{
    (void)fputs(name, out);
    for (uint32_t i = 0; i < count; i++) {
        if (items[i] == UINT32_MAX)
            (void)fputs(" -", out);
        else
            (void)fprintf(out, " %" PRIu32, items[i]);
    }
    (void)fputc('\n', out);
}

static void print_result(FILE *out, const struct kvt_resolve_result *r)
{
    (void)fprintf(out,
                  "rows %" PRIu32 " tail %" PRIu32 " page %" PRIu32 " hot %" PRIu32
                  " filled %" PRIu32 " staged %" PRIu32 " promoted %" PRIu32 "\n",
                  r->union_rows, r->tail_rows, r->page_rows, r->hot_rows, r->filled_rows,
                  r->staged_rows, r->promoted_rows);
    (void)fprintf(out,
                  "selections %" PRIu32 " tail %" PRIu32 " page %" PRIu32 " hot %" PRIu32
                  " missed %" PRIu32 "\n",
                  r->selected, r->tail_selected, r->page_selected, r->hot_selected,
                  r->missed_selected);
    print_list(out, "missed", r->missed, r->filled_rows + r->staged_rows);
    print_list(out, "fills", r->fills, r->filled_rows);
    print_list(out, "evicted", r->evicted, r->filled_rows);
    print_list(out, "promoted", r->promoted, r->promoted_rows);
    print_list(out, "promoted_slots", r->promoted_slots, r->promoted_rows);
}

static void print_call(FILE *out, uint32_t number, const struct kvt_resolve_call *call,
                       const struct kvt_resolve_result *result, uint64_t state, uint64_t *chain)
{
    (void)fprintf(out, "\ncall %" PRIu32 "\nvisible %" PRIu32 "\ntail %" PRIu32 "\n", number,
                  call->visible_rows, call->tail_first_row);
    print_pages(out, call);
    for (uint32_t query = 0; query < call->query_count; query++)
        print_query(out, call, query);
    print_result(out, result);
    *chain = golden_chain(*chain, state, result);
    (void)fprintf(out, "state %016" PRIx64 "\nchain %016" PRIx64 "\n", state, *chain);
}

/* ---- Reading ---------------------------------------------------------------------------- */

static enum twin_policy policy_of(const char *name)
{
    int policy = 0;

    while (policy < TWIN_POLICIES && strcmp(twin_policy_name((enum twin_policy)policy), name) != 0)
        policy++;
    ck_assert_msg(policy < TWIN_POLICIES, "the twin knows no policy \"%s\"", name);
    return (enum twin_policy)policy;
}

/* The call's own copy of its sets. */
static void keep_call(const struct kvt_resolve_call *call, uint32_t rows_max,
                      struct vector_call *to)
{
    size_t bytes = kvt_row_words(rows_max) * sizeof(uint64_t);

    ck_assert_uint_le(call->query_count, TWIN_QUERIES_MAX);
    to->call = *call;
    to->call.selections = to->selections;
    to->call.page_rows = memcpy(to->page_rows, call->page_rows, bytes);
    for (uint32_t query = 0; query < call->query_count; query++)
        to->selections[query] = memcpy(to->sets[query], call->selections[query], bytes);
}

static void read_vectors(const char *path, struct vectors *vectors)
{
    struct golden_file *file = NULL;
    struct golden_call golden;
    struct kvt_error err;

    ck_assert_msg(golden_open(path, &file, &err) == KVT_OK, "%s: %s", err.where, err.message);
    const struct golden_head *head = golden_head(file);
    ck_assert_uint_le(head->calls, CALLS_MAX);
    ck_assert_uint_le(head->rows_max, RANDOM_ROWS_MAX);
    vectors->head = (struct vector_file){.slots = head->slots,
                                         .top_k = head->top_k,
                                         .rows_max = head->rows_max,
                                         .policy = policy_of(head->policy),
                                         .promotion = head->promotion,
                                         .calls = head->calls};
    for (uint32_t i = 0; i < head->calls; i++) {
        ck_assert_msg(golden_next(file, &golden, &err) == KVT_OK, "%s: %s", err.where, err.message);
        keep_call(&golden.call, head->rows_max, &vectors->calls[i]);
    }
    golden_close(file);
}

/* ---- Drawing ------------------------------------------------------------------------------ */

static void draw_vectors(const struct vector_file *file, struct vectors *vectors)
{
    static struct random_calls random;

    vectors->head = *file;
    random_calls_init(&random, file->seed, file->top_k, file->slots, file->rows_max);
    random.change_percent = file->change_percent;
    random.pages_percent = file->pages_percent;
    for (uint32_t i = 0; i < file->calls; i++) {
        struct vector_call *to = &vectors->calls[i];
        random_calls_next(&random);
        to->call = random.call;
        to->call.promotion = file->promotion;
        to->call.selections = to->selections;
        memcpy(to->sets, random.sets, sizeof to->sets);
        for (uint32_t query = 0; query < to->call.query_count; query++)
            to->selections[query] = to->sets[query];
        if (to->call.page_rows != NULL)
            to->call.page_rows = memcpy(to->page_rows, random.page_rows, sizeof to->page_rows);
        if (i % 8 == 7) /* everything is resident: the cache does not age */
            to->call.tail_first_row = 0;
    }
}

/* ---- Replaying ------------------------------------------------------------------------------ */

/* The file's text as the resolver has it; free() it. */
static char *text_by_resolver(const struct vectors *vectors, enum kvt_cpu cpu)
{
    const struct vector_file *head = &vectors->head;
    struct kvt_replacement_env env = {.slot_count = head->slots, .top_k = head->top_k};
    struct kvt_resolver *resolver = NULL;
    struct kvt_hot_cache *cache = NULL;
    const struct kvt_plugin_info *info;
    struct kvt_error err;
    char *text = NULL;
    size_t bytes = 0;
    uint64_t chain = 0;
    FILE *out = open_memstream(&text, &bytes);

    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(kvt_resolver_new(head->rows_max, head->slots, head->rows_max, &resolver, &err),
                     KVT_OK);
    ck_assert(kvt_resolver_set_cpu(resolver, cpu));
    ck_assert_int_eq(kvt_plugin_find(NULL, KVT_PLUGIN_REPLACEMENT, twin_policy_name(head->policy),
                                     "policy", &info, &err),
                     KVT_OK);
    ck_assert_int_eq(kvt_hot_cache_new((const struct kvt_replacement_policy *)(const void *)info,
                                       &env, head->rows_max, &cache, &err),
                     KVT_OK);
    print_head(out, head);
    for (uint32_t i = 0; i < head->calls; i++) {
        const struct kvt_resolve_call *call = &vectors->calls[i].call;
        struct kvt_resolve_result result;
        kvt_status status = kvt_resolve(resolver, cache, call, &result, &err);
        ck_assert_msg(status == KVT_OK, "call %" PRIu32 ": %s", i, err.message);
        print_call(out, i, call, &result, kvt_hot_cache_state_hash(resolver, cache), &chain);
    }
    kvt_hot_cache_free(cache);
    kvt_resolver_free(resolver);
    (void)fclose(out);
    return text;
}

/* Equal but for the sign: no row and no slot (-1) is UINT32_MAX. */
static const uint32_t *items_of(const struct twin_list *list)
{
    return (const uint32_t *)list->items;
}

static struct kvt_resolve_result result_of(const struct twin_answer *a)
{
    struct kvt_resolve_result r = {
        .tail_rows = (uint32_t)a->tail.count,
        .page_rows = (uint32_t)a->page.count,
        .hot_rows = (uint32_t)a->hits.count,
        .filled_rows = (uint32_t)a->fills.count,
        .staged_rows = (uint32_t)(a->misses.count - a->fills.count),
        .promoted_rows = (uint32_t)a->promoted.count,
        .tail_selected = (uint32_t)a->tail_selected,
        .page_selected = (uint32_t)a->page_selected,
        .hot_selected = (uint32_t)a->hot_selected,
        .missed_selected = (uint32_t)a->missed_selected,
        .missed = items_of(&a->misses),
        .fills = items_of(&a->fills),
        .evicted = items_of(&a->evicted),
        .promoted = items_of(&a->promoted),
        .promoted_slots = items_of(&a->promoted_slots),
    };
    r.union_rows = r.tail_rows + r.page_rows + r.hot_rows + r.filled_rows + r.staged_rows;
    r.selected = r.tail_selected + r.page_selected + r.hot_selected + r.missed_selected;
    return r;
}

/* The same call in the twin's form. */
static void twin_form(const struct kvt_resolve_call *call, struct twin_call *twin_call)
{
    static int rows[TWIN_QUERIES_MAX][RANDOM_TOP_K_MAX];
    static bool paged[RANDOM_ROWS_MAX];

    *twin_call = (struct twin_call){.query_count = (int)call->query_count,
                                    .tail_first_row = (int)call->tail_first_row,
                                    .paged = paged,
                                    .promote_by_count = call->promotion == KVT_PROMOTE_BY_COUNT};
    for (uint32_t row = 0; row < call->visible_rows; row++)
        paged[row] = call->page_rows != NULL && kvt_row_is_in(call->page_rows, row);
    for (uint32_t query = 0; query < call->query_count; query++) {
        struct twin_list *selection = &twin_call->selections[query];
        *selection = (struct twin_list){.items = rows[query]};
        for (uint32_t row = 0; row < call->visible_rows; row++) {
            if (kvt_row_is_in(call->selections[query], row))
                selection->items[selection->count++] = (int)row;
        }
    }
}

static char *text_by_twin(const struct vectors *vectors)
{
    const struct vector_file *head = &vectors->head;
    struct twin twin;
    char *text = NULL;
    size_t bytes = 0;
    uint64_t chain = 0;
    FILE *out = open_memstream(&text, &bytes);

    ck_assert_ptr_nonnull(out);
    twin_init(&twin, head->policy, (int)head->rows_max, (int)head->slots);
    print_head(out, head);
    for (uint32_t i = 0; i < head->calls; i++) {
        const struct kvt_resolve_call *call = &vectors->calls[i].call;
        struct twin_call twin_call;
        twin_form(call, &twin_call);
        twin_resolve(&twin, &twin_call);
        struct kvt_resolve_result result = result_of(&twin.answer);
        print_call(out, i, call, &result, twin_hash(&twin), &chain);
    }
    twin_fini(&twin);
    (void)fclose(out);
    return text;
}

static void expect_text(const char *path, const char *who, const char *found, const char *expected)
{
    size_t at = 0, line = 1;

    for (; found[at] == expected[at] && found[at] != '\0'; at++)
        line += found[at] == '\n';
    if (found[at] != expected[at])
        ck_abort_msg("%s:%zu: by %s, \"%.60s\" is \"%.60s\"", path, line, who, expected + at,
                     found + at);
}

/* ---- Tests --------------------------------------------------------------------------------------
 */

static struct vectors vectors;

static char *path_of(const struct vector_file *file, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%s/tests/golden/calls/%s.txt", KVT_TEST_ROOT, file->name);
    return out;
}

/* Reads a file into vectors; its text, which is the caller's to free(). */
static char *load(const struct vector_file *file)
{
    char path[PATH_BYTES];
    size_t bytes;
    char *text = support_read(path_of(file, path), &bytes);

    ck_assert_msg(text != NULL, "%s is missing; KVT_GOLDEN_UPDATE=1 writes it", path);
    read_vectors(path, &vectors);
    return text;
}

START_TEST(the_resolver_reproduces_the_file_at_every_level)
{
    char path[PATH_BYTES];
    (void)path_of(&files[_i], path);
    if (getenv("KVT_GOLDEN_UPDATE") != NULL) {
        draw_vectors(&files[_i], &vectors);
        char *drawn = text_by_resolver(&vectors, KVT_CPU_PLAIN);
        support_write(path, drawn, strlen(drawn));
        free(drawn);
    }
    char *text = load(&files[_i]);
    for (int cpu = 0; cpu <= (int)kvt_cpu_best(); cpu++) {
        char *found = text_by_resolver(&vectors, (enum kvt_cpu)cpu);
        expect_text(path, kvt_cpu_name((enum kvt_cpu)cpu), found, text);
        free(found);
    }
    free(text);
}
END_TEST

START_TEST(the_twin_reproduces_the_file)
{
    char path[PATH_BYTES];
    char *text = load(&files[_i]), *found = text_by_twin(&vectors);

    expect_text(path_of(&files[_i], path), "the twin", found, text);
    free(found);
    free(text);
}
END_TEST

/* What the files are for: a GPU that passes them has met every case. */
START_TEST(the_files_hold_every_kind_of_call)
{
    int skipped = 0, staged = 0, promoted = 0, paged = 0, tailed = 0;
    bool queries[TWIN_QUERIES_MAX + 1] = {false};

    for (size_t f = 0; f < FILES; f++) {
        free(load(&files[f]));
        struct twin twin;
        twin_init(&twin, vectors.head.policy, (int)vectors.head.rows_max, (int)vectors.head.slots);
        for (uint32_t i = 0; i < vectors.head.calls; i++) {
            struct twin_call twin_call;
            twin_form(&vectors.calls[i].call, &twin_call);
            twin_resolve(&twin, &twin_call);
            skipped += twin.answer.skipped;
            staged += twin.answer.misses.count > twin.answer.fills.count;
            promoted += twin.answer.promoted.count > 0;
            paged += twin.answer.page.count > 0;
            tailed += twin.answer.tail.count > 0 && !twin.answer.skipped;
            queries[twin_call.query_count] = true;
        }
        twin_fini(&twin);
    }
    ck_assert_int_ge(skipped, 8);
    ck_assert_int_ge(staged, 20);
    ck_assert_int_ge(promoted, 10);
    ck_assert_int_ge(paged, 20);
    ck_assert_int_ge(tailed, 20);
    for (int k = 1; k <= TWIN_QUERIES_MAX; k++)
        ck_assert(queries[k]);
}
END_TEST

static Suite *calls_suite(void)
{
    Suite *suite = suite_create("golden calls");
    TCase *replay = tcase_create("replay");

    tcase_add_loop_test(replay, the_resolver_reproduces_the_file_at_every_level, 0, FILES);
    tcase_add_loop_test(replay, the_twin_reproduces_the_file, 0, FILES);
    tcase_add_test(replay, the_files_hold_every_kind_of_call);
    suite_add_tcase(suite, replay);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(calls_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
