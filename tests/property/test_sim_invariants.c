/* test_sim_invariants.c -- what must hold in any run, over small scenarios drawn at random: after
 * every event, and of the books when they are closed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "backend/backend_sim_private.h"
#include "kvt/layout.h"
#include "kvt/rng.h"
#include "sim_private.h"
#include "support/drawn_scenario.h"
#include "support/small_run.h"

enum {
    CASES = 24, /* without drafts, and as many with */
    TALKS = 64,
    FAULTY = 96
};

/* ---- After every event ------------------------------------------------------------------ */

/* ck_assert() writes down each time that it holds, which after every event is too much. */
#define hold(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("does not hold: %s", #condition);                                         \
    } while (0)

static void check_homes(const struct kvt_live *live, kvt_ns now_ns)
{
    const struct kvt_pages *pages = &live->pages;
    uint32_t tail_end = pages->committed_tokens + pages->queries; /* the coming call's rows too */
    uint32_t left = tail_end > KVT_TAIL_ROWS ? tail_end - KVT_TAIL_ROWS : 0;

    hold(kvt_pages_have_homes(pages, now_ns));
    hold(pages->clean_pages * KVT_PAGE_ROWS <= left);
    hold(pages->clean_pages * KVT_PAGE_ROWS <= pages->backed_tokens);
    hold(pages->eligible_pages == (pages->whole ? 0 : pages->clean_pages));
    hold(pages->committed_tokens == kvt_live_context(live));
    hold(kvt_pages_is_sane(pages));
}

/* What a rejected draft leaves: nothing in a hot cache, where every row is a committed one that
 * has left the tail. */
static void check_hot_rows(const struct kvt_sim *sim, const struct kvt_rank *rank)
{
    const struct backend_sim *backend = backend_sim_of(sim->backend);

    for (uint32_t i = 0; i < rank->running.count; i++) {
        const struct kvt_live *live = rank->running.items[i];
        const struct lane *lane =
            live->id < backend->lane_capacity ? backend->lanes[live->id] : NULL;
        for (uint32_t f = 0; lane && f < lane->followed_count; f++) {
            const struct kvt_hot_cache *cache = lane->followed[f].cache;
            const struct kvt_store *store = &sim->scenario->llm->stores[lane->followed[f].store];
            uint32_t committed = kvt_store_rows(store, live->pages.committed_tokens);
            uint32_t slots = cache ? kvt_hot_cache_slot_count(cache) : 0;
            for (uint32_t slot = 0; slot < slots; slot++) {
                uint32_t row = kvt_hot_cache_rows(cache)[slot];
                hold(row == KVT_ROW_NONE || row < committed);
            }
        }
    }
}

/* What it holds and what it shares is no more than its rows want, those of the coming round too. */
static void check_share(const struct kvt_rank *rank, const struct kvt_live *live)
{
    struct kvt_session_bytes wanted;
    struct kvt_error err = {0};
    uint32_t next = live->pages.committed_tokens + rank->env.queries_max;
    uint32_t tokens = next < live->max_tokens ? next : live->max_tokens;
    uint64_t index_bytes = live->holding.bytes[KVT_MEM_INDEX] +
                           live->holding.reserve_bytes[KVT_MEM_INDEX] +
                           live->shared.bytes[KVT_MEM_INDEX];

    hold(kvt_rank_required(rank, tokens, live->max_tokens, live->hot_tokens, &wanted, &err) ==
         KVT_OK);
    hold(index_bytes <= wanted.hbm_by_class[KVT_MEM_INDEX]);
    if (rank->needs.host_backing)
        hold(live->holding.host_bytes + live->shared.host_bytes <= wanted.host_bytes);
}

