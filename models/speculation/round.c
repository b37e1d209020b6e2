/* round.c -- a round of one path, as most methods have it. */
#include "kvt/speculation.h"

#include <assert.h>

/* The anchor and what is accepted are path 0. What is not leaves it at the first
 * draft that is rejected. */
void kvt_round_chain(struct kvt_round *round, uint32_t query_count, uint32_t committed_tokens)
{
    assert(query_count >= 1 && query_count <= KVT_QUERIES_MAX);
    assert(committed_tokens >= 1 && committed_tokens <= query_count);
    round->draft_tokens = query_count - 1;
    round->query_count = query_count;
    round->committed_tokens = committed_tokens;
    for (uint32_t depth = 0; depth < query_count; depth++) {
        bool is_committed = depth < committed_tokens;
        round->queries[depth] = (struct kvt_law_query){
            .depth = depth,
            .path = is_committed ? 0 : 1,
            .fork = is_committed ? 0 : committed_tokens,
        };
    }
}
