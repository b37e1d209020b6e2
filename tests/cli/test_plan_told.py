"""kvtide plan: what it tells beside an answer, and of how near it came without one."""
import csv
import json
import math
import re
import subprocess
import sys

import support
from support import files_below, kvtide, refuses, succeeds, tiny
from test_plan import BOUND, INPUT, MOST, curve_of, planned

ONE_SEED = ("--seeds", 1, "--worth", "none")


def told(*arguments, status=0):
    """The text, without its lines' ends."""
    done = kvtide("plan", *arguments, "--quiet")
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return re.sub(r"\s+", " ", done.stdout)


# --- Beside an answer -------------------------------------------------------------------------------


def an_answer_that_more_arrives_at_than_can_be_done_says_so(folder):
    """A prompt takes 41 ms: of 50 a second twice as many come as can be prefilled, of 2 few."""
    path = tiny(folder, changes={
        "workload": {"arrival": "open", "rate": 1, "requests": 40, "lengths": support.TINY["workload"]["lengths"]},
        "cluster.prefill": {"mode": "separate", "tokens_per_s": 100000}})
    out = folder / "out"
    for bound, how in (("mean_ttft_ms<=1e9", ()), ("p99_ttft_ms<=1e9", ()),
                       ("mean_ttft_ms<=1e9", ("--fidelity", "analytic"))):
        ask = (path, "--slo", bound, *ONE_SEED, *how, "--maximize")
        note = planned(*ask, "workload.rate=1:50", "--out", out)["note"]
        run = json.loads(succeeds("run", out / "scenario.json", "--fidelity", "analytic", "--json", "--quiet"))
        assert run["stage_load"]["prefill"] > 2, run["stage_load"]
        assert note.startswith("at the answer more arrives than can be done by prefill (%.2f times)"
                               % run["stage_load"]["prefill"]), note
        assert "only because the run ends after 40 requests" in note, note
        assert "note" not in planned(*ask, "workload.rate=1:2"), bound
    # Without mean values: requests that have come before half of the run is over.
    ask = (path, "--slo", "mean_ttft_ms<=1e9", *ONE_SEED, "--no-analytic", "--maximize")
    plan = planned(*ask, "workload.rate=1:50")
    metrics = plan["answer"]["metrics"]
    assert 40 / 50 < metrics["duration"] / 2, metrics["duration"]
    assert plan["note"].startswith("at the answer the last of its 40 requests comes at 0.8 s of a run of %.4g s: they "
                                   "are a burst" % metrics["duration"]), plan["note"]
    assert "more requests (workload.requests)" in plan["note"], plan["note"]
    assert "note" not in planned(*ask, "workload.rate=1:2")


