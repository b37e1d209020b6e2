"""kvtide explain: sums that hold, what binds and what would relax it, loads that change.

What a scenario has by construction is what must bind; and what a change is said to be worth is set
beside a run in which it was made. Transitions are worked out again here, from the tables alone.
"""
import copy
import csv
import json
import math
import os
import sys

import support
from support import changed, kvtide, refuses, succeeds, tiny

PHASES = [{"concurrency": 4, "seconds": 0.6}, {"concurrency": 24, "seconds": 0.6},
          {"concurrency": 4, "seconds": 1.2}]
STEPS = {"workload.requests": None, "workload.concurrency": None, "workload.arrival": "phases",
         "workload.phases": PHASES, "run.interval_s": 0.01,
         "slo.classes": [{"name": "strict", "share": 0.5, "ttft_ms": 20, "tpot_ms": 6, "attain": 0.9},
                         {"name": "any", "share": 0.5, "ttft_ms": 100000}]}
MANY = {"run.fidelity": "exact", "workload.requests": 48, "workload.concurrency": 24,
        "workload.lengths.output.mean_tokens": 80}
WIDE = {**MANY, "cluster.decode.pools": {"unified_gib": 0.04}}
SHORT_HOST = {**WIDE, "cluster.decode.host_dram_gib_per_node": 0.05}
# A link so slow that fetches are most of a step.
SLOW = {**WIDE, "residency": {"policy": "hisparse", "hot_tokens": 2048},
        "hardware": {"base": "b300", "link_h2d_bytes_per_s": 20000000}}


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ran(folder, changes, name="run"):
    """A run of the small scenario in a folder of its own; its result."""
    path = tiny(folder, name + ".json", changes)
    succeeds("run", path, "--quiet", "--out", folder / name)
    return read(folder / name / "result.json")


def worth(result, change):
    return next(item for item in result["explain"]["worth"] if item["change"] == change)


def near(a, b, relative=1e-9):
    return abs(a - b) <= relative * max(abs(a), abs(b)) + 1e-12


def sums_hold(tree, metrics):
    for latency, metric in (("tpot", "mean_tpot_ms"), ("ttft", "mean_ttft_ms")):
        assert near(tree[latency]["ms"], metrics[metric])
        assert near(sum(tree[latency]["parts_ms"].values()), tree[latency]["ms"]), tree[latency]
        assert min(tree[latency]["parts_ms"].values()) > -1e-9, tree[latency]
    assert near(sum(tree["step"]["parts_ms"].values()), metrics["mean_step_ms"])
    into, out = tree["bytes"]["link_in"], tree["bytes"]["link_out"]
    assert into["misses_bytes"] == metrics["h2d_wire_bytes"]
    assert into["fills_bytes"] == metrics["fill_bytes"]
    assert into["recalls_bytes"] == metrics["recall_bytes"]
    assert out["backups_bytes"] == out["bytes"] == metrics["d2h_bytes"]
    dram = tree["bytes"]["dram"]
    assert into["imports_bytes"] + dram["imports_bytes"] == metrics["import_bytes"]
    assert near(into["bytes"], sum(value for name, value in into.items()
                                   if name.endswith("_bytes")))
    assert near(dram["bytes"], into["bytes"] + out["bytes"] + dram["imports_bytes"])
    assert near(into["bytes_per_s"], into["bytes"] / metrics["duration"], 1e-6)
    assert near(into["utilisation"], into["bytes_per_s"] / into["capacity_bytes_per_s"])
    assert near(sum(tree["bytes"]["hbm_peak_by_class"].values()), metrics["hbm_kv_peak_bytes"])
    rows = tree["rows"]
    assert near(rows["tail"] + rows["optional"] + rows["hot"] + rows["missed"], 1)
    assert near(rows["missed"], metrics["host_fetch_share"])


