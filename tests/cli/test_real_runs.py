"""Real traces through whole runs: everything that was read is accounted for, to the last request.

The files lie beside the checkout (or in $KVT_TRACES) and are only read there; a case whose file
is absent is skipped, by name. Requests, rows and spans were counted with other tools.
"""
import json
import os
import pathlib
import sys

import support
from support import Skip, succeeds

TRACES = pathlib.Path(os.environ.get("KVT_TRACES", support.TOP.parent / "shared" / "traces"))
# Data-sheet times and plain imports: the fitted constants hold at 100K tokens only.
SETTINGS = ("timing=roofline", "cluster.import=rate")


def run(name, *settings):
    path = TRACES / name
    if not path.is_file():
        raise Skip("no %s beside the checkout" % name)
    sets = [word for setting in (*SETTINGS, "workload.trace.path=%s" % path, *settings)
            for word in ("--set", setting)]
    return json.loads(succeeds("run", "glm-5.3-100k", "--json", "--quiet", *sets, timeout=1500))


def check(result, rows, used, requests):
    trace, counted = result["trace"], result["requests"]
    assert (trace["rows_read"], trace["used"]) == (rows, used), trace
    assert rows == used + sum(trace["dropped"].values()), trace
    assert counted["arrived"] == requests, counted
    assert counted["completed"] + counted["dropped"]["unservable"] == requests, counted
    followed = result["rows_followed"]
    found = sum(followed[name] for name in ("tail", "optional", "hot", "missed"))
    assert followed["selected"] == found > 0, followed


def azure_2023_runs_to_its_last_request(_):
    check(run("azure2023/AzureLLMInferenceTrace_code.csv"), 8819, 8819, 8819)


def llmservingsim_runs_to_its_last_request(_):
    result = run("llmservingsim/RTX4090_Llama-3.1-8B/requests.jsonl")
    check(result, 300, 300, 300)


def mooncake_accounts_for_every_row_of_its_first_ten_minutes(_):
    """README has the command for all of it; here the rest is `outside_window`."""
    result = run("mooncake/conversation_trace.jsonl", "workload.window=0:600")
    used = result["trace"]["used"]
    assert result["trace"]["dropped"]["outside_window"] == 12031 - used, result["trace"]
    check(result, 12031, used, used)


def servegen_runs_the_requests_of_its_windows(_):
    """Of two weeks of windows few have requests; here the first quarter of an hour that has."""
    result = run("servegen/m-small_chunk-10-trace.csv", "workload.window=0:900")
    trace = result["trace"]
    assert trace["rows_read"] == 2016 and trace["dropped"]["idle"] > 1900, trace
    assert trace["rows_read"] == trace["used"] + sum(trace["dropped"].values()), trace
    assert result["requests"]["arrived"] == result["requests"]["completed"] > 0


CASES = (
    azure_2023_runs_to_its_last_request,
    llmservingsim_runs_to_its_last_request,
    mooncake_accounts_for_every_row_of_its_first_ten_minutes,
    servegen_runs_the_requests_of_its_windows,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
