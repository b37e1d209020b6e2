/* figures.c -- how local selections are: figures of streams of them, recorded or a law's. */
#include "figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mrc.h"

enum {
    RING = 64 /* selections kept: more than the largest lag */
};

const double figures_hot_shares[FIGURES_HOT] = {0.01, 0.1, 0.5};
static const uint32_t sizes_over_k[FIGURES_SIZES] = {1, 2, 4, 8};

double figures_depth(size_t i)
{
    return exp2((double)i / 4 - 1);
}

uint32_t figures_page_rows(uint32_t tokens_per_row)
{
    return tokens_per_row <= KVT_PAGE_ROWS && KVT_PAGE_ROWS % tokens_per_row == 0
               ? KVT_PAGE_ROWS / tokens_per_row
               : KVT_PAGE_ROWS;
}

struct figures_meter {
    struct figures sums;
    uint32_t top_k, rows_max, rows_per_page;
    size_t words;
    uint32_t calls;        /* taken so far */
    uint32_t visible_rows; /* of the last */
    uint32_t *rows;        /* [top_k + MRC_LIST_SLACK] */
    uint32_t *last_calls;  /* [rows_max] 1 + the call that selected the row last; 0: none has */
    uint64_t *page_counts; /* [pages] */
    size_t page_count;
    struct mrc_stack *stack;
    uint32_t depth_sizes[FIGURES_DEPTHS];
    size_t depth_count, depth_of[FIGURES_DEPTHS]; /* sizes that differ, and whose they are */
    /* Of FIGURES_ALL alone. */
    uint64_t *sets;          /* [RING + 1][words] the last selections, and a union */
    struct kvt_arena *arena; /* of lru's parameters */
    struct mrc_policy lru;
    struct mrc_plan plan;
    struct mrc_calls *caches;
    struct mrc_counts *counts;
};

/* ---- Memory ------------------------------------------------------------------------------------
 */

/* Small k: steps that are the same number of rows are one. */
static void choose_depths(struct figures_meter *meter)
{
    for (size_t i = 0; i < FIGURES_DEPTHS; i++) {
        double rows = floor(figures_depth(i) * meter->top_k + 0.5);
        uint32_t size = rows < 1 ? 1 : (uint32_t)fmin(rows, KVT_KVSEL_ROWS_MAX);
        size_t n = meter->depth_count;
        if (n > 0 && meter->depth_sizes[n - 1] == size) {
            meter->depth_of[n - 1] = i;
            continue;
        }
        meter->depth_sizes[n] = size;
        meter->depth_of[n] = i;
        meter->depth_count++;
    }
}

static kvt_status open_caches(struct figures_meter *meter, struct kvt_error *err)
{
    size_t policy_count = 0;
    meter->arena = kvt_arena_new(0);
    if (meter->arena == NULL)
        return kvt_fail_nomem(err, "the figures of a stream");
    kvt_status status = mrc_policies_find("lru", meter->arena, &meter->lru, &policy_count, err);
    if (status != KVT_OK)
        return status;
    meter->sets = calloc((RING + 1) * meter->words, sizeof *meter->sets);
    meter->counts = calloc(1, sizeof *meter->counts);
    if (meter->sets == NULL || meter->counts == NULL)
        return kvt_fail_nomem(err, "the figures of a stream");
    meter->plan =
        (struct mrc_plan){.policies = &meter->lru, .policy_count = 1, .size_count = FIGURES_SIZES};
    for (size_t i = 0; i < FIGURES_SIZES; i++)
        meter->plan.slots[i] = meter->top_k * sizes_over_k[i];
    const struct mrc_store store = {
        .top_k = meter->top_k, .rows_max = meter->rows_max, .rows_per_page = meter->rows_per_page};
    return mrc_calls_new(&meter->plan, &store, &meter->caches, err);
}