def a_run_that_no_load_lasts_in_is_told_of_whatever_arrives(folder):
    """By when requests came, which the run says itself; not by the rate that somebody asked for."""
    lengths = support.TINY["workload"]["lengths"]
    sessions = {"arrival": "sessions", "concurrency": 4, "new_tokens": [2048], "output_tokens": [40]}
    here = {}
    for name, gap_s in (("burst", 0.005), ("even", 0.5)):
        here[name] = folder / ("%s.csv" % name)
        here[name].write_text("\n".join(["arrival_s,input_tokens,output_tokens"]
                                        + ["%g,4096,40" % (at * gap_s) for at in range(24)]) + "\n")
    burst, wave = "the last of its %d requests comes at %s s", "its %d requests all come at 0 s"
    cases = (
        ("rate", {"arrival": "open", "rate": 100, "burstiness": 0.05, "requests": 24, "lengths": lengths},
         burst % (24, "0.24"), "workload.requests"),
        ("rate", {"arrival": "open", "rate": 2, "burstiness": 0.05, "requests": 24, "lengths": lengths}, None, None),
        ("rate_scale", {"arrival": "trace", "path": str(here["burst"])}, burst % (24, "0.115"), "workload.window"),
        ("rate_scale", {"arrival": "trace", "path": str(here["even"])}, None, None),
        ("concurrency", {"arrival": "closed", "concurrency": 6, "requests": 6, "lengths": lengths}, wave % 6,
         "workload.requests"),
        ("concurrency", {"arrival": "closed", "concurrency": 6, "requests": 12, "lengths": lengths}, None, None),
        ("concurrency", dict(sessions, conversations=4, turns=1), wave % 4, "workload.conversations"),
        ("concurrency", dict(sessions, conversations=4, turns=3, think_s=0.1), None, None),
        # In a closed loop a last turn that takes nine tenths of the run is part of the load.
        ("concurrency", dict(sessions, conversations=4, turns=2, output_tokens=[20, 200]), None, None),
        (None, {"arrival": "phases", "phases": [{"concurrency": 4, "seconds": 0.05}], "lengths": lengths}, wave % 4,
         "longer phases"),
        (None, {"arrival": "phases", "phases": [{"concurrency": 4, "seconds": 0.5}, {"concurrency": 1, "seconds": 2}],
                "lengths": lengths}, None, None),
        ("concurrency", {"arrival": "closed", "concurrency": 6, "lengths": lengths}, wave % 6, "run.duration_s"))
    for key, workload, says, longer in cases:
        path = tiny(folder, changes={"workload": workload})
        value = workload.get(key, 1)
        goal = "workload.%s=%g:%g" % (key, value, value) if key else "cluster.decode.pools.unified_gib=0.02:0.021"
        cut = ("--set", "run.duration_s=0.05") if longer == "run.duration_s" else ()
        plan = planned(path, "--slo", "mean_ttft_ms<=1e9", *ONE_SEED, "--no-analytic", *cut, "--maximize", goal)
        if says is None:
            assert "note" not in plan, (workload, plan["note"])
            continue
        assert plan["note"].startswith("at the answer " + says) and longer in plan["note"], (workload, plan.get("note"))
    # Few have come for the rate, but until the end: no burst. The run without an end of its requests is cut.
    slow = {"arrival": "open", "rate": 1, "burstiness": 0.2, "lengths": lengths}
    path = tiny(folder, changes={"workload": slow, "run.duration_s": 20})
    for seed in range(1, 40):
        requests = json.loads(succeeds("run", path, "--json", "--quiet", "--seed", seed))["requests"]
        if requests["arrived"] < 10 and requests["last_arrival_s"] > 10:
            break
    else:
        raise AssertionError("no such seed")
    assert "note" not in planned(path, "--slo", "mean_ttft_ms<=1e9", *ONE_SEED, "--no-analytic", "--set",
                                 "seed=%d" % seed, "--maximize", "workload.rate=1:1")


def a_bound_that_is_broken_by_little_is_told_from_its_limit(folder):
    path = tiny(folder)
    curve = curve_of(path, "mean_e2el_ms", (1,))
    limit = curve[8] * (1 - 2e-6)
    assert max(curve[value] for value in range(1, 8)) < limit < min(curve[9], curve[10]), curve
    ask = (path, "--slo", "mean_e2el_ms<=%r" % limit, *ONE_SEED, "--maximize")
    found = re.search(r"binding mean_e2el_ms<=[0-9.]+: ([0-9.]+) at 8", told(*ask, INPUT))
    assert found and float(found[1]) > limit, found
    said = told(*ask, "workload.concurrency=8:8", status=1)
    found = re.search(r"nearest mean_e2el_ms<=[0-9.]+: ([0-9.]+) with", said)
    assert found and float(found[1]) > limit and found[1] + "*" in said, said


def large_values_are_told_in_full(folder):
    path = tiny(folder)
    said = told(path, "--fidelity", "analytic", "--slo", "mean_e2el_ms<=1000000", "--slo", "slots>=1", "--set",
                "workload.lengths.output.mean_tokens=4000", "--worth", "none", "--maximize", INPUT)
    figure = re.search(r"answer .*?mean_e2el_ms ([0-9.e+]+)", said)
    assert figure and float(figure[1]) >= 1e4 and "e" not in figure[1], said


def output_by_mean_values_stands_beside_the_answer(folder):
    ask = (tiny(folder), "--fidelity", "analytic", *BOUND, "--maximize", INPUT, "--worth", "none")
    plan = json.loads(told(*ask, "--json"))
    output = plan["choices"][0]["metrics_analytic"]["output_throughput_per_gpu"]
    line = re.search(r"bound 1 (\S+) (\d+) (\d+) (\S+) ", told(*ask))
    assert line and math.isclose(float(line[4]), output, rel_tol=1e-3), (line, output)


def a_metric_that_is_like_none_is_compared_to_none(folder):
    for name, nearest in (("tpot", "the nearest is mean_tpot_ms"), ("mean_tpot", "the nearest is mean_tpot_ms"), ("cost", "list metrics")):
        said = refuses(2, "plan", tiny(folder), "--slo", name + "<=3", "--maximize", INPUT)
        assert nearest in said and ("nearest" in said) == ("nearest" in nearest), said


