/* graph.c -- a step as a graph: captured once for a shape, replayed for those alike.
 *
 * What differs between two steps of a shape is in memory that the launches read: requests,
 * queries, lists, tables. Pointers, counts and launch sizes are the shape's (struct step_key). */
#include "step.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <string.h>

/* Memory that any thread of the process takes or gives back voids the captures of all others, in
 * whatever mode they began: backends open and close together or one captures alone. */
static pthread_rwlock_t opening_or_capture = PTHREAD_RWLOCK_INITIALIZER;

void captures_hold(void)
{
    (void)pthread_rwlock_rdlock(&opening_or_capture);
}

void captures_go_on(void)
{
    (void)pthread_rwlock_unlock(&opening_or_capture);
}

static bool is_alike(const struct step_key *a, const struct step_key *b)
{
    return a->request_count == b->request_count && a->query_count == b->query_count &&
           a->queries_max == b->queries_max &&
           memcmp(a->pass_requests, b->pass_requests, sizeof a->pass_requests) == 0 &&
           a->tokens == b->tokens && a->hot_requests == b->hot_requests &&
           a->staging_share == b->staging_share && a->turn_bytes == b->turn_bytes &&
           a->takes_turns == b->takes_turns && a->waves_max == b->waves_max &&
           a->draft_tokens == b->draft_tokens && a->draft_max == b->draft_max &&
           a->timing == b->timing;
}

static struct step_graph *find(struct rank *rank, const struct step_key *key)
{
    for (uint32_t g = 0; g < GRAPHS_MAX; g++) {
        struct step_graph *graph = &rank->graphs[g];
        if (graph->exec && is_alike(&graph->key, key))
            return graph;
    }
    return NULL;
}

/* A free one, or the one that was used longest ago. */
static struct step_graph *make_room(struct rank *rank)
{
    struct step_graph *oldest = &rank->graphs[0];

    for (uint32_t g = 0; g < GRAPHS_MAX; g++) {
        if (!rank->graphs[g].exec)
            return &rank->graphs[g];
        if (rank->graphs[g].used < oldest->used)
            oldest = &rank->graphs[g];
    }
    (void)cudaGraphExecDestroy(oldest->exec);
    oldest->exec = NULL;
    return oldest;
}

/* Capture ends, whatever happens; a branch's own is ended by whoever began it. */
static kvt_status record(struct rank *rank, const struct step_key *key, cudaGraph_t *graph,
                         struct kvt_error *err)
{
    struct kvt_error ending;
    kvt_status status =
        rank_check(rank, cudaStreamBeginCapture(rank->main, cudaStreamCaptureModeThreadLocal),
                   "the beginning of a capture", err);

    if (status != KVT_OK)
        return status;
    rank->capturing = true;
    status = enqueue_step(rank, key, err);
    rank->capturing = false;
    kvt_status ended = rank_check(rank, cudaStreamEndCapture(rank->main, graph),
                                  "the end of a capture", status == KVT_OK ? err : &ending);
    return status == KVT_OK ? ended : status;
}

static kvt_status capture(struct rank *rank, const struct step_key *key, struct step_graph *into,
                          struct kvt_error *err)
{
    cudaGraph_t graph = NULL;

    into->key = *key;
    rank->graph = into;
    kvt_status status = record(rank, key, &graph, err);
    if (status == KVT_OK)
        status = rank_check(rank, cudaGraphInstantiate(&into->exec, graph, 0),
                            "making a step's graph", err);
    if (status == KVT_OK)
        status = rank_check(rank, cudaGraphUpload(into->exec, rank->main), "a graph's upload", err);
    if (graph)
        (void)cudaGraphDestroy(graph);
    return status;
}

/* ---- Branches ------------------------------------------------------------------------- */

/* What the next launch on the stream would depend on. */
struct tip {
    cudaGraph_t graph;
    const cudaGraphNode_t *nodes;
    const cudaGraphEdgeData *edges;
    size_t count;
};

static cudaError_t find_tip(cudaStream_t stream, struct tip *tip)
{
    enum cudaStreamCaptureStatus state;
    cudaError_t error = cudaStreamGetCaptureInfo(stream, &state, NULL, &tip->graph, &tip->nodes,
                                                 &tip->edges, &tip->count);

    if (error == cudaSuccess && state != cudaStreamCaptureStatusActive)
        return cudaErrorStreamCaptureInvalidated; /* there is no graph to go on with */
    return error;
}

