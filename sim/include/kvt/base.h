/* kvt/base.h -- the words every other header uses: time, ids, attributes. */
#ifndef KVT_BASE_H
#define KVT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define KVT_BEGIN_DECLS extern "C" {
#define KVT_END_DECLS }
#else
#define KVT_BEGIN_DECLS
#define KVT_END_DECLS
#endif

#define KVT_CHECKED __attribute__((warn_unused_result))
#define KVT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

KVT_BEGIN_DECLS

/* Simulated nanoseconds since the start of the run. Signed, so that the
 * difference of two times is an ordinary subtraction. Never wall time. */
typedef int64_t kvt_ns;
#define KVT_NS_PER_S INT64_C(1000000000)
#define KVT_NS_NEVER (-1) /* a time that has not come yet */

/* A place in a hot cache that holds one row of a store. */
typedef uint32_t kvt_slot;
#define KVT_SLOT_NONE UINT32_MAX

/* No row: what an empty slot holds. */
#define KVT_ROW_NONE UINT32_MAX

enum {
    KVT_PAGE_ROWS = 64,      /* rows (tokens) of one page of history */
    KVT_TAIL_ROWS = 64,      /* ring of newest rows that stay in HBM, per layer */
    KVT_STORES_MAX = 128,    /* stores of one model */
    KVT_SELECTORS_MAX = 128, /* selecting layers of one model */
};

#define KVT_GIB (UINT64_C(1) << 30)

KVT_END_DECLS
#endif
