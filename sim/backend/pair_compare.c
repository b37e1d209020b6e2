/* pair_compare.c -- what two backends have done with one step, and whether it was the same.
 *
 *     each request: decisions, rows, pages watched, and the state of every hot cache
 *     each rank: rows by stratum, waves, what the timing model is told
 *
 * One that differs is told once, and left alone from then on: what follows differs by itself. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair_private.h"

/* ---- Words ---------------------------------------------------------------------------- */

static const char *name_of(const struct backend_pair *pair, int side)
{
    return pair->sides[side]->ops->info.name;
}

void pair_say(struct pair_text *text, const char *fmt, ...)
{
    va_list args;

    if (text->used >= text->bytes)
        return;
    va_start(args, fmt);
    int wrote = vsnprintf(text->out + text->used, text->bytes - text->used, fmt, args);
    va_end(args);
    text->used += wrote > 0 ? (size_t)wrote : 0;
}

/* Where the text of the first mismatch goes; nowhere once there is one. */
static struct pair_text begin_mismatch(struct backend_pair *pair)
{
    bool is_first = pair->report.mismatches++ == 0;

    if (is_first)
        pair->report.first_mismatch = pair->text;
    return (struct pair_text){.out = pair->text, .bytes = is_first ? sizeof pair->text : 0};
}

/* ---- Requests ------------------------------------------------------------------------- */

void pair_compare_ends(struct backend_pair *pair, uint32_t request, const char *what,
                       uint64_t first, uint64_t second)
{
    struct pair_lane *lane = pair->lanes[request];

    if (first == second || lane->differs)
        return;
    struct pair_text text = begin_mismatch(pair);
    lane->differs = true;
    pair_say(&text,
             "request %u, as it was %s: its hot caches end with chain %016llx on \"%s\" and "
             "%016llx on \"%s\", though the states agreed behind its last step\n",
             request, what, (unsigned long long)first, name_of(pair, 0), (unsigned long long)second,
             name_of(pair, 1));
}

/* Those of the second were read behind its step. */
static kvt_status read_states(struct backend_pair *pair, const struct kvt_step_item *other,
                              bool *differ, struct kvt_error *err)
{
    struct kvt_backend *first = pair->sides[0];
    uint32_t stores = pair->env.llm->store_count;

    kvt_status status = first->ops->state_hashes(first, other->request, pair->first_hashes, err);
    if (status != KVT_OK)
        return status;
    pair->hashes[0] = pair->first_hashes;
    pair->hashes[1] = pair->second_hashes + (size_t)(other - pair->items) * stores;
    *differ = memcmp(pair->hashes[0], pair->hashes[1], stores * sizeof(uint64_t)) != 0;
    for (uint32_t s = 0; s < stores; s++)
        pair->report.states += pair->hashes[0][s] != 0 || pair->hashes[1][s] != 0;
    return KVT_OK;
}

/* Pages of the item that a boundary has moved since its last step. */
static kvt_status count_pages(struct backend_pair *pair, struct pair_lane *lane,
                              const struct kvt_step_item *item, struct kvt_error *err)
{
    uint32_t words = (item->ready_pages + 63) / 64;

    if (words > lane->ready_words) {
        uint64_t *bits = realloc(lane->ready_bits, words * sizeof *bits);
        if (!bits)
            return kvt_fail_nomem(err, "the pages of a request");
        memset(bits + lane->ready_words, 0, (words - lane->ready_words) * sizeof *bits);
        lane->ready_bits = bits;
        lane->ready_words = words;
    }
    for (uint32_t w = 0; w < lane->ready_words; w++) {
        uint64_t now = w < words ? item->ready_bits[w] : 0;
        if (w + 1 == words && item->ready_pages % 64 > 0)
            now &= (UINT64_C(1) << item->ready_pages % 64) - 1;
        pair->report.page_changes += (uint64_t)__builtin_popcountll(now ^ lane->ready_bits[w]);
        lane->ready_bits[w] = now;
    }
    return KVT_OK;
}

static bool watches_differ(const struct kvt_step_item *item, const struct kvt_step_item *other)
{
    const struct kvt_page_watch *a = item->watch, *b = other->watch;

    return a &&
           ((a->hits && memcmp(a->hits, b->hits, a->page_count * sizeof *a->hits) != 0) ||
            (a->scores && memcmp(a->scores, b->scores, a->page_count * sizeof *a->scores) != 0));
}

kvt_status pair_compare_item(struct backend_pair *pair, const struct kvt_rank_step *rank,
                             const struct kvt_step_item *item, const struct kvt_step_item *other,
                             struct kvt_error *err)
{
    struct pair_lane *lane = pair->lanes[item->request];
    bool states_differ = false;

