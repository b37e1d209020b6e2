/* layout.c -- bytes of one request: what must be in HBM, what in host DRAM. */
#include "kvt/layout.h"

#include <math.h>
#include <string.h>

const char *kvt_engine_name(enum kvt_engine engine)
{
    static const char *const names[KVT_ENGINES] = {
        [KVT_ENGINE_IDEAL] = "ideal", [KVT_ENGINE_VLLM] = "vllm", [KVT_ENGINE_SGLANG] = "sglang"};

    return (unsigned)engine < KVT_ENGINES ? names[engine] : "unknown";
}

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

static uint64_t pages_of(uint64_t rows)
{
    return (rows + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS;
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

/* ---- vLLM ------------------------------------------------------------------
 *
 *     blocks = ceil(tokens / 64) x index groups
 *            + payload groups x (ceil(hot / 64) + tail pages)
 *
 * of one shared pool; without hierarchy, ceil(tokens / 64) resident pages. From
 * vLLM's published concurrency calculator and hisparse/layout.py @0492a439. */
static void count_vllm(const struct kvt_session_spec *spec, struct kvt_session_bytes *out)
{
    const struct kvt_llm *llm = spec->llm;
    const struct kvt_vllm_layout *layout = &llm->vllm;
    uint64_t pages = pages_of(spec->tokens);
    uint64_t hot_pages = 0;

    if (spec->needs.host_backing) {
        out->host_bytes = pages * layout->host_page_bytes;
    }
    if (spec->needs.history_in_hbm) {
        uint64_t index_page_bytes = layout->resident_page_bytes - layout->host_page_bytes;

        out->hbm_by_class[KVT_MEM_INDEX] = pages * index_page_bytes;
        out->hbm_by_class[KVT_MEM_PAYLOAD] = pages * layout->host_page_bytes;
        return;
    }
    for (uint32_t i = 0; i < llm->store_count; i++) {
        uint64_t slots = kvt_hot_slots(llm, &llm->stores[i], spec->hot_tokens, spec->max_tokens);

        hot_pages = pages_of(slots) > hot_pages ? pages_of(slots) : hot_pages;
    }
    out->hbm_by_class[KVT_MEM_INDEX] = pages * layout->index_groups * layout->gpu_page_bytes;
    out->hbm_by_class[KVT_MEM_HOT] = hot_pages * layout->payload_groups * layout->gpu_page_bytes;
    out->hbm_by_class[KVT_MEM_TAIL] =
        (uint64_t)layout->tail_pages * layout->payload_groups * layout->gpu_page_bytes;
}

/* ---- SGLang ----------------------------------------------------------------
 *
 * hisparse_coordinator.py @009e640a: a device buffer of B rows and one page, whose
 * first row holds the newest token; index and host rows by the page of 64; tables
 * per payload layer, not per store. Rows of the model file's format. */
static void count_sglang(const struct kvt_session_spec *spec, struct kvt_session_bytes *out)
{
    const struct kvt_llm *llm = spec->llm;

    for (uint32_t i = 0; i < llm->store_count; i++) {
        const struct kvt_store *store = &llm->stores[i];
        uint64_t rows = pages_of(spec->tokens / store->compress_ratio) * KVT_PAGE_ROWS;
        uint64_t row_bytes = store_row_bytes(llm, store);

        out->hbm_by_class[KVT_MEM_INDEX] += rows * llm->index.capacity_bytes;
        if (spec->needs.host_backing) {
            out->host_bytes += rows * row_bytes;
        }
        if (spec->needs.history_in_hbm) {
            out->hbm_by_class[KVT_MEM_PAYLOAD] += rows * row_bytes;
        } else {
            uint64_t slots = kvt_hot_slots(llm, store, spec->hot_tokens, spec->max_tokens);
            uint64_t padded = slots + KVT_PAGE_ROWS;

            out->hbm_by_class[KVT_MEM_HOT] += slots * row_bytes;
            out->hbm_by_class[KVT_MEM_TAIL] += KVT_PAGE_ROWS * row_bytes;
            out->metadata_bytes += store->layers * (padded * llm->sglang.table_bytes_per_slot +
                                                    slots * llm->sglang.order_bytes_per_slot);
        }
    }
}

/* Both engines keep every row that some query of a call reads in the hot cache. */
static kvt_status check_engine(const struct kvt_session_spec *spec, enum kvt_engine engine,
                               struct kvt_error *err)
{
    const struct kvt_llm *llm = spec->llm;
    uint64_t least = (uint64_t)spec->queries_max * llm->top_k;
    uint64_t page_bytes = (uint64_t)ceil(kvt_llm_payload_bytes_per_token(llm) * KVT_PAGE_ROWS);
    bool known = engine == KVT_ENGINE_VLLM ? llm->vllm.gpu_page_bytes > 0
                                           : llm->sglang.table_bytes_per_slot > 0;

    if (!known) {
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->path,
                        "no layout of %s for %s: the file has no engines.%s, or index_topk or "
                        "block_tokens changed the rows that it is for; \"ideal\" needs none",
                        kvt_engine_name(engine), llm->name, kvt_engine_name(engine));
    }
    if (engine == KVT_ENGINE_VLLM && llm->vllm.host_page_bytes < page_bytes) {
        return kvt_fail(err, KVT_ERR_INVALID, llm->path,
                        "engines.vllm.host_page_bytes %llu does not hold 64 tokens of %s rows, "
                        "which take %llu: engines.vllm of this row format is expected",
                        (unsigned long long)llm->vllm.host_page_bytes, llm->payload.name,
                        (unsigned long long)page_bytes);
    }
    if (!spec->needs.history_in_hbm && spec->queries_max > 1 && spec->hot_tokens < least) {
        return kvt_fail(err, KVT_ERR_INVALID, "residency.hot_tokens",
                        "%s has no staging: %u queries of %u rows need at least %llu hot tokens; "
                        "there are %llu",
                        kvt_engine_name(engine), spec->queries_max, llm->top_k,
                        (unsigned long long)least, (unsigned long long)spec->hot_tokens);
    }
    return KVT_OK;
}

static kvt_status check_spec(const struct kvt_session_spec *spec, enum kvt_engine engine,
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
    switch (engine) {
    case KVT_ENGINE_IDEAL:
        return KVT_OK;
    case KVT_ENGINE_VLLM:
    case KVT_ENGINE_SGLANG:
        return check_engine(spec, engine, err);
    default:
        return kvt_fail(err, KVT_ERR_INVALID, spec->llm->name,
                        "engine number %u; there are ideal, vllm and sglang", (unsigned)engine);
    }
}

kvt_status kvt_session_bytes(const struct kvt_session_spec *spec, enum kvt_engine engine,
                             struct kvt_session_bytes *out, struct kvt_error *err)
{
    struct kvt_session_bytes bytes = {0};
    kvt_status status = check_spec(spec, engine, err);

    if (status != KVT_OK) {
        return status;
    }
    if (engine == KVT_ENGINE_VLLM) {
        count_vllm(spec, &bytes);
    } else if (engine == KVT_ENGINE_SGLANG) {
        count_sglang(spec, &bytes);
    } else {
        count_ideal(spec, &bytes);
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