def parts_sum_to_their_whole_at_every_fidelity(folder):
    long_answers = {"workload.lengths.output.mean_tokens": 300, "workload.requests": 200}
    for fidelity in ("exact", "sampled", "analytic"):
        interval = {"run.interval_s": None} if fidelity == "analytic" else {}
        result = ran(folder, {**long_answers, **interval, "run.fidelity": fidelity}, fidelity)
        sums_hold(result["explain"], result["metrics"])
        by = "steps" if fidelity == "analytic" else "requests"
        assert result["explain"]["tpot"]["by"] == by
        succeeds("explain", folder / fidelity / "result.json")


def parts_sum_where_requests_are_put_aside_or_prefilled(folder):
    tight = {**MANY, "cluster.decode.pools": {"unified_gib": 0.016},
             "workload.lengths.output.mean_tokens": 3000, "workload.requests": 24,
             "cluster.decode.growth_reserve_gib": 0.0001}
    result = ran(folder, tight, "tight")
    assert result["metrics"]["preemptions"] > 0
    sums_hold(result["explain"], result["metrics"])
    assert result["explain"]["tpot"]["parts_ms"]["beside_steps"] > 0
    here = ran(folder, {**MANY, "cluster.import": None,
                        "cluster.prefill": {"mode": "colocated", "tokens_per_s": 100000}}, "here")
    sums_hold(here["explain"], here["metrics"])
    assert here["explain"]["ttft"]["parts_ms"]["prefill"] > 0
    apart = ran(folder, {**MANY, "cluster.prefill": {"mode": "separate", "gpus": 1,
                                                     "tokens_per_s": 100000}}, "apart")
    sums_hold(apart["explain"], apart["metrics"])
    # One server, 4,096 tokens each: 41 ms a prompt, whoever waits.
    assert near(apart["explain"]["ttft"]["parts_ms"]["prefill"], 40.96, 1e-6)


def what_is_waited_for_agrees_with_requests_csv(folder):
    result = ran(folder, MANY)
    rows = rows_of(folder / "run/requests.csv")
    parts = result["explain"]["ttft"]["parts_ms"]
    queue = [int(r["admitted_ns"]) - int(r["arrival_ns"]) for r in rows]
    after = [int(r["first_token_ns"]) - int(r["admitted_ns"]) for r in rows]
    assert near(parts["queue"], sum(queue) / len(rows) / 1e6)
    assert near(parts["import_queue"] + parts["import"], sum(after) / len(rows) / 1e6)


def phases_and_the_whole_agree(folder):
    result = ran(folder, STEPS)
    assert len(result["phases"]) == 3
    for phase in result["phases"]:
        sums_hold(phase["explain"], phase["metrics"])
    for kind in ("misses", "fills", "imports"):
        whole = result["explain"]["bytes"]["link_in"][kind + "_bytes"]
        each = sum(p["explain"]["bytes"]["link_in"][kind + "_bytes"] for p in result["phases"])
        assert abs(whole - each) <= 3, kind


def binds(folder, name, changes, now):
    result = ran(folder, changes, name)
    assert result["explain"]["batch"]["now"] == now, (name, result["explain"]["batch"])
    return result


def output(result):
    return result["metrics"]["output_throughput"]


