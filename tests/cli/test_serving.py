"""Whole runs at the edges of memory and time: who comes back, what fits, what an interval may change."""
import json
import sys

import support
from support import succeeds

# One tensor-parallel rank whose pool holds little, with a reserve beside it; everything resident.
TIGHT = ("hardware=b300", "cluster.decode.gpus=8", "cluster.decode.tp=8", "cluster.decode.dp=1",
         "cluster.decode.ep=8", "cluster.decode.lockstep=false",
         "cluster.decode.pools.unified_gib=1", "cluster.decode.growth_reserve_gib=0.4",
         "residency=resident")
PLAIN = ("timing=roofline", "cluster.import=rate")


def run(folder, rows, *settings):
    (folder / "t.csv").write_text("arrival_s,input_tokens,output_tokens\n" + rows, encoding="utf-8")
    sets = [word for setting in (*PLAIN, "workload.trace.path=%s" % (folder / "t.csv"), *settings)
            for word in ("--set", setting)]
    return json.loads(succeeds("run", "glm-5.3-100k", "--json", "--quiet", *sets))


def whoever_was_put_aside_grown_past_the_pool_comes_back(folder):
    """Of 22,510 rows in the pool and 9,004 in the reserve one request takes 25,999 in the end."""
    result = run(folder, "0,2000,8000\n0.001,20000,6000\n", *TIGHT)
    assert result["metrics"]["preemptions"] >= 1, result["metrics"]["preemptions"]
    assert result["requests"]["completed"] == 2, result["requests"]


def growth_may_begin_in_the_reserve_and_end_in_the_pool(folder):
    """10,999 rows of growth: more than the reserve holds, and less than it and the pool have left."""
    result = run(folder, "0,20000,11000\n", *TIGHT)
    assert result["requests"]["completed"] == 1, result["requests"]
    result = run(folder, "0,20000,11600\n0,100,2\n", *TIGHT)
    assert result["requests"]["dropped"]["unservable"] == 1, result["requests"]


def hot_caches_end_where_the_model_does(folder):
    result = run(folder, "0,2000,3000\n0,19000,10\n", "residency.hot_tokens=1000000",
                 'model={"base":"glm-5.3","max_position_tokens":20000}')
    assert result["requests"]["completed"] == 2, result["requests"]


def what_a_phase_is_told_of_does_not_depend_on_the_interval(folder):
    phases = [{"concurrency": c, "seconds": 0.25} for c in (2, 5, 2)]
    workload = {"arrival": "phases", "phases": phases, "lengths": support.TINY["workload"]["lengths"]}
    told = []
    for interval_s in (0.05, 0.4, 10):
        path = support.tiny(folder, changes={"workload": workload, "run.interval_s": interval_s})
        result = json.loads(succeeds("run", path, "--json", "--quiet"))
        told.append([(phase["from_s"], phase["to_s"], phase["metrics"]["active_mean"],
                      phase["metrics"]["total_output_tokens"]) for phase in result["phases"]])
        told[-1].append((result["decision_hash"], result["metrics"]["coverage_mean"]))
    assert told[0] == told[1] == told[2], told
    assert [span[:2] for span in told[0][:3]] == [(0, 0.25), (0.25, 0.5), (0.5, 0.75)], told[0]


def each_request_is_accepted_as_its_task_is(folder):
    """Four queries a round: "code" commits them all, "default" the anchor alone."""
    table = folder / "two.json"
    table.write_text(json.dumps({
        "schema": "kvtide/acceptance/1", "name": "two", "summary": "all or nothing",
        "tasks": {"default": [0], "code": [1]}, "sources": {"tasks": "by hand"}}), encoding="utf-8")
    rows = ("0,4096,81,code", "0,4096,11,", "0,4096,11,default")
    chosen = ("residency=resident", "speculation.method=mtp", "speculation.drafts=3",
              "speculation.acceptance=%s" % table)
    # 80 tokens in 20 rounds; 10 in 10, twice. Out of order: the rows are sorted first.
    # With workload.task=code the second takes three rounds.
    for order, more, rounds in (((0, 1, 2), (), 40), ((2, 1, 0), (), 40),
                                ((0, 1, 2), ("workload.task=code",), 33)):
        text = "".join("%d%s\n" % (order[i], row[1:]) for i, row in enumerate(rows))
        (folder / "t.csv").write_text("arrival_s,input_tokens,output_tokens,task\n" + text,
                                      encoding="utf-8")
        sets = [word for setting in (*PLAIN, *chosen, *more,
                                     "workload.trace.path=%s" % (folder / "t.csv"))
                for word in ("--set", setting)]
        result = json.loads(succeeds("run", "glm-5.3-100k", "--json", "--quiet", *sets))
        assert result["metrics"]["tokens_per_round"] == 100 / rounds, (order, result["metrics"])
    (folder / "t.csv").write_text("arrival_s,input_tokens,output_tokens,task\n0,9,9,\n1,9,9,cod\n",
                                  encoding="utf-8")
    done = support.kvtide("run", "glm-5.3-100k", *sets)
    assert done.returncode == 2 and done.stderr.endswith(
        't.csv:3:4: task "cod" is not in the table of speculation.acceptance; there are: code, '
        'default\n'), done.stderr


def nobody_served_is_an_answer_of_no(folder):
    path = support.tiny(folder, changes={"cluster.decode.pools.unified_gib": 0.001})
    done = support.kvtide("run", path, "--quiet")
    assert done.returncode == 1 and "not one was completed" in done.stderr, done


CASES = (
    whoever_was_put_aside_grown_past_the_pool_comes_back,
    growth_may_begin_in_the_reserve_and_end_in_the_pool,
    hot_caches_end_where_the_model_does,
    what_a_phase_is_told_of_does_not_depend_on_the_interval,
    each_request_is_accepted_as_its_task_is,
    nobody_served_is_an_answer_of_no,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
