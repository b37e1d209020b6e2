"""kvtide validate SCENARIO and --suite decisions: two backends on one schedule.

Here the simulator runs beside itself, which proves the way and not a GPU; and what a machine without
a GPU answers. On one, tests/cuda/test_backend.cu and validation/device.sh go on from here.
"""
import csv
import json
import os
import sys

import support
from support import files_below, kvtide, refuses, succeeds, tiny

# Hot caches, pages that come and go, rounds of several queries.
CHANGES = {"residency.hot_tokens": 1024, "cluster.decode.pools": {"unified_gib": 0.012},
           "workload.concurrency": 8, "workload.requests": 12}
ITSELF = ("--backend", "sim", "--quiet")


def has_gpu():
    return kvtide("check", "--machine").returncode != 3


def lockstep(*arguments):
    return json.loads(succeeds("validate", *arguments, *ITSELF, "--json"))


def the_simulator_agrees_with_itself_on_a_scenarios_own_run(folder):
    path = tiny(folder, changes=CHANGES)
    report = lockstep(path)
    assert report["schema"] == "kvtide/validate/1" and report["suite"] == "lockstep"
    assert report["good"] and report["mismatches"] == 0 and report["first_mismatch"] is None
    assert report["calls"] > 1000 and report["compared"]["cache_states"] > 500
    assert report["compared"]["page_changes"] > 0, report["compared"]
    assert report["compared"]["agreed_rounds"] == report["compared"]["rounds"] > 0
    assert report["badge"] == {"decisions": "no", "decisions_reason": "no GPU", "kernel_time": "no",
                               "kernel_time_reason": "no GPU", "engine": "no"}, report["badge"]
    assert report["broken_off"] is None
    assert report["families"] == [] and report["attention"]["bit_equal"] is None
    run = json.loads(succeeds("run", path, "--fidelity", "exact", "--json", "--quiet"))
    assert report["runs"][0]["decision_hash"] == run["decision_hash"]
    assert report["calls"] == run["rows_followed"]["calls"]
    assert report["runs"][0]["result"]["metrics"] == run["metrics"]


def seeds_and_scenarios_are_runs_of_their_own_and_add_up(folder):
    path = tiny(folder, changes=CHANGES)
    report = lockstep(path, path, "--seeds", 2)
    runs = report["runs"]
    assert [run["seed"] for run in runs] == [1, 2, 1, 2], runs
    assert runs[0]["decision_hash"] == runs[2]["decision_hash"] != runs[1]["decision_hash"]
    assert report["calls"] == sum(run["calls"] for run in runs)


def a_run_may_end_after_so_many_steps(folder):
    path = tiny(folder, changes=CHANGES)
    report = lockstep(path, "--steps", 7)
    assert report["runs"][0]["decode_steps"] == 7 and report["good"]
    assert not report["runs"][0]["interrupted"]