static void check_rank(const struct kvt_sim *sim, uint32_t r, uint64_t host_bytes[])
{
    const struct kvt_rank *rank = &sim->ranks[r];
    const struct kvt_live_list waiting = {.items = rank->waiting.items,
                                          .count = rank->waiting.count};
    const struct kvt_live_list *lists[] = {&rank->importing, &rank->arrived, &rank->running,
                                           &waiting};
    uint64_t by_class[KVT_MEM_CLASSES] = {0}, pools[2] = {0}, reserve = 0;

    /* What finished requests left is on the store's account, and on nobody else's. */
    hold(kvt_prefix_pool_is_sane(&rank->prefixes));
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        by_class[c] = rank->prefixes.holding.bytes[c] + rank->staging.bytes[c];
        pools[rank->memory.pool_of[c]] += by_class[c];
    }
    host_bytes[rank->memory.host - sim->hosts] +=
        rank->prefixes.holding.host_bytes * rank->memory.host_copies;
    for (size_t l = 0; l < 4; l++) {
        for (uint32_t i = 0; i < lists[l]->count; i++) {
            const struct kvt_live *live = lists[l]->items[i];
            const struct kvt_holding *holding = &live->holding;
            hold(lists[l] != &waiting || live->aside_tokens > 0 || live->shared.page_count == 0);
            if (lists[l] != &waiting && !live->pages.whole)
                hold(holding->bytes[KVT_MEM_PAYLOAD] + holding->reserve_bytes[KVT_MEM_PAYLOAD] ==
                     kvt_pages_held(&live->pages) * rank->page_bytes);
            for (int c = 0; c < KVT_MEM_CLASSES; c++) {
                by_class[c] += live->holding.bytes[c] + live->holding.reserve_bytes[c];
                pools[rank->memory.pool_of[c]] += live->holding.bytes[c];
                reserve += live->holding.reserve_bytes[c];
            }
        }
    }
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        hold(by_class[c] == rank->memory.used_by_class[c]);
    for (int p = 0; p < 2; p++) {
        hold(pools[p] == rank->memory.pool_used[p]);
        hold(pools[p] <= rank->memory.pool_bytes[p]);
    }
    hold(reserve == rank->memory.reserve_used);
    hold(reserve <= rank->memory.reserve_bytes);
    for (uint32_t i = 0; i < rank->running.count; i++) {
        check_homes(rank->running.items[i], sim->now_ns);
        check_share(rank, rank->running.items[i]);
    }
    hold(rank->ready_rows <= rank->eligible_rows);
    if (sim->groups[sim->group_of[r]].stepping)
        hold(sim->rank_steps[r].outcome.staging_peak_bytes <=
             rank->memory.used_by_class[KVT_MEM_STAGING]);
    check_hot_rows(sim, rank);
}

/* While a step is under way, every row that it rewrites must have been backed when it began:
 * a request's slot of row n is that of row n - 64. */
static void check_tails(const struct kvt_sim *sim)
{
    for (uint32_t g = 0; g < sim->group_count; g++) {
        const struct group *group = &sim->groups[g];
        for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
            const struct kvt_rank *rank = &sim->ranks[r];
            kvt_ns begun_ns = sim->now_ns;
            for (uint32_t i = 0; i < rank->running.count && group->stepping; i++) {
                const struct kvt_live *live = rank->running.items[i];
                if (live->blocked || live->pages.whole ||
                    live->pages.committed_tokens < KVT_TAIL_ROWS)
                    continue;
                uint32_t row = live->pages.committed_tokens - KVT_TAIL_ROWS;
                if (live->pages.ready_bits[row / 4096] >> row / 64 % 64 & 1)
                    continue;
                for (uint32_t w = 0; w < live->pages.pending_count; w++) {
                    const struct kvt_backup *write =
                        &live->pages.pending[(live->pages.pending_head + w) % KVT_BACKUPS_MAX];
                    /* The step ends no earlier than the write-backs it had to await. */
                    if (write->tokens <= row + 1)
                        hold(write->done_ns <= begun_ns + rank->last_step_ns);
                }
            }
        }
    }
}

