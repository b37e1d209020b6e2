/* kvt/cpu.h -- which instructions a loop over integers may use.
 *
 * Loops that matter are written twice: in plain C, which is the reference, and for a
 * wider machine. Both give the same bytes; a test runs them side by side. */
#ifndef KVT_CPU_H
#define KVT_CPU_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

enum kvt_cpu {
    KVT_CPU_PLAIN = 0, /* what the compiler was told of the machine: any x86-64 */
    KVT_CPU_AVX2,      /* the same C, with AVX2, BMI2 and a population count */
    KVT_CPU_AVX512,    /* F, BW, DQ, VL, VBMI, VBMI2, VPOPCNTDQ: Ice Lake and Zen 4 on */
    KVT_CPU_LEVELS
};

/* The widest level of the machine this runs on. */
enum kvt_cpu kvt_cpu_best(void);

/* "plain", "avx2", "avx512"; never NULL. */
const char *kvt_cpu_name(enum kvt_cpu cpu);

KVT_END_DECLS
#endif