def rounding_is_worth_nothing(folder):
    """Of a metric the change is a product and a quotient, which do not give back what went in."""
    path = tiny(folder)
    seen = 0
    for metric in ("output_throughput", "total_token_throughput", "request_throughput", "output_throughput_per_gpu"):
        for seed in range(1, 9):
            plan = planned(path, "--maximize", metric, "--seeds", 1, "--set", "seed=%d" % seed)
            for worth in plan["worth"]:
                if worth["answer"] is None:
                    continue
                seen += worth["difference"] == 0
                assert worth["difference"] == 0 or abs(worth["difference"]) > 1e-9 * worth["answer"], worth
    assert seen > 0


def a_factor_makes_whole_numbers_of_a_count(folder):
    plan = planned(tiny(folder), "--slo", "mean_e2el_ms<=1e9", *ONE_SEED, "--maximize", "workload.concurrency=1:9:*1.5")
    assert plan["answer"]["value"] == 8 and plan["binding"]["kind"] == "range", plan["answer"]  # 7.59375
    looked = sorted({point["value"] for point in plan["choices"][0]["looked_at"]})
    assert looked == [1, 2, 3, 5, 8] and plan["question"]["values"] == 5, looked
    # A rate is no count.
    rates = planned(tiny(folder, changes={"workload": {"arrival": "open", "rate": 1, "requests": 4, "lengths":
                                                       support.TINY["workload"]["lengths"]}}),
                    "--slo", "mean_e2el_ms<=1e9", *ONE_SEED, "--maximize", "workload.rate=1:2:*1.5")
    assert rates["answer"]["value"] == 1.5, rates["answer"]


def prefill_gpus_are_judged_by_a_value_that_is_asked_for(folder):
    """1 GPU, the default, makes no server of 4."""
    path = tiny(folder, changes={"cluster.prefill": {"mode": "separate", "tokens_per_s": 100000}})
    plan = planned(path, "--set", "cluster.prefill.tp=4", "--slo", "mean_e2el_ms<=1e9", *ONE_SEED, "--minimize",
                   "cluster.prefill.gpus=4:12:4")
    assert plan["answer"]["value"] == 4, plan["answer"]


# --- Without an answer ------------------------------------------------------------------------------


def the_nearest_is_the_best_of_all_that_was_looked_at(folder):
    path = tiny(folder)
    latency, output = curve_of(path, "p99_e2el_ms", (1,)), curve_of(path, "output_throughput", (1,))
    tpot = curve_of(path, "mean_tpot_ms", (1,))
    assert max(output, key=output.get) == 10 and max(tpot, key=tpot.get) > 8
    # By the first seed: what no value holds ends the search before it comes to where the other is best.
    plan = planned(path, "--slo", "p99_e2el_ms<=0.001", "--slo", "output_throughput>=%r" % (output[10] * 0.999),
                   "--maximize", INPUT, *ONE_SEED, status=1)
    assert [item["at"] for item in plan["nearest"]] == [min(latency, key=latency.get), 10], plan["nearest"]
    for item, wanted in zip(plan["nearest"], (min(latency.values()), output[10])):
        assert item["by"] == "simulated" and math.isclose(item["value"], wanted, rel_tol=1e-12), item
    # By mean values: two bounds on one metric that exclude each other.
    middle = (tpot[1] + tpot[10]) / 2
    plan = planned(path, "--slo", "mean_tpot_ms<=%r" % (middle * 0.99), "--slo", "mean_tpot_ms>=%r" % (middle * 1.01),
                   "--maximize", INPUT, *ONE_SEED, status=1)
    most = max(tpot, key=tpot.get)
    assert plan["nearest"][0]["at"] == min(tpot, key=tpot.get) and plan["nearest"][1]["at"] == most, plan["nearest"]
    assert math.isclose(plan["nearest"][1]["value"], tpot[most], rel_tol=1e-12), plan["nearest"]
    assert {item["by"] for item in plan["nearest"]} == {"simulated"}


