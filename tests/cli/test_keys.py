"""Every key takes effect or is refused: what `kvtide list keys` documents, changed one by one.

A key has its row in TABLE: what must hold for it to matter (changes to a small scenario), and its
other value. Two runs that differ in nothing else must differ in metrics, timeline or decisions. A
key without a row fails, so that a new one comes with its proof.
"""
import json
import sys

import support
from support import changed, kvtide, refuses, succeeds

# Crowded: requests queue, hot caches are small, optional pages come and go, steps wait for rows.
CROWDED = {
    "cluster.decode.pools": {"unified_gib": 0.012},
    "workload.concurrency": 14, "workload.requests": 28,
    "residency.hot_tokens": 1024,
}
HISPARSE = {**CROWDED, "residency": {"policy": "hisparse", "hot_tokens": 1024}}
LOGNORMAL = {"law": "lognormal", "mean_tokens": 40, "cv": 0.3}
PAPER = {
    "model": "glm-5.3",
    "cluster.decode": {"gpus": 4, "dp": 4, "ep": 4, "lockstep": True,
                       "pools": {"unified_gib": 0.6}, "growth_reserve_gib": 0.1},
    "residency.hot_tokens": 4096,
    "cluster.import": {"law": "paper"},
    "timing": {"model": "paper"},
    "workload.lengths.input": {"law": "fixed", "tokens": 6000},
}
PAPER_HISPARSE = {**PAPER, "residency": {"policy": "hisparse", "hot_tokens": 4096}}
PAPER_DFLASH2 = {**PAPER, "cluster.decode.pools": {"unified_gib": 8},
                 "speculation": {"method": "dflash2"}}
# Room for a drafter's weights beside everything else.
ROOMY = {**HISPARSE, "cluster.decode.pools": {"unified_gib": 6}}
# Outputs that outlast a tape.
LONG = {**HISPARSE, "workload.lengths.output.mean_tokens": 300}
# Stores of several layers, whose copies can follow one another.
FOLLOWERS = {**PAPER_HISPARSE, "cluster.import": {"law": "rate"}, "timing": {"model": "roofline"}}
SCORE = {"selection": {"law": "score"}, "workload.requests": 4, "workload.concurrency": 4}
MASS = {**SCORE, "selection": {"law": "score-mass"}, "run.fidelity": "exact",
        "residency": {"policy": "hisparse", "hot_tokens": 1024}}
SEPARATE = {"cluster.prefill": {"mode": "separate", "tokens_per_s": 50000}}
TALK = {"workload": {"arrival": "sessions", "concurrency": 4, "conversations": 6, "turns": 3,
                     "new_tokens": [3000, 300], "output_tokens": 20}}
THINKING = {**TALK, "workload.think_s": 0.05}
COLOCATED = {**TALK, "cluster.import": None, "cluster.prefill": {"mode": "colocated", "tokens_per_s": 50000}}
# A rank that holds little of a prompt, and others that are less crowded.
AWARE = {**TALK, "cluster.router.policy": "cache-aware", "cluster.decode.gpus": 4,
         "cluster.decode.dp": 4, "workload.concurrency": 9, "workload.conversations": 18,
         "workload.shared_prefix_tokens": 2000}
# A dozen documents that many ask about, of which HBM holds three and the link brings up slowly.
ASKED = {**TALK, "cluster.import": None,
         "cluster.prefill": {"mode": "colocated", "tokens_per_s": 50000},
         "hardware": {"base": "b300", "link_h2d_bytes_per_s": 2000000000},
         "residency": {"policy": "prefix-offload"}, "selection": None, "run.fidelity": "exact",
         "cluster.decode.growth_reserve_gib": 0, "cluster.decode.pools": {"unified_gib": 0.008},
         "workload": {"arrival": "trace", "path": "./asked.csv"}}
STRATA = {**ASKED, "cluster.scheduling": {"policy": "strata", "load_compute_ratio": 10}}
OPEN = {"workload": {"arrival": "open", "rate": 50, "requests": 12,
                     "lengths": support.TINY["workload"]["lengths"]}}
PHASES = {"workload": {"arrival": "phases", "phases": [{"concurrency": 2, "seconds": 0.3},
                                                       {"concurrency": 6, "seconds": 0.3}],
                       "lengths": support.TINY["workload"]["lengths"]}}
TRACE = {"workload": {"arrival": "trace", "path": "./trace.csv"}}
SLO = {"slo": {"classes": [
    {"name": "a", "share": 0.5, "ttft_ms": 0.5, "tpot_ms": 5, "e2el_ms": 200},
    {"name": "b", "share": 0.5, "ttft_ms": 50, "tpot_ms": 50, "e2el_ms": 20000}]}}
# The link, not the host's address translation, is what a fetch waits for.
WIDE = {**HISPARSE, "cluster.decode.dram_gb_per_s_per_node": 1e6}
NARROW_DRAM = {**HISPARSE, "cluster.decode.dram_gb_per_s_per_node": 2}
# Requests that come in a burst, for whom optional pages of those before must go.
BURST = {**OPEN, "workload.rate": 100, "workload.requests": 20,
         "cluster.decode.pools": {"unified_gib": 0.012}, "residency.hot_tokens": 1024}
ORACLE = {**CROWDED, "residency": {"policy": "oracle-pages", "hot_tokens": 1024},
          "run.fidelity": "exact"}
# Histories fill HBM as they come in, and new rows are written to host when it runs short.
LANDED = {**BURST, "residency.landing_fraction": 0.9}
DEFERRED = {**LANDED, "residency.backup_below_fraction": 0.2,
            "workload.lengths.output.mean_tokens": 150}
HYBRID = {**BURST, "residency": {"policy": "vllm-hybrid", "hot_tokens": 1024}}
DEMOTE = {**BURST, "residency": {"policy": "sglang-demote", "hot_tokens": 1024}}
# Rounds whose queries together select more rows than the hot cache holds.
MTP = {"method": "mtp", "drafter": "./draft.json"}
DRAFTS = {**ROOMY, "speculation": MTP}
# More of them at once than the widest call's rows hold.
TURNS = {**DRAFTS, "workload.concurrency": 40, "workload.requests": 40}
# GLM-5.3 in small, so that a recording of it is: three stores of 16 rows a query.
SMALL_MODEL = {
    "base": "glm-5.3", "layers": 6, "top_k": 16, "weight_bytes": 1 << 31,
    "dense_weight_bytes": 1 << 30, "weights_replicated_gib": 1, "weights_expert_gib": 1,
    "stores": [{"first_layer": 0, "layers": 1, "compress_ratio": 1, "repeat": 2,
                "stride_layers": 1},
               {"first_layer": 2, "layers": 4, "compress_ratio": 1, "repeat": 1,
                "stride_layers": 4}]}
RECORDED = {"model": SMALL_MODEL, "residency": {"policy": "hisparse", "hot_tokens": 16},
            "cluster.decode.pools": {"unified_gib": 2},
            "selection": {"law": "recorded", "path": "./near.kvsel"}}
# Rows that a predictor knows, and rows on host in two planes.
PREDICTED = {**HISPARSE, "residency.prefetch": {"recall": 0.8, "precision": 0.5}}
PLANES = {**HISPARSE, "residency.read_depth": {"shallow_share": 0.5}}
# A rank of two that fails while it decodes.
FAILS = {"kind": "rank", "at_s": 0.1, "which": 0, "back_after_s": 0.1}
FAULTY = {**HISPARSE, "workload.lengths.output.mean_tokens": 150}
# What a step computes takes longer than what it reads.
SLOW_MATH = {**HISPARSE, "timing.flops_efficiency": 0.01}
TWO_WAY = {"cluster.decode.tp": 2, "cluster.decode.dp": 1}
DERIVED = {"cluster.decode.pools": "derived"}

