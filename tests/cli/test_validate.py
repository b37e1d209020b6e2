"""kvtide validate --suite fidelity: each level against exact, and the runs it is made of."""
import json
import math
import signal
import subprocess
import sys

import support
from support import files_below, kvtide, refuses, succeeds, tiny

HISPARSE = {"residency": {"policy": "hisparse", "hot_tokens": 2048}}


def validated(*arguments):
    """The report; a dozen requests are few for mean values, and either answer may be right."""
    done = kvtide("validate", "--suite", "fidelity", *arguments, "--json", "--quiet")
    assert done.stderr == "", done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["good"] else 1), done.returncode
    return report


def metrics_of_run(path, fidelity, *sets):
    return json.loads(succeeds("run", path, "--fidelity", fidelity, "--json", "--quiet", *sets))


def every_level_is_set_beside_the_exact_run(folder):
    path = tiny(folder, changes=HISPARSE)
    report = validated(path)
    assert report["schema"] == "kvtide/validate/1" and report["suite"] == "fidelity"
    assert [p["fidelity"] for p in report["points"]] == ["sampled", "analytic"]
    assert report["badge"]["kernel_time_reason"] == "datasheet", report["badge"]
    exact = metrics_of_run(path, "exact")["metrics"]
    for point in report["points"]:
        ours = metrics_of_run(path, point["fidelity"])
        for name, values in point["metrics"].items():
            assert values["exact"] == exact[name], name
            assert values["value"] == ours["metrics"][name], name
            if "half_width" in values:
                assert values["half_width"] == ours["scaled"]["rows"]["ci99"][name], name


def missed_by_chance(count):
    """As many of `count` 99 % intervals as miss more than one time in a hundred."""
    def tail(missed):
        return sum(math.comb(count, k) * 0.01 ** k * 0.99 ** (count - k) for k in range(missed, count + 1))
    return max(m for m in range(count + 1) if m == 0 or tail(m) > 0.01 * (1 + 1e-9))


def the_verdict_allows_what_chance_does(_):
    assert [missed_by_chance(n) for n in (1, 3, 20)] == [0, 1, 2]  # 18 of 20 must hold


def families_sum_up_their_points(folder):
    report = validated(tiny(folder, changes=HISPARSE), "--seeds", 3)
    assert sorted({p["seed"] for p in report["points"]}) == [1, 2, 3]
    for family in report["families"]:
        level, name = family["name"].split()
        values = [p["metrics"][name] for p in report["points"] if p["fidelity"] == level]
        errors = [v["error"] for v in values if v["error"] is not None]
        assert family["n"] == len(errors), family
        assert math.isclose(family["bias"], sum(errors) / len(errors), abs_tol=1e-12), family
        assert math.isclose(family["mape"], sum(map(abs, errors)) / len(errors), abs_tol=1e-12)
        if level == "sampled":
            within = [abs(v["value"] - v["exact"]) <= v["half_width"] for v in values]
            assert math.isclose(family["in_range"], sum(within) / len(within)), family
            assert family["good"] == (len(within) - sum(within) <= missed_by_chance(len(within))), family
    assert report["good"] == all(f["good"] for f in report["families"])


def the_verdict_says_on_how_many_points_it_stands(folder):
    path = tiny(folder, changes=HISPARSE)
    for seeds, words in ((1, "it stands on 1 point a line: one of analytic that is out of range turns it; "
                             "--seeds N takes more"), (10, "it stands on 10 points a line")):
        done = support.kvtide("validate", path, "--suite", "fidelity", "--quiet", "--seeds", seeds)
        assert done.returncode in (0, 1), done.stderr
        assert done.stdout.splitlines()[-1] == words, done.stdout


def a_level_that_is_refused_says_why_and_is_no_failure(folder):
    path = tiny(folder, changes=dict(HISPARSE, **{
        "workload": {"phases": [{"concurrency": 3, "seconds": 0.1}],
                     "lengths": support.TINY["workload"]["lengths"]}}))
    report = validated(path)
    refused = [p["refused"] for p in report["points"]]
    assert refused[0] is None and "not steady" in refused[1], refused
    assert report["good"]
    said = succeeds("validate", path, "--suite", "fidelity", "--quiet")
    assert "refused: " + path + "#/workload" in said, said
    assert "badge      decisions no (no GPU) | kernel time no (datasheet) | engine no\n" in said, said


def an_answer_of_no_is_status_1(folder):
    # One request after another, of any length: no mean value is near a single one.
    path = tiny(folder, changes=dict(HISPARSE, **{"workload.requests": 2, "workload.concurrency": 1,
                                                  "workload.lengths.output.cv": 2}))
    assert not validated(path, "--seeds", 4)["good"]


def the_answer_does_not_depend_on_threads_or_the_cache(folder):
    path = tiny(folder, changes=HISPARSE)
    one = validated(path, "--threads", 1, "--cache", "none")
    assert one == validated(path, "--threads", 2, "--cache", folder / "cache")
    assert any(name.startswith("surface-") for name in files_below(folder / "cache"))
    assert one == validated(path, "--cache", folder / "cache")


