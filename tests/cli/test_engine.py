"""Engines: what a start would do by its flags or its log, and a scenario as flags.

Expected figures are worked out here from what the projects publish, not from the engine files."""
import json
import math
import shlex
import sys

import support
from support import TOP, kvtide, refuses, succeeds

GIB = 1 << 30

# vLLM's concurrency calculator at its defaults: H200, TP8, EP, 81,920 tokens, 4,096 hot rows.
POOL = 141e9 * 0.92 - (19.556 / 8 + 684.167 / 8 + 15) * GIB
BLOCK = 5 * 64 * 576
HISPARSE = json.dumps({"kv_connector": "HiSparseConnector", "kv_role": "kv_both",
                       "kv_connector_extra_config": {"host_pool_gib": 384}})
VLLM = ("--model", "zai-org/GLM-5.3-FP8", "--tensor-parallel-size", "8", "--enable-expert-parallel",
        "--max-model-len", "81920")
HOT = ("--attention-config", '{"hisparse_config":{"device_buffer_size":4096}}',
       "--kv-transfer-config", HISPARSE)

# sglang #23704: 8 x H200, bf16 rows, 49,152 device tokens.
SGLANG = ("--model-path", "zai-org/GLM-5.1-FP8", "--tp-size", "8", "--ep-size", "8",
          "--disaggregation-mode", "decode", "--disable-radix-cache", "--max-total-tokens", "49152",
          "--enable-hisparse")


def hisparse(ratio, hot=4096):
    return ("--hisparse-config", json.dumps({"top_k": 2048, "device_buffer_size": hot,
                                             "host_to_device_ratio": ratio}))


def asked(engine, *flags, options=(), status=0):
    done = kvtide("check", "--engine", engine, *options, "--json", "--", *flags)
    assert done.returncode == status, (flags, done.returncode, done.stderr, done.stdout[-400:])
    return json.loads(done.stdout)


def running(answer, tokens=None):
    sizes = answer["sizes"]["sizes"]
    return next(s for s in sizes if tokens in (None, s["tokens"]))["running"]


def ids(answer, key="refused"):
    return [rule["id"] for rule in answer[key]]


# --- Worked cases ---------------------------------------------------------------------------------


def vllms_calculator_says_39_and_4_from_flags_alone(_):
    need = (1280 + 20 * 64 + 20 * 2) * BLOCK
    assert math.floor(POOL / need) == 39 and math.floor(POOL / (1280 * 3052800)) == 4
    answer = asked("vllm", *VLLM, *HOT)
    size = answer["sizes"]["sizes"][0]
    assert (size["running"], size["resident"]["running"], size["limited_by"]) == (39, 4, "hbm"), size
    assert round(size["host_bytes_at_limit"] / GIB) == 134, size
    assert answer["memory"]["block_bytes"] == BLOCK and answer["memory"]["payload_groups"] == 20
    assert answer["memory"]["blocks"] == math.floor(POOL / BLOCK), answer["memory"]
    assert abs(answer["engine_says_concurrency"] - POOL / need) < 0.01, answer["engine_says_concurrency"]
    assert answer["facts"]["host_pinned_gib"] == 384 and answer["starts"] is True
    assert running(asked("vllm", *VLLM)) == 4