# Blocks of a medium load; and the size of a round by one old round alone, over stairs.
MEDIUM = {"light_requests": 0, "block": 0}
ONE_ROUND = {"confidence_pool_requests": 1, "costs": "deepseek-v4-flash-b300"}

PROFILE = {**HISPARSE, "timing": {"model": "profile", "profile": "./fast.json",
                                  "lacking": "roofline"}}

CUDA = {**HISPARSE, "backend": {"name": "cuda"}, "run.fidelity": "exact"}

REFUSED = object()  # the value is answered with status 2
NAMED = object()    # shows in the report and nowhere else
ON_A_GPU = object()  # takes one: without, both are answered with status 3; `check` shows the value


def roofline(key, value, base=None):
    return ("timing(roofline)." + key, (base or HISPARSE, {"timing." + key: value}))


def drafting(method, key, value, base=None):
    drafter = {} if method == "self-sparse" else {"drafter": "./draft.json"}
    return ("speculation(%s).%s" % (method, key),
            ({**ROOMY, "speculation": {"method": method, **drafter, **(base or {})}},
             {"speculation." + key: value}))


def tape(key, value, base=None):
    return ("selection(tape)." + key, (base or HISPARSE, {"selection." + key: value}))


def fault(key, value, first=FAILS, base=None):
    """One key of a fault changed, beside what is there."""
    return ("cluster.faults[]." + key,
            ({**(base or FAULTY), "cluster.faults": [first]},
             {"cluster.faults": [{**first, key: value}]}))


def score(key, value):
    return ("selection(score)." + key, (SCORE, {"selection." + key: value}))


def mass(key, value, base=None):
    return ("selection(score-mass)." + key,
            ({**MASS, **{"selection." + k: v for k, v in (base or {}).items()}},
             {"selection." + key: value}))


def adaptive(key, value, base=None):
    return ("residency(adaptive)." + key, (base or DEFERRED, {"residency." + key: value}))


def replacement(policy, key, value, base=None):
    return ("replacement(%s).%s" % (policy, key),
            ({**HISPARSE, "replacement": {"policy": policy, **(base or {})}},
             {"replacement." + key: value}))


def slo(key, value):
    """The same member of both classes."""
    classes = [dict(entry, **{key: value}) for entry in SLO["slo"]["classes"]]
    return ("slo.classes[]." + key, (SLO, {"slo.classes": classes}))


