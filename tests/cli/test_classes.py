"""SLO classes and kinds of requests: what is told of them, counted again from requests.csv."""
import csv
import json
import random
import sys

import support
from support import changed, refuses, succeeds

NEVER = ""
SHORT = {"input": {"law": "fixed", "tokens": 1500}, "output": {"law": "fixed", "tokens": 20}}
LONG = {"input": {"law": "lognormal", "mean_tokens": 6000, "cv": 0.4},
        "output": {"law": "lognormal", "mean_tokens": 60, "cv": 0.5}}
MIXED = {
    "workload": {"arrival": "open", "rate": 60, "requests": 60, "classes": [
        {"name": "short", "share": 0.6, "lengths": SHORT, "slo_class": "chat"},
        {"name": "long", "share": 0.4, "lengths": LONG, "slo_class": "batch"}]},
    "slo": {"classes": [
        {"name": "chat", "share": 0.5, "ttft_ms": 60, "tpot_ms": 6, "attain": 0.9},
        {"name": "batch", "share": 0.5, "priority": 3, "e2el_ms": 900, "tpot_ms": 8}]},
}


def run(folder, changes, *words):
    """(result, rows of requests.csv) of the small scenario, changed."""
    path = folder / "scenario.json"
    path.write_text(json.dumps(changed(support.TINY, changes)), encoding="utf-8")
    printed = succeeds("run", path, "--quiet", "--json", "--out", "out", *words, cwd=folder)
    with open(folder / "out/requests.csv", encoding="utf-8", newline="") as file:
        return json.loads(printed), list(csv.DictReader(file))


def near(a, b):
    assert (a is None) == (b is None), (a, b)
    assert a is None or abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-12), (a, b)


def percentile(values, fraction):
    """numpy's linear one."""
    if not values:
        return None
    values = sorted(values)
    at = fraction * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def latencies(row):
    """ttft, tpot and e2el in ms, None where there is none."""
    arrival, first, last, end = (int(row[name]) if row[name] != NEVER else None for name in (
        "arrival_ns", "first_token_ns", "last_token_ns", "finished_ns"))
    tokens = int(row["generated_tokens"])
    return (None if first is None else (first - arrival) / 1e6,
            None if first is None or tokens < 2 else (last - first) / 1e6 / (tokens - 1),
            None if end is None else (end - arrival) / 1e6)


def within(row, slo):
    bounds = (slo.get("ttft_ms"), slo.get("tpot_ms"), slo.get("e2el_ms"))
    return all(not bound or ms is None or ms <= bound
               for ms, bound in zip(latencies(row), bounds))


def is_late(row, slo, end_ms):
    """Of one that has not ended: would it be, if all that it lacks came now?"""
    age = end_ms - int(row["arrival_ns"]) / 1e6
    ttft = latencies(row)[0]
    left = 0
    if ttft is not None and int(row["output_tokens"]) > 1:
        left = (end_ms - int(row["first_token_ns"]) / 1e6) / (int(row["output_tokens"]) - 1)
    bounds = (slo.get("ttft_ms"), slo.get("tpot_ms"), slo.get("e2el_ms"))
    return any(bound and ms > bound
               for ms, bound in zip((age if ttft is None else ttft, left, age), bounds))


def check_group(told, rows, slo_of, duration_s, end_ms, warmup_ms):
    """Everything that a class or a kind is told to be, from its rows."""
    late = met = completed = dropped = open_ = 0
    for row in rows:
        ended = row["status"] == "completed"
        if ended and int(row["finished_ns"]) / 1e6 < warmup_ms:
            continue
        if row["status"] == "unservable":
            dropped += int(row["arrival_ns"]) / 1e6 >= warmup_ms
        elif ended:
            completed += 1
            ok = within(row, slo_of[row["slo_class"]])
            assert row["slo_met"] == str(int(ok)), row
            met += ok
        else:
            open_ += 1
            assert row["slo_met"] == "", row
            late += is_late(row, slo_of[row["slo_class"]], end_ms)
    assert (told["completed"], told["dropped"], told["met"], told["late"], told["requests"]) == (
        completed, dropped, met, late, completed + dropped + open_), told
    decided = completed + dropped + late
    near(told["attained_share"], met / decided if decided else None)
    near(told["request_goodput"], met / duration_s)
    counted = [latencies(row) for row in rows if int(row["arrival_ns"]) / 1e6 >= warmup_ms]
    for i, key in enumerate(("ttft", "tpot", "e2el")):
        values = [one[i] for one in counted if one[i] is not None]
        near(told["mean_%s_ms" % key], sum(values) / len(values) if values else None)
        near(told["p50_%s_ms" % key], percentile(values, 0.5))
        near(told["p99_%s_ms" % key], percentile(values, 0.99))


