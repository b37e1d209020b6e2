"""agentic-74k: where plain offload collapses, as measured on 8 H200, and the hierarchical policies do not."""
import json
import sys

import support
from support import succeeds

# The least that is followed row by row: what is counted here hangs on memory and on time.
FEW = ("run.sample_requests=1", "run.sample_stores=1", "selection.tapes=1",
       "selection.steps=256")
# Plain offload as that engine has it: 512 GiB, a copy for each of the eight ranks.
OFFLOAD = ("residency=prefix-offload", "cluster.decode.host_dram_gib_per_node=512",
           "cluster.decode.index_offload_gib_per_node=0", "cluster.decode.host_pool=per_rank")


def tokens_per_s(concurrency, *settings):
    words = ("workload.concurrency=%d" % concurrency,
             "workload.conversations=%d" % (2 * concurrency), *settings)
    sets = [word for setting in words for word in ("--set", setting)]
    result = json.loads(succeeds("run", "agentic-74k", "--json", "--quiet", *sets))
    assert result["requests"]["completed"] == 26 * concurrency, result["requests"]
    return result["metrics"]["total_token_throughput"]


def its_page_is_what_vllm_was_seen_to_write(_):
    """59,763,793,920 B of 138,615 tokens: 541 blocks of four pages, a copy for each of eight ranks."""
    size = json.loads(succeeds("size", "agentic-74k", "--engine", "vllm", "--json",
                               "--set", "residency=resident", "--tokens", "138496"))
    assert size["sizes"][0]["session_hbm_bytes"] * 8 == 59763793920, size["sizes"]


def plain_offload_collapses_at_sixteen_conversations(_):
    at_8, at_16, at_24 = (tokens_per_s(c, *OFFLOAD) for c in (8, 16, 24))
    assert at_16 < 0.7 * at_8, (at_8, at_16)
    assert at_24 < 0.2 * at_8, (at_8, at_24)


def the_hierarchical_policies_do_not(_):
    for policy in ("vllm-hybrid", "hisparse", "adaptive"):
        chosen = (*FEW, "residency.policy=" + policy, "residency.hot_tokens=4096")
        at_8, at_16 = (tokens_per_s(c, *chosen) for c in (8, 16))
        assert at_16 > at_8, (policy, at_8, at_16)


def the_scenario_in_force_names_its_sources(_):
    printed = succeeds("check", "agentic-74k", "--print")
    line = [line for line in printed.splitlines() if line.startswith("model.sources.payload ")]
    assert len(line) == 1 and "FlashMLA" in line[0], line


CASES = (
    its_page_is_what_vllm_was_seen_to_write,
    plain_offload_collapses_at_sixteen_conversations,
    the_hierarchical_policies_do_not,
    the_scenario_in_force_names_its_sources,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
