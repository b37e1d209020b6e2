"""Profiles out of points that a GPU has measured, and `validate --suite time` on such points.

Here the GPU is a law of known costs: what it would have measured is written down, fitted, and held
against points of other loads.
"""
import json
import os
import sys

import support
from support import TINY, kvtide, refuses, succeeds

COLUMNS = ["configuration", "steps", "apart", "step_ns", "spread", "dense_ns", "dense_marks",
           "attend_ns", "attend_marks", "fetch_ns", "fetch_marks", "step", "requests", "queries",
           "attended_layer_rows", "wire_bytes", "fetches", "missed_rows", "inbound_bytes",
           "outbound_bytes", "granules", "granule_blocks", "far_granules"]
NO_OTHERS = [0] * 6  # of what a fetch may hang on
MARK_NS = 3000


def law(requests, wire_bytes):
    """Parts of a step."""
    return {"dense": 7e6 + 1e5 * requests, "attend": 1.5e6 + 0.05 * requests * 2048 * 78,
            "fetch": 0.02 * wire_bytes + 5000 * 21 if wire_bytes else 0}


def rows_of(run, requests, wire_bytes, slower=1):
    """A point of each kind, of a run whose fetches are exposed."""
    parts = law(requests, wire_bytes)
    total = sum(parts.values()) * slower
    marks = {"dense": 78, "attend": 78, "fetch": 21 if wire_bytes else 0}
    features = [1, requests, requests, requests * 2048 * 78, wire_bytes, 21 if wire_bytes else 0,
                *NO_OTHERS]
    apart = [value for part, ns in parts.items()
             for value in (ns * slower + MARK_NS * marks[part], marks[part])]
    stops = MARK_NS * sum(marks.values())
    return [[run, 4, 0, total, 0, 0, 0, 0, 0, 0, 0, *features],
            [run, 4, 1, total + stops, 0, *apart, *features]]


def points(path, names, loads, slower=1, **more):
    tree = {"schema": "kvtide/points/1", "grid": "made", "model": "glm-5.3", "hardware": "h200",
            "tp": 1, "ep": 1, "runs_drafts": False, "machine": None,
            "configurations": [{"name": name, "sets": "", "fetch_order": "group", "gather": False,
                                "ranked": True} for name in names],
            "columns": COLUMNS,
            "rows": [row for run, (requests, wire) in enumerate(loads)
                     for row in rows_of(run, requests, wire, slower)], **more}
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path.name


LOADS = [(1, 0), (8, 0), (24, 0), (2, 1e6), (4, 4e6), (8, 2e7), (12, 6e7), (16, 1e8), (24, 2e8),
         (32, 3e8), (6, 5e7), (20, 3e7)]
HELD_OUT = [(3, 3e6), (10, 4e7), (18, 1.5e8), (28, 2.2e8)]


def calibrated(folder):
    half = len(LOADS) // 2
    a = points(folder / "a.json", ["run-%d" % i for i in range(half)], LOADS[:half])
    b = points(folder / "b.json", ["run-%d" % i for i in range(half, 2 * half)], LOADS[half:])
    return ("calibrate", "--points", a, b)


def points_of_a_known_gpu_are_joined_and_fitted(folder):
    table = succeeds(*calibrated(folder), "--out", "p.json", "--quiet", cwd=folder)
    assert "24 points of 12 runs; taking a time takes 3.00 us (3 runs)" in table, table
    profile = json.loads((folder / "p.json").read_text(encoding="utf-8"))
    families = {family["name"]: family for family in profile["families"]}
    assert abs(families["dense"]["limits_ns"][0]["queries"] / 1e5 - 1) < 0.01, families["dense"]
    assert abs(families["fetch"]["limits_ns"][0]["wire_bytes"] / 0.02 - 1) < 0.001, families
    least, most = families["fetch"]["range"]["wire_bytes"]
    assert 0.999e6 < least <= 1e6 and 3e8 <= most < 3.001e8, families["fetch"]
    assert families["sampling"]["limits_ns"] == [] and families["sampling"]["note"], families
    assert profile["leave_one_out"]["step"]["mape"] < 0.002, profile["leave_one_out"]
    # The file holds its points: fitted again, it is the same.
    again = json.loads(succeeds("calibrate", "--points", "p.json", "--json", cwd=folder))
    for one, other in zip(again["families"], profile["families"]):
        for a, b in zip(one["limits_ns"], other["limits_ns"]):
            assert set(a) == set(b) and all(abs(a[f] / b[f] - 1) < 1e-5 for f in a), (a, b)