# key: (what must hold, the key's other value, and what is to be seen unless it is the figures)
TABLE = {
    "schema": ({}, {"schema": "kvtide/scenario/2"}, REFUSED),
    "name": ({}, {"name": "another"}, NAMED),
    "extends": ({"workload.concurrency": None}, {"extends": "./base.json"}),
    "seed": ({}, {"seed": 2}),
    "model": ({}, {"model": {"base": "deepseek-v4.1-flash", "top_k": 256}}),
    "hardware": ({}, {"hardware": "gb300"}),
    "cluster.decode.hardware": ({}, {"cluster.decode.hardware": "gb300"}),
    "cluster.decode.gpus": ({"cluster.decode.dp": "auto"}, {"cluster.decode.gpus": 4}),
    "cluster.decode.tp": ({"cluster.decode.dp": "auto"}, {"cluster.decode.tp": 2}),
    "cluster.decode.dp": ({"cluster.decode.gpus": "auto"}, {"cluster.decode.dp": 4}),
    "cluster.decode.ep": ({"hardware": "mi300x", "cluster.decode.gpus": 4, "cluster.decode.dp": 4,
                           "cluster.decode.ep": 4}, {"cluster.decode.ep": 2}),
    "cluster.decode.lockstep": ({"workload.concurrency": 5}, {"cluster.decode.lockstep": False}),
    "cluster.decode.pools": (CROWDED, DERIVED),
    "cluster.decode.pools.unified_gib": (CROWDED, {"cluster.decode.pools.unified_gib": 0.02}),
    "cluster.decode.pools.index_gib": (
        {**CROWDED, "cluster.decode.pools": {"index_gib": 0.005, "rows_gib": 0.01}},
        {"cluster.decode.pools.index_gib": 0.002}),
    "cluster.decode.pools.rows_gib": (
        {**CROWDED, "cluster.decode.pools": {"index_gib": 0.005, "rows_gib": 0.01}},
        {"cluster.decode.pools.rows_gib": 0.02}),
    "cluster.decode.speculation_workspace_gib": (
        {}, {"cluster.decode.speculation_workspace_gib": 1}, REFUSED),
    "cluster.decode.growth_reserve_gib": (
        {**CROWDED, "cluster.decode.growth_reserve_gib": 0},
        {"cluster.decode.growth_reserve_gib": 0.01}),
    "cluster.decode.host_dram_gib_per_node": (
        CROWDED, {"cluster.decode.host_dram_gib_per_node": 0.02}),
    "cluster.decode.host_pool": ({**TWO_WAY, **CROWDED}, {"cluster.decode.host_pool": "per_rank"}),
    "cluster.decode.index_offload_gib_per_node": (
        {**TALK, "residency.hot_tokens": 1024,
         "cluster.decode.pools": {"index_gib": 0.003, "rows_gib": 0.01}},
        {"cluster.decode.index_offload_gib_per_node": 1}),
    "cluster.decode.gpus_per_node": (
        {**CROWDED, "cluster.decode.host_dram_gib_per_node": 0.02},
        {"cluster.decode.gpus_per_node": 1}),
    "cluster.decode.dram_gb_per_s_per_node": (
        HISPARSE, {"cluster.decode.dram_gb_per_s_per_node": 2}),
    "cluster.prefill.mode": ({}, SEPARATE),
    "cluster.prefill.gpus": (SEPARATE, {"cluster.prefill.gpus": 3}),
    "cluster.prefill.tokens_per_s": (SEPARATE, {"cluster.prefill.tokens_per_s": 90000}),
    "cluster.prefill.context_half_tokens": (SEPARATE, {"cluster.prefill.context_half_tokens": 5000}),
    "cluster.prefill.chunk_tokens": (COLOCATED, {"cluster.prefill.chunk_tokens": 256}),
    "cluster.faults": (FAULTY, {"cluster.faults": [FAILS]}),
    "cluster.faults[].kind": (
        {**FAULTY, "cluster.faults": [dict(FAILS, group="goes_on")]},
        {"cluster.faults": [dict(FAILS, group="goes_on", kind="node")]}),
    **dict([
        fault("at_s", 0.15), fault("which", 1), fault("back_after_s", 0.3), fault("reload_s", 0.2),
        fault("group", "goes_on"), fault("host_copy", "kept"),
        fault("bandwidth_factor", 0.01,
              {"kind": "link", "at_s": 0, "which": 0, "bandwidth_factor": 0.9}, WIDE),
        fault("servers", 2, {"kind": "prefill", "at_s": 0, "back_after_s": 1},
              {**SEPARATE, "cluster.prefill.gpus": 3}),
    ]),
    "cluster.import.law": (PAPER, {"cluster.import": {"law": "rate"}}),
    "cluster.import(rate).rate": ({}, {"cluster.import.rate": 2.385}),
    "cluster.import(rate).staging": (HISPARSE, {"cluster.import.staging": 0.001}),
    "cluster.import(rate).queue": (HISPARSE, {"cluster.import.queue": 4}),
    "cluster.import(paper).hisparse_mean_s": (PAPER_HISPARSE, {"cluster.import.hisparse_mean_s": 1}),
    "cluster.import(paper).dflash2_mean_s": (PAPER_DFLASH2, {"cluster.import.dflash2_mean_s": 2}),
    "cluster.import(paper).adaptive_mean_s": (PAPER, {"cluster.import.adaptive_mean_s": 1}),
    "cluster.router.policy": ({"workload.concurrency": 5}, {"cluster.router.policy": "round-robin"}),
    "cluster.router(cache-aware).match_fraction": (AWARE, {"cluster.router.match_fraction": 0.9}),
    "cluster.router(cache-aware).balance_requests": (
        {**AWARE, "cluster.router.balance_rel": 1}, {"cluster.router.balance_requests": 0}),
    "cluster.router(cache-aware).balance_rel": (
        {**AWARE, "cluster.router.balance_requests": 0}, {"cluster.router.balance_rel": 9}),
    "cluster.scheduling.policy": (ASKED, {"cluster.scheduling.policy": "strata"}),
    "cluster.scheduling(io-adaptive).fetch_share": (
        {**HISPARSE, "cluster.scheduling": {"policy": "io-adaptive"}},
        {"cluster.scheduling.fetch_share": 0}),
    "cluster.scheduling(sjf).ageing_tokens_per_s": (
        {**CROWDED, "cluster.scheduling": {"policy": "sjf"}, "workload.requests": 60,
         "workload.concurrency": 40,
         "workload.lengths.input": {"law": "lognormal", "mean_tokens": 3000, "cv": 0.5}},
        {"cluster.scheduling.ageing_tokens_per_s": 100000}),
    "cluster.scheduling(strata).delay_hit_tokens": (
        STRATA, {"cluster.scheduling.delay_hit_tokens": 0}),
    "cluster.scheduling(strata).load_compute_ratio": (
        STRATA, {"cluster.scheduling.load_compute_ratio": 100}),
    "cluster.scheduling(strata).bundle": (
        {**STRATA, "cluster.scheduling.load_compute_ratio": 0.1},
        {"cluster.scheduling.bundle": False}),
    "cluster.scheduling(strata).passes_max": (STRATA, {"cluster.scheduling.passes_max": 1}),
    "residency.policy": ({}, {"residency": {"policy": "hisparse"}}),
    "residency(adaptive).optional_capacity_fraction": (
        CROWDED, {"residency.optional_capacity_fraction": 0.385}),
    "residency(adaptive).refill_gb_per_s": (CROWDED, {"residency.refill_gb_per_s": 0.02}),
    "residency(vllm-hybrid).watermark_fraction": (HYBRID, {"residency.watermark_fraction": 0.5}),
    "residency(vllm-hybrid).backup_pages": (HYBRID, {"residency.backup_pages": 1}),
    "residency(vllm-hybrid).release_order": (HYBRID, {"residency.release_order": "lowest"}),
    "residency(sglang-demote).free_fraction": (DEMOTE, {"residency.free_fraction": 0.5}),
    "residency(sglang-demote).demote_order": (DEMOTE, {"residency.demote_order": "newest"}),
    "residency(oracle-pages).clairvoyant": (ORACLE, {"residency.clairvoyant": False}, REFUSED),
    "residency(oracle-pages).refill_gb_per_s": (ORACLE, {"residency.refill_gb_per_s": 0.02}),
    "residency.hot_tokens": (HISPARSE, {"residency.hot_tokens": 1600}),
    "residency.prefetch.recall": (HISPARSE, {"residency.prefetch.recall": 0.8}),
    "residency.prefetch.precision": (PREDICTED, {"residency.prefetch.precision": 0.9}),
    "residency.prefetch.lead": (PREDICTED, {"residency.prefetch.lead": "step"}),
    "residency.read_depth.shallow_share": (HISPARSE, {"residency.read_depth.shallow_share": 0.5}),
    "residency.read_depth.shallow_fraction": (
        PLANES, {"residency.read_depth.shallow_fraction": 0.25}),
    "replacement.policy": (HISPARSE, {"replacement.policy": "fifo"}),
    **dict([replacement("lfu", "ageing_accesses_per_slot", 1),
            replacement("s3fifo", "small_fraction", 0.5),
            replacement("s3fifo", "ghost_fraction", 0.1),
            replacement("s3fifo", "promote_hits", 1),
            replacement("2q", "in_fraction", 0.75),
            replacement("2q", "ghost_fraction", 0.05),
            replacement("sharded-lru", "ways", 16),
            replacement("sharded-lru", "hash", "modulo"),
            replacement("bucketed-lru", "buckets", 2, {"bucket_calls": 1}),
            replacement("bucketed-lru", "bucket_calls", 1)]),
    "replacement(belady).clairvoyant": (
        {**HISPARSE, "replacement.policy": "belady"}, {"replacement.clairvoyant": False}, REFUSED),
    "replacement(oracle-pages).clairvoyant": (
        {**HISPARSE, "replacement.policy": "oracle-pages"},
        {"replacement.clairvoyant": False}, REFUSED),
    "speculation.method": (ROOMY, {"speculation": MTP}),
    "speculation.retrieval": (DRAFTS, {"speculation.retrieval": "each_query"}),
    "speculation.overflow": (DRAFTS, {"speculation.overflow": "none"}, REFUSED),
    "speculation.promotion": (DRAFTS, {"speculation.promotion": "by_count"}),
    "speculation.staging_fraction": (TURNS, {"speculation.staging_fraction": 0.001}),
    "selection.law": ({}, {"selection": {"law": "score"}}),
    "selection(tape).memory_mib": (
        {"workload.lengths.input.tokens": 100000, "selection.tapes": 64}, {"selection.memory_mib": 1},
        REFUSED),
    "selection(recorded).path": (RECORDED, {"selection.path": "./far.kvsel"}),
    "selection(recorded).drafts": (
        {**RECORDED, "selection.drafts": "main", "speculation": {"method": "mtp"}},
        {"selection.drafts": "refuse"}, REFUSED),
    # What an engine returned does not say whose it is; test_trace_record.py has files that do.
    "selection(recorded).assign": (RECORDED, {"selection.assign": "own"}, REFUSED),
    "timing.model": (PAPER, {"timing": {"model": "roofline"}}),
    "timing(paper).shared_ms": (PAPER, {"timing.shared_ms": 9.5}),
    "timing(paper).expert_ms": (PAPER, {"timing.expert_ms": 9.5}),
    "timing(paper).hisparse_request_ms": (PAPER_HISPARSE, {"timing.hisparse_request_ms": 0.5}),
    "timing(paper).adaptive_request_ms": (PAPER, {"timing.adaptive_request_ms": 0.5}),
    "timing(paper).draft_ms": (PAPER_DFLASH2, {"timing.draft_ms": 5}),
    "timing(paper).query_ms": (PAPER_DFLASH2, {"timing.query_ms": 0.5}),
    "timing(cost-table).costs": (
        {"timing": {"model": "cost-table"}, "residency": {"policy": "resident"},
         "selection": None},
        {"timing.costs": "./costs.json"}),
    "timing(profile).profile": (PROFILE, {"timing.profile": "./slow.json"}),
    "timing(profile).fetch_order": ({**PROFILE, "timing": {**PROFILE["timing"],
                                                            "profile": "./fetch.json"}},
                                    {"timing.fetch_order": "group"}),
    "timing(profile).host_us_per_step": (PROFILE, {"timing.host_us_per_step": 300}),
    "timing(profile).host_us_per_request": (PROFILE, {"timing.host_us_per_request": 20}),
    "timing(profile).lacking": (PROFILE, {"timing.lacking": "refused"}, REFUSED),
    "timing(paper).wire_row_bytes": (PAPER_HISPARSE, {"timing.wire_row_bytes": 900}),
    "timing(paper).link_gb_per_s": (PAPER_HISPARSE, {"timing.link_gb_per_s": 20}),
    "workload(sessions).concurrency": (TALK, {"workload.concurrency": 2}),
    "workload(sessions).conversations": (TALK, {"workload.conversations": 5}),
    "workload(sessions).turns": (TALK, {"workload.turns": 2}),
    "workload(sessions).new_tokens": (TALK, {"workload.new_tokens": [3000, 400]}),
    "workload(sessions).output_tokens": (TALK, {"workload.output_tokens": 30}),
    "workload(sessions).length_spread_fraction": (TALK, {"workload.length_spread_fraction": 0.2}),
    "workload(sessions).shared_prefix_tokens": (TALK, {"workload.shared_prefix_tokens": 640}),
    "workload(sessions).think_s": (TALK, {"workload.think_s": 0.1}),
    "workload(sessions).think_law": (THINKING, {"workload.think_law": "exponential"}),
    "workload.arrival": (
        {}, {"workload": {"arrival": "open", "rate": 50, "requests": 12,
                          "lengths": support.TINY["workload"]["lengths"]}}),
    "workload(closed).concurrency": ({}, {"workload.concurrency": 4}),
    "workload(closed).requests": ({}, {"workload.requests": 9}),
    "workload(phases).phases": (PHASES, {"workload.phases": [{"concurrency": 6, "seconds": 0.6}]}),
    "workload(open).rate": (OPEN, {"workload.rate": 25}),
    "workload(open).burstiness": (OPEN, {"workload.burstiness": 0.25}),
    "workload(open).requests": (OPEN, {"workload.requests": 9}),
    "workload(trace).path": (TRACE, {"workload.path": "./other.csv"}),
    "workload(trace).format": (TRACE, {"workload.format": "mooncake"}, REFUSED),
    "workload(trace).rate_scale": (TRACE, {"workload.rate_scale": 2.385}),
    "workload(trace).window": (TRACE, {"workload.window": "0.05:0.2"}),
    "workload.lengths.input.law": ({}, {"workload.lengths.input": LOGNORMAL}),
    "workload.lengths.input(fixed).tokens": ({}, {"workload.lengths.input.tokens": 5000}),
    "workload.lengths.input(lognormal).mean_tokens": (
        {"workload.lengths.input": {**LOGNORMAL, "mean_tokens": 3000}},
        {"workload.lengths.input.mean_tokens": 2500}),
    "workload.lengths.input(lognormal).cv": (
        {"workload.lengths.input": {**LOGNORMAL, "mean_tokens": 3000}},
        {"workload.lengths.input.cv": 0.1}),
    "workload.lengths.input(empirical).path": (
        {"workload.lengths.input": {"law": "empirical", "path": "./lengths.csv"}},
        {"workload.lengths.input.path": "./longer.csv"}),
    "workload.lengths.output.law": ({}, {"workload.lengths.output": {"law": "fixed", "tokens": 40}}),
    "workload.lengths.output(fixed).tokens": (
        {"workload.lengths.output": {"law": "fixed", "tokens": 40}},
        {"workload.lengths.output.tokens": 50}),
    "workload.lengths.output(lognormal).mean_tokens": (
        {}, {"workload.lengths.output.mean_tokens": 50}),
    "workload.lengths.output(lognormal).cv": ({}, {"workload.lengths.output.cv": 0.1}),
    "workload.lengths.output(empirical).path": (
        {"workload.lengths.output": {"law": "empirical", "path": "./short.csv"}},
        {"workload.lengths.output.path": "./lengths.csv"}),
    "workload.task": (
        {**ROOMY, "speculation": {**MTP, "acceptance": "dflash"}},
        {"workload.task": "math"}),
    "slo.classes": ({}, SLO),
    "slo.classes[].name": (SLO, {"slo.classes": [dict(entry, name=entry["name"] * 2)
                                                 for entry in SLO["slo"]["classes"]]}, NAMED),
    "slo.classes[].share": (SLO, {"slo.classes": [dict(SLO["slo"]["classes"][0], share=0.9),
                                                  dict(SLO["slo"]["classes"][1], share=0.1)]}),
    "run.duration_s": ({}, {"run.duration_s": 0.2}),
    "run.warmup.rule": ({}, {"run.warmup": {"rule": "requests", "value": 3}}),
    "run.warmup.value": ({"run.warmup": {"rule": "requests", "value": 3}}, {"run.warmup.value": 5}),
    "run.interval_s": ({}, {"run.interval_s": 0.05}),
    "run.fidelity": (HISPARSE, {"run.fidelity": "exact"}),
    "run.sample_stores": (HISPARSE, {"run.sample_stores": 2}),
    "run.sample_requests": (HISPARSE, {"run.sample_requests": 1}),
    "run.clock": (CUDA, {"run.clock": "measured"}, ON_A_GPU),
    "backend.name": ({"run.fidelity": "exact"}, {"backend": "cuda"}, ON_A_GPU),
    **{"backend(cuda)." + key: ({**CUDA, **{"backend." + k: v for k, v in base.items()}},
                                {"backend." + key: value}, ON_A_GPU)
       for key, value, base in (
           ("devices", [0], {}), ("ranks_on_device", 1, {}), ("longest_tokens", 9000, {}),
           ("host_pool_gib", 2, {}), ("host_layout", "layer", {}), ("fetch_order", "group", {}),
           ("shared_tokens", 1024, {}), ("shared_contexts", 2, {"shared_tokens": 1024}),
           ("check_queries", 8, {}), ("kernels", "reference", {}), ("output", "f32", {}),
           ("indexer_drift", 0.5, {}), ("corrupt_step", 2, {}), ("layers", 20, {}),
           ("import", False, {}), ("apart_steps", 2, {}),
           ("beside_inbound_mib", 8, {}), ("beside_outbound_mib", 8, {}))},
    **dict([
        tape("f0", 0.2), tape("f1", 0.1), tape("f2", 0.1), tape("tau1_tokens", 20),
        tape("tau2_tokens", 3), tape("tapes", 2), tape("steps", 1024, LONG),
        *[row for law in (tape, score, mass) for row in (
            law("preset", "clustered"), law("selector_share", 0.2), law("page_share", 0.4),
            law("store_share", 0.4), law("recency", 2), law("sink_rows", 64),
            law("layer_spread", 0.5))],
        *[row for law in (score, mass) for row in (
            law("f0", 0.2), law("f1", 0.1), law("f2", 0.1), law("tau1_tokens", 20),
            law("tau2_tokens", 3))],
        mass("mass", 0.9), mass("temperature", 0.15), mass("budget_spread", 0.2),
        mass("rows_min", 400, {"temperature": 0.1}),
        roofline("host_us_per_step", 300), roofline("sampling_us_per_step", 200),
        roofline("layer_overhead_us", 20), roofline("collective_us", 20),
        roofline("topk_launch_us", 20), roofline("topk_passes", 3),
        roofline("resolve_launch_us", 10), roofline("resolve_ns_per_row", 2),
        roofline("attention_launch_us", 30), roofline("hbm_efficiency", 0.5),
        roofline("flops_efficiency", 0.01), roofline("attention_efficiency", 0.1),
        roofline("link_efficiency", 0.1, WIDE), roofline("duplex_efficiency", 0.1, WIDE),
        roofline("dram_efficiency", 0.1, NARROW_DRAM),
        roofline("interconnect_efficiency", 0.1), roofline("dense_math", "bf16", SLOW_MATH),
        roofline("index_query_share", 0.9, DRAFTS),
        roofline("graph_step_tokens", 1, SLOW_MATH), roofline("graph_largest_tokens", 1),
        roofline("eager_layer_us", 500, {**HISPARSE, "timing.graph_largest_tokens": 1}),
        roofline("draft_layer_us", 900, DRAFTS),
        drafting("dflash2", "drafter", "./heavy.json"), drafting("dflash2", "acceptance", "dflash"),
        drafting("dflash2", "block", 3), drafting("dflash2", "block_light", 3),
        drafting("dflash2", "light_requests", 0), drafting("dflash2", "block_medium", 3, MEDIUM),
        drafting("dflash2", "medium_requests", 0, MEDIUM),
        drafting("dflash2", "block_heavy", 3, {"light_requests": 0, "medium_requests": 0}),
        drafting("dspark", "drafter", "./heavy.json"), drafting("dspark", "acceptance", "dspark"),
        drafting("dspark", "costs", "./costs.json"), drafting("dspark", "drafts", 2),
        drafting("dspark", "fixed_drafts", 1), drafting("dspark", "confidence_auc", 0.6),
        drafting("dspark", "confidence_lag_rounds", 0, ONE_ROUND),
        drafting("dspark", "confidence_pool_requests", 64, ONE_ROUND),
        drafting("dspark", "early_stop", True, ONE_ROUND),
        drafting("mtp", "acceptance", "eagle3"), drafting("mtp", "drafts", 5),
        drafting("mtp", "drafter", "./heavy.json"),
        drafting("eagle", "acceptance", "./chances.json"), drafting("eagle", "drafts", 5),
        drafting("eagle", "drafter", "./heavy.json"),
        drafting("eagle-tree", "acceptance", "medusa"), drafting("eagle-tree", "branching", [2, 1]),
        drafting("eagle-tree", "further_share", 0.9),
        drafting("eagle-tree", "drafter", "./heavy.json", {"branching": [2, 1]}),
        drafting("medusa", "acceptance", "eagle3"), drafting("medusa", "branching", [2, 1]),
        drafting("medusa", "further_share", 0.9),
        drafting("medusa", "drafter", "./heavy.json"),
        drafting("self-sparse", "acceptance", "eagle3"), drafting("self-sparse", "drafts", 2),
        drafting("self-sparse", "draft_budget_tokens", 8192),
        roofline("attention_math", "fp8"), roofline("fetch_order", "leader_first", FOLLOWERS),
        ("slo.classes[].priority",
         ({**CROWDED, **SLO},
          {"slo.classes": [dict(SLO["slo"]["classes"][0], priority=7), SLO["slo"]["classes"][1]]})),
        adaptive("landing_fraction", 0.1), adaptive("backup_below_fraction", 0.9),
        adaptive("backup_gb_per_s", 5), adaptive("landing_writes_later", True),
        adaptive("release_order", "highest", LANDED), adaptive("refill_order", "lowest", LANDED),
        slo("ttft_ms", 0.9), slo("tpot_ms", 5.1), slo("e2el_ms", 170),
        slo("attain", 0.5),
    ]),
}

