/* explain_private.h -- what the explain*.c files share. */
#ifndef KVT_EXPLAIN_PRIVATE_H
#define KVT_EXPLAIN_PRIVATE_H

#include "kvt/explain.h"

/* What a tree is of. */
struct explain_of {
    const struct kvt_run *run;
    const struct kvt_tally *tally;
    int phase; /* -1: all of it */
    const cJSON *metrics;
};

/* Bytes a second of all GPUs and nodes, by data sheet or as the scenario says; dram 0: not said. */
struct explain_rates {
    double link_in, link_out, dram;
};
struct explain_rates explain_rates(const struct kvt_scenario *scenario);

/* A member that is a number; NaN where it is null or not there. */
double explain_number(const cJSON *object, const char *key);

/* explain_binds.c: what keeps more from decoding at once; explain_worth.c: what would change it.
 * False when memory is short. */
bool explain_add_batch(cJSON *tree, const struct explain_of *of);
bool explain_add_worth(cJSON *tree, const struct explain_of *of);

/* What binds a batch, as in explain.batch.now. */
enum explain_bind {
    EXPLAIN_NOTHING_ARRIVED = 0,
    EXPLAIN_NEVER_FITS,
    EXPLAIN_NO_RANK,
    EXPLAIN_POOL, /* the one pool, or that of index rows */
    EXPLAIN_ROW_POOL,
    EXPLAIN_HOST,
    EXPLAIN_PREFILL,
    EXPLAIN_IMPORT,
    EXPLAIN_LOAD,
    EXPLAIN_LINK, /* these two are never what binds now: they slow steps down */
    EXPLAIN_DRAM,
    EXPLAIN_BINDS
};
enum {
    EXPLAIN_WORDS_BYTES = 32
};
/* "backup_stall" as words. */
void explain_words(const char *name, char out[EXPLAIN_WORDS_BYTES]);
/* A member that is an object; NULL where it is none. */
const cJSON *explain_object(const cJSON *object, const char *key);
/* A member that is text; "" where it is not there. */
const char *explain_text(const cJSON *object, const char *key);
/* The entry of worth[] of that name; NULL: there is none. */
const cJSON *explain_change(const cJSON *tree, const char *name);
void explain_put_basis(FILE *stream, const cJSON *tree);

enum explain_bind explain_bind_of(const struct explain_of *of);

#endif
