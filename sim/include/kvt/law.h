/* kvt/law.h -- a law says which rows the indexer selects. */
#ifndef KVT_LAW_H
#define KVT_LAW_H

#include "kvt/plugin.h"
#include "kvt/row_set.h"

KVT_BEGIN_DECLS

/* One query of a round, a token position whose selection is asked for. A round begins
 * with the token behind the last committed one, at depth 0. Path 0 is the tokens that
 * will be committed; any other path is a draft that will be rejected: from depth `fork`
 * on it goes its own way from where path 0 was, with chances of its own that no later
 * round sees again. */
struct kvt_law_query {
    uint32_t depth;
    uint32_t path; /* 0: committed; 1 to side_paths: rejected */
    uint32_t fork; /* of a rejected path: 1 to its depth; 0 on path 0 */
};

/* What a stream is asked for at once, and moved on by. */
struct kvt_law_round {
    const struct kvt_law_query *queries; /* [query_count] along each path with rising depth */
    uint32_t query_count;
    uint32_t committed_tokens;    /* the stream moves on by so many; at least 1, and path 0 is
                                   * asked for at depths below it only */
    const uint32_t *visible_rows; /* [deepest query + 1] rows that the query at each depth sees;
                                   * never falling, from round to round too */
};

/* Selections that are made elsewhere, as by an indexer on a GPU: of the round in hand. */
struct kvt_law_source {
    void *context;
    /* Of the round that the request's stream is asked for next, query q's rows, ascending, into
     * rows[top_k]; returns how many. From any thread, of one request by one at a time. */
    uint32_t (*read)(void *context, uint32_t request, uint32_t selector, uint32_t query,
                     uint32_t *rows);
};

/* What a law may know before the run. Borrowed until prepare() returns, but for whoever hears of
 * the progress, who is there as long as the law is. */
struct kvt_law_env {
    struct kvt_params params;
    uint32_t top_k;
    uint32_t stream_count;        /* selectors of the model: streams of a request */
    const uint32_t *stream_store; /* [stream_count] the store that each reads; NULL: one each.
                                   * Stores are numbered by layer: neighbours are alike */
    const uint32_t *stream_tokens_per_row; /* [stream_count] of that store, as in
                                            * kvt_law_stream_env; NULL: any */
    uint32_t side_paths;                   /* that a round may have; 0: none is ever rejected */
    uint32_t side_tokens;                  /* queries of the longest rejected path */
    const uint32_t *context_rows; /* [context_count] lengths that many requests start with (fixed
                                   * laws); may be empty */
    const uint32_t *context_tokens_per_row; /* [context_count] of the same lengths, as in
                                             * kvt_law_stream_env; NULL: 1 for all */
    size_t context_count;
    uint32_t output_tokens; /* a typical longest output, for how much to prepare */
    uint64_t run_seed;
    const char *cache_dir; /* folder where prepared things may be kept from run to run, made when
                            * needed; NULL: none. Never changes a result */
    unsigned threads;      /* at most so many to prepare with; never changes a result */
    /* Called now and then by the thread that called prepare() or stream_init(); false ends that
     * with KVT_ERR_INTERRUPTED. Optional. */
    bool (*progress)(void *context, double done_fraction, const char *what);
    void *progress_context;
    const struct kvt_host *host;
    bool all_streams; /* every stream of every request will be opened: what they share is best made
                       * ahead; else as it is needed */
    const struct kvt_law_source *source; /* NULL: there is none; of the law's life */
    void *context; /* of a table that the run's caller made, as kvt_recorder_law(); else NULL */
};

/* One (request, selector) pair's stream of selections. */
struct kvt_law_stream_env {
    uint32_t request;
    uint32_t selector;       /* [0, stream_count) */
    uint32_t context_rows;   /* rows visible to its first query, in the store's own rows */
    uint32_t rows_max;       /* rows it can ever see */
    uint32_t tokens_per_row; /* of the store: a row is born every so many calls; 1, 2, 4 */
    uint32_t context_tokens; /* committed: its first query is the token behind them */
    bool looks_ahead; /* a second one of the pair, which goes ahead for whoever sees the future */
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

    /* The selections of a round: query q's into sets[q], min(top_k, visible_rows of its depth)
     * rows below that, or fewer where it varies. Writes all of each set's
     * kvt_row_words(visible_rows of the deepest query) words. sets NULL: nobody looks, and the
     * stream only moves on. */
    void (*select)(const void *law, void *stream, const struct kvt_law_round *round,
                   uint64_t *const *sets);

    /* Behind select(), which leaves the stream at the newest committed query: of each page of
     * rows_per_page rows (a power of two), the largest score that this query gives one of the
     * visible_rows it sees; FLT_MAX where one is selected whatever its score. Writes
     * scores[pages that have a row]. The stream goes on as if nobody had asked. Optional: the law
     * has no scores. */
    void (*page_scores)(const void *law, void *stream, uint32_t visible_rows,
                        uint32_t rows_per_page, float *scores);

    bool reads_source; /* it has no selections of its own, but passes on env.source's, which it
                        * knows round by round */

    /* Behind each step of a backend, by one thread: select() cannot fail, and says here what went
     * wrong. Optional: nothing can. */
    kvt_status (*end_step)(void *law, struct kvt_error *err);
    /* Nobody asks this stream any more; by one thread, between steps. Not told of one that looks
     * ahead. Optional: it holds nothing. */
    void (*stream_fini)(void *law, void *stream);

    bool varies; /* sets may have fewer than min(top_k, visible_rows) rows, but have one: in exact
                  * runs only, whose backend looks at every set */
};

KVT_END_DECLS
#endif
