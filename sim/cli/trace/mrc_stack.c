/* mrc_stack.c -- LRU caches of several sizes at once: one list, with a mark at each size.
 *
 *     touch(row), which lies in group g: within sizes[g] of the top, beyond sizes[g - 1]
 *         caches 0 .. g - 1 miss it
 *         the mark of each of those moves up by one: what it was at falls out of that cache
 *         the row moves to the top
 *
 * An LRU cache of B rows holds the B top ones of this list (inclusion: R. L. Mattson et al.,
 * "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970). Only which
 * sizes a row is within is asked, not how deep it lies, so that a touch takes a step for each cache
 * that misses instead of a search (Y. H. Kim, M. D. Hill, D. A. Wood, "Implementing stack
 * simulation for highly-associative memories", SIGMETRICS 1991). Most touches hit the smallest
 * cache. */
#include "mrc_stack.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

enum {
    NEVER = UINT8_MAX /* the group of a row that has not been touched */
};

struct node {
    uint32_t above, below; /* NOBODY: it is the top, or the last */
};

struct mrc_stack {
    struct node *nodes; /* [rows_max] */
    uint8_t *groups;    /* [rows_max] */
    uint32_t top, last;
    uint32_t touched_rows; /* in the list */
    size_t size_count;
    uint32_t sizes[MRC_SIZES_MAX];
    uint32_t marks[MRC_SIZES_MAX];           /* the row sizes[i] from the top; NOBODY: none yet */
    uint64_t hits[MRC_SIZES_MAX + 1], first; /* touches by group */
};

kvt_status mrc_stack_new(uint32_t rows_max, const uint32_t *sizes, size_t size_count,
                         struct mrc_stack **out, struct kvt_error *err)
{
    assert(size_count <= MRC_SIZES_MAX && rows_max > 0);
    struct mrc_stack *stack = calloc(1, sizeof *stack);
    struct node *nodes = malloc(rows_max * sizeof *nodes);
    uint8_t *groups = malloc(rows_max);
    if (stack == NULL || nodes == NULL || groups == NULL) {
        free(stack);
        free(nodes);
        free(groups);
        return kvt_fail_nomem(err, "LRU caches of several sizes");
    }
    memset(groups, NEVER, rows_max);
    stack->nodes = nodes;
    stack->groups = groups;
    stack->top = stack->last = NOBODY;
    stack->size_count = size_count;
    for (size_t i = 0; i < size_count; i++) {
        assert(sizes[i] > (i > 0 ? sizes[i - 1] : 0));
        stack->sizes[i] = sizes[i];
        stack->marks[i] = NOBODY;
    }
    *out = stack;
    return KVT_OK;
}

void mrc_stack_free(struct mrc_stack *stack)
{
    if (stack == NULL)
        return;
    free(stack->nodes);
    free(stack->groups);
    free(stack);
}

/* What lies at the marks of caches [0, count), which a row comes into, falls out of them. The row
 * is the top by now. */
static void lower(struct mrc_stack *stack, size_t count)
{
    for (size_t i = 0; i < count && stack->marks[i] != NOBODY; i++) {
        uint32_t fallen = stack->marks[i];
        stack->groups[fallen] = (uint8_t)(i + 1);
        stack->marks[i] = stack->nodes[fallen].above;
    }
}

static void push(struct mrc_stack *stack, uint32_t row)
{
    stack->nodes[row] = (struct node){.above = NOBODY, .below = stack->top};
    if (stack->top != NOBODY)
        stack->nodes[stack->top].above = row;
    else
        stack->last = row;
    stack->top = row;
    stack->groups[row] = 0;
}

/* Not the top. */
static void unlink_row(struct mrc_stack *stack, uint32_t row)
{
    struct node node = stack->nodes[row];
    stack->nodes[node.above].below = node.below;
    if (node.below != NOBODY)
        stack->nodes[node.below].above = node.above;
    else
        stack->last = node.above;
}

static void touch_first(struct mrc_stack *stack, uint32_t row)
{
    stack->first++;
    push(stack, row);
    lower(stack, stack->size_count);
    stack->touched_rows++;
    for (size_t i = 0; i < stack->size_count; i++) {
        if (stack->sizes[i] == stack->touched_rows)
            stack->marks[i] = stack->last;
    }
}

void mrc_stack_touch(struct mrc_stack *stack, const uint32_t *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t row = rows[i];
        uint8_t group = stack->groups[row];
        if (group == NEVER) {
            touch_first(stack, row);
            continue;
        }
        stack->hits[group]++;
        if (row == stack->top)
            continue;
        if (group < stack->size_count && stack->marks[group] == row)
            stack->marks[group] = stack->nodes[row].above;
        unlink_row(stack, row);
        push(stack, row);
        lower(stack, group);
    }
}

uint64_t mrc_stack_missed(const struct mrc_stack *stack, size_t i)
{
    uint64_t missed = stack->first;
    for (size_t group = i + 1; group <= stack->size_count; group++)
        missed += stack->hits[group];
    return missed;
}

uint64_t mrc_stack_first(const struct mrc_stack *stack)
{
    return stack->first;
}
