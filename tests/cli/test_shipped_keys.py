"""Every key that a shipped scenario has in force takes effect there, is refused, or is excused here.

Each key of each scenario, cut down to a tiny run, is changed to another legal value. Where neither
metrics nor decisions change, the key must be in EXCUSED with a reason that a user would accept.
That each key takes effect somewhere is proved by test_keys.py; this is about the scenarios that
people start from, and about the plug-ins they put into them.
"""
import concurrent.futures
import json
import re
import sys

import support
from support import kvtide, refuses, succeeds

TAPE = {"selection": {"tapes": 1, "steps": 64}}
LENGTHS = {"input": {"tokens": 8192}, "output": {"mean_tokens": 24}}
CLOSED = {"concurrency": 40, "requests": 64, "lengths": LENGTHS}
CROWDED = {"pools": {"unified_gib": 1.6}, "growth_reserve_gib": 0.1}
ROOMY = {"pools": {"unified_gib": 2.2}, "growth_reserve_gib": 0.1}
DATA_SHEET = {"timing": {"model": "roofline"}}

# What it starts from, what makes a tiny run of it, memory short and links busy, and, where it is
# another one but for some keys, how those begin.
SCENARIOS = {
    "glm-5.3-100k": ("glm-5.3-100k", {
        **TAPE, "workload": CLOSED,
        "cluster": {"decode": CROWDED, "import": {"adaptive_mean_s": 0.05}}}),
    "load-step": ("load-step", {
        **TAPE, "cluster": {"decode": CROWDED, "import": {"adaptive_mean_s": 0.02}},
        "workload": {"lengths": LENGTHS, "phases": [{"concurrency": 4, "seconds": 0.6},
                                                    {"concurrency": 24, "seconds": 0.6}]}},
        ("workload.", "run.")),
    "rank-loss": ("rank-loss", {
        **TAPE, "cluster": {"decode": CROWDED, "faults": [
            {"kind": "rank", "which": 2, "at_s": 2, "back_after_s": 1, "group": "goes_on"}]},
        "workload": CLOSED, "run": {"duration_s": 6}},
        ("cluster.", "workload.")),
    "deepseek-v4.1-flash-500k": ("deepseek-v4.1-flash-500k", {
        **TAPE, "residency": {"hot_tokens": 2048},
        "workload": {**CLOSED, "concurrency": 16, "requests": 24},
        "cluster": {"decode": {"pools": {"unified_gib": 0.58}, "growth_reserve_gib": 0.004}}}),
    "vllm-calculator": ("vllm-calculator", {
        **TAPE, "workload": {**CLOSED, "concurrency": 12, "requests": 20},
        "cluster": {"decode": {"pools": {"unified_gib": 1.6}}}}),
    "agentic-74k": ("agentic-74k", {
        **TAPE, "cluster": {"decode": {"pools": {"unified_gib": 1.6}},
                            "prefill": {"chunk_tokens": 8192}},
        "workload": {"concurrency": 6, "conversations": 12, "turns": 3, "new_tokens": [6000, 500],
                     "output_tokens": 20}}),
    "prefetch-100k": ("prefetch-100k", {
        **TAPE, "workload": CLOSED, "residency": {"hot_tokens": 4096},
        "cluster": {"decode": CROWDED}}, ("residency.", "timing.")),
    "readkv-100k": ("readkv-100k", {
        **TAPE, "workload": CLOSED, "residency": {"hot_tokens": 4096},
        "cluster": {"decode": CROWDED}}, ("residency.", "selection.", "run.")),
    "policy-lab": ("policy-lab", {
        **TAPE, "workload": {"concurrency": 24, "requests": 32, "lengths": LENGTHS},
        "cluster": {"decode": {**CROWDED, "pools": {"unified_gib": 1.0}}}}, ("residency.", "timing.")),
    "indexcache-200k": ("indexcache-200k", {
        **TAPE, "workload": {"concurrency": 4, "requests": 6, "lengths": {
            "input": {"tokens": 8192}, "output": {"tokens": 24}}}}, ("residency.", "replacement.", "timing.")),
    "spin-blocks": ("spin-blocks", {
        **TAPE, "residency": {"hot_tokens": 4096}, "replacement": {"buckets": 4, "bucket_calls": 2},
        "workload": {"concurrency": 4, "requests": 6, "lengths": {
            "input": {"tokens": 16384}, "output": {"tokens": 40}}}}, ("residency.", "replacement.", "timing.")),
    "shadowkv-122k": ("shadowkv-122k", {
        **TAPE, "workload": {"concurrency": 4, "requests": 6, "lengths": {
            "input": {"tokens": 8192}, "output": {"tokens": 24}}}}, ("residency.", "timing.")),
    "triforce-122k": ("triforce-122k", {
        "workload": {"requests": 2, "lengths": {
            "input": {"tokens": 8192}, "output": {"tokens": 24}}}}, ("speculation.", "timing.")),
    "magicdec-32k": ("magicdec-32k", {
        "workload": {"concurrency": 4, "requests": 6, "lengths": {
            "input": {"tokens": 8192}, "output": {"tokens": 24}}}}, ("speculation.", "workload.", "timing.")),
    "strata-sessions": ("strata-sessions", {
        "cluster": {"scheduling": {"load_compute_ratio": 10},
                    "decode": {"pools": {"unified_gib": 12}}},
        "run": {"warmup": {"value": 150}, "duration_s": 120}}),
    "pulse-100k": ("pulse-100k", {
        **TAPE, "workload": CLOSED, "cluster": {"decode": CROWDED}},
        ("cluster.", "residency.")),
    "moira-100k": ("moira-100k", {
        "workload": {**CLOSED, "requests": 8, "concurrency": 8, "lengths": {
            "input": {"tokens": 8192}, "output": {"tokens": 8}}},
        "cluster": {"decode": CROWDED}},
        ("selection.", "residency.")),
    # With plug-ins that no shipped scenario names.
    "hisparse": ("glm-5.3-100k", {
        **TAPE, "workload": CLOSED, "residency": {"policy": "hisparse"},
        "cluster": {"decode": CROWDED, "import": {"hisparse_mean_s": 0.05}}},
        ("residency.", "cluster.import.", "timing.")),
    "resident": ("deepseek-v4.1-flash-500k", {
        "residency": {"policy": "resident"},
        "workload": {**CLOSED, "concurrency": 16, "requests": 24},
        "cluster": {"decode": {"pools": {"unified_gib": 3}}}},
        ("residency.", "speculation.", "timing.", "run.")),
    "mtp": ("glm-5.3-100k", {
        **TAPE, **DATA_SHEET, "workload": CLOSED, "speculation": {"method": "mtp"},
        "cluster": {"decode": ROOMY, "import": {"law": "rate"}}},
        ("speculation.", "timing.")),
    "medusa": ("glm-5.3-100k", {
        **TAPE, **DATA_SHEET, "workload": CLOSED, "speculation": {"method": "medusa"},
        "residency": {"policy": "sglang-demote"},
        "cluster": {"decode": ROOMY, "import": {"law": "rate"}}},
        ("residency.", "speculation.", "timing.")),
}

