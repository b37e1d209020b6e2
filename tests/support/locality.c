/* locality.c -- batch LRU, staging and pages, told by lists and flags, and what they count.
 *
 *     a call: misses take the oldest rows that it does not look up, one each, as long as there
 *     are any; order = [left of the old][filled, in miss order][hits] */
#include "locality.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct locality_scale locality_full_scale = {100032, 2048, 64, 1, 2120};
const struct locality_scale locality_small_scale = {12504, 256, 8, 8, 2120};

const double locality_sizes[LOCALITY_SIZES] = {1, 1.5, 2, 3, 4, 8, 16};
const uint32_t locality_lags[LOCALITY_LAGS] = {1, 2, 4, 8, 16, 32, 63};
const double locality_coverages[LOCALITY_COVERAGES] = {.25, .5, .6, .7, .8, .9};
const uint32_t locality_rounds[LOCALITY_ROUNDS] = {1, 4, 6, 8};

enum {
    QUERIES_MAX = 8,
    HISTORY = 64,       /* selections kept for overlaps */
    SAMPLE_TOKENS = 8,  /* between two looks at them */
    CHOICE_TOKENS = 64, /* between two choices of pages */
    WARM_ROUNDS = 64,   /* not counted: the cache fills */
};
static const double acceptance = .65;

/* ---- Batch LRU --------------------------------------------------------------------- */

struct lru {
    uint32_t slots, used;
    uint32_t *order, *next; /* [slots] rows, oldest first */
    uint8_t *holds;         /* [rows_max] */
    uint8_t *is_read;       /* [rows_max] by this call */
    uint64_t misses;
};

static bool lru_init(struct lru *lru, uint32_t slots, uint32_t rows_max)
{
    *lru = (struct lru){.slots = slots};
    lru->order = calloc(slots, sizeof *lru->order);
    lru->next = calloc(slots, sizeof *lru->next);
    lru->holds = calloc(rows_max, 1);
    lru->is_read = calloc(rows_max, 1);
    return lru->order && lru->next && lru->holds && lru->is_read;
}

static void lru_fini(struct lru *lru)
{
    free(lru->order);
    free(lru->next);
    free(lru->holds);
    free(lru->is_read);
}

/* Looks up distinct rows, in the order in which misses count; returns how many missed. */
static uint32_t lru_call(struct lru *lru, const uint32_t *rows, uint32_t count)
{
    uint32_t misses = 0;
    for (uint32_t i = 0; i < count; i++) {
        misses += !lru->holds[rows[i]];
        lru->is_read[rows[i]] = 1;
    }
    uint32_t hits = count - misses;
    uint32_t filled = misses < lru->slots - hits ? misses : lru->slots - hits;
    uint32_t empty = lru->slots - lru->used;
    uint32_t evictions = filled > empty ? filled - empty : 0;

    uint32_t kept = 0;
    for (uint32_t i = 0; i < lru->used; i++) {
        uint32_t row = lru->order[i];
        if (lru->is_read[row])
            continue;
        if (evictions > 0) {
            evictions--;
            lru->holds[row] = 0;
        } else {
            lru->next[kept++] = row;
        }
    }
    for (uint32_t i = 0; i < count && filled > 0; i++) {
        if (!lru->holds[rows[i]]) {
            lru->next[kept++] = rows[i];
            filled--;
        }
    }
    for (uint32_t i = 0; i < lru->used; i++) {
        if (lru->is_read[lru->order[i]])
            lru->next[kept++] = lru->order[i];
    }
    for (uint32_t i = 0; i < kept; i++)
        lru->holds[lru->next[i]] = 1;
    for (uint32_t i = 0; i < count; i++)
        lru->is_read[rows[i]] = 0;
    uint32_t *swapped = lru->order;
    lru->order = lru->next;
    lru->next = swapped;
    lru->used = kept;
    lru->misses += misses;
    return misses;
}

/* ---- A stream, token by token ---------------------------------------------------------- */

static uint32_t visible_at(const struct locality_scale *scale, uint32_t token)
{
    return scale->context_rows + token / scale->tokens_per_row;
}

static uint32_t rows_max_of(const struct locality_scale *scale)
{
    return visible_at(scale, scale->tokens + QUERIES_MAX);
}

/* Coverage by whole pages of 64 tokens. */
struct pages {
    uint32_t rows; /* of a page */
    uint32_t count;
    uint8_t *is_resident[2][LOCALITY_COVERAGES]; /* [count] random, chosen */
    struct lru lru[2][LOCALITY_COVERAGES];
    double *heat; /* [count] */
    uint32_t *ranked;
};

