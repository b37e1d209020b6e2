"""Money, energy and prefill GPUs of another kind, by hand."""
import csv
import json
import sys

import support
from support import changed, refuses, succeeds

# Steps of 0.7 ms whatever they do, so that what is busy when is known.
PROFILE = {"schema": "kvtide/profile/1", "name": "p", "summary": "made up", "setting": {},
           "families": [{"name": name, "limits_ns": [{"step": 1e5}]} for name in (
               "host", "dense", "index", "resolve", "fetch", "attend", "sampling")]}
STEP_S = 7e-4
GPUS, TOKENS, REQUESTS = 2, 51, 8
# Two GPUs that do not step together; one request at a time, on the first of them.
ALONE = {
    "cluster.decode.lockstep": False,
    "timing": {"model": "profile", "profile": "./p.json"},
    "workload": {"arrival": "closed", "concurrency": 1, "requests": REQUESTS, "lengths": {
        "input": {"law": "fixed", "tokens": 4096}, "output": {"law": "fixed", "tokens": TOKENS}}},
}
POWER = {"cluster.decode.idle_watts_per_gpu": 100, "cluster.decode.busy_watts_per_gpu": 700}


def run(folder, changes, *words):
    (folder / "p.json").write_text(json.dumps(PROFILE), encoding="utf-8")
    path = folder / "scenario.json"
    path.write_text(json.dumps(changed(support.TINY, changes)), encoding="utf-8")
    return json.loads(succeeds("run", path, "--quiet", "--json", "--out", "out", *words,
                               cwd=folder))


def near(value, wanted, relative=1e-9):
    assert abs(value - wanted) <= relative * abs(wanted), (value, wanted)


def nothing_is_paid_where_nobody_says_a_price(folder):
    metrics = run(folder, ALONE)["metrics"]
    for key in ("usd_per_hour", "usd_per_million_output_tokens", "energy_kwh", "mean_power_watts",
                "joules_per_output_token", "prefill_busy_share"):
        assert metrics[key] is None, key
    assert metrics["gpu_busy_share"] > 0


def a_gpu_is_busy_while_its_rank_steps(folder):
    metrics = run(folder, ALONE)["metrics"]
    busy_s = REQUESTS * (TOKENS - 1) * STEP_S
    near(metrics["gpu_busy_share"], busy_s / (GPUS * metrics["duration"]))
    # Together: both step whenever one does, and one waits for the other.
    both = run(folder, {**ALONE, "cluster.decode.lockstep": True})["metrics"]
    near(both["gpu_busy_share"], 2 * metrics["gpu_busy_share"])
    assert both["barrier_wait_share"] >= 0


def energy_is_idle_and_busy_watts(folder):
    result = run(folder, {**ALONE, **POWER, "cluster.decode.watts_per_node": 400,
                          "cluster.pue": 1.25})
    metrics = result["metrics"]
    busy_s, all_s = REQUESTS * (TOKENS - 1) * STEP_S, metrics["duration"]
    joules = 1.25 * (GPUS * 100 * all_s + 600 * busy_s + 400 * all_s)
    near(metrics["energy_kwh"], joules / 3.6e6)
    near(metrics["mean_power_watts"], joules / all_s)
    near(metrics["joules_per_output_token"], joules / (REQUESTS * TOKENS))
    assert metrics["usd_per_hour"] is None
    for key in ("energy_kwh", "usd_per_hour"):
        assert result["metrics_basis"][key] == "assumed"


def money_is_gpus_host_dram_and_energy(folder):
    metrics = run(folder, {**ALONE, **POWER, "cluster.decode.usd_per_gpu_hour": 2.5,
                           "cluster.decode.usd_per_host_gib_hour": 0.002,
                           "cluster.decode.host_dram_gib_per_node": 512,
                           "cluster.decode.index_offload_gib_per_node": 64,
                           "cluster.usd_per_kwh": 0.15})["metrics"]
    busy_s, all_s = REQUESTS * (TOKENS - 1) * STEP_S, metrics["duration"]
    kw = (GPUS * 100 + 600 * busy_s / all_s) / 1e3
    usd = GPUS * 2.5 + (512 + 64) * 0.002 + kw * 0.15
    near(metrics["usd_per_hour"], usd)
    near(metrics["usd_per_million_output_tokens"],
         usd / 3600 * all_s / (REQUESTS * TOKENS) * 1e6)
    # Energy alone has a price, too.
    energy = run(folder, {**ALONE, **POWER, "cluster.usd_per_kwh": 0.15})["metrics"]
    near(energy["usd_per_hour"], kw * 0.15)


