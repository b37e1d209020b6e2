"""kvtide plan: the answer against every value of the range, choices, refusals, and the same bytes."""
import json
import math
import re
import signal
import statistics
import subprocess
import sys

import support
from support import KVTIDE, files_below, kvtide, refuses, succeeds, tiny

BOUND = ("--slo", "mean_tpot_ms<=5")
MOST = ("--maximize", "workload.concurrency=1:4")
RANGE = range(1, 11)
INPUT = "workload.concurrency=%d:%d" % (RANGE[0], RANGE[-1])


def planned(*arguments, status=0):
    done = kvtide("plan", *arguments, "--json", "--quiet")
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return json.loads(done.stdout)


def metrics_of(path, seeds, *sets):
    """Each metric's mean over the seeds, by runs of their own."""
    options = [word for change in sets for word in ("--set", change)]
    runs = [json.loads(succeeds("run", path, "--seed", seed, "--json", "--quiet", *options))["metrics"]
            for seed in seeds]
    return {name: None if None in [run[name] for run in runs]
            else statistics.fmean(run[name] for run in runs) for name in runs[0]}


def curve_of(path, metric, seeds=(1, 2)):
    """The metric at every value; requests go along, two for each one at a time."""
    return {value: metrics_of(path, seeds, "workload.concurrency=%d" % value,
                              "workload.requests=%d" % (2 * value))[metric] for value in RANGE}


def last_meeting(curve, limit):
    """The last value that holds an upper bound while the next does not, from the low end."""
    return max((value for value in curve if curve[value] <= limit), default=None)


# --- Answers ----------------------------------------------------------------------------------------


def the_answer_is_that_of_looking_at_every_value(folder):
    path = tiny(folder)
    curve = curve_of(path, "mean_e2el_ms")
    values = sorted(curve.values())
    for limit in (values[2] * 1.001, (values[6] + values[7]) / 2):
        wanted = last_meeting(curve, limit)
        assert curve[wanted] <= limit < curve[wanted + 1], curve
        for how in ((), ("--no-analytic",)):
            plan = planned(path, "--slo", "mean_e2el_ms<=%r" % limit, "--maximize", INPUT,
                           "--seeds", 2, "--worth", "none", *how)
            assert plan["met"] and plan["answer"]["value"] == wanted, (how, wanted, plan["answer"])
            found = plan["answer"]["metrics"]["mean_e2el_ms"]
            assert math.isclose(found, curve[wanted], rel_tol=1e-12), (found, curve[wanted])
            binding = plan["binding"]
            assert binding["kind"] == "bound" and binding["at"] == wanted + 1
            assert math.isclose(binding["value"], curve[wanted + 1], rel_tol=1e-12)


def one_value_is_simulated_without_anything_known_before(folder):
    path = tiny(folder)
    for goal, how in (("workload.concurrency=4:4", ("--set", "workload.requests=12")), ("output_throughput", ())):
        asked = planned(path, "--slo", "mean_e2el_ms<=1e9", "--maximize", goal, "--seeds", 1, "--worth", "none", *how)
        plan = planned(path, "--slo", "mean_e2el_ms<=1e9", "--maximize", goal, "--seeds", 1, "--worth", "none",
                       "--no-analytic", *how)
        assert plan["met"] and plan["answer"]["metrics"] == asked["answer"]["metrics"], plan["answer"]


def two_bounds_hold_at_once(folder):
    path = tiny(folder)
    latency, output = curve_of(path, "mean_e2el_ms"), curve_of(path, "output_throughput")
    limit, least = latency[6] * 1.0001, output[5] * 0.9999
    both = [value for value in RANGE if latency[value] <= limit and output[value] >= least]
    plan = planned(path, "--slo", "mean_e2el_ms<=%r" % limit, "--slo", "output_throughput>=%r" % least,
                   "--maximize", INPUT, "--seeds", 2, "--worth", "none")
    assert plan["answer"]["value"] == max(both), (both, plan["answer"])
    assert all(bound["holds"] for bound in plan["interval"]["bounds"])
    plan = planned(path, "--slo", "mean_e2el_ms<=%r" % limit, "--slo", "output_throughput>=%r" % least,
                   "--minimize", INPUT, "--seeds", 2, "--worth", "none")
    assert plan["answer"]["value"] == min(both), (both, plan["answer"])


def mean_values_that_are_wrong_do_not_hide_the_answer(folder):
    """Overloaded prefill that a hard stop cuts: mean values count those served first alone."""
    path = tiny(folder, changes={
        "workload": {"arrival": "open", "rate": 50, "lengths": support.TINY["workload"]["lengths"]},
        "cluster.prefill": {"mode": "separate", "tokens_per_s": 100000}, "run.duration_s": 4})
    curve = {gpus: metrics_of(path, (1,), "cluster.prefill.gpus=%d" % gpus)["mean_ttft_ms"] for gpus in range(1, 9)}
    wanted = min(gpus for gpus in curve if curve[gpus] <= 150)
    assert 1 < wanted < 8 and curve[wanted - 1] > 150, curve
    plan = planned(path, "--slo", "mean_ttft_ms<=150", "--minimize", "cluster.prefill.gpus=1:8", "--seeds", 1,
                   "--worth", "none")
    assert plan["answer"]["value"] == wanted, (curve, plan["choices"])


