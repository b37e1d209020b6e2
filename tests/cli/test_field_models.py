"""Ideas from the field that are models: what docs/policies.md says of them holds in short runs.

Scenarios are the shipped ones with fewer requests and tokens; what is compared are ratios.
"""
import json
import sys

import support
from support import refuses, succeeds

FEW = ("--set", "selection.tapes=2", "--set", "selection.steps=64")


def sets(**given):
    return [word for path, value in given.items()
            for word in ("--set", "%s=%s" % (path.replace("__", "."), json.dumps(value)))]


def run(name, *arguments, **given):
    """The result of a run with values at dotted paths (a__b for a.b)."""
    return json.loads(succeeds("run", name, "--quiet", "--json", *sets(**given), *arguments))


def tpot(name, *arguments, **given):
    return run(name, *arguments, **given)["metrics"]["mean_tpot_ms"]


def size(name, *arguments):
    return json.loads(succeeds("size", name, "--json", *arguments))


def near(value, wanted, share):
    assert abs(value - wanted) <= share * wanted, "%g is not %g +- %g %%" % (value, wanted, 100 * share)


SHORT = dict(workload__concurrency=2, workload__requests=2, workload__lengths__input__tokens=60000,
             workload__lengths__output__tokens=24)


# --- Index reuse ---------------------------------------------------------------------------------


def followers_fetch_what_they_fetched_with_a_quarter_of_the_lookups(folder):
    del folder
    all_run, fourth = (run("indexcache-200k", *FEW, **SHORT, model__index_topk_freq=freq)["metrics"]
                       for freq in (1, 4))
    near(fourth["fetched_rows_per_round"] / all_run["fetched_rows_per_round"], 16 / 61, 0.1)
    near(fourth["h2d_payload_bytes"] / all_run["h2d_payload_bytes"], 1, 0.1)
    assert fourth["mean_tpot_ms"] < all_run["mean_tpot_ms"]


def index_rows_go_with_their_indexers_and_hot_caches_stay(folder):
    del folder
    all_run, fourth = (size("indexcache-200k", "--set", "model.index_topk_freq=%d" % freq)
                       for freq in (1, 4))
    before, after = all_run["session_hbm_by_class"], fourth["session_hbm_by_class"]
    assert after["index"] * 61 == before["index"] * 16
    assert (after["hot"], after["tail"]) == (before["hot"], before["tail"])
    assert fourth["session_host_bytes"] == all_run["session_host_bytes"]


def a_pattern_says_what_a_frequency_says(folder):
    del folder
    by_freq = run("indexcache-200k", *FEW, **SHORT)
    by_pattern = run("indexcache-200k", *FEW, **SHORT, model__index_topk_freq=1,
                     model__index_topk_pattern="FSSS" * 15 + "F")
    other = run("indexcache-200k", *FEW, **SHORT, model__index_topk_freq=1,
                model__index_topk_pattern="F" + "S" * 60)
    assert by_freq["decision_hash"] == by_pattern["decision_hash"] != other["decision_hash"]
    assert by_freq["metrics"] == by_pattern["metrics"] != other["metrics"]


def the_setting_needs_no_source_and_works_beside_other_changes(folder):
    path = support.tiny(folder, changes={
        "model": {"base": "glm-5", "index_topk_freq": 6, "block_tokens": 8, "top_k": 1024},
        "hardware": "b300", "cluster.decode": {"gpus": 4, "ep": 4},
        "residency": {"policy": "hisparse", "hot_tokens": "4k"}})
    by_class = size(path)["session_hbm_by_class"]
    assert by_class["index"] == 4096 // 8 * 13 * 132
    assert by_class["hot"] == 4096 // 8 * 8 * 576 * 78, "4k are 4 x 1,024 tokens"


def what_does_not_fit_is_refused_in_a_sentence(folder):
    del folder
    for name, setting, words in (
            ("indexcache-200k", "model.index_topk_pattern=FS", "index_topk_freq is 4 beside it"),
            ("indexcache-200k", "model.index_topk_freq=0", "0 is out of range"),
            ("vllm-calculator", "model.index_topk_pattern=FSX", "3 letters; glm-5.3 has 21 indexers"),
            ("deepseek-v4.1-flash-500k", "model.index_topk_freq=2", "is read by 5 indexers"),
            ("triforce-122k", "model.block_tokens=8", "llama-2-7b-128k is dense"),
            ("spin-blocks", "model.block_tokens=24", "are no whole number of them"),
            ("glm-5.3-100k", "model.block_tokens=8", "timing \"paper\" knows nothing of block_tokens"),
            ("vllm-calculator", "model.index_topk_patern=F", "no such key")):
        assert words in refuses(2, "run", name, "--quiet", "--set", setting), (name, setting)
    for engine in ("vllm", "sglang"):
        assert "some of its rows are of 8 tokens" in refuses(
            2, "size", "vllm-calculator", "--engine", engine, "--set", "model.block_tokens=8")


