"""kvtide compare: paired ratios and their intervals, gates, references, and the same bytes."""
import json
import math
import pathlib
import signal
import statistics
import subprocess
import sys

import support
from support import KVTIDE, TOP, files_below, kvtide, refuses, succeeds, tiny

# Student's t, 97.5 %, by degrees of freedom.
T_975 = {1: 12.706204736432095, 2: 4.302652729911275}


def compared(*arguments):
    return json.loads(succeeds("compare", *arguments, "--json", "--quiet"))


def metrics_of_run(path, seed, *sets):
    return json.loads(succeeds("run", path, "--seed", seed, "--json", "--quiet", *sets))["metrics"]


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


# --- Bounds -----------------------------------------------------------------------------------------


def a_side_that_saw_the_future_is_a_bound_and_the_others_have_their_regret(folder):
    path = tiny(folder)
    sides = [path + ",run.fidelity=exact,residency=hisparse,residency.hot_tokens=1024,replacement.policy=" + policy
             for policy in ("lru", "belady", "fifo")]
    report = compared(*sides)
    lru, belady, fifo = report["variants"]
    assert [v["bound"] for v in report["variants"]] == [False, True, False]
    assert belady["regret"] == 0 and 0 < lru["regret"] < fifo["regret"], report
    ratio = fifo["metrics"]["hot_miss_ratio"] / belady["metrics"]["hot_miss_ratio"]
    assert close(fifo["regret"], ratio - 1)
    said = succeeds("compare", *sides, "--quiet")
    assert said.count("bound: a policy of ") == 1 and "belady saw the future" in said, said
    assert "regret to " in said and said.index("regret to ") < said.index("basis: "), said
    plain = succeeds("compare", sides[0], sides[2], "--quiet")
    assert "regret" not in plain and "bound:" not in plain, plain
    blind = refuses(2, "compare", sides[1] + ",replacement.clairvoyant=false", sides[0], "--quiet")
    assert "replacement.clairvoyant: clairvoyant is false" in blind, blind


# --- Figures ----------------------------------------------------------------------------------------


def a_scenario_equals_itself(folder):
    first, second = compared(tiny(folder), tiny(folder))["variants"]
    assert first["metrics"] == second["metrics"]
    assert first["decision_hashes"] == second["decision_hashes"]
    assert set(second["ratios"].values()) <= {1, None}, second["ratios"]


def figures_are_those_of_runs_on_the_same_seeds(folder):
    path, change = tiny(folder), "residency=hisparse"
    report = compared(path, path + "," + change, "--seeds", 3, "--set", "seed=11")
    assert report["seeds"] == [11, 12, 13] and report["ending"] == "complete"
    first, second = report["variants"]
    runs = [[metrics_of_run(path, seed) for seed in report["seeds"]],
            [metrics_of_run(path, seed, "--set", change) for seed in report["seeds"]]]
    for variant, of_variant in zip(report["variants"], runs):
        for name, mean in variant["metrics"].items():
            values = [run[name] for run in of_variant]
            if None in values:
                assert mean is None, name
            else:
                assert close(mean, statistics.fmean(values)), name
    for name in ("output_throughput", "mean_tpot_ms", "host_fetch_share"):
        ratios = [b[name] / a[name] for a, b in zip(*runs)]
        half = T_975[2] * statistics.stdev(ratios) / math.sqrt(3)
        mean = statistics.fmean(ratios)
        assert close(second["ratios"][name], mean), name
        low, high = second["ratios_ci95"][name]
        assert close(low, mean - half) and close(high, mean + half), name
    values = [run["mean_tpot_ms"] for run in runs[0]]
    half = T_975[2] * statistics.stdev(values) / math.sqrt(3)
    low, high = first["metrics_ci95"]["mean_tpot_ms"]
    assert close((high - low) / 2, half)


def one_seed_has_no_interval(folder):
    for variant in compared(tiny(folder), tiny(folder))["variants"]:
        assert variant["metrics_ci95"] == {} and variant["ratios_ci95"] == {}


