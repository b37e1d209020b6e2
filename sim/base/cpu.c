/* cpu.c -- which instructions a loop over integers may use. */
#include "kvt/cpu.h"

enum kvt_cpu kvt_cpu_best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") ||
        !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("popcnt"))
        return KVT_CPU_PLAIN;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512vbmi") || !__builtin_cpu_supports("avx512vbmi2") ||
        !__builtin_cpu_supports("avx512vpopcntdq"))
        return KVT_CPU_AVX2;
    return KVT_CPU_AVX512;
#else
    return KVT_CPU_PLAIN;
#endif
}

const char *kvt_cpu_name(enum kvt_cpu cpu)
{
    switch (cpu) {
    case KVT_CPU_AVX2:
        return "avx2";
    case KVT_CPU_AVX512:
        return "avx512";
    default:
        return "plain";
    }
}
