"""kvtide validate --measured: a run beside what an engine measured of the same load."""
import json
import os
import pathlib
import sys

import support
from support import Skip, refuses, succeeds
from toy_engine import RTX_4090, bench, engine, scenario, write

TRACES = pathlib.Path(os.environ.get("KVT_TRACES", support.TOP.parent / "shared" / "traces"))
PROFILE = ("--set", 'timing={"model":"profile","profile":"p.json"}',
           "--set", "cluster.prefill.tokens_per_s=profile")


# About four at once, at no pattern; a closed loop's arrivals would hang on the engine's own steps.
ARRIVALS = [0.62 * i + 0.4 * (i * 7919 % 13) / 13 for i in range(60)]


def prepared(folder):
    """A profile fitted to a closed loop of 8, and the benchmark of another load."""
    name = scenario(folder)
    write(folder, "fitted.json", bench(engine(8), tokenizer_id="t"))
    succeeds("calibrate", "--from", "fitted.json", "--scenario", name, "--out", "p.json", "--quiet",
             cwd=folder)
    write(folder, "bench.json", bench(engine(0, ARRIVALS), tokenizer_id="t"))
    return [name, "--set", 'workload={"arrival":"trace","path":"bench.json"}', *PROFILE]


def judged(result):
    return {figure["name"]: figure for figure in result["figures"]}


def validate(folder, arguments, *more, status=0):
    done = support.kvtide("validate", *arguments, *more, "--json", "--quiet", cwd=folder)
    assert done.returncode == status, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def a_toy_engine_is_predicted_and_the_badge_says_so(folder):
    arguments = prepared(folder)
    result = validate(folder, arguments, "--measured", "bench.json")
    figures = judged(result)
    for name in ("output_throughput", "mean_ttft_ms", "mean_tpot_ms"):
        assert figures[name]["good"] and abs(figures[name]["error"]) < 0.05, figures[name]
    served = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
    assert abs(figures["mean_tpot_ms"]["measured"] / served["mean_tpot_ms"] - 1) < 1e-9, figures
    assert result["good"] and result["matched_requests"] == 60, result
    assert {family["name"] for family in result["families"]} == {"ttft", "tpot", "e2el"}
    badge = result["badge"]
    assert badge["engine"] == "yes" and badge["engine_reason"].endswith("within 10 % of vllm's")
    assert badge["decisions"] == "no" and badge["kernel_time_reason"].startswith("profile,"), badge
    text = succeeds("validate", *arguments, "--measured", "bench.json", "--quiet", cwd=folder)
    assert "engine yes (" in text and "60 requests, one by one" in text, text


def an_engine_twice_as_slow_is_an_answer_of_no(folder):
    arguments = prepared(folder)
    slow = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
    slow["itls"] = [[2 * gap for gap in gaps] for gaps in slow["itls"]]
    write(folder, "slow.json", slow)
    result = validate(folder, arguments, "--measured", "slow.json", status=1)
    figures = judged(result)
    assert not figures["mean_tpot_ms"]["good"] and figures["mean_tpot_ms"]["error"] < -0.4
    assert result["badge"]["engine"] == "no" and "% from vllm's" in result["badge"]["engine_reason"]
    assert validate(folder, arguments, "--measured", "slow.json", "--tolerance", "80")["good"]


def metrics_come_first_and_say_what_a_client_cannot(folder):
    """Preemptions are both or none; a peak is the gauge's, where there is one."""
    arguments = prepared(folder)
    served = engine(0, ARRIVALS)
    peak = max(sum(other[0] <= one[0] < other[3][-1] for other in served) for one in served)
    scrape = "vllm:num_requests_running{engine=\"0\"} %d\nvllm:num_preemptions_total %d\n"
    (folder / "metrics.prom").write_text(scrape % (peak, 0) + scrape % (1, 0))
    result = validate(folder, arguments, "--measured", "bench.json", "--measured", "metrics.prom")
    names = [figure["name"] for figure in result["figures"]]
    assert names[:3] == ["peak_running", "preemptions", "mean_ttft_ms"], names
    assert judged(result)["peak_running"]["measured"] == peak
    assert judged(result)["preemptions"]["good"]
    (folder / "metrics.prom").write_text(scrape % (peak, 0) + scrape % (1, 17))
    result = validate(folder, arguments, "--measured", "bench.json", "--measured", "metrics.prom",
                      status=1)
    assert not judged(result)["preemptions"]["good"]
    assert result["badge"]["engine_reason"] == "preemptions 0, vllm had 17", result["badge"]


