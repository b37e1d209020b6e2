/* bulk.cuh -- shared memory by its addresses, barriers there, and copies that arrive at them. */
#ifndef KVT_BULK_CUH
#define KVT_BULK_CUH

#include <cstdint>

static __device__ __forceinline__ uint32_t address_of(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* Loads and stores through addresses: by pointers they would be reckoned anew for each. */
static __device__ __forceinline__ uint32_t load_word(uint32_t address)
{
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

static __device__ __forceinline__ uint4 load_words(uint32_t address)
{
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address)
                 : "memory");
    return words;
}

static __device__ __forceinline__ void store_words(uint32_t address, uint4 words)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words.x),
                 "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
}

static __device__ __forceinline__ void barrier_init(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(barrier)), "r"(arrivals)
                 : "memory");
}

/* Barriers that were initialised are so for copies, too. */
static __device__ __forceinline__ void barriers_are_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(barrier)) : "memory");
}

/* The phase waits for so many bytes of copies, too. */
static __device__ __forceinline__ void barrier_arrive_expecting(uint64_t *barrier, uint32_t bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(barrier)),
        "r"(bytes)
        : "memory");
}

static __device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(address_of(barrier)),
                 "r"(parity)
                 : "memory");
}

static __device__ __forceinline__ void bulk_copy(void *dst, const void *src, uint32_t bytes,
                                                 uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(address_of(dst)),
                 "l"(src), "r"(bytes), "r"(address_of(barrier))
                 : "memory");
}

/* The kernel after this one may be launched; what it does behind kernel_wait() happens when this
 * one has ended. */
static __device__ __forceinline__ void kernel_let_next_come()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

static __device__ __forceinline__ void kernel_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

#endif