def the_end_of_the_range_binds_where_every_value_holds(folder):
    plan = planned(tiny(folder), "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:4",
                   "--seeds", 1)
    assert plan["answer"]["value"] == 4
    assert plan["binding"]["kind"] == "range" and plan["binding"]["constraint"] == "workload.concurrency <= 4"
    assert plan["interval"]["value"] == [None, None] and plan["answer"]["metrics_ci95"] == {}


def what_cannot_be_reached_ends_with_1_and_the_nearest(folder):
    path = tiny(folder)
    curve = curve_of(path, "mean_e2el_ms", (1,))
    plan = planned(path, "--slo", "mean_e2el_ms<=0.001", "--maximize", INPUT, "--seeds", 1, status=1)
    assert plan["met"] is False and plan["answer"] is None and plan["worth"] == []
    nearest, = plan["nearest"]
    best = min(curve, key=curve.get)
    assert nearest["at"] == best and math.isclose(nearest["value"], curve[best], rel_tol=1e-12), nearest
    assert plan["choices"][0]["status"] == "unreachable"
    said = kvtide("plan", path, "--slo", "mean_e2el_ms<=0.001", "--maximize", INPUT, "--seeds", 1, "--quiet")
    assert said.returncode == 1 and "none: no value of any choice holds all bounds" in said.stdout
    assert re.search(r"nearest +mean_e2el_ms<=0.001: [0-9.]+ with tiny at %d \(simulated\)" % best, said.stdout)


def an_answer_to_another_question_does_not_stay(folder):
    path, out = tiny(folder), folder / "out"
    ask = ("--maximize", "workload.concurrency=1:2", "--seeds", 1, "--worth", "none", "--out", out)
    planned(path, "--slo", "mean_e2el_ms<=1e9", *ask)
    assert (out / "scenario.json").exists() and (out / "report.html").exists()
    planned(path, "--slo", "mean_e2el_ms<=0.001", *ask, status=1)
    assert not (out / "scenario.json").exists()
    assert json.loads((out / "plan.json").read_text(encoding="utf-8"))["met"] is False


def a_metric_is_the_best_of_the_choices_that_hold(folder):
    path = tiny(folder)
    sizes = (1024, 2048, 4096)
    each = {size: metrics_of(path, (1, 2), "residency.hot_tokens=%d" % size) for size in sizes}
    order = sorted(sizes, key=lambda size: each[size]["host_fetch_share"])
    over = "residency.hot_tokens=" + ",".join(map(str, sizes))
    plan = planned(path, "--minimize", "host_fetch_share", "--over", over, "--seeds", 2)
    assert [choice["choice"] for choice in plan["choices"]] == ["hot_tokens=%d" % size for size in order]
    assert math.isclose(plan["answer"]["metrics"]["host_fetch_share"], each[order[0]]["host_fetch_share"])
    assert plan["binding"]["kind"] == "choices"
    limit = each[order[0]]["mean_tpot_ms"]
    other = min(each[size]["mean_tpot_ms"] for size in order[1:])
    if limit > other:
        plan = planned(path, "--minimize", "host_fetch_share", "--over", over, "--seeds", 2, "--slo",
                       "mean_tpot_ms<%r" % limit)
        assert plan["answer"]["choice"] != "hot_tokens=%d" % order[0]
        assert plan["binding"]["kind"] == "bound"


def gpus_take_their_replicas_along(folder):
    path = tiny(folder)
    plan = planned(path, "--slo", "mean_e2el_ms<=1e9", "--minimize", "cluster.decode.gpus=1:4", "--seeds", 2,
                   "--out", folder / "out")
    assert plan["answer"]["value"] == 2, plan["answer"]
    assert plan["binding"]["kind"] == "refused" and plan["binding"]["at"] == 1
    assert "weights of deepseek-v4.1-flash do not fit" in plan["binding"]["constraint"]
    force = json.loads((folder / "out/scenario.json").read_text(encoding="utf-8"))
    decode = force["cluster"]["decode"]
    assert (decode["gpus"], decode["dp"], decode["ep"]) == (2, "auto", 2), decode
    assert plan["interval"] | {"bounds": 0} == {"value": [1, 2], "surely_held": 2, "surely_broken": 1,
                                               "bounds": 0}, plan["interval"]
    assert plan["worth"][0]["refused"] == "GPUs are what is asked for"
    assert plan["worth"][1]["difference"] == 0  # host DRAM does not bind


