/* layout.c -- bytes of one request: what must be in HBM, what in host DRAM. */
#include "kvt/layout.h"

#include <math.h>
#include <string.h>

uint32_t kvt_hot_slots(const struct kvt_llm *llm, const struct kvt_store *store,
                       uint64_t hot_tokens, uint64_t max_tokens)
{
    uint64_t rows = max_tokens / store->compress_ratio;
    uint64_t slots = hot_tokens / store->compress_ratio;

    if (slots < llm->top_k) {
        slots = llm->top_k;
    }
    if (slots > rows) {
        slots = rows;
    }
    return slots < UINT32_MAX ? (uint32_t)slots : UINT32_MAX;
}

static uint64_t store_row_bytes(const struct kvt_llm *llm, const struct kvt_store *store)
{
    return (uint64_t)store->layers * llm->payload.capacity_bytes;
}

/* ---- Rows as they are ------------------------------------------------------
 *
 * The reference paper's Table 1 and Table 3, to the printed digit: index rows of
 * every store, (hot + tail) rows of every payload layer, the draft ring, and a
 * share of the staging. */
struct kvt_staging kvt_staging_of(const struct kvt_llm *llm, uint32_t queries_max, double fraction)
{
    struct kvt_staging staging = {0};
    uint64_t widest = 0;

    if (queries_max < 2 || fraction <= 0) {
        return staging; /* a single query's rows always find a slot: a hot cache holds top_k */
    }
    for (uint32_t i = 0; i < llm->store_count; i++) {
        uint64_t row_bytes = store_row_bytes(llm, &llm->stores[i]);

        widest = row_bytes > widest ? row_bytes : widest;
    }
    staging.call_bytes = (uint64_t)queries_max * llm->top_k * widest;
    staging.session_bytes = (uint64_t)ceil(fraction * (double)staging.call_bytes);
    return staging;
}

uint64_t kvt_staging_arena_bytes(const struct kvt_staging *staging, uint64_t sessions)
{
    return sessions > 0 ? staging->call_bytes + (sessions - 1) * staging->session_bytes : 0;
}

static void count_ideal(const struct kvt_session_spec *spec, struct kvt_session_bytes *out)
{
    const struct kvt_llm *llm = spec->llm;

    for (uint32_t i = 0; i < llm->store_count; i++) {
        const struct kvt_store *store = &llm->stores[i];
        uint64_t rows = spec->tokens / store->compress_ratio;
        uint64_t row_bytes = store_row_bytes(llm, store);
        uint64_t open_rows = kvt_store_block_rows(store) > 1 ? 1 : 0; /* the block being filled */

        out->hbm_by_class[KVT_MEM_INDEX] += rows * llm->index.capacity_bytes;
        if (spec->needs.host_backing) {
            out->host_bytes += rows * row_bytes;
        }
        if (spec->needs.history_in_hbm) {
            out->hbm_by_class[KVT_MEM_PAYLOAD] += (rows + open_rows) * row_bytes;
        } else {
            uint64_t slots = kvt_hot_slots(llm, store, spec->hot_tokens, spec->max_tokens);

            out->hbm_by_class[KVT_MEM_HOT] += slots * row_bytes;
            out->hbm_by_class[KVT_MEM_TAIL] += (kvt_tail_rows(store) + open_rows) * row_bytes;
            /* Our resolver's: the row in each slot, and the slots in their order. */
            out->metadata_bytes += slots * (sizeof(uint32_t) + sizeof(kvt_slot));
        }
    }
    if (!spec->needs.history_in_hbm) {
        uint64_t budget =
            spec->draft_budget_tokens < spec->tokens ? spec->draft_budget_tokens : spec->tokens;

        struct kvt_staging staging = kvt_staging_of(llm, spec->queries_max, spec->staging_fraction);

        out->hbm_by_class[KVT_MEM_STAGING] = staging.session_bytes;
        out->rank_staging_bytes = staging.call_bytes - staging.session_bytes;
        out->hbm_by_class[KVT_MEM_RING] =
            (uint64_t)ceil(kvt_llm_payload_bytes_per_token(llm) * (double)budget);
    }
}