static void check_requests(const struct kvt_sim *sim)
{
    uint64_t by_status[KVT_REQUEST_STATUSES] = {0};
    for (size_t i = 0; i < sim->record_count; i++) {
        const struct kvt_request_record *record = &sim->records[i];
        by_status[record->status]++;
        hold(record->generated_tokens <= record->output_tokens);
        hold(record->arrival_ns <= sim->now_ns);
        if (record->admitted_ns != KVT_NS_NEVER)
            hold(record->admitted_ns >= record->arrival_ns);
        if (record->first_token_ns != KVT_NS_NEVER)
            hold(record->first_token_ns >= record->admitted_ns);
        if (record->finished_ns != KVT_NS_NEVER) {
            hold(record->finished_ns >= record->first_token_ns);
            hold(record->generated_tokens == record->output_tokens);
        }
    }
    hold(sim->record_count ==
         by_status[KVT_REQUEST_COMPLETED] + by_status[KVT_REQUEST_RUNNING] +
             by_status[KVT_REQUEST_IMPORTING] + by_status[KVT_REQUEST_PREFILLING] +
             by_status[KVT_REQUEST_WAITING] + by_status[KVT_REQUEST_UNSERVABLE]);
    hold(sim->prefill.busy + sim->computing == by_status[KVT_REQUEST_PREFILLING]);
    hold(sim->waiting == by_status[KVT_REQUEST_WAITING] + sim->prefill.busy);
    hold(sim->importing == by_status[KVT_REQUEST_IMPORTING] + sim->computing);
    hold(sim->decoding == by_status[KVT_REQUEST_RUNNING]);
}

/* A rank that is down is empty, and holds the staging that it keeps and nothing else. */
static void check_down(const struct kvt_sim *sim)
{
    uint32_t down = 0;

    for (uint32_t r = 0; r < sim->rank_count; r++) {
        const struct kvt_rank *rank = &sim->ranks[r];
        if (!sim_is_down(sim, r))
            continue;
        down++;
        hold(rank->running.count + rank->arrived.count + rank->importing.count +
                 rank->prefilling.count + rank->waiting.count ==
             0);
        hold(kvt_rank_memory_used(&rank->memory) == rank->staging.bytes[KVT_MEM_STAGING]);
        hold(kvt_prefix_page_count(rank->prefixes.store) == 0 && rank->fill_count == 0);
    }
    hold(down == sim->faults.down_count);
}

static void check_all(const struct kvt_sim *sim)
{
    uint64_t host_bytes[64] = {0};
    hold(sim->host_count <= 64);
    for (uint32_t r = 0; r < sim->rank_count; r++)
        check_rank(sim, r, host_bytes);
    /* Of every request, wherever it is: what a failed rank has left of it too. */
    for (size_t i = 0; i < sim->record_count; i++) {
        const struct kvt_live *live = sim->live[i];
        if (!live || live->holding.host_bytes == 0)
            continue;
        const struct kvt_rank *rank = &sim->ranks[sim->records[i].rank];
        host_bytes[rank->memory.host - sim->hosts] +=
            live->holding.host_bytes * rank->memory.host_copies;
    }
    for (uint32_t h = 0; h < sim->host_count; h++) {
        hold(host_bytes[h] == sim->hosts[h].used_bytes);
        hold(host_bytes[h] <= sim->hosts[h].capacity_bytes);
    }
    check_tails(sim);
    check_requests(sim);
    check_down(sim);
}

/* ---- Of the whole run ---------------------------------------------------------------------- */

struct seen {
    struct kvt_tally sum;
};

static void add_interval(void *context, const struct kvt_tally *interval, uint32_t stratum_count)
{
    struct seen *seen = context;
    for (uint32_t s = 0; s < stratum_count; s++)
        ck_assert(kvt_row_counts_conserve(&interval->rows[s]));
    kvt_tally_merge(&seen->sum, interval);
}

/* Number in the system, summed over time, is each request's stay, summed: Little's law of a
 * run that ends empty, to the rounding of its sums. */