def each_pool_has_its_own(folder):
    """Two pools, the second of which nobody needs: it only costs and idles."""
    pool = {**support.TINY["cluster"]["decode"], "gpus": 1, "dp": 1, "ep": 1, "lockstep": False}
    model = {"base": "deepseek-v4.1-flash", "weight_bytes": 1 << 36, "dense_weight_bytes": 1 << 35,
             "weights_replicated_gib": 32, "weights_expert_gib": 32}
    pools = [{**pool, "idle_watts_per_gpu": 100, "busy_watts_per_gpu": 700, "usd_per_gpu_hour": 3},
             {**pool, "idle_watts_per_gpu": 50, "busy_watts_per_gpu": 60, "usd_per_gpu_hour": 1}]
    metrics = run(folder, {**ALONE, "model": model, "cluster.decode": pools,
                           "cluster.router.policy": "least-loaded",
                           "cluster.decode": pools})["metrics"]
    busy_s, all_s = REQUESTS * (TOKENS - 1) * STEP_S, metrics["duration"]
    near(metrics["usd_per_hour"], 4)
    near(metrics["energy_kwh"], (150 * all_s + 600 * busy_s) / 3.6e6)
    path = folder / "lacking.json"
    del pools[1]["usd_per_gpu_hour"]
    path.write_text(json.dumps(changed(support.TINY, {
        **ALONE, "model": model, "cluster.decode": pools})), encoding="utf-8")
    sentence = refuses(2, "run", path, cwd=folder)
    assert "#/cluster/decode/1/usd_per_gpu_hour: usd_per_gpu_hour is missing" in sentence, sentence


def a_prefill_pool_pays_and_works_too(folder):
    """Two servers of two GPUs; each prompt takes 4,096 / 40,000 s."""
    metrics = run(folder, {**ALONE, **POWER, "cluster.decode.usd_per_gpu_hour": 2,
                           "cluster.prefill": {
                               "mode": "separate", "gpus": 4, "tp": 2, "tokens_per_s": 40000,
                               "usd_per_gpu_hour": 1.5, "idle_watts_per_gpu": 80,
                               "busy_watts_per_gpu": 500}})["metrics"]
    all_s, busy_s = metrics["duration"], REQUESTS * 4096 / 40000
    near(metrics["prefill_busy_share"], busy_s / (2 * all_s))
    near(metrics["usd_per_hour"], 2 * 2 + 4 * 1.5)
    joules = (GPUS * 100 * all_s + 600 * REQUESTS * (TOKENS - 1) * STEP_S
              + 4 * 80 * all_s + 420 * 2 * busy_s)
    near(metrics["energy_kwh"], joules / 3.6e6)


def who_is_being_prefilled_for_a_rank_counts_there(folder):
    """A slow pool before two ranks: those that come meanwhile do not all go to the first."""
    run(folder, {"cluster.prefill": {"mode": "separate", "tokens_per_s": 20000},
                 "workload": {"arrival": "open", "rate": 100, "requests": 40,
                              "lengths": support.TINY["workload"]["lengths"]}})
    with open(folder / "out/requests.csv", encoding="utf-8", newline="") as file:
        ranks = [row["rank"] for row in csv.DictReader(file)]
    assert all(4 <= ranks[at:at + 10].count("0") <= 6 for at in (0, 10, 20, 30)), ranks