    if (lane->differs)
        return KVT_OK;
    kvt_status status = read_states(pair, other, &states_differ, err);
    if (status == KVT_OK)
        status = count_pages(pair, lane, item, err);
    if (status != KVT_OK)
        return status;
    bool watch_differs = watches_differ(item, other);
    if (!states_differ && !watch_differs && item->decisions == other->decisions &&
        item->selected_rows == other->selected_rows && item->missed_rows == other->missed_rows) {
        pair->report.agreed_rounds++;
        return KVT_OK;
    }
    struct pair_text text = begin_mismatch(pair);
    lane->differs = true;
    pair_say(&text,
             "request %u, its round %llu of %u queries behind %u tokens, on rank %u: \"%s\" | "
             "\"%s\"\n",
             item->request, (unsigned long long)item->step, item->round->query_count,
             item->context_tokens, rank->rank, name_of(pair, 0), name_of(pair, 1));
    if (item->selected_rows != other->selected_rows || item->missed_rows != other->missed_rows)
        pair_say(&text, "selected %llu | %llu, missed %llu | %llu in all its calls\n",
                 (unsigned long long)item->selected_rows, (unsigned long long)other->selected_rows,
                 (unsigned long long)item->missed_rows, (unsigned long long)other->missed_rows);
    if (watch_differs)
        pair_say(&text, "what is selected of its pages was counted differently\n");
    if (text.bytes > 0)
        pair_describe_round(pair, item, other, states_differ, &text);
    return KVT_OK;
}

/* ---- Ranks ---------------------------------------------------------------------------- */

static bool are_close(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* What the timing model is told, by what it is called there. */
static void compare_loads(const struct kvt_rank_load *a, const struct kvt_rank_load *b,
                          struct pair_text *found)
{
    const struct {
        const char *name;
        double first, second;
    } parts[] = {
        {"requests", a->requests, b->requests},
        {"queries", a->queries, b->queries},
        {"draft_tokens", a->draft_tokens, b->draft_tokens},
        {"calls", a->calls, b->calls},
        {"context_rows", (double)a->context_rows, (double)b->context_rows},
        {"selected_rows", a->selected_rows, b->selected_rows},
        {"attended_layer_rows", a->attended_layer_rows, b->attended_layer_rows},
        {"looked_up_rows", a->looked_up_rows, b->looked_up_rows},
        {"missed_rows", a->missed_rows, b->missed_rows},
        {"missed_layer_rows", a->missed_layer_rows, b->missed_layer_rows},
        {"leader_layer_rows", a->leader_layer_rows, b->leader_layer_rows},
        {"wire_bytes", a->wire_bytes, b->wire_bytes},
        {"granules", a->granules, b->granules},
        {"calls_with_misses", a->calls_with_misses, b->calls_with_misses},
        {"extra_waves", a->extra_waves, b->extra_waves},
        {"extra_wave_layers", a->extra_wave_layers, b->extra_wave_layers},
    };

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!are_close(parts[i].first, parts[i].second))
            pair_say(found, "%s %.17g | %.17g\n", parts[i].name, parts[i].first, parts[i].second);
    }
}

static void compare_outcomes(const struct kvt_step_outcome *a, const struct kvt_step_outcome *b,
                             struct pair_text *found)
{
    for (int s = 0; s < KVT_STRATA_MAX; s++) {
        if (memcmp(&a->rows[s], &b->rows[s], sizeof a->rows[s]) != 0)
            pair_say(found, "rows of stratum %d: %llu calls, %llu missed | %llu, %llu\n", s,
                     (unsigned long long)a->rows[s].calls, (unsigned long long)a->rows[s].missed,
                     (unsigned long long)b->rows[s].calls, (unsigned long long)b->rows[s].missed);
    }
    compare_loads(&a->load, &b->load, found);
    for (int c = 0; c < KVT_SAMPLED_COUNTS; c++) {
        if (!are_close(a->counts[c], b->counts[c]))
            pair_say(found, "count %d: %.17g | %.17g\n", c, a->counts[c], b->counts[c]);
    }
    if (!are_close(a->payload_bytes, b->payload_bytes))
        pair_say(found, "payload bytes %.17g | %.17g\n", a->payload_bytes, b->payload_bytes);
    if (a->staging_peak_bytes != b->staging_peak_bytes)
        pair_say(found, "bytes staged at once %llu | %llu\n",
                 (unsigned long long)a->staging_peak_bytes,
                 (unsigned long long)b->staging_peak_bytes);
}

void pair_compare_rank(struct backend_pair *pair, const struct kvt_rank_step *rank,
                       const struct kvt_rank_step *other)
{
    char found_text[1024] = "";
    struct pair_text found = {.out = found_text, .bytes = sizeof found_text};

    for (uint32_t i = 0; i < rank->item_count; i++) {
        if (pair->lanes[rank->items[i].request]->differs)
            return;
    }
    compare_outcomes(&rank->outcome, &other->outcome, &found);
    if (found.used == 0)
        return;
    struct pair_text text = begin_mismatch(pair);
    pair_say(&text, "step %llu of rank %u, whose %u requests agree: \"%s\" | \"%s\"\n%s",
             (unsigned long long)pair->report.steps, rank->rank, rank->item_count, name_of(pair, 0),
             name_of(pair, 1), found_text);
}