static void check_little(const struct kvt_run *run)
{
    bool computes = run->scenario->prefill.mode == KVT_PREFILL_COLOCATED;
    double stay_ns = 0, wait_ns = 0;
    for (size_t i = 0; i < run->record_count; i++) {
        const struct kvt_request_record *record = &run->records[i];
        if (record->status != KVT_REQUEST_COMPLETED)
            continue;
        stay_ns += (double)(record->finished_ns - record->arrival_ns);
        wait_ns += (double)(record->admitted_ns - record->arrival_ns);
    }
    const struct kvt_tally *total = &run->total;
    double held_ns = total->importing_ns + total->running_ns;
    double in_system = total->waiting_ns + total->importing_ns + total->running_ns;
    in_system += total->prefilling_ns;
    held_ns += computes ? total->prefilling_ns : 0;
    wait_ns -= computes ? 0 : total->prefilling_ns;
    ck_assert_double_eq_tol(in_system, stay_ns, 1e-9 * stay_ns + 1);
    if (total->preemptions + total->interrupted == 0)
        ck_assert_double_eq_tol(total->waiting_ns, wait_ns, 1e-9 * wait_ns + 1);
    ck_assert_double_eq_tol(total->held_ns, held_ns, 1e-9 * stay_ns + 1);
}

static void check_books(const struct small_run *small, const struct seen *seen)
{
    const struct kvt_run *run = small->run;
    const struct kvt_tally *total = &run->total;
    uint64_t tokens = 0, first_tokens = 0, completed = 0, unservable = 0, found = 0;

    for (size_t i = 0; i < run->record_count; i++) {
        const struct kvt_request_record *record = &run->records[i];
        ck_assert(record->status == KVT_REQUEST_COMPLETED ||
                  record->status == KVT_REQUEST_UNSERVABLE);
        tokens += record->generated_tokens;
        first_tokens += record->first_token_ns != KVT_NS_NEVER;
        completed += record->status == KVT_REQUEST_COMPLETED;
        unservable += record->status == KVT_REQUEST_UNSERVABLE;
        found += record->prefix_hit_tokens;
        ck_assert_uint_lt(record->prefix_hit_tokens, record->input_tokens);
    }
    ck_assert_uint_eq(total->arrived, run->record_count);
    ck_assert_uint_eq(total->completed, completed);
    ck_assert_uint_eq(total->unservable, unservable);
    ck_assert_uint_eq(total->prefix_hit_tokens, found);
    ck_assert_uint_eq(total->output_tokens, tokens);
    /* What a round did not deliver an import did. */
    ck_assert_uint_eq(total->round_tokens + first_tokens, tokens + total->lost_tokens);
    ck_assert_uint_le(kvt_histogram_count(run->itl), total->rounds);
    if (total->lost_tokens == 0)
        ck_assert_uint_eq(kvt_histogram_count(run->itl), total->rounds);
    kvt_ns parts_ns = 0;
    for (int p = 0; p < KVT_PARTS; p++)
        parts_ns += total->parts_ns[p];
    ck_assert_int_eq(parts_ns, total->step_ns);
    for (uint32_t s = 0; s < run->stratum_count; s++) {
        ck_assert(kvt_row_counts_conserve(&total->rows[s]));
        uint64_t calls = total->rounds * run->strata[s].followed * run->strata[s].selectors;
        if (run->sampling.pooled) { /* of some requests alone */
            ck_assert_uint_gt(total->rows[s].calls, 0);
            continue;
        }
        ck_assert_uint_ge(total->rows[s].calls, calls); /* more where each query has its own */
        if (run->scenario->queries_max == 1) {
            ck_assert_uint_eq(total->rows[s].calls, calls);
            ck_assert_uint_eq(total->rows[s].staged, 0);
        }
    }
    ck_assert_mem_eq(&seen->sum.rows, &total->rows, sizeof total->rows);
    ck_assert_uint_eq(seen->sum.output_tokens, total->output_tokens);
    check_little(run);
}

struct outcome {
    uint64_t hash;
    char *result; /* free() it */
    struct kvt_tally total;
};

/* The library's own look at the same. */
static void check_audit(const struct kvt_sim_audit *audit)
{
    ck_assert_uint_gt(audit->looks, 0);
    ck_assert_uint_eq(audit->lent, 0);
    ck_assert_uint_eq(audit->homeless, 0);
    ck_assert_uint_eq(audit->uncommitted, 0);
    ck_assert_uint_eq(audit->wide_rings, 0);
    ck_assert_uint_eq(audit->overstaged, 0);
}

static struct outcome run_with(const struct drawn_text *text, const char *const *sets)
{
    struct small_run small;
    struct seen seen = {0};
    struct kvt_sim_options options = {.on_interval = add_interval, .interval_context = &seen};
    bool more = true;

