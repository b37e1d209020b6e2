"""report.html and kvtide report: what a page holds, that it is inert and needs nothing else, figures
and tables; and in a headless Chromium, that its charts are drawn and answer the pointer.
"""
import csv
import io
import json
import os
import re
import shutil
import sys

import chromium
import support
from support import TOP, Skip, files_below, kvtide, refuses, succeeds, tiny

HOSTILE = "</script><script>window.bad=1</script>\"'<img src=x onerror=window.bad=1>\n&amp;\u2028"
PHASES = {"workload.requests": None, "workload.concurrency": None, "workload.arrival": "phases",
          "workload.phases": [{"concurrency": 2, "seconds": 0.5}, {"concurrency": 6, "seconds": 0.5}]}
RUN_CHARTS = ["tpot-parts", "ttft-parts", "uses", "rows", "bytes", "requests", "output", "shares",
              "step", "link", "memory", "ttft", "tpot", "step-parts", "hbm-classes"]


def document(page):
    """The JSON that a page is drawn from."""
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="page">(.*?)</script>', text, re.DOTALL)
    return json.loads(found.group(1))


def blocks(page, kind):
    return {block["id"]: block for section in document(page)["sections"]
            for block in section["blocks"] if block["type"] == kind}


def a_run(folder, changes=None, name="tiny.json", out="run"):
    succeeds("run", tiny(folder, name, changes), "--quiet", "--out", folder / out)
    return folder / out


def a_comparison(folder, *arguments):
    path = tiny(folder)
    succeeds("compare", path + ",residency=hisparse", path, "--seeds", "2", "--quiet", "--out",
             folder / "compare", *arguments)
    return folder / "compare"


def is_refused(sentence, *arguments):
    said = refuses(2, *arguments)
    assert sentence in said, said


# --- What a page holds ------------------------------------------------------------------------------