def where_nothing_is_left_no_group_can_go_on(folder):
    """And one value says it of all."""
    path = tiny(folder)
    for bound in ("mean_tpot_ms<=1e9", "p99_tpot_ms<=1e9"):
        for sets in ((), ("--set", "run.duration_s=0.4")):
            plan = planned(path, "--slo", bound, "--maximize", "workload.concurrency=2:40", *ONE_SEED, *sets,
                           "--survive", "node=1@0.05", status=1)
            assert plan["note"].startswith("node=1 is all that cluster.decode has: nothing is left"), plan["note"]
            assert "goes_on" not in plan["note"] and "back_after_s" in plan["note"]
            assert plan["choices"][0]["method"]["values_run"] == 1, plan["choices"][0]["method"]
    back = '{"kind": "node", "at_s": 0.05, "back_after_s": 0.1}'
    assert planned(path, "--slo", "mean_tpot_ms<=1e9", "--maximize", "workload.concurrency=2:4", *ONE_SEED,
                   "--survive", back)["met"]
    # Of two nodes one is left: as many values as it takes.
    plan = planned(path, "--slo", "mean_tpot_ms<=1e9", "--maximize", "workload.concurrency=8:9", *ONE_SEED, "--set",
                   "cluster.decode.gpus=16", "--set", "cluster.decode.dp=auto", "--survive", "node=1@0.02", status=1)
    assert "goes_on" in plan["note"], plan["note"]


