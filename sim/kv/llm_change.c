/* llm_change.c -- a model with fewer indexers, or with blocks in place of rows.
 *
 *     index_topk_freq n      every n-th selector runs, from the first on
 *     index_topk_pattern     a letter a selector: F runs, S follows the nearest F before it;
 *                            beside a frequency of 1 only
 *                            (IndexCache, arXiv 2603.12201; the keys are vLLM's and SGLang's)
 *     block_tokens b         b rows are one: scored, selected, kept and fetched whole (Quest,
 *                            arXiv 2406.10774; ArkVale; SPIN, arXiv 2604.26837)
 *
 * A follower has no index rows and no selection of its own, so that its layers belong to the store
 * of its leader: one hot cache, one recency order, rows as long as all their layers. */
#include "llm_change.h"

#include <stdio.h>
#include <string.h>

enum {
    WIRE_UNIT_BYTES = 64,         /* in which host reads are filled */
    BLOCK_BYTES_MAX = 1024 * 1024 /* of a block in one layer */
};

/* ---- Fewer indexers ---------------------------------------------------------------------- */

static uint32_t selectors_of(const struct kvt_llm *llm, uint32_t store)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < llm->selector_count; i++)
        count += llm->selectors[i].store == store;
    return count;
}

/* Can the store of selector s join that of selector `leader`? */
static kvt_status check_join(const struct kvt_llm *llm, uint32_t leader, uint32_t s,
                             const char *where, struct kvt_error *err)
{
    const struct kvt_selector *from = &llm->selectors[s], *to = &llm->selectors[leader];
    const uint32_t stores[] = {to->store, from->store};

    for (size_t i = 0; i < 2; i++) {
        if (selectors_of(llm, stores[i]) > 1)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "the indexer of layer %u cannot follow that of layer %u: store %u is "
                            "read by %u indexers, and only stores of one can join",
                            from->layer, to->layer, stores[i], selectors_of(llm, stores[i]));
    }
    if (llm->stores[from->store].compress_ratio != llm->stores[to->store].compress_ratio)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "the indexer of layer %u cannot follow that of layer %u: rows of %u tokens "
                        "are no rows of %u",
                        from->layer, to->layer, llm->stores[from->store].compress_ratio,
                        llm->stores[to->store].compress_ratio);
    return KVT_OK;
}

/* Leaves out the stores without layers. */
static void close_ranks(struct kvt_llm *llm)
{
    uint32_t place[KVT_STORES_MAX] = {0}, kept = 0;

    for (uint32_t store = 0; store < llm->store_count; store++) {
        place[store] = kept;
        if (llm->stores[store].layers > 0)
            llm->stores[kept++] = llm->stores[store];
    }
    llm->store_count = kept;
    for (uint32_t i = 0; i < llm->selector_count; i++)
        llm->selectors[i].store = place[llm->selectors[i].store];
}

kvt_status kvt_llm_share_index(struct kvt_llm *llm, const bool *is_full, const char *where,
                               struct kvt_error *err)
{
    uint32_t leader = 0, kept = 0;

    if (!is_full[0])
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "the first indexer, of layer %u, is to follow, and none runs before it",
                        llm->selectors[0].layer);
    for (uint32_t i = 0; i < llm->selector_count; i++) {
        kvt_status status = is_full[i] ? KVT_OK : check_join(llm, leader, i, where, err);
        if (status != KVT_OK)
            return status;
        leader = is_full[i] ? i : leader;
    }
    for (uint32_t i = 0; i < llm->selector_count; i++) {
        struct kvt_store *store = &llm->stores[llm->selectors[i].store];
        if (is_full[i]) {
            llm->selectors[kept++] = llm->selectors[i];
            continue;
        }
        llm->stores[llm->selectors[kept - 1].store].layers += store->layers;
        store->layers = 0;
    }
    if (kept == llm->selector_count)
        return KVT_OK;
    llm->selector_count = kept;
    close_ranks(llm);
    return KVT_OK;
}

static kvt_status share_by_pattern(struct kvt_llm *llm, const char *pattern, const char *where,
                                   struct kvt_error *err)
{
    bool is_full[KVT_SELECTORS_MAX] = {false};
    size_t length = strlen(pattern);

    if (length != llm->selector_count)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%zu letters; %s has %u indexers, and each has a letter, F or S", length,
                        llm->name, llm->selector_count);
    for (size_t i = 0; i < length; i++) {
        if (pattern[i] != 'F' && pattern[i] != 'S')
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "letter %zu is neither F (its indexer runs) nor S (it follows)", i + 1);
        is_full[i] = pattern[i] == 'F';
    }
    return kvt_llm_share_index(llm, is_full, where, err);
}

static kvt_status share_by_frequency(struct kvt_llm *llm, uint64_t frequency, const char *where,
                                     struct kvt_error *err)
{
    bool is_full[KVT_SELECTORS_MAX] = {false};

    for (uint32_t i = 0; i < llm->selector_count; i++)
        is_full[i] = i % frequency == 0;
    return kvt_llm_share_index(llm, is_full, where, err);
}

/* ---- Blocks in place of rows --------------------------------------------------------------- */