def wall_time_is_told_on_stderr_alone(folder):
    path = tiny(folder, changes=HISPARSE)
    done = kvtide("validate", path, "--suite", "fidelity", "--json")
    assert "simulated seconds a second once prepared" in done.stderr and "ms a point" in done.stderr
    assert "_s\"" not in done.stdout and "speed" not in done.stdout


def what_is_done_is_answered_when_a_signal_ends_it(folder):
    path = tiny(folder, changes=HISPARSE)
    before = support.used()[1]
    validated(path, "--seeds", 2)
    of_two_s = support.used()[1] - before
    process = subprocess.Popen([support.KVTIDE, "validate", path, "--suite", "fidelity", "--seeds", "20", "--json",
                                "--quiet", "--out", folder / "out"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    support.goes_on(process, 1.5 * of_two_s)
    process.send_signal(signal.SIGTERM)
    said, complained = process.communicate(timeout=support.TIMEOUT_S)
    report = json.loads(said)
    assert process.returncode == 1 and not report["good"], (process.returncode, complained)
    assert 0 < len(report["points"]) < 40, report["points"]
    assert report["broken_off"] in complained and len(complained.splitlines()) == 1, complained
    assert json.loads((folder / "out/validate.json").read_text(encoding="utf-8")) == report


def what_cannot_be_asked_is_refused(folder):
    for arguments, word in (
            ((), "a scenario, or --suite decisions|time|fidelity|public, is missing"),
            (("--suite", "fidelty"), "no such suite; there are: decisions, time, fidelity, public"),
            (("--suite", "fidelity", "--seeds", "0"), "expected 1 to 20"),
            (("--suite", "fidelity", "--threads", "0"), "expected 1 to"),
            (("--suite", "fidelity", "no-such-scenario"), "no-such-scenario")):
        sentence = refuses(2, "validate", *arguments, "--quiet")
        assert word in sentence, (arguments, sentence)


def an_analytic_run_writes_its_files_and_no_percentile(folder):
    path = tiny(folder, changes=HISPARSE)
    summary = succeeds("run", path, "--fidelity", "analytic", "--out", folder / "out", "--quiet")
    assert "fidelity analytic" in summary
    assert all(len(line) <= 80 for line in summary.splitlines())
    result = json.loads((folder / "out/result.json").read_text(encoding="utf-8"))
    assert result["metrics"]["mean_tpot_ms"] > 0 and result["metrics"]["p99_tpot_ms"] is None
    assert result["requests"]["arrived"] == result["requests"]["completed"] == 12
    assert result["scaled"] == {}
    lines = (folder / "out/requests.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1, "an analytic run has no requests of its own"


# Those with a reason are refused, as docs/fidelity.md says; the last is taken, and needs many minutes.
SHIPPED = {
    "quickstart": None, "glm-5.3-100k": None, "glm-5.3-32k": None, "policy-lab": None,
    "agentic-74k": "a load that is not steady", "load-step": "a load that is not steady",
    "prefetch-100k": "drawn for each row", "readkv-100k": "drawn for each row",
    "vllm-calculator": "some be put aside", "strata-sessions": "a load that is not steady",
    "moira-100k": "does not see of every", "pulse-100k": "no scheduling but",
    "rank-loss": "of which mean values know none",
    "indexcache-200k": None, "spin-blocks": None, "shadowkv-122k": None,
    "triforce-122k": None, "magicdec-32k": None,
    "deepseek-v4.1-flash-500k": None,
}
RESIDENT = {"triforce-122k", "magicdec-32k"}  # nothing is selected there


def every_shipped_scenario_is_answered_with_means_or_refused_with_the_reason(folder):
    del folder
    listed = json.loads(succeeds("list", "scenarios", "--json"))["scenarios"]
    assert {scenario["name"] for scenario in listed} == set(SHIPPED), listed
    # More tapes than fit: fewer are measured.
    small = ("--set", "selection.steps=64", "--set", "selection.memory_mib=4")
    for name, reason in list(SHIPPED.items())[:-1]:
        run = ("run", name, "--fidelity", "analytic", "--quiet")
        if reason is None:
            assert "fidelity analytic" in succeeds(*run, *(() if name in RESIDENT else small)), name
        else:
            assert reason in " ".join(refuses(2, *run).split()), name


if __name__ == "__main__":
    sys.exit(support.run_cases([
        every_level_is_set_beside_the_exact_run,
        the_verdict_allows_what_chance_does,
    families_sum_up_their_points,
    the_verdict_says_on_how_many_points_it_stands,
        a_level_that_is_refused_says_why_and_is_no_failure,
        an_answer_of_no_is_status_1,
        the_answer_does_not_depend_on_threads_or_the_cache,
        wall_time_is_told_on_stderr_alone,
        what_is_done_is_answered_when_a_signal_ends_it,
        what_cannot_be_asked_is_refused,
        an_analytic_run_writes_its_files_and_no_percentile,
        every_shipped_scenario_is_answered_with_means_or_refused_with_the_reason,
    ]))
