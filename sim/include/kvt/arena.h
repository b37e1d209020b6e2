/* kvt/arena.h -- memory that lives exactly as long as its owner. */
#ifndef KVT_ARENA_H
#define KVT_ARENA_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

struct kvt_arena;

/* NULL when memory is short. Free with kvt_arena_free(), which takes NULL. */
struct kvt_arena *kvt_arena_new(size_t first_block_bytes);
void kvt_arena_free(struct kvt_arena *arena);

/* Zeroed memory, aligned to align_bytes (a power of two); NULL when short.
 * Nothing is freed singly: the arena goes as a whole. */
KVT_CHECKED void *kvt_arena_alloc(struct kvt_arena *arena, size_t size_bytes, size_t align_bytes);

/* count elements of size_bytes each, or NULL on overflow or shortage. */
KVT_CHECKED void *kvt_arena_array(struct kvt_arena *arena, size_t count, size_t size_bytes,
                                  size_t align_bytes);
KVT_CHECKED char *kvt_arena_strdup(struct kvt_arena *arena, const char *text);
KVT_CHECKED char *kvt_arena_printf(struct kvt_arena *arena, const char *fmt, ...) KVT_PRINTF(2, 3);

size_t kvt_arena_used_bytes(const struct kvt_arena *arena);

KVT_END_DECLS
#endif