def what_goes_along_needs_no_scenario_that_runs_without_it(folder):
    path = tiny(folder)  # 2 GPUs, dp 2, ep 2: tp 2 alone is none
    refuses(2, "run", path, "--set", "cluster.decode.tp=2", "--quiet")
    ask = ("--slo", "mean_e2el_ms<=1e9", "--minimize", "cluster.decode.gpus=2:4:2", "--fidelity", "analytic", "--worth", "none")
    auto = planned(path, *ask, "--set", "cluster.decode.tp=2", "--set", "cluster.decode.dp=auto")
    assert auto["answer"]["value"] == 2, auto["answer"]
    for how in (("--set", "cluster.decode.tp=2"), ("--over", "cluster.decode.tp=2"), ("--over", "cluster.decode.tp=1,2"),
                ("--set", "cluster.decode.tp=4", "--over", "cluster.decode.tp=1,2")):
        choices = planned(path, *ask, *how)["choices"]
        assert all(choice["status"] == "met" for choice in choices), (how, choices)
        assert [choice["bounds"] for choice in choices if choice["choice"] != "tp=1"] == [auto["choices"][0]["bounds"]], how
    # Of values some will do: 4 GPUs, but not 2, 3 or 5.
    four = planned(path, *ask[:3], "cluster.decode.gpus=2:5", *ask[4:], "--over", "cluster.decode.tp=4,6", status=0)
    assert [(choice["choice"], choice["status"]) for choice in four["choices"]] == [("tp=4", "met"), ("tp=6", "refused")]
    assert four["answer"]["value"] == 4 and "GPUs are not tp 6 x a number of replicas; a multiple" in four["choices"][1]["reason"], four["choices"]


def replicas_and_experts_that_are_set_stay(folder):
    path = tiny(folder)
    ask = ("--slo", "mean_e2el_ms<=1e9", "--seeds", 1, "--worth", "none", "--maximize", "cluster.decode.gpus=2:4:2")
    plan = planned(path, *ask, "--set", "cluster.decode.dp=2")
    assert plan["answer"]["value"] == 2 and plan["binding"]["kind"] == "refused", plan["answer"]
    assert plan["binding"]["constraint"].startswith("cluster.decode.gpus=4: 4 GPUs are not tp 1 x dp 2"), plan["binding"]
    for given, wanted in (("cluster.decode.ep=2", 2), ("cluster.decode.lockstep=true", 4)):
        plan = planned(path, *ask, "--set", given)
        assert plan["answer"]["value"] == 4 and plan["scenario_in_force"]["cluster"]["decode"]["ep"] == wanted, given
    # Over GPUs too, of a choice, with one more behind it.
    plan = planned(path, *ask[:4], "--maximize", "workload.concurrency=1:2", "--over", "cluster.decode.gpus=4",
                   "--set", "cluster.decode.ep=2", "--worth", "analytic")
    assert plan["scenario_in_force"]["cluster"]["decode"]["ep"] == 2
    assert "ep 2 does not divide the pool's 5 GPUs" in plan["worth"][0]["refused"], plan["worth"]


def requests_that_are_set_say_how_many_are_for_each(folder):
    plan = planned(tiny(folder), "--slo", "mean_e2el_ms<=1e9", *MOST, "--fidelity", "analytic", "--worth", "none",
                   "--set", "workload.requests=18")  # of 6 at a time
    assert plan["scenario_in_force"]["workload"]["requests"] == 12, plan["scenario_in_force"]["workload"]


# --- Choices ----------------------------------------------------------------------------------------


def a_choice_that_is_refused_is_told_with_its_reason(folder):
    path = tiny(folder)
    plan = planned(path, "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:3", "--seeds", 1,
                   "--over", "residency.policy=adaptive,nonsense,hisparse", "--worth", "none")
    names = [(choice["choice"], choice["status"]) for choice in plan["choices"]]
    assert names[2] == ("nonsense", "refused") and {name for name, _ in names[:2]} == {"adaptive", "hisparse"}
    assert "nonsense" in plan["choices"][2]["reason"]
    said = succeeds("plan", path, "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:3",
                    "--seeds", 1, "--over", "residency.policy=adaptive,nonsense", "--quiet")
    assert re.search(r"^refused +nonsense: ", said, re.MULTILINE), said
    assert all(len(line) <= 80 for line in said.splitlines()), said
    assert said.splitlines()[1].startswith("plan ") or said.startswith("plan "), said


def only_the_best_by_mean_values_are_simulated(folder):
    plan = planned(tiny(folder), "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:3",
                   "--seeds", 1, "--over", "residency.hot_tokens=1024,2048,4096", "--simulate", 1,
                   "--worth", "none")
    assert sorted(choice["by"] for choice in plan["choices"]) == ["analytic", "analytic", "simulated"]
    assert plan["answer"]["by"] == "simulated"
    plan = planned(tiny(folder), "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:3",
                   "--fidelity", "analytic", "--worth", "none")
    assert plan["answer"]["by"] == "analytic" and plan["answer"]["value"] == 3
    assert plan["choices"][0]["method"]["values_run"] == 0


# --- What the scenario says ---------------------------------------------------------------------------

CLASSES = [{"name": "fast", "share": 0.5, "tpot_ms": 5.2, "attain": 0.5}, {"name": "slow", "share": 0.5, "ttft_ms": 1e6}]


def classes_bring_their_own_bounds(folder):
    path = tiny(folder, changes={"slo.classes": CLASSES, "workload.requests": 36})
    share = {value: statistics.fmean(
        next(item for item in json.loads(succeeds(
            "run", path, "--seed", seed, "--json", "--quiet", "--set", "workload.concurrency=%d" % value,
            "--set", "workload.requests=%d" % (6 * value)))["classes"] if item["name"] == "fast")["attained_share"]
        for seed in (1, 2)) for value in RANGE}
    wanted = max((value for value in RANGE if share[value] >= 0.5), default=None)
    assert wanted is not None and wanted < RANGE[-1], share
    plan = planned(path, "--slo", "classes", "--maximize", INPUT, "--seeds", 2, "--worth", "none")
    assert plan["choices"][0]["bounds"][0]["bound"] == "class:fast>=0.5", plan["choices"]
    found = plan["answer"]["value"]
    assert share[found] >= 0.5 > share[found + 1], (share, found)