def a_ratio_of_11_holds_seven_requests_of_63k_and_one_of_5_does_not(_):
    """sglang #23704: at 7 requests of 46K to 63K tokens the host pool ran out, as 5 times would."""
    row = 2 * 576 * 78
    for ratio, shortest, longest in ((11, 11, 8), (5, 5, 3)):
        answer = asked("sglang", *SGLANG, *hisparse(ratio), options=("--tokens", "47104,64512"))
        pool = 49152 * ratio
        assert (pool // 47104, pool // 64512) == (shortest, longest)
        assert (running(answer, 47104), running(answer, 64512)) == (shortest, longest), answer["sizes"]
        facts = answer["facts"]
        assert facts["host_tokens"] == pool and facts["row_bytes"] == 1152, facts
        assert abs(facts["host_pinned_gib"] - 8 * pool * row / GIB) < 1e-6, facts
        assert {"host-not-admitted", "ratio-is-of-tokens"} <= set(ids(answer, "warnings"))
        assert "no-prefix-reuse" in ids(answer, "off")
        said = succeeds("check", "--engine", "sglang", "--", *SGLANG, *hisparse(ratio))
        assert "%.2f of it not budgeted" % facts["index_unbudgeted_gib"] in said, said


def a_device_pool_of_226000_tokens_runs_6_without_and_54_with_a_device_buffer(_):
    """sglang #33075: pinned at 6 running of 32K + 2K at about 87 % of the pool; 54 with HiSparse."""
    tokens = 226000 // 64 * 64
    assert tokens // (4096 + 64) == 54 and tokens // 34816 == 6
    assert abs(6 * 32768 / tokens - 0.87) < 0.005
    common = ("--model-path", "glm-5", "--tp-size", "8", "--max-total-tokens", "226000")
    options = ("--hardware", "rtx-pro-6000", "--set", "model.weights_expert_gib=350", "--tokens", "34816")
    assert running(asked("sglang", *common, options=options)) == 6
    answer = asked("sglang", *common, "--disable-radix-cache", "--enable-hisparse", *hisparse(10),
                   options=options)
    assert running(answer) == 54, answer["sizes"]
    assert answer["sizes"]["sizes"][0]["limited_by"] == "hbm_rows"
    assert "slow-when-idle" in ids(answer, "warnings")


# --- Refused, off, unknown ------------------------------------------------------------------------


def what_an_engine_would_not_start_with_is_refused_by_name(_):
    spec = ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}')
    no_pool = ("--kv-transfer-config", '{"kv_connector":"HiSparseConnector"}')
    for engine, flags, rule in (
            ("vllm", (*VLLM, *HOT, "--compilation-config", '{"cudagraph_mode":"FULL"}'), "graphs-full"),
            ("vllm", (*VLLM, *HOT, *spec), "hot-too-small"),
            ("vllm", (*VLLM, *HOT[2:], "-dcp", "2"), "context-parallel"),
            ("vllm", (*VLLM, *HOT[:2]), "config-without-connector"),
            ("vllm", (*VLLM, *no_pool), "no-host-pool"),
            ("vllm", (*VLLM, *HOT, "--attention-config",
                      '{"hisparse_config":{"device_buffer_size":32769}}'), "hot-too-large"),
            ("vllm", (*VLLM, *HOT[:2], "--kv-transfer-config", HISPARSE.replace("384", "3")),
             "host-pool-too-small"),
            ("vllm", (*VLLM, *HOT[:2], "--kv-transfer-config", HISPARSE.replace("384", "3900")),
             "host-pool-too-large"),
            ("vllm", ("--model", "deepseek-v4-flash", "-tp", "8", *HOT), "compressed-rows"),
            ("vllm", ("--model", "meta-llama/Llama-3.1-8B-Instruct", *HOT), "no-indexer"),
            ("sglang", tuple(f for f in SGLANG if f not in ("--disable-radix-cache",
                                                            "--disaggregation-mode", "decode"))
             + hisparse(5), "radix-cache"),
            ("sglang", (*SGLANG, *hisparse(5, hot=2047)), "hot-below-top-k"),
            ("sglang", (*SGLANG, *hisparse(5), "--kv-cache-dtype", "fp8_e5m2"), "kv-dtype"),
            ("sglang", (*SGLANG, *hisparse(5), "--speculative-algorithm", "DFLASH",
                        "--speculative-num-draft-tokens", "2"), "method"),
            ("sglang", (*SGLANG, *hisparse(100)), "index-out-of-memory"),
            ("vllm", ("--model", "glm-5.3", "-tp", "3"), "heads"),
            ("vllm", ("--model", "glm-5.3", "-tp", "6"), "heads"),
            ("vllm", ("--model", "glm-5.3", "-tp", "8", "-dcp", "3"), "context-parallel-size"),
            ("sglang", ("--model", "glm-5.3", "--tp", "12", "--dp", "2", "--enable-dp-attention"), "heads"),
            ("trtllm", ("--model", "glm-5.3", "--tp_size", "6"), "heads"),
            ("trtllm", ("--model", "glm-5.3", "--tp_size", "8", "--ep_size", "8", "--config",
                        '{"sparse_attention_config":{"enable_kv_cache_offload":true}}'),
             "not-implemented")):
        answer = asked(engine, *flags, status=1)
        assert rule in ids(answer), (flags, ids(answer), answer["faults"])
        assert answer["starts"] is False
        assert all(refused["source"] and refused["says"] for refused in answer["refused"])