kvt_status figures_meter_new(enum figures_parts parts, uint32_t top_k, uint32_t rows_max,
                             uint32_t rows_per_page, struct figures_meter **out,
                             struct kvt_error *err)
{
    struct figures_meter *meter = calloc(1, sizeof *meter);
    if (meter == NULL)
        return kvt_fail_nomem(err, "the figures of a stream");
    meter->top_k = top_k;
    meter->rows_max = rows_max;
    meter->rows_per_page = rows_per_page;
    meter->words = kvt_row_words(rows_max);
    meter->page_count = (rows_max + rows_per_page - 1) / rows_per_page;
    meter->rows = malloc(((size_t)top_k + MRC_LIST_SLACK) * sizeof *meter->rows);
    meter->last_calls = calloc(rows_max, sizeof *meter->last_calls);
    meter->page_counts = calloc(meter->page_count, sizeof *meter->page_counts);
    kvt_status status =
        meter->rows != NULL && meter->last_calls != NULL && meter->page_counts != NULL
            ? KVT_OK
            : kvt_fail_nomem(err, "the figures of a stream");
    choose_depths(meter);
    if (status == KVT_OK)
        status =
            mrc_stack_new(rows_max, meter->depth_sizes, meter->depth_count, &meter->stack, err);
    if (status == KVT_OK && parts == FIGURES_ALL)
        status = open_caches(meter, err);
    if (status != KVT_OK) {
        figures_meter_free(meter);
        return status;
    }
    *out = meter;
    return KVT_OK;
}

void figures_meter_free(struct figures_meter *meter)
{
    if (meter == NULL)
        return;
    mrc_stack_free(meter->stack);
    mrc_calls_free(meter->caches);
    free(meter->rows);
    free(meter->last_calls);
    free(meter->page_counts);
    free(meter->sets);
    free(meter->counts);
    kvt_arena_free(meter->arena);
    free(meter);
}

/* ---- One selection ------------------------------------------------------------------------------
 */

static void take_rows(struct figures_meter *meter, uint32_t count)
{
    struct figures *sums = &meter->sums;
    size_t page = SIZE_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = meter->rows[i], last = meter->last_calls[row];
        if (last == 0)
            sums->first++;
        else
            sums->ages[31 - __builtin_clz(meter->calls + 1 - last)]++;
        meter->last_calls[row] = meter->calls + 1;
        sums->pages += row / meter->rows_per_page != page; /* rows ascend */
        page = row / meter->rows_per_page;
        meter->page_counts[page]++;
    }
    mrc_stack_touch(meter->stack, meter->rows, count);
}

static uint64_t *ring_at(const struct figures_meter *meter, uint32_t call)
{
    return meter->sets + (size_t)(call % RING) * meter->words;
}

static void take_overlap(struct figures_meter *meter, const uint64_t *set)
{
    struct figures *sums = &meter->sums;
    uint64_t *now = ring_at(meter, meter->calls), *joined = meter->sets + RING * meter->words;
    size_t words = kvt_row_words(meter->visible_rows);
    memset(now, 0, meter->words * sizeof *now);
    memcpy(now, set, words * sizeof *now);
    for (int l = 0; l < KVT_KVSEL_LAGS && meter->calls >= kvt_kvsel_lags[l]; l++) {
        const uint64_t *then = ring_at(meter, meter->calls - kvt_kvsel_lags[l]);
        uint64_t common = 0;
        for (size_t w = 0; w < words; w++)
            common += (uint64_t)__builtin_popcountll(now[w] & then[w]);
        sums->overlap[l] += (double)common;
        sums->overlap_count[l]++;
    }
    memset(joined, 0, words * sizeof *joined);
    for (uint32_t u = 0; u < KVT_KVSEL_UNIONS && u <= meter->calls; u++) {
        const uint64_t *then = ring_at(meter, meter->calls - u);
        for (size_t w = 0; w < words; w++)
            joined[w] |= then[w];
        sums->unions[u] += (double)kvt_row_set_count(joined, words);
        sums->union_count[u]++;
    }
}