def each_thing_binds_where_it_must_and_not_once_it_is_relaxed(folder):
    load = binds(folder, "load", {**MANY, "workload.concurrency": 2}, "load")
    more = binds(folder, "more", {**MANY, "workload.concurrency": 4}, "load")
    assert output(more) > 1.2 * output(load)

    hbm = binds(folder, "hbm", MANY, "hbm")
    wide = binds(folder, "wide", WIDE, "load")
    assert output(wide) > 1.05 * output(hbm)

    two = {**MANY, "cluster.decode.pools": {"index_gib": 0.001, "rows_gib": 0.1}}
    index = binds(folder, "index", two, "index_pool")
    both = binds(folder, "both", changed_pools(two, 0.1, 0.1), "load")
    assert output(both) > 1.05 * output(index)
    rows = binds(folder, "rows", changed_pools(two, 0.1, 0.012), "row_pool")
    assert output(both) > 1.05 * output(rows)

    host = binds(folder, "host", SHORT_HOST, "host_dram")
    assert output(wide) > 1.05 * output(host)

    slow = {**WIDE, "cluster.import": {"law": "rate", "rate": 0.02}}
    importing = binds(folder, "import", slow, "import")
    assert output(wide) > 1.2 * output(importing)

    prefill = {**WIDE, "cluster.prefill": {"mode": "separate", "gpus": 1, "tokens_per_s": 100000}}
    behind = binds(folder, "prefill", prefill, "prefill")
    ahead = ran(folder, {**prefill, "cluster.prefill": {"mode": "separate", "gpus": 4,
                                                        "tokens_per_s": 100000}}, "prefills")
    assert output(ahead) > 1.2 * output(behind)

    none = tiny(folder, "none.json", {"workload.lengths.input.tokens": 400000})
    kvtide("run", none, "--quiet", "--out", folder / "none")
    assert read(folder / "none/result.json")["explain"]["batch"]["now"] == "memory"


def changed_pools(changes, index_gib, rows_gib):
    return {**changes, "cluster.decode.pools": {"index_gib": index_gib, "rows_gib": rows_gib}}


def what_would_bind_next_does(folder):
    """Host DRAM is short for 18 and HBM for 38: with as much DRAM as one likes, HBM is next."""
    host = binds(folder, "host", SHORT_HOST, "host_dram")
    assert host["explain"]["batch"]["next"] == "hbm"
    times = host["explain"]["batch"]["next_at_times"]
    crowd = {**WIDE, "workload.concurrency": math.ceil(24 * times * 1.5), "workload.requests": 200}
    binds(folder, "crowd", crowd, "hbm")


def links_bind_steps(folder):
    slow = ran(folder, SLOW, "slow")
    parts = slow["explain"]["step"]["parts_ms"]
    assert max(parts, key=parts.get) == "fetch", parts
    said = succeeds("explain", folder / "slow/result.json")
    assert "\nin a step  fetch, then dense" in said, said


def a_faster_link_is_worth_what_it_brings(folder):
    slow = ran(folder, SLOW, "slow")
    faster = ran(folder, {**SLOW, "hardware": {"base": "b300", "link_h2d_bytes_per_s": 22000000}},
                 "faster")
    told = worth(slow, "link_10_percent")
    gain = faster["metrics"]["mean_tpot_ms"] - slow["metrics"]["mean_tpot_ms"]
    assert told["tpot_change"] < -0.02 and gain < 0
    assert 0.7 < (told["tpot_ms"] - slow["metrics"]["mean_tpot_ms"]) / gain < 1.4, (told, gain)
    assert 0.5 < (told["output_tokens_per_s"] - output(slow)) / (output(faster) - output(slow)) < 2


def a_link_that_is_not_waited_for_is_worth_nothing(folder):
    """Where a copy's floor is all that a fetch takes, no rate shortens it."""
    quick = {**WIDE, "hardware": {"base": "b300", "link_latency_ns": 1000000},
             "residency": {"policy": "hisparse", "hot_tokens": 2048}}
    result = ran(folder, quick)
    assert result["explain"]["step"]["parts_ms"]["fetch"] > 1
    assert abs(worth(result, "link_10_percent")["tpot_change"]) < 1e-6