def what_fails_is_part_of_the_runs(folder):
    path = tiny(folder)
    fault = '{"kind": "rank", "at_s": 0.05, "group": "goes_on"}'
    bounds = ("--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=4:4", "--seeds", 1, "--worth", "none")
    whole = planned(path, *bounds)["answer"]["metrics"]
    hurt = planned(path, *bounds, "--survive", fault, "--out", folder / "out")["answer"]["metrics"]
    assert hurt["mean_e2el_ms"] > whole["mean_e2el_ms"], (hurt, whole)
    force = json.loads((folder / "out/scenario.json").read_text(encoding="utf-8"))
    assert force["cluster"]["faults"][0]["kind"] == "rank"


def what_cannot_fail_is_refused(folder):
    """More ranks or nodes than there are, and a fault that strikes after the end, however that comes about."""
    path = tiny(folder)
    most = ("--maximize", "workload.concurrency=2:4", "--seeds", 1, "--worth", "none", "--quiet",
            "--slo", "mean_e2el_ms<=1e9", "--out", folder / "out")
    for survive, sets, says in (
            ("rank=3@0.05", (), "found rank=3, but cluster.decode has 2 ranks; 1 to 2 are expected"),
            ("node=2@0.05", (), "found node=2, but cluster.decode has 1 node; 1 is expected"),
            ("rank=1@70", ("--set", "run.duration_s=40"), "found 70 s, and the run is over at 40 s (run.duration_s)"),
            ("rank=1@70", (), "rank=1@70 never strikes: the run ends after 0."),
            ('{"kind": "rank", "at_s": 70}', ("--set", "run.duration_s=40"), "is over at 40 s (run.duration_s)")):
        said = refuses(2, "plan", path, *most, "--survive", survive, *sets)
        assert says in said and "--survive" in said, (survive, said)
    assert files_below(folder / "out") == []
    # Without an end a run stalls as all have failed: that was tried, and the answer is no.
    plan = planned(path, *most[:-2], "--survive", "rank=1@0.05", status=1)
    assert plan["choices"][0]["status"] == "unreachable" and "stalled" in plan["choices"][0]["reason"], plan["choices"]
    assert "goes_on" in plan["note"] and plan["nearest"][0]["value"] is None
    # Of a choice: it has fewer ranks than are to fail.
    plan = planned(path, *most[:-2], "--survive", '{"kind": "rank", "at_s": 0.05, "group": "goes_on"}', "--over",
                   "cluster.decode.gpus=2,4")
    assert [choice["status"] for choice in plan["choices"]] == ["met", "met"]
    plan = planned(path, *most[:-2], "--survive", "rank=3@0.05", "--over", "cluster.decode.gpus=2,4", "--set",
                   "run.duration_s=0.4", status=1)
    assert plan["choices"][1]["status"] == "refused" and "has 2 ranks" in plan["choices"][1]["reason"], plan["choices"]


def who_never_decodes_again_breaks_the_bounds(folder):
    """ep is 2, so that all ranks stop for good: nobody who finished was late, and 4 of 6 never finish."""
    path = tiny(folder, changes={"run.duration_s": 0.4})
    ask = (path, "--slo", "mean_tpot_ms<=1e9", "--slo", "output_throughput>=1", "--maximize",
           "workload.concurrency=4:4", "--seeds", 2, "--worth", "none", "--survive")
    plan = planned(*ask, "rank=1@0.1", status=1)
    tpot, output = plan["choices"][0]["bounds"]
    run = json.loads(succeeds("run", path, "--json", "--quiet", "--set", "workload.concurrency=4", "--set",
                              "workload.requests=8", "--set", 'cluster.faults=[{"kind": "rank", "at_s": 0.1}]'))
    waiting = run["requests"]["waiting"]
    assert run["requests"]["running"] == 0 and waiting == 4, run["requests"]
    assert not tpot["holds"] and tpot["value"] is None, tpot
    assert tpot["says"].startswith("4 requests never decode again by the end of the run"), tpot
    assert output["holds"] and "says" not in output, output
    assert plan["nearest"][0]["says"] == tpot["says"] and "goes_on" in plan["note"], plan
    said = kvtide("plan", *ask, "rank=1@0.1", "--quiet")
    assert said.returncode == 1 and "4 requests never decode again" in re.sub(r"\s+", " ", said.stdout), said.stdout
    goes_on = planned(*ask, '{"kind": "rank", "at_s": 0.1, "group": "goes_on"}')
    assert goes_on["met"] and "note" not in goes_on
    # A class of service is told by who met its bounds of all, not of those who finished.
    classes = '[{"name": "all", "share": 1, "ttft_ms": 1e6, "attain": 0.9}]'
    plan = planned(path, "--set", "slo.classes=" + classes, "--slo", "classes", *ask[5:], "rank=1@0.1", status=1)
    run = json.loads(succeeds("run", path, "--json", "--quiet", "--set", "workload.concurrency=4", "--set",
                              "workload.requests=8", "--set", "slo.classes=" + classes, "--set",
                              'cluster.faults=[{"kind": "rank", "at_s": 0.1}]'))["classes"][0]
    assert run["attained_share"] in (None, 1) and run["requests"] > run["met"], run
    assert plan["choices"][0]["bounds"][0]["value"] < 0.9, plan["choices"][0]["bounds"]


