/* kvt/order.h -- 64-bit words into ascending order, without a byte of memory of its own. */
#ifndef KVT_ORDER_H
#define KVT_ORDER_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

/* Sorts words[count]; scratch is of as many. Words that come as a few ascending runs, one behind
 * the other, take few passes; ascending ones take none. */
void kvt_order64(uint64_t *words, size_t count, uint64_t *scratch);

KVT_END_DECLS
#endif
