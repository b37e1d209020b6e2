"""kvtide calibrate --from: an engine's own benchmark becomes a profile, and the profile predicts it.

The oracle is a toy engine with known costs (toy_engine.py); its benchmark is written as vLLM and
SGLang write theirs.
"""
import json
import sys

import support
from support import refuses, succeeds
from toy_engine import LENGTHS, QUERY_S, ROW_S, STEP_S, TOKEN_S, bench, engine, scenario, write


def terms(profile):
    return {term["name"]: term for family in profile["families"] for term in family.get("terms", ())}


def near(value, expected, share):
    assert abs(value / expected - 1) <= share, (value, expected)


def a_profile_has_the_engines_costs(folder):
    name = scenario(folder)
    write(folder, "vllm.json", bench(engine(8), tokenizer_id="t"))
    printed = json.loads(succeeds("calibrate", "--from", "vllm.json", "--scenario", name, "--json",
                                  "--out", "p.json", "--quiet", cwd=folder))
    assert printed == json.loads((folder / "p.json").read_text(encoding="utf-8"))
    assert printed["setting"] == {"model": "llama-3.1-8b", "hardware": "rtx-4090", "tp": 1, "ep": 1}
    assert printed["made"]["runs"][0]["engine"] == "vllm", printed["made"]
    near(terms(printed)["dense.step"]["ns"], STEP_S * 1e9, 0.02)
    near(terms(printed)["attend.context_rows"]["ns"], ROW_S * 1e9, 0.2)
    near(terms(printed)["prefill.prefill_tokens"]["ns"], TOKEN_S * 1e9, 0.03)
    left_out = printed["leave_one_out"]
    assert left_out["parts"] == 10 and left_out["mape"] < 0.03, left_out
    assert len(printed["points"]["rows"]) == left_out["own"]["n"]
    assert succeeds("check", "p.json", cwd=folder).strip() == "p.json: ok (profile)"


def several_concurrencies_in_sglangs_lines_are_left_out_in_turn(folder):
    """Without per-request arrays each run is one point, and their number is what tells."""
    name = scenario(folder)
    served = [bench(engine(c), backend="sglang") for c in range(1, 13)]
    (folder / "detailed.jsonl").write_text("".join(json.dumps(run) + "\n" for run in served))
    whole = json.loads(succeeds("calibrate", "--from", "detailed.jsonl", "--scenario", name,
                                "--json", cwd=folder))
    assert whole["made"]["badge"]["kernel_time_reason"] == "fitted to sglang's benchmark", whole["made"]
    assert whole["leave_one_out"]["of"] == "runs" and whole["leave_one_out"]["parts"] == 12
    near(terms(whole)["dense.step"]["ns"], STEP_S * 1e9, 0.02)
    near(terms(whole)["dense.queries"]["ns"], QUERY_S * 1e9, 0.3)
    for run in served:
        for key in ("itls", "ttfts", "start_times", "input_lens", "output_lens"):
            del run[key]
    for i, run in enumerate(served):
        write(folder, "%d.json" % i, run)
    means = json.loads(succeeds("calibrate", "--from", "0.json", *("%d.json" % i for i in
                                range(1, 12)), "--scenario", name, "--json", cwd=folder))
    assert means["leave_one_out"]["own"]["n"] == 12
    near(terms(means)["dense.step"]["ns"], STEP_S * 1e9, 0.1)
    text = succeeds("calibrate", "--from", "detailed.jsonl", "--scenario", name, cwd=folder)
    assert "each run left out in turn" in text and "a benchmark does not tell them apart" in text
    assert "badge      decisions no (no GPU) | kernel time no (fitted to sglang's" in text, text
    assert all(len(line) <= 80 for line in text.splitlines()), text


def predicted(folder, name, served):
    """Metrics of a run that p.json times: the benchmark's requests, when they were sent."""
    rows = ["arrival_s,input_tokens,output_tokens"]
    rows += ["%.9f,%d,%d" % (s - 5000, i, o) for s, i, o in
             zip(served["start_times"], served["input_lens"], served["output_lens"])]
    (folder / "trace.csv").write_text("\n".join(rows) + "\n")
    sets = ("timing={\"model\":\"profile\",\"profile\":\"p.json\"}",
            "cluster.prefill.tokens_per_s=profile", "workload={\"arrival\":\"trace\",\"path\":"
            "\"trace.csv\"}")
    return json.loads(succeeds("run", name, "--json", "--quiet",
                               *(word for s in sets for word in ("--set", s)),
                               cwd=folder))["metrics"]


def a_profile_predicts_a_load_that_it_was_not_fitted_to(folder):
    """Fitted at 8 at once, run at 4: the toy engine is the oracle."""
    name = scenario(folder)
    write(folder, "vllm.json", bench(engine(8), tokenizer_id="t"))
    succeeds("calibrate", "--from", "vllm.json", "--scenario", name, "--out", "p.json", cwd=folder)
    served = bench(engine(4))
    ours = predicted(folder, name, served)
    near(ours["output_throughput"], served["output_throughput"], 0.02)
    near(ours["mean_tpot_ms"], served["mean_tpot_ms"], 0.03)
    # Fewer at once than it was fitted to are told.
    assert 0 < ours["extrapolated_step_share"] < 0.2, ours["extrapolated_step_share"]