def an_engine_is_started_with_the_load_of_the_answer(folder):
    """Not with as many requests as would fit."""
    ask = ("plan", "agentic-74k", "--slo", "mean_tpot_ms<=1e9", "--seeds", 1, "--worth", "none", "--quiet",
           "--json", "--engine", "vllm", "--export", "flags", "--maximize")
    fits = succeeds("check", "agentic-74k", "--engine", "vllm", "--export", "flags")
    assert "--max-num-seqs 34" in fits.splitlines(), fits
    engine = json.loads(succeeds(*ask, "workload.concurrency=2:6"))["engine"]
    assert "--max-num-seqs 6" in engine["flags"], engine["flags"]
    assert "34 requests fit a replica, and --max-num-seqs lets 6 run" in engine["warnings"], engine["warnings"]
    assert [line for line in engine["flags"] if "max-num" not in line] == [
        line for line in fits.splitlines() if "max-num" not in line]


def the_answer_becomes_flags_or_obstacles(folder):
    path = tiny(folder)
    ask = ("plan", path, "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:2", "--seeds", 1,
           "--worth", "none", "--quiet", "--export", "flags", "--engine")
    done = kvtide(*ask, "vllm", "--json")
    engine = json.loads(done.stdout)["engine"]
    assert done.returncode == (0 if engine["runs"] else 1), done.returncode
    assert engine["flags"] and (engine["runs"] or engine["obstacles"]), engine
    said = kvtide(*ask, "vllm")
    assert said.returncode == done.returncode and (engine["runs"] or "does not run this scenario" in said.stdout)
    refuses(2, *ask, "no-such-engine")


# --- What has no value, and what should be known ------------------------------------------------------


def a_bound_without_a_value_says_why(folder):
    path = tiny(folder, changes={"slo.classes": CLASSES, "run.duration_s": 0.05})
    ask = ("--maximize", INPUT, "--seeds", 2, "--worth", "none")
    plan = planned(path, "--slo", "classes", "--slo", "mean_e2el_ms<=1e9", *ask, status=1)
    says = [bound["says"] for bound in plan["choices"][0]["bounds"]]
    assert says == ["no request%s finished, on one of the seeds at least" % of_class
                    for of_class in ("", " of class fast", " of class slow")], says
    assert [item["says"] for item in plan["nearest"]] == says and plan["nearest"][0]["value"] is None
    said = kvtide("plan", path, "--slo", "classes", *ask, "--quiet").stdout
    assert "class:fast>=0.5: has no value; no request of class fast finished" in re.sub(r"\s+", " ", said), said


def the_nearest_by_one_seed_is_no_mean_value(folder):
    """On the first seed somebody finishes by then and on the second nobody does: the first's figure is its own."""
    path = tiny(folder, changes={"run.duration_s": 0.1})
    finished = {seed: metrics_of(path, (seed,), "workload.concurrency=8", "workload.requests=16")["p99_e2el_ms"]
                for seed in range(1, 30)}
    first = next(seed for seed in range(1, 29) if finished[seed] is not None and finished[seed + 1] is None)
    plan = planned(path, "--slo", "p99_e2el_ms<=0.01", "--maximize", "workload.concurrency=8,9", "--seeds", 2,
                   "--set", "seed=%d" % first, "--worth", "none", status=1)
    nearest, = plan["nearest"]
    if all(point["by"] != "simulated" or point["bounds"] == [None]
           for point in plan["choices"][0]["looked_at"]):
        assert nearest["by"] == "first_seed" and "no request finished" in nearest["says"], nearest
    else:
        assert nearest["by"] == "simulated", nearest


def a_question_that_no_run_answers_is_malformed(folder):
    path = tiny(folder)
    for arguments, says in (
            (("--slo", "p99_tpot_ms<=5", *MOST, "--fidelity", "analytic"),
             "mean values have no p99_tpot_ms; --fidelity sampled simulates it"),
            (("--slo", "usd_per_hour<=5", *MOST), "usd_per_hour has no value in any run of this scenario; it takes a "
             "price: cluster.decode.usd_per_gpu_hour"),
            (("--minimize", "usd_per_million_output_tokens", "--over", "residency.policy=adaptive,hisparse"),
             "cluster.decode.usd_per_gpu_hour (the last choice; every one is refused)"),
            (("--slo", "joules_per_output_token<=5", *MOST), "watts"),
            (("--slo", "slo_margin>=0", *MOST), "slo.classes"),
            (("--slo", "coverage_regain_s<=5", *MOST), "workload.phases"),
            (("--minimize", "fault_recovery_s", "--seeds", 1), "fault_recovery_s has no value in the runs"),
            (("--slo", "mean_tpot_ms<=5", "--maximize", "cluster.decode.gpus=1:1"), "weights of")):
        said = refuses(2, "plan", path, *arguments, "--quiet", "--out", folder / "out")
        assert says in said, (arguments, said)
    assert not (folder / "out").exists() or files_below(folder / "out") == []
    priced = planned(path, "--minimize", "usd_per_hour", "--set", "cluster.decode.usd_per_gpu_hour=4", "--seeds", 1)
    assert priced["answer"]["metrics"]["usd_per_hour"] == 8


