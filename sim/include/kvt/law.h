/* kvt/law.h -- a law says which rows the indexer selects. */
#ifndef KVT_LAW_H
#define KVT_LAW_H

#include "kvt/plugin.h"

KVT_BEGIN_DECLS

/* What a law may know before the run. Borrowed; valid for the law's life. */
struct kvt_law_env {
    struct kvt_params params;
    uint32_t top_k;
    uint32_t stream_count;        /* selectors of the model: independent streams of a request */
    const uint32_t *context_rows; /* [context_count] lengths that many requests start with (fixed
                                   * laws); may be empty */
    const uint32_t *context_tokens_per_row; /* [context_count] of the same lengths, as in
                                             * kvt_law_stream_env; NULL: 1 for all */
    size_t context_count;
    uint32_t output_tokens; /* a typical longest output, for how much to prepare */
    uint64_t run_seed;
    unsigned threads; /* at most so many to prepare with; never changes a result */
    /* Called now and then by the thread that called prepare(); false ends it with
     * KVT_ERR_INTERRUPTED. Optional. */
    bool (*progress)(void *context, double done_fraction, const char *what);
    void *progress_context;
    const struct kvt_host *host;
};

/* One (request, selector) pair's stream of selections. */
struct kvt_law_stream_env {
    uint32_t request;
    uint32_t selector;       /* [0, stream_count) */
    uint32_t context_rows;   /* rows visible to its first query, in the store's own rows */
    uint32_t rows_max;       /* rows it can ever see */
    uint32_t tokens_per_row; /* of the store: a row is born every so many calls; 1, 2, 4 */
};

/* Shared, read-only after prepare(): streams of different requests may be used
 * by different threads. The one kind of table that owns memory of its own
 * (tapes are large and grow with the lengths that turn up). */
struct kvt_law {
    struct kvt_plugin_info info;
    enum kvt_basis basis; /* of everything that is counted in rows */

    /* Makes what all streams share. *out is freed by free(). */
    kvt_status (*prepare)(const struct kvt_law_env *env, void **out, struct kvt_error *err);
    void (*free)(void *law); /* takes NULL */

    /* One line for the summary: what stands behind the selections ("8 tapes of
     * 1,024 steps at 100,032 rows"). Written into out[bytes]. */
    void (*describe)(const void *law, char *out, size_t bytes);

    /* Host-owned state of one stream, zeroed before init. */
    size_t (*stream_bytes)(const void *law, const struct kvt_law_stream_env *env);
    kvt_status (*stream_init)(void *law, void *stream, const struct kvt_law_stream_env *env,
                              struct kvt_error *err);

    /* The selection of the next committed token: min(top_k, visible_rows)
     * distinct rows below visible_rows, ascending. visible_rows grows by one
     * every tokens_per_row calls. Writes rows[top_k], returns how many. */
    uint32_t (*select)(const void *law, void *stream, uint32_t visible_rows, uint32_t *rows);
};

KVT_END_DECLS
#endif
