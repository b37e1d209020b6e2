/* trace_file.h -- what the readers of trace files share: rows, columns, formats. */
#ifndef KVT_TRACE_FILE_H
#define KVT_TRACE_FILE_H

#include "kvt/json.h"
#include "kvt/page_keys.h"
#include "kvt/workload.h"

/* Input and output are each below it, so that their sum fits 32 bits. */
#define KVT_TRACE_TOKENS_MAX ((uint64_t)INT32_MAX)

/* A time whose name gives no unit: the format says which. */
#define KVT_TRACE_UNIT_OF_FORMAT 0

enum kvt_trace_row_kind {
    KVT_TRACE_ROW_REQUEST = 0,
    KVT_TRACE_ROW_FAILED, /* the file says that this call failed */
    KVT_TRACE_ROW_IDLE,   /* a window of rates in which nothing arrives; has no time */
    KVT_TRACE_ROW_MORE    /* one more request of the row before it */
};

/* Names that are given by number once they are known (names.c). */
enum kvt_trace_name_kind {
    KVT_TRACE_NAME_CLASS = 0,
    KVT_TRACE_NAME_TASK,
    KVT_TRACE_NAME_KINDS
};
#define KVT_TRACE_NO_NAME UINT16_MAX

/* As a row gives it. */
struct kvt_trace_name {
    char text[KVT_TASK_NAME_BYTES]; /* cut where it is longer */
    size_t bytes;                   /* of the whole; 0: none */
    size_t column;                  /* 1-based field of a CSV row; 0: a member of a JSON object */
};

/* One row as the file has it: nothing dropped, rebased or scaled yet. */
struct kvt_trace_row {
    enum kvt_trace_row_kind kind;
    int64_t time_ns; /* on the file's own clock, not negative */
    uint32_t input_tokens, output_tokens;
    uint64_t session; /* UINT64_MAX: none */
    uint32_t turn;
    bool is_orphan; /* names a parent that is not above it */
    uint32_t prefix_tokens;
    uint64_t prefix_group;
    bool follows; /* the row of its session before it, by think_ns */
    int64_t think_ns;
    /* [page_key_count] where the file says what a prompt consists of beyond sessions and groups,
     * and keys are wanted; borrowed from the reader until its next row. */
    bool has_page_keys;
    uint32_t page_key_count;
    const uint64_t *page_keys;
    struct kvt_trace_name names[KVT_TRACE_NAME_KINDS];
    uint32_t fields; /* bit f: it has something in kvt_trace_field f */
    uint64_t line;
};

/* ---- Columns and values (columns.c) ------------------------------------------ */

enum kvt_trace_field {
    KVT_TRACE_ARRIVAL = 0,
    KVT_TRACE_INPUT,
    KVT_TRACE_OUTPUT,
    KVT_TRACE_REQUIRED_FIELDS, /* the ones above */
    KVT_TRACE_SESSION = KVT_TRACE_REQUIRED_FIELDS,
    KVT_TRACE_TURN,
    KVT_TRACE_SLO_CLASS,
    KVT_TRACE_PREFIX_GROUP,
    KVT_TRACE_PREFIX_TOKENS,
    KVT_TRACE_THINK_S,
    KVT_TRACE_TASK,
    KVT_TRACE_HASH_IDS, /* from here on: of any shape, looked at by their formats or not at all */
    KVT_TRACE_CHAT_ID,
    KVT_TRACE_PARENT_CHAT_ID,
    KVT_TRACE_TENANT,
    KVT_TRACE_SUB_REQUESTS,
    KVT_TRACE_FIELDS,
    KVT_TRACE_OTHER = KVT_TRACE_FIELDS /* a name that means nothing here */
};

struct kvt_trace_column {
    enum kvt_trace_field field;
    int64_t unit_ns; /* of an arrival */
};

/* A name as it is compared: lower case, blanks as underscores. False when it is
 * longer than any name that means something. */