def a_prompt_alone_takes_a_step_as_the_engines_does(folder):
    """Six seconds apart nobody decodes beside it: its tokens, and a step's fixed time."""
    name = scenario(folder)
    write(folder, "vllm.json", bench(engine(8), tokenizer_id="t"))
    succeeds("calibrate", "--from", "vllm.json", "--scenario", name, "--out", "p.json", cwd=folder)
    served = bench(engine(1, arrivals=[6 * i for i in range(len(LENGTHS))]))
    near(predicted(folder, name, served)["mean_ttft_ms"], served["mean_ttft_ms"], 0.02)


def a_profile_whose_steps_take_longer_than_an_hour_is_refused(folder):
    """At once where a unit of a feature does, and in the run where what there is of it does."""
    name = scenario(folder)
    write(folder, "vllm.json", bench(engine(8), tokenizer_id="t"))
    succeeds("calibrate", "--from", "vllm.json", "--scenario", name, "--out", "p.json", cwd=folder)
    profile = json.loads((folder / "p.json").read_text(encoding="utf-8"))
    dense = next(family for family in profile["families"] if family["name"] == "dense")
    for ns, word in ((1e15, "limits_ns/0/queries: 1000000000000000 is out of range"),
                     (3.5e12, "profile predicts a step of ")):
        dense["limits_ns"] = [{"step": 1e12, "queries": ns}]
        write(folder, "slow.json", profile)
        sentence = refuses(2, "run", name, "--quiet", "--set",
                           'timing={"model":"profile","profile":"slow.json"}', cwd=folder)
        assert word in sentence, sentence


def a_model_with_an_indexer_scans_its_context(folder):
    """And what no benchmark tells, of resolve and fetch, is refused or from data sheets."""
    write(folder, "vllm.json", bench(engine(8), tokenizer_id="t"))
    printed = json.loads(succeeds("calibrate", "--from", "vllm.json", "--scenario",
                                  "vllm-calculator", "--out", "p.json", "--json", "--quiet",
                                  cwd=folder))
    limits = {family["name"]: family["limits_ns"] for family in printed["families"]}
    assert set(limits) == {"host", "dense", "index", "attend", "sampling", "prefill"}, limits
    assert limits["host"] == limits["attend"] == limits["sampling"] == [], limits
    assert set(limits["index"][0]) == {"context_rows"}, limits
    assert printed["setting"]["tp"] == printed["setting"]["ep"] == 8, printed["setting"]
    run = ("run", "vllm-calculator", "--json", "--quiet", "--set", "run.duration_s=2",
           "--set", "workload.concurrency=2", "--set", "workload.lengths.input.tokens=4096")
    timing = {"model": "profile", "profile": "p.json"}
    sentence = refuses(2, *run, "--set", "timing=" + json.dumps(timing), cwd=folder)
    assert "p.json has no family resolve, fetch, which the step has" in sentence, sentence
    timing["lacking"] = "roofline"
    result = json.loads(succeeds(*run, "--set", "timing=" + json.dumps(timing), cwd=folder))
    assert result["metrics"]["extrapolated_step_share"] == 1, result["metrics"]
    assert result["out_of_range"] == {"part": "resolve"}, result["out_of_range"]
    assert result["badge"]["kernel_time_reason"] == "datasheet, 0 % of steps in range", result["badge"]
    resident = json.loads(succeeds(*run, "--set", "residency=resident", "--set",
                                   "timing=" + json.dumps({"model": "profile", "profile": "p.json"}),
                                   cwd=folder))
    assert resident["badge"]["kernel_time_reason"] == "profile, 100 % of steps in range", resident["badge"]


def a_dense_model_stays_in_hbm_and_on_one_gpu(folder):
    name = scenario(folder)
    sentence = refuses(2, "run", name, "--set", "residency=hisparse", cwd=folder)
    assert sentence.startswith("kvtide: --set residency: llama-3.1-8b has no indexer"), sentence
    sentence = refuses(2, "run", name, "--set", "cluster.decode.tp=2", cwd=folder)
    assert sentence.startswith("kvtide: --set cluster.decode.tp: tp 2 would split"), sentence


def a_dense_models_selections_are_its_contexts(folder):
    """Every query attends to its whole context, in one store: the prompt, then a row more a token."""
    name = scenario(folder)
    succeeds("run", name, "--quiet", "--out", "out", cwd=folder)
    result = json.loads((folder / "out/result.json").read_text(encoding="utf-8"))
    lines = (folder / "out/requests.csv").read_text(encoding="utf-8").splitlines()
    head = lines[0].split(",")
    rows = 0
    for line in lines[1:]:
        row = dict(zip(head, line.split(",")))
        tokens, made = int(row["input_tokens"]), int(row["output_tokens"])
        rows += sum(tokens + t for t in range(1, made))  # the anchor's own row too
    assert result["rows_followed"]["selected"] == rows, (result["rows_followed"], rows)
    assert result["rows_followed"]["optional"] == rows


