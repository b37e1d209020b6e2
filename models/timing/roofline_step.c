/* roofline_step.c -- a load's time under the roofline model. */
#include "roofline.h"

/* Tokens that kernels in a graph run on. Beyond the largest graph: as many as there are. */
static uint32_t padded_tokens(const struct roofline *roofline, uint32_t tokens)
{
    uint32_t step = roofline->graph_step_tokens;
    uint32_t largest = roofline->graph_largest_tokens;
    if (tokens >= largest)
        return tokens;
    uint32_t padded = 1;
    while (padded < tokens && padded < step)
        padded *= 2;
    if (padded >= step)
        padded = (tokens + step - 1) / step * step;
    return padded < largest ? padded : largest;
}

/* Weights that the slowest GPU reads for `queries` of which its rank has `queries_max`:
 * the dense ones, and the experts that queries meeting there touch. */
static double weights_ns(const struct roofline *roofline, uint32_t queries, uint32_t queries_max)
{
    uint64_t reach = roofline->expert_replicas * queries_max;
    uint32_t meeting = reach < queries ? (uint32_t)reach : queries;
    return roofline->dense_read_ns +
           roofline->expert_read_ns * kvt_experts_touched_share(roofline->untouched, meeting);
}

/* Padding is computed and exchanged, but touches no experts of its own. */
static double dense_ns(const struct roofline *roofline, uint32_t queries, uint32_t queries_max)
{
    double tokens = padded_tokens(roofline, queries_max);
    double read_ns = weights_ns(roofline, queries, queries_max);
    return larger(read_ns, tokens * roofline->dense_math_ns) + roofline->layers_ns +
           tokens * roofline->exchange_ns;
}

void kvt_roofline_group_step(const void *state, const struct kvt_group_load *load,
                             double parts[KVT_PARTS])
{
    const struct roofline *roofline = state;
    if (load->queries == 0)
        return;
    parts[KVT_PART_HOST] += roofline->host_ns;
    if (load->queries_max > roofline->graph_largest_tokens)
        parts[KVT_PART_HOST] += roofline->eager_ns;
    parts[KVT_PART_DENSE] += dense_ns(roofline, load->queries, load->queries_max);
    parts[KVT_PART_SAMPLE] += roofline->sampling_ns;
}

static uint32_t rounded_up(double count)
{
    uint32_t whole = (uint32_t)count;
    return whole < count ? whole + 1 : whole;
}

static double index_ns(const struct roofline *roofline, const struct kvt_rank_load *load)
{
    double rows = (double)load->context_rows;
    double per_request = (double)load->queries / load->requests;
    double scored = rows * per_request; /* every query scores its context */
    double scans = 1 + roofline->scan_query_share * larger(per_request - 1, 0);
    return larger(rows * scans * roofline->scan_read_ns, scored * roofline->scan_math_ns) +
           roofline->topk_ns + scored * roofline->topk_score_ns;
}

/* A launch resolves one call of each request, or those of a wave. */
static double resolve_ns(const struct roofline *roofline, const struct kvt_rank_load *load)
{
    double launches = load->calls / load->requests + load->extra_waves;
    return launches * roofline->resolve_ns + load->looked_up_rows * roofline->resolve_row_ns;
}

/* Each pass makes an equal share of the drafts. Those of other ranks meet at the experts as
 * their queries do. */
static double draft_ns(const struct roofline *roofline, const struct kvt_rank_load *load,
                       uint32_t group_queries)
{
    double passes = roofline->draft_passes;
    if (load->draft_tokens == 0 || passes <= 0)
        return 0;
    double tokens = load->draft_tokens / passes;
    double group_tokens = tokens * group_queries / load->queries;
    double read_ns = roofline->draft_read_ns;
    if (roofline->draft_model_share > 0)
        read_ns += roofline->draft_model_share *
                   weights_ns(roofline, rounded_up(group_tokens), rounded_up(tokens));
    double pass_ns = larger(read_ns, tokens * roofline->draft_math_ns) +
                     load->requests * roofline->draft_request_ns + roofline->draft_fixed_ns;
    return passes * pass_ns;
}