bool kvt_trace_spell(const char *name, char out[64]);
struct kvt_trace_column kvt_trace_column_of(const char *name);
/* "arrival time", "input length", ... */
const char *kvt_trace_field_name(enum kvt_trace_field field);
/* The names that a field goes by, separated by ", ". */
void kvt_trace_aliases(enum kvt_trace_field field, char *list, size_t list_bytes);
struct kvt_trace_source;
/* Whether hash_ids say what a file's prompts consist of. */
bool kvt_trace_reads_hash_ids(const struct kvt_trace_source *source);
/* What of these fields (bits) a file says for nothing, and what convert cannot write: names into
 * lists of list_bytes. */
void kvt_trace_name_unused(uint32_t fields, const struct kvt_trace_source *source, char *unused,
                           char *unconverted, size_t list_bytes);
/* Appends a name to a list for a message; "..." stands for those that find no room. */
void kvt_trace_list(char *list, size_t list_bytes, const char *name);

/* Where a value stands. Put into words only when there is something to say. */
struct kvt_trace_place {
    const char *path;
    uint64_t line;
    size_t column;    /* 1-based field of a CSV row; 0: of a JSON object */
    const char *name; /* of the column or member */
};
void kvt_trace_where(const struct kvt_trace_place *place, char out[256]);

/* A cell of CSV or a member of JSON: text, or number when text is NULL. */
struct kvt_trace_value {
    const char *text;
    double number;
};
/* Refuses null, true, false, arrays and objects. */
KVT_CHECKED kvt_status kvt_trace_value_of_json(const cJSON *item,
                                               const struct kvt_trace_place *place,
                                               struct kvt_trace_value *out, struct kvt_error *err);
KVT_CHECKED kvt_status kvt_trace_count(const struct kvt_trace_value *value,
                                       const struct kvt_trace_place *place, uint64_t maximum,
                                       uint64_t *out, struct kvt_error *err);
/* unit_ns 0: seconds, or the text of a date. */
KVT_CHECKED kvt_status kvt_trace_time(const struct kvt_trace_value *value,
                                      const struct kvt_trace_place *place, int64_t unit_ns,
                                      int64_t *out_ns, struct kvt_error *err);
/* Checks a value and puts it where its column belongs in *row. */
KVT_CHECKED kvt_status kvt_trace_put(struct kvt_trace_column column,
                                     const struct kvt_trace_value *value,
                                     const struct kvt_trace_place *place, struct kvt_trace_row *row,
                                     struct kvt_error *err);
/* A row without its optional fields. */
struct kvt_trace_row kvt_trace_row_at(uint64_t line);

/* "2023-11-16 18:17:03.9799600", "2024-05-10T00:00:00+02:00": ns since 1970, UTC
 * where no zone is given. False when the text is no such date (date.c). */
bool kvt_trace_date_ns(const char *text, int64_t *out_ns);

/* ---- JSON objects one after the other (objects.c) ------------------------------- */

#define KVT_TRACE_DOCUMENT_BYTES_MAX ((size_t)1 << 30)

struct kvt_trace_source;
struct kvt_trace_objects;
KVT_CHECKED kvt_status kvt_trace_objects_open(const struct kvt_trace_source *source,
                                              struct kvt_trace_objects **out,
                                              struct kvt_error *err);
void kvt_trace_objects_close(struct kvt_trace_objects *objects); /* takes NULL */
/* The next object, borrowed until the next call; NULL at the end. A value that is none is
 * refused. */
KVT_CHECKED kvt_status kvt_trace_objects_next(struct kvt_trace_objects *objects,
                                              const cJSON **object, struct kvt_error *err);
uint64_t kvt_trace_objects_line(const struct kvt_trace_objects *objects); /* where it begins */
/* Checks member `name` of an object, which must be there, and puts it where its column belongs;
 * `place` is the object's, its name the path to it ("" for the line itself). */
KVT_CHECKED kvt_status kvt_trace_put_member(const struct kvt_trace_place *place,
                                            const cJSON *object, const char *name,
                                            struct kvt_trace_column column,
                                            struct kvt_trace_row *row, struct kvt_error *err);