def what_is_not_defined_is_null(folder):
    open_loop = {"workload": {"arrival": "open", "rate": 20, "requests": 8,
                              "lengths": support.TINY["workload"]["lengths"]}}
    path = tiny(folder, "open.json", open_loop)
    first, second = compared(path, path)["variants"]
    assert first["metrics"]["post_wave_mean_ttft_ms"] is None
    assert second["ratios"]["post_wave_mean_ttft_ms"] is None
    assert first["metrics"]["preemptions"] == 0 and second["ratios"]["preemptions"] is None


def set_comes_before_a_scenarios_own_changes(folder):
    path = tiny(folder)
    first, second = compared(path, path + ",residency.hot_tokens=1024", "--set",
                             "residency.hot_tokens=4096")["variants"]
    assert first["scenario"]["residency"]["hot_tokens"] == 4096
    assert second["scenario"]["residency"]["hot_tokens"] == 1024
    assert second["changes"] == ["residency.hot_tokens=1024"]
    assert second["name"] == "residency.hot_tokens=1024", second["name"]


def commas_within_a_value_do_not_part_changes(folder):
    path = tiny(folder)
    change = 'workload.lengths.output={"law":"fixed","tokens":9},seed=1'
    second = compared(path, path + "," + change)["variants"][1]
    assert second["changes"] == ['workload.lengths.output={"law":"fixed","tokens":9}', "seed=1"]
    assert second["scenario"]["workload"]["lengths"]["output"] == {"law": "fixed", "tokens": 9}


def a_result_is_a_scenario(folder):
    path = tiny(folder)
    succeeds("run", path, "--out", folder / "out", "--quiet")
    first, second = compared(path, folder / "out/result.json")["variants"]
    assert first["decision_hashes"] == second["decision_hashes"]


def threads_do_not_change_a_byte(folder):
    path = tiny(folder)
    texts = []
    for threads in (1, 2, 7):
        out = folder / str(threads)
        succeeds("compare", path, path + ",residency=hisparse", path + ",residency=resident",
                 "--seeds", 2, "--threads", threads, "--out", out, "--quiet")
        assert files_below(out) == ["compare.json", "report.html"]
        texts.append((out / "compare.json").read_bytes())
    assert texts[0] == texts[1] == texts[2]


def the_table_has_a_row_for_each_and_fits_100_columns(folder):
    path = tiny(folder)
    said = succeeds("compare", path, path + ",residency=hisparse", "--seeds", 2, "--quiet")
    assert "residency=hisparse" in said and "seeds 1 to 2" in said and "+-" in said, said
    assert all(len(line) <= 100 or line.startswith(path) for line in said.splitlines()), said
    assert len([line for line in said.splitlines() if "/18" in line]) == 2, said
    assert said.endswith("badge      decisions no (no GPU) | kernel time no (datasheet) | engine no\n")


# --- Gates ----------------------------------------------------------------------------------------------


def a_gate_fails_when_its_condition_holds(folder):
    path = tiny(folder)
    pair = (path, path + ",workload.requests=12")  # equal: every ratio is 1
    for condition, status in (("output_throughput<0.98", 0), ("output_throughput<1", 0),
                              ("output_throughput<=1", 1), ("output_throughput>1", 0),
                              ("output_throughput>=1", 1), ("mean_tpot_ms>0.5", 1),
                              ("post_wave_p99_ttft_ms<1e-3", 0)):
        done = kvtide("compare", *pair, "--fail-if", condition, "--quiet")
        assert done.returncode == status, (condition, done.returncode, done.stderr)
        named = condition in done.stderr and "workload.requests=12" in done.stderr
        assert named == (status == 1), done.stderr


def every_failed_gate_is_named_and_recorded(folder):
    path = tiny(folder)
    done = kvtide("compare", path, path + ",seed=1", path, "--json", "--quiet", "--fail-if",
                  "slots>=1", "--fail-if", "slots<1", "--fail-if", "completed<=1")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 4, done.stderr
    verdicts = [(v["condition"], v["ratio"], v["failed"])
                for v in json.loads(done.stdout)["fail_if"]]
    assert verdicts == [("slots>=1", 1, True)] * 2 + [("slots<1", 1, False)] * 2 + [
        ("completed<=1", 1, True)] * 2, verdicts


