"""The commands as a user meets them: words, exit statuses, files, signals, and the same bytes."""
import csv
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import support
from support import KVTIDE, TOP, files_below, kvtide, refuses, succeeds, tiny

COMMANDS = ("run", "size", "compare", "report", "sweep", "trace", "paper", "list", "check", "completion")
WRITTEN = ["itl.csv", "report.html", "requests.csv", "result.json", "run.log", "timeline.csv", "timeline.om"]
# Wall-clock figures live in run.log alone.
SAME_BYTES = ("itl.csv", "report.html", "requests.csv", "result.json", "timeline.csv", "timeline.om")


def bytes_of(folder):
    return {name: pathlib.Path(folder, name).read_bytes() for name in SAME_BYTES}


def metrics_of(folder):
    return json.loads(pathlib.Path(folder, "result.json").read_text(encoding="utf-8"))["metrics"]


# --- Words ------------------------------------------------------------------------------------------


def the_bare_program_shows_five_lines_to_run(folder):
    said = succeeds()
    assert len(re.findall(r"^  kvtide \w+", said, re.MULTILINE)) == 5, said


def help_is_an_answer_for_the_program_and_every_command(folder):
    assert all(name in succeeds("--help") for name in COMMANDS)
    for name in COMMANDS:
        said = succeeds(name, "--help")
        assert said.startswith("usage: kvtide %s " % name), said
        assert said == succeeds(name, "-h")
        assert all(len(line) <= 100 for line in said.splitlines()), said


def the_version_names_a_version_and_a_commit(folder):
    assert re.match(r"kvtide \d+\.\d+\.\d+ \(.+\)\n$", succeeds("--version"))


def usage_errors_are_one_sentence_and_status_2(folder):
    for arguments, word in (
            (("frobnicate",), "no command frobnicate"),
            (("sweep",), "--out DIR is missing"),
            (("sweep", "--out", "x"), "nothing varies"),
            (("plan", "quickstart"), "no objective is given"),
            (("run", "--sed", "seed=1"), "--s"),
            (("run", "--seeed", "1"), "did you mean --seed"),
            (("run", "--out"), "--out DIR"),
            (("run", "--quiet=1"), "takes no value"),
            (("run", "--seed", "1", "--seed", "2"), "given twice"),
            (("run", "--threads", "-1"), "--threads"),
            (("run", "--threads", "0"), "expected 1 to"),
            (("run", "--threads", "two"), "--threads"),
            (("run", "--seed", "x", "quickstart"), "seed"),
            (("run", "--fidelity", "analytical"), "analytical"),
            (("run", "--backend", "cude"), "sim, cuda"),
            (("run", "--backend", "cuda", "--fidelity", "sampled"), "run.fidelity=exact"),
            (("run", "--backend", "cuda", "--set", "run.fidelity=sampled"), "run.fidelity=exact"),
            (("run", "--plugin", "x.so"), "x.so: the file cannot be opened"),
            (("run", "--goodput"), "--goodput ttft:MS"),
            (("run", "--goodput", "ttft=2000"), '"ttft=2000" is no bound'),
            (("run", "--goodput", "ttft:2000", "tpto:50"), '"tpto:50" is no bound'),
            (("run", "--goodput", "ttft:2000,"), '"" is no bound'),
            (("run", "--goodput", "ttft:soon"), "ttft:soon"),
            (("run", "--goodput", "ttft:0"), "ttft:0"),
            (("run", "--goodput", "ttft:1", "--goodput", "ttft:2"), "ttft is given twice"),
            (("run", "--goodput", "ttft:1", "--set", 'slo.classes=[{"name": "a", "share": 1}]'),
             "slo.classes of its own"),
            (("run", "quickstart", "glm-5.3-100k"), "2 arguments"),
            (("run", "quickstrat"), "there are: "),
            (("run", "nowhere/at-all.json"), "no such scenario file"),
            (("run", "--set", "seed"), "PATH=VALUE"),
            (("run", "--set", "=1"), "PATH"),
            (("run", "--set", "residency.polcy=lru"), "polcy"),
            (("size",), "0 arguments"),
            (("size", "quickstart", "--engine", "llama.cpp"), "there are: ideal"),
            (("size", "quickstart", "--tokens", "1,"), "--tokens"),
            (("compare",), "0 arguments"),
            (("compare", "quickstart"), "two or more"),
            (("list", "cheeses"), "there are: models"),
            (("list", "models", "hardware"), "2 arguments"),
            (("check",), "no file"),
            (("check", "--print"), "one"),
            (("check", "--set", "seed=1", "quickstart"), "--print"),
            (("check", "--print", "--schema"), "one question"),
            (("check", "--schema", "quickstart"), "takes no files"),
            (("check", "nowhere/at-all.json"), "no such file"),
            (("trace",), "trace"),
    ):
        sentence = refuses(2, *arguments)
        assert word in sentence, "%r was expected in: %s" % (word, sentence)