    small_run_open(&small, text->bytes, sets, &options);
    ck_assert_msg(small.status == KVT_OK, "%s: %s\n%s", small.err.where, small.err.message,
                  text->bytes);
    struct kvt_sim_audit audit = {0};
    kvt_ns before_ns = 0;
    for (uint64_t event = 0; more; event++) {
        small.status = kvt_sim_step(small.sim, &more, &small.err);
        ck_assert_msg(small.status == KVT_OK, "%s: %s\n%s", small.err.where, small.err.message,
                      text->bytes);
        ck_assert_int_ge(kvt_sim_now_ns(small.sim), before_ns);
        before_ns = kvt_sim_now_ns(small.sim);
        check_all(small.sim);
        ck_assert_int_eq(kvt_sim_audit(small.sim, &audit, &small.err), KVT_OK);
    }
    small.status = kvt_sim_finish(small.sim, false, &small.run, &small.err);
    ck_assert_msg(small.status == KVT_OK, "%s: %s\n%s", small.err.where, small.err.message,
                  text->bytes);
    check_books(&small, &seen);
    check_audit(&audit);
    struct outcome outcome = {kvt_sim_decision_hash(small.sim), small_run_result_text(&small),
                              small.run->total};
    small_run_close(&small);
    return outcome;
}

static struct outcome run_case(const struct drawn_text *text)
{
    return run_with(text, NULL);
}

/* And, where asked for, that the same scenario is the same run. */
static void check_case(const struct drawn_text *text, bool twice)
{
    struct outcome first = run_case(text);

    if (twice) {
        struct outcome again = run_case(text);
        ck_assert_uint_eq(first.hash, again.hash);
        ck_assert_str_eq(first.result, again.result);
        free(again.result);
    }
    free(first.result);
}

START_TEST(every_invariant_holds_after_every_event)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)_i);
    struct drawn_text text;

    drawn_scenario(&rng, &text, false, _i < CASES ? NULL : &drawn_draftings[_i % DRAWN_DRAFTINGS]);
    check_case(&text, _i % 5 == 0);
}
END_TEST

START_TEST(every_invariant_holds_of_conversations)
{
    struct kvt_rng rng = kvt_rng_stream(7411, KVT_RNG_TEST, (uint64_t)_i);
    struct drawn_text text;

    drawn_scenario(&rng, &text, true, _i % 3 > 0 ? NULL : &drawn_draftings[_i % DRAWN_DRAFTINGS]);
    check_case(&text, _i % 8 == 0);
}
END_TEST

/* ---- Faults -------------------------------------------------------------------------------- */

/* When a run without faults ends. */
static double end_s(const struct drawn_text *text)
{
    struct small_run small;

    small_run_whole(&small, text->bytes, NULL);
    double end = (double)small.run->end_ns * 1e-9;
    small_run_close(&small);
    return end;
}

/* One fault of any kind, that is repaired; ranks and links are named in the first alone, for what
 * is named twice may overlap and is refused then. */
static void say_fault(struct kvt_rng *rng, struct drawn_text *text, double run_s, bool named,
                      bool has_servers)
{
    static const char *const kinds[] = {"rank", "rank", "node", "link", "prefill"};
    static const char *const fates[] = {"lost", "kept", "kept_with_index", "kept_with_index"};
    static const char *const groups[] = {"auto", "goes_on", "stops"};
    const char *kind = kinds[kvt_rng_below(rng, has_servers ? 5 : 4)];
    double at_s = kvt_rng_below(rng, 8) == 0 ? 0 : 1.1 * run_s * kvt_rng_unit(rng);
    double back_s = 0.001 * run_s + 0.4 * run_s * kvt_rng_unit(rng) * kvt_rng_unit(rng);

    drawn_say(text, "{\"kind\": \"%s\", \"at_s\": %.9f, \"back_after_s\": %.9f", kind, at_s,
              back_s);
    if (strcmp(kind, "prefill") == 0) {
        drawn_say(text, "}");
        return;
    }
    if (named)
        drawn_say(text, ", \"which\": 0");
    else
        drawn_say(text, ", \"which\": \"%s\"", kvt_rng_below(rng, 2) ? "busiest" : "random");
    if (strcmp(kind, "link") == 0) {
        drawn_say(text, ", \"bandwidth_factor\": 0.1}");
        return;
    }
    drawn_say(text, ", \"group\": \"%s\", \"reload_s\": %s", groups[kvt_rng_below(rng, 3)],
              kvt_rng_below(rng, 2) ? "0" : "0.01");
    if (strcmp(kind, "rank") == 0)
        drawn_say(text, ", \"host_copy\": \"%s\"", fates[kvt_rng_below(rng, 4)]);
    drawn_say(text, "}");
}

