/* validate_decisions.h -- what the parts of `kvtide validate --suite decisions` pass to each other.
 */
#ifndef KVT_CLI_VALIDATE_DECISIONS_H
#define KVT_CLI_VALIDATE_DECISIONS_H

#include "validate.h"

/* validate_walk.c: a law of selections that costs little, in no table. */
extern const struct kvt_law validate_walk;

struct decisions_plan {
    const struct cli_texts *sets; /* of what the grid is driven on: backend.kernels=reference */
    unsigned threads;             /* openings that are driven at once */
    uint32_t shard, shards;       /* of validate_grid_parts(), each with some: of the pairs that are
                                     opened, every shards-th from number shard on */
    bool on_gpu, corrupt, quick, quiet;
};

/* ---- Golden call vectors --------------------------------------------------------------------- */

struct golden_outcome {
    uint32_t files, calls, mismatches;
    char first[512]; /* "": none */
};

/* validate_golden.c: those below the data folder, by the simulator's resolver. */
KVT_CHECKED kvt_status validate_golden(struct golden_outcome *out, struct kvt_error *err);

/* ---- The grid ---------------------------------------------------------------------------------
 */

enum decisions_mode {
    DECISIONS_SHARED,     /* one call of all queries, a whole staging for each */
    DECISIONS_PROMOTED,   /* staged rows that more queries select stay */
    DECISIONS_EACH_QUERY, /* a call for each query in turn */
    DECISIONS_TURNS,      /* a staging that calls must share, in waves */
    DECISIONS_MODES
};
extern const char *const decisions_mode_names[DECISIONS_MODES];

/* Calls of one setting. */
struct decisions_cell {
    const char *policy;
    bool on_device; /* decided there, else planned by the CPU and carried out there */
    enum decisions_mode mode;
    uint32_t queries;
    uint64_t hot_tokens;
    double coverage;
    uint64_t calls, states, mismatches;
    double seconds; /* wall time of its steps */
};

enum {
    DECISIONS_CELLS_MAX = 192
};

struct decisions_outcome {
    struct golden_outcome golden;
    struct decisions_cell cells[DECISIONS_CELLS_MAX];
    size_t cell_count;
    const char *model;
    uint32_t requests, context_tokens;
    uint64_t calls, mismatches;
    char *first_mismatch; /* NULL: none */
    struct kvt_backend_proof proof;
    struct validate_texts texts; /* of the proof */
    const char *corruption; /* of the first opening whose flipped byte is not as it must be: why */
    double tolerance;
    bool interrupted;
    char failure[1088]; /* why an opening broke off; "": none did */
    cJSON *machine;
};

/* validate_grid.c: into how many parts the grid can be divided. */
uint32_t validate_grid_parts(void);
/* Drives two backends directly, without serving. Fills the cells; on failure
 * those that there are. */
KVT_CHECKED kvt_status validate_grid(const struct decisions_plan *plan,
                                     struct decisions_outcome *out, struct kvt_error *err);

/* validate_decisions.c: all of it, and how it is told. */
KVT_CHECKED kvt_status validate_decisions(const struct decisions_plan *plan,
                                          struct decisions_outcome *out, struct kvt_error *err);
void decisions_free(struct decisions_outcome *outcome); /* of one that is zeroed too */
bool decisions_are_good(const struct decisions_plan *plan, const struct decisions_outcome *outcome);
KVT_CHECKED kvt_status decisions_tree(const struct decisions_plan *plan,
                                      const struct decisions_outcome *outcome, cJSON **out,
                                      struct kvt_error *err);
void decisions_print(const struct decisions_plan *plan, const struct decisions_outcome *outcome);

#endif
