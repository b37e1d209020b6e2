/* copies.c -- rows that move between host, tail and frames: lists of copies, and their launch. */
#include "backend_cuda.h"

#include "kvt/layout.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Where a run of rows is, and how far it goes on. */
struct run {
    uint8_t *base;
    uint64_t row_stride, layer_stride;
    uint32_t rows;
};

static struct run run_of(const struct rank *rank, const struct lane *lane, uint32_t s,
                         enum row_home home, uint32_t row)
{
    const struct store_shape *shape = &rank->cuda->stores[s];
    const struct store_state *store = &rank->stores[s];
    struct run run = {.row_stride = shape->row_bytes, .layer_stride = shape->layer_bytes};
    uint32_t in_page = row % shape->page_rows;
    int64_t place = 0;

    switch (home) {
    case HOME_HOST: {
        bool shared = row < store->shared_rows[lane->index];
        uint64_t at = row + (shared ? store->shared_at : store->own_at)[lane->index];
        return (struct run){.base = store->host.base + at * store->host.row_stride,
                            .row_stride = store->host.row_stride,
                            .layer_stride = store->host.layer_stride,
                            .rows = shared ? store->shared_rows[lane->index] - row : UINT32_MAX};
    }
    case HOME_TAIL:
        place = store->places.tail0 + (int64_t)lane->index * KVT_GPU_TAIL_ROWS +
                row % KVT_GPU_TAIL_ROWS;
        run.rows = KVT_GPU_TAIL_ROWS - row % KVT_GPU_TAIL_ROWS;
        break;
    case HOME_FRAME:
        place = store->places.frame0 +
                (int64_t)lane->frames[row / shape->page_rows] * shape->page_rows + in_page;
        run.rows = shape->page_rows - in_page;
        break;
    }
    run.base = rank->pool + place * shape->row_bytes;
    return run;
}

struct copy_list copies_begin(struct rank *rank, cudaStream_t stream, enum copy_half half)
{
    uint32_t first = half == COPIES_OF_STEP ? 0 : COPIES_MAX / 2;

    return (struct copy_list){.rank = rank,
                              .stream = stream,
                              .pinned = rank->copies_pinned + first,
                              .device = rank->copies + first};
}

kvt_status copies_launch(struct copy_list *list, struct kvt_error *err)
{
    kvt_status status;

    if (list->count == 0)
        return KVT_OK;
    status =
        rank_check(list->rank,
                   cudaMemcpyAsync(list->device, list->pinned, list->count * sizeof *list->device,
                                   cudaMemcpyHostToDevice, list->stream),
                   "a list of copies", err);
    if (status == KVT_OK)
        status = rank_check(list->rank, kvt_gpu_copy(list->device, list->count, list->stream),
                            "kvt_gpu_copy", err);
    list->count = 0;
    return status;
}

static kvt_status add(struct copy_list *list, const uint8_t *src, uint8_t *dst, uint64_t bytes,
                      struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    /* Full: the list is written anew once it has been read. So much of a step's backup is then over
     * before the clock runs; only long rounds of many requests with layers apart come to it. */
    if (list->count == COPIES_MAX / 2) {
        status = copies_launch(list, err);
        if (status == KVT_OK)
            status = rank_wait_stream(list->rank, list->stream, "a list of copies", err);
    }
    if (status == KVT_OK)
        list->pinned[list->count++] = (struct kvt_gpu_copy){src, dst, bytes};
    list->bytes += bytes;
    return status;
}

/* All layers at once where both sides hold them side by side. */
static kvt_status add_run(struct copy_list *list, const struct store_shape *shape,
                          const struct run *from, const struct run *to, uint32_t rows,
                          struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (from->row_stride == shape->row_bytes && to->row_stride == shape->row_bytes)
        return add(list, from->base, to->base, (uint64_t)rows * shape->row_bytes, err);
    for (uint32_t j = 0; j < shape->layers; j++) {
        for (uint32_t r = 0; r < rows && status == KVT_OK; r++)
            status =
                add(list, from->base + j * from->layer_stride + r * from->row_stride,
                    to->base + j * to->layer_stride + r * to->row_stride, shape->layer_bytes, err);
    }
    return status;
}

kvt_status copies_add_rows(struct copy_list *list, const struct lane *lane, uint32_t s,
                           uint32_t first_row, uint32_t end_row, enum row_home from,
                           enum row_home to, struct kvt_error *err)
{
    const struct store_shape *shape = &list->rank->cuda->stores[s];
    kvt_status status = KVT_OK;

    for (uint32_t row = first_row, rows; row < end_row && status == KVT_OK; row += rows) {
        struct run source = run_of(list->rank, lane, s, from, row);
        struct run target = run_of(list->rank, lane, s, to, row);
        rows = smaller(end_row - row, smaller(source.rows, target.rows));
        status = add_run(list, shape, &source, &target, rows, err);
    }
    return status;
}

/* Rows that are made where they belong: no copy. */
kvt_status rows_make(struct rank *rank, const struct lane *lane, uint32_t s, uint32_t first_row,
                     uint32_t end_row, enum row_home home, struct kvt_error *err)
{
    const struct store_shape *shape = &rank->cuda->stores[s];
    kvt_status status = KVT_OK;

    for (uint32_t row = first_row, rows; row < end_row && status == KVT_OK; row += rows) {
        struct run run = run_of(rank, lane, s, home, row);
        bool shared = row < rank->stores[s].shared_rows[lane->index];
        rows = smaller(end_row - row, run.rows);
        if (shared)
            rows = smaller(rows, rank->stores[s].shared_rows[lane->index] - row);
        struct kvt_gpu_make_rows make = {
            .context_id = shared ? SHARED_CONTEXT | lane->shared_context : lane->request,
            .first_layer = shape->first_layer,
            .layers = shape->layers,
            .format = rank->cuda->format,
            .first_row = row,
            .row_count = rows,
            .dst = run.base,
            .row_stride = run.row_stride,
            .layer_stride = run.layer_stride};
        status = rank_check(rank, kvt_gpu_make_rows(&make, rank->main), "kvt_gpu_make_rows", err);
    }
    return status;
}