/* With every fault repaired, a run ends as any other: everybody has got all his tokens. */
START_TEST(every_invariant_holds_through_faults)
{
    struct kvt_rng rng = kvt_rng_stream(9183, KVT_RNG_TEST, (uint64_t)_i);
    struct drawn_text text, faults = {0};
    unsigned count = 1 + (unsigned)kvt_rng_below(&rng, 6);

    drawn_scenario(&rng, &text, _i % 2 == 1,
                   _i % 3 > 0 ? NULL : &drawn_draftings[_i % DRAWN_DRAFTINGS]);
    double run_s = end_s(&text);
    bool has_servers = strstr(text.bytes, "\"separate\"") != NULL;
    drawn_say(&faults, "cluster.faults=[");
    for (unsigned i = 0; i < count; i++) {
        drawn_say(&faults, "%s", i > 0 ? ", " : "");
        say_fault(&rng, &faults, run_s, i == 0, has_servers && i < 2);
    }
    drawn_say(&faults, "]");
    const char *const sets[] = {faults.bytes, NULL};
    struct outcome outcome = run_with(&text, sets);
    if (_i % 8 == 0) {
        struct outcome again = run_with(&text, sets);
        ck_assert_uint_eq(outcome.hash, again.hash);
        ck_assert_str_eq(outcome.result, again.result);
        free(again.result);
    }
    free(outcome.result);
}
END_TEST

#define TIGHT                                                                                      \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"tight\", \"seed\": 7, "                       \
    "\"model\": " DRAWN_MODEL ", \"hardware\": \"b300\", \"cluster\": {\"decode\": {\"gpus\": 1, " \
    "\"pools\": {\"unified_gib\": 0.00195}, \"growth_reserve_gib\": 0.000005}, "                   \
    "\"import\": {\"law\": \"rate\", \"rate\": 0.5}}, "                                            \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 64}, "                              \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 8, \"requests\": 20, "               \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 128}, "                             \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 200}}}, \"run\": {\"interval_s\": 0.05}}"

START_TEST(preemption_ends_with_every_request_completed)
{
    struct drawn_text text = {0};
    drawn_say(&text, "%s", TIGHT);
    struct outcome outcome = run_case(&text);
    ck_assert_uint_gt(outcome.total.preemptions, 0);
    free(outcome.result);
}
END_TEST

START_TEST(optional_history_comes_in_and_gives_way)
{
    struct drawn_text text = {0};
    drawn_say(
        &text, "%s",
        "{\"schema\": \"kvtide/scenario/1\", \"name\": \"waves\", \"seed\": 3, "
        "\"model\": " DRAWN_MODEL
        ", \"hardware\": \"b300\", \"cluster\": {\"decode\": {\"gpus\": 1, "
        "\"pools\": {\"unified_gib\": 0.006}}, \"import\": {\"law\": \"rate\", \"rate\": 0.5}}, "
        "\"residency\": {\"policy\": \"adaptive\", \"hot_tokens\": 64, \"refill_gb_per_s\": 1}, "
        "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "
        "\"workload\": {\"arrival\": \"open\", \"rate\": 18, \"requests\": 40, \"lengths\": "
        "{\"input\": {\"law\": \"fixed\", \"tokens\": 600}, "
        "\"output\": {\"law\": \"fixed\", \"tokens\": 80}}}, \"run\": {\"interval_s\": 0.05}}");
    struct outcome outcome = run_case(&text);
    ck_assert_uint_gt(outcome.total.pages_filled, 0);
    ck_assert_uint_gt(outcome.total.pages_released, 0);
    free(outcome.result);
}
END_TEST

