"""kvtide validate SCENARIO --measured VALIDATE.json: the course of a run that was measured in
lockstep, beside that of the same scenario by the simulator's own clock.

Here the simulator stands for the GPU, with another clock where the two are to differ: it proves the
way. What a GPU measured lies in validation/results/.
"""
import csv
import json
import math
import re
import sys

import support
from support import changed, files_below, kvtide, refuses, succeeds, tiny

PHASES = [{"concurrency": 2, "seconds": 0.5}, {"concurrency": 8, "seconds": 0.7},
          {"concurrency": 2, "seconds": 0.5}]
CHANGES = {"run.fidelity": "exact", "residency.hot_tokens": 1024,
           "cluster.decode.pools": {"unified_gib": 0.012}, "workload.requests": None,
           "workload.concurrency": None, "workload.arrival": "phases", "workload.phases": PHASES}
SLOWER = ("--set", "timing.host_us_per_step=3000")
COLUMNS = ("from_s", "to_s", "slots", "running", "host_fetch_share", "coverage", "mean_step_ms")
QUANTITIES = ("host_fetch_share", "coverage", "running", "mean_step_ms")


def measured(folder, path, *arguments):
    """Runs in lockstep with the simulator in the GPU's place; the answer's path."""
    succeeds("validate", path, "--backend", "sim", "--quiet", "--out", folder / "measured",
             *arguments)
    return folder / "measured/validate.json"


def beside(path, file, *arguments):
    return json.loads(succeeds("validate", path, "--measured", file, "--json", "--quiet",
                               *arguments))


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def rewritten(folder, file, change):
    """The answer with change(tree) made; a path."""
    tree = read(file)
    change(tree)
    path = folder / "changed.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


