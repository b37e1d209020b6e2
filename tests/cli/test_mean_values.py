"""Fidelity analytic as a user meets it: queues that cannot keep up, what is hashed, what it rests on."""
import csv
import json
import sys

import support
from support import TOP, kvtide, succeeds, tiny

# Two prompts a second are prefilled, and the link takes any.
MEANS = {"run.fidelity": "analytic", "run.interval_s": None}
OPEN = {**MEANS, "run.duration_s": 120, "cluster.import": {"law": "rate", "rate": 100},
        "cluster.prefill": {"mode": "separate", "tp": 1, "gpus": 1, "tokens_per_s": 8192},
        "workload.arrival": "open", "workload.concurrency": None, "workload.requests": 0, "workload.rate": 8}


def result_of(*arguments, **options):
    return json.loads(succeeds("run", *arguments, "--json", "--quiet", **options))


def a_stage_that_cannot_keep_up_is_named(folder):
    path = tiny(folder, changes=OPEN)
    done = kvtide("run", path, "--quiet")
    assert done.returncode == 0, done.stderr
    assert "saturated  prefill (4.00 times): more comes than can be done" in done.stdout, done.stdout
    assert done.stderr.startswith("kvtide: tiny: warning: more comes than can be done by prefill (4.00 times)")
    result = result_of(path)
    assert abs(result["stage_load"]["prefill"] - 4) < 1e-9, result["stage_load"]
    assert result["stage_load"]["import"] < 0.1 and result["stage_load"]["slots"] is None
    # Evenly spaced: number k has its first token k (1/2 - 1/8) s after it came, and 240 have theirs.
    hand_s = (1 / 2 - 1 / 8) * 241 / 2
    assert abs(result["metrics"]["mean_ttft_ms"] / 1e3 - hand_s) < 0.03 * hand_s, (result["metrics"], hand_s)
    simulated = result_of(path, "--fidelity", "sampled")
    ratio = result["metrics"]["mean_ttft_ms"] / simulated["metrics"]["mean_ttft_ms"]
    assert abs(ratio - 1) < 0.05, ratio
    assert "stage_load" not in simulated


def one_that_keeps_up_is_not_and_one_near_its_limit_is_doubted(folder):
    path = tiny(folder, changes=OPEN)
    for rate, words in (("1", None), ("1.9", "prefill (0.95 times): so near to its limit"),
                        ("2.1", "prefill (1.05 times): so near to its limit")):
        done = kvtide("run", path, "--quiet", "--set", "workload.rate=" + rate)
        said = " ".join(done.stdout.split())
        assert done.returncode == 0 and ("saturated" in said) == (rate == "2.1"), (rate, said)
        assert (words in said) if words else "near to its limit" not in said, (rate, said)
    closed = result_of(tiny(folder, "closed.json", MEANS))
    assert set(closed["stage_load"].values()) == {None}, closed["stage_load"]


def one_request_on_one_of_four_ranks_touches_the_experts_of_one(folder):
    """Where seldom anybody decodes: TPOT was a fifth too long, as if each rank had one. Nothing is resolved."""
    workload = {"arrival": "open", "rate": 0.25, "requests": 64,
                "lengths": {"input": {"tokens": 16384}, "output": {"mean_tokens": 512}}}
    arguments = ("glm-5.3-32k", "--set", "residency=resident", "--set", "timing=roofline", "--set",
                 "cluster.import.law=rate", "--set", "workload=" + json.dumps(workload))
    means, exact = (result_of(*arguments, "--fidelity", fidelity)["metrics"]["mean_tpot_ms"]
                    for fidelity in ("analytic", "exact"))
    assert abs(means / exact - 1) < 0.06, (means, exact)