def violated_s(rows, slos, interval_s, end_s):
    """Seconds of intervals in which some of these classes fell short."""
    bad = set()
    for slo in slos:
        ends = {}
        for row in rows:
            if row["status"] == "completed" and row["slo_class"] == slo["name"]:
                at = int(int(row["finished_ns"]) / (interval_s * 1e9))
                ends.setdefault(at, []).append(within(row, slo))
        bad |= {at for at, met in ends.items() if sum(met) < slo.get("attain", 0.99) * len(met)}
    return sum(min(interval_s, end_s - at * interval_s) for at in bad)


def check_run(result, rows):
    metrics, slos = result["metrics"], result["scenario"]["slo"]["classes"]
    slo_of = {slo["name"]: slo for slo in slos}
    end_s = metrics["duration"] + result["warmup_s"]
    sides = (metrics["duration"], end_s * 1e3, result["warmup_s"] * 1e3)
    for told in result["classes"]:
        check_group(told, [row for row in rows if row["slo_class"] == told["name"]], slo_of, *sides)
        near(told["attain"], slo_of[told["name"]]["attain"])
    for told in result.get("kinds", []):
        check_group(told, [row for row in rows if row["kind"] == told["name"]], slo_of, *sides)
    for key in ("requests", "completed", "met", "late", "dropped"):
        if "kinds" in result:
            assert sum(one[key] for one in result["classes"]) == sum(
                one[key] for one in result["kinds"]), key
    assert sum(one["completed"] for one in result["classes"]) == metrics["completed"]
    near(sum(one["request_goodput"] for one in result["classes"]), metrics["request_goodput"])
    assert metrics["request_goodput"] <= metrics["request_throughput"] + 1e-12
    shares = [one["attained_share"] for one in result["classes"] if one["requests"]]
    if None not in shares:
        near(metrics["slo_attained_share"], min(shares))
        near(metrics["slo_margin"], min(one["attained_share"] - one["attain"]
                                        for one in result["classes"] if one["requests"]))
    if result["warmup_s"] == 0:
        interval_s = result["scenario"]["run"]["interval_s"]
        near(metrics["slo_violation_s"], violated_s(rows, slos, interval_s, end_s))
        for told in result["classes"]:
            near(told["slo_violation_s"],
                 violated_s(rows, [slo_of[told["name"]]], interval_s, end_s))


def what_is_told_of_classes_and_kinds_is_in_the_requests(folder):
    result, rows = run(folder, MIXED)
    check_run(result, rows)
    assert [one["name"] for one in result["classes"]] == ["chat", "batch"]
    assert [one["name"] for one in result["kinds"]] == ["short", "long"]
    assert all(row["slo_class"] == {"short": "chat", "long": "batch"}[row["kind"]] for row in rows)
    assert all(row["input_tokens"] == "1500" for row in rows if row["kind"] == "short")
    assert 0 < result["classes"][0]["met"] < result["classes"][0]["completed"], result["classes"]


