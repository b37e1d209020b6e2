/* hash.c -- bytes into the chain of 64-bit mixes, eight at a time. */
#include "kvt/hash.h"

/* Little-endian whatever the machine; compilers make it one load on x86. */
static uint64_t load_word(const unsigned char *bytes, size_t byte_count)
{
    uint64_t word = 0;
    for (size_t i = 0; i < byte_count; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

uint64_t kvt_hash_bytes(uint64_t chain, const void *bytes, size_t byte_count)
{
    const unsigned char *at = bytes;
    size_t left = byte_count;
    for (; left >= 8; at += 8, left -= 8)
        chain = kvt_chain64(chain, load_word(at, 8));
    if (left > 0)
        chain = kvt_chain64(chain, load_word(at, left));
    /* The length tells "a" from "a\0", and a chain of two texts from their sum. */
    return kvt_chain64(chain, byte_count);
}
