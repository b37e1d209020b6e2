/* cublaslt.c -- matrix products by cuBLASLt, opened at run time. */
#include "cublaslt.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cublaslt_api.h"

struct kvt_cublaslt {
    void *object; /* of dlopen() */
    void *handle;
    struct lt_calls calls;
    char path[512];
};

/* ---- The library ------------------------------------------------------------------- */

/* Which versions have this interface, the newest first. */
static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
enum {
    NAMES = sizeof names / sizeof names[0]
};

/* Where it lies when the loader does not know: the toolkit, then Python's packages. %s is the
 * value of the variable, if one is named and set. */
static const struct {
    const char *variable, *pattern;
} places[] = {
    {"CUDA_HOME", "%s/lib64/%s"},
    {"CUDA_PATH", "%s/lib64/%s"},
    {NULL, "/usr/local/cuda/lib64/%s"},
    {NULL, "/usr/local/cuda-1[23]*/lib64/%s"},
    {"VIRTUAL_ENV", "%s/lib/python3*/site-packages/nvidia/c*/lib/%s"},
    {"CONDA_PREFIX", "%s/lib/python3*/site-packages/nvidia/c*/lib/%s"},
    {"HOME", "%s/.local/lib/python3*/site-packages/nvidia/c*/lib/%s"},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/c*/lib/%s"},
    {NULL, "/usr/lib/python3*/*-packages/nvidia/c*/lib/%s"},
    {NULL, "/opt/*/lib/python3*/site-packages/nvidia/c*/lib/%s"},
};

/* The object behind the first match of the pattern that opens; NULL where none does. */
static void *open_match(const char *pattern, char *path, size_t path_bytes)
{
    glob_t found;
    void *object = NULL;

    if (glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; object == NULL && i < found.gl_pathc; i++) {
        object = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        (void)snprintf(path, path_bytes, "%s", found.gl_pathv[i]);
    }
    globfree(&found);
    return object;
}

static void *open_anywhere(char *path, size_t path_bytes)
{
    for (size_t n = 0; n < NAMES; n++) {
        void *object = dlopen(names[n], RTLD_NOW | RTLD_LOCAL);
        (void)snprintf(path, path_bytes, "%s", names[n]);
        if (object != NULL)
            return object;
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            const char *value = places[i].variable != NULL ? getenv(places[i].variable) : NULL;
            char pattern[512];
            if (places[i].variable != NULL && value == NULL)
                continue;
            if (value != NULL)
                (void)snprintf(pattern, sizeof pattern, places[i].pattern, value, names[n]);
            else
                (void)snprintf(pattern, sizeof pattern, places[i].pattern, names[n]);
            object = open_match(pattern, path, path_bytes);
            if (object != NULL)
                return object;
        }
    }
    return NULL;
}

/* Whether every call is there; missing: the first that is not. */
static bool find_calls(void *object, struct lt_calls *calls, const char **missing)
{
    const struct {
        const char *name;
        void **call;
    } wanted[] = {
        {"cublasLtCreate", (void **)&calls->create},
        {"cublasLtDestroy", (void **)&calls->destroy},
        {"cublasLtGetStatusString", (void **)&calls->status_string},
        {"cublasLtMatmul", (void **)&calls->matmul},
        {"cublasLtMatmulAlgoGetHeuristic", (void **)&calls->matmul_heuristic},
        {"cublasLtMatmulDescCreate", (void **)&calls->matmul_desc_create},
        {"cublasLtMatmulDescDestroy", (void **)&calls->matmul_desc_destroy},
        {"cublasLtMatmulDescSetAttribute", (void **)&calls->matmul_desc_set},
        {"cublasLtMatrixLayoutCreate", (void **)&calls->layout_create},
        {"cublasLtMatrixLayoutDestroy", (void **)&calls->layout_destroy},
        {"cublasLtMatrixLayoutSetAttribute", (void **)&calls->layout_set},
        {"cublasLtMatmulPreferenceCreate", (void **)&calls->preference_create},
        {"cublasLtMatmulPreferenceDestroy", (void **)&calls->preference_destroy},
        {"cublasLtMatmulPreferenceSetAttribute", (void **)&calls->preference_set},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        *wanted[i].call = dlsym(object, wanted[i].name);
        *missing = wanted[i].name;
        if (*wanted[i].call == NULL)
            return false;
    }
    return true;
}

