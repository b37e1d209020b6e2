/* sim_waits.c -- of what the latencies of each request consist.
 *
 *     TTFT = the times that it was in each place before its first token
 *     last token - first = parts of the steps that it was in + what held those up + the rest
 *
 * Kept while a request is there, and added up once it ends: by the phase in which it arrived, for
 * the requests that the means of TTFT and TPOT are of. */
#include <assert.h>

#include "sim_private.h"

static_assert((int)KVT_WAIT_PARTS <= (int)KVT_LIVE_WAITS, "places of a request that waits");
static_assert((int)KVT_TOKEN_PARTS <= (int)KVT_LIVE_TOKEN_PARTS, "parts of a token's time");

void sim_wait(const struct kvt_sim *sim, struct kvt_live *live, enum kvt_wait_part part)
{
    if (live->generated_tokens > 0)
        return;
    live->wait_ns[live->wait_part] += sim->now_ns - live->wait_since_ns;
    live->wait_since_ns = sim->now_ns;
    live->wait_part = part;
}

/* Whether the metrics are of it too. */
static bool counts(const struct kvt_sim *sim, const struct kvt_request_record *record)
{
    return sim->warmup_ns != KVT_NS_NEVER && record->arrival_ns >= sim->warmup_ns;
}

void sim_end_wait(struct kvt_sim *sim, struct kvt_live *live)
{
    const struct kvt_request_record *record = &sim->records[live->id];
    struct kvt_latency_parts *parts = &sim->run.latency_parts[record->phase];

    sim_wait(sim, live, KVT_WAIT_IMPORT);
    if (!counts(sim, record))
        return;
    parts->ttft_requests++;
    for (int p = 0; p < KVT_WAIT_PARTS; p++)
        parts->ttft_ns[p] += (double)live->wait_ns[p];
}

void sim_took_part(const struct group *group, struct kvt_live *live)
{
    for (int p = 0; p < KVT_PARTS; p++)
        live->token_ns[p] += group->parts_ns[p];
    live->token_ns[KVT_TOKEN_BACKUP_STALL] += group->stall_ns;
}

void sim_end_tokens(struct kvt_sim *sim, const struct kvt_live *live)
{
    const struct kvt_request_record *record = &sim->records[live->id];
    struct kvt_latency_parts *parts = &sim->run.latency_parts[record->phase];

    if (!counts(sim, record) || record->generated_tokens < 2)
        return;
    double gaps = record->generated_tokens - 1;
    kvt_ns beside_ns = record->last_token_ns - record->first_token_ns;
    parts->tpot_requests++;
    for (int p = 0; p < KVT_TOKEN_BESIDE; p++) {
        parts->tpot_ns[p] += (double)live->token_ns[p] / gaps;
        beside_ns -= live->token_ns[p];
    }
    parts->tpot_ns[KVT_TOKEN_BESIDE] += (double)beside_ns / gaps;
}