def a_value_whose_run_ends_before_the_fault_is_not_judged(folder):
    """Few requests are soon done; what is asked holds up to some count of those that are struck."""
    path = tiny(folder)
    fault = '{"kind": "rank", "at_s": 0.4, "group": "goes_on"}'
    ask = (path, "--maximize", "workload.requests=8:40", *ONE_SEED, "--survive", fault)
    swept = folder / "swept"
    succeeds("sweep", path, "--vary", "workload.requests=8:40:1", "--set", "cluster.faults=[%s]" % fault, "--out", swept,
             "--quiet")
    with open(swept / "results.csv", newline="") as stream:
        rows = {int(row["workload.requests"]): row for row in csv.DictReader(stream)}
    struck = {at: float(row["duration"]) for at, row in rows.items() if row["faults"] == "1"}
    assert len(rows) == 33 and 8 not in struck and 40 in struck and 5 < len(struck) < 30, sorted(struck)
    low, *_, high = sorted(struck)
    for at in (low, (low + high) // 2):
        holds = [other for other in struck if struck[other] <= struck[at] * 1.0001]
        for how in ((), ("--no-analytic",)):
            plan = planned(*ask, *how, "--slo", "duration<=%r" % (struck[at] * 1.0001))
            assert plan["met"] and plan["answer"]["value"] == max(holds), (how, plan["answer"], holds)
    # None that is struck holds; of the others nobody knows, and the plan says of which.
    plan = planned(*ask, "--slo", "duration<=%r" % (min(struck.values()) * 0.999), status=1)
    untested = plan["choices"][0]["untested"]
    assert untested[0] == 8 and untested[-1] == low - 1 and not struck.keys() & set(untested), untested
    assert plan["note"].startswith("at workload.requests of 8") and "before the fault" in plan["note"], plan["note"]
    assert plan["choices"][0]["status"] == "unreachable" and plan["nearest"][0]["at"] in struck, plan["nearest"]
    # The least that can be tested is an answer, and no bound what stops it.
    least = (path, "--minimize", *ask[2:])
    plan = planned(*least, "--slo", "duration<=1e9")
    assert plan["answer"]["value"] == low and plan["binding"]["kind"] == "untested", plan["binding"]
    assert plan["binding"]["at"] == low - 1 and "not tested there" in plan["note"], plan["note"]
    said = told(*least, "--slo", "duration<=1e9")
    assert "binding nothing that was tested; at %d" % (low - 1) in said and "the scenario takes no" not in said, said
    # All are: refused, as one is.
    said = refuses(2, "plan", *ask[:-1], fault.replace("0.4", "40"), "--slo", "duration<=1", "--quiet")
    assert "never strikes" in said, said


def the_fastest_that_a_fault_strikes_is_found_below_runs_that_are_over_before_it(folder):
    """At high rates runs are short; by seeds, a value is judged only where the fault strikes on all of them."""
    path = tiny(folder, changes={"workload": {"arrival": "open", "rate": 20, "requests": 24,
                                              "lengths": support.TINY["workload"]["lengths"]}})
    fault = '{"kind": "rank", "at_s": 0.9, "group": "goes_on"}'
    rates = "workload.rate=" + ",".join(map(str, range(14, 41)))
    swept = folder / "swept"
    succeeds("sweep", path, "--vary", rates, "--seeds", 3, "--set", "cluster.faults=[%s]" % fault, "--out", swept,
             "--quiet")
    with open(swept / "results.csv", newline="") as stream:
        rows = {int(row["workload.rate"]): row for row in csv.DictReader(stream)}
    struck = [at for at, row in rows.items() if float(row["faults"]) == 1]
    partly = [at for at, row in rows.items() if 0 < float(row["faults"]) < 1]
    assert partly and 14 in struck and max(struck) < min(partly), (struck, partly)
    ask = (path, "--seeds", 3, "--worth", "none", "--survive", fault, "--maximize", rates)
    # Also where the slowest does not hold, so that nothing is learnt of it but where runs are longer.
    output = {at: float(rows[at]["output_throughput"]) for at in struck}
    least = output[struck[len(struck) // 2]] * 0.9999
    assert output[14] < least
    # The last begins by mean values among those that are spared, and at the low end, which is struck, a bound is broken.
    e2el = json.loads(succeeds("run", path, "--set", "workload.rate=36", "--fidelity", "analytic", "--json",
                               "--quiet"))["metrics"]["mean_e2el_ms"]
    assert max(partly) < 36 and e2el > max(float(rows[at]["mean_e2el_ms"]) for at in struck)
    for bounds in (("mean_e2el_ms<=1e9",), ("output_throughput>=%r" % least,),
                   ("output_throughput>=%r" % least, "mean_e2el_ms<=%r" % (e2el * 1.001))):
        plan = planned(*ask, *(word for bound in bounds for word in ("--slo", bound)))
        assert plan["met"] and plan["answer"]["value"] == max(struck), (bounds, plan["answer"], struck)
        assert plan["binding"]["kind"] == "untested" and plan["interval"]["surely_broken"] is None, plan["binding"]
        assert plan["interval"]["surely_held"] in struck, plan["interval"]
        assert not set(plan["choices"][0]["untested"]) & set(struck), plan["choices"][0]


def an_interval_looks_beyond_runs_that_the_fault_spared(folder):
    """Its lower end lies between those, which say nothing, and the answer: a bound holds there for sure."""
    path = tiny(folder)
    fault = '{"kind": "rank", "at_s": 0.6, "group": "goes_on"}'
    swept = folder / "swept"
    succeeds("sweep", path, "--vary", "workload.requests=15:28:1", "--seeds", 3, "--set", "cluster.faults=[%s]" % fault,
             "--out", swept, "--quiet")
    with open(swept / "results.csv", newline="") as stream:
        rows = {int(row["workload.requests"]): row for row in csv.DictReader(stream)}
    limit = float(rows[28]["duration"]) * 1.0001
    surely = [at for at, row in rows.items() if float(row["faults"]) == 1 and float(row["duration_ci95_high"]) <= limit]
    assert surely and float(rows[15]["faults"]) < 1, surely
    plan = planned(path, "--maximize", "workload.requests=8:40", "--seeds", 3, "--worth", "none", "--survive", fault,
                   "--slo", "duration<=%r" % limit)
    assert plan["answer"]["value"] == 28 and plan["choices"][0]["untested"], plan["choices"][0]
    assert plan["interval"]["surely_held"] in surely, (plan["interval"], surely)


# --- Files ------------------------------------------------------------------------------------------


def a_full_disk_does_not_take_the_answer(folder):
    path, small = tiny(folder), folder / "small"
    small.mkdir()
    if subprocess.run(("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)), capture_output=True).returncode:
        raise support.Skip("no file system of its own can be mounted here")
    try:
        done = kvtide("plan", path, *BOUND, *MOST, *ONE_SEED, "--json", "--quiet", "--out", small / "out")
        assert done.returncode == 3 and "No space left on device" in done.stderr, done.stderr
        assert files_below(small / "out") == ["plan.json", "scenario.json"], files_below(small / "out")
        assert "plan.json and scenario.json are in" in done.stderr, done.stderr
        assert done.stdout == (small / "out/plan.json").read_text(encoding="utf-8")
    finally:
        subprocess.run(("umount", str(small)), check=True)


CASES = (
    an_answer_that_more_arrives_at_than_can_be_done_says_so,
    a_run_that_no_load_lasts_in_is_told_of_whatever_arrives,
    a_bound_that_is_broken_by_little_is_told_from_its_limit,
    large_values_are_told_in_full,
    output_by_mean_values_stands_beside_the_answer,
    a_metric_that_is_like_none_is_compared_to_none,
    rounding_is_worth_nothing,
    a_factor_makes_whole_numbers_of_a_count,
    prefill_gpus_are_judged_by_a_value_that_is_asked_for,
    the_nearest_is_the_best_of_all_that_was_looked_at,
    where_nothing_is_left_no_group_can_go_on,
    a_value_whose_run_ends_before_the_fault_is_not_judged,
    the_fastest_that_a_fault_strikes_is_found_below_runs_that_are_over_before_it,
    an_interval_looks_beyond_runs_that_the_fault_spared,
    a_full_disk_does_not_take_the_answer,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