struct watch {
    const struct locality_scale *scale;
    const struct kvt_law *law;
    void *data, *stream;
    struct lru lru[LOCALITY_SIZES];
    struct pages pages;
    uint64_t *sets[QUERIES_MAX];
    uint32_t *rows;    /* [QUERIES_MAX * top_k] */
    uint32_t *lookups; /* [QUERIES_MAX * top_k] */
    uint32_t *history; /* [HISTORY][top_k] */
    uint32_t *seen_at; /* [rows_max] scratch: 1 + token */
    uint32_t samples;
    struct kvt_rng rng;
};

static bool begin_stream(struct watch *watch, uint32_t request, uint32_t selector)
{
    struct kvt_law_stream_env env = {.request = request,
                                     .selector = selector,
                                     .context_rows = watch->scale->context_rows,
                                     .rows_max = rows_max_of(watch->scale),
                                     .tokens_per_row = watch->scale->tokens_per_row};
    struct kvt_error err;
    free(watch->stream);
    watch->stream = calloc(1, watch->law->stream_bytes(watch->data, &env));
    return watch->stream != NULL &&
           watch->law->stream_init(watch->data, watch->stream, &env, &err) == KVT_OK;
}

static bool watch_init(struct watch *watch, const struct locality_scale *scale)
{
    size_t wide = (size_t)QUERIES_MAX * scale->top_k;
    uint32_t rows_max = rows_max_of(scale);
    bool is_ok = true;
    for (size_t q = 0; q < QUERIES_MAX; q++) {
        watch->sets[q] = calloc(kvt_row_words(rows_max), sizeof **watch->sets);
        is_ok = is_ok && watch->sets[q] != NULL;
    }
    watch->rows = calloc(wide, sizeof *watch->rows);
    watch->lookups = calloc(wide, sizeof *watch->lookups);
    watch->history = calloc((size_t)HISTORY * scale->top_k, sizeof *watch->history);
    watch->seen_at = calloc(rows_max, sizeof *watch->seen_at);
    watch->rng = kvt_rng_stream(2385, KVT_RNG_TEST, 0);
    return is_ok && watch->rows && watch->lookups && watch->history && watch->seen_at;
}

static void watch_fini(struct watch *watch)
{
    for (size_t q = 0; q < QUERIES_MAX; q++)
        free(watch->sets[q]);
    free(watch->rows);
    free(watch->lookups);
    free(watch->history);
    free(watch->seen_at);
    free(watch->stream);
}

/* Rows of one selection that are looked up: all below the tail. */
static uint32_t below(const uint32_t *rows, uint32_t count, uint32_t bound)
{
    while (count > 0 && rows[count - 1] >= bound)
        count--;
    return count;
}

/* The next token's selection into watch->rows; returns how many of its rows are looked up. */
static uint32_t next_selection(struct watch *watch, uint32_t token)
{
    static const struct kvt_law_query anchor = {.depth = 0};
    uint32_t visible = visible_at(watch->scale, token);
    struct kvt_law_round round = {
        .queries = &anchor, .query_count = 1, .committed_tokens = 1, .visible_rows = &visible};
    watch->law->select(watch->data, watch->stream, &round, watch->sets);
    (void)kvt_row_set_list(watch->sets[0], kvt_row_words(visible), watch->rows);
    return below(watch->rows, watch->scale->top_k, visible - watch->scale->tail_rows);
}

/* ---- Misses, overlaps, unions ---------------------------------------------------------------- */

static void sample_history(struct watch *watch, uint32_t token, struct locality *locality)
{
    uint32_t k = watch->scale->top_k;
    uint32_t distinct = 0;
    for (uint32_t u = 0; u < LOCALITY_UNIONS; u++) {
        const uint32_t *then = watch->history + (size_t)((token - u) % HISTORY) * k;
        for (uint32_t i = 0; i < k; i++) {
            distinct += watch->seen_at[then[i]] != token + 1;
            watch->seen_at[then[i]] = token + 1;
        }
        locality->unions[u] += (double)distinct / k;
    }
    for (size_t l = 0; l < LOCALITY_LAGS; l++) {
        const uint32_t *then = watch->history + (size_t)((token - locality_lags[l]) % HISTORY) * k;
        uint32_t common = 0;
        for (uint32_t i = 0; i < k; i++)
            common += kvt_row_is_in(watch->sets[0], then[i]);
        locality->overlap[l] += (double)common / k;
    }
    watch->samples++;
}