/* A conditional node behind all that the stream has captured; *body is its graph. */
static cudaError_t add_branch(cudaStream_t stream, cudaGraphConditionalHandle handle,
                              cudaGraph_t *body)
{
    struct tip tip;
    cudaGraphNode_t node;
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeConditional};
    cudaError_t error = find_tip(stream, &tip);

    params.conditional.handle = handle;
    params.conditional.type = cudaGraphCondTypeIf;
    params.conditional.size = 1;
    if (error == cudaSuccess)
        error = cudaGraphAddNode(&node, tip.graph, tip.nodes, tip.edges, tip.count, &params);
    if (error == cudaSuccess)
        error = cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1,
                                                    cudaStreamSetCaptureDependencies);
    *body = error == cudaSuccess ? params.conditional.phGraph_out[0] : NULL;
    return error;
}

kvt_status graph_begin_branch(struct rank *rank, const uint32_t *count, uint32_t above,
                              uint32_t depth, struct kvt_error *err)
{
    cudaGraphConditionalHandle handle;
    cudaGraph_t body = NULL;
    struct tip tip;
    cudaError_t error = find_tip(rank->launches, &tip);

    if (error == cudaSuccess)
        error = cudaGraphConditionalHandleCreate(&handle, tip.graph, 0, cudaGraphCondAssignDefault);
    if (error == cudaSuccess)
        error = kvt_gpu_branch(handle, count, above, rank->launches);
    if (error == cudaSuccess)
        error = add_branch(rank->launches, handle, &body);
    if (error == cudaSuccess)
        error = cudaStreamBeginCaptureToGraph(rank->inner[depth], body, NULL, NULL, 0,
                                              cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess)
        rank->launches = rank->inner[depth];
    return rank_check(rank, error, "a branch of a step's graph", err);
}

kvt_status graph_end_branch(struct rank *rank, uint32_t depth, struct kvt_error *err)
{
    cudaGraph_t body;

    rank->launches = depth > 0 ? rank->inner[depth - 1] : rank->main;
    return rank_check(rank, cudaStreamEndCapture(rank->inner[depth], &body),
                      "a branch of a step's graph", err);
}

/* ---- Replays -------------------------------------------------------------------------- */

kvt_status graph_prepare(struct rank *rank, const struct step_key *key, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    rank->graph = find(rank, key);
    if (rank->graph == NULL && key->waves_max <= WAVES_MAX) {
        nvtxRangePushA("capture");
        (void)pthread_rwlock_wrlock(&opening_or_capture);
        status = capture(rank, key, make_room(rank), err);
        (void)pthread_rwlock_unlock(&opening_or_capture);
        nvtxRangePop();
    }
    if (rank->graph == NULL) /* launched as it is: only the marks are kept */
        rank->graph = &rank->graphs[GRAPHS_MAX];
    rank->graph->used = rank->step_count;
    return status;
}

kvt_status graph_launch(struct rank *rank, const struct step_key *key, struct kvt_error *err)
{
    if (rank->graph->exec)
        return rank_check(rank, cudaGraphLaunch(rank->graph->exec, rank->main),
                          "launching a step's graph", err);
    return enqueue_step(rank, key, err);
}

void graphs_close(struct rank *rank)
{
    for (uint32_t g = 0; g < GRAPHS_MAX && rank->graphs && !rank->device->lost; g++) {
        if (rank->graphs[g].exec)
            (void)cudaGraphExecDestroy(rank->graphs[g].exec);
    }
}

/* ---- Families ------------------------------------------------------------------------- */

kvt_status graph_read_parts(struct rank *rank, double parts_ns[KVT_PARTS], struct kvt_error *err)
{
    const struct step_graph *graph = rank->graph;

    memset(parts_ns, 0, KVT_PARTS * sizeof *parts_ns);
    for (uint32_t m = 0; m < graph->mark_count; m++) {
        cudaEvent_t next = m + 1 < graph->mark_count ? rank->marks[m + 1] : rank->end;
        float ms = 0;
        kvt_status status = rank_check(rank, cudaEventElapsedTime(&ms, rank->marks[m], next),
                                       "a time within a step", err);
        if (status != KVT_OK)
            return status;
        parts_ns[graph->mark_parts[m]] += 1e6 * (double)ms;
    }
    return KVT_OK;
}
