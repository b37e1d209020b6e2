/* kvt/hash.h -- fixed integer hashes: the same on every machine, for ever. */
#ifndef KVT_HASH_H
#define KVT_HASH_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

/* splitmix64's finaliser: a bijection of 64-bit words. Source: S. Vigna,
 * https://prng.di.unimi.it/splitmix64.c (public domain). */
static inline uint64_t kvt_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* One link of a chain: order matters. */
static inline uint64_t kvt_chain64(uint64_t chain, uint64_t value)
{
    return kvt_mix64(chain * UINT64_C(0x9e3779b97f4a7c15) + value + 1);
}

/* Of bytes (text, file contents); chained from `chain`, usually 0. */
uint64_t kvt_hash_bytes(uint64_t chain, const void *bytes, size_t byte_count);

KVT_END_DECLS
#endif
