/* golden_calls.h -- golden call vectors as a file has them: calls in, states out. docs/resolver.md
 * describes the format. */
#ifndef KVT_CLI_GOLDEN_CALLS_H
#define KVT_CLI_GOLDEN_CALLS_H

#include "kvt/error.h"
#include "kvt/resolver.h"

/* What a file begins with. */
struct golden_head {
    uint32_t slots, top_k, rows_max, calls;
    const char *policy; /* the file's */
    enum kvt_promotion promotion;
};

/* A call, and what was made of it. Sets and lists are the file's, until the next is read. */
struct golden_call {
    struct kvt_resolve_call call;
    const char *missed; /* the list's text */
    uint64_t state, chain;
};

struct golden_file;
/* Refuses, with its line, what is no such file. */
KVT_CHECKED kvt_status golden_open(const char *path, struct golden_file **out,
                                   struct kvt_error *err);
void golden_close(struct golden_file *file); /* takes NULL */
const struct golden_head *golden_head(const struct golden_file *file);
/* As often as the head says; and the last must end the file. */
KVT_CHECKED kvt_status golden_next(struct golden_file *file, struct golden_call *out,
                                   struct kvt_error *err);
/* Whether a list's text names these. */
bool golden_list_is(const char *text, const uint32_t *items, uint32_t count);
/* The chain behind a call that left the cache in this state. */
uint64_t golden_chain(uint64_t chain, uint64_t state, const struct kvt_resolve_result *result);

#endif
