/* kvt/engine.h -- what a public serving engine does with a KV cache: how its allocators lay out
 * rows, what it takes of a GPU and a node, what it runs and what it refuses, and how its flags and
 * its start-up log say so. Loaded from models/engine/NAME.json; every number and every rule there
 * carries its source.
 *
 * Flags, rules and log lines speak of *facts*: named values that this header lists. A flag sets
 * one, a rule asks for some, and exporting writes flags from them; so that a file knows an engine's
 * words, and what a fact means to a scenario is known once. */
#ifndef KVT_ENGINE_H
#define KVT_ENGINE_H

#include "kvt/arena.h"
#include "kvt/error.h"
#include "kvt/llm.h"

KVT_BEGIN_DECLS

struct cJSON;

/* ---- Layout ------------------------------------------------------------------------------ */

enum kvt_engine_layout_kind {
    KVT_ENGINE_BLOCKS = 0, /* "block_pool": one pool of blocks as large as a page of index rows */
    KVT_ENGINE_ROWS        /* "row_pools": rows in pools of their own, by the page */
};

struct kvt_engine_layout {
    enum kvt_engine_layout_kind kind;
    uint32_t page_tokens;          /* of a model with an indexer */
    uint32_t dense_page_tokens;    /* of one without */
    uint32_t tail_pages;           /* newest pages that stay in HBM beside a hot cache */
    uint32_t tail_rows;            /* newest rows that do */
    bool hot_rounded;              /* hot cache and tail together, up to whole pages */
    uint32_t table_bytes_per_slot; /* beside the rows: per slot, those of the tail included */
    uint32_t order_bytes_per_slot; /* per slot of the recency order */
};

/* A block of the pool of KVT_ENGINE_BLOCKS, for one model. */
struct kvt_engine_blocks {
    uint64_t block_bytes;
    uint32_t payload_groups; /* blocks that hold one page of all payload layers */
};

/* Layers that follow one selector make a unit; units are packed, in order, into groups that a page
 * of all index rows is as large as; a block is the larger of such a page and a group's, up to whole
 * pages of one layer. (vLLM hisparse/layout.py @0492a439.) The model has an indexer and no
 * compressed rows. */
struct kvt_engine_blocks kvt_engine_blocks_of(const struct kvt_engine_layout *layout,
                                              const struct kvt_llm *llm);

/* ---- Facts ------------------------------------------------------------------------------- */

enum kvt_engine_fact_kind {
    KVT_FACT_BOOL = 0,
    KVT_FACT_NUMBER,
    KVT_FACT_TEXT
};

struct kvt_engine_fact_doc {
    const char *name;
    enum kvt_engine_fact_kind kind;
    const char *help;
};

enum {
    KVT_ENGINE_FACTS_MAX = 96,
    KVT_ENGINE_TOKENS_MIN = 2, /* of a context: of a prompt, and of an answer */
    KVT_ENGINE_CONDITIONS_MAX = 6
};

const struct kvt_engine_fact_doc *kvt_engine_facts(size_t *count);

/* Index of a fact; -1: there is none of that name. */
int kvt_engine_fact_find(const char *name);

/* Values that a number can have in any engine: from least to most, whole ones only where that is
 * said. Rules tell what one engine takes of them. */
struct kvt_engine_range {
    double least, most;
    bool is_whole;
};
struct kvt_engine_range kvt_engine_fact_range(int fact);

/* Values of facts, by index. Texts are borrowed. */
struct kvt_engine_facts {
    struct {
        bool is_known;
        double number; /* of a bool: 0 or 1 */
        const char *text;
    } of[KVT_ENGINE_FACTS_MAX];
};

/* By name, which must be a fact's. */
void kvt_engine_set_number(struct kvt_engine_facts *facts, const char *name, double value);
void kvt_engine_set_text(struct kvt_engine_facts *facts, const char *name, const char *value);
bool kvt_engine_knows(const struct kvt_engine_facts *facts, const char *name);
double kvt_engine_number(const struct kvt_engine_facts *facts, const char *name, double otherwise);
bool kvt_engine_is(const struct kvt_engine_facts *facts, const char *name);          /* and true */
const char *kvt_engine_text(const struct kvt_engine_facts *facts, const char *name); /* or NULL */

/* ---- Rules ------------------------------------------------------------------------------- */

enum kvt_engine_effect {
    KVT_ENGINE_REFUSES = 0, /* the engine does not start so */
    KVT_ENGINE_CANNOT,      /* nothing of it does that: no flag says so */
    KVT_ENGINE_OFF,         /* it starts, and leaves something out */
    KVT_ENGINE_WARNS,       /* it starts, and does what may surprise */
    KVT_ENGINE_EFFECTS
};
const char *kvt_engine_effect_name(enum kvt_engine_effect effect); /* "refuses", .. */

enum kvt_engine_operator {
    KVT_ENGINE_IS = 0,
    KVT_ENGINE_IS_NOT,
    KVT_ENGINE_BELOW,
    KVT_ENGINE_ABOVE,
    KVT_ENGINE_IN,
    KVT_ENGINE_NOT_IN,
    KVT_ENGINE_KNOWN,
    KVT_ENGINE_UNKNOWN,
    KVT_ENGINE_NOT_MULTIPLE
};