def a_run_in_lockstep_keeps_its_course_as_run_writes_it(folder):
    path = tiny(folder, changes=CHANGES)
    timeline = read(measured(folder, path))["runs"][0]["timeline"]
    succeeds("run", path, "--quiet", "--out", folder / "run")
    with open(folder / "run/timeline.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = {"slots": "allocated_slots_mean", "running": "running_mean"}
    assert sorted(timeline) == sorted(COLUMNS), timeline
    assert len(rows) == len(timeline["from_s"]) > 10
    for name, values in timeline.items():
        cells = [row[names.get(name, name)] for row in rows]
        assert [None if cell == "" else float(cell) for cell in cells] == values, name


def by_one_clock_both_courses_are_the_same(folder):
    path = tiny(folder, changes=CHANGES)
    answer = beside(path, measured(folder, path))
    assert answer["suite"] == "timeline" and answer["good"]
    assert answer["measured"] == answer["predicted"]
    assert len(answer["phases"]) == 3
    for phase, given in zip(answer["phases"], PHASES):
        assert abs(phase["to_s"] - phase["from_s"] - given["seconds"]) < 1e-9
        for name in QUANTITIES:
            assert phase[name]["mean_abs_difference"] == 0, phase
            assert phase[name]["measured"] == phase[name]["predicted"]


def means_of(answer, name, from_s, to_s):
    """By microseconds, which no bin's end lies between: measured, predicted, mean difference."""
    def value_at(side, at):
        columns = answer[side]
        for begin, end, value in zip(columns["from_s"], columns["to_s"], columns[name]):
            if begin <= at < end:
                return value
        return None
    pairs = []
    ticks = 20000
    for tick in range(ticks):
        at = from_s + (tick + 0.5) * (to_s - from_s) / ticks
        a, b = value_at("measured", at), value_at("predicted", at)
        if a is not None and b is not None:
            pairs.append((a, b))
    if not pairs:
        return None, None, None
    return (math.fsum(a for a, _ in pairs) / len(pairs), math.fsum(b for _, b in pairs) / len(pairs),
            math.fsum(abs(a - b) for a, b in pairs) / len(pairs))


def by_another_clock_differences_are_what_the_courses_differ_by(folder):
    path = tiny(folder, changes=CHANGES)
    file = measured(folder, path, *SLOWER)
    answer = beside(path, file)
    timeline = read(file)["runs"][0]["timeline"]
    assert answer["measured"] == timeline
    assert answer["predicted"] != timeline
    assert answer["timing"] == {"model": "roofline", "basis": "datasheet", "in_range_share": 1}
    for phase in answer["phases"]:
        for name in QUANTITIES:
            values = [phase[name][key] for key in ("measured", "predicted", "mean_abs_difference")]
            expected = means_of(answer, name, phase["from_s"], phase["to_s"])
            for value, wanted in zip(values, expected):
                assert (value is None) == (wanted is None), (phase, name, expected)
                assert value is None or abs(value - wanted) <= 2e-3 * abs(wanted) + 1e-9, (
                    name, values, expected)
        step = phase["mean_step_ms"]
        assert 2 < step["measured"] - step["predicted"] < 4, step
    # The slower clock as the prediction, too: then nothing differs.
    again = beside(path, file, *SLOWER)
    assert again["measured"] == again["predicted"]


def the_page_draws_what_the_answer_says_and_needs_nothing_else(folder):
    path = tiny(folder, changes=CHANGES)
    file = measured(folder, path, *SLOWER)
    said = succeeds("validate", path, "--measured", file, "--quiet", "--out", folder / "out")
    assert files_below(folder / "out") == ["timeline.html", "validate.json"]
    answer = read(folder / "out/validate.json")
    page = (folder / "out/timeline.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page  # tests/cli/test_report.py: nothing else is asked for
    document = json.loads(re.search(r'id="page">(.*?)</script>', page, re.DOTALL).group(1))
    charts = {block["id"]: block for section in document["sections"]
              for block in section["blocks"] if block["type"] == "chart"}
    assert list(charts) == list(QUANTITIES)
    for name, chart in charts.items():
        scale = 1 if name in ("running", "mean_step_ms") else 100
        drawn = {"measured": [], "predicted": []}
        for side, x, y in chart["rows"]:
            drawn[side].append((x, y))
        for side, points in drawn.items():
            given = list(zip(answer[side]["from_s"], answer[side][name]))
            assert len(points) == len(given) > 10, (name, side)
            for (x, y), (from_s, value) in zip(points, given):
                assert x == from_s and (y is None) == (value is None), (name, x)
                assert y is None or abs(y - scale * value) <= 1e-9 * abs(y), (name, x)
    table = next(block for section in document["sections"] for block in section["blocks"]
                 if block["id"] == "phases")
    for nth, phase in enumerate(answer["phases"]):
        share = phase["host_fetch_share"]
        row = table["rows"][nth * len(QUANTITIES)]
        for at, key in ((4, "measured"), (5, "predicted"), (6, "mean_abs_difference")):
            assert row[at] == 100 * share[key], (row, share)
        cells = ["%.2f" % (100 * share[key]) for key in ("measured", "predicted",
                                                         "mean_abs_difference")]
        assert re.search(r"host fetch share, %%\s+%s\n" % r"\s+".join(cells), said), (cells, said)
    badge = "decisions no (no GPU) | kernel time no (no GPU) | engine no"
    assert badge in said and badge in page


def an_answer_in_a_file_of_device_sh_is_found(folder):
    path = tiny(folder, changes=CHANGES)
    file = measured(folder, path)
    other = {"command": "another", "document": {"schema": "kvtide/machine/1"}}
    wrapped = folder / "glm.json"
    wrapped.write_text(json.dumps({"date": "2026-11-30", "commands": [
        other, {"command": "no document"}, {"document": read(file)}]}), encoding="utf-8")
    answer, wanted = beside(path, wrapped), beside(path, file)
    assert answer.pop("file") == str(wrapped) and wanted.pop("file") == str(file)
    assert answer == wanted


def what_was_wrong_when_it_was_measured_stays_wrong(folder):
    path = tiny(folder, changes=CHANGES)
    def spoil(tree):
        tree["good"] = False
    file = rewritten(folder, measured(folder, path), spoil)
    done = kvtide("validate", path, "--measured", file, "--quiet")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1].startswith("no: in the measured run something was wrong")
    assert "The measured run's own badge; steps in range by the timing model that it had:\nbadge " in (
        done.stdout), done.stdout


def a_measured_run_that_was_broken_off_says_so(folder):
    path = tiny(folder, changes=CHANGES)
    file = measured(folder, path)
    def interrupt(tree):
        tree["good"] = False
        tree["runs"][0]["interrupted"] = True
    def fail(tree):
        tree["good"] = False
        tree["broken_off"] = "the device is gone"
    for change, interrupted, why, word in (
            (interrupt, True, None, "broken off by a signal"),
            (fail, False, "the device is gone", "broken off: the device is gone")):
        bad = rewritten(folder, file, change)
        done = kvtide("validate", path, "--measured", bad, "--quiet", "--out", folder / "out")
        answer = read(folder / "out/validate.json")
        assert done.returncode == 1, done.stderr
        assert "no: the measured run was " + word in done.stdout.splitlines()[-1], done.stdout
        assert answer["interrupted"] == interrupted and answer["broken_off"] == why, answer


def another_scenario_is_not_compared(folder):
    path = tiny(folder, changes=CHANGES)
    file = measured(folder, path)
    ask = ("validate", "--quiet", "--measured", file)
    sentence = refuses(2, *ask, path, "--set", "residency.refill_gb_per_s=0.3")
    assert 'with another "residency" than' in sentence, sentence
    sentence = refuses(2, *ask, path, "--set", "seed=2")
    assert 'no run of the scenario "tiny" with seed 2' in sentence, sentence
    other = tiny(folder, "other.json", dict(CHANGES, **{"workload.phases": PHASES[:2]}))
    assert 'no run of the scenario "other"' in refuses(2, *ask, other)
    named = folder / "named.json"
    named.write_text(json.dumps(dict(changed(support.TINY, dict(
        CHANGES, **{"workload.phases": PHASES[:2]})), name="tiny")), encoding="utf-8")
    assert 'with another "workload" than' in refuses(2, *ask, named)


def a_timeline_that_is_none_is_refused_with_its_place(folder):
    path = tiny(folder, changes=CHANGES)
    file = measured(folder, path)
    def timeline(tree):
        return tree["runs"][0]["timeline"]
    cases = (
        (lambda tree: timeline(tree).pop("coverage"), "timeline/coverage"),
        (lambda tree: timeline(tree)["running"].pop(), "as many are expected"),
        (lambda tree: timeline(tree)["from_s"].__setitem__(3, None), "from_s/3: a number is"),
        (lambda tree: timeline(tree)["coverage"].__setitem__(2, "x"), "coverage/2: a number, or"),
        (lambda tree: timeline(tree)["to_s"].__setitem__(4, 0), "row 4 is from"),
        (lambda tree: timeline(tree)["from_s"].__setitem__(4, 0), "row 4 is from"),
        (lambda tree: tree["runs"][0].pop("timeline"), "no run of the scenario"),
        (lambda tree: tree["runs"][0]["result"].pop("phases"), "phases"),
        (lambda tree: tree["runs"][0]["result"]["phases"].__setitem__(0, 1), "1 is not an object"),
        (lambda tree: tree.pop("runs"), "no run of the scenario"),
    )
    for change, word in cases:
        bad = rewritten(folder, file, change)
        sentence = refuses(2, "validate", path, "--measured", bad, "--quiet", "--out",
                           folder / "out")
        assert "changed.json" in sentence and word in sentence, (word, sentence)
        assert not (folder / "out").exists(), word


def what_says_nothing_there_is_refused(folder):
    path = tiny(folder, changes=CHANGES)
    file = measured(folder, path)
    for arguments, word in (
            (("--window", "0:1"), "go with --measured, and a benchmark of an engine"),
            (("--tolerance", "5"), "go with --measured, and a benchmark of an engine"),
            (("--measured", file), "stands alone; 2 files are named"),
            (("--seeds", "2"), "--seeds say nothing there"),
            (("--backend", "sim"), "--backend"),
            (("--suite", "decisions"), "and no --suite"),
            (("--steps", "3"), "goes with a scenario"),
            (("--set", "run.fidelity=analytic"), "has no course")):
        sentence = refuses(2, "validate", path, "--measured", file, "--quiet", *arguments)
        assert word in sentence, (arguments, sentence)


def what_a_gpu_measured_is_the_scenario_that_is_kept_here(folder):
    del folder
    file = support.TOP / "validation/results/h200-load-step-short.json"
    document = read(file)["commands"][0]["document"]
    run = document["runs"][0]
    assert document["good"] and document["badge"]["kernel_time"] == "yes", document["badge"]
    assert run["scenario"] == "h200-load-step" and run["mismatches"] == 0 and run["calls"] > 100000
    assert len(run["timeline"]["from_s"]) == 30 and run["timeline"]["from_s"][29] == 29
    ask = ("validate", support.TOP / "validation/scenarios/h200-load-step.json", "--measured", file,
           "--quiet")
    short = [{"concurrency": c, "seconds": 10} for c in (4, 24, 4)]
    sets = ("--set", "workload.phases=" + json.dumps(short))
    # As it was measured but for the mean of lengths, which its command sets too.
    assert 'with another "workload" than' in refuses(2, *ask, *sets)
    sentence = refuses(2, *ask, *sets, "--set", "workload.lengths.output.mean_tokens=300",
                       "--set", "residency.hot_tokens=2048")
    assert 'with another "residency" than' in sentence, sentence


CASES = (
    a_run_in_lockstep_keeps_its_course_as_run_writes_it,
    by_one_clock_both_courses_are_the_same,
    by_another_clock_differences_are_what_the_courses_differ_by,
    the_page_draws_what_the_answer_says_and_needs_nothing_else,
    an_answer_in_a_file_of_device_sh_is_found,
    what_was_wrong_when_it_was_measured_stays_wrong,
    a_measured_run_that_was_broken_off_says_so,
    another_scenario_is_not_compared,
    a_timeline_that_is_none_is_refused_with_its_place,
    what_says_nothing_there_is_refused,
    what_a_gpu_measured_is_the_scenario_that_is_kept_here,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