def a_refusal_names_what_was_asked_for(folder):
    """And not a key that went along with it, which nobody set."""
    path = tiny(folder)
    ask = ("--slo", "mean_e2el_ms<=1e9", "--seeds", 1, "--worth", "none")
    plan = planned(path, *ask, "--maximize", "workload.concurrency=1:2", "--over", "cluster.decode.gpus=1,2")
    reason = plan["choices"][1]["reason"]
    assert reason.startswith("cluster.decode.gpus=1: the weights of") and "--set" not in reason, reason
    plan = planned(path, *ask, "--minimize", "cluster.decode.gpus=1:3", "--fidelity", "analytic")
    assert plan["binding"]["kind"] == "refused" and plan["binding"]["at"] == 1, plan["binding"]
    assert plan["binding"]["constraint"].startswith("cluster.decode.gpus=1: the weights of"), plan["binding"]
    said = refuses(2, "plan", path, *ask, "--maximize", "workload.concurrency=1:2", "--set", "cluster.decode.ep=3")
    assert "--set cluster.decode.ep" in said, said  # who set it himself is told so


def what_binds_by_mean_values_has_its_figure(folder):
    """Also where the curve was not looked at beside the answer."""
    plan = planned(tiny(folder), "--slo", "mean_e2el_ms<=240", "--maximize", "workload.concurrency=1:100",
                   "--fidelity", "analytic", "--worth", "none")
    binding = plan["binding"]
    assert binding["kind"] == "bound" and binding["at"] == plan["answer"]["value"] + 1
    assert binding["value"] > 240 == binding["limit"], binding


def a_load_that_waits_is_noted(folder):
    path = tiny(folder)
    ask = ("--maximize", "workload.concurrency=40:400", "--worth", "none", "--seeds", 1)
    for how in ((), ("--fidelity", "analytic")):
        plan = planned(path, "--slo", "mean_tpot_ms<=1e9", *ask, *how)
        assert plan["answer"]["value"] == 400, plan["answer"]
        found = re.match(r"at the answer (\d+) of (\d+) requests wait for admission", plan["note"])
        assert found and 0.5 * int(found[2]) < int(found[1]) < int(found[2]) <= 400, plan["note"]
        queued = planned(path, "--slo", "mean_tpot_ms<=1e9", "--slo", "mean_ttft_ms<=1e9", *ask, *how)
        assert "note" not in queued, queued["note"]
    few = planned(path, "--slo", "mean_tpot_ms<=1e9", "--maximize", "workload.concurrency=1:2", "--seeds", 1)
    assert "note" not in few
    cut = planned(path, "--slo", "mean_ttft_ms<=1e9", *ask, "--set", "run.duration_s=0.3")
    assert "still wait when the run ends, and no mean latency counts them" in cut["note"], cut["note"]


def mean_values_have_a_basis_too(folder):
    plan = planned(tiny(folder), "--slo", "mean_e2el_ms<=1e9", *MOST, "--fidelity", "analytic", "--worth", "none")
    run = json.loads(succeeds("run", tiny(folder), "--fidelity", "analytic", "--json", "--quiet"))
    assert plan["basis"] == run["metrics_basis"]["output_throughput"] and plan["badge"], plan
    assert plan["calibrated"] == run["calibrated"]
    assert plan["scenario_in_force"]["workload"]["concurrency"] == 4


def the_interval_is_of_values_that_were_run(folder):
    """surely_held: at it all bounds hold at the far ends of their intervals, and at no run value nearer to the
    answer; surely_broken: the same of one that is broken at the near end. Neither is far off where runs decide."""
    path = tiny(folder)
    plan = planned(path, "--slo", "mean_e2el_ms<=186", "--maximize", "workload.concurrency=1:40", "--seeds", 3,
                   "--worth", "none")
    limit, answer = 186, plan["answer"]["value"]
    run = {point["value"]: point["intervals"][0] for point in plan["choices"][0]["looked_at"]
           if point["by"] == "simulated"}
    held, broken = plan["interval"]["surely_held"], plan["interval"]["surely_broken"]
    sure = [value for value in run if value <= answer and max(run[value]) <= limit]
    lost = [value for value in run if value > answer and min(run[value]) > limit]
    assert held == max(sure, default=None) and broken == min(lost, default=None), (plan["interval"], run)
    assert held is not None and broken is not None, plan["interval"]
    # Closed in on: what lies between was run, or the tries were used up.
    between = [value for value in range(int(held) + 1, int(broken)) if value not in run]
    assert not between or len(run) >= 8, (held, broken, sorted(run))