static kvt_status check(const struct kvt_cublaslt *library, int status, const char *what,
                        struct kvt_error *err)
{
    if (status == LT_SUCCESS)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_DEVICE, "cublaslt", "%s: %s", what,
                    library->calls.status_string(status));
}

kvt_status kvt_cublaslt_open(struct kvt_cublaslt **out, struct kvt_error *err)
{
    struct kvt_cublaslt *library = calloc(1, sizeof *library);
    const char *missing = NULL;
    kvt_status status = KVT_OK;

    if (library == NULL)
        return kvt_fail_nomem(err, "cuBLASLt's table of calls");
    library->object = open_anywhere(library->path, sizeof library->path);
    if (library->object == NULL)
        status = kvt_fail(err, KVT_ERR_DEVICE, "cublaslt",
                          "the dense stand-in needs %s, which neither the loader knows nor "
                          "$CUDA_HOME/lib64, /usr/local/cuda/lib64 or Python's nvidia packages "
                          "have (pip install nvidia-cublas)",
                          names[0]);
    else if (!find_calls(library->object, &library->calls, &missing))
        status = kvt_fail(err, KVT_ERR_DEVICE, "cublaslt", "%s has no %s", library->path, missing);
    else
        status = check(library, library->calls.create(&library->handle), "a handle", err);
    if (status != KVT_OK) {
        kvt_cublaslt_close(library);
        return status;
    }
    *out = library;
    return KVT_OK;
}

void kvt_cublaslt_close(struct kvt_cublaslt *library)
{
    if (library == NULL)
        return;
    if (library->handle != NULL)
        (void)library->calls.destroy(library->handle);
    /* The object stays: cuBLASLt has threads and modules of its own in the process. */
    free(library);
}

const char *kvt_cublaslt_path(const struct kvt_cublaslt *library)
{
    return library->path;
}

/* ---- Products ------------------------------------------------------------------------ */

struct kvt_gemm {
    const struct kvt_cublaslt *library;
    struct kvt_gemm_shape shape;
    void *operation;
    void *weights, *x, *y; /* layouts */
    struct lt_algo algo;
};

