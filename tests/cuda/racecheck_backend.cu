/* racecheck_backend.cu -- test_backend with barriers that racecheck follows (named_barrier.cuh). */
/* The library has the same kernels in members that nothing is left to ask for. */
#define KVT_RACECHECK
#include "../../backend_cuda/attend_fast.cu"
#include "../../backend_cuda/topk_fast.cu"
#include "test_backend.cu"