def mean_values_know_what_is_paid(folder):
    """With somebody always there, and beside a prefill pool that is half busy."""
    paid = {**POWER, "cluster.decode.usd_per_gpu_hour": 2, "selection": {"law": "tape", "tapes": 4},
            "cluster.prefill": {"mode": "separate", "gpus": 2, "tokens_per_s": 60000,
                                "usd_per_gpu_hour": 1, "idle_watts_per_gpu": 80,
                                "busy_watts_per_gpu": 500},
            "workload": {"arrival": "open", "rate": 15, "requests": 400,
                         "lengths": support.TINY["workload"]["lengths"]}}
    exact = run(folder, paid)["metrics"]
    mean = run(folder, paid, "--fidelity", "analytic")["metrics"]
    near(mean["usd_per_hour"], 6)
    for key, most in (("usd_per_million_output_tokens", 0.05), ("prefill_busy_share", 0.05),
                      ("mean_power_watts", 0.1), ("joules_per_output_token", 0.1)):
        near(mean[key], exact[key], most)


# ---- Prefill by data sheet ----------------------------------------------------------------------

def data(kind, name):
    return json.loads((support.TOP / "models" / kind / (name + ".json")).read_text())


def seconds_by_hand(model, gpu, tp, tokens, efficiency):
    """A prompt on a server of tp GPUs that hold the experts themselves, from the files."""
    llm, hardware = data("llm", model), data("hardware", gpu)
    fp8, bf16 = hardware["fp8_flops"] * efficiency, hardware["bf16_flops"] * efficiency
    hbm, link = hardware["hbm_bytes_per_s"] * 0.8, hardware["interconnect_bytes_per_s"] * 0.7
    layers = sum(store["layers"] * store.get("repeat", 1) for store in llm["stores"])
    scanned = sum(store.get("repeat", 1) / store["compress_ratio"] for store in llm["stores"])
    rows = sum(min(t + 0.5, llm["top_k"]) for t in range(tokens))
    exchanged = 0 if tp == 1 else 2 * 2 * (tp - 1) / tp * 2 * llm["hidden"] * llm["layers"]
    calls = 0 if tp == 1 else 2
    dense_s = 2 * llm["active_parameters"] * tokens / tp / fp8
    index_s = scanned * tokens ** 2 / 2 * (
        2 * llm["index_heads"] * llm["index_dim"] / fp8 + 4 * 1.7 / hbm)
    attend_s = (2 * llm["heads"] / tp * (2 * llm["latent_dim"] + llm["rope_dim"]) * layers * rows
                / bf16)
    return (llm["layers"] * (10 + 8 * calls) * 1e-6 + dense_s + tokens * exchanged / link + index_s
            + attend_s)


def prefill_takes_what_the_data_sheet_says(folder):
    """The first token of a request that has everything for itself, less its import."""
    def ttft_s(gpu, tp, tokens, efficiency=None):
        prefill = {"mode": "separate", "gpus": 8, "tp": tp, "ep": 8, "hardware": gpu,
                   "tokens_per_s": "roofline"}
        if efficiency:
            prefill["flops_efficiency"] = efficiency
        lone = {"model": "glm-5.3", "cluster.decode": {"gpus": 4, "dp": 4, "ep": 4},
                "cluster.import": {"law": "rate", "rate": 1000},
                "residency": {"policy": "hisparse", "hot_tokens": 4096},
                "workload": {"arrival": "closed", "concurrency": 1, "requests": 1, "lengths": {
                    "input": {"law": "fixed", "tokens": tokens},
                    "output": {"law": "fixed", "tokens": 2}}}}
        without = run(folder, lone)["metrics"]["mean_ttft_ms"]
        with_it = run(folder, {**lone, "cluster.prefill": prefill})
        assert with_it["metrics_basis"]["mean_ttft_ms"] == "assumed"
        return (with_it["metrics"]["mean_ttft_ms"] - without) / 1e3

    for gpu, tokens, efficiency in (("h200", 8192, None), ("b300", 30000, 0.25),
                                    ("gb300", 100000, 0.6)):
        near(ttft_s(gpu, 8, tokens, efficiency),
             seconds_by_hand("glm-5.3", gpu, 8, tokens, efficiency or 0.4), 1e-4)
    assert ttft_s("gb300", 8, 30000) < ttft_s("h200", 8, 30000) < ttft_s("h200", 4, 30000)