def a_context_that_no_flag_bounds_is_the_models_own(_):
    """vLLM starts only where one request of max_model_len fits (#19407), and takes what fits for auto
    (#29431). POOL is that of GLM-5.3 by vLLM's calculator; a token takes 1,280 pages of 64 tokens' worth."""
    flags = ("--model", "zai-org/GLM-5.3-FP8", "-tp", "8")
    none = asked("vllm", *flags, status=1)
    assert ids(none) == ["longest-context"] and "1048576" in none["refused"][0]["says"], none["refused"]
    most = none["facts"]["longest_fits"]
    assert none["facts"]["max_tokens"] == 1048576 and most % 64 == 0
    assert str(int(most)) in none["refused"][0]["says"] and str(int(most)) in none["refused"][0]["instead"]
    assert [size["tokens"] for size in none["sizes"]["sizes"]] == [32768, 81920, 131072, 1048576]
    assert abs(none["engine_says_concurrency"] - most / 1048576) < 1e-3, none["engine_says_concurrency"]
    assert any("1048576 tokens" in note for note in none["assumed"]), none["assumed"]
    # As its own figure is of 81,920 tokens: 4.68 of them.
    four = asked("vllm", *flags, "--max-model-len", "81920", options=("--tokens", "32768"))
    assert abs(four["engine_says_concurrency"] - most / 81920) < 0.01, four["engine_says_concurrency"]
    assert "for 81920 tokens" in succeeds("check", "--engine", "vllm", "--tokens", "32768", "--", *flags,
                                          "--max-model-len", "81920")
    for length, status in ((most, 0), (most + 1, 1)):
        answer = asked("vllm", *flags, "--max-model-len", str(int(length)), status=status)
        assert ids(answer) == ["longest-context"][:status] and answer["starts"] is (status == 0), length
    for spelled in (("--max-model-len", "auto"), ("--max-model-len", "-1"), ("--max-model-len=-1",)):
        answer = asked("vllm", *flags, *spelled)
        assert answer["facts"]["max_tokens"] == most and answer["sizes"]["sizes"][-1]["tokens"] == most
        assert running(answer, most) == 1 and round(answer["engine_says_concurrency"], 2) == 1, spelled
    small = asked("vllm", "--model", "meta-llama/Llama-3.1-8B-Instruct")
    assert small["facts"]["max_tokens"] == 131072 and small["starts"] and ids(small) == []
    # The host pool is to hold the longest request as well.
    hot = asked("vllm", *flags, "--kv-transfer-config", HISPARSE.replace("384", "32"), status=1)
    assert set(ids(hot)) == {"longest-context", "host-pool-too-small"}, ids(hot)


def what_nothing_here_can_size_is_not_what_the_engine_refuses(_):
    for engine, flags, word in (("vllm", ("--model", "deepseek-ai/DeepSeek-V4-Flash", "-tp", "4"), "no layout of vllm"),
                                ("sglang", ("--model", "deepseek-ai/DeepSeek-V4-Flash", "--tp", "4"), "no layout"),
                                ("trtllm", ("--model", "deepseek-ai/DeepSeek-V4.1-Flash", "--tp_size", "4"), "no layout")):
        for form in ((), ("--json",), ("--print",)):
            done = kvtide("check", "--engine", engine, *form, "--", *flags)
            assert done.returncode == 2 and done.stdout == "", (flags, form, done.returncode, done.stdout)
            assert "is not known here: it cannot be sized" in done.stderr and word in done.stderr, done.stderr
    # What a rule refuses is refused all the same.
    assert "compressed-rows" in ids(asked("vllm", "--model", "deepseek-v4-flash", "-tp", "8", *HOT, status=1))


def what_stands_before_a_command_and_bare_fractions_are_taken(_):
    plain = asked("vllm", *VLLM, "--gpu-memory-utilization", "0.9")
    for words in (("VLLM_USE_V1=1", "vllm", "serve"), ("env", "CUDA_VISIBLE_DEVICES=0,1", "vllm", "serve")):
        answer = asked("vllm", *words, *VLLM, "--gpu-memory-utilization", ".9")
        assert answer["facts"] == plain["facts"], words
        assert answer["not_considered"] == [word for word in words if "=" in word], answer["not_considered"]
    for bad in (".", "..9", "-.9", ".9.1"):
        assert "--gpu-memory-utilization: found" in refuses(
            2, "check", "--engine", "vllm", "--", *VLLM, "--gpu-memory-utilization=" + bad), bad


def the_least_hot_cache_of_a_round_is_queries_times_top_k(_):
    for drafts, least in ((1, 4096), (3, 8192), (5, 12288)):
        spec = ("--speculative-config", json.dumps({"method": "mtp", "num_speculative_tokens": drafts}))
        for hot, status in ((least, 0), (least - 1, 1)):
            flags = (*VLLM, "--attention-config",
                     json.dumps({"hisparse_config": {"device_buffer_size": hot}}), *HOT[2:], *spec)
            answer = asked("vllm", *flags, status=status)
            assert ("hot-too-small" in ids(answer)) == (status == 1), (drafts, hot, ids(answer))
        # By default one more.
        assert asked("vllm", *VLLM, *HOT[2:], *spec)["facts"]["hot_tokens"] == least + 2048


