"""kvtide paper: targets by id, what ends with which status, files, and what a free parameter moves."""
import json
import os
import pathlib
import re
import shutil
import sys

import support
from support import KVTIDE, TOP, files_below, kvtide, refuses, succeeds

SHARE = pathlib.Path(KVTIDE).resolve().parent / "../share/kvt"
QUICK = ("--only", "T1", "--only", "T3.glm.sel", "--only", "F8.unit")


def data_folder(folder):
    """A data folder of its own: what is shipped, with files of the paper that may be changed."""
    share = folder / "share"
    share.mkdir()
    for part in ("models", "scenarios", "schema", "calls", "measured"):
        (share / part).symlink_to((SHARE / part).resolve())
    shutil.copytree((SHARE / "paper").resolve(), share / "paper")
    return share


def edit(share, name, change):
    path = share / "paper" / name
    tree = json.loads(path.read_text(encoding="utf-8"))
    change(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")


def with_data(share, *arguments, run=kvtide):
    return run("paper", *arguments, "--quiet", env={**os.environ, "KVT_DATA": str(share)})


def paper(*arguments):
    return json.loads(succeeds("paper", *arguments, "--json", "--quiet"))


# --- Ids and shape ----------------------------------------------------------------------------------


def one_id_gives_one_target_with_all_its_members(folder):
    report = paper("--only", "T1.hisparse.100k")
    assert report["schema"] == "kvtide/paper/1"
    [target] = report["targets"]
    assert {"id", "class", "paper", "ours", "unit", "error", "verdict"} <= set(target)
    assert (target["id"], target["class"], target["paper"], target["unit"]) == (
        "T1.hisparse.100k", "E", 0.432, "GiB")
    assert target["verdict"] == "within" and round(target["ours"], 3) == 0.432
    assert abs(target["error"] - (target["ours"] / 0.432 - 1)) < 1e-12
    [made_by] = target["made_by"]
    assert made_by["point"] == "size-hisparse/100032" and made_by["source"] == "glm-5.3-100k"
    # (4,096 + 64) rows of 78 x 576 B, and 100,032 index rows of 21 x 132 B.
    assert target["ours"] * 2**30 == 4160 * 78 * 576 + 100032 * 21 * 132


def the_beginning_of_ids_gives_all_of_them_in_their_order(folder):
    report = paper(*QUICK)
    ids = [target["id"] for target in report["targets"]]
    assert ids[0] == "T1.resident.32k" and "F8.unit" in ids and "T3.glm.sel" in ids
    assert len(ids) == 15 and not any(i.startswith("T2") for i in ids)
    assert report["classes"]["E"] == {"asked": 11, "good": 11, "bad": 0, "open": 0}
    assert report["classes"]["P"]["asked"] == 0


def an_id_that_there_is_not_is_a_malformed_question(folder):
    for wrong in ("T1.hisparse.100", "T", "t1", "", "T2.C128.hisparse.tpot.mean"):
        message = refuses(2, "paper", "--only", wrong)
        assert "--only" in message and "T2.C128" in message, message
    refuses(2, "paper", "glm-5.3-100k")
    refuses(2, "paper", "--threads", 0)


def every_property_is_looked_for_in_a_run(folder):
    report = paper("--only", "S")
    assert len(report["targets"]) == 8
    for target in report["targets"]:
        checks, faults, occasions = map(int, re.match(
            r"(\d+) checks, (\d+) faults, (\d+) occasions", target["says"]).groups())
        assert target["ours"] is True and target["verdict"] == "holds", target
        assert checks > 500 and faults == 0 and occasions > 100, target


# --- Status and files -------------------------------------------------------------------------------


def only_an_exact_target_that_fails_ends_with_1(folder):
    share = data_folder(folder)

    def print_otherwise(tree):
        for target in tree["targets"]:
            if target["id"] in ("T1.hisparse.100k", "F8.r2"):
                target["value"] = 0.5
                target["tolerance"] = {"decimals": 3}

    edit(share, "targets.json", print_otherwise)
    done = with_data(share, "--only", "T1")
    assert done.returncode == 1 and "miss       T1.hisparse.100k" in done.stdout, done
    done = with_data(share, "--only", "F8.r2")
    assert done.returncode == 0 and "outside" in done.stdout, done


def a_file_that_is_no_good_is_a_malformed_question(folder):
    share = data_folder(folder)
    edit(share, "targets.json", lambda tree: tree["targets"][3].pop("ours"))
    message = with_data(share, "--only", "T1").stderr
    assert "targets.json#/targets/3" in message, message
    assert with_data(share, "--only", "T1").returncode == 2
    (share / "paper/targets.json").write_text("{", encoding="utf-8")
    assert with_data(share, "--only", "T1").returncode == 2
    (share / "paper/targets.json").unlink()
    assert with_data(share, "--only", "T1").returncode == 2


def what_no_gpu_has_measured_here_is_said_to_be_so(folder):
    share = data_folder(folder)
    (share / "measured").unlink()
    (share / "measured").mkdir()
    done = with_data(share, "--only", "F8", "--json", run=kvtide)
    verdicts = {t["id"]: t["verdict"] for t in json.loads(done.stdout)["targets"]}
    assert done.returncode == 0
    assert verdicts["F8.slope"] == verdicts["F8.r2"] == verdicts["F8.nomiss"] == "not measured"
    assert verdicts["F8.unit"] == "within", verdicts


def the_folder_gets_both_files_and_the_page_needs_nothing_else(folder):
    out = folder / "deep" / "out"
    printed = succeeds("paper", *QUICK, "--only", "F8", "--json", "--quiet", "--out", out)
    assert files_below(out) == ["paper.html", "paper.json"]
    assert (out / "paper.json").read_text(encoding="utf-8") == printed
    page = (out / "paper.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page  # tests/cli/test_report.py: nothing else is asked for
    shown = page[:page.index("<script")]
    for outside in ("http:", "https:", "src=", "@import", "url("):
        assert outside not in shown.partition("<footer>")[0], outside
    assert "Figure 8" in shown and "T1.hisparse.100k" in shown
    assert "decisions no | kernel time no | engine no" in shown  # nothing was run
    assert shown.count("<h2>Figure ") == 8 and shown.count("<h2>Table ") == 4
    assert "not run here" in shown  # figures of runs that were not asked for
    document = json.loads(re.search(r'id="page">(.*?)</script>', page, re.DOTALL).group(1))
    charts = {block["id"]: block for section in document["sections"]
              for block in section["blocks"] if block["type"] == "chart"}
    kinds = {row[3] for row in charts["figure-8-1"]["rows"]}
    assert kinds == {"line", "mark"}, kinds  # a fitted line, and what was measured
    targets = succeeds("report", out, "--table", "csv").splitlines()
    assert len(targets) == 1 + len(json.loads(printed)["targets"])


def a_folder_that_cannot_be_written_costs_no_run(folder):
    (folder / "file").write_text("", encoding="utf-8")
    done = kvtide("paper", "--only", "T1", "--quiet", "--out", folder / "file" / "out")
    assert done.returncode == 3 and done.stdout == "", done


def threads_never_change_a_byte(folder):
    arguments = ("paper", *QUICK, "--only", "S", "--json", "--quiet", "--threads")
    assert succeeds(*arguments, 1) == succeeds(*arguments, 3)


# --- Free parameters --------------------------------------------------------------------------------

# Three runs that take no time, each a target of its own; nothing else of the files counts.
LOADS = {"hisparse": ["residency=hisparse"], "adaptive": [], "dflash2": ["speculation=dflash2"]}
SMALL = ["workload.concurrency=6", "workload.lengths.input.tokens=99968", "selection.tapes=1",
         "selection.steps=64", "run.fidelity=sampled"]
METRIC = "metrics.mean_e2el_ms"


def small_files(share):
    def points(tree):
        tree["points"] = [{"id": name, "scenario": "glm-5.3-100k", "set": sets + SMALL}
                          for name, sets in LOADS.items()]

    def targets(tree):
        tree["targets"] = [
            {"id": "X." + name, "class": "P", "statement": "", "value": 1, "unit": "ms",
             "source": "", "tolerance": {"abs": 1}, "ours": {"point": name, "at": METRIC}}
            for name in LOADS]

    def parameters(tree):
        for parameter in tree["parameters"]:
            parameter["set_by"] = ["X.adaptive"]
            if parameter["key"] == "workload.lengths.output.mean_tokens":
                parameter["value"] = 48
            if parameter["key"] == "workload.requests":
                parameter["value"] = 2

    edit(share, "points.json", points)
    edit(share, "targets.json", targets)
    edit(share, "free-parameters.json", parameters)


def outcome(share):
    done = with_data(share, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return report, {t["id"]: t["ours"] for t in report["targets"]}


def a_free_parameter_changes_what_it_reaches_and_nothing_else(folder):
    share = data_folder(folder)
    small_files(share)
    report, before = outcome(share)
    assert report["badge"]["kernel_time_reason"].startswith("fitted-to-paper"), report["badge"]
    moved = 0
    for index, parameter in enumerate(report["parameters"]):
        key, value = parameter["key"], parameter["value"]
        if isinstance(value, str):
            continue  # a name

        def change(tree, to):
            tree["parameters"][index]["value"] = to

        edit(share, "free-parameters.json", lambda tree: change(tree, value * 2 if key.endswith(
            ("_ms", "_s", "_bytes", "tokens", "requests")) else value * 0.8))
        after = outcome(share)[1]
        changed = {name for name in before if after[name] != before[name]}
        assert changed <= set(parameter["reaches"]), (key, changed, parameter["reaches"])
        # A pool that is larger than what so few ask for changes coverage, or nothing.
        if not key.startswith(("cluster.decode.pools", "residency.refill")):
            assert changed == set(parameter["reaches"]), (key, changed, parameter["reaches"])
        moved += bool(changed)
        edit(share, "free-parameters.json", lambda tree: change(tree, value))
    assert moved >= 17, moved
    assert outcome(share)[1] == before


def each_parameter_reaches_whom_it_is_about(folder):
    share = data_folder(folder)
    small_files(share)
    reaches = {p["key"]: {i[2:] for i in p["reaches"]} for p in outcome(share)[0]["parameters"]}
    for key, whom in (("timing.shared_ms", {"hisparse", "adaptive", "dflash2"}),
                      ("timing.hisparse_request_ms", {"hisparse"}),
                      ("timing.adaptive_request_ms", {"adaptive", "dflash2"}),
                      ("timing.query_ms", {"dflash2"}),
                      ("cluster.import.adaptive_mean_s", {"adaptive"}),
                      ("cluster.import.dflash2_mean_s", {"dflash2"}),
                      ("residency.refill_gb_per_s", {"adaptive", "dflash2"}),
                      ("speculation.acceptance", {"dflash2"}),
                      ("cluster.decode.pools.rows_gib", set())):
        assert reaches[key] == whom, (key, reaches[key])


def what_is_shipped_has_the_values_of_the_file(folder):
    """Models and scenarios carry them too: nothing may drift apart."""
    files = json.loads((SHARE / "paper/free-parameters.json").read_text(encoding="utf-8"))
    share = data_folder(folder)

    def shorten(tree):
        """Sizes load a scenario as runs do, and run nothing."""
        for point in tree["points"]:
            if point.get("kind", "run") == "run":
                point["kind"] = "model"
                point.pop("timeline", None)

    edit(share, "points.json", shorten)
    edit(share, "targets.json", lambda tree: [
        t.update(ours={"judge": "not_modelled"}) for t in tree["targets"]])
    done = with_data(share, "--json")
    report = json.loads(done.stdout)
    assert [p["key"] for p in report["parameters"]] == [p["key"] for p in files["parameters"]]
    assert {p["key"] for p in report["parameters"] if not p["shipped"]} == set()


CASES = [
    one_id_gives_one_target_with_all_its_members,
    the_beginning_of_ids_gives_all_of_them_in_their_order,
    an_id_that_there_is_not_is_a_malformed_question,
    every_property_is_looked_for_in_a_run,
    only_an_exact_target_that_fails_ends_with_1,
    a_file_that_is_no_good_is_a_malformed_question,
    what_no_gpu_has_measured_here_is_said_to_be_so,
    the_folder_gets_both_files_and_the_page_needs_nothing_else,
    a_folder_that_cannot_be_written_costs_no_run,
    threads_never_change_a_byte,
    a_free_parameter_changes_what_it_reaches_and_nothing_else,
    each_parameter_reaches_whom_it_is_about,
    what_is_shipped_has_the_values_of_the_file,
]

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
