/* backend_watch.c -- what policies want to know of a round's selections, before it is resolved. */
#include "backend_sim_private.h"

void watch_selector(const struct backend_sim *sim, struct worker *worker,
                    const struct kvt_step_item *item, const struct kvt_store *store, void *stream,
                    const struct kvt_law_round *round, uint32_t visible_rows)
{
    uint32_t rows_per_page = KVT_PAGE_ROWS / store->compress_ratio;
    struct kvt_page_watch *watch = item->watch;

    for (uint32_t q = 0; q < round->query_count && watch->hits; q++)
        kvt_page_watch_hit(watch, worker->sets[q], kvt_row_words(visible_rows), rows_per_page);
    if (!watch->scores)
        return;
    uint32_t seen = round->visible_rows[round->committed_tokens - 1];
    sim->law->page_scores(sim->law_data, stream, seen, rows_per_page, worker->page_scores);
    kvt_page_watch_score(watch, worker->page_scores, (seen + rows_per_page - 1) / rows_per_page,
                         sim->env.llm->selector_count);
}