def flags_that_nobody_knows_are_counted_and_do_not_end_it(_):
    answer = asked("vllm", *VLLM, *HOT, "--frobnicate", "3", "--calibrate", "--trust-remote-code",
                   "--port", "8000", "--compilation-config", '{"level":3}')
    assert answer["not_considered"] == ["--frobnicate 3", "--calibrate",
                                        "--compilation-config: level = 3"], answer["not_considered"]
    said = succeeds("check", "--engine", "vllm", "--", *VLLM, "--frobnicate", "3")
    assert "1 flag" in said and "--frobnicate 3" in said, said


def a_word_that_is_not_known_of_a_flag_is_told(_):
    for engine, flags, told in (
            ("vllm", ("--kv-cache-dtype", "nvfp4"), "--kv-cache-dtype nvfp4: known here are bfloat16, fp8"),
            ("sglang", ("--disaggregation-mode", "both"), "--disaggregation-mode both: known here are null")):
        length = ("--max-model-len", "auto") if engine == "vllm" else ()
        answer = asked(engine, "--model", "glm-5.3", "-tp" if engine == "vllm" else "--tp", "8", *length, *flags)
        assert any(line.startswith(told) for line in answer["not_considered"]), answer["not_considered"]
    known = asked("vllm", "--model", "glm-5.3", "-tp", "8", "--max-model-len", "auto", "--kv-cache-dtype", "fp8")
    assert known["not_considered"] == [], known["not_considered"]


def spellings_of_a_flag_are_one_flag(_):
    first = asked("vllm", *VLLM, *HOT)
    other = asked("vllm", "vllm", "serve", "zai-org/GLM-5.3-FP8", "-tp=8", "-ep", "--max_model_len=80K",
                  "--attention-config.hisparse_config.device_buffer_size", "4096",
                  "--kv-transfer-config", json.dumps({
                      "kv_connector": "MultiConnector", "kv_role": "kv_both",
                      "kv_connector_extra_config": {"connectors": [json.loads(HISPARSE)]}}))
    assert other["facts"] == first["facts"], (first["facts"], other["facts"])
    assert other["not_considered"] == ["--kv-transfer-config: kv_connector = MultiConnector"]