def so_it_is_where_a_run_is_cut_short_warmed_up_or_drops_some(folder):
    result, rows = run(folder, {**MIXED, "run.duration_s": 0.6})
    check_run(result, rows)
    assert sum(one["late"] for one in result["classes"]) > 0
    assert sum(one["requests"] - one["completed"] for one in result["classes"]) > 0
    result, rows = run(folder, {**MIXED, "run.warmup": {"rule": "seconds", "value": 0.3}})
    assert result["warmup_s"] > 0
    check_run(result, rows)
    # Prompts that no rank can ever hold.
    unfit = {**MIXED, "cluster.decode.pools": {"unified_gib": 0.003},
             "cluster.decode.growth_reserve_gib": 0}
    result, rows = run(folder, unfit)
    assert sum(one["dropped"] for one in result["classes"]) > 0, result["classes"]
    check_run(result, rows)


def drawn_settings_all_add_up(folder):
    draws = random.Random(2385)
    for _ in range(12):
        shares = [draws.random() for _ in range(3)]
        kinds = [{"name": "k%d" % i, "share": share / sum(shares), "lengths": {
            "input": {"law": "fixed", "tokens": draws.randrange(300, 8000)},
            "output": {"law": "lognormal", "mean_tokens": draws.randrange(5, 60), "cv": 0.7}}}
            for i, share in enumerate(shares)]
        if draws.random() < 0.5:
            kinds[0]["slo_class"] = "b"
        slos = [{"name": name, "share": 0.5, "attain": draws.random(),
                 "priority": draws.randrange(3), **{
                     bound: draws.choice((0, draws.uniform(1, most)))
                     for bound, most in (("ttft_ms", 200), ("tpot_ms", 12), ("e2el_ms", 900))}}
                for name in ("a", "b")]
        arrival = draws.choice((
            {"arrival": "open", "rate": draws.uniform(10, 100), "requests": 40},
            {"arrival": "closed", "concurrency": draws.randrange(1, 20), "requests": 40},
            {"arrival": "phases", "phases": [{"concurrency": 3, "seconds": 0.2},
                                             {"concurrency": 9, "seconds": 0.2}]}))
        prefill = draws.choice((
            {}, {"cluster.prefill": {"mode": "separate", "tokens_per_s": 60000, "gpus": 2}}))
        result, rows = run(folder, {
            "workload": {**arrival, "classes": kinds}, "slo": {"classes": slos}, **prefill,
            "seed": draws.randrange(1000), "run.interval_s": draws.choice((0.05, 0.1, 1)),
            "run.duration_s": draws.choice((0, 0.35))})
        check_run(result, rows)


def without_classes_there_is_no_such_block(folder):
    result, rows = run(folder, {})
    assert "classes" not in result and "kinds" not in result
    assert result["metrics"]["slo_margin"] is None
    assert all(row["kind"] == row["slo_met"] == "" for row in rows)
    result, _ = run(folder, {"workload": MIXED["workload"]
                             | {"classes": [{"name": "any", "share": 1, "lengths": SHORT}]}})
    assert "classes" not in result
    assert result["kinds"][0]["attained_share"] is None and result["kinds"][0]["met"] == 0


def a_name_with_a_comma_keeps_its_column(folder):
    named = changed(MIXED, {"slo": {"classes": [{"name": 'a, "b"', "share": 1}]}})
    for kind in named["workload"]["classes"]:
        del kind["slo_class"]
    result, rows = run(folder, named)
    assert {row["slo_class"] for row in rows} == {'a, "b"'}
    check_run(result, rows)


def vllms_goodput_is_one_class(folder):
    result, rows = run(folder, {}, "--goodput", "ttft:2", "tpot:5")
    assert [one["name"] for one in result["classes"]] == ["all"]
    check_run(result, rows)


def a_trace_names_classes_and_tasks(folder):
    text = "arrival_s,input_tokens,output_tokens,slo_class\n" + "".join(
        "%g,2000,20,%s\n" % (0.01 * i, "batch" if i % 3 == 0 else "chat") for i in range(30))
    (folder / "trace.csv").write_text(text, encoding="utf-8")
    result, rows = run(folder, {"workload": {"arrival": "trace", "path": "./trace.csv"},
                                "slo": MIXED["slo"]})
    check_run(result, rows)
    assert [one["requests"] for one in result["classes"]] == [20, 10]