def a_window_compares_the_requests_that_ended_in_it(folder):
    arguments = prepared(folder)
    served = engine(0, ARRIVALS)
    end = max(times[-1] for *_, times in served)
    expected = sum(times[-1] >= end / 2 for *_, times in served)
    result = validate(folder, arguments, "--measured", "bench.json", "--window", "%r:" % (end / 2))
    assert result["matched_requests"] == expected < 60, (result["matched_requests"], expected)
    assert "output_throughput" not in judged(result) and "mean_tpot_ms" in judged(result)
    sentence = refuses(2, "validate", scenario(folder), *PROFILE, "--measured", "bench.json",
                       "--window", "1:", "--quiet", cwd=folder)
    assert "it compares request by request" in sentence, sentence
    sentence = refuses(2, "validate", *arguments, "--measured", "bench.json", "--window", "999:",
                       "--quiet", cwd=folder)
    assert "no request ended in it" in sentence, sentence


def a_run_agrees_with_its_own_timeline(folder):
    """The engine's names in timeline.om are counters from the run's beginning, and of requests that
    ended; most of the quickstart's are under way when it stops, as all are of the cut one."""
    small = support.tiny(folder)
    short = ("--set", "workload.requests=4", "--set", "workload.lengths.output.mean_tokens=60")
    for name, sets in (("quickstart", ()), ("policy-lab", short), (small, ()),
                       (small, ("--set", "run.duration_s=0.15"))):
        succeeds("run", name, *sets, "--out", "own", "--quiet", "--no-report", cwd=folder)
        result = validate(folder, (name, *sets), "--measured", "own/timeline.om")
        figures = judged(result)
        assert result["good"] and figures["hot_miss_ratio"]["good"], figures
        # That is no engine, and the badge is not its.
        assert result["badge"]["engine"] == "no" and result["engine"] is None, result
        assert result["badge"]["engine_reason"] == "kvtide's own timeline", result["badge"]
        for figure in result["figures"]:
            assert figure["measured"] == 0 or abs(figure["error"]) < 1e-6, (name, figure)


def shares_differ_by_points_and_not_by_per_cent(folder):
    small = support.tiny(folder)
    (folder / "half.prom").write_text("vllm:hisparse_cache_hits_total 100\nvllm:hisparse_cache_misses_total 900\n")
    result = validate(folder, (small,), "--measured", "half.prom", status=1)
    ours = judged(result)["hot_miss_ratio"]["ours"]
    assert abs(judged(result)["hot_miss_ratio"]["error"] - (ours - 0.9)) < 1e-12 and ours < 0.7, ours
    done = support.kvtide("validate", small, "--measured", "half.prom", "--quiet", cwd=folder)
    assert "%+.1f pp  NO" % (100 * (ours - 0.9)) in done.stdout, done.stdout
    assert "hot_miss_ratio %+.1f pp from " % (100 * (ours - 0.9)) in result["badge"]["engine_reason"], result["badge"]