# Kinds of requests: the first with a member changed, in its lengths where that is named by a dot.
TWO_KINDS = [{"name": "a", "share": 0.5, "lengths": {"input": {"law": "fixed", "tokens": 3000},
                                                     "output": {"law": "fixed", "tokens": 30}}},
             {"name": "b", "share": 0.5, "lengths": support.TINY["workload"]["lengths"]}]
KINDS = {"workload.lengths": None, "workload.classes": TWO_KINDS}


def with_kinds(**first):
    return {"workload.classes": [dict(TWO_KINDS[0], **first), TWO_KINDS[1]]}


def with_lengths(side, law):
    return with_kinds(lengths={**TWO_KINDS[0]["lengths"], side: law})


def kind_lengths(side, base, change):
    """The key of the member that differs, or of the law."""
    differs = [name for name in change if base.get(name) != change[name]]
    member = "(%s).%s" % (base["law"], differs[0]) if base["law"] == change["law"] else ".law"
    return ("workload.classes[].lengths.%s%s" % (side, member),
            ({**KINDS, **with_lengths(side, base)}, with_lengths(side, change)))


FIXED = {"law": "fixed", "tokens": 50}
PROMPTS = {**LOGNORMAL, "mean_tokens": 3000}
KEPT = {"cluster.import": None, "cluster.prefill": {"mode": "colocated", "tokens_per_s": 50000}}
TABLE.update({
    "workload.classes": ({}, KINDS),
    "workload.classes[].name": (KINDS, with_kinds(name="c"), NAMED),
    "workload.classes[].share": (KINDS, {"workload.classes": [
        dict(TWO_KINDS[0], share=0.1), dict(TWO_KINDS[1], share=0.9)]}),
    "workload.classes[].lengths": (KINDS, with_kinds(lengths={})),
    "workload.classes[].lengths.input": (KINDS, with_lengths("input", FIXED)),
    "workload.classes[].lengths.output": (KINDS, with_lengths("output", FIXED)),
    **dict([
        kind_lengths("input", FIXED, PROMPTS),
        kind_lengths("input", FIXED, {**FIXED, "tokens": 60}),
        kind_lengths("input", PROMPTS, {**PROMPTS, "mean_tokens": 2500}),
        kind_lengths("input", PROMPTS, {**PROMPTS, "cv": 0.1}),
        kind_lengths("input", {"law": "empirical", "path": "./lengths.csv"},
                     {"law": "empirical", "path": "./longer.csv"}),
        kind_lengths("output", FIXED, LOGNORMAL),
        kind_lengths("output", FIXED, {**FIXED, "tokens": 60}),
        kind_lengths("output", LOGNORMAL, {**LOGNORMAL, "mean_tokens": 50}),
        kind_lengths("output", LOGNORMAL, {**LOGNORMAL, "cv": 0.1}),
        kind_lengths("output", {"law": "empirical", "path": "./short.csv"},
                     {"law": "empirical", "path": "./lengths.csv"}),
    ]),
    "workload.classes[].task": (
        {**ROOMY, **KINDS, "speculation": {**MTP, "acceptance": "dflash"}, "workload.task": "chat"},
        with_kinds(task="math")),
    "workload.classes[].slo_class": ({**SLO, **KINDS, **with_kinds(slo_class="a")},
                                     with_kinds(slo_class="b")),
    "workload.classes[].shared_prefix_tokens": (
        {**KINDS, **KEPT, **with_kinds(shared_prefix_tokens=1024)},
        with_kinds(shared_prefix_tokens=2048)),
})