def the_machine_is_looked_at_or_lacks_a_gpu(folder):
    done = kvtide("check", "--machine", "--json")
    if done.returncode == 3:
        sentence = refuses(3, "check", "--machine")
        assert "GPU" in sentence or "CUDA device" in sentence, sentence
        return
    machine = json.loads(done.stdout)
    assert machine["schema"] == "kvtide/machine/1"
    assert machine["fit"] == (done.returncode == 0) == (not machine["faults"]), machine["faults"]
    assert machine["gpus"] and machine["gpus"][0]["h2d_bytes_per_s"] > 1e9


# --- Lists and checks -----------------------------------------------------------------------------------


def every_kind_is_listed_for_people_and_as_json(folder):
    everything = json.loads(succeeds("list", "--json"))
    kinds = [name for name in everything if name != "schema"]
    overview = succeeds("list")
    for kind in kinds:
        entries = everything[kind]
        assert json.loads(succeeds("list", kind, "--json"))[kind] == entries, kind
        brief, full = succeeds("list", kind), succeeds("list", kind, "-v")
        assert len(brief) <= len(full), kind
        for entry in entries:
            name = entry.get("name", entry.get("path"))
            assert name in overview and name in brief, name
            for param in entry.get("params", ()):
                assert param["name"] in full and set(param) >= {"type", "help"}, param
        assert all(len(line) <= 80 for line in full.splitlines()), full
    assert {"models", "hardware", "policies", "laws", "drafters", "scenarios", "metrics"} <= set(kinds)
    lines = overview.splitlines()
    for kind in ("residency", "replacement", "scheduling", "router"):
        entries = [entry for entry in everything["policies"] if entry["kind"] == kind]
        assert json.loads(succeeds("list", kind, "--json"))[kind] == entries, kind
        (first,) = (i for i, line in enumerate(lines) if line.startswith(kind + " "))
        assert lines[first].split()[1] == entries[0]["name"], lines[first]


def every_shipped_scenario_and_file_is_sound(folder):
    names = [entry["name"] for entry in json.loads(succeeds("list", "scenarios", "--json"))["scenarios"]]
    files = sorted(str(path) for path in TOP.glob("models/*/*.json"))
    grids = sorted(map(str, TOP.glob("validation/grids/*.json")))
    said = succeeds("check", *names, *files, *grids,
                    *sorted(map(str, TOP.glob("validation/reference/*.json"))))
    assert len(grids) == 2 and all("%s: ok (grid)" % grid in said for grid in grids), said
    for name in names:
        assert "%s: ok (scenario)" % name in said, said
    for path in files:
        noun = {"llm": "model", "hardware": "hardware", "drafters": "drafter",
                "acceptance": "acceptance table", "costs": "cost table",
                "profiles": "profile", "engine": "engine"}[path.split("/")[-2]]
        assert "%s: ok (%s)" % (path, noun) in said, said


def all_files_are_checked_whatever_is_wrong_with_one(folder):
    good, bad = tiny(folder), folder / "bad.json"
    bad.write_text("{", encoding="utf-8")
    done = kvtide("check", bad, good, folder / "none.json", good)
    assert done.returncode == 2
    assert done.stdout == ("%s: ok (scenario)\n" % good) * 2, done.stdout
    assert len(done.stderr.splitlines()) == 2, done.stderr
    report = json.loads(kvtide("check", "--json", bad, good).stdout)["files"]
    assert [entry["ok"] for entry in report] == [False, True] and report[0]["message"], report


