/* kvt/explain.h -- where the time and the bytes of a run went, what binds, and what would bind
 * next: worked out once, kept in result.json, and printed from there.
 *
 * The tree is `explain` of a result, and of each of its phases:
 *
 *     tpot, ttft   ms, requests, by (requests | steps), parts_ms that sum to ms
 *     step         ms, parts_ms that sum to ms, and beside them what was hidden or waited
 *     bytes        hbm_peak by class, and what crossed the link and met in host DRAM, with rates
 *     rows         shares of what was selected that sum to 1
 *     batch        what keeps more requests from decoding: now, next, and how full everything is
 *     worth[]      what a change would bring, to first order, and what that assumes
 *     basis        what the figures rest on */
#ifndef KVT_EXPLAIN_H
#define KVT_EXPLAIN_H

#include <cjson/cJSON.h>

#include "kvt/report.h"

KVT_BEGIN_DECLS

/* phase: an index, or -1 for the whole run; metrics: its metrics, as in result.json. A member that
 * is not known is null. NULL when memory is short; else the caller's to delete. */
cJSON *kvt_explain_tree(const struct kvt_run *run, int phase, const cJSON *metrics);

/* Refuses a tree that is no result of this schema, one written before results explained themselves,
 * and one that lacks a part, has something else in its place, or parts that do not make up their
 * whole. where: the file's name. */
KVT_CHECKED kvt_status kvt_explain_check(const cJSON *result, const char *where,
                                         struct kvt_error *err);

/* Of a result that kvt_explain_check() has passed, or that a run has just made: the last four lines
 * of its summary ... */
void kvt_explain_put_lines(FILE *stream, const cJSON *result);
/* ... and all that is known, 80 columns wide; utf8: bars of block elements. */
void kvt_explain_put(FILE *stream, const cJSON *result, bool utf8);

/* How b differs from a, part by part: {a, b, difference} for each. NULL when memory is short. */
cJSON *kvt_explain_difference(const cJSON *a, const cJSON *b);
/* That, 80 columns wide. */
void kvt_explain_put_difference(FILE *stream, const cJSON *difference);

KVT_END_DECLS
#endif