static bool is_measured(size_t size, unsigned parts)
{
    double share = locality_sizes[size];
    return (parts & LOCALITY_STREAM) != 0 || share == 1 || share == 2 || share == 8;
}

static void watch_tokens(struct watch *watch, unsigned parts, struct locality *locality)
{
    const struct locality_scale *scale = watch->scale;
    for (uint32_t token = 0; token < scale->tokens; token++) {
        uint32_t count = next_selection(watch, token);
        for (size_t s = 0; s < LOCALITY_SIZES; s++) {
            if (is_measured(s, parts))
                (void)lru_call(&watch->lru[s], watch->rows, count);
        }
        if ((parts & LOCALITY_STREAM) == 0)
            continue;
        for (uint32_t i = 0; i < scale->top_k; i++)
            locality->born += watch->rows[i] >= scale->context_rows;
        memcpy(watch->history + (size_t)(token % HISTORY) * scale->top_k, watch->rows,
               scale->top_k * sizeof *watch->rows);
        if (token >= HISTORY && token % SAMPLE_TOKENS == 0)
            sample_history(watch, token, locality);
    }
    double selected = (double)scale->tokens * scale->top_k;
    for (size_t s = 0; s < LOCALITY_SIZES; s++)
        locality->miss[s] = (double)watch->lru[s].misses / selected;
    for (size_t l = 0; l < LOCALITY_LAGS && watch->samples > 0; l++)
        locality->overlap[l] /= watch->samples;
    for (size_t u = 0; u < LOCALITY_UNIONS && watch->samples > 0; u++)
        locality->unions[u] /= watch->samples;
    locality->born /= selected;
}

static bool measure_stream(struct watch *watch, uint32_t request, uint32_t selector, unsigned parts,
                           struct locality *locality)
{
    bool is_ok = begin_stream(watch, request, selector);
    for (size_t s = 0; s < LOCALITY_SIZES; s++)
        is_ok = lru_init(&watch->lru[s], (uint32_t)(locality_sizes[s] * watch->scale->top_k),
                         rows_max_of(watch->scale)) &&
                is_ok;
    if (is_ok)
        watch_tokens(watch, parts, locality);
    for (size_t s = 0; s < LOCALITY_SIZES; s++)
        lru_fini(&watch->lru[s]);
    return is_ok;
}

/* ---- Coverage ----------------------------------------------------------------------------- */

static bool pages_init(struct pages *pages, const struct locality_scale *scale)
{
    uint32_t rows_max = rows_max_of(scale);
    *pages = (struct pages){.rows = KVT_PAGE_ROWS / scale->tokens_per_row};
    pages->count = rows_max / pages->rows + 1;
    pages->heat = calloc(pages->count, sizeof *pages->heat);
    pages->ranked = calloc(pages->count, sizeof *pages->ranked);
    bool is_ok = pages->heat && pages->ranked;
    for (size_t w = 0; w < 2; w++) {
        for (size_t c = 0; c < LOCALITY_COVERAGES; c++) {
            pages->is_resident[w][c] = calloc(pages->count, 1);
            is_ok = lru_init(&pages->lru[w][c], 2 * scale->top_k, rows_max) &&
                    pages->is_resident[w][c] && is_ok;
        }
    }
    return is_ok;
}

static void pages_fini(struct pages *pages)
{
    free(pages->heat);
    free(pages->ranked);
    for (size_t w = 0; w < 2; w++) {
        for (size_t c = 0; c < LOCALITY_COVERAGES; c++) {
            free(pages->is_resident[w][c]);
            lru_fini(&pages->lru[w][c]);
        }
    }
}

/* The first of `ranked` are resident, a share of those that exist. */
static void make_resident(struct pages *pages, size_t way, uint32_t existing)
{
    for (size_t c = 0; c < LOCALITY_COVERAGES; c++) {
        memset(pages->is_resident[way][c], 0, pages->count);
        for (uint32_t i = 0; i < (uint32_t)(locality_coverages[c] * existing); i++)
            pages->is_resident[way][c][pages->ranked[i]] = 1;
    }
}

static void choose_at_random(struct pages *pages, struct kvt_rng *rng, uint32_t existing)
{
    for (uint32_t p = 0; p < existing; p++) {
        uint32_t other = (uint32_t)kvt_rng_below(rng, (uint64_t)p + 1);
        pages->ranked[p] = pages->ranked[other];
        pages->ranked[other] = p;
    }
    make_resident(pages, 0, existing);
}

struct warm_page {
    double heat;
    uint32_t page;
};