/* ---- Engines -----------------------------------------------------------------
 *
 * One pool of blocks, as vLLM has it:
 *
 *     blocks = pages + payload groups x (pages of the hot cache + tail pages)
 *
 * an index page being a block; without hierarchy, pages of all rows. Its published concurrency
 * calculator, and hisparse/layout.py @0492a439.
 *
 * Pools of rows, as SGLang and TensorRT-LLM have them: index and host rows by the page, a hot cache
 * and the newest rows beside it, tables per payload layer and not per store
 * (hisparse_coordinator.py @009e640a; SparseKvCacheOffloadConfig). */
static uint64_t engine_pages(const struct kvt_engine_layout *layout, const struct kvt_llm *llm,
                             uint64_t rows)
{
    uint64_t page = llm->index_heads > 0 ? layout->page_tokens : layout->dense_page_tokens;

    return (rows + page - 1) / page;
}

static uint64_t engine_page_rows(const struct kvt_engine_layout *layout, const struct kvt_llm *llm)
{
    return llm->index_heads > 0 ? layout->page_tokens : layout->dense_page_tokens;
}

static void count_blocks(const struct kvt_session_spec *spec,
                         const struct kvt_engine_layout *layout, struct kvt_session_bytes *out)
{
    const struct kvt_llm *llm = spec->llm;
    uint64_t page_rows = engine_page_rows(layout, llm);
    uint64_t pages = engine_pages(layout, llm, spec->tokens);
    uint64_t payload_bytes = 0, hot_pages = 0;

    for (uint32_t i = 0; i < llm->store_count; i++) {
        uint64_t slots = kvt_hot_slots(llm, &llm->stores[i], spec->hot_tokens, spec->max_tokens);
        uint64_t slot_pages = engine_pages(layout, llm, slots);

        payload_bytes += page_rows * store_row_bytes(llm, &llm->stores[i]);
        hot_pages = slot_pages > hot_pages ? slot_pages : hot_pages;
    }
    if (spec->needs.host_backing)
        out->host_bytes = pages * payload_bytes;
    if (spec->needs.history_in_hbm) {
        out->hbm_by_class[KVT_MEM_INDEX] =
            pages * page_rows * llm->store_count * llm->index.capacity_bytes;
        out->hbm_by_class[KVT_MEM_PAYLOAD] = pages * payload_bytes;
        return;
    }
    struct kvt_engine_blocks blocks = kvt_engine_blocks_of(layout, llm);
    uint64_t group_bytes = blocks.payload_groups * blocks.block_bytes;
    out->hbm_by_class[KVT_MEM_INDEX] = pages * blocks.block_bytes;
    out->hbm_by_class[KVT_MEM_HOT] = hot_pages * group_bytes;
    out->hbm_by_class[KVT_MEM_TAIL] = layout->tail_pages * group_bytes;
}

/* Rows of the newest tokens that stand beside so many hot slots. */
static uint64_t engine_tail_rows(const struct kvt_engine_layout *layout, const struct kvt_llm *llm,
                                 uint64_t slots)
{
    uint64_t page_rows = engine_page_rows(layout, llm);
    uint64_t rows = (uint64_t)layout->tail_pages * page_rows + layout->tail_rows;

    if (!layout->hot_rounded)
        return rows;
    return engine_pages(layout, llm, slots + rows) * page_rows - slots;
}

static void count_rows(const struct kvt_session_spec *spec, const struct kvt_engine_layout *layout,
                       struct kvt_session_bytes *out)
{
    const struct kvt_llm *llm = spec->llm;
    uint64_t rows = engine_pages(layout, llm, spec->tokens) * engine_page_rows(layout, llm);

    for (uint32_t i = 0; i < llm->store_count; i++) {
        const struct kvt_store *store = &llm->stores[i];
        uint64_t row_bytes = store_row_bytes(llm, store);

        out->hbm_by_class[KVT_MEM_INDEX] += rows * llm->index.capacity_bytes;
        if (spec->needs.host_backing) {
            out->host_bytes += rows * row_bytes;
        }
        if (spec->needs.history_in_hbm) {
            out->hbm_by_class[KVT_MEM_PAYLOAD] += rows * row_bytes;
        } else {
            uint64_t slots = kvt_hot_slots(llm, store, spec->hot_tokens, spec->max_tokens);
            uint64_t tail = engine_tail_rows(layout, llm, slots);

            out->hbm_by_class[KVT_MEM_HOT] += slots * row_bytes;
            out->hbm_by_class[KVT_MEM_TAIL] += tail * row_bytes;
            out->metadata_bytes += store->layers * ((slots + tail) * layout->table_bytes_per_slot +
                                                    slots * layout->order_bytes_per_slot);
        }
    }
}