def a_profile_of_points_is_a_timing_model(folder):
    succeeds(*calibrated(folder), "--out", "p.json", "--quiet", cwd=folder)
    changes = {"model": {"base": "glm-5.3", "weight_bytes": 66911200000,
                         "weights_expert_gib": 42.76},
               "hardware": "h200", "residency": {"policy": "resident"}, "selection": None,
               "cluster.decode": {"gpus": 1, "pools": {"unified_gib": 8}},
               "timing": {"model": "profile", "profile": "./p.json", "lacking": "roofline"}}
    support.tiny(folder, changes=changes)
    result = json.loads(succeeds("run", "./tiny.json", "--json", "--quiet", cwd=folder))
    assert result["metrics"]["mean_tpot_ms"] > 8.5, result["metrics"]


def runs_that_were_not_fitted_are_predicted(folder):
    succeeds(*calibrated(folder), "--out", "p.json", "--quiet", cwd=folder)
    names = ["held-%d" % i for i in range(len(HELD_OUT))]
    points(folder / "held.json", names, HELD_OUT)
    suite = ("validate", "--suite", "time", "--profile", "./p.json", "--points")
    result = json.loads(succeeds(*suite, "held.json", "--json", "--out", "out", cwd=folder))
    families = {family["name"]: family for family in result["families"]}
    assert result["good"] and families["step"]["n"] == 4, result
    assert families["step"]["mape"] < 0.01 and families["step"]["in_range"] == 1, families
    assert result["ranking"] == {"pairs": 6, "swapped": 0, "kendall_tau": 1}, result["ranking"]
    assert result["badge"] == {
        "decisions": "no", "decisions_reason": "kvtide validate compares them",
        "kernel_time": "yes", "kernel_time_reason": "a GPU, 100 % of steps in range",
        "engine": "no"}, result["badge"]
    # What was written has its points, and is an answer to ask again.
    again = json.loads(succeeds(*suite, "out/validate.json", "--json", cwd=folder))
    assert [f["n"] for f in again["families"]] == [f["n"] for f in result["families"]]
    assert all(abs(a["bias"] - b["bias"]) < 1e-6
               for a, b in zip(again["families"], result["families"])), again["families"]
    # A machine that is a tenth slower is another one.
    points(folder / "slow.json", names, HELD_OUT, slower=1.1)
    done = kvtide(*suite, "slow.json", cwd=folder)
    assert done.returncode == 1 and "no: the mean error of a step is above 5 %" in done.stdout, done
    badge, verdict = (line for line in done.stdout.splitlines()[-4:] if line[:3] in ("bad", "no:"))
    assert badge.startswith("badge ") and verdict.startswith("no: "), done.stdout