def a_plan_buys_as_much_prefill_as_keeps_up(folder):
    """And says what its mean values rest on."""
    path = tiny(folder, changes=OPEN)
    succeeds("plan", path, "--slo", "mean_ttft_ms<=2000", "--minimize", "cluster.prefill.gpus=1:16", "--worth",
             "none", "--quiet", "--no-report", "--out", folder / "plan")
    plan = json.loads((folder / "plan" / "plan.json").read_text(encoding="utf-8"))
    # Four servers are busy all the time; a fifth is needed for queues to end at all.
    assert plan["met"] and 5 <= plan["answer"]["value"] <= 6, plan["answer"]
    assert plan["basis"] == "assumed", plan["basis"]
    assert plan["badge"]["kernel_time"] == "no" and plan["badge"]["kernel_time_reason"] == "datasheet", plan["badge"]
    said = succeeds("plan", path, "--slo", "mean_ttft_ms<=2000", "--minimize", "cluster.prefill.gpus=1:16",
                    "--worth", "none", "--quiet")
    assert "\nbasis      assumed\n" in said and "\nbadge      decisions no (no GPU)" in said, said


def mean_values_have_no_decision_hash(folder):
    path = tiny(folder, changes=MEANS)
    succeeds("run", path, "--quiet", "--out", folder / "run")
    result = json.loads((folder / "run" / "result.json").read_text(encoding="utf-8"))
    assert result["decision_hash"] is None, result["decision_hash"]
    succeeds("check", folder / "run" / "result.json")
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "decision hash none (mean values decide nothing)" in page
    compared = json.loads(succeeds("compare", path, path + ",run.fidelity=sampled", "--seeds", "2", "--json",
                                   "--quiet"))
    means, sampled = (variant["decision_hashes"] for variant in compared["variants"])
    assert means == [None, None] and all(len(text) == 16 for text in sampled), (means, sampled)


def a_sweep_has_a_basis_no_hash_and_says_which_points_are_saturated(folder):
    path = tiny(folder, changes=OPEN)
    succeeds("sweep", path, "--vary", "workload.rate=1,8", "--seeds", "2", "--out", folder / "sweep", "--quiet")
    with open(folder / "sweep" / "results.csv", newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, strict=True))
    points = json.loads((folder / "sweep" / "results.json").read_text(encoding="utf-8"))["points"]
    for row, point in zip(rows, points):
        assert row["decision_hash"] == "" and point["decision_hash"] is None, (row, point)
        assert row["basis"] == point["basis"] == "assumed" and point["badge"]["engine"] == "no", (row, point)
    assert [("more comes than" in row["message"]) for row in rows] == [False, True], rows


def what_leaves_a_profile_is_named_as_in_a_simulated_run(folder):
    arguments = (TOP / "validation/scenarios/h200-glm-5.3-100k.json", "--backend", "sim", "--cache", folder / "cache",
                 "--set", "run.clock=predicted", "--set", 'timing={"model":"profile","profile":"h200-glm-5.3"}',
                 "--set", "workload.concurrency=60", "--set", "workload.requests=240", "--set",
                 "workload.lengths.input.tokens=8192", "--set", "run.duration_s=5", "--set",
                 "workload.lengths.output.tokens=60")
    said = [result_of(*arguments, "--fidelity", fidelity) for fidelity in ("analytic", "sampled")]
    for result in said:
        assert result["metrics"]["extrapolated_step_share"] > 0, result["metrics"]
        outside = result["out_of_range"]
        assert outside["value"] > outside["most"], outside
    means, sampled = (result["out_of_range"] for result in said)
    assert {**means, "value": 0} == {**sampled, "value": 0}, (means, sampled)


if __name__ == "__main__":
    sys.exit(support.run_cases([
        a_stage_that_cannot_keep_up_is_named,
        one_that_keeps_up_is_not_and_one_near_its_limit_is_doubted,
        one_request_on_one_of_four_ranks_touches_the_experts_of_one,
        a_plan_buys_as_much_prefill_as_keeps_up,
        mean_values_have_no_decision_hash,
        a_sweep_has_a_basis_no_hash_and_says_which_points_are_saturated,
        what_leaves_a_profile_is_named_as_in_a_simulated_run,
    ]))
