/* kvt/kvsel.h -- recorded selections: coded lists, files of them, and reading a round at once.
 *
 * docs/kvsel.md describes the file byte by byte. A block, the coded selections of 64
 * consecutive tokens, is the same bytes in memory and in a file. */
#ifndef KVT_KVSEL_H
#define KVT_KVSEL_H

#include "kvt/error.h"
#include "kvt/row_set.h"

KVT_BEGIN_DECLS

enum {
    KVT_KVSEL_BLOCK_TOKENS = 64,
    KVT_KVSEL_SIDES_MAX = 1024, /* selections of all side branches after one token */
};

/* Largest history of a stream, and most streams of a file. */
#define KVT_KVSEL_ROWS_MAX (UINT32_C(1) << 30)
#define KVT_KVSEL_STREAMS_MAX (UINT32_C(1) << 20)
#define KVT_KVSEL_NOTE_MAX (UINT32_C(1) << 30) /* bytes of its text */

/* What the selections of a stream have in common. */
struct kvt_kvsel_shape {
    uint32_t top_k;
    uint32_t first_rows;     /* visible to token 0 */
    uint32_t tokens_per_row; /* tokens after which one row more is visible */
    uint32_t side_paths;     /* branches after each token, and selections of each: what a draft */
    uint32_t side_tokens;    /* selects that is rejected there; both are 0 or neither */
};

static inline uint32_t kvt_kvsel_visible(const struct kvt_kvsel_shape *shape, uint32_t token)
{
    return shape->first_rows + token / shape->tokens_per_row;
}

/* One stream: block b holds the tokens from 64 b on. Blocks may be added while others
 * are read. */
struct kvt_kvsel_stream {
    struct kvt_kvsel_shape shape;
    uint32_t token_count;
    unsigned char **blocks; /* [token_count / 64, rounded up] */
};

/* ---- Coding ---------------------------------------------------------------------- */

/* Turns the selections of one block, as sets, into its bytes. */
struct kvt_kvsel_coder;

/* NULL when memory is short. */
struct kvt_kvsel_coder *kvt_kvsel_coder_new(const struct kvt_kvsel_shape *shape);
void kvt_kvsel_coder_free(struct kvt_kvsel_coder *coder); /* takes NULL */

/* Begins a block of 1 to 64 tokens; `stream` is its number in the file. */
KVT_CHECKED kvt_status kvt_kvsel_coder_begin(struct kvt_kvsel_coder *coder, uint32_t stream,
                                             uint32_t first_token, uint32_t token_count,
                                             struct kvt_error *err);

/* The next selection: token by token its own, then those of its branches, path after path.
 * `from` is the selection before it on its branch, the token's own for a branch's first, and
 * NULL for a token's own: a branch is coded as changes. Sets of `words` words. */
KVT_CHECKED kvt_status kvt_kvsel_coder_add(struct kvt_kvsel_coder *coder, const uint64_t *set,
                                           const uint64_t *from, size_t words,
                                           struct kvt_error *err);

/* The finished block, for free(): of the tokens whose selections have all been added, one at
 * least. */
KVT_CHECKED kvt_status kvt_kvsel_coder_finish(struct kvt_kvsel_coder *coder, unsigned char **out,
                                              struct kvt_error *err);

size_t kvt_kvsel_block_bytes(const unsigned char *block);

/* A block as one of another file's stream: its number is all that a block knows of others. */
void kvt_kvsel_block_renumber(unsigned char *block, uint32_t stream);

/* ---- Reading --------------------------------------------------------------------- */

/* Which selection: a token's own, or the side_token-th of a branch after it. */
struct kvt_kvsel_place {
    uint32_t token;
    uint32_t side_path; /* 0: the token's own; 1 to side_paths */
    uint32_t side_token;
};

/* How recorded rows lie in the history of whoever reads. Of the old ones, below old_rows,
 * those that fit into its whole pages turn by shift_rows within them, and the rest stay;
 * rows born later follow its own stream_rows. With is_shifted nothing turns: rows from
 * front_rows on keep their distance to the newest row, and those before it stay. Where the
 * recording is a loop that has been gone through before, the last reborn_rows of the old ones
 * are born again, and all that are born lie skip_rows further. */
struct kvt_kvsel_map {
    uint32_t old_rows;    /* recorded rows that are visible where reading begins */
    uint32_t stream_rows; /* the reader's rows there; at least as many */
    uint32_t shift_rows;  /* whole pages, less than the reader's */
    uint32_t front_rows;
    bool is_shifted;
    uint32_t reborn_rows, skip_rows;
};

/* Reads place i into sets[i], all of its `words`. The blocks of the places are there, and
 * every mapped row lies in the words. Places of one branch, and those after one token, cost
 * least side by side. */
void kvt_kvsel_read(const struct kvt_kvsel_stream *stream, const struct kvt_kvsel_place *places,
                    size_t place_count, const struct kvt_kvsel_map *map, uint64_t *const *sets,
                    size_t words);

/* ---- Files ----------------------------------------------------------------------- */

/* What a file says of itself. Streams are numbered request * selector_count + selector. */
struct kvt_kvsel_header {
    uint32_t top_k, side_paths, side_tokens;
    uint32_t request_count, selector_count;
    uint64_t key; /* of what decided the contents; 0: recorded */
    /* JSON text on where the selections come from; NULL and 0: none. Borrowed: what was read lies
     * in the file's or the reader's memory, with a NUL behind it. */
    const char *note;
    uint64_t note_bytes;
};

/* Writes a file in one pass: blocks in any order that keeps each stream's own. Nothing
 * appears before kvt_kvsel_commit(). */