def a_gate_that_cannot_be_judged_fails(folder):
    path = tiny(folder)
    done = kvtide("compare", path, path, "--fail-if", "preemptions>1", "--quiet")
    assert done.returncode == 1 and "no ratio" in done.stderr, done.stderr


# --- What is refused ----------------------------------------------------------------------------------------


def malformed_questions_are_one_sentence(folder):
    path = tiny(folder)
    for arguments, word in (
            ((path, path, "--fail-if", "output_throughput"), "METRIC<=RATIO"),
            ((path, path, "--fail-if", "<1"), "METRIC<=RATIO"),
            ((path, path, "--fail-if", "output_thruput<1"), "nearest is output_throughput"),
            ((path, path, "--fail-if", "output_throughput<nan"), "--fail-if"),
            ((path, path, "--fail-if", "output_throughput<"), "--fail-if"),
            ((path, path, "--fail-if", "output_throughput<-1"), "--fail-if"),
            ((path, path, "--seeds", "0"), "1 to 1024"),
            ((path, path, "--seeds", "1e9"), "1 to 1024"),
            ((path, path, "--seeds", "2", "--set", "seed=9007199254740991"), "2^53"),
            ((path, path, "--threads", "0"), "1 to 256"),
            ((path, path + ",hot"), "PATH=VALUE"),
            ((path, path + ","), "PATH=VALUE"),
            ((path, ",seed=1"), "names no scenario"),
            ((path, path + ",seed=2"), "equal seeds"),
            ((path, path + ",residency=lru"), "lru"),
            ((path, path, "--set", "nonsense=1"), "nonsense"),
            ((path, path, "--reference", folder / "none.json"), "none.json"),
    ):
        sentence = refuses(2, "compare", *arguments, "--out", folder / "out")
        assert word in sentence, "%r was expected in: %s" % (word, sentence)
        assert files_below(folder) == ["tiny.json"], files_below(folder)


# --- References ---------------------------------------------------------------------------------------------------


def reference(folder, where, values, **more):
    path = folder / "reference.json"
    path.write_text(json.dumps({
        "schema": "kvtide/reference/1", "name": "ours", "source": "a test",
        "rows": [{"where": where, "values": values}], **more}), encoding="utf-8")
    return str(path)


def a_reference_is_set_beside_the_scenarios_it_speaks_of(folder):
    path = tiny(folder)
    tpot = metrics_of_run(path, 1)["mean_tpot_ms"]
    file = reference(folder, {"residency.policy": "adaptive", "workload.concurrency": 6}, {
        "mean_tpot_ms": {"value": tpot * 1.02, "class": "predicted", "tolerance_rel": 0.03},
        "output_throughput": {"value": 1, "class": "calibrated", "tolerance_abs": 0.5},
        "completed": {"value": 12, "class": "exact"},
        "active_mean": {"value": 100, "class": "predicted", "tolerance_abs": 3},
    })
    pair = (path, path + ",residency=hisparse")
    values = compared(*pair, "--reference", file)["reference"]["values"]
    assert [(v["metric"], v["class"], v["within"]) for v in values] == [
        ("mean_tpot_ms", "predicted", True), ("output_throughput", "calibrated", False),
        ("completed", "exact", True), ("active_mean", "predicted", False)], values
    assert {v["variant"] for v in values} == {path}
    assert close(values[0]["error_relative"], 1 / 1.02 - 1)
    said = succeeds("compare", *pair, "--reference", file, "--quiet")
    assert "predicted 1 of 2, exact 1 of 1; calibrated 0 of 1" in said, said
    assert "residency=hisparse: no row" in said, said
    predicted, calibrated = said.index("nothing was fitted"), said.index("no evidence")
    assert predicted < said.index("active_mean") < calibrated < said.index(" output_throughput ")