static int by_falling_heat(const void *left, const void *right)
{
    const struct warm_page *a = left, *b = right;
    if (a->heat > b->heat || a->heat < b->heat)
        return a->heat > b->heat ? -1 : 1;
    return a->page < b->page ? -1 : a->page > b->page;
}

static bool choose_warmest(struct pages *pages, uint32_t existing)
{
    struct warm_page *warm = calloc(existing, sizeof *warm);
    if (warm == NULL)
        return false;
    for (uint32_t p = 0; p < existing; p++)
        warm[p] = (struct warm_page){.heat = pages->heat[p], .page = p};
    qsort(warm, existing, sizeof *warm, by_falling_heat);
    for (uint32_t i = 0; i < existing; i++) {
        pages->ranked[i] = warm[i].page;
        pages->heat[i] *= 0.8; /* a choice in five counts as much as all before */
    }
    free(warm);
    make_resident(pages, 1, existing);
    return true;
}

static void look_up_uncovered(struct watch *watch, uint32_t count)
{
    struct pages *pages = &watch->pages;
    for (size_t w = 0; w < 2; w++) {
        for (size_t c = 0; c < LOCALITY_COVERAGES; c++) {
            uint32_t uncovered = 0;
            for (uint32_t i = 0; i < count; i++) {
                watch->lookups[uncovered] = watch->rows[i];
                uncovered += !pages->is_resident[w][c][watch->rows[i] / pages->rows];
            }
            if (uncovered > 0)
                (void)lru_call(&pages->lru[w][c], watch->lookups, uncovered);
        }
    }
}

static bool watch_pages(struct watch *watch, struct locality *locality)
{
    const struct locality_scale *scale = watch->scale;
    struct pages *pages = &watch->pages;
    uint32_t existing = scale->context_rows / pages->rows;
    choose_at_random(pages, &watch->rng, existing);
    for (uint32_t token = 0; token < scale->tokens; token++) {
        uint32_t count = next_selection(watch, token);
        if (token % CHOICE_TOKENS == 0 && !choose_warmest(pages, existing))
            return false;
        look_up_uncovered(watch, count);
        for (uint32_t i = 0; i < count; i++)
            pages->heat[watch->rows[i] / pages->rows] += 1;
    }
    double selected = (double)scale->tokens * scale->top_k;
    for (size_t c = 0; c < LOCALITY_COVERAGES; c++) {
        locality->covered[c] = (double)pages->lru[0][c].misses / selected;
        locality->chosen[c] = (double)pages->lru[1][c].misses / selected;
    }
    return true;
}

static bool measure_coverage(struct watch *watch, uint32_t request, uint32_t selector,
                             struct locality *locality)
{
    bool is_ok = pages_init(&watch->pages, watch->scale) &&
                 begin_stream(watch, request, selector) && watch_pages(watch, locality);
    pages_fini(&watch->pages);
    return is_ok;
}

/* ---- Rounds ------------------------------------------------------------------------------- */

/* A chain of `queries`, of which the first `committed` are path 0. */
static void select_round(struct watch *watch, uint32_t token, uint32_t queries, uint32_t committed)
{
    struct kvt_law_query chain[QUERIES_MAX];
    uint32_t visible[QUERIES_MAX];
    for (uint32_t q = 0; q < queries; q++) {
        bool is_rejected = q >= committed;
        chain[q] = (struct kvt_law_query){
            .depth = q, .path = is_rejected, .fork = is_rejected ? committed : 0};
        visible[q] = visible_at(watch->scale, token + q);
    }
    struct kvt_law_round round = {.queries = chain,
                                  .query_count = queries,
                                  .committed_tokens = committed,
                                  .visible_rows = visible};
    watch->law->select(watch->data, watch->stream, &round, watch->sets);
}

/* The union, in the order of (first query, row), of rows below the tail. */
static uint32_t list_union(struct watch *watch, uint32_t token, uint32_t queries, uint32_t round)
{
    const struct locality_scale *scale = watch->scale;
    uint32_t deepest = visible_at(scale, token + queries - 1);
    uint32_t tail = deepest - scale->tail_rows;
    uint32_t distinct = 0;
    for (uint32_t q = 0; q < queries; q++) {
        uint32_t count = kvt_row_set_list(watch->sets[q], kvt_row_words(deepest), watch->rows);
        for (uint32_t i = 0; i < count && watch->rows[i] < tail; i++) {
            watch->lookups[distinct] = watch->rows[i];
            distinct += watch->seen_at[watch->rows[i]] != round + 1;
            watch->seen_at[watch->rows[i]] = round + 1;
        }
    }
    return distinct;
}