kvt_status figures_take(struct figures_meter *meter, const uint64_t *set, uint32_t visible_rows,
                        struct kvt_error *err)
{
    if (visible_rows <= meter->top_k)
        return KVT_OK;
    uint32_t count = mrc_list(set, kvt_row_words(visible_rows), meter->rows);
    meter->visible_rows = visible_rows;
    take_rows(meter, count);
    kvt_status status = KVT_OK;
    if (meter->sets != NULL) {
        take_overlap(meter, set);
        status = mrc_calls_take(meter->caches, set, visible_rows, meter->calls, meter->calls, NULL,
                                meter->counts, err);
    }
    meter->sums.selections++;
    meter->sums.selected += count;
    meter->calls++;
    return status;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static int more_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* Selected rows of the pages that were selected most, of those that could be. */
static void add_hot(const struct figures_meter *meter, struct figures *figures)
{
    size_t pages = (meter->visible_rows + meter->rows_per_page - 1) / meter->rows_per_page;
    qsort(meter->page_counts, meter->page_count, sizeof *meter->page_counts, more_first);
    for (size_t h = 0; h < FIGURES_HOT; h++) {
        size_t hottest = (size_t)ceil(figures_hot_shares[h] * (double)pages);
        for (size_t p = 0; p < hottest && p < meter->page_count; p++)
            figures->hot[h] += meter->page_counts[p];
    }
}

static void add_depths(const struct figures_meter *meter, struct figures *figures)
{
    uint64_t beyond = meter->sums.selected; /* the depth before this one */
    for (size_t i = 0; i < meter->depth_count; i++) {
        uint64_t missed = mrc_stack_missed(meter->stack, i);
        figures->depths[meter->depth_of[i]] += beyond - missed;
        beyond = missed;
    }
    figures->depths[FIGURES_DEPTHS] += beyond - mrc_stack_first(meter->stack);
}

void figures_add(const struct figures_meter *meter, struct figures *figures)
{
    const struct figures *sums = &meter->sums;
    if (sums->selections == 0)
        return;
    figures->selections += sums->selections;
    figures->selected += sums->selected;
    figures->first += sums->first;
    figures->pages += sums->pages;
    for (size_t i = 0; i < FIGURES_AGES; i++)
        figures->ages[i] += sums->ages[i];
    for (size_t i = 0; i < KVT_KVSEL_LAGS; i++) {
        figures->overlap[i] += sums->overlap[i];
        figures->overlap_count[i] += sums->overlap_count[i];
    }
    for (size_t i = 0; i < KVT_KVSEL_UNIONS; i++) {
        figures->unions[i] += sums->unions[i];
        figures->union_count[i] += sums->union_count[i];
    }
    for (size_t i = 0; meter->counts != NULL && i < FIGURES_SIZES; i++)
        figures->missed[i] += meter->counts->missed[0][i];
    add_depths(meter, figures);
    add_hot(meter, figures);
}

/* ---- Distance -------------------------------------------------------------------------------- */

static double square(double x)
{
    return x * x;
}

static double share(double part, uint64_t of)
{
    return of > 0 ? part / (double)of : 0;
}

double figures_distance(const struct figures *a, const struct figures *b, uint32_t top_k)
{
    double overlap = 0, unions = 0, misses = 0, pages = 0;
    for (size_t i = 0; i < KVT_KVSEL_LAGS; i++)
        overlap += square(share(a->overlap[i], a->overlap_count[i] * top_k) -
                          share(b->overlap[i], b->overlap_count[i] * top_k));
    for (size_t i = 0; i < KVT_KVSEL_UNIONS; i++)
        unions += square(share(a->unions[i], a->union_count[i] * top_k * (i + 1)) -
                         share(b->unions[i], b->union_count[i] * top_k * (i + 1)));
    for (size_t i = 0; i < FIGURES_SIZES; i++)
        misses += square(share((double)a->missed[i], a->selected) -
                         share((double)b->missed[i], b->selected));
    for (size_t i = 0; i < FIGURES_HOT; i++)
        pages +=
            square(share((double)a->hot[i], a->selected) - share((double)b->hot[i], b->selected));
    pages += square(share((double)a->pages, a->selected) - share((double)b->pages, b->selected));
    return sqrt((overlap / KVT_KVSEL_LAGS + unions / KVT_KVSEL_UNIONS + misses / FIGURES_SIZES +
                 pages / (FIGURES_HOT + 1)) /
                4);
}