def one_scenario_is_enough_beside_a_reference(folder):
    file = reference(folder, {}, {"completed": {"value": 12, "class": "exact"}})
    assert "exact 1 of 1" in succeeds("compare", tiny(folder), "--reference", file, "--quiet")


def a_reference_is_read_strictly(folder):
    path = tiny(folder)
    good = {"completed": {"value": 12, "class": "exact"}}
    bad = (
        ({}, {"completed": {"value": 12}}, "#/rows/0/values/completed/class"),
        ({}, {"completed": {"value": 12, "class": "measured"}}, "predicted, exact or calibrated"),
        ({}, {"completed": {"value": 12, "class": "predicted"}}, "tolerance_rel"),
        ({}, {"completed": {"value": 1, "class": "exact", "tolerance_rel": 1, "tolerance_abs": 1}},
         "both"),
        ({}, {"completed": {"value": "12", "class": "exact"}}, "value"),
        ({}, {"completed": {"value": 12, "class": "exact", "tolerance": 1}}, "tolerance"),
        ({}, {"completed": 12}, "#/rows/0/values/completed"),
        ({}, {"complete": {"value": 12, "class": "exact"}}, "nearest is completed"),
        ({}, {}, "no value"),
        ({"residency.polcy": "adaptive"}, good, "residency.polcy"),
        ({"residency.policy": ["adaptive"]}, good, "residency.policy"),
    )
    for where, values, word in bad:
        sentence = refuses(2, "compare", path, path, "--reference",
                           reference(folder, where, values))
        assert word in sentence, "%r was expected in: %s" % (word, sentence)
    for more, word in (({"rows": {}}, "rows"), ({"rows": [1]}, "#/rows/0"),
                       ({"schema": "kvtide/scenario/1"}, "schema"), ({"colour": 1}, "colour"),
                       ({"name": 1}, "name")):
        sentence = refuses(2, "compare", path, path, "--reference",
                           reference(folder, {}, good, **more))
        assert word in sentence, "%r was expected in: %s" % (word, sentence)


def table_2_speaks_of_the_shipped_scenario(folder):
    file = TOP / "validation/reference/table2.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 5 and all(len(row["values"]) == 7 for row in rows)
    for row in rows:
        sets = []
        for name in ("residency.policy", "workload.concurrency", "speculation.method"):
            sets += ["--set", "%s=%s" % (name, row["where"][name])]
        tree = json.loads(succeeds("check", "glm-5.3-100k", "--print", "--json", *sets))["scenario"]
        for dotted, wanted in row["where"].items():
            node = tree
            for part in dotted.split("."):
                node = node[part]
            assert node == wanted, (dotted, node, wanted)


# --- Presets ---------------------------------------------------------------------------------------------------------------

PRESETS = ["flat", "clustered", "skewed"]

# A slow link, and room for about half of the history. The first keeps what is new, the second what is old
# and a larger hot cache: with rows that all pages share evenly the cache is worth more, where new rows are
# preferred the pages are.
HALF_COVERED = {"hardware": {"base": "b300", "link_h2d_bytes_per_s": 20000000},
                "cluster.decode.pools.unified_gib": 0.01, "run.fidelity": "exact"}
KEEPS_NEW = ",residency.hot_tokens=1024"
KEEPS_OLD = (",residency.release_order=highest,residency.refill_order=lowest"
             ",residency.hot_tokens=1158")


def half_covered(folder):
    path = tiny(folder, "half.json", HALF_COVERED)
    return path + KEEPS_NEW, path + KEEPS_OLD


def each_preset_has_the_figures_of_a_comparison_of_its_own(folder):
    path = tiny(folder)
    pair = (path, path + ",residency=hisparse", "--seeds", 2, "--fail-if", "slots<1")
    report = compared(*pair, "--presets")
    assert report["seeds"] == [1, 2] and "variants" not in report and "fail_if" not in report
    assert [entry["preset"] for entry in report["presets"]] == PRESETS
    for entry in report["presets"]:
        alone = compared(*pair, "--set", "selection.preset=" + entry["preset"])
        assert entry["variants"] == alone["variants"], entry["preset"]
        assert entry["badge"] == alone["badge"] == {
            "decisions": "no", "decisions_reason": "no GPU", "kernel_time": "no",
            "kernel_time_reason": "datasheet", "engine": "no"}, entry["badge"]
        assert entry["fail_if"] == alone["fail_if"], entry["preset"]
        assert all(variant["scenario"]["selection"]["preset"] == entry["preset"]
                   for variant in entry["variants"])