def malformed_values_are_malformed_questions(folder):
    for flags, words in (
            (("--max-num-seqs", "many"), 'found "many", expected a whole number from 1 on'),
            (("--max-num-seqs", "-3"), 'found "-3", expected a whole number from 1 on'),
            (("--max-num-seqs", "1e400"), "--max-num-seqs: found"),
            (("--tensor-parallel-size", "9" * 20), "expected a whole number from 1 to 1024"),
            (("--max-model-len", "1e30"), '--max-model-len: found "1e30", expected a whole number from 2 to '
                                          '9007199254740992'),
            (("--max-model-len", "1"), '--max-model-len: found "1", expected a whole number from 2 on'),
            (("--kv-transfer-config", '{"kv_connector_extra_config":{"host_pool_gib":1e30}}'),
             "expected a number from 0 to 1000000000"),
            (("--attention-config", "/nowhere/at/all.json"), "--attention-config: /nowhere/at/all.json: "),
            (("--config", "/nowhere/at/all.yaml"), "--config: /nowhere/at/all.yaml: "),
            (("--config",), "a value is expected"),
            (("--config", "/"), "--config: /: "),
            (("--max-num-seqs",), "a value is expected"),
            (("--enable-expert-parallel=1",), "takes no value"),
            (("--attention-config", '{"a":'), "--attention-config"),
            (("--attention-config", "fast"), "expected JSON"),
            (("--tensor-parallel-size", "0"), "--tensor-parallel-size: found \"0\", expected a whole number"
                                              " from 1 to 1024"),
            (("-tp", "8.5"), "-tp: found \"8.5\""),
            (("--gpu-memory-utilization", "1.7"),
             '--gpu-memory-utilization: found "1.7", expected a number from 0.01 to 1'),
            (("--gpu-memory-utilization", "0"), "from 0.01 to 1"),
            (("--max-num-seqs", "0"), "from 1 on"),
            (("--max-model-len", "1.5"), "a whole number from 2 on"),
            (("--block-size", "0"), "--block-size"),
            (("--num-gpu-blocks-override", "2.5"), "--num-gpu-blocks-override"),
            (("--speculative-config", '{"method":"mtp","num_speculative_tokens":300}'),
             'num_speculative_tokens: found "300", expected a whole number from 0 to 31'),
            (("--kv-transfer-config", '{"kv_connector_extra_config":{"host_pool_gib":"much"}}'), "much")):
        assert words in refuses(2, "check", "--engine", "vllm", "--", "--model", "glm-5.3", *flags), flags
    for arguments, words in (
            (("--engine", "sglang", "--", "--model", "glm-5.3", "--mem-fraction-static", "1.7"),
             "--mem-fraction-static: found"),
            (("--engine", "sglang", "--", "--model", "glm-5.3", "--tp", "8", "--ep", "3"),
             "expert parallelism of 3 does not divide the 8 GPUs"),
            (("--engine", "trtllm", "--", "--model", "glm-5.3", "--config",
              '{"kv_cache_config":{"free_gpu_memory_fraction":1.7}}'),
             'kv_cache_config.free_gpu_memory_fraction: found "1.7"'),
            (("--engine", "vllm"), "no model"),
            (("--engine", "vllm", "--", "--model", "zai-org/GLM-5.3-Flash"), "no such model"),
            (("--engine", "vllm", "--", "--model", "gpt-9"), "there are: deepseek"),
            (("--engine", "ideal", "--", "--model", "glm-5.3"), "is no engine"),
            (("--engine", "llama.cpp", "--", "--model", "glm-5.3"), "vllm-2026-09"),
            (("--engine", "vllm", "--hardware", "abacus", "--", "--model", "glm-5.3"), "abacus"),
            (("--engine", "sglang", "--", "--model", "glm-5.3", "--context-length", "1e30"),
             "--context-length: found \"1e30\", expected a whole number from 2 to"),
            (("--engine", "sglang", "--", "--model", "glm-5.3", "--config", "/nowhere/at/all.yaml"),
             "--config: /nowhere/at/all.yaml: "),
            (("--engine", "trtllm", "--", "glm-5.3", "--tp_size", "8", "--config", "/nowhere/at/all"),
             "--config: /nowhere/at/all: "),
            (("--engine", "vllm", "--tokens", "x", "--", "--model", "glm-5.3"), "--tokens"),
            (("--hardware", "h200", "x"), "go with --engine"),
            (("quickstart", "--engine", "vllm", "--export", "yaml"), 'expected "flags"'),
            (("--engine", "vllm", "--schema"), "questions of their own")):
        assert words in refuses(2, "check", *arguments), arguments
    # What is no context of the model is no question, and takes no good length along.
    for tokens, found in (("0", "0"), ("1", "1"), ("99999999", "99999999"), ("99999999999", "99999999999"),
                          ("0,81920", "0"), ("81920,1048577", "1048577")):
        said = refuses(2, "check", "--engine", "vllm", "--tokens", tokens, "--", "--model", "glm-5.3", "-tp", "8")
        assert "check --tokens: found %s, expected 2 " % found in said and "to 1048576" in said, said
    for tokens in ("2", "1048576"):
        answer = asked("vllm", "--model", "glm-5.3", "-tp", "8", "--max-model-len", "auto",
                       options=("--tokens", tokens), status=1 if tokens != "2" else 0)
        assert answer["sizes"]["sizes"][0]["tokens"] == int(tokens)
    assert asked("vllm", "--model", "glm-5.3", "-tp", "8", "--max-model-len", "2")["starts"]
    config = folder / "config.yaml"
    config.write_text("kv_cache_config:\n  free_gpu_memory_fraction: 0.8\n", encoding="utf-8")
    answer = asked("trtllm", "glm-5.3", "--tp_size", "8", "--ep_size", "8", "--config", config)
    assert len(answer["not_considered"]) == 1 and "can be given as JSON" in answer["not_considered"][0]
    for engine in ("vllm", "sglang"):
        answer = asked(engine, "--model", "glm-5.3", "--tensor-parallel-size", "8", "--config", config,
                       status=1 if engine == "vllm" else 0)  # vLLM: 1,048,576 tokens do not fit
        assert answer["not_considered"] == ["--config %s (not read: its flags can be given)" % config], answer
    config.write_text('{"kv_cache_config":{"free_gpu_memory_fraction":0.8}}', encoding="utf-8")
    answer = asked("trtllm", "glm-5.3", "--tp_size", "8", "--ep_size", "8", "--config", config)
    assert answer["not_considered"] == [] and answer["facts"]["memory_fraction"] == 0.8


