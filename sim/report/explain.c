/* explain.c -- where the time and the bytes of a run went, as a tree. */
#include "kvt/explain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain_private.h"
#include "kvt/json.h"
#include "metrics_table.h"

const char *kvt_wait_part_name(enum kvt_wait_part part)
{
    switch (part) {
    case KVT_WAIT_PREFILL_QUEUE:
        return "prefill_queue";
    case KVT_WAIT_PREFILL:
        return "prefill";
    case KVT_WAIT_QUEUE:
        return "queue";
    case KVT_WAIT_IMPORT_QUEUE:
        return "import_queue";
    case KVT_WAIT_IMPORT:
        return "import";
    case KVT_WAIT_PARTS:
        break;
    }
    return "unknown";
}

const char *kvt_token_part_name(int part)
{
    if (part < KVT_PARTS)
        return kvt_step_part_name((enum kvt_step_part)part);
    return part == KVT_TOKEN_BACKUP_STALL ? "backup_stall" : "beside_steps";
}

double explain_number(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

/* ---- Time ------------------------------------------------------------------------------- */

/* Of the requests that arrived in a phase, or in any. */
static struct kvt_latency_parts parts_of(const struct kvt_run *run, int phase)
{
    struct kvt_latency_parts sum = {0};

    for (uint32_t p = 0; p < run->phase_count; p++) {
        const struct kvt_latency_parts *of = &run->latency_parts[p];
        if (phase >= 0 && p != (uint32_t)phase)
            continue;
        sum.ttft_requests += of->ttft_requests;
        sum.tpot_requests += of->tpot_requests;
        for (int w = 0; w < KVT_WAIT_PARTS; w++)
            sum.ttft_ns[w] += of->ttft_ns[w];
        for (int t = 0; t < KVT_TOKEN_PARTS; t++)
            sum.tpot_ns[t] += of->tpot_ns[t];
    }
    return sum;
}

/* Mean values know no requests: a token's time is divided as steps are, and the time before the
 * first as those who wait are shared out. */
static struct kvt_latency_parts mean_parts(const struct kvt_tally *tally, double ttft_ms,
                                           double tpot_ms)
{
    double steps_ns = (double)(tally->step_ns + tally->backup_stall_ns);
    double waits_ns = tally->prefilling_ns + tally->waiting_ns + tally->importing_ns;
    struct kvt_latency_parts out = {.ttft_requests = 1, .tpot_requests = 1};

    for (int p = 0; p < KVT_PARTS && steps_ns > 0; p++)
        out.tpot_ns[p] = tpot_ms * 1e6 * (double)tally->parts_ns[p] / steps_ns;
    if (waits_ns <= 0)
        return out;
    out.ttft_ns[KVT_WAIT_PREFILL] = ttft_ms * 1e6 * tally->prefilling_ns / waits_ns;
    out.ttft_ns[KVT_WAIT_QUEUE] = ttft_ms * 1e6 * tally->waiting_ns / waits_ns;
    out.ttft_ns[KVT_WAIT_IMPORT] = ttft_ms * 1e6 * tally->importing_ns / waits_ns;
    return out;
}

static bool add_latency(cJSON *tree, const char *key, const struct explain_of *of, double ms,
                        uint64_t requests, const double *parts_ns, int part_count,
                        const char *(*name)(int part))
{
    cJSON *object = kvt_json_add_object(tree, key);
    bool is_known = requests > 0 && isfinite(ms);
    bool ok =
        object && kvt_json_add_number(object, "ms", ms) &&
        kvt_json_add_text(object, "by", of->run->analytic ? "steps" : "requests") &&
        kvt_json_add_number(object, "requests", of->run->analytic ? (double)NAN : (double)requests);
    cJSON *parts = ok ? kvt_json_add_object(object, "parts_ms") : NULL;

    ok = parts != NULL;
    for (int p = 0; p < part_count && ok; p++)
        ok = kvt_json_add_number(parts, name(p),
                                 is_known ? parts_ns[p] * 1e-6 / (double)requests : (double)NAN);
    return ok;
}

static const char *wait_name(int part)
{
    return kvt_wait_part_name((enum kvt_wait_part)part);
}

static bool add_latencies(cJSON *tree, const struct explain_of *of)
{
    double ttft_ms = explain_number(of->metrics, "mean_ttft_ms");
    double tpot_ms = explain_number(of->metrics, "mean_tpot_ms");
    struct kvt_latency_parts parts =
        of->run->analytic ? mean_parts(of->tally, ttft_ms, tpot_ms) : parts_of(of->run, of->phase);

    return add_latency(tree, "tpot", of, tpot_ms, parts.tpot_requests, parts.tpot_ns,
                       KVT_TOKEN_PARTS, kvt_token_part_name) &&
           add_latency(tree, "ttft", of, ttft_ms, parts.ttft_requests, parts.ttft_ns,
                       KVT_WAIT_PARTS, wait_name);
}

static double ms_a_step(const struct kvt_tally *tally, double ns)
{
    return tally->decode_steps > 0 ? ns * 1e-6 / (double)tally->decode_steps : (double)NAN;
}

/* By a clock that measures, what of a fetch is hidden was not told apart. */
static double hidden_fetch_ms(const struct explain_of *of)
{
    const struct kvt_tally *tally = of->tally;
    double hidden_ns = tally->link_busy_ns - (double)tally->parts_ns[KVT_PART_FETCH];

    if (of->run->analytic || of->run->scenario->clock == KVT_CLOCK_MEASURED)
        return NAN;
    /* Ranks whose links are busy longest need not be the slowest; and rows that are computed again
     * instead of sent take time and no link. */
    return ms_a_step(tally, hidden_ns > 0 ? hidden_ns : 0);
}

static bool add_step(cJSON *tree, const struct explain_of *of)
{
    const struct kvt_tally *tally = of->tally;
    cJSON *step = kvt_json_add_object(tree, "step");
    cJSON *parts = step && kvt_json_add_number(step, "ms", ms_a_step(tally, (double)tally->step_ns))
                       ? kvt_json_add_object(step, "parts_ms")
                       : NULL;
    bool ok = parts != NULL;

    for (int p = 0; p < KVT_PARTS && ok; p++)
        ok = kvt_json_add_number(parts, kvt_step_part_name((enum kvt_step_part)p),
                                 ms_a_step(tally, (double)tally->parts_ns[p]));
    return ok && kvt_json_add_number(step, "fetch_hidden_ms", hidden_fetch_ms(of)) &&
           kvt_json_add_number(step, "barrier_wait_ms",
                               explain_number(of->metrics, "barrier_wait_share") *
                                   ms_a_step(tally, (double)tally->step_ns)) &&
           kvt_json_add_number(step, "backup_stall_ms",
                               ms_a_step(tally, (double)tally->backup_stall_ns)) &&
           kvt_json_add_number(step, "tokens_per_round",
                               explain_number(of->metrics, "tokens_per_round"));
}

/* ---- Bytes ------------------------------------------------------------------------------ */

static bool add_flow(cJSON *flow, double bytes, double seconds, double capacity_bytes_per_s)
{
    double rate = seconds > 0 ? bytes / seconds : (double)NAN;

    return kvt_json_add_number(flow, "bytes", bytes) &&
           kvt_json_add_number(flow, "bytes_per_s", rate) &&
           kvt_json_add_number(flow, "capacity_bytes_per_s",
                               capacity_bytes_per_s > 0 ? capacity_bytes_per_s : (double)NAN) &&
           kvt_json_add_number(flow, "utilisation",
                               capacity_bytes_per_s > 0 ? rate / capacity_bytes_per_s
                                                        : (double)NAN);
}

static bool add_hbm(cJSON *bytes, const struct kvt_tally *tally)
{
    cJSON *peak = kvt_json_add_object(bytes, "hbm_peak_by_class");
    bool ok = peak != NULL;

    for (int c = 0; c < KVT_MEM_CLASSES && ok; c++)
        ok = kvt_json_add_number(peak, kvt_mem_class_name((enum kvt_mem_class)c),
                                 (double)tally->hbm_peak_by_class[c]);
    return ok && kvt_json_add_number(bytes, "hbm_peak_bytes", (double)tally->hbm_peak_bytes) &&
           kvt_json_add_number(bytes, "host_peak_bytes", (double)tally->host_peak_bytes);
}

/* What crosses a link has its other end in host DRAM; what comes in from outside is written there,
 * or goes on to a GPU through it, as step times have it. */
static bool add_bytes(cJSON *tree, const struct explain_of *of)
{
    const struct kvt_tally *tally = of->tally;
    double seconds = (double)(tally->to_ns - tally->from_ns) * 1e-9;
    double misses = round(tally->h2d_wire_bytes), fills = (double)tally->fill_bytes;
    double recalls = (double)tally->recall_bytes, imports = (double)tally->import_hbm_bytes;
    double out = (double)tally->d2h_bytes, to_host = (double)tally->import_host_bytes;
    double in = misses + fills + recalls + imports;
    struct explain_rates rates = explain_rates(of->run->scenario);
    cJSON *bytes = kvt_json_add_object(tree, "bytes");

    if (!bytes || !add_hbm(bytes, tally))
        return false;
    cJSON *link_in = kvt_json_add_object(bytes, "link_in");
    bool ok = link_in && kvt_json_add_number(link_in, "misses_bytes", misses) &&
              kvt_json_add_number(link_in, "fills_bytes", fills) &&
              kvt_json_add_number(link_in, "recalls_bytes", recalls) &&
              kvt_json_add_number(link_in, "imports_bytes", imports) &&
              add_flow(link_in, in, seconds, rates.link_in);
    cJSON *link_out = ok ? kvt_json_add_object(bytes, "link_out") : NULL;
    ok = link_out && kvt_json_add_number(link_out, "backups_bytes", out) &&
         add_flow(link_out, out, seconds, rates.link_out);
    cJSON *dram = ok ? kvt_json_add_object(bytes, "dram") : NULL;
    return dram && kvt_json_add_number(dram, "link_bytes", in + out) &&
           kvt_json_add_number(dram, "imports_bytes", to_host) &&
           add_flow(dram, in + out + to_host, seconds, rates.dram);
}

struct explain_rates explain_rates(const struct kvt_scenario *scenario)
{
    struct explain_rates rates = {0};
    bool has_dram = true;

    for (uint32_t p = 0; p < scenario->pool_count; p++) {
        const struct kvt_decode_pool *pool = &scenario->pools[p];
        double nodes = ceil((double)pool->gpus / pool->gpus_per_node);
        rates.link_in += (double)pool->gpus * (double)pool->hardware->link_h2d_bytes_per_s;
        rates.link_out += (double)pool->gpus * (double)pool->hardware->link_d2h_bytes_per_s;
        rates.dram += nodes * (double)pool->dram_bytes_per_s_per_node;
        has_dram = has_dram && pool->dram_bytes_per_s_per_node > 0;
    }
    rates.dram = has_dram ? rates.dram : 0;
    return rates;
}

/* ---- Rows ------------------------------------------------------------------------------- */

/* Of all calls: what is looked up and missed is known of them, or estimated; the rest is divided as
 * in those that were followed. */
static bool add_rows(cJSON *tree, const struct explain_of *of)
{
    const struct kvt_tally *tally = of->tally;
    double selected = tally->counts[KVT_SAMPLED_SELECTED];
    double looked_up = tally->counts[KVT_SAMPLED_LOOKED_UP];
    double missed = tally->counts[KVT_SAMPLED_MISSED], here = selected - looked_up;
    struct kvt_row_counts sum = {0};
    cJSON *rows = kvt_json_add_object(tree, "rows");

    for (uint32_t s = 0; s < of->run->stratum_count; s++)
        kvt_row_counts_add(&sum, &tally->rows[s]);
    double followed = (double)(sum.tail + sum.page);
    double tail = followed > 0 ? here * (double)sum.tail / followed : 0;
    return rows && kvt_json_add_number(rows, "selected", selected) &&
           kvt_json_add_number(rows, "tail", metric_ratio(tail, selected)) &&
           kvt_json_add_number(rows, "optional", metric_ratio(here - tail, selected)) &&
           kvt_json_add_number(rows, "hot", metric_ratio(looked_up - missed, selected)) &&
           kvt_json_add_number(rows, "missed", metric_ratio(missed, selected));
}

/* ---- Basis ------------------------------------------------------------------------------ */

/* "host + draft": what was added to measured steps; "" where that is nothing. */
static const char *added_names(const struct kvt_run *run, char out[96])
{
    size_t used = 0;

    out[0] = '\0';
    for (int p = 0; p < KVT_PARTS; p++) {
        if (run->total.added_parts_ns[p] > 0)
            used += (size_t)snprintf(out + used, 96 - used, "%s%s", used ? " + " : "",
                                     kvt_step_part_name((enum kvt_step_part)p));
    }
    return out;
}

static bool add_basis(cJSON *tree, const struct kvt_run *run)
{
    cJSON *basis = kvt_json_add_object(tree, "basis");
    char added[96];
    bool ok = basis && kvt_json_add_bool(basis, "mean_values", run->analytic) &&
              kvt_json_add_text(basis, "rows", kvt_basis_name(run->law_basis)) &&
              kvt_json_add_text(basis, "step_times", kvt_basis_name(run->timing_basis)) &&
              kvt_json_add_text(basis, "imports", kvt_basis_name(run->import_basis)) &&
              kvt_json_add_text(basis, "selections", run->law_description);

    if (ok && run->scenario->prefill.is_roofline)
        ok = kvt_json_add_text(basis, "prefill", kvt_basis_name(KVT_BASIS_DATASHEET));
    if (ok && run->scenario->queries_max > 1)
        ok = kvt_json_add_text(basis, "drafts", kvt_basis_name(run->acceptance_basis));
    if (ok && run->scenario->clock == KVT_CLOCK_MEASURED && added_names(run, added)[0])
        ok = kvt_json_add_text(basis, "added_parts", added) &&
             kvt_json_add_text(basis, "added", kvt_basis_name(run->added_basis));
    return ok;
}

cJSON *kvt_explain_tree(const struct kvt_run *run, int phase, const cJSON *metrics)
{
    const struct explain_of of = {.run = run,
                                  .tally = phase < 0 ? &run->total : &run->phases[phase],
                                  .phase = phase,
                                  .metrics = metrics};
    cJSON *tree = cJSON_CreateObject();

    if (tree && add_latencies(tree, &of) && add_step(tree, &of) && add_bytes(tree, &of) &&
        add_rows(tree, &of) && explain_add_batch(tree, &of) && explain_add_worth(tree, &of) &&
        (phase >= 0 || add_basis(tree, run)))
        return tree;
    cJSON_Delete(tree);
    return NULL;
}