/* Of a packed array of such rows, the units that the worst placed one touches. */
static uint64_t wire_bytes_of(uint64_t row_bytes)
{
    uint64_t most = 0;

    for (uint64_t row = 0; row < WIRE_UNIT_BYTES; row++) {
        uint64_t first = row * row_bytes / WIRE_UNIT_BYTES;
        uint64_t last = ((row + 1) * row_bytes - 1) / WIRE_UNIT_BYTES;
        most = last - first + 1 > most ? last - first + 1 : most;
    }
    return most * WIRE_UNIT_BYTES;
}

static kvt_status check_blocks(const struct kvt_llm *llm, uint32_t rows, const char *where,
                               struct kvt_error *err)
{
    if (llm->index_heads == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "blocks of %u: %s is dense, and nothing chooses among its rows", rows,
                        llm->name);
    if (llm->top_k % rows != 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "blocks of %u: the %u rows that a query selects are no whole number of "
                        "them",
                        rows, llm->top_k);
    for (uint32_t i = 0; i < llm->store_count; i++) {
        uint32_t ratio = llm->stores[i].compress_ratio;
        if (KVT_PAGE_ROWS % ((uint64_t)ratio * rows) != 0)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "blocks of %u rows of %u tokens each: a page of %d tokens does not "
                            "hold a whole number of them",
                            rows, ratio, KVT_PAGE_ROWS);
    }
    if ((uint64_t)llm->payload.capacity_bytes * rows > BLOCK_BYTES_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "blocks of %u rows of %u bytes a layer are larger than %d bytes", rows,
                        llm->payload.capacity_bytes, BLOCK_BYTES_MAX);
    return KVT_OK;
}

kvt_status kvt_llm_make_blocks(struct kvt_llm *llm, uint32_t rows, const char *where,
                               struct kvt_error *err)
{
    struct kvt_row_format *payload = &llm->payload;
    kvt_status status = KVT_OK;

    if (rows == 1)
        return KVT_OK;
    status = check_blocks(llm, rows, where, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t i = 0; i < llm->store_count; i++) {
        llm->stores[i].compress_ratio *= rows;
        llm->stores[i].block_rows = rows;
    }
    /* Where less than the row crosses, the file says how much; else the padding of a row is that of
     * a block now. */
    if (payload->wire_bytes < payload->capacity_bytes)
        payload->wire_bytes = (uint32_t)wire_bytes_of((uint64_t)payload->wire_bytes * rows);
    else
        payload->wire_bytes = (uint32_t)wire_bytes_of((uint64_t)payload->capacity_bytes * rows);
    payload->capacity_bytes *= rows;
    payload->rebuild_flops *= rows;
    llm->top_k /= rows;
    return KVT_OK;
}

/* ---- What a model object says ---------------------------------------------------------------- */

static kvt_status change_indexers(struct kvt_llm *llm, const cJSON *tree, const char *where,
                                  struct kvt_error *err)
{
    char place[sizeof err->where];
    const char *pattern = NULL;
    uint64_t frequency = 0;
    kvt_status status = kvt_json_get_u64(tree, where, "index_topk_freq", false, 1,
                                         KVT_SELECTORS_MAX, &frequency, err);

    if (status == KVT_OK)
        status = kvt_json_get_text(tree, where, "index_topk_pattern", false, &pattern, err);
    if (status != KVT_OK || (frequency == 0 && pattern == NULL))
        return status;
    (void)snprintf(place, sizeof place, "%s/%s", where,
                   pattern != NULL ? "index_topk_pattern" : "index_topk_freq");
    if (llm->index_heads == 0)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "%s is dense: it has no indexer to leave out or to follow", llm->name);
    if (frequency > 1 && pattern != NULL)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "index_topk_freq is %u beside it: which indexers run is said by one of "
                        "them, and 1 leaves it to the pattern",
                        (unsigned)frequency);
    return pattern != NULL ? share_by_pattern(llm, pattern, place, err)
                           : share_by_frequency(llm, frequency, place, err);
}

static kvt_status change_rows(struct kvt_llm *llm, const cJSON *tree, const char *where,
                              struct kvt_error *err)
{
    char place[sizeof err->where];
    uint64_t rows = 1;
    kvt_status status =
        kvt_json_get_u64(tree, where, "block_tokens", false, 1, KVT_PAGE_ROWS, &rows, err);

    if (status != KVT_OK)
        return status;
    (void)snprintf(place, sizeof place, "%s/block_tokens", where);
    return kvt_llm_make_blocks(llm, (uint32_t)rows, place, err);
}

kvt_status llm_change(struct kvt_llm *llm, const cJSON *tree, const char *where,
                      struct kvt_error *err)
{
    kvt_status status = change_indexers(llm, tree, where, err);

    return status == KVT_OK ? change_rows(llm, tree, where, err) : status;
}

kvt_status llm_check_sources(const cJSON *tree, const char *where, struct kvt_error *err)
{
    static const char *const settings[] = {LLM_CHANGE_KEYS};

    return kvt_json_check_sources_but(tree, where, settings, sizeof settings / sizeof settings[0],
                                      err);
}