def weights_that_do_not_fit_are_an_answer_of_no(_):
    answer = asked("vllm", "--model", "glm-5.3", "-tp", "2", status=1)
    assert answer["memory"]["weights_fit"] is False and answer["starts"] is False


def a_pool_that_a_flag_states_is_what_counts(_):
    answer = asked("vllm", *VLLM, *HOT, "--num-gpu-blocks-override", "26001")
    assert answer["memory"]["blocks"] == 26001 and running(answer) == 26001 // 2600, answer["memory"]
    answer = asked("vllm", *VLLM, "--kv-cache-memory-bytes", str(3 * 1280 * 3052800 + 1))
    assert running(answer) == 3
    answer = asked("vllm", *VLLM, *HOT, "--num-gpu-blocks-override", "900000", status=1)
    assert "runs out of memory" in answer["faults"][0], answer["faults"]


def parallelism_is_read_as_each_engine_has_it(_):
    for engine, flags, expected in (
            ("vllm", ("--model", "glm-5.3", "-dp", "8", "-ep"), (8, 1, 8, 8)),
            ("sglang", ("--model", "glm-5.3", "--tp-size", "8", "--dp-size", "4", "--enable-dp-attention"),
             (8, 2, 4, 8)),
            ("sglang", ("--model", "glm-5.3", "--tp-size", "8", "--ep-size", "8"), (8, 8, 1, 8)),
            ("trtllm", ("glm-5.3", "--tp_size", "8", "--ep_size", "8", "--enable_attention_dp"),
             (8, 1, 8, 8))):
        facts = asked(engine, *flags, options=("--hardware", "b300", "--tokens", "32768"))["facts"]
        assert tuple(facts[key] for key in ("gpus", "tp", "dp", "ep")) == expected, (flags, facts)


# --- Scenarios and back ---------------------------------------------------------------------------


def what_is_printed_is_a_scenario_that_runs(folder):
    for engine, flags in (("vllm", (*VLLM, *HOT)), ("vllm", VLLM), ("sglang", (*SGLANG, *hisparse(11)))):
        printed = succeeds("check", "--engine", engine, "--tokens", "47104", "--print", "--", *flags)
        (folder / "start.json").write_text(printed, encoding="utf-8")
        succeeds("check", "./start.json", cwd=folder)
        size = json.loads(succeeds("size", "./start.json", "--engine", engine, "--tokens", "47104", "--json",
                                   cwd=folder))
        answer = asked(engine, *flags, options=("--tokens", "47104"))
        assert size["running"] == running(answer), (flags, size["running"])
    result = json.loads(succeeds("run", "./start.json", "--fidelity", "analytic", "--quiet", "--json",
                                 cwd=folder))
    assert result["metrics"]["output_throughput"] > 0


def flags_of_a_scenario_come_back_as_the_scenario(_):
    for engine, scenario, sets in (
            ("vllm", "agentic-74k", ()),
            ("vllm", "vllm-calculator", ("--set", "residency.policy=vllm-hybrid")),
            ("vllm", "vllm-calculator", ("--set", "residency=resident")),
            ("sglang", "glm-5.3-100k", ("--set", "residency=hisparse", "--set", "model.payload.capacity_bytes=656",
                                        "--set", "model.payload.wire_bytes=704"))):
        lines = succeeds("check", scenario, "--engine", engine, "--export", "flags", *sets)
        flags = shlex.split(lines)
        hardware = "b300" if scenario == "glm-5.3-100k" else "h200"
        facts = asked(engine, *flags, options=("--hardware", hardware, "--tokens", "81920"))
        assert facts["not_considered"] == [], facts["not_considered"]
        assert facts["refused"] == [], facts["refused"]
        own = json.loads(succeeds("size", scenario, "--engine", engine, "--tokens", "81920", "--json", *sets))
        mine = facts["sizes"]["sizes"][0]
        if engine == "vllm":
            assert mine["running"] == own["running"], (scenario, mine["running"], own["running"])
        assert mine["session_hbm_bytes"] == own["session_hbm_bytes"], (scenario, sets)


