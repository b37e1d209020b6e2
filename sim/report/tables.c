/* tables.c -- requests.csv, timeline.csv and itl.csv. */
#include <inttypes.h>
#include <math.h>

#include "kvt/file.h"
#include "kvt/json.h"
#include "kvt/report.h"
#include "metrics_table.h"
#include "service.h"

static void put_ns(FILE *stream, kvt_ns ns)
{
    if (ns == KVT_NS_NEVER)
        fputc(',', stream);
    else
        fprintf(stream, "%" PRId64 ",", ns);
}

/* The kind, where there are any, and whether what was promised was kept, once that is known. */
static void put_kind_and_met(const struct kvt_run *run, const struct kvt_request_record *record,
                             FILE *stream)
{
    if (run->scenario->kind_count > 0)
        kvt_csv_put(stream, run->scenario->kinds[record->kind].name);
    fputc(',', stream);
    if (run->scenario->slo_class_count > 0) {
        if (record->status == KVT_REQUEST_COMPLETED)
            fputs(record_meets_bounds(run, record) ? "1" : "0", stream);
        else if (record->status == KVT_REQUEST_UNSERVABLE)
            fputc('0', stream);
    }
    fputc('\n', stream);
}

void kvt_report_requests_csv(const struct kvt_run *run, FILE *stream)
{
    fputs("request,arrival_ns,admitted_ns,first_token_ns,last_token_ns,finished_ns,rank,"
          "input_tokens,output_tokens,generated_tokens,status,slo_class,preemptions,"
          "followed_selected_rows,followed_missed_rows,session_id,turn,line,"
          "prefix_hit_tokens,interruptions,kind,slo_met\n",
          stream);
    for (size_t i = 0; i < run->record_count; i++) {
        const struct kvt_request_record *record = &run->records[i];
        fprintf(stream, "%zu,", i);
        put_ns(stream, record->arrival_ns);
        put_ns(stream, record->admitted_ns);
        put_ns(stream, record->first_token_ns);
        put_ns(stream, record->last_token_ns);
        put_ns(stream, record->finished_ns);
        if (record->rank != UINT32_MAX)
            fprintf(stream, "%u", record->rank);
        fprintf(stream, ",%u,%u,%u,%s,", record->input_tokens, record->output_tokens,
                record->generated_tokens,
                kvt_request_status_name((enum kvt_request_status)record->status));
        if (run->scenario->slo_class_count > 0)
            kvt_csv_put(stream, run->scenario->slo_classes[record->slo_class].name);
        fprintf(stream, ",%u,%" PRIu64 ",%" PRIu64 ",", record->preemptions, record->selected_rows,
                record->missed_rows);
        if (record->session != UINT64_MAX)
            fprintf(stream, "%" PRIu64, record->session);
        fprintf(stream, ",%u,", record->turn);
        if (record->line > 0)
            fprintf(stream, "%" PRIu64, record->line);
        fprintf(stream, ",%u,%u,", record->prefix_hit_tokens, record->interruptions);
        put_kind_and_met(run, record, stream);
    }
}

void kvt_report_timeline_header(FILE *stream)
{
    fputs("from_s,to_s,arrived,admitted,completed,preemptions,output_tokens,running_mean,"
          "waiting_mean,importing_mean,allocated_slots_mean,host_fetch_share,coverage,"
          "followed_selected_rows,followed_tail_rows,followed_optional_rows,followed_hot_rows,"
          "followed_missed_rows,h2d_wire_bytes,fill_bytes,d2h_bytes,import_bytes,pages_filled,"
          "pages_released,decode_steps,mean_step_ms,barrier_wait_share,hbm_kv_peak_bytes,"
          "host_peak_bytes,mean_itl_ms,ranks_down_mean,requests_interrupted\n",
          stream);
}

/* A number and the separator behind it; nothing where it is not defined. */
static void put(FILE *stream, double value, char separator)
{
    char text[32];

    if (isfinite(value)) {
        kvt_json_print_number(value, text);
        fputs(text, stream);
    }
    fputc(separator, stream);
}

void kvt_report_timeline_row(FILE *stream, const struct kvt_tally *interval, uint32_t stratum_count)
{
    double ns = (double)(interval->to_ns - interval->from_ns);
    struct kvt_row_counts followed = {0};

    for (uint32_t s = 0; s < stratum_count; s++)
        kvt_row_counts_add(&followed, &interval->rows[s]);
    /* Divided, they are the doubles nearest to the nanosecond: 29, not 29.000000000000004. */
    put(stream, (double)interval->from_ns / KVT_NS_PER_S, ',');
    put(stream, (double)interval->to_ns / KVT_NS_PER_S, ',');
    put(stream, (double)interval->arrived, ',');
    put(stream, (double)interval->admitted, ',');
    put(stream, (double)interval->completed, ',');
    put(stream, (double)interval->preemptions, ',');
    put(stream, (double)interval->output_tokens, ',');
    put(stream, metric_ratio(interval->running_ns, ns), ',');
    put(stream, metric_ratio(interval->waiting_ns, ns), ',');
    put(stream, metric_ratio(interval->importing_ns, ns), ',');
    put(stream, metric_ratio(interval->held_ns, ns), ',');
    put(stream,
        metric_ratio(interval->counts[KVT_SAMPLED_MISSED], interval->counts[KVT_SAMPLED_SELECTED]),
        ',');
    put(stream, metric_ratio(interval->coverage_ns, interval->covered_ns), ',');
    put(stream, (double)followed.selected, ',');
    put(stream, (double)followed.tail, ',');
    put(stream, (double)followed.page, ',');
    put(stream, (double)followed.hot, ',');
    put(stream, (double)followed.missed, ',');
    put(stream, round(interval->h2d_wire_bytes), ',');
    put(stream, (double)interval->fill_bytes, ',');
    put(stream, (double)interval->d2h_bytes, ',');
    put(stream, (double)(interval->import_hbm_bytes + interval->import_host_bytes), ',');
    put(stream, (double)interval->pages_filled, ',');
    put(stream, (double)interval->pages_released, ',');
    put(stream, (double)interval->decode_steps, ',');
    put(stream, metric_ratio((double)interval->step_ns * 1e-6, (double)interval->decode_steps),
        ',');
    put(stream, metric_ratio((double)interval->barrier_wait_ns, (double)interval->rank_ns), ',');
    put(stream, (double)interval->hbm_peak_bytes, ',');
    put(stream, (double)interval->host_peak_bytes, ',');
    put(stream, metric_ratio(interval->itl_ns * 1e-6, (double)interval->itl_count), ',');
    put(stream, metric_ratio(interval->down_ns, ns), ',');
    put(stream, (double)interval->interrupted, '\n');
}

void kvt_report_itl_csv(const struct kvt_run *run, FILE *stream)
{
    enum {
        STEPS = KVT_ITL_ROWS - 2
    };

    fputs("share,itl_ms\n", stream);
    if (run->analytic || kvt_histogram_count(run->itl) == 0)
        return;
    for (int i = 0; i < KVT_ITL_ROWS; i++) {
        double share = i < STEPS ? (double)i / STEPS : i == STEPS ? 0.999 : 1;
        put(stream, share, ',');
        put(stream, kvt_histogram_quantile(run->itl, share) / 1e6, '\n');
    }
}