def one_more_rank_is_worth_what_it_brings(folder):
    for name, changes in (("wide", WIDE), ("full", MANY)):
        now = ran(folder, changes, name)
        three = {"gpus": 3, "tp": 1, "dp": 3, "ep": 3}
        more = ran(folder, {**changes, **{"cluster.decode." + key: value
                                          for key, value in three.items()}}, name + "3")
        told = worth(now, "one_more_rank")
        assert (more["explain"]["batch"]["slots"]
                == now["explain"]["batch"]["slots"] + told["more_slots"])
        gain = output(more) - output(now)
        assert gain > 0 and 0.5 < (told["output_tokens_per_s"] - output(now)) / gain < 2, (
            name, told, output(now), output(more))
        if name == "wide":
            tpot = now["metrics"]["mean_tpot_ms"]
            gain = more["metrics"]["mean_tpot_ms"] - tpot
            assert gain < 0 and 0.5 < (told["tpot_ms"] - tpot) / gain < 2, (told, gain)


def twice_the_dram_and_twice_the_hot_tokens_hold_what_is_said(folder):
    now = ran(folder, SHORT_HOST, "short")
    more = ran(folder, {**WIDE, "cluster.decode.host_dram_gib_per_node": 0.1}, "more")
    told = worth(now, "twice_host_dram")
    assert told["more_slots"] > 0
    assert (more["explain"]["batch"]["slots"]
            == now["explain"]["batch"]["slots"] + told["more_slots"])
    gain = output(more) - output(now)
    assert gain > 0 and 0.5 < (told["output_tokens_per_s"] - output(now)) / gain < 2
    # Of 4,096 rows a cache of 2,048 is twice as large with all of them.
    hot = ran(folder, {**WIDE, "residency.hot_tokens": 4096}, "hot")
    wide = ran(folder, WIDE, "wide")
    told = worth(wide, "twice_hot_tokens")
    assert told["tpot_ms"] is None and told["more_slots"] < 0
    assert (hot["explain"]["batch"]["slots"]
            == wide["explain"]["batch"]["slots"] + told["more_slots"])


# ---- Transitions, from the tables alone ---------------------------------------------------


def seconds(ns):
    return int(ns) / 1e9


def admission_by_hand(rows, at_ns, slots):
    """Of those who came at at_ns: when the last of them was admitted, or the slots were full."""
    burst = [r for r in rows if int(r["arrival_ns"]) == at_ns and r["status"] != "unservable"]
    moments = sorted({int(r["admitted_ns"]) for r in rows
                      if r["admitted_ns"] and int(r["admitted_ns"]) >= at_ns})
    full = next((m for m in moments
                 if sum(1 for r in rows if r["admitted_ns"] and int(r["admitted_ns"]) <= m)
                 - sum(1 for r in rows if r["finished_ns"] and int(r["finished_ns"]) <= m)
                 >= slots), None)
    all_in = (max(int(r["admitted_ns"]) for r in burst)
              if all(r["admitted_ns"] for r in burst) else None)
    ends = [end for end in (full, all_in) if end is not None]
    end = min(ends)
    came_in = [r for r in burst if r["admitted_ns"] and int(r["admitted_ns"]) <= end]
    tokens = max([end] + [int(r["first_token_ns"]) for r in came_in])
    return len(burst), len(came_in), (end - at_ns) / 1e9, (tokens - at_ns) / 1e9


def within(interval, phase):
    return (float(interval["from_s"]) >= phase["from_s"] - 1e-9
            and float(interval["to_s"]) <= phase["to_s"] + 1e-9)


def violated_by_hand(rows, classes, interval_s, from_s, to_s):
    bounds = {c["name"]: c for c in classes}
    total, edge = 0, round(from_s / interval_s)
    while edge * interval_s < to_s - 1e-9:
        low, high = max(edge * interval_s, from_s), min((edge + 1) * interval_s, to_s)
        short = False
        for name, bound in bounds.items():
            here = [r for r in rows if r["slo_class"] == name and r["finished_ns"]
                    and low <= seconds(r["finished_ns"]) < high]
            met = 0
            for r in here:
                ttft = (int(r["first_token_ns"]) - int(r["arrival_ns"])) / 1e6
                tokens = int(r["generated_tokens"])
                tpot = (int(r["last_token_ns"]) - int(r["first_token_ns"])) / 1e6 / (tokens - 1)
                met += (ttft <= bound.get("ttft_ms", math.inf)
                        and tpot <= bound.get("tpot_ms", math.inf))
            short = short or met < bound.get("attain", 0.99) * len(here)
        total += (high - low) if short else 0
        edge += 1
    return total


