/* step.h -- the parts of a rank's step, in their order.
 *
 *     select.c      the CPU's part: selections as lists, and plans (plan.c)
 *     enqueue.c     the GPU's part: launches in order; graph.c replays them
 *     draft.c       a drafter's ring and pass (draft.h)
 *     step_times.c  what is timed of it, and what its families took
 *     outcome.c     counters into what a step reports
 *     proof.c       attention computed again from the same rows made anew
 *     corrupt.c     a row spoilt on purpose */
#ifndef KVT_CUDA_STEP_H
#define KVT_CUDA_STEP_H

#include "backend_cuda.h"

enum {
    DOUBLE_EVERY = 32 /* checked queries, of which one is also computed in double precision */
};

/* ---- select.c, plan.c ----------------------------------------------------------------- */

KVT_CHECKED kvt_status gpu_worker_open(const struct backend_cuda *cuda, struct worker *worker,
                                       struct kvt_error *err);
void gpu_worker_close(struct worker *worker);
/* Of a query, in any array of [selectors][queries][top_k]. */
size_t list_at(const struct rank *rank, uint32_t selector, uint32_t item, uint32_t query);
/* How many of a list's entries are rows: they come first. */
uint32_t list_count(const int32_t *list, uint32_t top_k);
/* Lists of all items, and plans where the CPU decides. */
KVT_CHECKED kvt_status select_step(struct rank *rank, struct kvt_rank_step *step,
                                   struct kvt_error *err);

/* Before the calls of a store. */
void plan_begin(const struct rank *rank, struct worker *worker, const struct lane *lane,
                const struct kvt_step_item *item, uint32_t s, uint32_t visible_rows);
/* Of the sets that the worker holds, whose lists are written. */
KVT_CHECKED kvt_status plan_selector(const struct rank *rank, struct worker *worker,
                                     const struct kvt_step_item *item, uint32_t i,
                                     uint32_t selector, uint32_t visible_rows,
                                     struct kvt_error *err);

/* ---- enqueue.c, graph.c ---------------------------------------------------------------- */

/* Scan and top-k of one selector. */
KVT_CHECKED kvt_status enqueue_index(struct rank *rank, const struct step_key *key,
                                     uint32_t selector, int32_t *rows, struct kvt_error *err);
KVT_CHECKED kvt_status enqueue_step(struct rank *rank, const struct step_key *key,
                                    struct kvt_error *err);
KVT_CHECKED kvt_status rank_enqueue_dense(struct rank *rank, uint32_t layer, uint32_t tokens,
                                          struct kvt_error *err);
/* rank->graph is the one of a step like this. */
KVT_CHECKED kvt_status graph_prepare(struct rank *rank, const struct step_key *key,
                                     struct kvt_error *err);
KVT_CHECKED kvt_status graph_launch(struct rank *rank, const struct step_key *key,
                                    struct kvt_error *err);
/* Between the marks of the newest step, which has ended. */
KVT_CHECKED kvt_status graph_read_parts(struct rank *rank, double parts_ns[KVT_PARTS],
                                        struct kvt_error *err);
void graphs_close(struct rank *rank);
/* No step of any backend is captured between the two: whatever takes or gives back memory, streams
 * or events is between them. Backends do so side by side; never within a step. */
void captures_hold(void);
void captures_go_on(void);
/* While a step is captured: what is enqueued between the two runs if *count is above a number.
 * depth: of branches within branches, from 0 on. Nothing in it is timed. */
KVT_CHECKED kvt_status graph_begin_branch(struct rank *rank, const uint32_t *count, uint32_t above,
                                          uint32_t depth, struct kvt_error *err);
KVT_CHECKED kvt_status graph_end_branch(struct rank *rank, uint32_t depth, struct kvt_error *err);

/* ---- step_times.c --------------------------------------------------------------------- */

/* Of the step that the key describes; one whose requests take turns is not timed apart. */
enum kvt_step_timing step_choose_timing(const struct rank *rank, const struct step_key *key);
/* Of the newest step, which has ended: its time, that of each part (what is not run of the model's
 * layers included), and what launching it took of wall_s. A part of a step that was timed as a
 * whole is shared out; one timed apart has every copy exposed. */
KVT_CHECKED kvt_status step_read_times(struct rank *rank, double wall_s,
                                       struct kvt_step_outcome *outcome, struct kvt_error *err);

/* ---- draft.c -------------------------------------------------------------------------- */

/* Behind the settings: what of the run's drafter can be run. */
void draft_setup(struct backend_cuda *cuda);
void draft_lay(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver);
void draft_lay_block(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver);
void draft_lay_pinned(struct rank *rank, struct carver *carver);
KVT_CHECKED kvt_status draft_fill(struct rank *rank, struct kvt_error *err);
KVT_CHECKED kvt_status device_open_draft(const struct backend_cuda *cuda, struct device *device,
                                         struct kvt_error *err);
KVT_CHECKED kvt_status draft_admit(struct rank *rank, struct lane *lane, struct kvt_error *err);
KVT_CHECKED kvt_status draft_check_round(const struct backend_cuda *cuda,
                                         const struct kvt_step_item *item, struct kvt_error *err);
void draft_describe_item(struct rank *rank, const struct kvt_step_item *item, uint32_t i,
                         struct step_key *key);
KVT_CHECKED kvt_status draft_enqueue(struct rank *rank, const struct step_key *key,
                                     struct kvt_error *err);
/* Fails where a ring holds anything else than it should. */
KVT_CHECKED kvt_status draft_check(struct rank *rank, struct kvt_error *err);

/* ---- outcome.c, proof.c, corrupt.c ---------------------------------------------------- */

struct kvt_resolve_result outcome_of_call(const struct kvt_gpu_counts *counts);
void outcome_count(struct rank *rank, struct kvt_rank_step *step);

/* (query, layer) pairs of the step in hand, whose requests are listed. */
void proof_choose(struct rank *rank);
/* Number n of them is this one instead. */
void proof_set(struct rank *rank, uint32_t n, struct check check);
/* Flips a byte of a row on host that the step in hand will fetch, and has it checked; of none,
 * where nothing will be missed. Lists and plans are there. */
KVT_CHECKED kvt_status corrupt_row(struct rank *rank, const struct kvt_rank_step *step,
                                   struct kvt_error *err);
KVT_CHECKED kvt_status proof_check(struct rank *rank, struct kvt_error *err);

#endif