def no_engine_runs_adaptive_with_dflash2_and_the_nearest_is_named(_):
    for engine, rules in (("vllm", {"policy", "staging", "hierarchy-method"}),
                          ("sglang", {"policy", "staging", "method"}),
                          ("trtllm", {"policy", "not-implemented", "method"})):
        done = kvtide("check", "quickstart", "--set", "speculation=dflash2", "--engine", engine,
                      "--export", "flags", "--json")
        assert done.returncode == 1, done.stderr
        answer = json.loads(done.stdout)
        found = {obstacle["id"] for obstacle in answer["obstacles"]}
        assert rules <= found, (engine, found)
        assert answer["runs"] is False and answer["nearest"] == "vllm-2026-09", answer["nearest"]
        counts = {entry["engine"]: entry["obstacles"] for entry in answer["engines"]}
        assert counts["vllm-2026-09"] == min(counts.values()) == 3, counts
    done = kvtide("check", "quickstart", "--set", "speculation=dflash2", "--engine", "vllm", "--export", "flags")
    assert "no public engine runs it" in done.stdout and "given up" in done.stdout, done.stdout


# --- Logs -----------------------------------------------------------------------------------------

LOGS = TOP / "tests/unit/data/engine"


def logged(name, *options, status=0, flags=()):
    done = kvtide("size", "--from-log", LOGS / name, "--json", *options, "--", *flags)
    assert done.returncode == status, (name, done.returncode, done.stderr)
    return json.loads(done.stdout)


def a_vllm_log_gives_its_pool_and_its_figure_beside_ours(_):
    """100,194 blocks; 2,600 a request: 38.5, and one window of 128 x 20 blocks less as it says."""
    answer = logged("vllm-hisparse.log")
    assert answer["engine"] == "vllm-2026-09" and answer["log"]["log_blocks"] == 100194
    assert abs(answer["computed"] - 100194 / 2600) < 1e-9, answer["computed"]
    assert abs(answer["engine_says"] - 37.53) < 1e-9
    assert answer["sizes"]["running"] == 38
    assert "window" in answer["difference"], answer["difference"]
    assert abs(answer["expected_pool_gib"] - POOL / GIB) < 1e-6
    assert answer["host_gib_per_node"] == 384


def a_vllm_log_without_a_hierarchy_says_what_we_say(_):
    answer = logged("vllm-resident.log")
    assert answer["sizes"]["running"] == 4 and answer["engine_says"] == 4.89, answer
    assert "before it is rounded down" in answer["difference"], answer["difference"]
    # What the node has is no figure of a start that pins nothing there.
    assert answer["host_gib_per_node"] is None
    assert "host DRAM for rows" not in succeeds("size", "--from-log", LOGS / "vllm-resident.log")
    assert "host DRAM for rows" in succeeds("size", "--from-log", LOGS / "vllm-hisparse.log")


