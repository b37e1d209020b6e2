/* experts.h -- how many of a layer's experts a batch touches. */
#ifndef KVT_MODELS_TIMING_EXPERTS_H
#define KVT_MODELS_TIMING_EXPERTS_H

#include <stdint.h>

/* The expected share of experts that `queries` independent tokens touch:
 * 1 - untouched^queries, where one token leaves the share `untouched` alone.
 * By squaring, because pow() differs in its last bits from one machine's libm
 * to another's, and step times decide what happens next. */
static inline double experts_touched_share(double untouched, uint32_t queries)
{
    double all_leave = 1.0;
    double factor = untouched;
    for (uint32_t rest = queries; rest > 0; rest >>= 1) {
        if (rest & 1)
            all_leave *= factor;
        factor *= factor;
    }
    return 1.0 - all_leave;
}

#endif
