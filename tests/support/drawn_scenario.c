/* drawn_scenario.c -- small scenarios as text, drawn at random. */
#include "drawn_scenario.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <check.h>

void drawn_say(struct drawn_text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int written = vsnprintf(text->bytes + text->used, sizeof text->bytes - text->used, fmt, args);
    va_end(args);
    ck_assert(written >= 0 && (size_t)written < sizeof text->bytes - text->used);
    text->used += (size_t)written;
}

static unsigned below(struct kvt_rng *rng, unsigned bound)
{
    return (unsigned)kvt_rng_below(rng, bound);
}

const struct drawn_drafting drawn_draftings[DRAWN_DRAFTINGS] = {
    {"\"method\": \"mtp\", \"drafts\": 3", ""},
    {"\"method\": \"dflash2\", \"block\": 8, \"drafter\": \"glm-5.3-eagle\"", ""},
    {"\"method\": \"eagle-tree\", \"branching\": [2, 2]", ", \"promotion\": \"by_count\""},
    {"\"method\": \"medusa\", \"branching\": [3, 1]", ", \"retrieval\": \"each_query\""}};

/* Pools hold a few requests; a request of 300 tokens needs about 0.4 MB under a hierarchy
 * and 1.1 MB without. */
static void say_requests(struct kvt_rng *rng, struct drawn_text *text)
{
    bool open = below(rng, 3) == 0;
    drawn_say(text, "\"workload\": {\"arrival\": \"%s\", %s: %u, \"requests\": %u, ",
              open ? "open" : "closed", open ? "\"rate\"" : "\"concurrency\"", 1 + below(rng, 24),
              5 + below(rng, 20));
    drawn_say(
        text,
        "\"lengths\": {\"input\": {\"law\": \"lognormal\", \"mean_tokens\": %u, \"cv\": 0.5}, ",
        40 + below(rng, 400));
    drawn_say(text, "\"output\": {\"law\": \"lognormal\", \"mean_tokens\": %u, \"cv\": 0.5}}}, ",
              1 + below(rng, 120));
}

/* Conversations begin alike, and each of their turns repeats all before it. */
static void say_conversations(struct kvt_rng *rng, struct drawn_text *text)
{
    drawn_say(
        text,
        "\"workload\": {\"arrival\": \"sessions\", \"concurrency\": %u, \"conversations\": %u, "
        "\"turns\": %u, \"new_tokens\": [%u, %u], \"output_tokens\": %u, "
        "\"length_spread_fraction\": 0.3, \"shared_prefix_tokens\": %u, \"think_s\": %s}, ",
        1 + below(rng, 8), 3 + below(rng, 6), 2 + below(rng, 4), 150 + below(rng, 300),
        20 + below(rng, 100), 1 + below(rng, 80), below(rng, 2) ? 0 : 100,
        below(rng, 2) ? "0" : "0.05");
}

/* Says whether prompts come in by import. */
static bool say_prefill(struct kvt_rng *rng, struct drawn_text *text)
{
    unsigned mode = below(rng, 4);
    if (mode == 1)
        drawn_say(text,
                  "\"prefill\": {\"mode\": \"separate\", \"gpus\": 2, \"tokens_per_s\": 20000}, ");
    else if (mode > 1)
        drawn_say(text,
                  "\"prefill\": {\"mode\": \"colocated\", \"tokens_per_s\": 20000, "
                  "\"context_half_tokens\": %u, \"chunk_tokens\": %u}, ",
                  below(rng, 2) * 500, 16 + below(rng, 200));
    return mode <= 1;
}

static bool is_whole(const char *residency)
{
    return strcmp(residency, "resident") == 0 || strcmp(residency, "prefix-offload") == 0;
}

/* A policy and what has an effect beside it. */
static void say_residency(struct kvt_rng *rng, struct drawn_text *text, const char *residency)
{
    static const char *const laws[] = {"{\"law\": \"score\"}",
                                       "{\"law\": \"tape\", \"tapes\": 2, \"steps\": 32}"};
    bool whole = is_whole(residency);
    unsigned hot_tokens = 16 + below(rng, 80);

    drawn_say(text, "\"residency\": {\"policy\": \"%s\"", residency);
    if (!whole)
        drawn_say(text, ", \"hot_tokens\": %u", hot_tokens);
    if (strcmp(residency, "adaptive") == 0) {
        bool lands = below(rng, 2) == 1, defers = below(rng, 2) == 1;
        drawn_say(text, ", \"refill_gb_per_s\": %s, \"landing_fraction\": %s",
                  below(rng, 2) ? "0.01" : "100", lands ? "0.5" : "0");
        if (defers)
            drawn_say(text, ", \"backup_below_fraction\": 0.2, \"backup_gb_per_s\": %s",
                      below(rng, 2) ? "0" : "0.01");
        if (defers && lands)
            drawn_say(text, ", \"landing_writes_later\": %s", below(rng, 2) ? "true" : "false");
    }
    drawn_say(text, "}, ");
    if (!whole)
        drawn_say(text, "\"selection\": %s, ", laws[below(rng, 2)]);
}