/* One comparison; of a fact that is not known only "unknown" is true. */
struct kvt_engine_condition {
    int fact;
    enum kvt_engine_operator op;
    int other;                /* the fact to compare with, times number; -1: number itself */
    double number;            /* of a bool: 0 or 1 */
    const char *const *texts; /* [text_count] */
    uint32_t text_count;
};

struct kvt_engine_rule {
    const char *id;
    enum kvt_engine_effect effect;
    struct kvt_engine_condition when[KVT_ENGINE_CONDITIONS_MAX]; /* all of them */
    uint32_t when_count;
    const char *says;    /* may name facts in braces: "{hot_tokens} rows" */
    const char *instead; /* what would have to be given up; NULL: nothing helps */
    const char *source;
    bool is_fatal; /* no other setting keeps a hierarchy with this engine */
};

bool kvt_engine_applies(const struct kvt_engine_rule *rule, const struct kvt_engine_facts *facts);

/* The rule's sentence with its facts filled in; lives in the arena, NULL when memory is short. */
const char *kvt_engine_sentence(const char *text, const struct kvt_engine_facts *facts,
                                struct kvt_arena *arena);

/* ---- Flags ------------------------------------------------------------------------------- */

struct kvt_engine_word {
    const char *theirs, *ours;
};

/* A flag, or a member of a flag whose value is JSON. It sets its fact to its value: count or text;
 * `sets` without a value; `is`: true where the value is that text; a constant is only written. */
struct kvt_engine_flag {
    const char *flag;
    const char *const *aliases; /* [alias_count] */
    uint32_t alias_count;
    const char *member; /* "a.b[].c"; NULL: the flag's whole value */
    int fact;           /* -1: a constant */
    bool is_switch, sets;
    const char *is;
    const char *constant;
    double per, plus;                    /* fact = value / per + plus; per 0 counts as 1 */
    const struct kvt_engine_word *words; /* [word_count] their texts for ours */
    uint32_t word_count;
    int export_when; /* a fact that must be true for it to be written; -1: none */
    bool no_export;  /* only read */
};

/* A line of a start-up log: literal text with {fact} where a value stands. */
struct kvt_engine_log_line {
    const char *text;
    const char *source;
};

struct kvt_engine_checkpoint {
    const char *theirs; /* a part of a checkpoint's name, in small letters */
    const char *model;  /* ours; NULL: a model that has no file here */
};

/* ---- The file ---------------------------------------------------------------------------- */

struct kvt_engine {
    const char *name, *path, *summary;
    const char *family;    /* "vllm", "sglang", "trtllm" */
    const char *describes; /* which version its facts are of */
    struct kvt_engine_layout layout;

    /* Memory. */
    double memory_fraction; /* of HBM, unless a flag says otherwise */
    bool fraction_of_free;  /* of what weights and workspace leave, instead of all */
    double workspace_gib;
    double max_requests; /* 0: what fits */
    bool seats_of_all;   /* of all replicas together, instead of each */
    double host_ratio;   /* host rows a row of the device pool; 0: host DRAM is given in bytes */

    /* Hot caches, in tokens for a top-k of k and rounds of K queries. */
    double hot_per_query, hot_extra; /* by default (per_query K + extra) k */
    double hot_least_per_query;      /* at least that times K k */
    double hot_most_tokens;

    const char *hierarchy_policy; /* the residency policy that its hierarchy is */
    const char *admission;        /* in words */

    const struct kvt_engine_flag *flags;
    const char *const *passive_switches, *const *passive_values; /* flags of no concern here */
    const char *const *passive_files; /* of files that it reads flags from, and kvtide does not */
    const struct kvt_engine_log_line *log_lines;
    const struct kvt_engine_rule *rules;
    const struct kvt_engine_checkpoint *checkpoints;
    /* Formats of rows by GPU where no flag says one, "other" for those not named: file (as the
     * model's file has them), bf16, fp8_ds_mla. */
    const struct kvt_engine_word *auto_rows;
    uint32_t flag_count, passive_switch_count, passive_value_count, passive_file_count,
        log_line_count, rule_count, checkpoint_count, auto_row_count;
};

/* Everything in *out lives in the arena. Refuses (KVT_ERR_INVALID) unknown keys and facts, values
 * outside their range, and what has no source. */
KVT_CHECKED kvt_status kvt_engine_from_json(const struct cJSON *tree, const char *path,
                                            struct kvt_arena *arena, struct kvt_engine *out,
                                            struct kvt_error *err);

/* The file of a shipped name ("vllm-2026-09"), the newest of a family ("vllm"), or a path (it has
 * a '/' or ends in ".json"); data_dir is the share folder. *out NULL: "ideal", which is no engine.
 */
KVT_CHECKED kvt_status kvt_engine_load(const char *name, const char *data_dir,
                                       struct kvt_arena *arena, const struct kvt_engine **out,
                                       struct kvt_error *err);

/* "ideal" for NULL, else its family. */
const char *kvt_engine_name(const struct kvt_engine *engine);

KVT_END_DECLS
#endif
