/* attend_tile.cuh -- what a block of the fast attention kernel holds: shared memory, barriers. */
#ifndef KVT_ATTEND_TILE_CUH
#define KVT_ATTEND_TILE_CUH

#include "attend.cuh"
#include "attend_fast.cuh"

/* Made for another target than sm_90a the kernel is a trap: kvt_gpu_attend() launches it on Hopper
 * only, and a program without sm_90a must not end with outputs that nothing has written. */
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_HOPPER 1
#else
#define HAS_HOPPER 0
#endif

namespace attend_tile
{

constexpr uint32_t HEADS = 64; /* of a block */
constexpr uint32_t WIDTH = KVT_GPU_HEAD;
constexpr uint32_t TILE_ROWS = 64;

/* Rows come in strips of 16, which is what a warp of scores multiplies and what a step of outputs
 * takes. There is room for three and a half tiles: one that scores read, one that outputs read,
 * and those that are under way. */
constexpr uint32_t STRIP_ROWS = 16;
constexpr uint32_t STRIPS_OF_TILE = TILE_ROWS / STRIP_ROWS;
constexpr uint32_t STRIPS = 14;
/* 24 words modulo 32 banks: four rows in turn start in four different quarters of the banks,
 * which both ways of reading need. */
constexpr uint32_t ROW_STRIDE = WIDTH + 32;
constexpr uint32_t STRIP_BYTES = STRIP_ROWS * ROW_STRIDE;
constexpr uint32_t Q_BYTES = HEADS * WIDTH * 2;
constexpr uint32_t P_BYTES = TILE_ROWS * HEADS * 2;

constexpr uint32_t Q_OFFSET = 0;
constexpr uint32_t P_OFFSET = Q_OFFSET + Q_BYTES;
constexpr uint32_t STRIP_OFFSET = P_OFFSET + 2 * P_BYTES;
constexpr uint32_t CONTROL_OFFSET = STRIP_OFFSET + STRIPS * STRIP_BYTES;

/* Warpgroups: 0 scores, 1 and 2 outputs, 3 loads. */
constexpr uint32_t GROUP = 128;
constexpr uint32_t THREADS = 4 * GROUP;

struct control {
    uint64_t full[STRIPS];          /* rows of a strip are there */
    uint64_t empty[STRIPS];         /* outputs have read them */
    alignas(16) float2 head[HEADS]; /* c, m */
    float moves_by[HEADS];          /* what m was raised by last */
    float alpha[2][HEADS];          /* beside P */
    uint32_t rescaled[2];           /* whether alpha says anything */
    float partial[4][HEADS];        /* of the scores' warps */
    float2 reference_sum[HEADS];    /* m, l at the end, for the cluster */
    float weight[HEADS];            /* what outputs are multiplied with */
};

constexpr uint32_t SHARED_BYTES = CONTROL_OFFSET + sizeof(control);
static_assert(SHARED_BYTES <= 232448, "a block has 227 KiB");
static_assert(CONTROL_OFFSET % 16 == 0 && STRIP_OFFSET % 1024 == 0, "alignment of operands");
static_assert(HEADS * KVT_GPU_LATENT * 4 <= CONTROL_OFFSET, "outputs fit where tiles were");

#if HAS_HOPPER
constexpr uint32_t BLOCKS_OF_Q = WIDTH / 64; /* of 64 columns: swizzle atoms side by side */

/* Named barriers; 0 is __syncthreads(). Who waits at one takes no issue slots from those who work,
 * as the pollers of an mbarrier do. Those of a buffer are two in turn. */
enum {
    SCORES_BARRIER = 1,
    WEIGHTS_BARRIER,
    LOADER_BARRIER,
    START_BARRIER,
    P_FULL_BARRIER,
    P_EMPTY_BARRIER = P_FULL_BARRIER + 2,
    BARRIERS = P_EMPTY_BARRIER + 2
};
static_assert(BARRIERS <= 16, "a block has 16 named barriers");

static __device__ __forceinline__ void start_named_barriers()
{
    /* In the order above: how many threads each waits for. */
    named_barriers_begin<GROUP, 3 * GROUP, GROUP, THREADS, 3 * GROUP, 3 * GROUP, 3 * GROUP,
                         3 * GROUP>();
}

/* A place in the ring of strips, and the parity of the barriers' phase there. */
struct ring_place {
    uint32_t strip, parity;
};

static __device__ __forceinline__ void advance(ring_place &place, uint32_t strips)
{
    place.strip += strips;
    if (place.strip >= STRIPS) {
        place.strip -= STRIPS;
        place.parity ^= 1;
    }
}

/* Row of a strip that is row g of an MMA's eight: rows of neighbouring g are 2 apart, and those of
 * even g (and of odd g) differ modulo 4, so that no read of a warp meets a bank twice. */
static __device__ __forceinline__ uint32_t row_of(uint32_t g)
{
    return (0x57463120u >> (4 * g)) & 7;
}
#endif

} // namespace attend_tile

#endif
