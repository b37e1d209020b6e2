/* ghosts.c -- rows that have left a cache and are remembered for a while. */
#include "ghosts.h"

#include "kvt/hash.h"
#include "slot_lists.h"

/* ---- State ------------------------------------------------------------------------------------
 */

uint32_t ghost_capacity(const struct kvt_replacement_env *env, double fraction)
{
    double capacity = fraction * env->slot_count;

    return capacity < env->rows_max ? (uint32_t)capacity : env->rows_max;
}

/* As many chains as rows, rounded up to a power of two. */
static uint32_t chain_count(uint32_t capacity)
{
    uint32_t chains = 1;

    while (chains < capacity && chains < UINT32_C(1) << 31)
        chains *= 2;
    return chains;
}

size_t ghost_words(uint32_t capacity)
{
    size_t bytes = sizeof(struct ghost_counts) +
                   ((size_t)capacity + GHOST_LISTS) * sizeof(struct ghost) +
                   (size_t)chain_count(capacity) * sizeof(uint32_t);

    return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

struct ghosts ghosts_at(uint64_t *words, uint32_t capacity)
{
    struct ghosts ghosts = {.counts = (struct ghost_counts *)words,
                            .capacity = capacity,
                            .mask = chain_count(capacity) - 1};

    ghosts.nodes = (struct ghost *)(ghosts.counts + 1);
    ghosts.heads = (uint32_t *)(ghosts.nodes + capacity + GHOST_LISTS);
    return ghosts;
}

void ghosts_init(const struct ghosts *ghosts)
{
    ghosts->counts->free = GHOST_NONE;
    for (uint32_t list = 0; list < GHOST_LISTS; list++) {
        uint32_t end = ghosts->capacity + list;
        ghosts->nodes[end].newer = ghosts->nodes[end].older = end;
    }
}

void ghosts_ask_for(const struct ghosts *ghosts)
{
    state_ask_for(ghosts->heads, ((size_t)ghosts->mask + 1) * sizeof *ghosts->heads);
    state_ask_for(ghosts->nodes, ghosts->counts->used * sizeof *ghosts->nodes);
}

/* ---- By row -------------------------------------------------------------------------------------
 */

static uint32_t *chain_of(const struct ghosts *ghosts, uint32_t row)
{
    return &ghosts->heads[kvt_mix64(row) & ghosts->mask];
}

uint32_t ghost_find(const struct ghosts *ghosts, uint32_t row)
{
    uint32_t next = *chain_of(ghosts, row);

    while (next != 0 && ghosts->nodes[next - 1].row != row)
        next = ghosts->nodes[next - 1].chain;
    return next == 0 ? GHOST_NONE : next - 1;
}

void ghost_forget(const struct ghosts *ghosts, uint32_t node)
{
    struct ghost *ghost = &ghosts->nodes[node];
    uint32_t *link = chain_of(ghosts, ghost->row);

    while (*link != node + 1)
        link = &ghosts->nodes[*link - 1].chain;
    *link = ghost->chain;
    ghosts->nodes[ghost->older].newer = ghost->newer;
    ghosts->nodes[ghost->newer].older = ghost->older;
    ghosts->counts->rows[ghost->list]--;
    ghost->chain = ghosts->counts->free;
    ghosts->counts->free = node;
}

void ghost_remember(const struct ghosts *ghosts, uint32_t list, uint32_t row)
{
    struct ghost_counts *counts = ghosts->counts;
    uint32_t *link = chain_of(ghosts, row), end = ghosts->capacity + list;
    uint32_t node = counts->free;

    if (node != GHOST_NONE)
        counts->free = ghosts->nodes[node].chain;
    else
        node = counts->used++;
    ghosts->nodes[node] = (struct ghost){
        .newer = end, .older = ghosts->nodes[end].older, .chain = *link, .row = row, .list = list};
    *link = node + 1;
    ghosts->nodes[ghosts->nodes[node].older].newer = node;
    ghosts->nodes[end].older = node;
    counts->rows[list]++;
}

void ghost_forget_rows(const struct ghosts *ghosts, const uint32_t *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = ghost_find(ghosts, rows[i]);
        if (node != GHOST_NONE)
            ghost_forget(ghosts, node);
    }
}

bool ghosts_are_sane(const struct ghosts *ghosts)
{
    for (uint32_t list = 0; list < GHOST_LISTS; list++) {
        uint32_t end = ghosts->capacity + list, node = end, steps = 0;
        do {
            uint32_t newer = ghosts->nodes[node].newer;
            if ((newer != end && newer >= ghosts->capacity) || ghosts->nodes[newer].older != node)
                return false;
            if (newer != end && (ghosts->nodes[newer].list != list ||
                                 ghost_find(ghosts, ghosts->nodes[newer].row) != newer))
                return false;
            node = newer;
            steps++;
        } while (node != end && steps <= ghosts->counts->rows[list]);
        if (node != end || steps != ghosts->counts->rows[list] + 1)
            return false;
    }
    return true;
}
