/* racecheck_select.cu -- test_select with barriers that racecheck follows (named_barrier.cuh). */
#define KVT_RACECHECK
#include "../../backend_cuda/topk_fast.cu"
#include "test_select.cu"
