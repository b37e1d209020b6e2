/* kvt/gather.h -- copies of rows out of host memory, timed on GPUs by themselves: what a run
 * cannot produce, for it keeps each context in one piece and misses rows in their order, on one GPU
 * or on several of the host at once.
 *
 * (backend_cuda; declared in every build, defined in builds with KVT_CUDA.) */
#ifndef KVT_GATHER_H
#define KVT_GATHER_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

enum {
    KVT_GATHER_GPUS_MAX = 8
};

struct kvt_gather;

/* GPUs of this host, which may be more than KVT_GATHER_GPUS_MAX. */
KVT_CHECKED kvt_status kvt_gather_count_gpus(uint32_t *count, struct kvt_error *err);

/* Pins so many bytes of host memory, on the node of GPU 0, for GPUs 0 to gpus - 1. Refuses
 * (KVT_ERR_INVALID) more GPUs than the host has. */
KVT_CHECKED kvt_status kvt_gather_open(uint64_t pool_bytes, uint32_t gpus, struct kvt_gather **out,
                                       struct kvt_error *err);
void kvt_gather_close(struct kvt_gather *gather); /* takes NULL */

/* Lists of rows that are copied one list behind the other, as the stores of a step are: each by
 * the kernel that fetches a call's missing rows. Steps have rows of their own, as no step misses
 * again what the one before has fetched: rows that are read once more are near, on the GPU or on
 * the host, and come faster. */
struct kvt_gather_lists {
    uint32_t row_bytes; /* a multiple of 16 */
    uint32_t gpus;      /* that copy all of them at once, at most those that it was opened for */
    uint32_t steps;     /* at least 2: the first one warms what will be warm */
    uint32_t lists, requests, rows_each;
    const uint32_t *rows; /* [steps][lists][requests][rows_each] number of a row in the pool */
    /* Copied meanwhile by each GPU's copy engines, for each list; at most the pool's bytes, whose
     * first they are. */
    uint64_t inbound_bytes, outbound_bytes;
};
/* *ns: of one list on the slowest GPU, the median over the steps but the first. Of several GPUs
 * each begins a share of the lists further on and comes round to the first, so that no two copy the
 * same list at one time. */
KVT_CHECKED kvt_status kvt_gather_time(struct kvt_gather *gather,
                                       const struct kvt_gather_lists *lists, double *ns,
                                       struct kvt_error *err);

KVT_END_DECLS
#endif