# A prefill pool by its data sheet, and what is paid.
PREFILL = {"cluster.prefill": {"mode": "separate", "gpus": 4, "tokens_per_s": "roofline", "ep": 4}}
WATTS = {"cluster.decode.idle_watts_per_gpu": 150, "cluster.decode.busy_watts_per_gpu": 900}
PAID = {"cluster.decode.usd_per_gpu_hour": 3}
PAID_PREFILL = {**PREFILL, **WATTS, **PAID, "cluster.prefill.usd_per_gpu_hour": 2,
                "cluster.prefill.idle_watts_per_gpu": 100,
                "cluster.prefill.busy_watts_per_gpu": 700}
TABLE.update({
    "cluster.prefill.hardware": (PREFILL, {"cluster.prefill.hardware": "gb300"}),
    "cluster.prefill.tp": (PREFILL, {"cluster.prefill.tp": 2}),
    "cluster.prefill.ep": (PREFILL, {"cluster.prefill.ep": 2}),
    "cluster.prefill.flops_efficiency": (PREFILL, {"cluster.prefill.flops_efficiency": 0.3}),
    "cluster.prefill.dense_math": (PREFILL, {"cluster.prefill.dense_math": "bf16"}),
    "cluster.decode.usd_per_gpu_hour": ({}, PAID),
    "cluster.decode.usd_per_host_gib_hour": (PAID, {"cluster.decode.usd_per_host_gib_hour": 0.001}),
    "cluster.decode.idle_watts_per_gpu": (WATTS, {"cluster.decode.idle_watts_per_gpu": 100}),
    "cluster.decode.busy_watts_per_gpu": (WATTS, {"cluster.decode.busy_watts_per_gpu": 800}),
    "cluster.decode.watts_per_node": (WATTS, {"cluster.decode.watts_per_node": 2000}),
    "cluster.prefill.usd_per_gpu_hour": (PAID_PREFILL, {"cluster.prefill.usd_per_gpu_hour": 1}),
    "cluster.prefill.idle_watts_per_gpu": (PAID_PREFILL, {"cluster.prefill.idle_watts_per_gpu": 1}),
    "cluster.prefill.busy_watts_per_gpu": (PAID_PREFILL,
                                           {"cluster.prefill.busy_watts_per_gpu": 600}),
    "cluster.usd_per_kwh": (WATTS, {"cluster.usd_per_kwh": 0.2}),
    "cluster.pue": (WATTS, {"cluster.pue": 1.3}),
})