def multiples_of_top_k_are_a_range(folder):
    path = tiny(folder)
    ask = ("--slo", "mean_e2el_ms<=1e9", "--seeds", 1, "--worth", "none")
    plan = planned(path, *ask, "--minimize", "residency.hot_tokens=1k:4k", "--out", folder / "out")
    assert plan["answer"]["value"] == 1 and plan["question"]["unit"] == "k" and plan["question"]["values"] == 4
    force = json.loads((folder / "out/scenario.json").read_text(encoding="utf-8"))
    assert force["residency"]["hot_tokens"] == "1k", force["residency"]
    assert plan["binding"]["constraint"] == "residency.hot_tokens >= 1k", plan["binding"]
    said = succeeds("plan", path, *ask, "--minimize", "residency.hot_tokens=1k:2k:0.5k", "--quiet")
    assert "the smallest residency.hot_tokens of 1k to 2k" in said and "residency.hot_tokens 1k;" in said, said
    plan = planned(path, *ask, "--maximize", "workload.concurrency=1:2", "--over", "residency.hot_tokens=1k:3k:1k")
    assert sorted(choice["choice"] for choice in plan["choices"]) == ["hot_tokens=%dk" % k for k in (1, 2, 3)]


def what_more_is_worth_says_who_can_tell(folder):
    path = tiny(folder, changes={"cluster.faults": [{"kind": "rank", "at_s": 0.05, "group": "goes_on"}]})
    ask = ("plan", path, "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:2", "--seeds", 1)
    said = re.sub(r"\s+", " ", succeeds(*ask, "--quiet"))
    assert "worth more of something: not told: mean values: cluster.faults" in said, said
    assert "--worth simulated tells it, by runs" in said, said
    assert "not told" not in succeeds(*ask, "--quiet", "--worth", "simulated")


def progress_tells_each_value(folder):
    done = kvtide("plan", tiny(folder), "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:4", "--seeds", 2,
                  "--worth", "none")
    assert done.returncode == 0
    assert re.search(r"^round 1: tiny at 4: mean_e2el_ms [0-9.]+: holds \(2 seeds\)$", done.stderr, re.MULTILINE), done.stderr


# --- Files, bytes, signals --------------------------------------------------------------------------


def the_answers_scenario_runs_by_itself(folder):
    path = tiny(folder)
    plan = planned(path, "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:4", "--seeds", 1,
                   "--over", "residency.policy=hisparse", "--set", "residency.hot_tokens=1024",
                   "--out", folder / "out")
    assert files_below(folder / "out") == ["plan.json", "report.html", "scenario.json"]
    assert json.loads((folder / "out/plan.json").read_text(encoding="utf-8")) == plan
    assert plan["schema"] == "kvtide/plan/1" and plan["ending"] == "complete"
    run = json.loads(succeeds("run", folder / "out/scenario.json", "--json", "--quiet"))
    assert run["metrics"] == plan["answer"]["metrics"]
    assert run["scenario"]["workload"]["requests"] == 8 and run["scenario"]["residency"]["hot_tokens"] == 1024


def threads_do_not_change_a_byte(folder):
    arguments = ("plan", tiny(folder), "--slo", "mean_tpot_ms<=4", "--maximize", INPUT, "--seeds", 2,
                 "--over", "residency.policy=adaptive,hisparse", "--json", "--quiet")
    said = [kvtide(*arguments, "--threads", threads) for threads in (1, 3)]
    assert said[0].returncode in (0, 1) and said[0].stdout, said[0].stderr
    assert said[0].stdout == said[1].stdout


