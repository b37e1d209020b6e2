"""kvtide sweep: tables of many points, the same bytes whoever ran them, and nothing lost to what ends it."""
import collections
import csv
import json
import math
import os
import pathlib
import resource
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time

import support
from support import KVTIDE, TOP, Skip, files_below, kvtide, refuses, succeeds, tiny

T_975_OF_2 = 4.302652729911275  # Student's t, 97.5 %, 2 degrees of freedom
MPI = os.environ.get("KVT_MPI", "1" if shutil.which("mpirun") else "0") == "1"
RESULTS = ("results.csv", "results.json")
# Twelve runs of some milliseconds.
AXES = ("--vary", "residency.hot_tokens=1k,2k,4k", "--vary", "residency=hisparse,adaptive",
        "--vary", "workload.concurrency=4,6")
MASK = 2**64 - 1


def sweep(out, *arguments, **options):
    return succeeds("sweep", *arguments, "--out", out, "--quiet", **options)


def table(folder, name="results.csv"):
    text = (folder / name).read_bytes()
    assert b"\r" not in text and text.endswith(b"\n")
    with open(folder / name, newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines, strict=True))


def same_files(one, other, names=RESULTS):
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def mpirun(ranks, *arguments, said=None, **options):
    """A started mpirun of kvtide; as root and with more ranks than cores, as in a container. said: where what
    rank R says goes, behind ".R", past mpirun, which stops listening when a rank is gone, and gives the others a second."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_odls_base_sigkill_timeout": "3"}
    apart = ("sh", "-c", 'exec "$@" 2>"%s.$OMPI_COMM_WORLD_RANK"' % said, "sh") if said else ()
    return subprocess.Popen(
        ("mpirun", "--oversubscribe", "-n", str(ranks), *apart, KVTIDE, "sweep", *map(str, arguments), "--quiet"),
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        **options)


def needs_mpi():
    if not MPI:
        raise Skip("built without MPI")
    if os.environ.get("KVT_VARIANT", "release") not in ("release", "debug"):
        raise Skip("MPI's own memory is not for sanitizers")


# --- The journal, read and written by its description -------------------------------------------------


def mixed(x):
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb & MASK
    return x ^ (x >> 31)


def chained(chain, value):
    return mixed((chain * 0x9e3779b97f4a7c15 + value + 1) & MASK)


def hashed(text):
    chain = 0
    for at in range(0, len(text), 8):
        chain = chained(chain, struct.unpack("<Q", text[at:at + 8].ljust(8, b"\0"))[0])
    return b"%016x" % chained(chain, len(text))


def journal_runs(folder):
    """How often each run is in the journal; every line is whole."""
    lines = (folder / "sweep.journal").read_bytes().splitlines()
    for line in lines:
        assert hashed(line[17:]) == line[:16] and line[16:17] == b" "
    return collections.Counter(json.loads(line[17:])["run"] for line in lines[1:])


# --- Tables ---------------------------------------------------------------------------------------------


def a_row_a_point_has_the_figures_of_its_own_run(folder):
    path = tiny(folder)
    out = folder / "out"
    said = sweep(out, path, *AXES)
    assert said == "12 points, 12 of them with results: %s/results.csv, %s/results.json\n" % (out, out)
    rows = table(out)
    assert [row["point"] for row in rows] == [str(p) for p in range(12)]
    # The last axis changes fastest.
    assert [(row["residency.hot_tokens"], row["residency"], row["workload.concurrency"]) for row in rows[:5]] == [
        ("1k", "hisparse", "4"), ("1k", "hisparse", "6"), ("1k", "adaptive", "4"), ("1k", "adaptive", "6"),
        ("2k", "hisparse", "4")]
    result = json.loads(succeeds("run", path, "--json", "--quiet", "--set", "residency=adaptive", "--set",
                                 "residency.hot_tokens=1k", "--set", "workload.concurrency=4"))
    row = rows[2]
    assert row["decision_hash"] == result["decision_hash"] and row["status"] == "ok" and row["message"] == ""
    assert row["bound"] == "false" and row["basis"] == result["metrics_basis"]["output_throughput"]
    for name, value in result["metrics"].items():
        assert row[name] == "" if value is None else float(row[name]) == value, name
    assert list(row)[-1] == list(result["metrics"])[-1] and len({len(r) for r in rows}) == 1
    assert len({row["scenario_hash"] for row in rows}) == 12
    assert files_below(out) == ["report.html", "results.csv", "results.json", "sweep.journal"]


def results_json_says_the_same_and_what_was_asked(folder):
    path = tiny(folder)
    out = folder / "out"
    printed = sweep(out, path, *AXES, "--json", "--set", "run.interval_s=0.2")
    assert printed == (out / "results.json").read_text()
    report = json.loads(printed)
    assert report["schema"] == "kvtide/sweep/1" and report["source"] == path
    assert report["version"] in succeeds("--version") and report["commit"] in succeeds("--version")
    assert report["scenario"]["run"]["interval_s"] == 0.2 and report["scenario_point"] is None
    assert report["axes"][0] == [{"path": "residency.hot_tokens", "values": ["1k", "2k", "4k"]}]
    assert report["seeds"] == [1] and report["point_count"] == 12 and report["failed_points"] == 0
    for point, row in zip(report["points"], table(out)):
        assert point["inputs"] == {"residency.hot_tokens": row["residency.hot_tokens"],
                                   "residency": row["residency"],
                                   "workload.concurrency": int(row["workload.concurrency"])}
        assert point["decision_hash"] == row["decision_hash"] and point["basis"] == row["basis"]
        assert point["badge"]["kernel_time"] == "no" and point["metrics_ci95"] == {}
        for name, value in point["metrics"].items():
            assert row[name] == "" if value is None else float(row[name]) == value, name


def several_seeds_are_means_with_intervals_and_a_row_a_run(folder):
    path = tiny(folder)
    out = folder / "out"
    sweep(out, path, "--vary", "workload.concurrency=4,6", "--seeds", "3", "--seed", "7")
    rows, runs = table(out), table(out, "runs.csv")
    assert [(r["point"], r["seed"]) for r in runs] == [(p, s) for p in "01" for s in "789"]
    alone = json.loads(succeeds("run", path, "--seed", "8", "--json", "--quiet", "--set", "workload.concurrency=6"))
    assert float(runs[4]["output_throughput"]) == alone["metrics"]["output_throughput"]
    for row in rows:
        values = [float(r["mean_tpot_ms"]) for r in runs if r["point"] == row["point"]]
        half = T_975_OF_2 * statistics.stdev(values) / math.sqrt(3)
        for name, expected in (("", statistics.mean(values)), ("_ci95_low", statistics.mean(values) - half),
                               ("_ci95_high", statistics.mean(values) + half)):
            assert math.isclose(float(row["mean_tpot_ms" + name]), expected, rel_tol=1e-9), (name, row)
        chain = 0
        for run in runs:
            if run["point"] == row["point"]:
                chain = chained(chain, int(run["decision_hash"], 16))
        assert row["decision_hash"] == "%016x" % chain and row["seeds"] == "3"
    point = json.loads((out / "results.json").read_text())["points"][1]
    assert point["metrics_ci95"]["mean_tpot_ms"] == [float(rows[1]["mean_tpot_ms_ci95_" + end]) for end in ("low", "high")]


def axes_go_together_by_zip_and_by_a_file_of_points(folder):
    path = tiny(folder)
    sweep(folder / "zip", path, "--zip", "residency.hot_tokens=1k,2k", "workload.concurrency=4,6", "--vary",
          "run.interval_s=0.1,0.2")
    seen = [(r["run.interval_s"], r["residency.hot_tokens"], r["workload.concurrency"]) for r in table(folder / "zip")]
    assert seen == [("0.1", "1k", "4"), ("0.1", "2k", "6"), ("0.2", "1k", "4"), ("0.2", "2k", "6")]
    points = folder / "points.csv"
    points.write_text('residency,workload.concurrency\r\n"{""policy"":""adaptive"",""hot_tokens"":1024}",4\r\n,6\r\n')
    sweep(folder / "points", path, "--points", points)
    rows = table(folder / "points")
    assert [r["residency"] for r in rows] == ['{"policy":"adaptive","hot_tokens":1024}', ""]
    assert rows[0]["decision_hash"] != rows[1]["decision_hash"]
    tree = json.loads((folder / "points/results.json").read_text())["points"]
    assert tree[0]["inputs"]["residency"] == {"policy": "adaptive", "hot_tokens": 1024}
    assert tree[1]["inputs"]["residency"] is None


def a_key_is_set_before_those_below_it_whatever_the_order(folder):
    path = tiny(folder, changes={"residency.policy": "hisparse"})  # which has no refill rate
    for name, axes in (("one", ("residency.refill_gb_per_s=1,2", "residency=adaptive")),
                       ("two", ("residency=adaptive", "residency.refill_gb_per_s=1,2"))):
        sweep(folder / name, path, *(word for axis in axes for word in ("--vary", axis)))
    first, second = table(folder / "one"), table(folder / "two")
    assert [r["scenario_hash"] for r in first] == [r["scenario_hash"] for r in second]
    assert first[0]["decision_hash"] != first[1]["decision_hash"]


# --- Points that cannot be ------------------------------------------------------------------------------


def a_point_that_is_refused_or_fails_is_a_row_and_the_others_run(folder):
    path = tiny(folder)
    out = folder / "out"
    axes = ("--vary", "run.fidelity=sampled,analytic", "--vary", "residency=adaptive,vllm-hybrid,resident",
            "--vary", "residency.hot_tokens=2k")
    done = kvtide("sweep", path, *axes, "--out", out, "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("kvtide: sweep: 3 of 6 points failed; point 2 is refused: residency"), done.stderr
    rows = table(out)
    assert [r["status"] for r in rows] == ["ok", "ok", "refused", "ok", "failed", "refused"], rows
    assert 'residency: fidelity "analytic" knows mean values only' in rows[4]["message"]
    assert rows[4]["message"].startswith("residency: ") and rows[4]["output_throughput"] == ""
    assert rows[2]["scenario_hash"] == "" and rows[4]["scenario_hash"] != "" and rows[4]["decision_hash"] == ""
    report = json.loads((out / "results.json").read_text())
    assert report["failed_points"] == 3 and report["points"][2]["metrics"] == {}
    # A setting for all that has an effect on one of them is none too many.
    succeeds("sweep", path, "--vary", "residency=adaptive,resident", "--set", "residency.hot_tokens=2k", "--out",
             folder / "two", "--quiet")
    lone = refuses(2, "sweep", path, "--vary", "residency=resident", "--set", "residency.hot_tokens=2k", "--out",
                   folder / "lone", "--quiet")
    assert "--set residency.hot_tokens=2k has no effect at any point" in lone and not (folder / "lone").exists()


def when_no_point_can_be_the_question_is_malformed_and_nothing_is_written(folder):
    path = tiny(folder)
    out = folder / "out"
    for axis, words in (("run.nope=1,2", ('run.nope: unknown key "nope"',)), ("nope=1", ("nope",)),
                        ("workload.concurrency=x,y", ("workload.concurrency", '"x"'))):
        said = refuses(2, "sweep", path, "--vary", axis, "--out", out, "--quiet")
        assert all(word in said for word in words), said
        assert not out.exists()
    # Two values that can be, and cannot together.
    said = refuses(2, "sweep", path, "--vary", "residency=resident", "--vary", "residency.hot_tokens=2k,4k", "--out", out,
                   "--quiet")
    assert "hot_tokens has no effect" in said and "(point 0; nor can any other be run)" in said, said
    assert not out.exists()
    assert "no-such.json" in refuses(2, "sweep", "./no-such.json", "--vary", "seeds=1", "--out", out, "--quiet")


def a_value_that_no_point_can_have_is_a_slip_of_the_pen(folder):
    path, points, out = tiny(folder), folder / "points.csv", folder / "out"
    for axes, words in ((("--vary", "residency=adptive,hisparse"), 'residency: "adptive": no such residency policy'),
                        (("--vary", "residency=hisparse,adptive", "--vary", "workload.concurrency=4,6"), '"adptive"'),
                        (("--zip", "residency=hisparse,adaptive", "workload.concurrency=4,x"), '"x"'),
                        (("--vary", "run.fidelity=sampled,analytical"), "analytical"),
                        (("--vary", "model=deepseek-v4.1-flash,deepsek"), 'model: "deepsek": no such model'),
                        (("--vary", "residency=hisparse", "--vary", "residency.hot_tokens=2k,2m"), '"2m"')):
        said = refuses(2, "sweep", path, *axes, "--out", out, "--quiet")
        assert words in said and not out.exists(), said
    # What the rest of the scenario does not go with is a row, with whatever value that is.
    for axis in ("cluster.decode.ep=2,3", "cluster.decode.pools.unified_gib=0.02,500"):
        done = kvtide("sweep", path, "--vary", axis, "--out", folder / axis, "--quiet")
        assert done.returncode == 0 and "1 of 2 points failed; point 1 is refused" in done.stderr, done.stderr
    # Cells of a file have their place; an empty one says nothing of the key.
    for text, words in (("workload.concurrency,residency\n4,adaptive\n6,adptive\n", 'points.csv:3:2: residency: "adptive"'),
                        ("workload.concurrency,run.nope\n4,\n6,3\n", 'points.csv:3:2: run.nope: unknown key "nope"'),
                        ("residency,residency.hot_tokens\nresident,2k\n", "points.csv:2: residency.hot_tokens: "),
                        ("residency,seed\nresident,2\n", "points.csv:1:2: found the axis")):
        points.write_text(text, encoding="utf-8")
        said = refuses(2, "sweep", path, "--points", points, "--out", out, "--quiet")
        assert words in said and not out.exists(), said
    # Where the scenario by itself lacks what an axis brings, a value is judged by what is said of it.
    bare = tiny(folder, "bare.json", {"model": None})
    done = kvtide("sweep", bare, "--vary", "model=deepseek-v4.1-flash,nonsense", "--out", out, "--quiet")
    assert done.returncode == 2 and '"nonsense"' in done.stderr and not out.exists(), done.stderr


def replicas_and_spread_experts_follow_the_gpus(folder):
    path = tiny(folder)  # 2 GPUs, dp 2, ep 2
    sweep(folder / "one", path, "--vary", "cluster.decode.gpus=2,4")
    alone = json.loads(succeeds("run", path, "--set", "cluster.decode.gpus=4", "--set", "cluster.decode.dp=4", "--set",
                                "cluster.decode.ep=4", "--json", "--quiet"))
    assert table(folder / "one")[1]["decision_hash"] == alone["decision_hash"]
    # What somebody asks for himself stays his.
    sweep(folder / "two", path, "--vary", "cluster.decode.gpus=2,4", "--vary", "cluster.decode.ep=2")
    alone = json.loads(succeeds("run", path, "--set", "cluster.decode.gpus=4", "--set", "cluster.decode.dp=4", "--set",
                                "cluster.decode.ep=2", "--json", "--quiet"))
    assert table(folder / "two")[1]["decision_hash"] == alone["decision_hash"]
    assert table(folder / "two")[1]["scenario_hash"] != table(folder / "one")[1]["scenario_hash"]


def what_goes_along_needs_no_scenario_that_runs_without_it(folder):
    path = tiny(folder)  # 2 GPUs, dp 2, ep 2: tp 2 alone is none
    refuses(2, "run", path, "--set", "cluster.decode.tp=2", "--quiet")
    gpus = ("--vary", "cluster.decode.gpus=2,4", "--set", "run.fidelity=analytic")
    asked = {"set": ("--set", "cluster.decode.tp=2"), "axis": ("--vary", "cluster.decode.tp=2"),
             "auto": ("--set", "cluster.decode.tp=2", "--set", "cluster.decode.dp=auto"),
             "behind": ("--vary", "residency.hot_tokens=2048", "--set", "cluster.decode.tp=2")}
    rows = {}
    for name, how in asked.items():
        sweep(folder / name, path, *gpus, *how)
        rows[name] = [(row["status"], row["scenario_hash"]) for row in table(folder / name)]
        assert rows[name] == rows["set"] and [status for status, _ in rows[name]] == ["ok", "ok"], rows
    alone = json.loads(succeeds("run", path, *gpus[2:], "--set", "cluster.decode.tp=2", "--set", "cluster.decode.gpus=4",
                                "--set", "cluster.decode.dp=auto", "--set", "cluster.decode.ep=4", "--json", "--quiet"))
    assert float(table(folder / "set")[1]["output_throughput"]) == alone["metrics"]["output_throughput"]


def replicas_and_experts_that_are_set_stay(folder):
    path = tiny(folder)
    sweep(folder / "dp", path, "--vary", "cluster.decode.gpus=2,4", "--set", "cluster.decode.dp=2")
    rows = table(folder / "dp")
    assert [row["status"] for row in rows] == ["ok", "refused"], rows
    assert "4 GPUs are not tp 1 x dp 2; cluster.decode.dp=auto follows" in rows[1]["message"], rows[1]["message"]
    # Given with what holds them too.
    for name, given in (("ep", "cluster.decode.ep=2"), ("whole", 'cluster.decode={"ep":2}')):
        sweep(folder / name, path, "--vary", "cluster.decode.gpus=2,4", "--set", given)
        alone = json.loads(succeeds("run", path, "--set", "cluster.decode.gpus=4", "--set", "cluster.decode.dp=4", "--set",
                                    "cluster.decode.ep=2", "--json", "--quiet"))
        assert table(folder / name)[1]["decision_hash"] == alone["decision_hash"], name


def all_points_that_fail_are_an_answer_of_no(folder):
    done = kvtide("sweep", tiny(folder), "--vary", "residency=vllm-hybrid", "--fidelity", "analytic", "--out",
                  folder / "out", "--quiet")
    assert done.returncode == 1 and "1 of 1 points failed" in done.stderr, done.stderr
    assert table(folder / "out")[0]["status"] == "failed"


def files_of_points_that_are_none_are_refused_with_their_place(folder):
    path, points = tiny(folder), folder / "points.csv"
    for text, words in ((b"", "empty"), (b"a\n", "no point"), (b"a,a\n1,2\n", "points.csv:1:2"),
                        (b"workload.concurrency\n4,5\n", "points.csv:2:1"), (b'a\n"1\n', "points.csv:2:1"),
                        (b"a\n1\0\n", "points.csv:2"), (b"seed\n1\n", "--seeds N"), (b"a b\n1\n", "a b")):
        points.write_bytes(text)
        said = refuses(2, "sweep", path, "--points", points, "--out", folder / "out", "--quiet")
        assert words in said, (text, said)
    assert not (folder / "out").exists()


def options_that_make_no_sweep_are_refused(folder):
    path, out = tiny(folder), folder / "out"
    vary = ("--vary", "workload.concurrency=4,6")
    for arguments, words in (
            ((path, *vary), "--out DIR is missing"), ((path, "--out", out), "nothing varies"),
            ((path, path, *vary, "--out", out), "2 scenarios given"),
            ((path, *vary, "--out", out, "--seeds", "0"), "expected 1 to 1024"),
            ((path, *vary, "--out", out, "--jobs", "0"), "expected 1 to 256"),
            ((path, *vary, "--out", out, "--threads", "257"), "expected 1 to 256"),
            ((path, *vary, "--out", out, "--shard", "3/2"), "I from 1 to N"),
            ((path, *vary, "--out", out, "--resume", "--dry-run"), "--resume has no effect"),
            ((path, "--zip", "a=1,2", "--out", out), "alone"),
            ((path, "--zip", "a=1,2", "b=1", "--out", out), "equally many"),
            ((path, "--vary", "a=1:0:1", "--out", out), '"1:0:1" is empty'),
            ((path, *vary, "--vary", "workload.concurrency=5", "--out", out), "two axes"),
            (("--merge", "--out", out), "no folder given"),
            (("--merge", out, "--out", out, *vary), "--vary has no effect"),
            ((path, "--vary", "workload.requests=1:2000:1", "--seeds", "1024", "--out", out), "more runs than")):
        said = refuses(2, "sweep", *arguments, "--quiet")
        assert words in said, (arguments, said)
    assert not out.exists()


# --- The same bytes -------------------------------------------------------------------------------------


def files_are_the_same_from_jobs_ranks_and_shards(folder):
    path = tiny(folder)
    seeds = ("--seeds", "2")
    names = (*RESULTS, "runs.csv", "report.html")
    one = folder / "one"
    sweep(one, path, *AXES, *seeds, "--jobs", "1")
    sweep(folder / "two", path, *AXES, *seeds, "--jobs", "2", "--threads", "2", "--cache", "none")
    same_files(one, folder / "two", names)
    shards = [folder / ("shard-%d" % i) for i in (1, 2, 3)]
    for i, shard in enumerate(shards):
        said = sweep(shard, path, *AXES, *seeds, "--shard", "%d/3" % (i + 1))
        assert said.startswith("shard %d/3: 8 runs are in " % (i + 1)), said
        assert files_below(shard) == ["sweep.journal"]
    succeeds("sweep", "--merge", shards[2], shards[0], shards[1], "--out", folder / "merged")
    same_files(one, folder / "merged", names)
    assert files_below(folder / "merged") == ["report.html", "results.csv", "results.json", "runs.csv"]
    needs_mpi()
    for ranks in (1, 2, 4):
        out = folder / ("ranks-%d" % ranks)
        done = mpirun(ranks, path, *AXES, *seeds, "--mpi", "--out", out)
        said = done.communicate(timeout=support.TIMEOUT_S)
        assert done.returncode == 0 and said[0].startswith("12 points, 12 of them"), said
        same_files(one, out, names)


def shards_that_are_not_one_sweep_are_not_merged(folder):
    path, vary = tiny(folder), ("--vary", "workload.concurrency=4,5,6")
    one, two, other, out = (folder / name for name in ("one", "two", "other", "out"))
    sweep(one, path, *vary, "--shard", "1/2")
    sweep(two, path, *vary, "--shard", "2/2")
    sweep(other, path, "--vary", "workload.concurrency=4,5,7", "--shard", "2/2")
    merged = ("--out", out, "--quiet")
    assert "of 2 shards 1 is missing: 2" in refuses(2, "sweep", "--merge", one, *merged)
    assert "shard 1/2 is in %s as well" % one in refuses(2, "sweep", "--merge", one, one, *merged)
    said = refuses(2, "sweep", "--merge", one, other, *merged)
    assert "another question: axes" in said and '"7"' in said, said
    assert "no sweep is there" in refuses(2, "sweep", "--merge", one, folder / "none", *merged)
    assert "a sweep is there already" in refuses(2, "sweep", "--merge", one, two, "--out", one)
    journal = two / "sweep.journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-5])
    assert "1 of its 1 runs are not done" in refuses(2, "sweep", "--merge", one, two, *merged)
    journal.write_bytes(whole)
    assert not out.exists()
    succeeds("sweep", "--merge", one, two, *merged)
    assert "results.json" in refuses(2, "sweep", path, *vary, "--out", out, "--quiet")


# --- What ends a sweep ----------------------------------------------------------------------------------

LONG = ("--vary", "residency.hot_tokens=1024:2019:5")  # 200 points
MIDDLE = ("--vary", "residency.hot_tokens=1024:2014:10")  # 100 of them, a second or two


def begun(out, *arguments, lines=20):
    """A sweep that has finished some runs, and goes on."""
    process = subprocess.Popen((KVTIDE, "sweep", *map(str, arguments), "--out", str(out), "--quiet"),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_lines(out, lines, process)
    return process


def wait_for_lines(out, lines, process):
    journal = out / "sweep.journal"
    while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > lines):
        time.sleep(0.005)
    assert process.poll() is None, process.communicate()


def killed_and_resumed_each_point_has_run_once(folder):
    path, out = tiny(folder), folder / "out"
    for lines in (15, 80):
        process = begun(out, path, *LONG, "--resume", "--jobs", "2", lines=lines)
        process.kill()
        process.communicate()
    assert not (out / "results.csv").exists()
    kept = {run for run, _ in journal_runs_of_whole_lines(out).items()}
    assert 80 <= len(kept) < 200
    with open(out / "sweep.journal", "ab") as journal:
        journal.write(b'0123456789abcdef {"run": 199, "sta')  # as a machine that loses power leaves it
    done = kvtide("sweep", path, *LONG, "--out", out, "--resume", "--jobs", "2")
    assert done.returncode == 0 and "%d of 200 runs are there already" % len(kept) in done.stderr, done.stderr
    assert "torn" in done.stderr
    assert journal_runs(out) == collections.Counter(range(200))
    sweep(folder / "whole", path, *LONG, "--jobs", "1")
    same_files(out, folder / "whole")
    # All done: only the files are made again.
    (out / "results.csv").unlink()
    sweep(out, path, *LONG, "--resume")
    assert journal_runs(out) == collections.Counter(range(200))
    same_files(out, folder / "whole")


def journal_runs_of_whole_lines(out):
    whole = (out / "sweep.journal").read_bytes()
    whole = whole[:whole.rfind(b"\n") + 1]
    return collections.Counter(json.loads(line[17:])["run"] for line in whole.splitlines()[1:])


def a_signal_keeps_what_is_finished_and_says_how_to_go_on(folder):
    path = tiny(folder)
    for number in (signal.SIGINT, signal.SIGTERM):
        out = folder / number.name
        process = begun(out, path, *MIDDLE)
        process.send_signal(number)
        printed, said = process.communicate(timeout=30)
        assert process.returncode == 1 and printed == "", (printed, said)
        kept = len(journal_runs(out))
        assert said == ("kvtide: sweep: %d of 100 runs are kept in %s; the same command with --resume goes on with "
                        "the rest\nkvtide: sweep: interrupted by a signal\n" % (kept, out)), said
        assert files_below(out) == ["sweep.journal"]
    sweep(out, path, *MIDDLE, "--resume")
    assert len(table(out)) == 100


def a_rank_that_is_killed_loses_nothing_that_was_finished(folder):
    needs_mpi()
    path, out = tiny(folder), folder / "out"
    process = mpirun(3, path, *MIDDLE, "--mpi", "--out", out, said=folder / "said")
    wait_for_lines(out, 30, process)
    ranks = [int(pid) for pid in subprocess.run(("pgrep", "-P", str(process.pid)), stdout=subprocess.PIPE,
                                                text=True).stdout.split()
             if b"OMPI_COMM_WORLD_RANK=2\0" in pathlib.Path("/proc", pid, "environ").read_bytes()]
    assert len(ranks) == 1, ranks
    os.kill(ranks[0], signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0, said
    kept = journal_runs(out)
    assert len(kept) >= 30 and set(kept.values()) == {1}
    said = (folder / "said.0").read_text()
    assert "%d of 100 runs are kept in %s; the same command with --resume" % (len(kept), out) in said, said
    process = mpirun(2, path, *MIDDLE, "--out", out, "--resume")  # found to be under mpirun
    printed, said = process.communicate(timeout=120)
    assert process.returncode == 0 and printed.startswith("100 points, 100"), said
    assert journal_runs(out) == collections.Counter(range(100))
    sweep(folder / "alone", path, *MIDDLE)
    same_files(out, folder / "alone")


def a_full_disk_is_told_and_what_is_finished_is_kept(folder):
    path, out = tiny(folder), folder / "out"

    def few_bytes():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60000, resource.RLIM_INFINITY))

    done = kvtide("sweep", path, *MIDDLE, "--out", out, "--quiet", preexec_fn=few_bytes)
    assert done.returncode == 3 and done.stdout == "", done.stderr
    lines = done.stderr.splitlines()
    assert "runs are kept in %s; the same command with --resume" % out in lines[0], lines
    assert lines[1] == "kvtide: %s/sweep.journal: a finished run cannot be kept: File too large" % out, lines
    kept = journal_runs(out)
    assert 10 < len(kept) < 100 and set(kept.values()) == {1} and files_below(out) == ["sweep.journal"]
    sweep(out, path, *MIDDLE, "--resume")
    # Room for the journal, and none for the results.
    (out / "results.json").unlink()
    done = kvtide("sweep", path, *MIDDLE, "--out", out, "--resume", "--quiet", preexec_fn=few_bytes)
    assert done.returncode == 3 and "100 of 100 runs are kept" in done.stderr, done.stderr
    assert not (out / "results.json").exists()
    sweep(out, path, *MIDDLE, "--resume")
    assert len(table(out)) == 100


def a_full_file_system_is_no_other(folder):
    if os.geteuid() != 0:
        raise Skip("a file system cannot be mounted")
    small = folder / "small"
    small.mkdir()
    if subprocess.run(("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)), capture_output=True).returncode:
        raise Skip("a file system cannot be mounted")
    try:
        done = kvtide("sweep", tiny(folder), *MIDDLE, "--out", small / "out", "--quiet")
        assert done.returncode == 3 and "a finished run cannot be kept: No space left on device" in done.stderr
        kept = journal_runs(small / "out")
        assert 10 < len(kept) < 100 and set(kept.values()) == {1}
    finally:
        subprocess.run(("umount", str(small)), check=True)


def a_folder_that_cannot_be_written_costs_no_run(folder):
    path = tiny(folder)
    for out in (folder / "tiny.json" / "out", "/proc/sweep"):
        said = refuses(3, "sweep", path, *AXES, "--out", out, "--quiet")
        assert str(out) in said or "tiny.json" in said, said
    out = folder / "out"
    (out / "sweep.journal").mkdir(parents=True)
    assert "sweep is there already" in refuses(2, "sweep", path, *AXES, "--out", out, "--quiet")
    assert "not an ordinary file" in refuses(2, "sweep", path, *AXES, "--out", out, "--quiet", "--resume")


# --- Going on -------------------------------------------------------------------------------------------


def only_the_same_question_goes_on_in_a_folder(folder):
    path, out = tiny(folder), folder / "out"
    vary = ("--vary", "workload.concurrency=4,6")
    sweep(out, path, *vary)
    before = {name: (out / name).read_bytes() for name in files_below(out)}
    assert "--resume goes on with it" in refuses(2, "sweep", path, *vary, "--out", out, "--quiet")
    for arguments, words in (
            ((path, "--vary", "workload.concurrency=4,7"), ("axes is", '"6"', '"7"')),
            ((path, *vary, "--seeds", "2"), ("seeds is [1] there, and [1,2] here",)),
            ((path, *vary, "--set", "run.interval_s=0.3"), ("scenario.run.interval_s is 0.1 there, and 0.3 here",)),
            ((path, *vary, "--shard", "1/2"), ("shards is 1 there, and 2 here",)),
            ((path, *vary, "--seed", "2"), ("scenario.seed is 1 there, and 2 here",))):
        said = refuses(2, "sweep", *arguments, "--out", out, "--resume", "--quiet")
        assert "is of another question" in said and all(word in said.replace("1, 2", "1,2") for word in words), said
    assert before == {name: (out / name).read_bytes() for name in files_below(out)}
    # A journal of another version.
    line = (out / "sweep.journal").read_bytes().split(b"\n")
    text = line[0][17:].replace(b'"version": "', b'"version": "9')
    (out / "sweep.journal").write_bytes(b"\n".join([hashed(text) + b" " + text, *line[1:]]))
    assert "version is" in refuses(2, "sweep", path, *vary, "--out", out, "--resume", "--quiet")


def a_file_that_points_read_is_part_of_the_question(folder):
    trace = folder / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n0,4096,20\n0.1,4096,20\n")
    path = tiny(folder, changes={"workload": {"trace": {"path": str(trace)}}})
    out, vary = folder / "out", ("--vary", "residency.hot_tokens=1k,2k")
    sweep(out, path, *vary)
    trace.write_text("arrival_s,input_tokens,output_tokens\n0,4096,20\n0.1,4096,21\n")
    assert "points_hash" in refuses(2, "sweep", path, *vary, "--out", out, "--resume", "--quiet")


def two_sweeps_in_one_folder_are_kept_apart(folder):
    path, out = tiny(folder), folder / "out"
    process = begun(out, path, *MIDDLE)
    said = refuses(2, "sweep", path, *MIDDLE, "--out", out, "--resume", "--quiet")
    assert "another kvtide sweep is at work in this folder" in said, said
    process.terminate()
    process.communicate()


def a_failure_of_the_machine_is_tried_again_and_one_of_the_question_is_not(folder):
    path, out = tiny(folder), folder / "out"
    axes = ("--vary", "run.fidelity=sampled,analytic", "--set", "residency=vllm-hybrid")
    assert kvtide("sweep", path, *axes, "--out", out, "--quiet").returncode == 0
    whole = table(out)
    lines = (out / "sweep.journal").read_bytes().splitlines()
    for i, line in enumerate(lines[1:], 1):
        record = json.loads(line[17:])
        if record["run"] == 0:
            record.update(status="failed", may_pass=True, message="out of memory", metrics=[])
            text = json.dumps(record).encode()
            lines[i] = hashed(text) + b" " + text
    (out / "sweep.journal").write_bytes(b"\n".join(lines) + b"\n")
    kvtide("sweep", path, *axes, "--out", out, "--quiet", "--resume")
    assert journal_runs(out) == {0: 2, 1: 1} and table(out) == whole


# --- Before anything is run -----------------------------------------------------------------------------


def a_dry_run_says_what_would_be_run_and_writes_nothing(folder):
    path, out = tiny(folder), folder / "out"
    axes = ("--vary", "workload.concurrency=4,6,4.0", "--vary", "cluster.decode.ep=2,3", "--seeds", "3")
    report = json.loads(succeeds("sweep", path, *axes, "--out", out, "--dry-run", "--json", "--quiet"))
    assert [entry["point"] for entry in report["refused"]] == [1, 3, 5]
    assert report["duplicates"] == [{"point": 4, "same_as": 0}]
    assert report["points"] == 6 and report["runs"] == 9 and report["seeds"] == 3
    assert 0 < report["run_s"] < 30 and report["total_s"] > report["run_s"] and report["peak_bytes_of_one"] > 2**20
    expected = -(-3 // report["jobs"]) * report["prepare_s"] + -(-9 // report["jobs"]) * report["run_s"]
    assert abs(report["total_s"] - expected) < 1e-9 * expected, report
    said = succeeds("sweep", path, *axes, "--dry-run", "--jobs", "2", "--quiet")
    for words in ("points  6, 3 refused, 1 the same as another", "point 4 is the same scenario as point 0",
                  "runs    9: 3 points on 3 seeds", "a run, 2 at once", "memory  about"):
        assert words in said, said
    part = json.loads(succeeds("sweep", path, *axes, "--shard", "2/2", "--dry-run", "--json", "--quiet"))
    assert part["points"] == 3 and part["runs"] == 0
    assert not out.exists()


# --- Without MPI, and on a cluster ----------------------------------------------------------------------


def without_mpi_the_program_starts_and_says_what_is_missing(folder):
    program = folder / "bin/kvtide"
    program.parent.mkdir()
    shutil.copy2(KVTIDE, program)
    environment = {**os.environ, "KVT_DATA": str(TOP / "build/share/kvt")}
    needed = subprocess.run(("ldd", str(program)), stdout=subprocess.PIPE, text=True).stdout
    assert "mpi" not in needed, needed
    command = (str(program), "sweep", tiny(folder), *AXES, "--out", str(folder / "out"), "--quiet")
    done = subprocess.run((*command, "--mpi"), env=environment, capture_output=True, text=True)
    assert done.returncode == 3 and "libopenmpi-dev" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (folder / "out").exists()
    library = folder / "lib/kvt/kvt_mpi.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"no object")
    done = subprocess.run((*command, "--mpi"), env=environment, capture_output=True, text=True)
    assert done.returncode == 3 and "openmpi-bin" in done.stderr, done.stderr
    assert subprocess.run(command, env=environment, capture_output=True).returncode == 0


def batch(name, folder, *arguments, **environment):
    """A batch file as Slurm would start it."""
    done = subprocess.run(("bash", str(TOP / "docs/slurm" / name), *map(str, arguments)),
                          env={**os.environ, "KVTIDE": KVTIDE, "PATH": "%s:%s" % (folder, os.environ["PATH"]),
                               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **environment},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def batch_files_run_the_sweep_both_ways(folder):
    for name in sorted((TOP / "docs/slurm").glob("*.sbatch")):
        subprocess.run(("bash", "-n", str(name)), check=True)
        assert "#SBATCH --time=" in name.read_text()
    path = tiny(folder)
    sweep(folder / "one", path, *AXES)
    array = folder / "array"
    for task in (2, 1, 3):
        batch("sweep-array.sbatch", folder, array, path, *AXES, SLURM_ARRAY_TASK_ID=str(task),
              SLURM_ARRAY_TASK_COUNT="3", SLURM_CPUS_PER_TASK="2")
    # Launched as several, a shard is still its own.
    batch("sweep-array.sbatch", folder, folder / "alone", path, *AXES, SLURM_ARRAY_TASK_ID="1",
          SLURM_ARRAY_TASK_COUNT="3", PMI_SIZE="4")
    # Submitted once more by itself, a task has nothing left to do.
    batch("sweep-array.sbatch", folder, array, path, *AXES, SLURM_ARRAY_TASK_ID="2", SLURM_ARRAY_TASK_COUNT="1",
          SHARDS="3")
    batch("sweep-merge.sbatch", folder, array)
    same_files(folder / "one", array)
    needs_mpi()
    srun = folder / "srun"
    srun.write_text('#!/bin/sh\n[ "$1" = --mpi=pmix ] || exit 9\nshift\nexec mpirun --oversubscribe -n 2 "$@"\n')
    srun.chmod(0o755)
    batch("sweep-mpi.sbatch", folder, folder / "mpi", path, *AXES, SLURM_CPUS_PER_TASK="1")
    same_files(folder / "one", folder / "mpi")


CASES = (
    a_row_a_point_has_the_figures_of_its_own_run,
    results_json_says_the_same_and_what_was_asked,
    several_seeds_are_means_with_intervals_and_a_row_a_run,
    axes_go_together_by_zip_and_by_a_file_of_points,
    a_key_is_set_before_those_below_it_whatever_the_order,
    a_point_that_is_refused_or_fails_is_a_row_and_the_others_run,
    when_no_point_can_be_the_question_is_malformed_and_nothing_is_written,
    a_value_that_no_point_can_have_is_a_slip_of_the_pen,
    replicas_and_spread_experts_follow_the_gpus,
    what_goes_along_needs_no_scenario_that_runs_without_it,
    replicas_and_experts_that_are_set_stay,
    all_points_that_fail_are_an_answer_of_no,
    files_of_points_that_are_none_are_refused_with_their_place,
    options_that_make_no_sweep_are_refused,
    files_are_the_same_from_jobs_ranks_and_shards,
    shards_that_are_not_one_sweep_are_not_merged,
    killed_and_resumed_each_point_has_run_once,
    a_signal_keeps_what_is_finished_and_says_how_to_go_on,
    a_rank_that_is_killed_loses_nothing_that_was_finished,
    a_full_disk_is_told_and_what_is_finished_is_kept,
    a_full_file_system_is_no_other,
    a_folder_that_cannot_be_written_costs_no_run,
    only_the_same_question_goes_on_in_a_folder,
    a_file_that_points_read_is_part_of_the_question,
    two_sweeps_in_one_folder_are_kept_apart,
    a_failure_of_the_machine_is_tried_again_and_one_of_the_question_is_not,
    a_dry_run_says_what_would_be_run_and_writes_nothing,
    without_mpi_the_program_starts_and_says_what_is_missing,
    batch_files_run_the_sweep_both_ways,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