static double fetched_a_round(struct watch *watch, struct lru *lru, uint32_t queries)
{
    uint32_t rounds = 0;
    uint64_t fetched = 0;
    memset(watch->seen_at, 0, rows_max_of(watch->scale) * sizeof *watch->seen_at);
    for (uint32_t token = 0; token < watch->scale->tokens; rounds++) {
        uint32_t committed = 1;
        while (committed < queries && kvt_rng_unit(&watch->rng) < acceptance)
            committed++;
        select_round(watch, token, queries, committed);
        uint32_t distinct = list_union(watch, token, queries, rounds);
        uint32_t misses = lru_call(lru, watch->lookups, distinct);
        fetched += rounds >= WARM_ROUNDS ? misses : 0;
        token += committed;
    }
    return (double)fetched / (rounds - WARM_ROUNDS) / watch->scale->top_k;
}

static bool measure_rounds(struct watch *watch, uint32_t request, uint32_t selector,
                           struct locality *locality)
{
    for (size_t r = 0; r < LOCALITY_ROUNDS; r++) {
        struct lru lru;
        bool is_ok = lru_init(&lru, 2 * watch->scale->top_k, rows_max_of(watch->scale)) &&
                     begin_stream(watch, request, selector);
        if (is_ok)
            locality->fetched[r] = fetched_a_round(watch, &lru, locality_rounds[r]);
        lru_fini(&lru);
        if (!is_ok)
            return false;
    }
    return true;
}

/* ---- All of it ------------------------------------------------------------------------------ */

bool locality_measure(const struct kvt_law *law, void *data, const struct locality_scale *scale,
                      uint32_t request, uint32_t selector, unsigned parts,
                      struct locality *locality)
{
    *locality = (struct locality){.born = 0};
    struct watch watch = {.scale = scale, .law = law, .data = data};
    bool is_ok = watch_init(&watch, scale);
    if (is_ok && (parts & (LOCALITY_STREAM | LOCALITY_PUBLISHED)) != 0)
        is_ok = measure_stream(&watch, request, selector, parts, locality);
    if (is_ok && (parts & LOCALITY_COVERAGE) != 0)
        is_ok = measure_coverage(&watch, request, selector, locality);
    if (is_ok && (parts & LOCALITY_FETCHED) != 0)
        is_ok = measure_rounds(&watch, request, selector, locality);
    watch_fini(&watch);
    return is_ok;
}

double locality_figure(const struct locality *locality, size_t figure)
{
    double figures[LOCALITY_FIGURES];
    memcpy(figures, locality, sizeof figures);
    return figures[figure];
}

unsigned locality_part_of(size_t figure)
{
    size_t coverage = offsetof(struct locality, covered) / sizeof(double);
    size_t fetched = offsetof(struct locality, fetched) / sizeof(double);
    size_t born = offsetof(struct locality, born) / sizeof(double);
    if (figure < coverage || figure >= born)
        return LOCALITY_STREAM;
    return figure < fetched ? LOCALITY_COVERAGE : LOCALITY_FETCHED;
}

void locality_figure_name(size_t figure, char name[32])
{
    size_t f = figure;
    if (f < LOCALITY_SIZES)
        (void)snprintf(name, 32, "miss at B/k %g", locality_sizes[f]);
    else if ((f -= LOCALITY_SIZES) < LOCALITY_LAGS)
        (void)snprintf(name, 32, "overlap at lag %u", locality_lags[f]);
    else if ((f -= LOCALITY_LAGS) < LOCALITY_UNIONS)
        (void)snprintf(name, 32, "union of %zu", f + 1);
    else if ((f -= LOCALITY_UNIONS) < LOCALITY_COVERAGES)
        (void)snprintf(name, 32, "miss at coverage %g", locality_coverages[f]);
    else if ((f -= LOCALITY_COVERAGES) < LOCALITY_COVERAGES)
        (void)snprintf(name, 32, "miss at chosen %g", locality_coverages[f]);
    else if ((f -= LOCALITY_COVERAGES) < LOCALITY_ROUNDS)
        (void)snprintf(name, 32, "fetched a round of %u", locality_rounds[f]);
    else
        (void)snprintf(name, 32, "born since the start");
}

struct locality_spread locality_spread_of(const struct locality *found, size_t count, size_t figure)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        double value = locality_figure(&found[i], figure);
        sum += value;
        squares += value * value;
    }
    double mean = sum / (double)count;
    double variance = fmax(squares / (double)count - mean * mean, 0);
    double deviation = count > 1 ? sqrt(variance * (double)count / (double)(count - 1)) : 0;
    return (struct locality_spread){.mean = mean, .deviation = deviation};
}