def a_run_leaves_a_page_that_says_what_its_files_say(folder):
    out = a_run(folder, PHASES)
    assert files_below(out) == ["itl.csv", "report.html", "requests.csv", "result.json", "run.log",
                                "timeline.csv", "timeline.om"]
    page, result = document(out / "report.html"), json.loads((out / "result.json").read_text())
    assert page["schema"] == "kvtide/page/1" and page["kind"] == "run"
    metrics = result["metrics"]
    shown = {figure["label"]: figure["value"] for figure in page["figures"]}
    assert shown["Output"] == metrics["output_throughput"]
    assert shown["TPOT, mean"] == metrics["mean_tpot_ms"]
    assert abs(shown["TTFT, mean"] - metrics["mean_ttft_ms"] / 1000) < 1e-12
    bases = {assumed["what"]: assumed["basis"] for assumed in page["assumptions"]}
    own = result["explain"]["basis"]
    for what, basis in (("Which rows are selected, and missed", own["rows"]), ("Step times", own["step_times"]),
                        ("Imports", own["imports"]), ("Output, TPOT, TTFT", result["metrics_basis"]["mean_tpot_ms"])):
        assert bases[what] == basis, (what, bases)
    charts = blocks(out / "report.html", "chart")
    assert list(charts) == RUN_CHARTS, list(charts)
    with open(out / "timeline.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    drawn = [row for row in charts["requests"]["rows"] if row[0] == "decoding"]
    assert len(drawn) == len(rows) > 5
    for (_, x, y), row in zip(drawn, rows):
        assert abs(x - (float(row["from_s"]) + float(row["to_s"])) / 2) < 1e-9
        assert abs(y - float(row["running_mean"])) < 1e-9
    rates = [row[2] for row in charts["output"]["rows"]]
    for y, row in zip(rates, rows):
        assert abs(y - float(row["output_tokens"]) / (float(row["to_s"]) - float(row["from_s"]))) < 1e-6
    # The second phase is marked.
    rules = charts["output"]["spec"]["layer"][0]["data"]["values"]
    assert [rule["at"] for rule in rules] == [result["phases"][1]["from_s"]]
    text = (out / "report.html").read_text(encoding="utf-8")
    rows = result["rows_followed"]
    assert "selected %d of followed calls = tail %d + " % (rows["selected"], rows["tail"]) in text
    assert "decisions no (no GPU) | kernel time no (datasheet) | engine no" in text


def latencies_are_spread_as_the_requests_are(folder):
    out = a_run(folder)
    with open(out / "requests.csv", encoding="utf-8") as file:
        ttft = sorted((int(r["first_token_ns"]) - int(r["arrival_ns"])) / 1e9
                      for r in csv.DictReader(file) if r["first_token_ns"])
    drawn = [row for row in blocks(out / "report.html", "chart")["ttft"]["rows"] if row[0] == "TTFT"]
    assert len(drawn) == len(ttft) == 12
    for nth, (row, value) in enumerate(zip(drawn, ttft)):
        assert abs(row[1] - value) < 1e-12 and abs(row[2] - 100 * nth / 11) < 1e-9
    metrics = json.loads((out / "result.json").read_text())["metrics"]
    with open(out / "itl.csv", encoding="utf-8") as file:
        itl = {float(r["share"]): float(r["itl_ms"]) for r in csv.DictReader(file)}
    assert len(itl) == 202 and 0.999 in itl
    for share, name in ((0.5, "p50_itl_ms"), (0.9, "p90_itl_ms"), (0.95, "p95_itl_ms")):
        assert abs(itl[share] - metrics[name]) < 1e-9, name


def money_and_energy_are_among_the_first_figures_where_there_are_any(folder):
    figures = {figure["label"]: figure for figure in document(a_run(folder) / "report.html")["figures"]}
    assert not {"A million output tokens", "An output token"} & set(figures), figures
    out = a_run(folder, {"cluster.decode.usd_per_gpu_hour": 4, "cluster.decode.idle_watts_per_gpu": 100,
                         "cluster.decode.busy_watts_per_gpu": 900}, out="priced")
    metrics = json.loads((out / "result.json").read_text())["metrics"]
    figures = {figure["label"]: figure for figure in document(out / "report.html")["figures"]}
    for label, name in (("A million output tokens", "usd_per_million_output_tokens"),
                        ("An output token", "joules_per_output_token")):
        assert abs(figures[label]["value"] / metrics[name] - 1) < 1e-9, figures[label]


def what_failed_has_a_section_and_marks_of_its_own(folder):
    changes = {"cluster.prefill": {"mode": "separate", "gpus": 1, "tokens_per_s": 100000}, "cluster.decode.lockstep": False,
               "cluster.decode.ep": 2, "workload.requests": 40, "cluster.faults": [
                   {"kind": "rank", "which": 1, "at_s": 0.2, "back_after_s": 0.1, "group": "goes_on"},
                   {"kind": "node", "at_s": 900}]}
    out = a_run(folder, changes)
    result = json.loads((out / "result.json").read_text())
    fault, never = result["faults"]
    assert fault["struck"] and fault["requests"]["interrupted"] > 0 and not never["struck"]
    (told,) = [block for block in blocks(out / "report.html", "table").values() if block["id"] == "faults"]
    names = [column["name"] for column in told["columns"]]
    row = dict(zip(names, told["rows"][0]))
    assert row["fault"] == "rank 1" and row["at_s"] == 0.2 and abs(row["back_at_s"] - 0.3) < 1e-9
    assert row["decoded"] == fault["requests"]["running"] and row["recovery_s"] == fault["recovery_s"]
    assert abs(row["hbm_lost_gib"] - sum(fault["lost"]["hbm_bytes"].values()) / 2**30) < 1e-9
    assert abs(row["host_lost_gib"] - fault["lost"]["host_bytes"] / 2**30) < 1e-9
    text = (out / "report.html").read_text(encoding="utf-8")
    assert "<h2>What failed</h2>" in text and "At 0.2 s: rank 1 fails; it is back at 0.3 s." in text
    assert "At 900 s a fault (node) was due, and did not strike." in text
    assert "%.1f are in or before prefill" % result["explain"]["batch"]["prefilling_mean"] in text
    rules = [value for layer in blocks(out / "report.html", "chart")["output"]["spec"]["layer"]
             for value in layer.get("data", {}).get("values", [])]
    assert {"rank 1 fails", "back"} <= {rule["text"] for rule in rules}, rules
    whole = a_run(folder, name="whole.json", out="whole")
    assert "What failed" not in (whole / "report.html").read_text(encoding="utf-8")


def one_long_gap_leaves_the_others_their_room(folder):
    out = a_run(folder, {"workload.requests": 60, "workload.lengths.output.mean_tokens": 400})
    before = blocks(out / "report.html", "chart")["tpot"]
    x = before["spec"]["layer"][0]["encoding"]["x"]["scale"]
    assert "domainMax" not in x, x
    lines = (out / "itl.csv").read_text().splitlines()
    assert lines[-2].startswith("0.999,")
    lines[-1] = "1,100000"
    (out / "itl.csv").write_text("\n".join(lines) + "\n")
    succeeds("report", out)
    chart = blocks(out / "report.html", "chart")["tpot"]
    x = chart["spec"]["layer"][0]["encoding"]["x"]["scale"]
    at_999 = float(lines[-2].split(",")[1])
    assert at_999 <= x["domainMax"] < 10 * at_999, (x, at_999)
    assert "which 99.9 % of each do not exceed; the longest is 100,000 ms." in chart["note"], chart["note"]
    assert ["ITL", 100000, 100] in chart["rows"]  # in the data it is


def a_comparison_leaves_a_page_with_its_ratios(folder):
    out = a_comparison(folder)
    assert files_below(out) == ["compare.json", "report.html"]
    answer = json.loads((out / "compare.json").read_text())
    second = answer["variants"][1]
    rows = blocks(out / "report.html", "chart")["ratios"]["rows"]
    output = next(row for row in rows if row[2] == "output")
    assert output[0] == second["name"] and output[1] == second["ratios"]["output_throughput"]
    assert output[3:5] == second["ratios_ci95"]["output_throughput"]
    presets = a_comparison(folder, "--presets") / "report.html"
    drawn = blocks(presets, "chart")
    assert {"presets", "ratios-flat", "ratios-clustered", "ratios-skewed"} == set(drawn)


def what_never_happens_and_what_cannot_be_said_have_no_place(folder):
    charts = blocks(a_run(folder) / "report.html", "chart")
    assert "preemptions" not in charts  # none was made
    assert "waiting" not in charts["requests"]["names"]
    out = a_run(folder, {"run.fidelity": "analytic", "run.interval_s": None}, out="analytic")
    charts = blocks(out / "report.html", "chart")
    assert "ttft" not in charts and "step-parts" in charts  # no requests of its own
    assert (out / "itl.csv").read_text() == "share,itl_ms\n"


def a_long_run_is_drawn_in_bins_that_are_means(folder):
    out = a_run(folder)
    head, first, *_ = (out / "timeline.csv").read_text().splitlines()
    names = head.split(",")
    lines = []
    for nth in range(1500):  # 600 bins are too few for single rows, 300 of 4 hold 1,500
        row = dict(zip(names, first.split(",")))
        row.update(from_s=str(nth), to_s=str(nth + 1), running_mean=str(nth), output_tokens="3")
        lines.append(",".join(row[name] for name in names))
    (out / "timeline.csv").write_text("\n".join([head] + lines) + "\n")
    succeeds("report", out, "--quiet")
    charts = blocks(out / "report.html", "chart")
    drawn = [row for row in charts["requests"]["rows"] if row[0] == "decoding"]
    assert len(drawn) == 375
    assert drawn[0][1:] == [2, 1.5] and drawn[-1][1:] == [1498, 1497.5], (drawn[0], drawn[-1])
    assert {row[2] for row in charts["output"]["rows"]} == {3}
    assert "a mean over 4 intervals" in (out / "report.html").read_text()


# --- Sweeps and plans -------------------------------------------------------------------------------

ANALYTIC = {"run.fidelity": "analytic", "run.interval_s": None}
OVER = ("--vary", "workload.concurrency=1:16:*2", "--vary", "residency=hisparse,adaptive")


def a_sweep(folder, *arguments, changes=None, out="sweep"):
    succeeds("sweep", tiny(folder, changes=ANALYTIC if changes is None else changes), *arguments, "--quiet",
             "--out", folder / out)
    return folder / out


def a_plan(folder, *arguments, out="plan", status=0, objective="workload.concurrency=1:16"):
    done = kvtide("plan", tiny(folder, changes=ANALYTIC), "--maximize", objective, "--over",
                  "residency=hisparse,adaptive,nonsense", *arguments, "--quiet", "--out", folder / out)
    assert done.returncode == status, done.stderr
    return folder / out


def a_sweep_leaves_a_page_of_lines_over_its_first_numbers(folder):
    out = a_sweep(folder, *OVER)
    page, points = document(out / "report.html"), json.loads((out / "results.json").read_text())["points"]
    assert page["schema"] == "kvtide/page/1" and page["kind"] == "sweep"
    best = max(points, key=lambda point: point["metrics"]["output_throughput_per_gpu"])
    shown = {figure["label"]: figure for figure in page["figures"]}
    assert shown["Points with results"]["value"] == 10
    assert shown["Most output per GPU"]["value"] == best["metrics"]["output_throughput_per_gpu"]
    name = "concurrency %d, residency %s" % tuple(best["inputs"].values())
    assert shown["Most output per GPU"]["note"] == name and any(name in said for said in page["answer"])
    shortest = min(point["metrics"]["mean_tpot_ms"] for point in points)
    assert shown["Shortest mean TPOT"]["value"] == shortest
    charts = blocks(out / "report.html", "chart")
    chart = charts["output"]
    assert chart["names"] == ["hisparse", "adaptive"]
    assert [column["name"] for column in chart["columns"]] == [
        "residency", "concurrency", "output_tokens_per_s_per_gpu", "point"]
    drawn = {(row[0], row[1]): row[2] for row in chart["rows"]}
    for point in points:
        at = (point["inputs"]["residency"], point["inputs"]["workload.concurrency"])
        assert drawn[at] == point["metrics"]["output_throughput_per_gpu"]
    assert chart["spec"]["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"  # 1, 2, 4, 8, 16
    rows = blocks(out / "report.html", "table")["points"]["rows"]
    assert [row[:3] for row in rows] == [[p["point"], *p["inputs"].values()] for p in points]
    table = succeeds("report", out, "--table", "csv").splitlines()
    assert table[0].startswith("point,workload.concurrency,residency,output_tokens_per_s_per_gpu,")
    assert len(table) == 11


def the_line_of_best_trades_leaves_nobody_better_out(folder):
    out = a_sweep(folder, *OVER)
    rows = blocks(out / "report.html", "chart")["trade"]["rows"]
    marks = [(row[1], row[2]) for row in rows if row[3] == "mark"]
    front = [(row[1], row[2]) for row in rows if row[3] == "curve"]
    assert len(marks) == 10 and 0 < len(front) < 10

    def is_beaten(one):
        return any(other[0] >= one[0] and other[1] <= one[1] and other != one for other in marks)
    assert sorted(front) == sorted(one for one in set(marks) if not is_beaten(one))


def points_of_several_seeds_have_intervals_and_those_that_fail_reasons(folder):
    out = a_sweep(folder, "--vary", 'residency={"policy":"hisparse","hot_tokens":"1k"},'
                  '{"policy":"resident","hot_tokens":"1k"}', "--seeds", "2", changes={})
    tree = json.loads((out / "results.json").read_text())
    page = document(out / "report.html")
    failed = [point for point in tree["points"] if point["status"] != "ok"]
    assert len(failed) == 1 and failed[0]["message"] in page["answer"][1], page["answer"]
    tables = blocks(out / "report.html", "table")
    assert tables["failures"]["rows"][0][1:3] == [failed[0]["message"], 1]
    assert tables["points"]["rows"][failed[0]["point"]][2] == {"text": "refused", "style": "bad"}
    both = a_sweep(folder, "--vary", "residency=hisparse,adaptive", "--seeds", "2", changes={}, out="both")
    tree, charts = json.loads((both / "results.json").read_text()), blocks(both / "report.html", "chart")
    for row, point in zip(charts["tpot"]["rows"], tree["points"]):  # no numbers: beside each other
        assert row[1] == point["metrics"]["mean_tpot_ms"] and row[3:] == point["metrics_ci95"]["mean_tpot_ms"]
    lines = a_sweep(folder, "--vary", "workload.concurrency=2,4", "--seeds", "2", changes={}, out="lines")
    tree, charts = json.loads((lines / "results.json").read_text()), blocks(lines / "report.html", "chart")
    for row, point in zip(charts["tpot"]["rows"], tree["points"]):
        assert row[3:5] == point["metrics_ci95"]["mean_tpot_ms"], row


def a_sweep_of_thousands_of_points_says_what_it_leaves_out(folder):
    out = a_sweep(folder, *OVER)
    tree = json.loads((out / "results.json").read_text())
    concurrencies, tokens = range(1, 101), range(1, 31)
    tree["axes"] = [[{"path": "workload.concurrency", "values": [str(n) for n in concurrencies]}],
                    [{"path": "residency.hot_tokens", "values": [str(n) for n in tokens]}]]
    first = tree["points"][0]
    tree["points"] = []
    for x in concurrencies:
        for line in tokens:
            point = json.loads(json.dumps(first))
            point.update(point=len(tree["points"]),
                         inputs={"workload.concurrency": x, "residency.hot_tokens": line})
            point["metrics"].update(output_throughput_per_gpu=x * line, mean_tpot_ms=x + 30 / line)
            tree["points"].append(point)
    (out / "results.json").write_text(json.dumps(tree))
    succeeds("report", out, "--quiet")
    assert (out / "report.html").stat().st_size < 4_000_000
    chart = blocks(out / "report.html", "chart")["output"]
    assert len(chart["rows"]) <= 2000 and {"1", "30"} <= set(chart["names"]) and len(chart["names"]) <= 9
    rows = blocks(out / "report.html", "table")["points"]["rows"]
    assert len(rows) == 500 and rows[-1][0] == 2999
    text = (out / "report.html").read_text()
    assert "of 30 lines are drawn" in text and "The 500 with most output per GPU, of 3000" in text
    assert "one point of 2 is drawn" in text


def a_plan_leaves_a_page_with_each_bound_over_the_values(folder):
    out = a_plan(folder, "--slo", "mean_tpot_ms<=1000", "--slo", "active_mean<=4")
    assert files_below(out) == ["plan.json", "report.html", "scenario.json"]
    page, plan = document(out / "report.html"), json.loads((out / "plan.json").read_text())
    value = plan["answer"]["value"]
    assert page["kind"] == "plan" and page["figures"][0]["value"] == value
    assert any("workload.concurrency %d" % value in said for said in page["answer"])
    assert any("Binding: %s" % plan["binding"]["constraint"] in said for said in page["answer"])
    charts = blocks(out / "report.html", "chart")
    for place, bound in enumerate(plan["interval"]["bounds"]):
        chart = charts["bound-%d" % (place + 1)]
        rules = [rule["at"] for layer in chart["spec"]["layer"] if "values" in layer.get("data", {})
                 and layer["mark"]["type"] == "rule" for rule in layer["data"]["values"]]
        assert sorted(rules) == sorted([value, bound["limit"]])
        for choice in plan["choices"][:2]:
            drawn = [tuple(row[1:3]) for row in chart["rows"] if row[0] == choice["choice"]]
            assert drawn == [(seen["value"], seen["bounds"][place]) for seen in choice["looked_at"]]
            assert len(drawn) == 16 and (choice["value"], choice["bounds"][place]["value"]) in drawn
    tables = blocks(out / "report.html", "table")
    assert [row[0] for row in tables["choices"]["rows"]] == [c["choice"] for c in plan["choices"]]
    assert tables["refused"]["rows"][0] == ["nonsense", plan["choices"][2]["reason"]]
    worth = {row[2]: row[1] for row in charts["worth"]["rows"]}
    assert worth.pop("as it is") == value
    assert worth == {entry["change"]: entry["answer"] for entry in plan["worth"] if entry["answer"] is not None}


def what_a_plan_simulated_stands_beside_its_curves(folder):
    out = a_plan(folder, "--slo", "active_mean<=4", "--seeds", "2", "--fidelity", "exact", "--worth", "none")
    plan, chart = json.loads((out / "plan.json").read_text()), blocks(out / "report.html", "chart")["bound-1"]
    seen = [entry for choice in plan["choices"] for entry in choice.get("looked_at", [])
            if entry["by"] == "simulated"]
    marks = [row for row in chart["rows"] if row[5] == "mark"]
    assert len(marks) == len(seen) > 1
    for row, entry in zip(marks, seen):
        assert row[1:5] == [entry["value"], entry["bounds"][0], *entry["intervals"][0]]
    assert {row[5] for row in chart["rows"]} == {"curve", "mark"}


def a_plan_without_an_answer_says_what_is_nearest(folder):
    out = a_plan(folder, "--slo", "mean_tpot_ms<=0.001", status=1)
    page, plan = document(out / "report.html"), json.loads((out / "plan.json").read_text())
    assert page["answer"][0].startswith("No answer") and "Nearest to mean_tpot_ms<=0.001" in page["answer"][1]
    assert plan["nearest"][0]["choice"] in page["answer"][1]
    assert "worth" not in blocks(out / "report.html", "chart")
    best = a_plan(folder, "--slo", "mean_tpot_ms<=1000", objective="output_throughput", out="metric")
    plan, charts = json.loads((best / "plan.json").read_text()), blocks(best / "report.html", "chart")
    drawn = {row[2]: row[1] for row in charts["wanted"]["rows"]}
    assert drawn == {c["choice"]: c["metrics"]["output_throughput"] for c in plan["choices"][:2]}


# --- kvtide report ----------------------------------------------------------------------------------


def a_page_made_again_is_the_same_page(folder):
    for out in (a_run(folder), a_comparison(folder), a_sweep(folder, *OVER),
                a_plan(folder, "--slo", "active_mean<=4")):
        first = (out / "report.html").read_bytes()
        (out / "report.html").unlink()
        succeeds("report", out, "--quiet")
        assert (out / "report.html").read_bytes() == first
        again = folder / "copy"
        again.mkdir(exist_ok=True)
        shutil.copy(out / "report.html", again / "page.html")
        succeeds("report", again / "page.html", "--quiet")  # from the page alone
        assert (again / "page.html").read_bytes() == first


def no_report_leaves_none_and_not_an_old_one_either(folder):
    path, solved = tiny(folder), tiny(folder, "solved.json", ANALYTIC)
    for arguments in (("run", path), ("compare", path, path + ",residency=hisparse"),
                      ("sweep", path, "--vary", "workload.concurrency=1,2", "--resume"),
                      ("plan", solved, "--slo", "active_mean<=4", "--maximize", "workload.concurrency=3:5")):
        out = folder / arguments[0]
        succeeds(*arguments, "--quiet", "--out", out)
        assert (out / "report.html").exists()
        succeeds(*arguments, "--quiet", "--out", out, "--no-report")
        assert not (out / "report.html").exists()


def an_answer_without_a_page_of_its_own_becomes_tables(folder):
    succeeds("validate", tiny(folder), "--backend", "sim", "--steps", "5", "--quiet", "--out",
             folder / "validate")
    succeeds("report", folder / "validate", "--quiet")
    tables = blocks(folder / "validate/report.html", "table")
    values = dict(row for row in tables["answer"]["rows"])
    answer = json.loads((folder / "validate/validate.json").read_text())
    assert values["calls"] == answer["calls"] and values["good"] == "yes"
    assert tables["runs"]["rows"][0][0] == "tiny"
    size = folder / "size.json"
    size.write_text(succeeds("size", tiny(folder), "--json"))
    succeeds("report", size, "--quiet")
    assert document(folder / "report.html")["kind"] == "answer"


def what_is_no_answer_is_refused_with_its_place(folder):
    empty = folder / "empty"
    empty.mkdir()
    is_refused("found no answer of kvtide, expected result.json, compare.json", "report", empty)
    is_refused("no such folder or file", "report", folder / "nowhere")
    other = folder / "other.json"
    other.write_text('{"schema": "another/1"}')
    is_refused('found schema "another/1", expected an answer of kvtide', "report", other)
    other.write_text('{"schema": "kvtide/scenario/1", "extends": "quickstart"}')
    is_refused('found schema "kvtide/scenario/1", expected an answer of kvtide', "report", other)
    page = folder / "page.html"
    page.write_text("<html></html>")
    is_refused("this is no page that kvtide wrote", "report", page)
    page.write_text('<script type="application/json" id="page">{"schema": "kvtide/page/1", "sections":'
                    ' [{"blocks": [{"type": "chart", "id": "../../x", "columns": [], "rows": []}]}]}'
                    '</script>')
    is_refused("found no page of schema", "report", page)
    out = a_run(folder)
    for name, sentence in (("timeline.csv", "found no column from_s"),
                           ("requests.csv", "found no column arrival_ns")):
        kept = (out / name).read_text()
        (out / name).write_text("a,b\n1,2\n")
        is_refused(sentence, "report", out)
        (out / name).write_text(kept)
    (out / "requests.csv").write_text(kept.replace(",completed,", ",completed,", 1).replace(
        "0,0,", "0,x,", 1))
    is_refused("requests.csv:2:2", "report", out)
    alone = folder / "mailed"
    alone.mkdir()
    shutil.copy(out / "result.json", alone / "result.json")
    is_refused("timeline.csv: found none; the page of a run is drawn from result.json and", "report", alone)
    assert sorted(path.name for path in alone.iterdir()) == ["result.json"]
    is_refused('report --figures: found "png"', "report", out, "--figures", "png")
    is_refused('report --figures: found "svg,svg"', "report", out, "--figures", "svg,svg")
    is_refused('report --figures: found "svg,"', "report", out, "--figures", "svg,")
    is_refused('report --table: found "xls"', "report", out, "--table", "xls")
    shutil.copy(folder / "tiny.json", out / "compare.json")
    is_refused("found result.json and compare.json; say which", "report", out)


def a_table_is_printed_for_other_documents(folder):
    out = a_comparison(folder)
    answer = json.loads((out / "compare.json").read_text())
    rows = list(csv.DictReader(io.StringIO(succeeds("report", out, "--table", "csv"))))
    assert [row["variant"] for row in rows] == [v["name"] for v in answer["variants"]]
    for row, variant in zip(rows, answer["variants"]):
        assert float(row["output_tokens_per_s"]) == variant["metrics"]["output_throughput"]
        assert abs(float(row["mean_ttft_s"]) * 1000 - variant["metrics"]["mean_ttft_ms"]) < 1e-9
    markdown = succeeds("report", out, "--table", "md").splitlines()
    assert len(markdown) == 4 and all(line.count("|") == 12 for line in markdown)
    assert markdown[1].startswith("| --- | ---: |")
    latex = succeeds("report", out, "--table", "latex")
    assert latex.startswith("\\begin{tabular}{lrrrr") and latex.endswith("\\end{tabular}\n")
    assert "host fetch, \\%" in latex
    assert json.loads(succeeds("report", out, "--json")) == document(out / "report.html")
    is_refused("--table and --json both print", "report", out, "--json", "--table", "md")
    # Only printed: the folder is as it was.
    assert files_below(out) == ["compare.json", "report.html"]


def names_of_any_kind_are_escaped_in_tables(folder):
    out = a_comparison(folder)
    answer = json.loads((out / "compare.json").read_text())
    answer["variants"][1]["name"] = "50%_a|b, \"c\"\n$\\x"
    (out / "compare.json").write_text(json.dumps(answer))
    assert "50\\%\\_a|b, \"c\" \\$\\textbackslash{}x &" in succeeds("report", out, "--table", "latex")
    assert "| 50%\\_a\\|b, \"c\" $\\\\x |" in succeeds("report", out, "--table", "md")
    rows = list(csv.DictReader(io.StringIO(succeeds("report", out, "--table", "csv"))))
    assert rows[1]["variant"] == answer["variants"][1]["name"]


# --- Figures ----------------------------------------------------------------------------------------


def needs(program, package):
    if not shutil.which(program):
        raise Skip("needs %s (Debian package: %s)" % (program, package))


def charts_become_vector_files_with_their_data(folder):
    needs("node", "nodejs")
    needs("rsvg-convert", "librsvg2-bin")
    out = a_run(folder)
    succeeds("report", out, "--figures", "svg,pdf", "--quiet")
    made = files_below(out / "figures")
    assert made == sorted(name + ending for name in RUN_CHARTS
                          for ending in (".csv", ".pdf", ".svg", ".vl.json")), made
    charts = blocks(out / "report.html", "chart")
    for name in RUN_CHARTS:
        svg = (out / "figures" / (name + ".svg")).read_text(encoding="utf-8")
        assert svg.startswith("<svg") and "NaN" not in svg and "undefined" not in svg, name
        assert "var(--" not in svg, name  # colours of its own
        assert (out / "figures" / (name + ".pdf")).read_bytes().startswith(b"%PDF")
        with open(out / "figures" / (name + ".csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        assert rows[0] == [column["name"] for column in charts[name]["columns"]]
        assert len(rows) == 1 + len(charts[name]["rows"])
        spec = json.loads((out / "figures" / (name + ".vl.json")).read_text(encoding="utf-8"))
        assert "vega-lite" in spec["$schema"] and len(spec["data"]["values"]) == len(rows) - 1
    first = {name: (out / "figures" / name).read_bytes() for name in made}
    succeeds("report", out, "--figures", "pdf,svg", "--quiet")
    assert first == {name: (out / "figures" / name).read_bytes() for name in made}


def what_is_missing_for_figures_is_named(folder):
    out = a_run(folder)
    tools = folder / "tools"
    tools.mkdir()
    done = kvtide("report", out, "--figures", "svg", env={**os.environ, "PATH": str(tools)})
    assert done.returncode == 3 and "what Debian calls nodejs" in done.stderr, done.stderr
    assert not (out / "figures").exists()
    (tools / "node").write_text("#!/bin/sh\necho no such luck >&2\nexit 4\n")
    (tools / "node").chmod(0o755)
    path = "%s:/bin" % tools
    done = kvtide("report", out, "--figures", "svg", env={**os.environ, "PATH": path})
    assert done.returncode == 3 and "it ended with status 4: no such luck" in done.stderr, done.stderr
    needs("node", "nodejs")
    (tools / "node").unlink()
    (tools / "node").symlink_to(shutil.which("node"))
    done = kvtide("report", out, "--figures", "pdf", env={**os.environ, "PATH": str(tools)})
    assert done.returncode == 3 and "what Debian calls librsvg2-bin" in done.stderr, done.stderr


# --- In a browser -----------------------------------------------------------------------------------


def browser():
    if not chromium.find():
        raise Skip("needs a browser (Debian package: chromium)")
    return chromium.Chromium()


def a_page_asks_for_nothing_and_says_nothing(folder):
    run, compare = a_run(folder, PHASES), a_comparison(folder)
    sweep, plan = a_sweep(folder, *OVER), a_plan(folder, "--slo", "active_mean<=4")
    text = (run / "report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text and "unsafe-eval" not in text
    with browser() as chrome:
        for out in (run, compare, sweep, plan):
            for width in (1280, 400):
                for dark in (False, True):
                    page = chrome.open(out / "report.html", width, dark=dark)
                    assert page.errors == [] and page.requests == [], (page.errors, page.requests)
                    assert page.evaluate("document.documentElement.scrollWidth") == width
                    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
                    assert (back != "rgb(255, 255, 255)") == dark, back


def charts_are_drawn_with_a_mark_for_each_point(folder):
    out = a_run(folder)
    charts = blocks(out / "report.html", "chart")
    with browser() as chrome:
        page = chrome.open(out / "report.html")
        drawn = page.evaluate("[...document.querySelectorAll('[data-chart]')].map((p) =>"
                              "[p.dataset.chart, p.dataset.drawn, p.querySelectorAll('svg').length,"
                              " p.querySelector('svg').getBoundingClientRect().height])")
        assert [entry[0] for entry in drawn] == RUN_CHARTS
        assert all(state == "yes" and count == 1 and height > 60
                   for _, state, count, height in drawn), drawn
        # Few points, so each has its mark.
        for name in ("requests", "output", "ttft"):
            marks = page.evaluate(
                "document.querySelectorAll('[data-chart=\"%s\"] .mark-symbol.role-mark path').length"
                % name)
            assert marks == len(charts[name]["rows"]), (name, marks, len(charts[name]["rows"]))
        bars = page.evaluate(
            "document.querySelectorAll('[data-chart=\"hbm-classes\"] .mark-rect path').length")
        assert bars == len(charts["hbm-classes"]["rows"])


def a_tooltip_shows_on_hover_and_the_data_opens(folder):
    out = a_run(folder)
    with browser() as chrome:
        page = chrome.open(out / "report.html")
        place = page.evaluate(
            "(() => { const p = document.querySelector('[data-chart=\"hbm-classes\"]');"
            " p.scrollIntoView({block: 'center'});"
            " const r = p.querySelector('.mark-rect path').getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        assert page.evaluate("document.getElementById('tip').hidden")
        page.hover(place[0] - 300, place[1] - 3)
        page.hover(*place)
        page.wait("!document.getElementById('tip').hidden", "a tooltip", 10)
        said = page.evaluate("document.getElementById('tip').innerText")
        row = blocks(out / "report.html", "chart")["hbm-classes"]["rows"][0]
        assert row[0] in said and "GiB" in said, said
        place = page.evaluate(
            "(() => { const p = document.querySelector('[data-chart=\"output\"]');"
            " p.scrollIntoView({block: 'center'});"
            " const r = p.querySelector('.mark-symbol.role-mark path').getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        page.hover(place[0], place[1] - 40)
        page.hover(*place)
        page.wait("document.getElementById('tip').innerText.includes('tokens/s')", "another tooltip", 10)
        said = page.evaluate("document.getElementById('tip').innerText")
        assert "undefined" not in said, said
        opened = page.evaluate(
            "(async () => { const d = document.querySelector('details[data-of=\"output\"]');"
            " d.open = true; await new Promise((r) => setTimeout(r, 200));"
            " return [d.querySelectorAll('tbody tr').length, d.querySelector('button').hidden]; })()")
        assert opened == [len(blocks(out / "report.html", "chart")["output"]["rows"]), False]
        # What would be saved is what --figures writes.
        saved = page.evaluate("kvtide.csvOf(JSON.parse(document.getElementById('page').textContent)"
                              ".sections.flatMap((s) => s.blocks).find((b) => b.id === 'output'))")
        assert saved.splitlines()[0] == "series,time_s,tokens_per_s"
        assert page.errors == [] and page.requests == []


def sweeps_and_plans_are_drawn_and_tell_points_by_name(folder):
    sweep, plan = a_sweep(folder, *OVER), a_plan(folder, "--slo", "active_mean<=4")
    with browser() as chrome:
        for out in (sweep, plan):
            charts = blocks(out / "report.html", "chart")
            page = chrome.open(out / "report.html")
            drawn = page.evaluate("[...document.querySelectorAll('[data-chart]')].map((p) =>"
                                  "[p.dataset.chart, p.dataset.drawn])")
            assert drawn == [[name, "yes"] for name in charts], drawn
        page = chrome.open(sweep / "report.html")
        for name, count in (("output", 10), ("tpot", 10), ("trade", 10)):
            marks = page.evaluate(
                "document.querySelectorAll('[data-chart=\"%s\"] .mark-symbol.role-mark path').length" % name)
            assert marks == count, (name, marks)
        place = page.evaluate(
            "(() => { const p = document.querySelector('[data-chart=\"trade\"]');"
            " p.scrollIntoView({block: 'center'});"
            " const r = p.querySelector('.mark-symbol.role-mark path').getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        page.hover(place[0] + 300, place[1] - 40)
        page.hover(*place)
        page.wait("!document.getElementById('tip').hidden", "a tooltip", 10)
        said = page.evaluate("document.getElementById('tip').innerText")
        rows = blocks(sweep / "report.html", "chart")["trade"]["rows"]
        assert any(row[4] in said.splitlines() and row[0] in said.splitlines() for row in rows), said
        assert page.errors == [] and page.requests == []


def a_hostile_name_does_nothing(folder):
    out = a_run(folder, {"name": HOSTILE.replace("\n", " ")})  # a scenario takes no new line; a result may
    text = (out / "report.html").read_text(encoding="utf-8")
    assert "<img" not in text and text.count("<script") == 3
    answer = a_comparison(folder) / "compare.json"
    tree = json.loads(answer.read_text())
    for variant in tree["variants"]:
        variant["name"] += HOSTILE
    answer.write_text(json.dumps(tree))
    succeeds("report", folder / "compare", "--quiet")
    with browser() as chrome:
        for place in (out, folder / "compare"):
            page = chrome.open(place / "report.html")
            assert page.evaluate("typeof window.bad") == "undefined"
            assert page.evaluate("document.querySelectorAll('img').length") == 0
            assert page.errors == [] and page.requests == [], (page.errors, page.requests)
        assert HOSTILE.replace("\n", " ") in page.evaluate("document.title").replace("\n", " ")


def a_script_that_is_not_ours_does_not_run(folder):
    out = a_run(folder)
    text = (out / "report.html").read_text(encoding="utf-8")
    (out / "report.html").write_text(text.replace(
        "<header>", "<script>window.bad=1</script><header>"), encoding="utf-8")
    with browser() as chrome:
        page = chrome.open(out / "report.html")
        assert page.evaluate("typeof window.bad") == "undefined"
        assert any("Content Security Policy" in said for said in page.errors), page.errors


# --- What it is made of -----------------------------------------------------------------------------


def the_lock_names_no_registry_and_the_licences_are_in_the_page(folder):
    lock = json.loads((TOP / "sim/cli/report/package-lock.json").read_text(encoding="utf-8"))
    for name, package in lock["packages"].items():
        assert "resolved" not in package, name
        assert not name or package["integrity"].startswith("sha512-"), name
    text = (a_run(folder) / "report.html").read_text(encoding="utf-8")
    assert "Jeffrey Heer" in text or "University of Washington" in text
    assert "Mike Bostock" in text


def a_profile_has_a_page_where_one_is_asked_for(folder):
    """calibrate writes one file; its page is that of any answer of kvtide."""
    shutil.copy(support.TOP / "models/profiles/h200-glm-5.3.json", folder / "p.json")
    succeeds("report", "p.json", "--quiet", cwd=folder)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "kvtide/profile/1" in page and "<table" in page


CASES = (
    a_profile_has_a_page_where_one_is_asked_for,
    a_run_leaves_a_page_that_says_what_its_files_say,
    latencies_are_spread_as_the_requests_are,
    money_and_energy_are_among_the_first_figures_where_there_are_any,
    what_failed_has_a_section_and_marks_of_its_own,
    one_long_gap_leaves_the_others_their_room,
    a_comparison_leaves_a_page_with_its_ratios,
    what_never_happens_and_what_cannot_be_said_have_no_place,
    a_long_run_is_drawn_in_bins_that_are_means,
    a_sweep_leaves_a_page_of_lines_over_its_first_numbers,
    the_line_of_best_trades_leaves_nobody_better_out,
    points_of_several_seeds_have_intervals_and_those_that_fail_reasons,
    a_sweep_of_thousands_of_points_says_what_it_leaves_out,
    a_plan_leaves_a_page_with_each_bound_over_the_values,
    what_a_plan_simulated_stands_beside_its_curves,
    a_plan_without_an_answer_says_what_is_nearest,
    a_page_made_again_is_the_same_page,
    no_report_leaves_none_and_not_an_old_one_either,
    an_answer_without_a_page_of_its_own_becomes_tables,
    what_is_no_answer_is_refused_with_its_place,
    a_table_is_printed_for_other_documents,
    names_of_any_kind_are_escaped_in_tables,
    charts_become_vector_files_with_their_data,
    what_is_missing_for_figures_is_named,
    a_page_asks_for_nothing_and_says_nothing,
    charts_are_drawn_with_a_mark_for_each_point,
    a_tooltip_shows_on_hover_and_the_data_opens,
    sweeps_and_plans_are_drawn_and_tell_points_by_name,
    a_hostile_name_does_nothing,
    a_script_that_is_not_ours_does_not_run,
    the_lock_names_no_registry_and_the_licences_are_in_the_page,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
