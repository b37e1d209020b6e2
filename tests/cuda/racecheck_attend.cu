/* racecheck_attend.cu -- test_attend with barriers that racecheck follows (named_barrier.cuh). */
#define KVT_RACECHECK
#include "../../backend_cuda/attend_fast.cu"
#include "test_attend.cu"