def decoding_ranks_compute_by_their_data_sheet_as_well(folder):
    """A chunk a step: the same math as in one go, and steps around it."""
    colocated = {"model": "glm-5.3", "hardware": "h200",
                 "cluster.decode": {"gpus": 8, "tp": 8, "ep": 8}, "cluster.import": None,
                 "cluster.prefill": {"mode": "colocated", "tokens_per_s": "roofline"},
                 "residency": {"policy": "hisparse", "hot_tokens": 4096},
                 "workload": {"arrival": "closed", "concurrency": 1, "requests": 1, "lengths": {
                     "input": {"law": "fixed", "tokens": 40000},
                     "output": {"law": "fixed", "tokens": 2}}}}
    result = run(folder, colocated)
    wanted = seconds_by_hand("glm-5.3", "h200", 8, 40000, 0.4)
    near(result["metrics"]["mean_ttft_ms"] / 1e3, wanted, 0.05)
    sentence = refuses(2, "run", folder / "scenario.json", "--set", "cluster.prefill.hardware=h100",
                       cwd=folder)
    assert "hardware has no effect while mode is" in sentence, sentence


def ttft_explodes_where_prefill_saturates_and_tpot_does_not(folder):
    """As InferenceX #2275 saw with 8 prefill and 16 decode H200."""
    def at(concurrency):
        return run(folder, {
            "model": "glm-5.3", "hardware": "h200",
            "cluster.decode": {"gpus": 16, "tp": 8, "dp": 2, "ep": 16, "lockstep": True},
            "cluster.prefill": {"mode": "separate", "gpus": 8, "ep": 8, "tokens_per_s": "roofline",
                                "flops_efficiency": 0.15},
            "residency": {"policy": "resident"}, "selection": None, "run.fidelity": "exact",
            "workload": {"arrival": "closed", "concurrency": concurrency,
                         "requests": 6 * concurrency, "lengths": {
                             "input": {"law": "fixed", "tokens": 8192},
                             "output": {"law": "fixed", "tokens": 1024}}}})["metrics"]

    few, some, many = at(8), at(128), at(1024)
    assert many["mean_ttft_ms"] > 15 * few["mean_ttft_ms"], (few, many)
    assert many["prefill_busy_share"] > 0.9 > few["prefill_busy_share"]
    assert many["mean_tpot_ms"] < 1.2 * some["mean_tpot_ms"], (some, many)


def the_summary_says_it(folder):
    run(folder, {**ALONE, **POWER, "cluster.decode.usd_per_gpu_hour": 2,
                 "cluster.prefill": {
                     "mode": "separate", "gpus": 4, "tokens_per_s": "roofline", "ep": 4,
                     "hardware": "gb300", "usd_per_gpu_hour": 1.5, "idle_watts_per_gpu": 80,
                     "busy_watts_per_gpu": 500}})
    lines = succeeds("run", folder / "scenario.json", "--quiet", cwd=folder).splitlines()
    starts = [line.split()[0] for line in lines if line.strip()]
    assert all(word in starts for word in ("prefill", "money", "energy")), lines
    assert any("4 servers of 1 x gb300: 4096 tokens" in line for line in lines), lines
    assert all(len(line) <= 80 for line in lines), lines


CASES = (
    nothing_is_paid_where_nobody_says_a_price,
    a_gpu_is_busy_while_its_rank_steps,
    energy_is_idle_and_busy_watts,
    money_is_gpus_host_dram_and_energy,
    each_pool_has_its_own,
    a_prefill_pool_pays_and_works_too,
    who_is_being_prefilled_for_a_rank_counts_there,
    mean_values_know_what_is_paid,
    prefill_takes_what_the_data_sheet_says,
    decoding_ranks_compute_by_their_data_sheet_as_well,
    ttft_explodes_where_prefill_saturates_and_tpot_does_not,
    the_summary_says_it,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
