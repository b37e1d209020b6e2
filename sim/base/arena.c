/* arena.c -- a bump allocator over a chain of zeroed blocks.
 *
 *     alloc: round the cursor up to the alignment; if the piece fits in the
 *            newest block, hand it out; else chain a new block, twice as large
 *            as the last (or as large as the piece needs), and take it there
 *
 * Blocks come from calloc(), whose large blocks the kernel zeroes page by page
 * as they are touched: room that is never used costs address space only. */
#include "kvt/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALLEST_BLOCK_BYTES = 1024,
};
#define LARGEST_DOUBLING_BYTES ((size_t)64 << 20) /* past it, blocks stay this size */

struct block {
    struct block *previous;
    size_t size_bytes; /* of bytes[] */
    size_t used_bytes;
    unsigned char bytes[];
};

struct kvt_arena {
    struct block *newest;
    size_t next_block_bytes;
    size_t used_bytes; /* as asked for, without padding: the same on every run */
};

static struct block *block_new(size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - sizeof(struct block))
        return NULL;
    struct block *block = calloc(1, sizeof *block + size_bytes);
    if (block != NULL)
        block->size_bytes = size_bytes;
    return block;
}

struct kvt_arena *kvt_arena_new(size_t first_block_bytes)
{
    struct kvt_arena *arena = calloc(1, sizeof *arena);
    if (arena == NULL)
        return NULL;
    size_t size_bytes =
        first_block_bytes > SMALLEST_BLOCK_BYTES ? first_block_bytes : SMALLEST_BLOCK_BYTES;
    arena->newest = block_new(size_bytes);
    if (arena->newest == NULL) {
        free(arena);
        return NULL;
    }
    arena->next_block_bytes =
        size_bytes < LARGEST_DOUBLING_BYTES / 2 ? size_bytes * 2 : LARGEST_DOUBLING_BYTES;
    return arena;
}

void kvt_arena_free(struct kvt_arena *arena)
{
    if (arena == NULL)
        return;
    struct block *block = arena->newest;
    while (block != NULL) {
        struct block *previous = block->previous;
        free(block);
        block = previous;
    }
    free(arena);
}

/* NULL when the piece does not fit. */
static void *block_take(struct block *block, size_t size_bytes, size_t align_bytes)
{
    uintptr_t cursor = (uintptr_t)block->bytes + block->used_bytes;
    size_t padding_bytes = (size_t)(-cursor & (align_bytes - 1));
    size_t free_bytes = block->size_bytes - block->used_bytes;
    if (padding_bytes > free_bytes || size_bytes > free_bytes - padding_bytes)
        return NULL;
    void *piece = block->bytes + block->used_bytes + padding_bytes;
    block->used_bytes += padding_bytes + size_bytes;
    return piece;
}

void *kvt_arena_alloc(struct kvt_arena *arena, size_t size_bytes, size_t align_bytes)
{
    if (align_bytes == 0 || (align_bytes & (align_bytes - 1)) != 0)
        return NULL;

    /* At least one byte, so that two pieces never share an address. */
    size_t piece_bytes = size_bytes > 0 ? size_bytes : 1;
    void *piece = block_take(arena->newest, piece_bytes, align_bytes);
    if (piece == NULL) {
        if (piece_bytes > SIZE_MAX - align_bytes)
            return NULL;
        size_t needed_bytes = piece_bytes + align_bytes;
        struct block *block = block_new(
            needed_bytes > arena->next_block_bytes ? needed_bytes : arena->next_block_bytes);
        if (block == NULL)
            return NULL;
        block->previous = arena->newest;
        arena->newest = block;
        if (arena->next_block_bytes < LARGEST_DOUBLING_BYTES)
            arena->next_block_bytes *= 2;
        piece = block_take(block, piece_bytes, align_bytes);
    }
    arena->used_bytes += size_bytes;
    return piece;
}

void *kvt_arena_array(struct kvt_arena *arena, size_t count, size_t size_bytes, size_t align_bytes)
{
    if (size_bytes != 0 && count > SIZE_MAX / size_bytes)
        return NULL;
    return kvt_arena_alloc(arena, count * size_bytes, align_bytes);
}

char *kvt_arena_strdup(struct kvt_arena *arena, const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    char *copy = kvt_arena_alloc(arena, size_bytes, 1);
    if (copy != NULL)
        memcpy(copy, text, size_bytes);
    return copy;
}

char *kvt_arena_printf(struct kvt_arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (length < 0)
        return NULL;

    size_t size_bytes = (size_t)length + 1;
    char *text = kvt_arena_alloc(arena, size_bytes, 1);
    if (text == NULL)
        return NULL;
    va_start(args, fmt);
    (void)vsnprintf(text, size_bytes, fmt, args);
    va_end(args);
    return text;
}

size_t kvt_arena_used_bytes(const struct kvt_arena *arena)
{
    return arena->used_bytes;
}