def transitions_are_what_the_tables_say(folder):
    result = ran(folder, STEPS)
    rows, timeline = rows_of(folder / "run/requests.csv"), rows_of(folder / "run/timeline.csv")
    up, down = result["transitions"]
    phases = result["phases"]
    assert (up["direction"], down["direction"]) == ("up", "down")
    assert (up["from_concurrency"], up["to_concurrency"], up["at_s"]) == (4, 24, 0.6)

    burst, came_in, admission_s, tokens_s = admission_by_hand(rows, 600000000,
                                                              result["explain"]["batch"]["slots"])
    assert (up["burst_requests"], up["burst_admitted"]) == (burst, came_in) and burst == 20
    assert near(up["admission_after_step_s"], admission_s), (up, admission_s)
    assert near(up["first_tokens_after_step_s"], tokens_s), (up, tokens_s)

    released = [float(t["mean_itl_ms"]) for t in timeline
                if within(t, phases[1]) and int(t["pages_released"]) > 0 and t["mean_itl_ms"]]
    assert released and near(up["worst_itl_second_ms"], max(released))

    before = phases[0]["metrics"]["coverage_mean"]
    again = next((float(t["to_s"]) - 1.2 for t in timeline if within(t, phases[2])
                  and t["coverage"] and float(t["coverage"]) >= 0.9 * before), None)
    assert before > 0 and down["coverage_before"] == before
    assert again is not None and near(down["coverage_regain_s"], again), (down, again)
    assert 0.1 < again < 0.5

    classes = STEPS["slo.classes"]
    for step, phase in ((up, phases[1]), (down, phases[2])):
        hand = violated_by_hand(rows, classes, 0.01, phase["from_s"], phase["to_s"])
        assert near(step["slo_violation_s"], hand, 1e-6), (step, hand)
    whole = violated_by_hand(rows, classes, 0.01, 0, result["metrics"]["duration"])
    assert whole > 0 and near(result["metrics"]["slo_violation_s"], whole, 1e-6)

    for phase, step in ((1, up), (2, down)):
        for name in ("admission_after_step_s", "first_tokens_after_step_s", "worst_itl_second_ms",
                     "coverage_regain_s"):
            assert phases[phase]["metrics"][name] == step.get(name), (phase, name)
            if step.get(name) is not None:
                assert result["metrics"][name] == step[name]


def coverage_that_never_comes_back_is_not_a_number(folder):
    short = [PHASES[0], PHASES[1], {"concurrency": 4, "seconds": 0.1}]
    result = ran(folder, {**STEPS, "workload.phases": short})
    down = result["transitions"][1]
    assert down["coverage_before"] > 0 and down["coverage_regain_s"] is None
    assert result["metrics"]["coverage_regain_s"] is None
    # From the top there is nothing to regain, and nothing is released.
    falling = ran(folder, {**STEPS, "workload.phases": PHASES[1:]}, "falling")
    assert falling["transitions"][0]["coverage_before"] is None
    assert falling["metrics"]["admission_after_step_s"] is None


def a_run_of_one_load_has_no_transitions(folder):
    result = ran(folder, {})
    assert "transitions" not in result
    assert result["metrics"]["admission_after_step_s"] is None


# ---- What is printed ----------------------------------------------------------------------


def lines_of(text):
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert not wide, wide
    return text.splitlines()