struct kvt_kvsel_writer;
/* shapes[request_count * selector_count]; their counts are the header's. */
KVT_CHECKED kvt_status kvt_kvsel_create(const char *path, const struct kvt_kvsel_header *header,
                                        const struct kvt_kvsel_shape *shapes,
                                        struct kvt_kvsel_writer **out, struct kvt_error *err);
KVT_CHECKED kvt_status kvt_kvsel_put(struct kvt_kvsel_writer *writer, const unsigned char *block,
                                     struct kvt_error *err);
KVT_CHECKED kvt_status kvt_kvsel_commit(struct kvt_kvsel_writer *writer, struct kvt_error *err);
void kvt_kvsel_discard(struct kvt_kvsel_writer *writer); /* takes NULL */

/* A whole file in memory. */
struct kvt_kvsel;

/* KVT_ERR_PARSE names the byte where a file is not what docs/kvsel.md says: then nothing of
 * it is used. With `counts` every selection is decoded and its rows counted. */
KVT_CHECKED kvt_status kvt_kvsel_load(const char *path, bool counts, struct kvt_kvsel **out,
                                      struct kvt_error *err);
/* The same of bytes in memory, which go on belonging to the caller and must stay. */
KVT_CHECKED kvt_status kvt_kvsel_parse(unsigned char *bytes, size_t byte_count, const char *where,
                                       bool counts, struct kvt_kvsel **out, struct kvt_error *err);
void kvt_kvsel_free(struct kvt_kvsel *file); /* takes NULL */
const struct kvt_kvsel_header *kvt_kvsel_header_of(const struct kvt_kvsel *file);
const struct kvt_kvsel_stream *kvt_kvsel_stream_of(const struct kvt_kvsel *file, uint32_t request,
                                                   uint32_t selector);

/* A file read block by block, which may be larger than memory: 16 bytes a block are kept. Once
 * open it may be used by several threads, each with a cursor of its own. */
struct kvt_kvsel_reader;
/* Reads all of the file once and checks it as kvt_kvsel_load() does, but for counting rows, which
 * cursors do. on_read() is told how much is done; false: KVT_ERR_INTERRUPTED. It may be NULL. */
KVT_CHECKED kvt_status kvt_kvsel_open(const char *path,
                                      bool (*on_read)(void *context, double fraction),
                                      void *context, struct kvt_kvsel_reader **out,
                                      struct kvt_error *err);
void kvt_kvsel_close(struct kvt_kvsel_reader *reader); /* takes NULL */
const struct kvt_kvsel_header *kvt_kvsel_reader_header(const struct kvt_kvsel_reader *reader);
/* Its shape and how many tokens it has; its blocks are not there. */
const struct kvt_kvsel_stream *kvt_kvsel_reader_stream(const struct kvt_kvsel_reader *reader,
                                                       uint32_t stream);

/* One block of a reader's file in memory. The reader must stay. */
struct kvt_kvsel_cursor;
KVT_CHECKED kvt_status kvt_kvsel_cursor_new(const struct kvt_kvsel_reader *reader,
                                            struct kvt_kvsel_cursor **out, struct kvt_error *err);
void kvt_kvsel_cursor_free(struct kvt_kvsel_cursor *cursor); /* takes NULL */
/* A token's own selection into all `words` of the set, in which what it can see lies. Tokens of one
 * block cost least side by side. A file that has changed is refused. */
KVT_CHECKED kvt_status kvt_kvsel_cursor_read(struct kvt_kvsel_cursor *cursor, uint32_t stream,
                                             uint32_t token, uint64_t *set, size_t words,
                                             struct kvt_error *err);
/* The bytes of the stream's block of tokens 64 * block and on; borrowed until the next call. */
KVT_CHECKED kvt_status kvt_kvsel_cursor_block(struct kvt_kvsel_cursor *cursor, uint32_t stream,
                                              uint32_t block, const unsigned char **out,
                                              struct kvt_error *err);

/* True when the file begins as one of this format does. */
bool kvt_kvsel_is_magic(const void *bytes, size_t byte_count);

/* ---- What an engine returned -------------------------------------------------------- */

/* What a conversion found. */
struct kvt_kvsel_npy {
    uint32_t tokens, layers, top_k;
    uint32_t silent_layers; /* that hold nothing but -1: left out */
    uint32_t first_rows;    /* rows visible to the first token: as told, or the fewest that fit */
};

/* Converts a NumPy file of int32 [tokens, layers, k], -1 where there is no row: the indexer
 * top-k as SGLang returns it. first_rows 0: the fewest rows that all selections fit into.
 * The file is read a few tokens at a time. */
KVT_CHECKED kvt_status kvt_kvsel_from_npy(const char *path, const char *to_path,
                                          uint32_t first_rows, struct kvt_kvsel_npy *out,
                                          struct kvt_error *err);

/* ---- Statistics ---------------------------------------------------------------------- */

enum {
    KVT_KVSEL_LAGS = 7,
    KVT_KVSEL_UNIONS = 8,
};

/* Means over the tokens that see more rows than they select, of all streams; NaN where
 * there is none. */
struct kvt_kvsel_stats {
    uint64_t tokens;   /* of all streams */
    uint64_t selected; /* rows of their own selections */
    uint32_t rows_min, rows_max;
    uint64_t sampled_tokens;         /* behind the means of lag 1 */
    double overlap[KVT_KVSEL_LAGS];  /* rows shared with the selection kvt_kvsel_lags[i] tokens
                                      * before, over k */
    double unions[KVT_KVSEL_UNIONS]; /* distinct rows of i + 1 consecutive selections, over k */
};
extern const uint32_t kvt_kvsel_lags[KVT_KVSEL_LAGS];

KVT_CHECKED kvt_status kvt_kvsel_stats_of(const struct kvt_kvsel *file, struct kvt_kvsel_stats *out,
                                          struct kvt_error *err);

KVT_END_DECLS
#endif