def the_scenario_in_force_is_printed_with_its_origins(folder):
    path = tiny(folder)
    printed = succeeds("check", path, "--print", "--set", "seed=7").splitlines()
    assert len({line.index(" = ") for line in printed}) == 1, "paths are not aligned"
    seed = next(line for line in printed if line.startswith("seed "))
    assert re.search(r"= 7 +# --set$", seed), seed
    tree = json.loads(succeeds("check", path, "--print", "--json", "--set", "seed=7"))
    assert tree["scenario"]["seed"] == 7 and tree["origins"]["seed"] == "--set"
    assert tree["origins"]["run.clock"] == "default"
    assert len(tree["origins"]) == len(printed)


def what_is_printed_in_force_runs_to_the_same_decisions(folder):
    path, again = tiny(folder), folder / "again.json"
    in_force = json.loads(succeeds("check", path, "--print", "--json"))["scenario"]
    again.write_text(json.dumps(in_force), encoding="utf-8")
    hashes = [json.loads(succeeds("run", p, "--json", "--quiet"))["decision_hash"]
              for p in (path, again)]
    assert hashes[0] == hashes[1], hashes


def the_schema_is_the_one_in_the_tree(folder):
    shipped = (TOP / "docs/schema/scenario.schema.json").read_text(encoding="utf-8")
    assert succeeds("check", "--schema") == shipped


# --- Runs ---------------------------------------------------------------------------------------------------