/* Engines keep every row that some query of a call reads in the hot cache. */
static kvt_status check_engine(const struct kvt_session_spec *spec, const struct kvt_engine *engine,
                               struct kvt_error *err)
{
    const struct kvt_llm *llm = spec->llm;
    double least = engine->hot_least_per_query * spec->queries_max * llm->top_k;

    for (uint32_t i = 0; i < llm->store_count; i++) {
        if (llm->stores[i].compress_ratio > 1) {
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->path,
                            "no layout of %s for %s: some of its rows are of %u tokens, and no "
                            "engine's layout of such rows is established; \"ideal\" needs none",
                            engine->name, llm->name, llm->stores[i].compress_ratio);
        }
    }
    if (!spec->needs.history_in_hbm && spec->queries_max > 1 && (double)spec->hot_tokens < least) {
        return kvt_fail(err, KVT_ERR_INVALID, "residency.hot_tokens",
                        "%s has no staging: %u queries of %u rows need at least %.0f hot tokens; "
                        "there are %llu",
                        engine->name, spec->queries_max, llm->top_k, least,
                        (unsigned long long)spec->hot_tokens);
    }
    return KVT_OK;
}

static kvt_status check_spec(const struct kvt_session_spec *spec, const struct kvt_engine *engine,
                             struct kvt_error *err)
{
    if (spec->max_tokens < spec->tokens || spec->max_tokens > UINT32_MAX) {
        return kvt_fail(err, KVT_ERR_INVALID, spec->llm->name,
                        "a context of %llu tokens that may grow to %llu: it grows to at least what "
                        "it is, and to at most 4294967295",
                        (unsigned long long)spec->tokens, (unsigned long long)spec->max_tokens);
    }
    if (spec->queries_max == 0) {
        return kvt_fail(err, KVT_ERR_INVALID, spec->llm->name,
                        "a round of 0 queries: it has at least 1");
    }
    return engine != NULL ? check_engine(spec, engine, err) : KVT_OK;
}

kvt_status kvt_session_bytes(const struct kvt_session_spec *spec, const struct kvt_engine *engine,
                             struct kvt_session_bytes *out, struct kvt_error *err)
{
    struct kvt_session_bytes bytes = {0};
    kvt_status status = check_spec(spec, engine, err);

    if (status != KVT_OK) {
        return status;
    }
    if (engine == NULL) {
        count_ideal(spec, &bytes);
    } else if (engine->layout.kind == KVT_ENGINE_BLOCKS) {
        count_blocks(spec, &engine->layout, &bytes);
    } else {
        count_rows(spec, &engine->layout, &bytes);
    }
    if (spec->drafter != NULL) {
        bytes.hbm_by_class[KVT_MEM_RING] += kvt_drafter_ring_bytes(spec->drafter);
    }
    bytes.window_bytes = spec->llm->window_bytes +
                         (uint64_t)ceil(spec->llm->kv_bytes_per_token_other * (double)spec->tokens);
    for (int i = 0; i < KVT_MEM_CLASSES; i++) {
        bytes.hbm_bytes += bytes.hbm_by_class[i];
    }
    *out = bytes;
    return KVT_OK;
}

double kvt_distinct_granules(double rows_of_store, double row_bytes, double missed_rows)
{
    double granules = ceil(rows_of_store * row_bytes / KVT_GRANULE_BYTES);

    if (granules <= 1 || missed_rows <= 0)
        return missed_rows > 0 ? 1 : 0;
    /* Rounded so coarsely that no libm's last bits show. */
    return rint(granules * -expm1(missed_rows * log1p(-1 / granules)) * 0x1p16) * 0x1p-16;
}

/* Row i of R has its first part at i s and its rest at R s + i r, where R (s + r) are the page's
 * bytes: they lie from R s to R r apart, evenly. Two places that far apart share a granule G with
 * the chance max(0, 1 - apart / G). */
double kvt_planes_apart_share(double page_bytes, double shallow_fraction)
{
    double first = page_bytes * shallow_fraction / KVT_GRANULE_BYTES;
    double rest = page_bytes * (1 - shallow_fraction) / KVT_GRANULE_BYTES;
    double least = first < rest ? first : rest, most = first < rest ? rest : first;

    if (most <= 1)
        return (least + most) / 2;
    if (least >= 1)
        return 1;
    return 1 - (1 - least) * (1 - least) / 2 / (most - least);
}