MACHINE = "what the machine is, whatever this run needs of it"
NOT_SHORT = "memory is not so short in so small a run"
NOT_BINDING = "not what binds a step at this load"
ONE_REPLICA = "with one replica there is nobody to choose from, or to wait for"
ONE_GPU = "one GPU exchanges nothing"
NO_INDEXER = "a dense model has no indexer"
EXCUSED = {
    "cluster.decode.host_dram_gib_per_node": MACHINE,
    "cluster.decode.host_pool": MACHINE,
    "cluster.decode.gpus_per_node": MACHINE,
    "cluster.decode.dram_gb_per_s_per_node": MACHINE,
    "cluster.decode.index_offload_gib_per_node": MACHINE,
    "cluster.decode.growth_reserve_gib": NOT_SHORT,
    "cluster.decode.dp": "auto is what it is set to",
    "cluster.decode.lockstep": ONE_REPLICA,
    "cluster.router.policy": ONE_REPLICA,
    "cluster.scheduling.policy": "prompts of one length, and none found: sjf is fcfs",
    "cluster.scheduling.delay_hit_tokens": "one begins as another over a whole document, or not",
    "cluster.scheduling.passes_max": "nobody is passed by so often",
    "cluster.import.staging": "a part of a transfer's start, below a step",
    "residency.landing_fraction": NOT_SHORT,
    "residency.optional_capacity_fraction": NOT_SHORT,
    "residency.release_order": "pages of a flat law are alike; under skewed they are not",
    "residency.watermark_fraction": NOT_SHORT,
    "residency.backup_pages": NOT_SHORT,
    "speculation.promotion": "no round overflows its hot cache",
    "seed": "with a trace, and everything in HBM, nothing is drawn",
    "replacement.policy": "without hot caches there is nothing to give up",
    "selection.selector_share": "its stores have one selector each",
    "selection.sink_rows": "-1 is what the preset has, which is 0",
    "selection.memory_mib": "a limit, met before and after",
    "timing.flops_efficiency": NOT_BINDING,
    "timing.attention_efficiency": NOT_BINDING,
    "timing.dense_math": NOT_BINDING,
    "timing.collective_us": ONE_GPU,
    "timing.interconnect_efficiency": ONE_GPU,
    "timing.topk_launch_us": NO_INDEXER,
    "timing.topk_passes": NO_INDEXER,
    "timing.index_query_share": NO_INDEXER,
    "timing.attention_math": NOT_BINDING,
    "timing.dram_efficiency": NOT_BINDING,
    "timing.fetch_order": NOT_BINDING,
    "timing.graph_step_tokens": NOT_BINDING,
    "timing.graph_largest_tokens": "no step is larger than the largest graph",
    "timing.eager_layer_us": "no step is larger than the largest graph",
    "workload.format": "auto finds the same",
    "workload.rate_scale": "every row of the trace is due at 0, or behind the one before",
    "workload.shared_prefix_tokens": "one token is no page",
    "run.duration_s": "later than the last request",
    "run.interval_s": "shows in the timeline",
    "run.fidelity": "without hot caches counts are exact at any level",
}