DRAFTER = {
    "schema": "kvtide/drafter/1", "name": "any", "summary": "a layer of the model",
    "models": ["deepseek-v4.1-flash"], "layers": 1, "kv_heads": 1, "head_dim": 576,
    "window_tokens": 0, "slack_tokens": 0, "block_max": 32, "value_bytes": 1, "weight_bytes": 0,
    "sources": {key: "made up" for key in (
        "models", "layers", "kv_heads", "head_dim", "window_tokens", "slack_tokens", "block_max",
        "value_bytes", "weight_bytes")}}

def profile(step_ns, *more):
    return json.dumps({"schema": "kvtide/profile/1", "name": "p", "summary": "made up",
                       "setting": {},
                       "families": [{"name": "host", "limits_ns": [{"step": step_ns}]}, *more]})


FILES = {
    "fast.json": profile(1e5),
    "slow.json": profile(1e7),
    "fetch.json": profile(1e5, {"name": "dense", "limits_ns": [{"step": 1e7}]},
                          {"name": "fetch", "limits_ns": [{"wire_bytes": 0.02}],
                           "exposed_ns": {"wire_bytes": 0.005}, "hidden_by": {"dense": 1}}),
    "draft.json": json.dumps(DRAFTER),
    "heavy.json": json.dumps({**DRAFTER, "layers": 6, "window_tokens": 2048}),
    "trace.csv": "arrival_s,input_tokens,output_tokens\n" + "".join(
        "%g,%d,30\n" % (0.02 * i, 3000 + 100 * i) for i in range(12)),
    "other.csv": "arrival_s,input_tokens,output_tokens\n0,4000,30\n0.1,4000,20\n",
    "asked.csv": "arrival_s,input_tokens,output_tokens,session_id,think_s,prefix_group,prefix_tokens\n"
                 + "".join("0,3000,20,%d,0,d%d,2944\n" % (i % 24, (7 * i * i + 13 * i) % 101 % 12)
                           for i in range(150)),
    "lengths.csv": "2000\n2500\n3000\n",
    "longer.csv": "4000\n4100\n4200\n",
    "short.csv": "20\n30\n",
    "costs.json": json.dumps({
        "schema": "kvtide/costs/1", "name": "steep", "summary": "each token costs",
        "draft": [{"requests": 64, "ms": 1}],
        "verify": [{"tokens": n, "ms": 10 * n} for n in range(1, 64)],
        "graph_limit_tokens": 64,
        "sources": {key: "made up" for key in ("draft", "verify", "graph_limit_tokens")}}),
    "chances.json": json.dumps({
        "schema": "kvtide/acceptance/1", "name": "even", "summary": "one in two",
        "tasks": {"default": [0.5]}, "sources": {"tasks": "made up"}}),
    "base.json": json.dumps({"schema": "kvtide/scenario/1", "workload": {
        "arrival": "closed", "concurrency": 3}}),
}


