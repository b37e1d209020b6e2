/* racecheck_select.cu -- test_select with barriers that racecheck follows (named_barrier.cuh). */
/* The library has the same kernels in members that nothing is left to ask for. */
#define KVT_RACECHECK
#include "../../backend_cuda/topk_fast.cu"
#include "test_select.cu"