def an_interrupted_plan_says_so(folder):
    path = tiny(folder, changes={"workload.lengths.output.mean_tokens": 4000, "run.fidelity": "exact"})
    process = subprocess.Popen(
        [KVTIDE, "plan", path, "--slo", "mean_e2el_ms<=1e9", "--maximize", "workload.concurrency=1:1000",
         "--no-analytic", "--quiet", "--json", "--out", str(folder / "out")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    support.goes_on(process, 1)
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=support.TIMEOUT_S)
    assert process.returncode == 1, (process.returncode, complained)
    plan = json.loads(said)
    assert plan["ending"] == "interrupted" and plan["met"] is False
    assert files_below(folder / "out") == ["plan.json", "report.html"]


# --- Malformed questions ----------------------------------------------------------------------------

MALFORMED = (
    ((*MOST,), "without a bound the answer is the end of the range"),
    ((*BOUND,), "no objective is given"),
    ((*BOUND, "--maximize", "workload.concurrency"), "workload.concurrency=LOW:HIGH, or a METRIC, is expected"),
    ((*BOUND, "--minimize", "residency.hot_tokens=2k:8000"), "a range is LOW:HIGH:STEP"),
    ((*BOUND, "--minimize", "residency.hot_tokens=2k,8000"), "all values with a k, times top-k, or none"),
    ((*BOUND, *MOST, "--minimize", "workload.concurrency=1:4"), "two objectives are given"),
    ((*MOST, "--slo", "tpot<5"), "no metric \"tpot\""),
    ((*MOST, "--slo", "mean_tpot_ms=5"), "is not METRIC<=LIMIT"),
    ((*MOST, "--slo", "classes"), "has no slo.classes"),
    ((*MOST, "--slo", "class:gold", "--set", 'slo.classes=[{"name": "tin", "share": 1, "ttft_ms": 5}]'),
     "no class \"gold\" among the 1 of slo.classes; the first is tin"),
    ((*BOUND, "--maximize", "workload.concurrency=4:1"), "is empty"),
    ((*BOUND, "--maximize", "workload.concurrency=x,y"), "x"),
    ((*BOUND, "--maximize", "workload.concurency=1:4"), "concurency"),
    ((*BOUND, "--maximize", "nothing_like_it"), "no metric \"nothing_like_it\""),
    ((*BOUND, *MOST, "--over", "residency.policy"), "residency.policy"),
    ((*BOUND, *MOST, "--over", "workload.concurrency=1,2"), "it cannot be a choice as well"),
    ((*BOUND, *MOST, "--over", "seed=1,2", "--over", "seed=3"), "seed is given twice"),
    ((*BOUND, *MOST, "--over", "seed=1:2000:1"), "more than 1024 choices"),
    ((*BOUND, *MOST, "--over", "seed=1,2,1"), "found 1 twice in the list of seed"),
    ((*BOUND, *MOST, "--over", "seed=8,8.0"), "found 8.0 twice in the list of seed"),
    ((*BOUND, "--maximize", "workload.concurrency=1.5:4"),
     "found 1.5 in \"workload.concurrency=1.5:4\", expected whole numbers"),
    ((*BOUND, "--maximize", "workload.closed.concurrency=1:4.5"), "found 4.5"),
    ((*BOUND, "--maximize", "workload.concurrency=1:4:0.5"), "found 0.5"),
    ((*BOUND, "--minimize", "cluster.decode.gpus=2,2.5"), "found 2.5"),
    ((*BOUND, *MOST, "--over", "residency.policy=nonsense"), "nonsense"),
    ((*BOUND, *MOST, "--set", "nonsense=1"), "nonsense"),
    ((*BOUND, *MOST, "--set", "residency=resident", "--set", "residency.hot_tokens=2048"), "hot_tokens"),
    ((*BOUND, *MOST, "--fidelity", "best"), "expected exact, sampled or analytic"),
    ((*BOUND, *MOST, "--fidelity", "analytic", "--no-analytic"), "--fidelity analytic asks for nothing else"),
    ((*BOUND, *MOST, "--worth", "much"), "expected analytic, simulated or none"),
    ((*BOUND, *MOST, "--simulate", "0"), "found 0"),
    ((*BOUND, *MOST, "--simulate", "some"), "some"),
    ((*BOUND, *MOST, "--precision", "2"), "--precision"),
    ((*BOUND, *MOST, "--export", "flags"), "--engine is expected beside it"),
    ((*BOUND, *MOST, "--engine", "vllm"), "--export flags is expected beside it"),
    ((*BOUND, *MOST, "--engine", "vllm", "--export", "yaml"), "expected flags"),
    ((*BOUND, *MOST, "--survive", "gpu=1"), "expected rank=N, node=N"),
    ((*BOUND, *MOST, "--survive", "rank=1"), "run.duration_s is 0"),
    ((*BOUND, *MOST, "--survive", "rank=0@1"), "asks for no fault"),
)


def malformed_questions_are_one_sentence(folder):
    path = tiny(folder)
    for arguments, says in MALFORMED:
        said = refuses(2, "plan", path, *arguments, "--out", folder / "out")
        assert says in said, (arguments, said)
    assert not (folder / "out").exists() or files_below(folder / "out") == []
    for arguments, says in (((path, *BOUND, *MOST, "--seeds", 0), "found 0, expected 1 to 64"),
                            ((path, *BOUND, *MOST, "--threads", 0), "found 0, expected 1 to 256")):
        assert says in refuses(2, "plan", *arguments)
    done = kvtide("plan", *BOUND, *MOST)
    assert done.returncode == 2, done.stderr


CASES = (
    the_answer_is_that_of_looking_at_every_value,
    one_value_is_simulated_without_anything_known_before,
    two_bounds_hold_at_once,
    mean_values_that_are_wrong_do_not_hide_the_answer,
    the_end_of_the_range_binds_where_every_value_holds,
    what_cannot_be_reached_ends_with_1_and_the_nearest,
    an_answer_to_another_question_does_not_stay,
    a_metric_is_the_best_of_the_choices_that_hold,
    gpus_take_their_replicas_along,
    what_goes_along_needs_no_scenario_that_runs_without_it,
    replicas_and_experts_that_are_set_stay,
    requests_that_are_set_say_how_many_are_for_each,
    a_choice_that_is_refused_is_told_with_its_reason,
    only_the_best_by_mean_values_are_simulated,
    classes_bring_their_own_bounds,
    what_fails_is_part_of_the_runs,
    what_cannot_fail_is_refused,
    who_never_decodes_again_breaks_the_bounds,
    the_answer_becomes_flags_or_obstacles,
    an_engine_is_started_with_the_load_of_the_answer,
    a_bound_without_a_value_says_why,
    the_nearest_by_one_seed_is_no_mean_value,
    a_question_that_no_run_answers_is_malformed,
    a_refusal_names_what_was_asked_for,
    what_binds_by_mean_values_has_its_figure,
    a_load_that_waits_is_noted,
    mean_values_have_a_basis_too,
    the_interval_is_of_values_that_were_run,
    multiples_of_top_k_are_a_range,
    what_more_is_worth_says_who_can_tell,
    progress_tells_each_value,
    the_answers_scenario_runs_by_itself,
    threads_do_not_change_a_byte,
    an_interrupted_plan_says_so,
    malformed_questions_are_one_sentence,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