def the_urgent_wait_less(folder):
    """For memory, where little is there; and for the prefill pool, where it is slow."""
    crowded = {**MIXED, "workload.rate": 400, "cluster.decode.pools": {"unified_gib": 0.012},
               "residency.hot_tokens": 1024}
    slow = {**MIXED, "cluster.prefill": {"mode": "separate", "tokens_per_s": 100000}}
    for base in (crowded, slow):
        ttft = {}
        for chat, batch in ((0, 3), (3, 0), (0, 0)):
            slos = [dict(MIXED["slo"]["classes"][0], priority=chat),
                    dict(MIXED["slo"]["classes"][1], priority=batch)]
            result, rows = run(folder, {**base, "slo": {"classes": slos}})
            check_run(result, rows)
            ttft[chat, batch] = [one["mean_ttft_ms"] for one in result["classes"]]
        assert ttft[0, 3][0] < 0.8 * ttft[0, 0][0], ttft
        assert ttft[3, 0][1] < 0.8 * ttft[0, 0][1], ttft
        assert ttft[0, 3][1] > ttft[0, 0][1] and ttft[3, 0][0] > ttft[0, 0][0], ttft


def the_summary_has_a_line_a_class(folder):
    long = "a class of thirty characters.."
    slos = [dict(MIXED["slo"]["classes"][0], name=long), MIXED["slo"]["classes"][1]]
    kinds = [dict(MIXED["workload"]["classes"][0], slo_class=long),
             MIXED["workload"]["classes"][1]]
    path = folder / "scenario.json"
    path.write_text(json.dumps(changed(support.TINY, {
        **MIXED, "slo": {"classes": slos}, "workload.classes": kinds})), encoding="utf-8")
    lines = succeeds("run", path, "--quiet").splitlines()
    at = [i for i, line in enumerate(lines) if line.startswith("class (p99)")][0]
    assert lines[at + 1].startswith("a class of thirty .. "), lines[at + 1]
    assert lines[at + 2].startswith("batch    "), lines[at + 2]
    assert all(len(line) <= 80 for line in lines), lines


def mean_values_take_kinds_without_classes(folder):
    """A mixture of answers as the run draws them; of prompts the mean."""
    kinds = [{"name": name, "share": 0.5, "lengths": {
        "input": {"law": "fixed", "tokens": 4096},
        "output": {"law": "fixed", "tokens": tokens}}} for name, tokens in (("a", 20), ("b", 120))]
    closed = {"workload": {"arrival": "closed", "concurrency": 6, "requests": 240,
                           "classes": kinds}, "selection": {"law": "tape", "tapes": 4},
              "slo": MIXED["slo"]}
    exact, _ = run(folder, {**closed, "run.fidelity": "exact"})
    mean, rows = run(folder, closed, "--fidelity", "analytic")
    assert not rows and "classes" not in mean and "kinds" not in mean
    for key, most in (("output_throughput", 0.05), ("mean_tpot_ms", 0.05), ("completed", 0)):
        one, other = exact["metrics"][key], mean["metrics"][key]
        assert abs(one - other) <= most * one, (key, one, other)
    tasks = [dict(kinds[0], task="math"), dict(kinds[1], task="code")]
    path = folder / "drafting.json"
    path.write_text(json.dumps(changed(support.TINY, {
        **closed, "workload.classes": tasks, "cluster.decode.pools": {"unified_gib": 6},
        "speculation": {"method": "self-sparse", "acceptance": "dflash"}})), encoding="utf-8")
    sentence = refuses(2, "run", path, "--fidelity", "analytic")
    assert "workload/classes" in sentence and "task" in sentence, sentence


CASES = (
    what_is_told_of_classes_and_kinds_is_in_the_requests,
    so_it_is_where_a_run_is_cut_short_warmed_up_or_drops_some,
    drawn_settings_all_add_up,
    without_classes_there_is_no_such_block,
    a_name_with_a_comma_keeps_its_column,
    vllms_goodput_is_one_class,
    a_trace_names_classes_and_tasks,
    the_urgent_wait_less,
    the_summary_has_a_line_a_class,
    mean_values_take_kinds_without_classes,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