/* ---- What JSON formats carry beside (blocks.c, parts.c, chains.c) ------------- */

/* Holds hash_ids against the length they should cover. */
KVT_CHECKED kvt_status kvt_trace_check_blocks(const cJSON *hash_ids, uint32_t input_tokens,
                                              uint32_t block_tokens,
                                              const struct kvt_trace_place *place,
                                              struct kvt_error *err);
/* The prompt's pages out of its blocks, which have been checked. Ids mean the same where the scope
 * is the same; 0: in all of the file. */
KVT_CHECKED kvt_status kvt_trace_block_keys(const cJSON *hash_ids, uint64_t scope,
                                            uint32_t input_tokens, uint32_t block_tokens,
                                            struct kvt_page_keys *keys, struct kvt_error *err);

/* How long the parts of RAGPulse's prompts are, by their hash ids: in files beside the trace. */
struct kvt_trace_parts;
/* Whether any of them is there. */
bool kvt_trace_parts_are_beside(const char *path);
/* All of them, then. */
KVT_CHECKED kvt_status kvt_trace_parts_load(const char *path, struct kvt_trace_parts **out,
                                            struct kvt_error *err);
void kvt_trace_parts_free(struct kvt_trace_parts *parts); /* takes NULL */
/* Holds an object of lists of ids against the prompt, and names its pages where keys is not NULL.
 * parts NULL: their lengths are not known, and nothing but the object's form is looked at. */
KVT_CHECKED kvt_status kvt_trace_parts_keys(const struct kvt_trace_parts *parts,
                                            const cJSON *hash_ids, uint32_t input_tokens,
                                            const struct kvt_trace_place *place,
                                            struct kvt_page_keys *keys, struct kvt_error *err);

/* Which conversation a chat belongs to, by following parents, and what it repeats of them. */
struct kvt_trace_chains;
struct kvt_trace_chains *kvt_trace_chains_new(void); /* NULL when memory is short */
void kvt_trace_chains_free(struct kvt_trace_chains *chains);
/* Sets the row's session and turn; its lengths are known. parent_id -1 begins a conversation. */
KVT_CHECKED kvt_status kvt_trace_chains_add(struct kvt_trace_chains *chains, uint64_t chat_id,
                                            int64_t parent_id, const struct kvt_trace_place *place,
                                            struct kvt_trace_row *row, struct kvt_error *err);
/* The pages of the chat added last, answer and all: its prompt begins with all of its parent, as
 * far as it goes. */
KVT_CHECKED kvt_status kvt_trace_chains_keys(struct kvt_trace_chains *chains,
                                             struct kvt_page_keys *keys, struct kvt_error *err);

/* ---- Classes and tasks by name (names.c) --------------------------------------- */

struct kvt_trace_names {
    enum kvt_trace_name_kind kind;
    bool is_wanted;           /* else rows' names are passed over */
    const char *const *known; /* [known_count] that rows may give, 0: any; gone once open */
    size_t known_count;
    uint16_t count;
    char texts[KVT_TASKS_MAX][KVT_TASK_NAME_BYTES]; /* [count] */
};
/* Refuses a name that nobody has declared: the run must not be the first to find it. */
KVT_CHECKED kvt_status kvt_trace_names_check(const struct kvt_trace_names *names,
                                             const struct kvt_trace_row *row, const char *path,
                                             struct kvt_error *err);
/* The name's number, a new one where it is new; KVT_TRACE_NO_NAME. */
KVT_CHECKED kvt_status kvt_trace_names_add(struct kvt_trace_names *names,
                                           const struct kvt_trace_row *row, const char *path,
                                           uint16_t *number, struct kvt_error *err);

/* ---- Rows of a file that is out of order (sorted.c) ---------------------------- */

struct kvt_trace_sorted;
/* Room for so many rows, of which any may have something in these fields (bits). */
KVT_CHECKED kvt_status kvt_trace_sorted_new(const char *path, uint64_t requests, uint32_t fields,
                                            struct kvt_trace_sorted **out, struct kvt_error *err);