def what_cannot_be_calibrated_is_refused(folder):
    name = scenario(folder)
    write(folder, "vllm.json", bench(engine(8), tokenizer_id="t"))
    few = bench(engine(1)[:1])
    few["itls"] = [few["itls"][0][:2]]
    write(folder, "few.json", few)
    write(folder, "none.json", {"a": 1})
    refused = (
        ((), "calibrate: --out PROFILE.json is missing"),
        (("--from", "vllm.json"), "--scenario is missing"),
        (("--from", "vllm.json", "--scenario", name, "--window", "9:3"), "--window"),
        (("--from", "gone.json", "--scenario", name), "gone.json"),
        (("--from", "none.json", "--scenario", name), "none.json:1: no benchmark's result"),
        (("--from", "vllm.json", "--scenario", name, "--set", "cluster.decode.gpus=2"),
         "several replicas"),
        (("--from", "vllm.json", "--scenario", "vllm-calculator", "--set", "speculation=dflash2"),
         "speculation \"dflash2\""),
        (("--from", "vllm.json", "--scenario", name, "--out", "no/such/folder/p.json"), "no/such"),
    )
    for arguments, words in refused:
        sentence = refuses(support.kvtide("calibrate", *arguments, cwd=folder).returncode,
                           "calibrate", *arguments, cwd=folder)
        assert words in sentence, (arguments, sentence)
    done = support.kvtide("calibrate", "--from", "few.json", "--scenario", name, "--out", "p.json",
                          cwd=folder)
    assert done.returncode == 1 and "windows to fit to" in done.stderr, done
    assert not (folder / "p.json").exists()


def prompts_by_a_profile_take_one_that_has_them(folder):
    name = scenario(folder, changes={"cluster.prefill.tokens_per_s": "profile"})
    sentence = refuses(2, "run", name, cwd=folder)
    assert '"profile" takes timing "profile", and the timing is "roofline"' in sentence, sentence
    profile = {"schema": "kvtide/profile/1", "name": "p", "summary": "s", "setting": {},
               "families": [{"name": "host", "limits_ns": [{"step": 1e6}]}]}
    write(folder, "p.json", profile)
    sets = ("--set", 'timing={"model":"profile","profile":"p.json","lacking":"roofline"}')
    sentence = refuses(2, "run", name, *sets, cwd=folder)
    assert "has no family prefill" in sentence, sentence
    sentence = refuses(2, "run", name, "--set", "cluster.prefill.context_half_tokens=9", *sets,
                       cwd=folder)
    assert "has no effect while cluster.prefill.tokens_per_s is \"profile\"" in sentence, sentence

    def by_profile(token_ns, context_ns, host=(), *more):
        profile["families"] = [{"name": "host", "limits_ns": [*host]}, {
            "name": "prefill", "limits_ns": [
                {"prefill_tokens": token_ns, "prefill_context_tokens": context_ns}]}]
        write(folder, "p.json", profile)
        return json.loads(succeeds("run", name, *sets, *more, "--json", "--quiet",
                                   cwd=folder))["metrics"]

    # 1e9 / 100,000 ns are 10,000 tokens/s, halved by a context of 100,000 / 10 tokens.
    rate = ("--set", "cluster.prefill.tokens_per_s=10000")
    by_hand = by_profile(1e5, 10, (), *rate, "--set", "cluster.prefill.context_half_tokens=10000")
    assert by_profile(1e5, 10) == by_hand
    assert by_profile(1e5, 0)["mean_ttft_ms"] < by_hand["mean_ttft_ms"]
    # One at a time, each prompt is a step of its own: 1 ms of host more, and what is set beside it.
    alone = ("--set", "workload.concurrency=1")
    scheduled = ("--set", "timing.host_us_per_step=500")
    host = ({"step": 1e6},)
    tokens_ms = by_profile(1e5, 0, host, *alone, *rate)["mean_ttft_ms"]
    assert abs(by_profile(1e5, 0, host, *alone)["mean_ttft_ms"] - tokens_ms - 1) < 1e-6
    assert abs(by_profile(1e5, 0, host, *alone, *scheduled)["mean_ttft_ms"] - tokens_ms - 1.5) < 1e-6


CASES = (
    a_profile_has_the_engines_costs,
    several_concurrencies_in_sglangs_lines_are_left_out_in_turn,
    a_profile_predicts_a_load_that_it_was_not_fitted_to,
    a_prompt_alone_takes_a_step_as_the_engines_does,
    a_profile_whose_steps_take_longer_than_an_hour_is_refused,
    a_model_with_an_indexer_scans_its_context,
    a_dense_model_stays_in_hbm_and_on_one_gpu,
    a_dense_models_selections_are_its_contexts,
    what_cannot_be_calibrated_is_refused,
    prompts_by_a_profile_take_one_that_has_them,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