def the_lines_of_a_run_are_those_of_its_result(folder):
    path = tiny(folder)
    summary = succeeds("run", path, "--quiet", "--out", folder / "run")
    said = succeeds("explain", folder / "run/result.json")
    lines_of(said)
    result = read(folder / "run/result.json")
    tpot = "%.2f" % result["metrics"]["mean_tpot_ms"]
    assert "\nTPOT       %s ms = host 0.2 + dense " % tpot in summary
    assert "\nTPOT       %s ms, mean of 12 requests\n" % tpot in said
    assert result["explain"]["batch"]["says"] in summary.replace("\n           ", " ")
    assert summary[summary.index("\nbasis"):] in said


def blocks_only_where_they_can_be_read(folder):
    ran(folder, STEPS)
    result = folder / "run/result.json"
    plain = dict(os.environ, LC_ALL="C", TERM="xterm")
    wide = dict(os.environ, LC_ALL="C.UTF-8", TERM="xterm")
    in_ascii = succeeds("explain", result, env=plain)
    in_blocks = succeeds("explain", result, env=wide)
    assert in_ascii.isascii() and not in_blocks.isascii()
    for said in (in_ascii, in_blocks):
        assert sum(line.startswith(("active ", "waiting ", "coverage ", "host fetch ", "ITL ",
                                    "output ")) for line in lines_of(said)) == 6, said
    assert succeeds("explain", result, env=dict(wide, TERM="dumb")) == in_ascii
    assert succeeds("explain", result, "--ascii", env=wide) == in_ascii
    bare = succeeds("explain", result, "--no-course", env=plain)
    assert in_ascii.startswith(bare) and "\noutput " not in bare


def sparklines_of_a_run_are_those_of_its_timeline(folder):
    path = tiny(folder, changes=STEPS)
    plain = dict(os.environ, LC_ALL="C")
    beneath = succeeds("run", path, "--quiet", "--sparklines", "--out", folder / "run", env=plain)
    summary = succeeds("run", path, "--quiet", env=plain)
    assert beneath.startswith(summary)
    assert succeeds("explain", folder / "run/result.json", env=plain).endswith(
        beneath[len(summary):])
    lines_of(beneath)


def json_is_the_tree_itself(folder):
    result = ran(folder, STEPS)
    tree = json.loads(succeeds("explain", folder / "run/result.json", "--json"))
    assert tree.pop("phases") == [phase["explain"] for phase in result["phases"]]
    assert tree.pop("transitions") == result["transitions"]
    assert tree == result["explain"]


def differences_are_shared_out(folder):
    ran(folder, MANY, "a")
    ran(folder, SLOW, "b")
    paths = (folder / "a/result.json", folder / "b/result.json")
    tree = json.loads(succeeds("explain", *paths, "--json"))
    for latency in ("tpot", "ttft", "step"):
        assert near(tree[latency]["ms"]["difference"],
                    sum(part["difference"] for part in tree[latency]["parts_ms"].values()))
    a, b = read(paths[0]), read(paths[1])
    assert near(tree["tpot"]["ms"]["difference"],
                b["metrics"]["mean_tpot_ms"] - a["metrics"]["mean_tpot_ms"])
    assert near(sum(tree["rows"][place]["difference"]
                    for place in ("tail", "optional", "hot", "missed")) + 1, 1)
    lines_of(succeeds("explain", *paths))
    # Rounding is no difference: the host's time of a step is the same in both.
    same = folder / "same.json"
    a["explain"]["tpot"]["parts_ms"] = {name: part * (1 + 2e-16) for name, part in
                                        a["explain"]["tpot"]["parts_ms"].items()}
    same.write_text(json.dumps(a))
    said = succeeds("explain", paths[0], same)
    assert "e-" not in said[said.index("b - a"):], said


# ---- What is refused ----------------------------------------------------------------------