void kvt_trace_sorted_free(struct kvt_trace_sorted *sorted); /* takes NULL */
/* The row, page keys too; its names as numbers of the caller's. */
KVT_CHECKED kvt_status kvt_trace_sorted_add(struct kvt_trace_sorted *sorted,
                                            const struct kvt_trace_row *row,
                                            const uint16_t names[KVT_TRACE_NAME_KINDS],
                                            struct kvt_error *err);
/* By time, equal times as they were added. */
void kvt_trace_sorted_sort(struct kvt_trace_sorted *sorted);
/* The next one; false at the end. Its page keys last as long as sorted does. */
bool kvt_trace_sorted_next(struct kvt_trace_sorted *sorted, struct kvt_trace_row *row,
                           uint16_t names[KVT_TRACE_NAME_KINDS]);

/* ---- Formats (formats.c) and their readers ----------------------------------- */

enum kvt_trace_shape {
    KVT_TRACE_CSV = 0,  /* a header, then rows */
    KVT_TRACE_CSV_BARE, /* rows of numbers at once */
    KVT_TRACE_JSON_LINES,
    KVT_TRACE_JSON_NESTED /* objects that hold many requests: JSON Lines or one document */
};

struct kvt_trace_source {
    const char *path; /* borrowed while the reader is open */
    const struct kvt_trace_format *format;
    bool is_document; /* one JSON value over many lines */
    bool has_parts;   /* the lengths of its prompts' parts are beside it */
    bool page_keys;   /* rows come with theirs */
    uint64_t run_seed;
};

struct kvt_trace_reader {
    kvt_status (*open)(const struct kvt_trace_source *source, void **out, struct kvt_error *err);
    /* *more is false at the end. */
    kvt_status (*next)(void *reader, struct kvt_trace_row *row, bool *more, struct kvt_error *err);
    void (*close)(void *reader); /* takes NULL */
};
extern const struct kvt_trace_reader kvt_trace_csv_reader;
extern const struct kvt_trace_reader kvt_trace_jsonl_reader;
extern const struct kvt_trace_reader kvt_trace_bench_reader;
extern const struct kvt_trace_reader kvt_trace_servegen_reader;
extern const struct kvt_trace_reader kvt_trace_agentic_reader;
extern const struct kvt_trace_reader kvt_trace_weka_reader;
extern const struct kvt_trace_reader kvt_trace_aiperf_reader;
extern const struct kvt_trace_reader kvt_trace_guidellm_reader;
extern const struct kvt_trace_reader kvt_trace_blis_reader;

/* Of the row that a kvt_trace_csv_reader gave last: the cell of the column of this name, as
 * kvt_trace_spell() spells it; NULL where there is no such column. Borrowed until the next row. */
const char *kvt_trace_csv_cell(const void *csv_reader, const char *name);

enum {
    KVT_TRACE_SIGNATURE_MAX = 4
};

struct kvt_trace_format {
    const char *name;
    enum kvt_trace_shape shape;
    /* Names that are all there in a file of this format, as kvt_trace_spell() spells them, those of
     * an object's object as "outer/inner". None: recognised by its required fields, or (CSV_BARE)
     * by its shape. */
    const char *signature[KVT_TRACE_SIGNATURE_MAX];
    int64_t unit_ns;       /* of times whose names give none; 0: seconds or dates */
    uint32_t block_tokens; /* a hash id stands for so many; 0: not checked */
    /* A member that says how long after its session's last row this one comes, and its unit; such a
     * row needs no time of its own, and stands at that of the row above. NULL: none. */
    const char *think_name;
    int64_t think_unit_ns;
    int64_t wrap_ns;   /* times begin anew behind it; 0: never */
    bool has_parts;    /* hash_ids is an object of parts' ids (parts.c) */
    bool has_infinity; /* Python's word for it may stand where a number would */
    const struct kvt_trace_reader *reader;
};

/* wanted: "auto" or a name. */
KVT_CHECKED kvt_status kvt_trace_detect(const char *path, const char *wanted,
                                        struct kvt_trace_source *out, struct kvt_error *err);

#endif