/* The library counts columns first: a row-major [rows][columns] is its columns x rows. */
static int layout_new(const struct kvt_gemm *gemm, void **out, int type, uint32_t rows,
                      uint32_t columns)
{
    const struct lt_calls *calls = &gemm->library->calls;
    const int32_t batches = (int32_t)gemm->shape.batches;
    const int64_t stride = (int64_t)rows * columns;
    int status = calls->layout_create(out, type, columns, rows, columns);

    if (status == LT_SUCCESS)
        status = calls->layout_set(*out, LT_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
    if (status == LT_SUCCESS)
        status = calls->layout_set(*out, LT_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    return status;
}

static int describe(struct kvt_gemm *gemm)
{
    const struct lt_calls *calls = &gemm->library->calls;
    const struct kvt_gemm_shape *shape = &gemm->shape;
    const int32_t transposed = LT_OP_T;
    const int8_t fast = 1; /* FP8: sums as engines have them, in the tensor cores' own width */
    const int values = shape->is_bf16 ? LT_R_16BF : LT_R_8F_E4M3;
    int status = calls->matmul_desc_create(&gemm->operation, LT_COMPUTE_32F, LT_R_32F);

    if (status == LT_SUCCESS)
        status = calls->matmul_desc_set(gemm->operation, LT_MATMUL_TRANSA, &transposed,
                                        sizeof transposed);
    if (status == LT_SUCCESS && !shape->is_bf16)
        status = calls->matmul_desc_set(gemm->operation, LT_MATMUL_FAST_ACCUM, &fast, sizeof fast);
    if (status == LT_SUCCESS)
        status = layout_new(gemm, &gemm->weights, values, shape->outputs, shape->inputs);
    if (status == LT_SUCCESS)
        status = layout_new(gemm, &gemm->x, values, shape->tokens, shape->inputs);
    if (status == LT_SUCCESS)
        status = layout_new(gemm, &gemm->y, LT_R_16BF, shape->tokens, shape->outputs);
    return status;
}

/* Without a workspace. What the library would use one for is no faster, and in a graph each product
 * that does has a node before it which sets some of it to zero: 5 us in which nothing else runs. */
static kvt_status choose(struct kvt_gemm *gemm, struct kvt_error *err)
{
    const struct lt_calls *calls = &gemm->library->calls;
    const struct kvt_gemm_shape *shape = &gemm->shape;
    struct lt_heuristic best = {0};
    const size_t workspace_bytes = 0;
    void *preference = NULL;
    int found = 0;
    int status = calls->preference_create(&preference);

    if (status == LT_SUCCESS)
        status = calls->preference_set(preference, LT_PREFERENCE_MAX_WORKSPACE_BYTES,
                                       &workspace_bytes, sizeof workspace_bytes);
    if (status == LT_SUCCESS)
        status = calls->matmul_heuristic(gemm->library->handle, gemm->operation, gemm->weights,
                                         gemm->x, gemm->y, gemm->y, preference, 1, &best, &found);
    if (preference != NULL)
        (void)calls->preference_destroy(preference);
    if (status != LT_SUCCESS || found == 0 || best.state != LT_SUCCESS)
        return kvt_fail(
            err, KVT_ERR_DEVICE, "cublaslt", "no %s product of %u x %u tokens, %u to %u: %s",
            shape->is_bf16 ? "bf16" : "FP8", shape->batches, shape->tokens, shape->inputs,
            shape->outputs, calls->status_string(status != LT_SUCCESS ? status : best.state));
    gemm->algo = best.algo;
    return KVT_OK;
}

kvt_status kvt_gemm_new(const struct kvt_cublaslt *library, const struct kvt_gemm_shape *shape,
                        struct kvt_gemm **out, struct kvt_error *err)
{
    struct kvt_gemm *gemm = calloc(1, sizeof *gemm);

    if (gemm == NULL)
        return kvt_fail_nomem(err, "the plan of a product");
    gemm->library = library;
    gemm->shape = *shape;
    kvt_status status = check(library, describe(gemm), "describing a product", err);
    if (status == KVT_OK)
        status = choose(gemm, err);
    if (status != KVT_OK) {
        kvt_gemm_free(gemm);
        return status;
    }
    *out = gemm;
    return KVT_OK;
}

void kvt_gemm_free(struct kvt_gemm *gemm)
{
    if (gemm == NULL)
        return;
    const struct lt_calls *calls = &gemm->library->calls;
    void *const layouts[] = {gemm->weights, gemm->x, gemm->y};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i] != NULL)
            (void)calls->layout_destroy(layouts[i]);
    if (gemm->operation != NULL)
        (void)calls->matmul_desc_destroy(gemm->operation);
    free(gemm);
}

kvt_status kvt_gemm_enqueue(const struct kvt_gemm *gemm, const void *weights, const void *x,
                            void *y, cudaStream_t stream, struct kvt_error *err)
{
    const float one = 1;
    const float zero = 0;
    int status = gemm->library->calls.matmul(gemm->library->handle, gemm->operation, &one, weights,
                                             gemm->weights, x, gemm->x, &zero, y, gemm->y, y,
                                             gemm->y, &gemm->algo, NULL, 0, stream);

    return check(gemm->library, status, "a product", err);
}