def documented():
    return {key["path"]: key for key in json.loads(succeeds("list", "keys", "--json"))["keys"]}


def key_at(keys, tree, path):
    """What is documented of a dotted path of a scenario; None for parts of a list."""
    if path in keys:
        return keys[path]
    *outer, name = path.split(".")
    node = tree
    for part in outer:
        node = node[int(part)] if isinstance(node, list) else node[part]
    for names in ("policy", "law", "model", "method", "arrival"):
        if isinstance(node, dict) and names in node:
            return keys.get("%s(%s).%s" % (".".join(outer), node[names], name))
    return None


def other_value(key, value):
    """Another one that the key's documentation allows; None: a name, a list, or the only one."""
    allowed = key.get("range", "")
    if key["type"] == "bool":
        return not value
    if key["type"] == "choice":
        others = [choice.strip() for choice in allowed.split("|")]
        return next((choice for choice in others if choice != value), None)
    limits = re.match(r"(\S+) to ([0-9.e+-]+)", allowed)
    if key["type"] not in ("count", "real") or limits is None:
        return None
    least, most = float(limits.group(1)), float(limits.group(2))
    number = value if isinstance(value, (int, float)) else 0
    is_count = key["type"] == "count"
    for choice in (0.5 if number < 0 else 2 * number if is_count else 0.9 * number, number // 2, 1,
                   least, most):
        choice = int(choice) if is_count else choice
        if least <= choice <= most and choice != number:
            return choice
    return None


def figures(path, *arguments):
    """(status, what a run decides and measures)."""
    done = kvtide("run", path, "--quiet", "--json", *arguments)
    if done.returncode != 0:
        return done.returncode, done.stderr
    result = json.loads(done.stdout)
    for phase in result.get("phases") or []:
        phase.pop("explain", None)  # says what the machine could do, too
    return 0, (result["metrics"], result.get("phases"), result["decision_hash"])


def idle_keys(folder, keys, name):
    """Keys of which another value is accepted and changes nothing; how many were changed."""
    base, changes, *only = SCENARIOS[name]
    path = folder / (name + ".json")
    path.write_text(json.dumps({"schema": "kvtide/scenario/1", "extends": base, **changes}),
                    encoding="utf-8")
    status, before = figures(path)
    assert status == 0, (name, before)
    in_force = json.loads(succeeds("check", path, "--print", "--json"))
    settings = {}
    for key in in_force["origins"]:
        if only and not key.startswith(only[0]) or key.startswith(("model.", "hardware.")):
            continue  # what a scenario changes of a file is the file's, not keys of the guide
        node = in_force["scenario"]
        for part in key.split("."):
            node = node[int(part)] if isinstance(node, list) else node[part]
        known = key_at(keys, in_force["scenario"], key)
        value = other_value(known, node) if known else None
        if value is not None:
            settings[key] = value if isinstance(value, str) else json.dumps(value)

    def is_idle(key):
        status, after = figures(path, "--set", "%s=%s" % (key, settings[key]))
        assert status in (0, 2, 3), (name, key, settings[key], after)
        return status == 0 and after == before

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [key for key, idle in zip(settings, pool.map(is_idle, settings)) if idle], settings


def every_key_in_force_takes_effect_or_is_excused(folder):
    keys = documented()
    excused, faults = set(), []
    for name in SCENARIOS:
        idle, settings = idle_keys(folder, keys, name)
        assert len(settings) > 9, (name, len(settings))
        excused |= set(idle)
        faults += ["%s: %s=%s" % (name, key, settings[key]) for key in idle if key not in EXCUSED]
    assert not faults, "nothing changes:\n  " + "\n  ".join(faults)
    needless = sorted(set(EXCUSED) - excused)
    assert not needless, "excused, though they take effect: " + ", ".join(needless)


def every_shipped_scenario_is_among_them(folder):
    """By itself, or by all that it changes in one of them."""
    del folder
    bases = {base for base, *_ in SCENARIOS.values()}
    for scenario in json.loads(succeeds("list", "scenarios", "--json"))["scenarios"]:
        name = scenario["name"]
        text = (support.TOP / "workloads/scenarios" / (name + ".json")).read_text(encoding="utf-8")
        assert name in bases or json.loads(text).get("extends") in bases, name


def policies_without_hot_caches_are_those_that_say_so(folder):
    """The keys that need one know all such policies by name."""
    for policy in json.loads(succeeds("list", "policies", "--json"))["policies"]:
        if policy["kind"] != "residency":
            continue
        path = support.tiny(folder, changes={"residency": {"policy": policy["name"]},
                                             "selection": None})
        given = ("--set", "residency.hot_tokens=1024")
        size = json.loads(succeeds("size", path, "--json"))
        if size["session_hbm_by_class"]["hot"] == 0:
            assert "hot_tokens has no effect" in refuses(2, "run", path, *given), policy["name"]
        else:
            succeeds("check", path, "--print", *given)


CASES = (
    every_shipped_scenario_is_among_them,
    policies_without_hot_caches_are_those_that_say_so,
    every_key_in_force_takes_effect_or_is_excused,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