def points_that_a_profile_was_fitted_to_prove_nothing(folder):
    succeeds(*calibrated(folder), "--out", "p.json", "--quiet", cwd=folder)
    suite = ("validate", "--suite", "time", "--profile", "./p.json", "--points")
    renamed = ["other-%d" % i for i in range(len(LOADS) // 2)]
    points(folder / "renamed.json", renamed, LOADS[:len(renamed)])
    for file, count, name in (("p.json", 12, "run-0"), ("a.json", 6, "run-5"),
                              ("renamed.json", 6, "other-0")):
        done = kvtide(*suite, file, cwd=folder)
        assert done.returncode == 1, done
        assert "the profile was fitted to %d of these %d: " % (count, count) in done.stdout, done
        assert name in done.stdout, done.stdout
        assert "kernel time no (the profile was" in " ".join(done.stdout.split()), done.stdout
        assert done.stdout.endswith("no: the profile was fitted to these points\n"), done.stdout
    # So is what is shipped, beside itself.
    shipped = support.TOP / "models" / "profiles" / "h200-glm-5.3.json"
    done = kvtide("validate", "--suite", "time", "--points", shipped, "--json", cwd=folder)
    result = json.loads(done.stdout)
    assert done.returncode == 1 and not result["good"], result["fault"]
    runs = json.loads(shipped.read_text(encoding="utf-8"))["points"]["configurations"]
    assert len(result["fitted_to"]) == len(runs) and result["badge"]["kernel_time"] == "no", result["badge"]


def gathers_alone_are_judged(folder):
    succeeds(*calibrated(folder), "--out", "p.json", "--quiet", cwd=folder)
    features = {"wire_bytes": 44236800, "node_bytes": 88473600, "gathering_gpus": 2, "fetches": 1,
                **dict(zip(COLUMNS[-6:], NO_OTHERS))}
    suite = ("validate", "--suite", "time", "--profile", "./p.json", "--points", "g.json")
    for ns, code, line in (
            (890000, 0, "yes: each gather within 10 %; no step was compared"),
            (1100000, 1, "no: a gather is off by more than 10 %")):
        gather = {"name": "two", "sets": "", "fetch_order": "group", "gather": True, "ranked": False}
        points(folder / "g.json", [], [], configurations=[gather],
               columns=["configuration", "steps", "apart", "step_ns", "spread", "fetch_ns",
                        *features],
               rows=[[0, 21, 1, ns, 0, ns, *features.values()]])
        done = kvtide(*suite, cwd=folder)
        assert done.returncode == code and done.stdout.rstrip().endswith(line), done
        assert "requests" not in done.stdout, done.stdout
        result = json.loads(kvtide(*suite, "--json", cwd=folder).stdout)
        families = {family["name"]: family for family in result["families"]}
        # Within 10 %, and out of range: the profile's steps have 21 fetches.
        assert result["gathers_within"] == 1 - code and families["gather"]["in_range"] == 0, result


def changed(folder, change, name="changed.json"):
    """Points of all loads, otherwise than they were measured."""
    points(folder / name, ["run-%d" % i for i in range(len(LOADS))], LOADS)
    tree = json.loads((folder / name).read_text(encoding="utf-8"))
    change(tree)
    (folder / name).write_text(json.dumps(tree), encoding="utf-8")
    return "calibrate", "--points", name, "--out", "p.json", "--quiet"


def without(*columns):
    def change(tree):
        kept = [i for i, column in enumerate(tree["columns"]) if column not in columns]
        tree["columns"] = [tree["columns"][i] for i in kept]
        tree["rows"] = [[row[i] for i in kept] for row in tree["rows"]]
    return change


def only(**cells):
    def change(tree):
        tree["rows"] = [row for row in tree["rows"]
                        if all(row[COLUMNS.index(column)] == value
                               for column, value in cells.items())]
    return change


def put(column, value):
    def change(tree):
        for row in tree["rows"]:
            row[COLUMNS.index(column)] = value
    return change


def points_that_no_step_can_be_told_from_make_no_profile(folder):
    for change, status, words in (
            (lambda tree: tree["rows"].clear(), 2, "rows: found none"),
            (without("wire_bytes"), 2, "fetch_ns: found"),
            (without("far_granules"), 2, '#: columns: "far_granules" is missing'),
            (without("step"), 2, "#/rows/0: step: found 0"),
            (put("far_granules", 7), 2, "far_granules: found 7; at most granules, 0"),
            (put("step_ns", 0.5), 2, "step_ns: found 0.5; 1 or more"),
            (lambda tree: tree["configurations"][3].update(name="a\x1b[31m"), 2,
             "#/configurations/3: name has a control character (byte 1 is 27)"),
            (lambda tree: tree["configurations"][3].update(fetch_order="both"), 2,
             '#/configurations/3: fetch_order "both"'),
            (put("wire_bytes", 1e18), 2, "wire_bytes: found 1e+18"),
            (lambda tree: tree.update(model="m" * 5000), 2, "a name of 5000 bytes"),
            (only(apart=0), 1, "no family of a step was timed"),
            (only(configuration=0), 1, "dense: not told: 1 points"),
            (lambda tree: (put("dense_ns", 0)(tree), put("attend_ns", 0)(tree)), 1,
             "dense: no point has a time of it"),
            (without("dense_ns", "dense_marks"), 1, "dense: no point has a time of it"),
            # A fetch of so few launches that one of them would take 10^18 ns.
            (lambda tree: [row.__setitem__(slice(-8, -6), [row[-8] and 1e-10, 0])
                           for row in tree["rows"]], 1, "no profile that could be read")):
        done = kvtide(*changed(folder, change), cwd=folder)
        assert done.returncode == status and words in done.stderr, (words, done)
        assert [path.name for path in folder.iterdir()] == ["changed.json"], words


def a_family_that_cannot_be_told_is_named(folder):
    """One fetch among all: too few to tell what one takes."""
    def change(tree):
        tree["rows"] = [row for row in tree["rows"] if row[0] < 4]
    done = kvtide(*changed(folder, change), cwd=folder)
    assert done.returncode == 1 and "fetch: not told: 1 points are too few" in done.stderr, done
    assert "fetch      not told" in done.stdout, done.stdout
    profile = json.loads((folder / "p.json").read_text(encoding="utf-8"))
    assert profile["made"]["not_told"] == {"fetch": 1}, profile["made"]
    assert "fetch" not in [family["name"] for family in profile["families"]], profile["families"]


def a_profile_says_what_it_rests_on_and_keeps_its_machine(folder):
    machine = {"gpus": [{"name": "NVIDIA H200"}]}
    ask = changed(folder, lambda tree: tree.update(machine=machine))
    table = " ".join(succeeds(*ask, cwd=folder).split())
    assert "kernel time no (fitted to these steps; validate --suite time compares" in table, table
    for _ in range(2):  # fitted again, out of the profile that it is
        profile = json.loads((folder / "p.json").read_text(encoding="utf-8"))
        assert profile["machine"] == machine and "machine" not in profile["points"], profile.keys()
        badge = profile["made"]["badge"]
        assert badge["decisions"] == badge["kernel_time"] == badge["engine"] == "no", badge
        succeeds("calibrate", "--points", "p.json", "--out", "p.json", "--quiet", cwd=folder)


def without_a_gpu_nothing_is_measured(folder):
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    for arguments in (("calibrate", "--out", "p.json", "--quick", "--quiet"),
                      ("calibrate", "--out", "p.json", "--only", "2gpus", "--quiet"),
                      ("validate", "--suite", "time", "--only", "2gpus", "--quiet")):
        sentence = refuses(3, *arguments, cwd=folder, env=hidden)
        assert "CUDA" in sentence or "GPU" in sentence, sentence
    assert not list(folder.iterdir()), "nothing is left behind"


def grid(**changes):
    """Two runs and a gather, with what stands there changed."""
    run = {"steps": 1, "sets": ["workload.concurrency=1"]}
    gather = {"row_bytes": 576, "pool_gib": 1, "contexts": "shuffled", "order": "random",
              "requests": 32, "rows": 300}
    return {"schema": "kvtide/grid/1", "name": "g", "summary": "s", "scenario": TINY,
            "runs": [{"name": "a", **run}, {"name": "b", **run}],
            "gathers": [{"name": "c", **gather}, {"name": "d", **gather}], **changes}


def a_grid_says_which_of_its_runs_is_wrong(folder):
    good = grid()
    runs, gathers = good["runs"], good["gathers"]
    cases = (
        (dict(runs=[runs[0], {**runs[1], "name": "a"}]), ('#/runs/1: a second run or gather "a"',)),
        (dict(gathers=[gathers[0], {**gathers[1], "name": "c"}]),
         ('#/gathers/1: a second run or gather "c"',)),
        (dict(gathers=[{**gathers[0], "name": "b"}]), ('#/gathers/0: a second run or gather "b"',)),
        (dict(runs=[{**runs[0], "name": ""}]), ("#/runs/0: name has 0 bytes",)),
        (dict(runs=[{**runs[0], "name": "a" * 121}]), ("#/runs/0: name has 121 bytes; 1 to 120",)),
        (dict(runs=[{**runs[0], "name": "a\n"}]), ("name has a control character (byte 1 is 10)",)),
        (dict(runs=[{**runs[0], "sets": ["run.seed=\x1b"]}]), ("sets has a control character",)),
        (dict(gathers=[{**gathers[0], "name": ""}]), ("#/gathers/0: name has 0 bytes",)),
        (dict(runs=[runs[0], {**runs[1], "sets": ["bogus"]}]), (', run "b": --set: "bogus"',)),
        (dict(runs=[runs[0], {**runs[1], "sets": ["run.xyz=1"]}]),
         (', run "b": --set run.xyz', "unknown key")),
        (dict(scenario={**TINY, "hardware": "none"}), ("#/scenario/hardware", "no such hardware")),
        (dict(scenario={}), ('#/scenario: there is no "schema"',)))
    name = str(folder / "grid.json")
    (folder / "grid.json").write_text(json.dumps(good), encoding="utf-8")
    assert "ok (grid)" in succeeds("check", name, cwd=folder)
    for changes, words in cases:
        (folder / "grid.json").write_text(json.dumps(grid(**changes)), encoding="utf-8")
        for command in (("check", name), ("calibrate", "--quiet", "--grid", name, "--out", "p.json")):
            sentence = refuses(2, *command, cwd=folder)
            assert sentence.count("grid.json") == 1, sentence
            assert all(word in sentence for word in words), (words, sentence)


def what_cannot_be_measured_or_fitted_is_refused(folder):
    points(folder / "a.json", ["one", "two"], LOADS[3:5])
    points(folder / "other.json", ["three"], LOADS[5:6], model="glm-5")
    (folder / "grid.json").write_text(json.dumps(
        {"schema": "kvtide/grid/1", "name": "g", "summary": "s", "scenario": {},
         "runs": [{"name": "r", "sets": [], "steps": 0}]}), encoding="utf-8")
    for gpus in (0, 9, 1.5):
        (folder / ("gpus-%s.json" % gpus)).write_text(json.dumps(
            {"schema": "kvtide/grid/1", "name": "g", "summary": "s", "scenario": {},
             "runs": [{"name": "r", "sets": [], "steps": 1}],
             "gathers": [{"name": "g", "row_bytes": 576, "pool_gib": 1, "contexts": "shuffled",
                          "order": "random", "requests": 32, "rows": 300, "gpus": gpus}]}),
            encoding="utf-8")
    for arguments, word in (
            (("calibrate",), "--out PROFILE.json is missing"),
            (("calibrate", "a.json", "--out", "p.json"), "files stand behind --from or --points"),
            (("calibrate", "--points", "a.json", "--from", "b.json"), "one of them is expected"),
            (("calibrate", "--points", "a.json", "--quick"), "go with measuring"),
            (("calibrate", "--points", "a.json", "--set", "seed=2"), "is not changed by --set"),
            (("calibrate", "--points", "a.json", "other.json"), "points of glm-5 on h200"),
            (("calibrate", "--points", "a.json", "a.json"), 'a second configuration "one"'),
            (("calibrate", "--out", "p.json", "--shard", "3/2"), "expected I/N"),
            (("calibrate", "--out", "p.json", "--shard", "1/999"), "found 1/999, but grid"),
            (("calibrate", "--out", "p.json", "--shard", "250/256"), "runs and"),
            (("calibrate", "--out", "p.json", "--only", ""), "--only: found no text"),
            (("calibrate", "--out", "p.json", "--grid", "./grid.json"), "steps"),
            (("calibrate", "--out", "p.json", "--grid", "nothing"),
             '--grid: "nothing": no such grid; there are: glm-5.3, time-glm-5.3; a path'),
            (("calibrate", "--out", "p.json", "--grid", "./gpus-0.json"), "expected 1 to 8"),
            (("calibrate", "--out", "p.json", "--grid", "./gpus-9.json"), "expected 1 to 8"),
            (("calibrate", "--out", "p.json", "--grid", "./gpus-1.5.json"), "(1 to 8)"),
            (("calibrate", "--out", "p.json", "--only", "3gpus"), 'has "3gpus" in its name'),
            (("calibrate", "--points", "a.json", "--only", "one"), "go with measuring"),
            (("calibrate", "--out", "p.json", "--scenario", "quickstart"), "go with --from"),
            (("validate", "--suite", "time", "quickstart"), "a grid of its own"),
            (("validate", "--suite", "time", "--points", "a.json", "--quick"), "is not changed by"),
            (("validate", "--suite", "time", "--points", "a.json", "--only", "one"),
             "is not changed by"),
            (("validate", "--suite", "time", "--only", "3gpus"), 'has "3gpus" in its name'),
            (("validate", "--suite", "decisions", "--only", "one"), "go with --suite time"),
            (("validate", "quickstart", "--points", "a.json"), "go with --suite time"),
            (("validate", "--suite", "time", "--profile", "./none.json"), "none.json")):
        sentence = refuses(2, *arguments, cwd=folder)
        assert word in sentence, (arguments, sentence)
    done = kvtide("calibrate", "--points", "a.json", "--out", "p.json", cwd=folder)
    assert done.returncode == 1 and "more points are expected" in done.stderr, done


if __name__ == "__main__":
    sys.exit(support.run_cases([
        points_of_a_known_gpu_are_joined_and_fitted,
        a_profile_of_points_is_a_timing_model,
        runs_that_were_not_fitted_are_predicted,
        points_that_a_profile_was_fitted_to_prove_nothing,
        gathers_alone_are_judged,
        points_that_no_step_can_be_told_from_make_no_profile,
        a_family_that_cannot_be_told_is_named,
        a_profile_says_what_it_rests_on_and_keeps_its_machine,
        without_a_gpu_nothing_is_measured,
        a_grid_says_which_of_its_runs_is_wrong,
        what_cannot_be_measured_or_fitted_is_refused,
    ]))