def the_answer_lies_whole_in_its_folder(folder):
    path = tiny(folder, changes=CHANGES)
    said = succeeds("validate", path, *ITSELF, "--steps", 9, "--out", folder / "out")
    assert files_below(folder / "out") == ["steps.csv", "validate.json"]
    report = json.loads((folder / "out/validate.json").read_text(encoding="utf-8"))
    assert report["good"] and said.splitlines()[-1].startswith("yes: the simulator decides as")
    rounds = report["compared"]["rounds"]
    assert f" in {rounds} of {rounds} rounds, call by call" in said.splitlines()[-1], said
    assert said.splitlines()[-2] == ("badge      decisions no (no GPU) | kernel time no (no GPU) | "
                                     "engine no"), said
    with open(folder / "out/steps.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9
    parts = [name for name in rows[0] if name.startswith("predicted_") and name != "predicted_ns"]
    for row in rows:
        assert sum(int(row[name]) for name in parts) == int(row["predicted_ns"]), row
        measured = {row[name] for name in row if name.startswith("measured_")}
        assert measured == {""}, ("nothing was measured", measured)


def a_run_that_fails_leaves_nothing_behind(folder):
    path = tiny(folder, changes=CHANGES)
    for arguments in ((path, "./none.json", *ITSELF), (path, "--seeds", "99", *ITSELF),
                      ("--suite", "decisions", *ITSELF, "--set", "backend.no_such=1"),
                      ("--suite", "fidelity", path, "--set", "no_such=1", "--quiet")):
        refuses(2, "validate", *arguments, "--out", folder / "out", cwd=folder)
        assert not (folder / "out").exists(), arguments


def a_run_that_breaks_off_leaves_what_was_found_and_says_why(folder):
    path = tiny(folder, changes=CHANGES)
    second = tiny(folder, "stalls.json", dict(CHANGES, **{  # none of its requests ever fits
        "workload.lengths.input": {"law": "fixed", "tokens": 400000}, "workload.requests": None,
        "run.duration_s": 10}))
    done = kvtide("validate", path, second, *ITSELF, "--json", "--out", folder / "out")
    assert done.returncode == 1 and "could never fit" in done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads((folder / "out/validate.json").read_text(encoding="utf-8"))
    assert not report["good"] and report["broken_off"], report
    assert report["broken_off"] in done.stderr
    assert report["runs"][0]["mismatches"] == 0 and report["runs"][0]["calls"] > 1000
    assert report["runs"][1]["decode_steps"] == 0
    with open(folder / "out/steps.csv", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == report["runs"][0]["decode_steps"]


def drafts_stage_and_waves_are_compared(folder):
    path = tiny(folder, changes=dict(CHANGES, **{
        "cluster.decode.pools": {"unified_gib": 6}, "residency.hot_tokens": 512,
        "workload.concurrency": 24, "workload.requests": 24,
        "speculation": {"method": "self-sparse", "drafts": 7, "draft_budget_tokens": 512,
                        "staging_fraction": 0.01}}))
    for retrieval in ("shared", "each_query"):
        sets = ["--set", "speculation.retrieval=" + retrieval]
        if retrieval == "each_query":
            sets += ["--set", "speculation.staging_fraction=1"]
        done = kvtide("validate", path, *ITSELF, "--json", "--set", "speculation.retrieval=shared")
        report = json.loads(done.stdout)
        assert done.returncode == 0 and report["good"], report
        assert report["compared"]["extra_waves"] > 0, report["compared"]


def the_grid_has_every_policy_query_count_cache_and_coverage(folder):
    del folder
    report = lockstep("--suite", "decisions", "--quick")
    assert report["good"] and report["suite"] == "decisions"
    golden = len(list((support.TOP / "tests/golden/calls").glob("*.txt")))
    assert report["golden"]["files"] == golden and report["golden"]["mismatches"] == 0
    shared = [cell for cell in report["cells"] if cell["mode"] == "shared"]
    asked = [(policy, queries) for policy in ("lru", "fifo", "clock", "access-lru")
             for queries in (1, 4, 8)] + [("arc", 1), ("sharded-lru", 4), ("s3fifo", 1)]
    wanted = {(policy, queries, hot, coverage) for policy, queries in asked
              for hot in (2048, 4096, 8192) for coverage in (0, 0.5, 1)}
    assert {(cell["policy"], cell["queries"], cell["hot_tokens"], cell["coverage"])
            for cell in shared} == wanted
    assert {cell["mode"] for cell in report["cells"]} == {"shared", "promoted", "each query",
                                                          "turns"}
    for cell in report["cells"]:
        assert cell["mismatches"] == 0 and cell["decided"] == "host", cell
        assert report["badge"]["decisions_reason"] == "no GPU", report["badge"]
        if cell["mode"] == "shared":
            assert cell["calls"] >= (200 if cell["coverage"] < 1 else 20), cell


def a_golden_call_that_was_changed_is_found_and_one_that_is_cut_off_refused(folder):
    share = folder / "share"
    share.mkdir()
    for name, source in (("models", "models"), ("scenarios", "workloads/scenarios")):
        (share / name).symlink_to(support.TOP / source)
    (share / "calls").mkdir()
    golden = (support.TOP / "tests/golden/calls/k16-b64.txt").read_text(encoding="utf-8")
    file = share / "calls/k16-b64.txt"
    run = ("validate", "--suite", "decisions", "--quick", "--shard", "15/15", *ITSELF, "--json")
    environment = {**os.environ, "KVT_DATA": str(share)}
    state = golden.index("state ", len(golden) // 2) + len("state ")
    file.write_text(golden[:state] + ("0" if golden[state] != "0" else "1") + golden[state + 1:],
                    encoding="utf-8")
    done = kvtide(*run, env=environment)
    report = json.loads(done.stdout)
    assert done.returncode == 1 and not report["good"], done.stderr
    assert report["golden"]["mismatches"] == 1 and report["mismatches"] == 0
    assert "k16-b64.txt, call 19:" in report["golden"]["first_mismatch"], report["golden"]
    file.write_text(golden[:len(golden) // 2], encoding="utf-8")
    assert "k16-b64.txt:" in refuses(2, *run, env=environment)
    file.unlink()
    assert "no golden call vectors" in refuses(2, *run, env=environment)


def the_grid_is_the_same_on_any_number_of_threads(folder):
    del folder
    run = ("--suite", "decisions", "--quick", "--shard", "2/5")
    one, two = (lockstep(*run, "--threads", threads) for threads in (1, 2))
    assert one["shard"] == "2/5" and len(one["cells"]) == 4 * 9
    for report in (one, two):
        for cell in report["cells"]:
            del cell["calls_per_s"]
    assert one == two


def without_a_gpu_both_end_with_3_and_one_sentence(folder):
    if has_gpu():
        return
    path = tiny(folder, changes=CHANGES)
    for arguments in (("validate", path), ("validate", "--suite", "decisions"),
                      ("validate", path, "--corrupt"),
                      ("run", path, "--backend", "cuda", "--out", "out"),
                      ("run", path, "--fidelity", "exact", "--set", "backend=cuda"),
                      ("run", "quickstart", "--backend", "cuda", "--set", "run.clock=measured"),
                      ("compare", path, path + ",residency=hisparse", "--set", "backend=cuda",
                       "--set", "run.fidelity=exact")):
        sentence = refuses(3, *arguments, "--quiet", cwd=folder)
        assert "CUDA" in sentence and len(sentence.splitlines()) == 1, sentence
        assert not (folder / "out").exists(), "nothing is left behind"
    refuses(3, "validate", path, "--quiet", "--out", "out", cwd=folder)
    refuses(3, "validate", "--suite", "decisions", "--quiet", "--out", "out", cwd=folder)
    assert not (folder / "out").exists(), "nothing is left behind"


def without_a_gpu_a_scenario_for_one_checks_and_prints(folder):
    path = tiny(folder, changes=dict(CHANGES, **{
        "backend": {"name": "cuda", "shared_tokens": 2048}, "run.fidelity": "exact",
        "run.clock": "measured", "selection": "indexer"}))
    printed = json.loads(succeeds("check", path, "--print", "--json"))["scenario"]
    assert printed["backend"]["name"] == "cuda" and printed["backend"]["shared_tokens"] == 2048
    assert printed["run"]["clock"] == "measured" and printed["selection"] == {"law": "indexer"}
    again = folder / "again.json"
    again.write_text(json.dumps(printed), encoding="utf-8")
    assert json.loads(succeeds("check", again, "--print", "--json"))["scenario"] == printed


def what_cannot_be_asked_is_refused(folder):
    path = tiny(folder, changes=CHANGES)
    for arguments, word in (
            ((path, "--backend", "gpu"), "no such backend; there are: sim, cuda"),
            ((path, "--backend", "sim", "--corrupt"), "the simulator has no rows"),
            ((path, "--quick"), "go with --suite decisions"),
            ((path, "--seeds", "0"), "expected 1 to 20"),
            ((path, "--steps", "many"), "--steps"),
            (("--suite", "decisions", path), "no scenario and no --seeds"),
            (("--suite", "decisions", "--steps", "3"), "goes with a scenario"),
            (("--suite", "decisions", "--shard", "0/3"), "expected I/N"),
            (("--suite", "decisions", "--shard", "4/3"), "expected I/N"),
            (("--suite", "decisions", "--shard", " 1/ 2"), "expected I/N"),
            (("--suite", "decisions", "--shard", "+1/2"), "expected I/N"),
            (("--suite", "decisions", "--shard", "1/2x"), "expected I/N"),
            (("--suite", "decisions", "--shard", "19/19"), "the grid has 18 parts"),
            (("--suite", "decisions", "--shard", "999/999"), "the grid has 18 parts"),
            (("--suite", "decisions", "--set", "replacement=fifo"), "only backend.KEY"),
            (("--suite", "decisions", "--set", "residency=resident"), "only backend.KEY"),
            (("--suite", "decisions", "--set", "backend=cuda"), "is said by --backend"),
            ((path, "--set", "backend=sim"), "is said by --backend"),
            ((path, "--backend", "sim", "--set", "backend=cuda"), "is said by --backend"),
            ((path, "--backend", "sim", "--set", "backend.name=cuda"), "is said by --backend"),
            ((path, "--shard", "1/2"), "go with --suite decisions"),
            (("--suite", "fidelity", "--backend", "sim"), "say nothing there"),
            ((path, "--backend", "sim", "--set", "run.fidelity=sampled"), "call by call"),
            ((path, "--backend", "sim", "--set", "selection=indexer"), "cuda"),
            ((path, "--set", "backend.layers=24"), "20 and 40 hold whole ones"),
            ((path, "--set", "backend.layers=41"), "deepseek-v4.1-flash has 40"),
            ((path, "--set", "backend.layers=1.5"), "layers"),
            ((path, "--set", "backend.layers=-1"), "layers"),
            ((path, "--set", "backend.import=2"), "import"),
            ((path, "--set", "backend.import=true", "--set", "residency=resident"), "import"),
            ((path, "--set", "backend.no_such=1"), "no_such")):
        sentence = refuses(2, "validate", *arguments, "--quiet")
        assert word in sentence, (arguments, sentence)


def backends_are_listed_with_what_can_be_set(folder):
    del folder
    backends = json.loads(succeeds("list", "backends", "--json"))["backends"]
    assert [entry["name"] for entry in backends] == ["sim", "cuda"]
    assert backends[0]["params"] == []
    names = [param["name"] for param in backends[1]["params"]]
    assert {"devices", "ranks_on_device", "host_pool_gib", "shared_tokens",
            "corrupt_step", "layers", "import"} <= set(names), names


def backend_comes_before_what_is_set_of_it(folder):
    path = tiny(folder, changes=CHANGES)
    done = kvtide("run", path, "--backend", "cuda", "--set", "backend.shared_tokens=64")
    assert done.returncode in (0, 3), done.stderr
    said = "--backend cuda: fidelity exact, for every call is run" in done.stderr
    assert said == (done.returncode == 0), done.stderr
    if done.returncode == 3:
        assert len(done.stderr.splitlines()) == 1, done.stderr


if __name__ == "__main__":
    sys.exit(support.run_cases([
        the_simulator_agrees_with_itself_on_a_scenarios_own_run,
        seeds_and_scenarios_are_runs_of_their_own_and_add_up,
        a_run_may_end_after_so_many_steps,
        the_answer_lies_whole_in_its_folder,
        a_run_that_fails_leaves_nothing_behind,
        a_run_that_breaks_off_leaves_what_was_found_and_says_why,
        drafts_stage_and_waves_are_compared,
        the_grid_has_every_policy_query_count_cache_and_coverage,
        a_golden_call_that_was_changed_is_found_and_one_that_is_cut_off_refused,
        the_grid_is_the_same_on_any_number_of_threads,
        without_a_gpu_both_end_with_3_and_one_sentence,
        without_a_gpu_a_scenario_for_one_checks_and_prints,
        what_cannot_be_asked_is_refused,
        backends_are_listed_with_what_can_be_set,
        backend_comes_before_what_is_set_of_it,
    ]))