def an_order_that_changes_between_presets_is_warned_of(folder):
    pair = half_covered(folder)
    done = kvtide("compare", *pair, "--presets", "--quiet", "--out", folder / "out")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    report = json.loads((folder / "out/compare.json").read_text(encoding="utf-8"))
    outputs = {entry["preset"]: [variant["metrics"]["output_throughput"]
                                 for variant in entry["variants"]] for entry in report["presets"]}
    new, old = [variant["name"] for variant in report["presets"][0]["variants"]]
    ahead = {preset: 0 if abs(a - b) <= 0.005 * max(a, b) else a - b
             for preset, (a, b) in outputs.items()}
    assert ahead["skewed"] > 0 > ahead["clustered"], outputs
    assert report["order"]["metric"] == "output_throughput" and report["order"]["changes"]
    assert report["order"]["ties"] == sum(sign == 0 for sign in ahead.values())
    of_old = [preset for preset in PRESETS if ahead[preset] < 0][0]
    of_new = [preset for preset in PRESETS if ahead[preset] > 0][0]
    assert report["order"]["reversals"] == [
        {"a": new, "b": old, "a_ahead_under": of_new, "b_ahead_under": of_old}]
    for entry in report["presets"]:
        a, b = outputs[entry["preset"]]
        names = [new, old] if a >= b else [old, new]
        assert entry["order"] == [
            {"variant": names[0], "tied_with_next": ahead[entry["preset"]] == 0},
            {"variant": names[1], "tied_with_next": False}], entry["order"]
    last = done.stdout.splitlines()[-1]
    assert last == ("warning: the order changes between presets: %s %s > %s, %s %s > %s" % (
        of_new, new, old, of_old, old, new)), last


def an_order_that_holds_is_said_to_and_so_are_ties(folder):
    path = tiny(folder)
    said = succeeds("compare", path, path + ",workload.concurrency=2", "--presets",
                    "--quiet").splitlines()
    assert said[-1] == "the order is the same under all 3 presets", said[-1]
    assert [line.split()[0] for line in said[-4:-1]] == PRESETS, said
    said = succeeds("compare", path, path, "--presets", "--seeds", 2, "--quiet").splitlines()
    assert said[-1] == "the order is the same under all 3 presets, ties (~) apart", said[-1]
    assert said[-2].split(None, 1) == ["skewed", path + " ~ " + path], said[-2]


def gates_are_judged_under_every_preset(folder):
    path = tiny(folder)
    done = kvtide("compare", path, path, "--presets", "--fail-if", "slots>=1", "--quiet")
    assert done.returncode == 1, done.stderr
    assert [line.split(" under ")[1].split(":")[0]
            for line in done.stderr.splitlines()] == PRESETS, done.stderr


def presets_are_refused_where_they_mean_nothing(folder):
    path = tiny(folder)
    for arguments, word in (
            ((path,), "two or more"),
            ((path, path, "--reference", folder / "none.json"), "--reference"),
            ((path, path + ",selection.preset=flat"), "chooses one preset"),
            ((path, path, "--set", "selection.preset=flat"), "--set selection.preset=flat"),
            ((path,) * 22, "22 scenarios under 3 presets"),
    ):
        sentence = refuses(2, "compare", *arguments, "--presets", "--out", folder / "out")
        assert word in sentence, "%r was expected in: %s" % (word, sentence)
        assert files_below(folder) == ["tiny.json"], files_below(folder)
    (folder / "rows.kvsel").write_bytes(b"never read")
    recorded = {"selection": {"law": "recorded", "path": "rows.kvsel"}}
    path = tiny(folder, "recorded.json", recorded)
    sentence = refuses(2, "compare", path, path, "--presets")
    assert "no presets" in sentence and "recorded" in sentence, sentence