static double attend_ns(const struct roofline *roofline, const struct kvt_rank_load *load)
{
    double read_rows = load->attended_layer_rows;
    if (roofline->reads_are_shared && load->queries > load->requests)
        read_rows *= (double)load->requests / load->queries;
    return larger(read_rows * roofline->attend_read_ns,
                  load->attended_layer_rows * roofline->attend_math_ns) +
           roofline->attend_ns + load->extra_wave_layers * roofline->attend_launch_ns;
}

/* Bytes that want the link or the DRAM while rows are fetched. */
struct background {
    double inbound;  /* imports and optional pages */
    double outbound; /* backup */
};

/* One kind of copy, all its launches together. The link and the DRAM serve
 * fetch and background in turns, so that as much of the background gets in the
 * way as there are bytes fetched, and not more; what did is taken off it. */
static double transfer_ns(const struct roofline *roofline, double bytes, double granules,
                          double launches, struct background *background)
{
    if (bytes <= 0)
        return 0;
    double inbound = smaller(background->inbound, bytes);
    double outbound = smaller(background->outbound, bytes);
    background->inbound -= inbound;
    background->outbound -= outbound;

    double link_ns =
        (bytes + inbound) * roofline->link_byte_ns + outbound * roofline->duplex_byte_ns;
    double dram_ns = (bytes + inbound + outbound) * roofline->dram_byte_ns;
    double translate_ns = granules * roofline->granule_ns;
    double floor_ns = launches * roofline->latency_ns;
    return larger(larger(link_ns, dram_ns), larger(translate_ns, floor_ns));
}

static double fetch_ns(const struct roofline *roofline, const struct kvt_rank_load *load,
                       double hiding_ns)
{
    struct background background = {
        .inbound = (double)load->import_bytes + (double)load->fill_bytes,
        .outbound = (double)load->backup_bytes,
    };
    double launches = smaller(roofline->selectors, load->calls_with_misses) + load->extra_waves;
    if (roofline->fetch_order == FETCH_GROUP || load->missed_layer_rows <= 0)
        return transfer_ns(roofline, load->wire_bytes, load->granules, launches, &background);

    double leader_bytes = load->wire_bytes * load->leader_layer_rows / load->missed_layer_rows;
    double copies = 1;
    if (load->leader_layer_rows > 0)
        copies = load->missed_layer_rows / load->leader_layer_rows;
    double leader_ns = transfer_ns(roofline, leader_bytes, load->granules, launches, &background);
    double follower_ns =
        transfer_ns(roofline, load->wire_bytes - leader_bytes, load->granules * (copies - 1),
                    launches * (copies - 1), &background);
    return leader_ns + larger(follower_ns - hiding_ns, 0);
}

double kvt_roofline_link_ns(const void *state, const struct kvt_rank_load *load)
{
    return fetch_ns(state, load, 0);
}

/* Rows that were sent ahead are computed as those that are waited for: it is the GPU that does it.
 */
static double rebuild_ns(const struct roofline *roofline, const struct kvt_rank_load *load)
{
    return (load->missed_layer_rows + load->ahead.layer_rows) * roofline->rebuild_ns;
}

void kvt_roofline_rank_step(const void *state, const struct kvt_rank_load *load,
                            double parts[KVT_PARTS])
{
    const struct roofline *roofline = state;
    if (load->requests == 0)
        return;
    uint32_t group_queries =
        load->group_queries > load->queries ? load->group_queries : load->queries;
    double attention_ns = attend_ns(roofline, load);
    double hiding_ns = roofline->follower_share *
                       (attention_ns + dense_ns(roofline, group_queries, load->queries));

    parts[KVT_PART_INDEX] += index_ns(roofline, load);
    parts[KVT_PART_RESOLVE] += resolve_ns(roofline, load);
    parts[KVT_PART_FETCH] +=
        larger(fetch_ns(roofline, load, hiding_ns), rebuild_ns(roofline, load));
    parts[KVT_PART_ATTEND] += attention_ns;
    parts[KVT_PART_DRAFT] += draft_ns(roofline, load, group_queries);
}