def a_run_writes_four_whole_files_and_a_summary_of_80_columns(folder):
    done = kvtide("run", tiny(folder), "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    assert files_below(folder / "out") == WRITTEN
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout
    result = json.loads((folder / "out/result.json").read_text(encoding="utf-8"))
    assert result["schema"] == "kvtide/result/1" and result["ending"] == "complete"
    requests = result["requests"]
    assert requests["arrived"] == 12 == (requests["completed"] + requests["running"]
                                         + requests["waiting"] + sum(requests["dropped"].values()))
    rows = result["rows_followed"]
    assert rows["selected"] == rows["tail"] + rows["optional"] + rows["hot"] + rows["missed"]
    assert len((folder / "out/requests.csv").read_text().splitlines()) == 1 + 12


def json_on_stdout_is_the_result(folder):
    path = tiny(folder)
    said = succeeds("run", path, "--json", "--out", folder / "out", "--quiet")
    assert said == (folder / "out/result.json").read_text(encoding="utf-8")


def quiet_says_nothing_on_stderr(folder):
    assert kvtide("run", tiny(folder), "--quiet").stderr == ""


def equal_seeds_give_equal_bytes_and_other_seeds_other_figures(folder):
    path = tiny(folder)
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        succeeds("run", path, "--seed", seed, "--out", folder / name)
    assert bytes_of(folder / "a") == bytes_of(folder / "b")
    assert metrics_of(folder / "a") != metrics_of(folder / "c")


def threads_do_not_change_a_byte(folder):
    path = tiny(folder, changes={"selection.tapes": 3})
    for threads in (1, 2, 5):
        succeeds("run", path, "--threads", threads, "--out", folder / str(threads))
    assert bytes_of(folder / "1") == bytes_of(folder / "2") == bytes_of(folder / "5")


def neither_locale_nor_folder_changes_a_byte(folder):
    tiny(folder)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    succeeds("run", "./tiny.json", "--out", "a", cwd=folder)
    environment = {**os.environ, "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}
    succeeds("run", "../tiny.json", "--out", "../b", cwd=elsewhere, env=environment)
    first, second = bytes_of(folder / "a"), bytes_of(folder / "b")
    assert first["timeline.csv"] == second["timeline.csv"]
    assert first["requests.csv"] == second["requests.csv"]
    results = [json.loads(b["result.json"]) for b in (first, second)]
    for result in results:  # the path as it was given is a part of it
        del result["inputs"]
    assert results[0] == results[1]


def shipped_names_work_from_any_folder(folder):
    assert "glm-5.3" in succeeds("size", "glm-5.3-100k", cwd=folder)
    assert "glm-5.3" in succeeds("list", "models", cwd="/")


def a_result_runs_again_to_the_same_figures(folder):
    succeeds("run", tiny(folder), "--out", folder / "a")
    succeeds("run", folder / "a/result.json", "--out", folder / "b")
    assert metrics_of(folder / "a") == metrics_of(folder / "b")


def set_is_applied_from_left_to_right_and_options_last(folder):
    path = tiny(folder)
    said = succeeds("run", path, "--json", "--quiet", "--set", "seed=2", "--set", "seed=3",
                    "--seed", "4")
    assert json.loads(said)["scenario"]["seed"] == 4
    said = succeeds("run", path, "--json", "--quiet", "--set", "seed=2", "--set", "seed=3")
    assert json.loads(said)["scenario"]["seed"] == 3


def goodput_is_one_class_of_all_requests_in_whatever_spelling(folder):
    path = tiny(folder)
    wanted = [{"name": "all", "share": 1, "priority": 0, "ttft_ms": 2000, "tpot_ms": 5.5,
               "e2el_ms": 200, "attain": 0.99}]
    for arguments in (("--goodput", "ttft:2000", "tpot:5.5", "e2el:200", "--quiet", path),
                      ("--goodput=ttft:2000", "tpot:5.5,e2el:200", path, "--quiet"),
                      (path, "--goodput", "e2el:200", "--goodput", "tpot:5.5,ttft:2000", "--quiet")):
        result = json.loads(succeeds("run", "--json", *arguments))
        assert result["scenario"]["slo"]["classes"] == wanted, arguments
        assert result["metrics"]["request_goodput"] is not None
    only = json.loads(succeeds("run", "--json", "--quiet", path, "--goodput", "ttft:2000"))
    assert only["scenario"]["slo"]["classes"][0]["e2el_ms"] == 0


def sizes_are_told_in_80_columns_also_where_weights_do_not_fit(folder):
    names = [entry["name"] for entry in json.loads(succeeds("list", "scenarios", "--json"))["scenarios"]]
    for arguments in (*((name,) for name in names), ("vllm-calculator", "--set", "speculation=dflash2"),
                      ("glm-5.3-100k", "--tokens", "1000,1000000")):
        said = succeeds("size", *arguments)
        assert all(len(line) <= 80 for line in said.splitlines()), said
    done = kvtide("size", "glm-5.3-100k", "--set", "hardware=h100")
    assert done.returncode == 1 and all(len(line) <= 80 for line in done.stdout.splitlines()), done
    assert re.search(r"^  KV pool +none$", done.stdout, re.MULTILINE), done.stdout


# --- Where files cannot be written ------------------------------------------------------------------------------


def an_output_that_cannot_be_written_is_said_and_leaves_nothing(folder):
    path, occupied = tiny(folder), folder / "occupied"
    occupied.write_text("mine", encoding="utf-8")
    for out in (occupied, occupied / "below", pathlib.Path("/proc/kvtide"), ""):
        for arguments in (("run", path), ("compare", path, path)):
            refuses(3 if out else 2, *arguments, "--out", out, "--quiet")
    assert occupied.read_text(encoding="utf-8") == "mine"
    assert files_below(folder) == ["occupied", "tiny.json"]


def every_command_says_that_its_output_is_the_machines(folder):
    """3 where a file cannot be written, and 2 where one that is asked for cannot be read."""
    path = tiny(folder)
    (folder / "occupied").write_text("mine", encoding="utf-8")
    succeeds("run", path, "--out", folder / "run", "--quiet", "--no-report")
    succeeds("trace", "record", path, "--to", folder / "a.kvsel", "--fidelity", "exact", "--quiet")
    succeeds("sweep", path, "--vary", "residency.hot_tokens=2k", "--shard", "1/2", "--out", folder / "sweep", "--quiet")
    requests = folder / "requests.csv"
    requests.write_text("arrival_s,input_tokens,output_tokens\n0,4096,20\n", encoding="utf-8")
    before, below = files_below(folder), folder / "occupied/below"
    for arguments in (
            ("run", path, "--out"),
            ("compare", path, path, "--out"),
            ("sweep", path, "--vary", "residency.hot_tokens=2k", "--out"),
            ("plan", path, "--slo", "output_throughput>=1", "--minimize", "workload.concurrency=4:6", "--out"),
            ("paper", "--only", "T1", "--out"),
            ("validate", path, "--suite", "fidelity", "--out"),
            ("trace", "convert", requests, "--to"),
            ("trace", "record", path, "--fidelity", "exact", "--to"),
            ("trace", "merge", folder / "a.kvsel", folder / "a.kvsel", "--to"),
            ("trace", "mrc", folder / "a.kvsel", "--out"),
            ("trace", "replay", folder / "a.kvsel", "--out")):
        ending = ".kvsel" if arguments[1] in ("record", "merge") else ".csv" if arguments[1] == "convert" else ""
        done = kvtide(*arguments, "%s%s" % (below, ending), "--quiet")
        assert done.returncode == 3 and done.stderr.count("\n") == 1, done
        assert str(folder / "occupied") in done.stderr and "Not a directory" in done.stderr, done.stderr
    for arguments in (("run", below), ("run", folder), ("trace", "stats", folder), ("trace", "convert", folder, "--to", "x.csv"),
                      ("report", below), ("explain", below), ("run", path, "--set", "model=%s/x.json" % below)):
        refuses(2, *arguments, cwd=folder)
    assert files_below(folder) == before


def lines_of_requests(folder, count):
    path = folder / "requests.csv"
    with open(path, "w", encoding="utf-8") as file:
        file.write("arrival_s,input_tokens,output_tokens\n")
        file.writelines("%d,4096,20\n" % second for second in range(count))
    return path


def a_disk_that_fills_up_leaves_no_file(folder):
    def small_files_only():
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

    path = tiny(folder)
    many = lines_of_requests(folder, 1000)
    (folder / "out").mkdir()
    for arguments in (("run", path, "--out", folder / "out", "--quiet"),
                      ("compare", path, path, "--out", folder / "out", "--quiet"),
                      ("trace", "convert", many, "--to", folder / "out" / "b.csv")):
        sentence = refuses(3, *arguments, preexec_fn=small_files_only)
        assert str(folder / "out") in sentence and sentence.endswith(": File too large"), sentence
        assert os.listdir(folder / "out") == [], os.listdir(folder / "out")


def a_closed_pipe_ends_no_run_halfway(folder):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([KVTIDE, "run", tiny(folder), "--quiet", "--out", folder / "out"],
                          stdout=writer, stderr=subprocess.PIPE, timeout=support.TIMEOUT_S)
    os.close(writer)
    assert done.returncode != 2, done.stderr
    assert files_below(folder / "out") in ([], WRITTEN), files_below(folder / "out")


# --- Signals -----------------------------------------------------------------------------------------------------


def started(folder, out):
    """A run of hours, once it writes."""
    path = tiny(folder, changes={"workload.requests": 100000000})
    process = subprocess.Popen([KVTIDE, "run", path, "--quiet", "--out", out],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + support.TIMEOUT_S
    while not (out.exists() and any(out.iterdir())) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    support.goes_on(process, 0.3)
    return process


def a_signal_leaves_whole_files_marked_interrupted(folder):
    for number in (signal.SIGINT, signal.SIGTERM):
        out = folder / number.name
        process = started(folder, out)
        process.send_signal(number)
        said, complained = process.communicate(timeout=support.TIMEOUT_S)
        assert process.returncode == 1, (process.returncode, complained)
        assert files_below(out) == WRITTEN, files_below(out)
        result = json.loads((out / "result.json").read_text(encoding="utf-8"))
        assert result["ending"] == "interrupted" and result["metrics"]["completed"] > 0
        arrived = result["requests"]["arrived"]
        assert len((out / "requests.csv").read_text().splitlines()) == 1 + arrived
        assert (out / "timeline.csv").read_text().endswith("\n")
        assert "interrupted" in said, said


def a_command_that_does_not_heed_signals_ends_by_one_and_leaves_no_temporary(folder):
    (folder / "out").mkdir()
    many = lines_of_requests(folder, 400000)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process = subprocess.Popen([KVTIDE, "trace", "convert", many, "--to", folder / "out" / "b.csv"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not os.listdir(folder / "out") and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(number)
        said = process.communicate(timeout=support.TIMEOUT_S)[1]
        assert process.returncode == 1 and number.name in said, (process.returncode, said)
        assert os.listdir(folder / "out") == [], os.listdir(folder / "out")


def a_signal_while_selections_are_recorded_ends_the_run_soon(folder):
    path = tiny(folder, changes={"workload.lengths.input.tokens": 900000, "selection.tapes": 32,
                                 "selection.steps": 65536, "selection.memory_mib": 1 << 20,
                                 "workload.lengths.output": {"law": "fixed", "tokens": 60000},
                                 "cluster.decode.pools": "derived"})
    exact = "run.fidelity=exact"
    for command in (("run", path, "--set", exact), ("compare", path, path, "--set", exact)):
        process = subprocess.Popen([KVTIDE, *command, "--quiet", "--out", folder / "out"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        support.goes_on(process, 0.7)
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=support.TIMEOUT_S)
        assert process.returncode == 1 and said == "", (process.returncode, said)
        assert "interrupted" in complained and len(complained.splitlines()) == 1, complained
        assert not (folder / "out").exists() or files_below(folder / "out") == []
    # A sampled run records as it goes: what there is of it is a result, and says so.
    process = subprocess.Popen([KVTIDE, "run", path, "--quiet", "--out", folder / "out"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    support.goes_on(process, 0.7)
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=support.TIMEOUT_S)
    assert process.returncode == 1, (process.returncode, complained)
    result = json.loads((folder / "out/result.json").read_text(encoding="utf-8"))
    assert result["ending"] == "interrupted" and "interrupted" in said, said


def a_killed_run_leaves_no_result_and_does_not_disturb_the_next(folder):
    out = folder / "out"
    process = started(folder, out)
    process.kill()
    process.communicate(timeout=support.TIMEOUT_S)
    assert not any((out / name).exists() for name in WRITTEN), files_below(out)
    succeeds("run", tiny(folder), "--out", out)
    assert all((out / name).exists() for name in WRITTEN)


# --- The README ---------------------------------------------------------------------------------------------------


def readme_commands():
    """(command, whether its block says that it takes long)."""
    text = (TOP / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh( slow)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(line, bool(slow)) for slow, block in blocks
            for line in block.replace("\\\n", " ").splitlines()
            if line.startswith("build/kvtide")]


def commands_of_the_readme_run(folder):
    """Those that take long for a tenth of a simulated second: all that they name is there, and runs."""
    if not (TOP / "README.md").exists():
        raise support.Skip("there is no README.md yet")
    commands = readme_commands()
    assert len(commands) > 3, "README.md shows no commands"
    (folder / "build").mkdir()
    for name in os.listdir(TOP):
        if name != "build":
            (folder / name).symlink_to(TOP / name)
    (folder / "build/kvtide").symlink_to(pathlib.Path(KVTIDE).resolve())
    for line, slow in commands:
        if "../" in line:
            continue  # a file beside the checkout: not everybody has it
        if slow:
            line += " --quiet"
            # A grid of its own, which tests/cli/test_pages.py runs whole.
            line += " --shard 1/8" if "--suite decisions" in line else " --set run.duration_s=0.1"
            if "rank-loss" in line:  # its fault is part of what must happen
                line += " --set cluster.faults.0.at_s=0.05"
            if not re.search("prefix-offload|--suite decisions", line):  # no law
                line += " --set selection.tapes=1 --set selection.steps=64"
        done = subprocess.run(line, shell=True, cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=support.TIMEOUT_S)
        assert done.returncode in (0, 1), "%s: status %d\n%s" % (line, done.returncode, done.stdout)


def a_run_with_an_end_has_a_row_for_each_interval_from_the_first_on(folder):
    """Where the next event was the end, the first interval once reached up to it."""
    phases = [{"concurrency": 2, "seconds": 0.5}, {"concurrency": 4, "seconds": 0.3}]
    for name, changes, edges in (
            ("stops", {"run.duration_s": 0.35}, {0.1, 0.2, 0.3}),
            ("phases", {"workload": {"phases": phases, "lengths": support.TINY["workload"]["lengths"]}},
             {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7})):
        out = folder / name
        succeeds("run", support.tiny(folder, changes=changes), "--quiet", "--out", out)
        rows = (out / "timeline.csv").read_text(encoding="utf-8").splitlines()[1:]
        ends = {round(float(row.split(",")[1]), 6) for row in rows}
        assert edges <= ends, (name, sorted(ends))


def a_long_prompt_and_a_long_answer_need_not_meet_in_one_request(folder):
    """Hot caches are sized for a request's prompt and the workload's longest answer."""
    (folder / "t.csv").write_text("arrival_s,input_tokens,output_tokens\n0,900,3\n0,3,900\n",
                                  encoding="utf-8")
    path = support.tiny(folder, changes={"workload": {"arrival": "trace", "path": "./t.csv"}})
    result = json.loads(succeeds("run", path, "--json", "--quiet"))
    assert result["requests"]["completed"] == 2, result["requests"]


def the_readme_s_quickstart_is_what_is_printed(_):
    """A hundred thousand tokens a request: in an instrumented build this alone takes minutes."""
    if "release" not in os.path.realpath(support.KVTIDE):
        raise support.Skip("only in a release build")
    readme = (support.TOP / "README.md").read_text(encoding="utf-8")
    printed = succeeds("run", "--quiet")
    assert "```\n" + printed + "```\n" in readme, "README.md shows another quickstart:\n" + printed


def what_a_run_has_not_is_not_reported(folder):
    """Neither how exact it is, nor without a word why there are only dashes."""
    for changes, warning, absent, present in (
            ({"run.warmup": {"rule": "seconds", "value": 1000}},
             "run.warmup cut the whole run", ("sampling ",), "cut the whole run"),
            ({"workload.lengths.output": {"law": "fixed", "tokens": 1}}, "",
             ("TPOT +-", "stand for"), "followed\nbadge"),
            ({"workload.arrival": "phases", "workload.concurrency": None,
              "workload.requests": None, "workload.phases": [{"concurrency": 0, "seconds": 1}]},
             "not one request arrived", ("sampling ", "stand for -"), "nothing arrived")):
        done = kvtide("run", tiny(folder, changes=changes), "--quiet")
        assert done.returncode == (1 if "not one" in warning else 0), done
        assert warning in done.stderr and (done.stderr == "") == (warning == ""), done.stderr
        assert present in done.stdout, done.stdout
        for words in absent:
            assert words not in done.stdout, (words, done.stdout)


def counts_of_followed_calls_are_called_so(folder):
    for fidelity, words in (("sampled", " of followed calls = tail"), ("exact", " = tail")):
        said = succeeds("run", tiny(folder), "--quiet", "--set", "run.fidelity=" + fidelity)
        for line in ("selected", "distinct"):
            found = next(text for text in said.splitlines() if text.startswith(line))
            assert found.split(None, 2)[2].startswith(words.strip()), found


def times_of_the_timeline_are_exact(folder):
    succeeds("run", tiny(folder), "--out", folder / "out", "--quiet", "--set", "run.duration_s=4")
    with open(folder / "out/timeline.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    times = [name for name in rows[0] if name.endswith("_s")][:2]
    assert times == ["from_s", "to_s"], times
    for number, row in enumerate(rows[:-1]):
        for time, tenths in (("from_s", number), ("to_s", number + 1)):
            assert row[time] == "%g" % (tenths / 10), (number, row[time])


CASES = (
    what_a_run_has_not_is_not_reported,
    counts_of_followed_calls_are_called_so,
    times_of_the_timeline_are_exact,
    the_readme_s_quickstart_is_what_is_printed,
    a_run_with_an_end_has_a_row_for_each_interval_from_the_first_on,
    a_long_prompt_and_a_long_answer_need_not_meet_in_one_request,
    the_bare_program_shows_five_lines_to_run,
    help_is_an_answer_for_the_program_and_every_command,
    the_version_names_a_version_and_a_commit,
    usage_errors_are_one_sentence_and_status_2,
    the_machine_is_looked_at_or_lacks_a_gpu,
    every_kind_is_listed_for_people_and_as_json,
    every_shipped_scenario_and_file_is_sound,
    all_files_are_checked_whatever_is_wrong_with_one,
    the_scenario_in_force_is_printed_with_its_origins,
    what_is_printed_in_force_runs_to_the_same_decisions,
    the_schema_is_the_one_in_the_tree,
    a_run_writes_four_whole_files_and_a_summary_of_80_columns,
    json_on_stdout_is_the_result,
    quiet_says_nothing_on_stderr,
    equal_seeds_give_equal_bytes_and_other_seeds_other_figures,
    threads_do_not_change_a_byte,
    neither_locale_nor_folder_changes_a_byte,
    shipped_names_work_from_any_folder,
    a_result_runs_again_to_the_same_figures,
    set_is_applied_from_left_to_right_and_options_last,
    goodput_is_one_class_of_all_requests_in_whatever_spelling,
    sizes_are_told_in_80_columns_also_where_weights_do_not_fit,
    an_output_that_cannot_be_written_is_said_and_leaves_nothing,
    every_command_says_that_its_output_is_the_machines,
    a_disk_that_fills_up_leaves_no_file,
    a_closed_pipe_ends_no_run_halfway,
    a_signal_leaves_whole_files_marked_interrupted,
    a_command_that_does_not_heed_signals_ends_by_one_and_leaves_no_temporary,
    a_signal_while_selections_are_recorded_ends_the_run_soon,
    a_killed_run_leaves_no_result_and_does_not_disturb_the_next,
    commands_of_the_readme_run,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