# --- Blocks --------------------------------------------------------------------------------------


def blocks_move_the_same_bytes_in_fewer_pieces(folder):
    del folder
    rows, blocks = (run("spin-blocks", *FEW, **SHORT, model__block_tokens=block)["metrics"]
                    for block in (1, 16))
    # At equal shares of equal tokens; 656 B are padded to 704, sixteen of them are not.
    near(blocks["fetched_rows_per_round"] * 16 / rows["fetched_rows_per_round"], 1, 0.25)
    near(rows["h2d_wire_bytes"] / rows["h2d_payload_bytes"], 704 / 656, 1e-6)
    near(blocks["h2d_wire_bytes"] / blocks["h2d_payload_bytes"], 1, 1e-6)
    assert blocks["mean_tpot_ms"] < rows["mean_tpot_ms"]


def five_buffered_blocks_to_one_mandatory_are_worth_half_as_much_again(folder):
    """SPIN: 49 % more decode throughput than mandatory blocks alone."""
    del folder
    given = dict(workload__lengths__output__tokens=120)
    near(tpot("spin-blocks", *FEW, **given, residency__hot_tokens="1k") /
         tpot("spin-blocks", *FEW, **given), 1.45, 0.1)


def every_size_of_block_runs_and_decides_differently(folder):
    del folder
    hashes = {run("spin-blocks", *FEW, **SHORT, model__block_tokens=block)["decision_hash"]
              for block in (1, 2, 4, 8, 16, 32, 64)}
    assert len(hashes) == 7


# --- Low-rank keys, values on host ---------------------------------------------------------------

FULL = ("--set", "model=llama-3.1-8b", "--set", "residency=resident")


def six_times_as_many_requests_fit_without_values_and_keys(folder):
    """ShadowKV: batch 24 for 4 at 122K."""
    del folder
    shadow, full = size("shadowkv-122k"), size("shadowkv-122k", *FULL)
    assert full["running"] == 4 and 24 <= shadow["running"] <= 26, (full, shadow)


def shadowkv_decodes_several_times_as_fast_at_its_largest_batch(folder):
    """Its 3.04x is a lower bound of what a data sheet gives; docs/policies.md says why."""
    del folder
    full = run("shadowkv-122k", *FULL, workload__concurrency=4, workload__requests=4,
               run__fidelity="exact")["metrics"]["max_output_tokens_per_s"]
    near(full, 80.78, 0.05)  # tokens a second, as measured
    assert 3.04 < run("shadowkv-122k")["metrics"]["max_output_tokens_per_s"] / full < 5


# --- Drafting for oneself ------------------------------------------------------------------------


def a_model_that_drafts_over_4096_tokens_is_twice_as_fast_at_122k(folder):
    """TriForce: 2.20x to 2.31x with a hierarchy of drafts, 1.80x without."""
    del folder
    given = dict(workload__requests=4)
    ratio = (tpot("triforce-122k", **given, speculation="none") / tpot("triforce-122k", **given))
    assert 1.8 < ratio < 2.6, ratio


def what_drafting_for_oneself_brings_rises_with_the_batch(folder):
    """MagicDec at 32K: 1.22x, 1.38x, 1.47x at 32, 64, 128."""
    del folder
    gains = []
    for batch in (32, 64, 128):
        given = dict(workload__concurrency=batch, workload__requests=batch)
        gains.append(tpot("magicdec-32k", **given, speculation="none") / tpot("magicdec-32k", **given))
    assert 1.22 < gains[0] < gains[1] < gains[2] < 2.7, gains


if __name__ == "__main__":
    sys.exit(support.run_cases([
        followers_fetch_what_they_fetched_with_a_quarter_of_the_lookups,
        index_rows_go_with_their_indexers_and_hot_caches_stay,
        a_pattern_says_what_a_frequency_says,
        the_setting_needs_no_source_and_works_beside_other_changes,
        what_does_not_fit_is_refused_in_a_sentence,
        blocks_move_the_same_bytes_in_fewer_pieces,
        five_buffered_blocks_to_one_mandatory_are_worth_half_as_much_again,
        every_size_of_block_runs_and_decides_differently,
        six_times_as_many_requests_fit_without_values_and_keys,
        shadowkv_decodes_several_times_as_fast_at_its_largest_batch,
        a_model_that_drafts_over_4096_tokens_is_twice_as_fast_at_122k,
        what_drafting_for_oneself_brings_rises_with_the_batch,
    ]))
