/* tally.c -- sums over a stretch of the run, and their union. */
#include <string.h>

#include "kvt/report.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_requests(struct kvt_tally *into, const struct kvt_tally *from)
{
    into->arrived += from->arrived;
    into->admitted += from->admitted;
    into->completed += from->completed;
    into->unservable += from->unservable;
    into->preemptions += from->preemptions;
    into->output_tokens += from->output_tokens;
    into->input_tokens += from->input_tokens;
    into->prefix_hit_tokens += from->prefix_hit_tokens;
    into->reprefill_tokens += from->reprefill_tokens;
}

static void add_steps(struct kvt_tally *into, const struct kvt_tally *from)
{
    into->decode_steps += from->decode_steps;
    into->rounds += from->rounds;
    into->round_tokens += from->round_tokens;
    into->extrapolated_steps += from->extrapolated_steps;
    into->step_ns += from->step_ns;
    into->measured_steps += from->measured_steps;
    into->measured_ns += from->measured_ns;
    for (int p = 0; p < KVT_PARTS; p++) {
        into->parts_ns[p] += from->parts_ns[p];
        into->measured_parts_ns[p] += from->measured_parts_ns[p];
        into->added_parts_ns[p] += from->added_parts_ns[p];
    }
    into->rank_ns += from->rank_ns;
    into->barrier_wait_ns += from->barrier_wait_ns;
    into->backup_stall_ns += from->backup_stall_ns;
    into->token_ns += from->token_ns;
    into->link_busy_ns += from->link_busy_ns;
    for (int i = 0; i < KVT_WHAT_IFS; i++)
        into->if_ns[i] += from->if_ns[i];
}

/* Rows and bytes that crossed links, and pages that moved. */
static void add_moves(struct kvt_tally *into, const struct kvt_tally *from)
{
    into->h2d_payload_bytes += from->h2d_payload_bytes;
    into->h2d_wire_bytes += from->h2d_wire_bytes;
    into->prefetched_rows += from->prefetched_rows;
    into->prefetch_wasted_rows += from->prefetch_wasted_rows;
    into->deepened_rows += from->deepened_rows;
    into->recall_bytes += from->recall_bytes;
    into->fill_bytes += from->fill_bytes;
    into->import_hbm_bytes += from->import_hbm_bytes;
    into->import_host_bytes += from->import_host_bytes;
    into->d2h_bytes += from->d2h_bytes;
    into->pages_filled += from->pages_filled;
    into->pages_released += from->pages_released;
    into->pages_landed += from->pages_landed;
    into->pages_kept += from->pages_kept;
    into->backups_forced += from->backups_forced;
    into->resizes += from->resizes;
    into->demotions += from->demotions;
    into->staging_waves += from->staging_waves;
}

static void add_integrals(struct kvt_tally *into, const struct kvt_tally *from)
{
    into->prefilling_ns += from->prefilling_ns;
    into->host_short_ns += from->host_short_ns;
    into->no_rank_ns += from->no_rank_ns;
    into->running_ns += from->running_ns;
    into->waiting_ns += from->waiting_ns;
    into->importing_ns += from->importing_ns;
    into->held_ns += from->held_ns;
    for (int p = 0; p < KVT_POOLS_MAX; p++)
        into->pool_busy_ns[p] += from->pool_busy_ns[p];
    into->import_busy_ns += from->import_busy_ns;
    into->prefill_busy_ns += from->prefill_busy_ns;
    into->itl_ns += from->itl_ns;
    into->itl_count += from->itl_count;
    into->coverage_ns += from->coverage_ns;
    into->covered_ns += from->covered_ns;
}

static void take_peaks(struct kvt_tally *into, const struct kvt_tally *from)
{
    into->staging_peak_bytes = larger(into->staging_peak_bytes, from->staging_peak_bytes);
    into->host_peak_bytes = larger(into->host_peak_bytes, from->host_peak_bytes);
    if (from->hbm_peak_bytes > into->hbm_peak_bytes) {
        into->hbm_peak_bytes = from->hbm_peak_bytes;
        memcpy(into->hbm_peak_by_class, from->hbm_peak_by_class, sizeof into->hbm_peak_by_class);
    }
}

static void add_faults(struct kvt_tally *into, const struct kvt_tally *from)
{
    into->faults += from->faults;
    into->interrupted += from->interrupted;
    into->lost_tokens += from->lost_tokens;
    into->down_ns += from->down_ns;
}

void kvt_tally_merge(struct kvt_tally *into, const struct kvt_tally *from)
{
    if (into->to_ns == into->from_ns)
        into->from_ns = from->from_ns;
    into->to_ns = from->to_ns;
    for (int s = 0; s < KVT_STRATA_MAX; s++)
        kvt_row_counts_add(&into->rows[s], &from->rows[s]);
    for (int c = 0; c < KVT_SAMPLED_COUNTS; c++)
        into->counts[c] += from->counts[c];
    add_requests(into, from);
    add_steps(into, from);
    add_moves(into, from);
    add_integrals(into, from);
    take_peaks(into, from);
    add_faults(into, from);
}

struct kvt_request_counts kvt_run_count_requests(const struct kvt_run *run)
{
    struct kvt_request_counts counts = {0};

    if (run->analytic)
        return run->mean_counts;
    for (size_t i = 0; i < run->record_count; i++) {
        switch ((enum kvt_request_status)run->records[i].status) {
        case KVT_REQUEST_COMPLETED:
            counts.completed++;
            break;
        case KVT_REQUEST_RUNNING:
            counts.running++;
            break;
        case KVT_REQUEST_UNSERVABLE:
            counts.unservable++;
            break;
        default:
            counts.waiting++;
        }
    }
    return counts;
}

uint64_t kvt_run_arrived(const struct kvt_run *run)
{
    const struct kvt_request_counts *counts = &run->mean_counts;

    if (!run->analytic)
        return run->record_count;
    return counts->completed + counts->running + counts->waiting + counts->unservable;
}
