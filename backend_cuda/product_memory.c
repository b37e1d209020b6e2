/* product_memory.c -- what sets of matrix products share. */
#include "product_memory.h"

#include <math.h>

#include "cuda_error.h"
#include "rows.h"

enum {
    WIDTH_STEP = 16, /* of FP8 products */
    WIDE_STEP = 64,  /* from WIDE on, as models have them: K 2,000 takes 5 % longer than 1,984 */
    WIDE = 1024,
    L2_TIMES = 3, /* weights taken in turn are at least so many times what L2 holds */
    ALIGNMENT_BYTES = 256,
    ROWS_AT_ONCE = 1 << 20
};

uint32_t kvt_product_width(double width)
{
    uint32_t step = width >= WIDE ? WIDE_STEP : WIDTH_STEP;
    double steps = floor(width / step + 0.5);

    return steps >= 1 ? (uint32_t)steps * step : 0;
}

uint64_t kvt_product_sets(uint64_t set_bytes, uint64_t l2_bytes)
{
    return L2_TIMES * l2_bytes / set_bytes + 1;
}

uint64_t kvt_product_take(uint64_t *end_bytes, uint64_t bytes)
{
    uint64_t at = *end_bytes;

    *end_bytes += (bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    return at;
}

kvt_status kvt_product_memory_open(struct kvt_product_memory *out, struct kvt_error *err)
{
    struct kvt_product_memory memory = {.library = NULL};
    int device = 0, l2_bytes = 0;
    cudaError_t error = cudaGetDevice(&device);

    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device);
    kvt_status status = kvt_cuda_check(error, "the size of L2", err);
    if (status == KVT_OK)
        status = kvt_cublaslt_open(&memory.library, err);
    memory.l2_bytes = (uint64_t)l2_bytes;
    if (status == KVT_OK)
        *out = memory;
    return status;
}

kvt_status kvt_product_memory_fill(struct kvt_product_memory *memory, uint64_t bytes,
                                   uint64_t made_bytes, enum kvt_gpu_format format,
                                   const char *what, struct kvt_error *err)
{
    const uint64_t row_bytes = kvt_made_layer_bytes(format);
    const uint64_t rows = (made_bytes + row_bytes - 1) / row_bytes;
    struct kvt_gpu_make_rows make = {
        .layers = 1, .format = format, .row_stride = row_bytes, .layer_stride = row_bytes};
    kvt_status status =
        kvt_cuda_check_device_bytes(cudaMalloc((void **)&memory->memory, bytes), what, bytes, err);
    if (status != KVT_OK)
        return status;

    cudaError_t error = cudaSuccess;
    for (uint64_t first = 0; error == cudaSuccess && first < rows; first += ROWS_AT_ONCE) {
        make.first_row = (uint32_t)first;
        make.row_count = (uint32_t)(rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE);
        make.dst = memory->memory + first * row_bytes;
        error = kvt_gpu_make_rows(&make, cudaStreamPerThread);
    }
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cudaStreamPerThread);
    return kvt_cuda_check(error, what, err);
}

void kvt_product_memory_close(struct kvt_product_memory *memory)
{
    (void)cudaFree(memory->memory);
    kvt_cublaslt_close(memory->library);
    *memory = (struct kvt_product_memory){.library = NULL};
}