START_TEST(the_last_admitted_is_put_aside_first)
{
    struct small_run small;
    small_run_whole(&small, TIGHT, NULL);
    /* Of the first wave, admitted in order: whoever was put aside was admitted no earlier
     * than anybody who was not. */
    uint32_t kept = 0;
    ck_assert_uint_eq(small.run->records[0].preemptions, 0);
    while (small.run->records[kept].preemptions == 0)
        kept++;
    ck_assert_uint_gt(kept, 1);
    ck_assert_uint_gt(small.run->total.preemptions, 0);
    for (uint32_t i = 1; i < small.run->record_count; i++)
        ck_assert_int_ge(small.run->records[i].first_token_ns,
                         small.run->records[i - 1].first_token_ns);
    small_run_close(&small);
}
END_TEST

START_TEST(another_seed_is_another_run)
{
    static const char *const other[] = {"seed=8", NULL};
    struct small_run a, b;
    small_run_whole(&a, TIGHT, NULL);
    small_run_whole(&b, TIGHT, other);
    ck_assert_uint_ne(kvt_sim_decision_hash(a.sim), kvt_sim_decision_hash(b.sim));
    char *text_a = small_run_result_text(&a), *text_b = small_run_result_text(&b);
    ck_assert_str_ne(text_a, text_b);
    free(text_a);
    free(text_b);
    small_run_close(&a);
    small_run_close(&b);
}
END_TEST

/* Three ranks in lockstep that draft, under a hierarchy that is short of HBM. */
static void say_drafting(struct drawn_text *text, const char *residency, uint32_t hot_tokens,
                         const struct drawn_drafting *drafting)
{
    *text = (struct drawn_text){0};
    drawn_say(
        text,
        "{\"schema\": \"kvtide/scenario/1\", \"name\": \"drafting\", \"seed\": 11, \"model\": %s, "
        "\"hardware\": \"b300\", \"cluster\": {\"decode\": {\"gpus\": 3, \"ep\": 3, "
        "\"lockstep\": true, \"pools\": {\"unified_gib\": 0.006}, "
        "\"speculation_workspace_gib\": 0}, \"import\": {\"law\": \"rate\"}}, "
        "\"residency\": {\"policy\": \"%s\", \"hot_tokens\": %u}, \"speculation\": {%s%s}, "
        "\"selection\": {\"law\": \"tape\", \"tapes\": 2}, \"timing\": {\"model\": \"roofline\"}, "
        "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 12, \"requests\": 24, "
        "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 600}, "
        "\"output\": {\"law\": \"fixed\", \"tokens\": 60}}}, \"run\": {\"interval_s\": 0.05}}",
        DRAWN_MODEL, residency, hot_tokens, drafting->method, drafting->retrieval);
}

static char *result_on_threads(const struct drawn_text *text, const char *fidelity,
                               unsigned threads)
{
    const char *const sets[] = {fidelity, NULL};
    struct kvt_sim_options options = {.threads = threads};
    struct small_run small;

    small_run_open(&small, text->bytes, sets, &options);
    small_run_finish(&small);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    char *result = small_run_result_text(&small);
    small_run_close(&small);
    return result;
}

START_TEST(threads_change_nothing)
{
    static const char *const residencies[] = {"adaptive", "vllm-hybrid"};
    static const char *const fidelities[] = {"run.fidelity=exact", "run.fidelity=sampled"};
    struct drawn_text text;

    say_drafting(&text, residencies[_i / DRAWN_DRAFTINGS], 64,
                 &drawn_draftings[_i % DRAWN_DRAFTINGS]);
    for (size_t f = 0; f < 2; f++) {
        char *one = result_on_threads(&text, fidelities[f], 1);
        for (unsigned threads = 2; threads <= 4; threads += 2) {
            char *several = result_on_threads(&text, fidelities[f], threads);
            ck_assert_str_eq(one, several);
            free(several);
        }
        free(one);
    }
}
END_TEST