def what_is_no_result_is_refused(folder):
    result = ran(folder, {})
    good = folder / "run/result.json"
    other = folder / "other.json"

    def said_of(text):
        other.write_text(text, encoding="utf-8")
        return refuses(2, "explain", other)

    whole = good.read_text(encoding="utf-8")
    assert "other.json:" in said_of(whole[:len(whole) // 2])
    assert "other.json:" in said_of("")
    assert 'found no "schema"' in said_of("{}")
    assert 'found no "schema"' in said_of("[1, 2]")
    assert 'found schema "kvtide/scenario/1"' in said_of(json.dumps(support.TINY))
    assert 'found schema "kvtide/result/2"' in said_of(
        json.dumps(changed(result, {"schema": "kvtide/result/2"})))
    assert 'found a result without "explain"' in said_of(json.dumps(changed(result, {"explain": None})))
    assert "#/explain/rows: found none" in said_of(
        json.dumps(changed(result, {"explain.rows": None})))
    assert "#/explain/worth: found an object, expected an array" in said_of(
        json.dumps(changed(result, {"explain.worth": {}})))
    refuses(2, "explain", folder / "nowhere.json")
    assert "result.json" in refuses(2, "explain", folder)
    assert succeeds("explain", folder / "run") == succeeds("explain", good)
    assert succeeds("explain", folder / "run", good, "--json") == succeeds("explain", good, good, "--json")
    assert kvtide("explain").returncode == 2
    assert kvtide("explain", good, good, good).returncode == 2


def members_of(tree, path=""):
    """Every member of a tree by its path, lists by their first entry."""
    items = tree.items() if isinstance(tree, dict) else [("0", tree[0])] if tree else []
    for name, value in items:
        yield path + "/" + name, value
        if isinstance(value, (dict, list)):
            yield from members_of(value, path + "/" + name)


def with_member(tree, path, value):
    """A copy with the member at a path replaced; None takes it away."""
    tree = copy.deepcopy(tree)
    *outer, last = path.strip("/").split("/")
    node = tree
    for name in outer:
        node = node[int(name) if isinstance(node, list) else name]
    if value is None:
        del node[last]
    else:
        node[int(last) if isinstance(node, list) else last] = value
    return tree


def a_tree_that_was_changed_is_refused_with_the_path_of_what_is_wrong(folder):
    """Whatever member is missing or of another kind: no wrong part is ever printed."""
    result = ran(folder, STEPS)
    other = folder / "other.json"
    # Parts of nothing may be missing; what is optional, and lists that lack an entry, are no tree's fault.
    blocks = [("/explain", result["explain"]), ("/phases/1/explain", result["phases"][1]["explain"])]
    tried = 0
    for block, tree in blocks:
        for path, value in members_of(tree, block):
            for damage in ("nothing here", None, [1, "a"]):
                if type(damage) is type(value) or (damage is None and (value == 0 or path.endswith("/0"))):
                    continue
                other.write_text(json.dumps(with_member(result, path, damage)), encoding="utf-8")
                for arguments in ((other,), (other, folder / "run")):
                    done = kvtide("explain", *arguments)
                    assert done.returncode == 2 and done.stdout == "", (path, damage, done)
                    assert "other.json#%s" % path in done.stderr or "expected parts" in done.stderr or (
                        "other.json#%s: found parts that sum" % path.rsplit("/", 1)[0] in done.stderr), (path, done.stderr)
                tried += 1
    assert tried > 200, tried
    fewer = with_member(result, "/explain/tpot/parts_ms/dense", None)
    other.write_text(json.dumps(fewer), encoding="utf-8")
    assert "other.json#/explain/tpot/parts_ms: found parts that sum to" in refuses(2, "explain", other)
    text = with_member(result, "/metrics/mean_tpot_ms", "44")
    other.write_text(json.dumps(text), encoding="utf-8")
    assert "other.json#/metrics/mean_tpot_ms: found a text, expected a number" in refuses(2, "explain", other)
    # The page of such a result is none either.
    (folder / "run/result.json").write_text(json.dumps(fewer), encoding="utf-8")
    assert "#/explain/tpot/parts_ms: found parts" in refuses(2, "report", folder / "run")


def what_stands_beside_the_tree_is_checked_too(folder):
    """Members that are printed, or that other parts of a page are made of, whatever is in their place."""
    result = ran(folder, STEPS)
    other = folder / "other.json"
    places = ["/version", "/ending", "/metrics", "/phases", "/phases/1", "/phases/1/phase",
              "/phases/1/metrics", "/phases/1/explain", "/transitions", "/transitions/0",
              "/transitions/0/direction", "/transitions/0/at_s", "/requests", "/requests/arrived",
              "/requests/dropped", "/scenario", "/scenario/name", "/scenario/seed", "/scenario/run",
              "/scenario/run/fidelity", "/scenario/residency", "/scenario/residency/policy",
              "/scenario/timing", "/scenario/timing/model"]
    values = dict(members_of({**result, "phases": result["phases"][1:]}))
    for path in places:
        # Null, and every kind that it is not; a number is what a list was once visited as.
        like = values[path.replace("/phases/1", "/phases/0")]
        kind = (int, float) if isinstance(like, (int, float)) else type(like)
        choice = path in ("/scenario/residency", "/scenario/timing")
        for damage in (5, "text", [], {}, True, json):
            if damage is not True and isinstance(damage, kind) and damage != {}:
                continue
            if choice and damage == "text" or damage == {} and path in ("/metrics", "/phases/1/metrics", "/requests/dropped"):
                continue
            text = json.dumps(with_member(result, path, "DAMAGE"))
            other.write_text(text.replace('"DAMAGE"', "null" if damage is json else json.dumps(damage)),
                             encoding="utf-8")
            for arguments in ((other,), (other, "--json"), (folder / "run", other)):
                sentence = refuses(2, "explain", *arguments)
                assert "other.json#%s" % path in sentence, (path, damage, sentence)
    for path in ("/metrics", "/phases", "/requests", "/scenario", "/version", "/scenario/seed"):
        other.write_text(json.dumps(with_member(result, path, None)), encoding="utf-8")
        assert "other.json#%s: found none" % path in refuses(2, "explain", other), path


def a_timeline_that_is_not_right_is_named(folder):
    ran(folder, {})
    timeline = folder / "run/timeline.csv"
    text = timeline.read_text(encoding="utf-8")
    timeline.write_text(text.replace("mean_itl_ms", "itl"), encoding="utf-8")
    done = kvtide("explain", folder / "run/result.json")
    assert done.returncode == 2 and "found no column mean_itl_ms" in done.stderr
    timeline.write_text(text + "1,2,x\n", encoding="utf-8")
    assert kvtide("explain", folder / "run/result.json").returncode == 2
    timeline.unlink()
    succeeds("explain", folder / "run/result.json")


if __name__ == "__main__":
    sys.exit(support.run_cases([
        parts_sum_to_their_whole_at_every_fidelity,
        parts_sum_where_requests_are_put_aside_or_prefilled,
        what_is_waited_for_agrees_with_requests_csv,
        phases_and_the_whole_agree,
        each_thing_binds_where_it_must_and_not_once_it_is_relaxed,
        what_would_bind_next_does,
        links_bind_steps,
        a_faster_link_is_worth_what_it_brings,
        a_link_that_is_not_waited_for_is_worth_nothing,
        one_more_rank_is_worth_what_it_brings,
        twice_the_dram_and_twice_the_hot_tokens_hold_what_is_said,
        transitions_are_what_the_tables_say,
        coverage_that_never_comes_back_is_not_a_number,
        a_run_of_one_load_has_no_transitions,
        the_lines_of_a_run_are_those_of_its_result,
        blocks_only_where_they_can_be_read,
        sparklines_of_a_run_are_those_of_its_timeline,
        json_is_the_tree_itself,
        differences_are_shared_out,
        what_is_no_result_is_refused,
        a_tree_that_was_changed_is_refused_with_the_path_of_what_is_wrong,
        what_stands_beside_the_tree_is_checked_too,
        a_timeline_that_is_not_right_is_named,
    ]))