# --- Adaptive verification ---------------------------------------------------------------------------------------------------


def adaptive_verification_reaches_99_percent_of_the_best_fixed_length(folder):
    del folder
    path = str(TOP / "validation/scenarios/verification.json")
    fixed = [path + ",speculation.fixed_drafts=%d" % drafts for drafts in (3, 5, 7)]
    for concurrency in (16, 128):
        variants = compared(path, *fixed, "--set", "workload.concurrency=%d" % concurrency,
                            "--set", "workload.requests=%d" % (6 * concurrency))["variants"]
        outputs = [variant["metrics"]["output_throughput"] for variant in variants]
        assert outputs[0] >= 0.99 * max(outputs[1:]), (concurrency, outputs)
        assert len(set(outputs)) == 4, outputs


def ranks_in_lockstep_do_not_push_each_other_past_the_largest_graph(folder):
    """420 requests on two ranks: what pays is just what fits the graph of 1,024 tokens on each."""
    del folder
    path = "deepseek-v4.1-flash-500k,residency=resident"
    adaptive, three = compared(path, path + ",speculation.fixed_drafts=3", "--set",
                               "run.duration_s=30")["variants"]
    assert three["metrics"]["active_mean"] > 400, three["metrics"]["active_mean"]
    assert (adaptive["metrics"]["output_throughput"]
            > 1.02 * three["metrics"]["output_throughput"])


# --- Signals -----------------------------------------------------------------------------------------------------------


def an_interrupted_comparison_keeps_the_seeds_that_all_have_finished(folder):
    path = tiny(folder, changes={"workload.requests": 400})
    process = subprocess.Popen(
        [KVTIDE, "compare", path, path + ",residency=hisparse", "--seeds", "1000", "--quiet",
         "--out", str(folder / "out")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    support.goes_on(process, 3)
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=support.TIMEOUT_S)
    assert process.returncode == 1, (process.returncode, complained)
    if "before every scenario" in complained:
        raise support.Skip("this machine finishes no run in 3 s of processors")
    assert "interrupted" in said, said
    assert files_below(folder / "out") == ["compare.json", "report.html"]
    report = json.loads((folder / "out/compare.json").read_text(encoding="utf-8"))
    assert report["ending"] == "interrupted" and 0 < len(report["seeds"]) < 1000
    assert all(len(v["decision_hashes"]) == len(report["seeds"]) for v in report["variants"])


CASES = (
    a_side_that_saw_the_future_is_a_bound_and_the_others_have_their_regret,
    a_scenario_equals_itself,
    figures_are_those_of_runs_on_the_same_seeds,
    one_seed_has_no_interval,
    what_is_not_defined_is_null,
    set_comes_before_a_scenarios_own_changes,
    commas_within_a_value_do_not_part_changes,
    a_result_is_a_scenario,
    threads_do_not_change_a_byte,
    the_table_has_a_row_for_each_and_fits_100_columns,
    a_gate_fails_when_its_condition_holds,
    every_failed_gate_is_named_and_recorded,
    a_gate_that_cannot_be_judged_fails,
    malformed_questions_are_one_sentence,
    a_reference_is_set_beside_the_scenarios_it_speaks_of,
    one_scenario_is_enough_beside_a_reference,
    a_reference_is_read_strictly,
    table_2_speaks_of_the_shipped_scenario,
    each_preset_has_the_figures_of_a_comparison_of_its_own,
    an_order_that_changes_between_presets_is_warned_of,
    an_order_that_holds_is_said_to_and_so_are_ties,
    gates_are_judged_under_every_preset,
    presets_are_refused_where_they_mean_nothing,
    adaptive_verification_reaches_99_percent_of_the_best_fixed_length,
    ranks_in_lockstep_do_not_push_each_other_past_the_largest_graph,
    an_interrupted_comparison_keeps_the_seeds_that_all_have_finished,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