/* How rows are retrieved matters where there are hot caches. */
static void say_speculation(struct kvt_rng *rng, struct drawn_text *text,
                            const struct drawn_drafting *drafting, const char *residency)
{
    static const char *const fractions[] = {"1", "0.2", "0.001"};
    bool whole = is_whole(residency);

    drawn_say(text, "\"speculation\": {%s%s", drafting->method, whole ? "" : drafting->retrieval);
    if (!whole && strstr(drafting->retrieval, "each_query") == NULL)
        drawn_say(text, ", \"staging_fraction\": %s", fractions[below(rng, 3)]);
    drawn_say(text, "}, ");
}

void drawn_scenario(struct kvt_rng *rng, struct drawn_text *text, bool talks,
                    const struct drawn_drafting *drafting)
{
    static const char *const residencies[] = {"resident",    "hisparse",      "adaptive",
                                              "vllm-hybrid", "sglang-demote", "prefix-offload"};
    static const char *const routers[] = {"round-robin", "least-loaded", "shortest-queue",
                                          "cache-aware"};
    unsigned gpus = 1 + below(rng, 3);
    bool sampled = below(rng, 4) == 0;
    const char *residency = residencies[below(rng, 6)];
    /* Small, so that prefixes give way; but never all taken by one growing request a rank. */
    const char *host_gib = below(rng, 4) ? "1" : talks ? "0.01" : "0.004";

    *text = (struct drawn_text){0};
    drawn_say(text, "{\"schema\": \"kvtide/scenario/1\", \"name\": \"drawn\", \"seed\": %u, ",
              below(rng, 1000000));
    drawn_say(text, "\"model\": %s, ", DRAWN_MODEL);
    drawn_say(text,
              "\"hardware\": {\"base\": \"b300\", \"gpus_per_node\": %u, "
              "\"link_d2h_bytes_per_s\": %u, \"link_h2d_bytes_per_s\": %u}, ",
              1 + below(rng, 4), below(rng, 2) ? 2000000 : 50000000,
              10000000 + below(rng, 90000000));
    drawn_say(text, "\"cluster\": {\"decode\": {\"gpus\": %u, \"lockstep\": %s, \"pools\": ", gpus,
              below(rng, 2) ? "true" : "false");
    if (below(rng, 3) == 0)
        drawn_say(text, "{\"index_gib\": 0.001, \"rows_gib\": %.4f}",
                  0.001 + 0.0001 * below(rng, 40));
    else
        drawn_say(text, "{\"unified_gib\": %.4f}", 0.0015 + 0.0001 * below(rng, 40));
    if (drafting != NULL)
        drawn_say(text, ", \"speculation_workspace_gib\": 0");
    drawn_say(
        text,
        ", \"growth_reserve_gib\": %s, \"host_dram_gib_per_node\": %s, \"host_pool\": \"%s\", "
        "\"index_offload_gib_per_node\": %s}, ",
        below(rng, 2) ? "0" : "0.00005", host_gib, below(rng, 2) ? "shared" : "per_rank",
        talks && below(rng, 2) ? "0.0003" : "0");
    if (!talks || say_prefill(rng, text))
        drawn_say(text, "\"import\": {\"law\": \"rate\", \"rate\": 0.05, \"queue\": %u}, ",
                  1 + below(rng, 3));
    drawn_say(text, "\"router\": {\"policy\": \"%s\"}}, ", routers[below(rng, 4)]);
    say_residency(rng, text, residency);
    drawn_say(text, "\"timing\": {\"model\": \"roofline\"}, ");
    if (drafting != NULL)
        say_speculation(rng, text, drafting, residency);
    if (talks)
        say_conversations(rng, text);
    else
        say_requests(rng, text);
    drawn_say(text, "\"run\": {\"interval_s\": 0.05, \"fidelity\": \"%s\"}}",
              sampled ? "sampled" : "exact");
}