START_TEST(looking_on_changes_nothing)
{
    struct small_run alone, watched;
    struct seen seen = {0};
    struct kvt_sim_options options = {.on_interval = add_interval, .interval_context = &seen};
    small_run_whole(&alone, TIGHT, NULL);
    small_run_open(&watched, TIGHT, NULL, &options);
    small_run_finish(&watched);
    char *text_alone = small_run_result_text(&alone);
    char *text_watched = small_run_result_text(&watched);
    ck_assert_str_eq(text_alone, text_watched);
    free(text_alone);
    free(text_watched);
    small_run_close(&alone);
    small_run_close(&watched);
}
END_TEST

static struct outcome run_drafting(uint32_t hot_tokens, const char *method)
{
    struct drawn_text text;

    say_drafting(&text, "hisparse", hot_tokens, &(struct drawn_drafting){method, ""});
    struct outcome outcome = run_case(&text);
    free(outcome.result);
    outcome.result = NULL;
    return outcome;
}

#define MTP "\"method\": \"mtp\", \"drafts\": 3"

START_TEST(a_row_that_several_queries_miss_crosses_once_only_where_they_share_a_call)
{
    struct outcome shared = run_drafting(64, MTP);
    struct outcome each = run_drafting(64, MTP ", \"retrieval\": \"each_query\"");
    const struct kvt_row_counts *together = &shared.total.rows[0], *alone = &each.total.rows[0];

    ck_assert_uint_eq(together->selected, alone->selected); /* the same rounds */
    ck_assert_uint_eq(4 * together->calls, alone->calls);
    ck_assert_uint_lt(together->filled + together->staged, alone->filled + alone->staged);
    ck_assert_uint_eq(alone->staged, 0);
}
END_TEST

START_TEST(with_room_for_every_query_s_rows_nothing_is_staged)
{
    /* 64 hot tokens are 4 queries x 16 rows: vLLM's rule. */
    struct outcome none = run_drafting(64, MTP ", \"overflow\": \"none\"");

    ck_assert_uint_gt(none.total.rows[0].filled, 0);
    ck_assert_uint_eq(none.total.rows[0].staged, 0);
    ck_assert_uint_eq(none.total.hbm_peak_by_class[KVT_MEM_STAGING], 0);
}
END_TEST

START_TEST(promotion_by_count_keeps_what_was_staged)
{
    struct outcome none = run_drafting(16, MTP),
                   by_count = run_drafting(16, MTP ", \"promotion\": \"by_count\"");
    const struct kvt_row_counts *dropped = &none.total.rows[0], *kept = &by_count.total.rows[0];

    ck_assert_uint_gt(dropped->staged, 0);
    ck_assert_uint_eq(dropped->selected, kept->selected);
    ck_assert_uint_ne(none.hash, by_count.hash);
    ck_assert_uint_lt(kept->filled + kept->staged, dropped->filled + dropped->staged);
}
END_TEST

static Suite *invariants_suite(void)
{
    Suite *suite = suite_create("sim_invariants");
    TCase *tcase = tcase_create("sim_invariants");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, every_invariant_holds_after_every_event, 0, 2 * CASES);
    tcase_add_loop_test(tcase, every_invariant_holds_of_conversations, 0, TALKS);
    tcase_add_loop_test(tcase, every_invariant_holds_through_faults, 0, FAULTY);
    tcase_add_test(tcase, preemption_ends_with_every_request_completed);
    tcase_add_test(tcase, optional_history_comes_in_and_gives_way);
    tcase_add_test(tcase, the_last_admitted_is_put_aside_first);
    tcase_add_test(tcase, another_seed_is_another_run);
    tcase_add_loop_test(tcase, threads_change_nothing, 0, 2 * DRAWN_DRAFTINGS);
    tcase_add_test(tcase, looking_on_changes_nothing);
    tcase_add_test(tcase,
                   a_row_that_several_queries_miss_crosses_once_only_where_they_share_a_call);
    tcase_add_test(tcase, with_room_for_every_query_s_rows_nothing_is_staged);
    tcase_add_test(tcase, promotion_by_count_keeps_what_was_staged);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(invariants_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
