/* cublaslt_api.h -- the part of cuBLASLt's interface that we call, as its headers have it.
 *
 * Stated here, so that a build needs no cuBLAS; tests/cuda/test_dense.cu compares the numbers with
 * cublasLt.h where there is one. */
#ifndef KVT_CUBLASLT_API_H
#define KVT_CUBLASLT_API_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LT_SUCCESS = 0,
    LT_OP_T = 1,
    LT_COMPUTE_32F = 68,
    LT_R_32F = 0,
    LT_R_16BF = 14,
    LT_R_8F_E4M3 = 28,
    LT_LAYOUT_BATCH_COUNT = 5,
    LT_LAYOUT_STRIDED_BATCH_OFFSET = 6,
    LT_MATMUL_TRANSA = 3,
    LT_MATMUL_FAST_ACCUM = 25,
    LT_PREFERENCE_MAX_WORKSPACE_BYTES = 1
};

struct lt_algo {
    uint64_t data[8];
};

struct lt_heuristic {
    struct lt_algo algo;
    size_t workspace_bytes;
    int state; /* a status */
    float waves;
    int reserved[4];
};

/* Handles and descriptors are pointers; a status is an int. */
struct lt_calls {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    const char *(*status_string)(int status);
    int (*matmul)(void *handle, void *operation, const void *alpha, const void *a, void *a_layout,
                  const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                  void *d, void *d_layout, const struct lt_algo *algo, void *workspace,
                  size_t workspace_bytes, cudaStream_t stream);
    int (*matmul_heuristic)(void *handle, void *operation, void *a_layout, void *b_layout,
                            void *c_layout, void *d_layout, void *preference, int asked,
                            struct lt_heuristic *results, int *returned);
    int (*matmul_desc_create)(void **operation, int compute_type, int scale_type);
    int (*matmul_desc_destroy)(void *operation);
    int (*matmul_desc_set)(void *operation, int attribute, const void *value, size_t bytes);
    int (*layout_create)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
    int (*layout_destroy)(void *layout);
    int (*layout_set)(void *layout, int attribute, const void *value, size_t bytes);
    int (*preference_create)(void **preference);
    int (*preference_destroy)(void *preference);
    int (*preference_set)(void *preference, int attribute, const void *value, size_t bytes);
};

#endif