def write_files(folder):
    """What scenarios of TABLE name: FILES, and recordings whose rows move on by `stride`."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, stride in (("near", 1), ("far", 5)):
        rows = [[[token + selector + stride * i for i in range(16)] for selector in range(3)]
                for token in range(256)]
        (folder / "rows.npy").write_bytes(support.npy(rows, (256, 3, 16)))
        succeeds("trace", "convert", "rows.npy", "--context-rows", 4032, "--to", name + ".kvsel",
                 cwd=folder)


def sets(*given):
    return [word for change in given for word in ("--set", change)]


def documented():
    return json.loads(succeeds("list", "keys", "--json"))["keys"]


def write_scenario(folder, base, change):
    path = folder / "scenario.json"
    path.write_text(json.dumps(changed(changed(support.TINY, base), change)), encoding="utf-8")
    return path


SEEN = {}  # figures() of a folder's scenarios, by what they were made of: bases come many times


def figures(folder, base, change):
    """(status, what can be seen of a run, the scenario in force)."""
    of = json.dumps((str(folder), base, change), sort_keys=True)
    if of not in SEEN:
        SEEN[of] = run_figures(folder, base, change)
    return SEEN[of]


def run_figures(folder, base, change):
    path = write_scenario(folder, base, change)
    done = kvtide("run", path, "--json", "--quiet", "--out", "out", "--no-report", cwd=folder)
    if done.returncode != 0:
        return done.returncode, done.stderr, None
    result = json.loads(done.stdout)
    timeline = (folder / "out/timeline.csv").read_text(encoding="utf-8")
    return 0, (result["metrics"], timeline, result["decision_hash"]), result["scenario"]


def fault_without_gpu(folder, base, change):
    """None, or what is wrong: the scenario in force has the value, and a run says what it lacks."""
    status, said, _ = figures(folder, base, change)
    if status not in (0, 3):
        return "status %d: %s" % (status, said)
    if status == 3 and "CUDA" not in said:
        return said
    printed = [succeeds("check", "--print", write_scenario(folder, base, one), cwd=folder)
               for one in ({}, change)]
    return "the scenario in force does not show it" if printed[0] == printed[1] else None


def fault_of(folder, base, change, wanted):
    """None, or what is wrong."""
    if wanted is REFUSED:
        status, said, _ = figures(folder, base, change)
        return None if status == 2 else "status %d: %s" % (status, said)
    if wanted is ON_A_GPU:
        return fault_without_gpu(folder, base, change)
    before, after = figures(folder, base, {}), figures(folder, base, change)
    for status, said, _ in (before, after):
        if status != 0:
            return "status %d: %s" % (status, said)
    if wanted is NAMED:
        return "the report does not show it" if before[2] == after[2] else None
    return "nothing changes" if before[1] == after[1] else None


def every_key_takes_effect_or_is_refused(folder):
    write_files(folder)
    faults = []
    for key in documented():
        if key["path"] not in TABLE:
            continue
        base, change, *wanted = TABLE[key["path"]]
        fault = fault_of(folder, base, change, wanted[0] if wanted else None)
        if fault:
            faults.append("%s: %s" % (key["path"], fault.strip()))
    assert not faults, "\n  " + "\n  ".join(faults)


def refused_keys_are_refused(folder):
    for key in documented():
        if "refused" in key:
            status, said, _ = figures(folder, {}, {key["path"]: []})
            assert status == 2 and "#/" + key["path"].replace(".", "/") in said, (key, said)


RESIDENT = ("residency=resident", "timing=roofline", "cluster.import.law=rate")

# What takes a key's effect away, the key, and what gives it back.
IDLE = (
    (RESIDENT, "residency.hot_tokens=8192", 'a residency.policy with hot caches'),
    (RESIDENT, "run.sample_requests=1", 'a residency.policy with hot caches'),
    (RESIDENT, "run.sample_stores=2", 'a residency.policy with hot caches'),
    (RESIDENT, "selection.preset=skewed", 'a residency.policy with hot caches'),
    (("run.fidelity=exact",), "run.sample_requests=1", "fidelity sampled"),
    (("run.fidelity=analytic",), "run.sample_stores=2", "fidelity sampled"),
    (("run.fidelity=analytic",), "run.interval_s=2", 'run.fidelity "exact" or "sampled"'),
    (("run.fidelity=analytic",), "cluster.router.policy=round-robin",
     'run.fidelity "exact" or "sampled"'),
    (("run.fidelity=analytic",), 'slo.classes=[{"name": "a", "share": 1, "tpot_ms": 50}]',
     'run.fidelity "exact" or "sampled"'),
    ((), "residency.backup_gb_per_s=5", "a backup_below_fraction below 1"),
    ((), "residency.landing_writes_later=true", "a backup_below_fraction below 1"),
    (("residency.backup_below_fraction=0.5",), "residency.landing_writes_later=true",
     "a landing_fraction above 0"),
    (("residency.refill_gb_per_s=0",), "residency.refill_order=lowest",
     "a refill_gb_per_s above 0"),
    ((), "timing.hisparse_request_ms=1", 'residency.policy "hisparse"'),
    ((), "timing.draft_ms=1", 'speculation.method "dflash2"'),
    ((), "cluster.import.dflash2_mean_s=1", 'speculation.method "dflash2"'),
    (("speculation=dflash2",), "cluster.import.adaptive_mean_s=1", 'speculation.method "none"'),
    (("speculation=dflash2", "speculation.block=4"), "speculation.block_light=3", "block 0"),
    (("speculation=dflash2", "speculation.block=4"), "speculation.medium_requests=3", "block 0"),
    (("cluster.scheduling=strata", "cluster.scheduling.load_compute_ratio=0"),
     "cluster.scheduling.bundle=false", "a load_compute_ratio above 0"),
    ((), "workload.task=code", "a speculation.method that drafts"),
    ((), "cluster.decode.speculation_workspace_gib=1", "a speculation.method that drafts"),
    (("speculation=dflash2", "speculation.retrieval=each_query"), "speculation.overflow=none",
     'speculation.retrieval "shared"'),
    (("speculation=dflash2", "residency.hot_tokens=20000", "speculation.overflow=none"),
     "speculation.promotion=by_count", 'speculation.overflow "staging"'),
    (("cluster.prefill.mode=colocated", "cluster.prefill.tokens_per_s=8000"),
     "cluster.import.law=rate", 'cluster.prefill.mode "none" or "separate"'),
    (("cluster.prefill.mode=separate", "cluster.prefill.tokens_per_s=8000"),
     "cluster.prefill.hardware=h200", 'cluster.prefill.tokens_per_s "roofline"'),
    (("cluster.prefill.mode=separate", "cluster.prefill.tokens_per_s=roofline",
      "cluster.prefill.gpus=4", "cluster.prefill.ep=4"),
     "cluster.prefill.context_half_tokens=9", "a number in cluster.prefill.tokens_per_s"),
    (('workload.classes=[{"name": "a", "share": 1, "lengths": {}}]',),
     "workload.lengths.input.tokens=9", "an empty list of classes"),
    ((), "cluster.usd_per_kwh=0.1", "cluster.decode.idle_watts_per_gpu"),
    ((), "cluster.pue=1.2", "cluster.decode.idle_watts_per_gpu"),
)
DSPARK = tuple(("speculation." + given, "fixed_drafts 0") for given in (
    "costs=deepseek-v4-flash-b300", "early_stop=true", "confidence_auc=0.7",
    "confidence_lag_rounds=1", "confidence_pool_requests=1"))


def keys_without_effect_are_refused_with_what_gives_it_back(folder):
    del folder
    cases = [("quickstart", *case) for case in IDLE]
    cases += [("deepseek-v4.1-flash-500k", ("speculation.fixed_drafts=2",), *case)
              for case in DSPARK]
    for scenario, causes, key, cure in cases:
        sentence = refuses(2, "run", scenario, *sets(*causes, key))
        assert sentence.startswith("kvtide: --set " + key.split("=")[0]), (causes, sentence)
        assert "has no effect while" in sentence and "it takes " + cure in sentence, sentence
    # The command line counts as one, in whichever order.
    assert "has no effect" in refuses(2, "run", *sets("residency.hot_tokens=8192", *RESIDENT))


def what_a_key_takes_is_listed(folder):
    """In the words of the refusal."""
    del folder
    takes = {key["path"]: key.get("takes", "") for key in documented()}
    assert takes["residency.hot_tokens"] == (
        'a residency.policy with hot caches, such as "hisparse"')
    assert takes["speculation(dflash2).block_light"] == "block 0"
    assert takes["residency(adaptive).landing_writes_later"] == (
        "a backup_below_fraction below 1; a landing_fraction above 0")
    assert takes["workload(closed).concurrency"] == ""
    assert "takes block 0" in " ".join(succeeds("list", "speculation", "-v").split())


def a_setting_goes_with_what_it_was_given_to(folder):
    del folder
    sentence = refuses(2, "run", *sets("residency.refill_gb_per_s=1", "residency=hisparse"))
    assert 'was given to policy "adaptive"' in sentence and "give it after" in sentence, sentence
    sentence = refuses(2, "run", *sets("workload.lengths.input.tokens=9",
                                       "workload.arrival=sessions"))
    assert "--set workload.lengths.input.tokens" in sentence, sentence


# What does not go together, where it was given, and what the sentence says.
CROSSED = (
    (("residency=resident",), "scenarios/glm-5.3-100k.json#/cluster/import/law",
     'holds constants for hisparse, adaptive only; law "rate" takes any policy '
     "(cluster.import.law=rate)"),
    (("cluster.import.law=paper", "residency=resident"), "--set cluster.import.law", "law \"rate\""),
    (("residency=resident", "cluster.import.law=rate"), "scenarios/glm-5.3-100k.json#/timing/model",
     'model "roofline" takes any (timing.model=roofline)'),
    (("cluster.decode.tp=2", "cluster.decode.dp=2"), "scenarios/glm-5.3-100k.json#/timing/model",
     "ranks of one GPU each"),
    (("workload.arrival=open", "workload.rate=1", "run.duration_s=0"), "--set run.duration_s",
     "has no end of its own"),
    (("workload.arrival=sessions", "workload.turns=3", "workload.shared_prefix_tokens=999999"),
     "--set workload.shared_prefix_tokens", "does not fit a first prompt"),
    (("speculation=dflash2", "speculation.block=12"), "--set speculation.block", "at most 8"),
    (("speculation=eagle-tree", "speculation.branching=[9, 9]", "timing=roofline",
      "cluster.import.law=rate"), "--set speculation.branching", "91 queries"),
    (("speculation=dflash2", "workload.task=cooking"), "--set workload.task",
     "there are: default"),
    (("residency.refill_gb_per_s=-5",), "--set residency.refill_gb_per_s",
     "-5 is out of range, expected 0 to 1000"),
    (("run.interval_s=0.001", "run.duration_s=10000000"), "--set run.duration_s",
     "a longer run.interval_s, or a shorter run, is expected"),
    (("run.duration_s=10000000", "run.interval_s=0.001"), "--set run.interval_s",
     "a longer run.interval_s, or a shorter run, is expected"),
    (('slo={"classes":[{"name":"a","share":0.4},{"name":"b","share":0.4}]}',), "--set slo.classes",
     "sum to 0.8"),
    (('slo={"classes":[{"name":"a"}]}',), "--set slo.classes.0.share", "share is missing"),
    (("selection.f0=0.9",), "--set selection.f0", "shares of one variance"),
    (("selection.sink_rows=2048",), "--set selection.sink_rows", "fewer are expected"),
    (("selection.memory_mib=1", "workload.lengths.input.tokens=100000", "selection.tapes=64"),
     "--set selection.tapes", "fewer tapes"),
    (('cluster.decode.pools={"index_gib":1}',), "--set cluster.decode.pools.index_gib",
     "a pool is missing"),
    (("cluster.decode.tp=3",), "--set cluster.decode.tp", "are not tp 3"),
    (("run.duration_s=0", "workload.requests=0"), "--set workload.requests", "no end of its own"),
    (("workload.arrival=trace",), "--set workload.arrival", "path is missing"),
    (("workload.trace.path=none.csv",), "--set workload.trace.path", "no such file"),
    (("workload.trace.format=foo",), "--set workload.trace.format", "| csv | jsonl)"),
    (("workload.arrival=phases", 'workload.phases=[{"concurrency":4,"seconds":0}]'),
     "--set workload.phases.0", "are no length of a phase"),
    (("workload.arrival=phases", "workload.phases=[]"), "--set workload.phases",
     "an empty list; one element at least is needed"),
    (("run.duration_s=0", "workload.arrival=phases",
      'workload.phases=[{"concurrency":4,"seconds":1e9}]'),
     "--set workload.phases", "a longer run.interval_s"),
    (("cluster.prefill.mode=separate", "cluster.prefill.gpus=1", "cluster.prefill.tokens_per_s=1",
      "cluster.prefill.context_half_tokens=0.001"), "--set cluster.prefill.tokens_per_s",
     "past the end of time"),
    (("fidelity",), "--set", "has no '='"),
    (('workload.classes=[{"name":"a","share":0.4,"lengths":{}}]',), "--set workload.classes",
     "sum to 0.4"),
    (('workload.classes=[{"name":"a","share":1}]',), "--set workload.classes.0.lengths",
     "lengths is missing"),
    (('workload.classes=[{"name":"a","share":0.5,"lengths":{}},'
      '{"name":"a","share":0.5,"lengths":{}}]',), "--set workload.classes", 'are called "a"'),
    (('workload.classes=[{"name":"a","share":1,"lengths":{},"slo_class":"x"}]',),
     "--set workload.classes.0.slo_class", "there are: none"),
    (("speculation=dflash2",
      'workload.classes=[{"name":"a","share":1,"lengths":{},"task":"cooking"}]'),
     "--set workload.classes.0.task", "no such task"),
    (('workload.classes=[{"name":"a","share":1,"lengths":{"input":{"tokens":2e6}}}]',),
     "--set workload.classes.0.lengths.input.tokens", "prompt and answer together"),
    (('workload.classes=[{"name":"a","share":-1,"lengths":{}}]',),
     "--set workload.classes.0.share", "-1 is out of range"),
    (("workload.arrival=sessions", 'workload.classes=[{"name":"a","share":1,"lengths":{}}]'),
     "--set workload.classes", "bring their own lengths"),
    (("cluster.decode.usd_per_gpu_hour=-1",), "--set cluster.decode.usd_per_gpu_hour",
     "-1 is out of range"),
    (("cluster.decode.idle_watts_per_gpu=300", "cluster.decode.busy_watts_per_gpu=200"),
     "--set cluster.decode.busy_watts_per_gpu", "no less busy than idle"),
    (("cluster.decode.busy_watts_per_gpu=200",),
     "scenarios/quickstart.json#/cluster/decode/idle_watts_per_gpu", "is missing"),
    (("cluster.decode.usd_per_gpu_hour=2", "cluster.prefill.mode=separate",
      "cluster.prefill.tokens_per_s=9000"),
     "scenarios/quickstart.json#/cluster/prefill/usd_per_gpu_hour", "have a price"),
    (("cluster.pue=0.9",), "--set cluster.pue", "expected 1 to 100"),
    (("cluster.prefill.mode=separate", "cluster.prefill.tokens_per_s=roofline",
      "cluster.prefill.hardware=h200", "cluster.prefill.gpus=4", "cluster.prefill.tp=4"),
     "--set cluster.prefill.tp", "do not fit the prefill pool"),
    (("cluster.prefill.mode=separate", "cluster.prefill.tokens_per_s=9000",
      "cluster.prefill.gpus=4", "cluster.prefill.tp=3"), "--set cluster.prefill.tp",
     "a multiple of tp is expected"),
)


def what_does_not_go_together_is_refused_where_it_was_given(folder):
    del folder
    for given, place, words in CROSSED:
        sentence = refuses(2, "run", "quickstart", *sets(*given))
        assert sentence.startswith("kvtide: %s: " % place) and words in sentence, (given, sentence)


def a_drafter_drafts_for_the_models_it_was_made_for(folder):
    """Whatever a scenario changes in them."""
    del folder
    flash = ("speculation=dflash2", "timing=roofline", "cluster.import.law=rate")
    sentence = refuses(2, "run", *sets(*flash, "model=glm-5"))
    assert ('drafter "glm-5.3-dflash2" was made for glm-5.3, not for model "glm-5"' in sentence
            and "kvtide list drafters -v" in sentence), sentence
    sentence = refuses(2, "size", "deepseek-v4.1-flash-500k", *sets("speculation=mtp"))
    assert sentence.startswith("kvtide: --set speculation: "), sentence
    sentence = refuses(2, "size", "quickstart", *sets(*flash, "model=glm-5"))
    assert sentence.startswith("kvtide: --set model: "), sentence
    succeeds("size", "quickstart", *sets(*flash, 'model={"name": "mine", "top_k": 1024}'))
    eagle = json.loads(succeeds("check", "quickstart", "--print", "--json",
                                *sets("speculation=eagle", *flash[1:])))
    assert eagle["scenario"]["speculation"]["drafter"] == "glm-5.3-eagle", eagle


def an_older_layer_is_not_blamed_for_a_newer_one(folder):
    """Who extends a scenario need not know what it says of the policy that is changed."""
    (folder / "base.json").write_text(json.dumps(changed(support.TINY, HISPARSE)))
    newer = {"schema": "kvtide/scenario/1", "extends": "./base.json",
             "residency": {"policy": "resident"}}
    (folder / "newer.json").write_text(json.dumps(newer))
    succeeds("run", "newer.json", "--quiet", cwd=folder)
    newer["residency"]["hot_tokens"] = 2048
    (folder / "newer.json").write_text(json.dumps(newer))
    sentence = refuses(2, "run", "newer.json", cwd=folder)
    assert "newer.json#/residency/hot_tokens: hot_tokens has no effect" in sentence, sentence


def a_comparison_has_settings_that_matter_to_one_side(folder):
    path = support.tiny(folder)
    resident = path + ",residency=resident"
    succeeds("compare", resident, path, "--set", "residency.hot_tokens=1024", "--quiet")
    sentence = refuses(2, "compare", resident, resident, "--set", "residency.hot_tokens=1024")
    assert sentence.startswith("kvtide: --set residency.hot_tokens"), sentence
    sentence = refuses(2, "compare", path, resident + ",residency.hot_tokens=1024")
    assert sentence.startswith("kvtide: --set residency.hot_tokens"), sentence


def what_has_no_effect_is_not_in_force(folder):
    """Neither in `check --print` nor in a result, which is a scenario that runs again."""
    path = support.tiny(folder)
    printed = succeeds("check", path, "--print", "--set", "residency=resident")
    for word in ("hot_tokens", "sample_stores", "selection.", "backup_gb_per_s"):
        assert word not in printed, printed
    succeeds("run", path, "--set", "residency=resident", "--quiet", "--out", "out", cwd=folder)
    again = json.loads(succeeds("run", "out/result.json", "--json", "--quiet", cwd=folder))
    first = json.loads((folder / "out/result.json").read_text(encoding="utf-8"))
    assert again["metrics"] == first["metrics"]


def every_documented_key_is_proved(folder):
    """By a row of its own, by its members', or as refused."""
    keys = documented()
    paths = [key["path"] for key in keys]
    unproved = [key["path"] for key in keys
                if key["path"] not in TABLE and "refused" not in key
                and not any(path.startswith((key["path"] + ".", key["path"] + "("))
                            for path in paths if path in TABLE)]
    assert not unproved, "no row in TABLE: " + ", ".join(unproved)
    strangers = sorted(set(TABLE) - set(paths))
    assert not strangers, "not documented: " + ", ".join(strangers)


CASES = (
    every_documented_key_is_proved,
    refused_keys_are_refused,
    keys_without_effect_are_refused_with_what_gives_it_back,
    what_a_key_takes_is_listed,
    a_setting_goes_with_what_it_was_given_to,
    what_does_not_go_together_is_refused_where_it_was_given,
    a_drafter_drafts_for_the_models_it_was_made_for,
    an_older_layer_is_not_blamed_for_a_newer_one,
    a_comparison_has_settings_that_matter_to_one_side,
    what_has_no_effect_is_not_in_force,
    every_key_takes_effect_or_is_refused,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