def a_timeline_that_was_cut_off_is_refused(folder):
    small = support.tiny(folder)
    succeeds("run", small, "--out", "own", "--quiet", "--no-report", cwd=folder)
    text = succeeds("validate", small, "--measured", "own/timeline.om", "--quiet", cwd=folder)
    assert " beside kvtide's own timeline\n" in text and "engine no (kvtide's own timeline)" in text
    whole = (folder / "own/timeline.om").read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in (whole[:len(whole) * 2 // 3], whole[:-2], b"".join(lines[:-1]),
                b"".join(lines[:4]), b"".join(lines[:4])[:-1]):
        (folder / "cut.om").write_bytes(cut)
        sentence = refuses(2, "validate", small, "--measured", "cut.om", "--quiet", cwd=folder)
        at = "cut.om:%d: " % len(cut.splitlines())
        assert at in sentence and "cut off" in sentence, (at, sentence)


def what_means_nothing_is_refused(folder):
    name = scenario(folder)
    write(folder, "bench.json", bench(engine(2), tokenizer_id="t"))
    (folder / "two.json").write_text((folder / "bench.json").read_text() * 2)
    for arguments, words in (
            (("--measured", "bench.json"), "takes one SCENARIO"),
            ((name, name, "--measured", "bench.json"), "takes one SCENARIO"),
            ((name, "--measured", "bench.json", "--suite", "decisions"), "takes one SCENARIO"),
            ((name, "--measured", "bench.json", "--seeds", "3"), "runs the scenario once"),
            ((name, "--measured", "bench.json", "--backend", "sim"), "runs the scenario once"),
            ((name, "--measured", "bench.json", "--tolerance", "x"), "--tolerance"),
            ((name, "--measured", "two.json"), "2 runs are measured"),
            ((name, "--measured", "gone.json"), "gone.json"),
            ((name, "--measured", "inputs.csv"), "inputs.csv:1: no benchmark's result"),
            ((name, "--measured", "bench.json", "--set", "run.fidelity=analytic",
              "--set", "residency=resident"), "has no requests"),
            ((name, "--window", "1:"), "go with --measured")):
        sentence = refuses(2, "validate", *arguments, "--quiet", cwd=folder)
        assert words in sentence, (arguments, sentence)


def half_of_a_measured_vllm_run_predicts_the_other_half(folder):
    """An 8B model on one RTX 4090, no hierarchy: fitted to what ended in the first 97 s, judged by
    the 150 requests that ended later. What is asserted is what docs/validation.md says."""
    path = TRACES / "llmservingsim" / "RTX4090_Llama-3.1-8B"
    if not (path / "requests.jsonl").is_file():
        raise Skip("no %s beside the checkout" % path)
    requests = path / "requests.jsonl"
    trace = ("--set", "workload.path=%s" % requests)
    profile = json.loads(succeeds("calibrate", "--from", requests, "--scenario", RTX_4090, *trace,
                                  "--window", "0:97", "--out", "p.json", "--json", "--quiet",
                                  cwd=folder))
    assert profile["leave_one_out"]["median_abs"] < 0.015, profile["leave_one_out"]
    result = validate(folder, (RTX_4090, *trace, *PROFILE), "--measured", requests, "--measured",
                      path / "timeseries.csv", "--window", "97:")
    figures = judged(result)
    assert result["good"] and result["matched_requests"] == 150, result
    assert abs(figures["peak_running"]["error"]) < 0.05, figures["peak_running"]
    assert 0.03 < figures["mean_ttft_ms"]["error"] < 0.10, figures["mean_ttft_ms"]
    assert 0.03 < figures["mean_tpot_ms"]["error"] < 0.10, figures["mean_tpot_ms"]
    # From data sheets alone it is an answer of no.
    sheet = validate(folder, (RTX_4090, *trace), "--measured", requests, "--window", "97:", status=1)
    assert judged(sheet)["mean_tpot_ms"]["error"] > figures["mean_tpot_ms"]["error"]


CASES = (
    a_toy_engine_is_predicted_and_the_badge_says_so,
    an_engine_twice_as_slow_is_an_answer_of_no,
    metrics_come_first_and_say_what_a_client_cannot,
    a_window_compares_the_requests_that_ended_in_it,
    a_run_agrees_with_its_own_timeline,
    shares_differ_by_points_and_not_by_per_cent,
    a_timeline_that_was_cut_off_is_refused,
    what_means_nothing_is_refused,
    half_of_a_measured_vllm_run_predicts_the_other_half,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