def an_sglang_log_shows_which_ratio_is_in_force(_):
    answer = logged("sglang-23704.log", "--tokens", "47104,64512")
    runs = [size["running"] for size in answer["sizes"]["sizes"]]
    assert runs == [245760 // 47104, 245760 // 64512] == [5, 3], runs
    assert answer["sizes"]["limited_by"] == "host_dram", answer["sizes"]["limited_by"]
    assert abs(answer["host_ratio"] - 5) < 0.01, answer["host_ratio"]
    assert "11 was asked for" in answer["difference"], answer["difference"]


def a_tensorrt_llm_log_gives_its_tokens(_):
    answer = logged("trtllm.log", "--tokens", "32768", flags=("--model", "glm-5.3", "--tp_size", "8",
                                                              "--ep_size", "8"))
    assert answer["engine"] == "trtllm-2026-09" and answer["log"]["log_tokens"] == 220480
    assert answer["sizes"]["running"] == 220480 // 32768 == 6


def a_log_of_nothing_known_is_refused_with_what_was_looked_for(folder):
    (folder / "other.log").write_text("hello\nworld\n", encoding="utf-8")
    said = refuses(2, "size", "--from-log", "other.log", cwd=folder)
    assert "GPU KV cache size" in said and "max_total_num_tokens=" in said, said
    (folder / "empty.log").write_text("", encoding="utf-8")
    refuses(2, "size", "--from-log", "empty.log", cwd=folder)
    (folder / "nul.log").write_bytes(b"GPU KV cache size: 5 tokens\0")
    assert "NUL" in refuses(2, "size", "--from-log", "nul.log", cwd=folder)
    refuses(2, "size", "--from-log", "missing.log", cwd=folder)
    (folder / "bare.log").write_text("GPU KV cache size: 400,704 tokens\n", encoding="utf-8")
    assert "--model NAME" in refuses(2, "size", "--from-log", "bare.log", cwd=folder)
    assert "arguments given" in refuses(2, "size")
    for text in ("server_args=ServerArgs(model_path='glm-5', tp_size=[[[[)\nmax_total_num_tokens=4096, chunked_prefill_size=1\n",
                 "non-default args: {'model': 'glm-5.3', 'x': <a, 'y':\nGPU KV cache size: 64 tokens\n"):
        (folder / "torn.log").write_text(text, encoding="utf-8")
        assert kvtide("size", "--from-log", "torn.log", cwd=folder).returncode == 2
        assert kvtide("size", "--from-log", "torn.log", "--", "--model", "glm-5.3", cwd=folder).returncode < 2


def a_log_with_a_number_that_none_can_be_is_refused_with_its_line(folder):
    whole = (LOGS / "vllm-resident.log").read_text(encoding="utf-8")
    for given, found in (("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("NaN", "nan"), ("-3.52", "-3.52")):
        (folder / "odd.log").write_text(whole.replace("17.80 GiB", given + " GiB"), encoding="utf-8")
        said = refuses(2, "size", "--from-log", "odd.log", cwd=folder)
        assert "odd.log:3: found %s, expected a number from 0 on" % found in said, said
    (folder / "odd.log").write_text(whole.replace("for 81,920 tokens", "for 1 tokens"), encoding="utf-8")
    assert "longest context of 1 tokens" in refuses(2, "size", "--from-log", "odd.log", cwd=folder)
    said = refuses(2, "size", "--from-log", LOGS / "vllm-resident.log", "--tokens", "0")
    assert "size --tokens: found 0, expected 2 " in said, said
    # A log that does not say what the pool got says nothing of it.
    (folder / "less.log").write_text("\n".join(whole.split("\n")[:2]) + "\n", encoding="utf-8")
    said = succeeds("size", "--from-log", "less.log", cwd=folder)
    assert said.split("KV pool")[1].split("\n")[0].split() == ["17.85", "-"], said
    answer = json.loads(succeeds("size", "--from-log", "less.log", "--json", cwd=folder))
    assert answer["got_pool_gib"] is None, answer


def lists_and_files_know_engines(folder):
    names = [entry["name"] for entry in json.loads(succeeds("list", "engines", "--json"))["engines"]]
    assert names == ["ideal", "sglang-2026-09", "trtllm-2026-09", "vllm-2026-09"], names
    assert "graphs-full" in succeeds("list", "engines", "-v")
    for name in names[1:]:
        assert "ok (engine)" in succeeds("check", TOP / "models/engine" / (name + ".json"))
    shipped = json.loads((TOP / "models/engine/vllm-2026-09.json").read_text(encoding="utf-8"))
    shipped["memory"]["fraction"] = 0.5
    (folder / "mine.json").write_text(json.dumps(shipped), encoding="utf-8")
    done = kvtide("check", "--engine", "./mine.json", "--json", "--", *VLLM, cwd=folder)
    assert json.loads(done.stdout)["memory"]["pool_gib"] < POOL / GIB and done.returncode == 1


CASES = (
    vllms_calculator_says_39_and_4_from_flags_alone,
    a_ratio_of_11_holds_seven_requests_of_63k_and_one_of_5_does_not,
    a_device_pool_of_226000_tokens_runs_6_without_and_54_with_a_device_buffer,
    what_an_engine_would_not_start_with_is_refused_by_name,
    a_context_that_no_flag_bounds_is_the_models_own,
    what_nothing_here_can_size_is_not_what_the_engine_refuses,
    what_stands_before_a_command_and_bare_fractions_are_taken,
    the_least_hot_cache_of_a_round_is_queries_times_top_k,
    flags_that_nobody_knows_are_counted_and_do_not_end_it,
    a_word_that_is_not_known_of_a_flag_is_told,
    spellings_of_a_flag_are_one_flag,
    malformed_values_are_malformed_questions,
    weights_that_do_not_fit_are_an_answer_of_no,
    a_pool_that_a_flag_states_is_what_counts,
    parallelism_is_read_as_each_engine_has_it,
    what_is_printed_is_a_scenario_that_runs,
    flags_of_a_scenario_come_back_as_the_scenario,
    no_engine_runs_adaptive_with_dflash2_and_the_nearest_is_named,
    a_vllm_log_gives_its_pool_and_its_figure_beside_ours,
    a_vllm_log_without_a_hierarchy_says_what_we_say,
    an_sglang_log_shows_which_ratio_is_in_force,
    a_tensorrt_llm_log_gives_its_tokens,
    a_log_of_nothing_known_is_refused_with_what_was_looked_for,
    a_log_with_a_number_that_none_can_be_is_refused_with_its_line,
    lists_and_files_know_engines,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
