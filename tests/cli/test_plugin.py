"""Plug-ins on the command line: built as a stranger builds them, listed, run, compared, checked; and
what is wrong with one is a sentence before anything runs."""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import support
from support import TOP, files_below, kvtide, refuses, succeeds, tiny

BROKEN = TOP / "tests" / "contract" / "broken"
EXAMPLE = TOP / "policies" / "example" / "hot_pages.c"
EXACT = {"run.fidelity": "exact", "workload.requests": 6, "workload.concurrency": 4,
         "workload.lengths.input": {"law": "fixed", "tokens": 4096}}

# Keeps its contract for contexts as long as the suite's, and lends the tail of longer ones.
LATE = '''
#include "residency.h"

static uint32_t boundary(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    if (view->request_count > 0 && view->requests[0].context_tokens > 12000) {
        actions[0] = (struct kvt_residency_action){KVT_RESIDENCY_RELEASE, view->requests[0].id,
                                                   view->requests[0].eligible_pages, 1};
        return 1;
    }
    return good_boundary(state, view, actions, capacity);
}

RESIDENCY("late", .boundary = boundary)
'''

# Ends the program, one way or another, in contexts longer than the suite's.
ENDING = '''
#include <stdlib.h>
#include "residency.h"

static uint32_t boundary(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    if (view->request_count > 0 && view->requests[0].context_tokens > 12000) {
        END;
    }
    return good_boundary(state, view, actions, capacity);
}

RESIDENCY("ending", .boundary = boundary)
'''
LONG = {**EXACT, "residency.policy": "ending", "cluster.decode.pools.unified_gib": 0.1,
        "workload.lengths.input": {"law": "fixed", "tokens": 13000}}

# Needs a parameter that has no default.
DEMANDING = '''
#include "replacement.h"

static const struct kvt_param_spec params[] = {{.name = "hand_slots",
                                                .help = "Slots that the hand goes at once.",
                                                .type = KVT_PARAM_COUNT,
                                                .minimum = 1,
                                                .maximum = 64}};

REPLACEMENT("demanding", .info.params = params, .info.param_count = 1)
'''

# Prints, and makes a process that does not end by itself; its id goes into a file.
NOISY = '''
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "choice.h"

static uint32_t route(void *state, uint32_t request, uint32_t input_tokens,
                      const struct kvt_router_rank *ranks, uint32_t rank_count)
{
    static int is_told;
    (void)state;
    (void)request;
    (void)input_tokens;
    (void)ranks;
    (void)rank_count;
    if (!is_told) {
        is_told = 1;
        puts("noise");
        fputs("noise", stderr);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        FILE *ids = fopen(getenv("NOISY_IDS"), "a");
        fprintf(ids, "%d\\n", (int)child);
        fclose(ids);
    }
    return 0;
}

ROUTER("noisy", route)
'''

# Keeps its contract where it is tried, and fails in a run: FAILURE.
FAILING = '''
#include "replacement.h"

static kvt_status init(void *state, const struct kvt_replacement_env *env, struct kvt_error *err)
{
    if (env->run_seed != 2385)
        return FAILURE;
    return good_init(state, env, err);
}

REPLACEMENT("failing", .init = init)
'''


def built(folder, source, name=None):
    """The shared object of a source file, or of text."""
    if isinstance(source, str):
        path = folder / (name + ".c")
        path.write_text(source, encoding="utf-8")
        source = path
    target = folder / (source.stem + ".so")
    command = shlex.split(os.environ.get("CC", "cc")) + [
        "-std=c17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
        "-I%s" % (TOP / "sim" / "include"), "-I%s" % BROKEN, "-o", str(target), str(source)]
    subprocess.run(command, check=True)
    return str(target)


def a_policy_of_a_plugin_is_listed_with_its_parameters(folder):
    said = succeeds("list", "policies", "-v", "--plugin", built(folder, EXAMPLE))
    assert "hot-pages" in said and "refill_gb_per_s" in said, said
    assert "hot-pages" not in succeeds("list", "policies")
    assert "hot-pages" in succeeds("list", "residency", "--plugin", built(folder, EXAMPLE))
    assert "hot-pages" not in succeeds("list", "replacement", "--plugin", built(folder, EXAMPLE))


def a_policy_of_a_plugin_runs_and_the_result_says_where_it_came_from(folder):
    plugin = built(folder, EXAMPLE)
    scenario = tiny(folder, changes={**EXACT, "residency.policy": "hot-pages"})
    out = folder / "out"
    succeeds("run", scenario, "--plugin", plugin, "--quiet", "--out", out)
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    (entry,) = result["plugins"]
    assert entry["path"] == plugin, entry
    assert len(entry["hash"]) == 16 and int(entry["hash"], 16) != 0, entry
    assert entry["tables"] == [{"kind": "residency", "name": "hot-pages"}], entry
    again = folder / "again"
    succeeds("run", scenario, "--plugin", plugin, "--quiet", "--out", again)
    assert (out / "result.json").read_bytes() == (again / "result.json").read_bytes()


def without_its_plugin_a_policy_is_unknown(folder):
    scenario = tiny(folder, changes={"residency.policy": "hot-pages"})
    said = refuses(2, "run", scenario, "--out", folder / "out")
    assert "no such residency policy" in said, said
    assert said.endswith("; --plugin FILE.so brings others"), said
    assert files_below(folder) == ["tiny.json"]


def a_policy_of_a_plugin_is_compared_and_its_decisions_validated(folder):
    plugin = built(folder, EXAMPLE)
    scenario = tiny(folder, changes=EXACT)
    said = json.loads(succeeds("compare", scenario + ",residency=hisparse",
                               scenario + ",residency=hot-pages", "--plugin", plugin, "--quiet",
                               "--json"))
    assert "hot-pages" in json.dumps(said)
    said = succeeds("validate", scenario, "--set", "residency.policy=hot-pages", "--backend", "sim",
                    "--plugin", plugin, "--quiet")
    assert "yes: the simulator decides as the simulator does" in said, said


def check_plays_every_table_of_a_plugin(folder):
    plugin = built(folder, EXAMPLE)
    lines = succeeds("check", plugin).splitlines()
    assert lines[0].startswith("%s: residency hot-pages: " % plugin), lines
    assert lines[0].endswith(" calls, contract kept"), lines
    assert lines[1] == "%s: ok (plug-in)" % plugin, lines
    (entry,) = json.loads(succeeds("check", plugin, "--json"))["files"]
    (table,) = entry["tables"]
    assert entry["ok"] and entry["kind"] == "plug-in", entry
    assert table["ok"] and table["kind"] == "residency" and table["calls"] >= 20000, table


def check_names_the_contract_that_is_broken(folder):
    plugin = built(folder, BROKEN / "victim_read.c")
    said = refuses(2, "check", plugin)
    assert said.startswith("kvtide: %s: replacement victim-read: choose_victims() " % plugin), said
    assert said.endswith("; contract: a slot that hit is never a victim"), said
    done = kvtide("check", plugin, "--json")
    (entry,) = json.loads(done.stdout)["files"]
    assert done.returncode == 2 and not entry["ok"] and not entry["tables"][0]["ok"], done.stdout
    assert "is never a victim" in entry["message"] and entry["where"] == plugin, entry


def lives(process):
    try:
        state = pathlib.Path("/proc/%d/stat" % process).read_text(encoding="utf-8")
    except OSError:
        return False
    return state.rsplit(")", 1)[1].split()[0] not in "ZX"


def what_a_plugin_prints_is_no_answer_and_what_it_started_ends_with_it(folder):
    plugin = built(folder, NOISY, "noisy")
    ids = folder / "ids"
    done = kvtide("check", plugin, env={**os.environ, "NOISY_IDS": str(ids)})
    assert done.returncode == 0 and "noise" not in done.stdout + done.stderr, done
    processes = [int(line) for line in ids.read_text(encoding="utf-8").split()]
    assert processes, processes
    limit = time.monotonic() + 10
    while any(map(lives, processes)) and time.monotonic() < limit:
        time.sleep(.05)
    assert not any(map(lives, processes)), processes


def a_table_with_a_parameter_that_must_be_given_is_said_not_to_be_played(folder):
    said = succeeds("check", built(folder, DEMANDING, "demanding"))
    assert "replacement demanding: not played: parameter hand_slots must be given" in said, said


def a_broken_plugin_is_refused_before_anything_runs(folder):
    scenario = tiny(folder)
    for name, words in (("future_read", "without the parameter clairvoyant"),
                        ("tail_lent", "contract: the tail is never lent"),
                        ("never_releases", "contract: optional pages are released under pressure"),
                        ("route_exits", "ends the process with status 3"),
                        ("abi_other", "it was built for ABI 99"),
                        ("entry_crashes", "loading it crashes (SIGABRT)")):
        plugin = built(folder, BROKEN / (name + ".c"))
        before = files_below(folder)
        for command in (("run", scenario, "--out", folder / "out"), ("list", "policies"),
                        ("compare", scenario, scenario, "--out", folder / "out"),
                        ("check", scenario), ("size", scenario)):
            said = refuses(2, *command, "--plugin", plugin)
            assert plugin in said and words in said, said
        assert files_below(folder) == before


def a_contract_broken_in_the_run_ends_it_with_its_sentence(folder):
    plugin = built(folder, LATE, "late")
    succeeds("check", plugin)
    scenario = tiny(folder, changes={**EXACT, "residency.policy": "late",
                                     "cluster.decode.pools.unified_gib": 0.1,
                                     "workload.lengths.input": {"law": "fixed", "tokens": 13000}})
    before = files_below(folder)
    done = kvtide("run", scenario, "--plugin", plugin, "--quiet", "--out", folder / "out")
    assert done.returncode == 2, done
    assert "kvtide: late: it releases pages" in done.stderr, done.stderr
    assert "contract: the tail is never lent" in done.stderr, done.stderr
    assert files_below(folder) == before, files_below(folder)


def a_failure_in_the_run_is_a_sentence_whatever_comes_with_it(folder):
    silent = "failing: init() failed and does not say why; host->fail() is expected"
    for number, (failure, status, words) in enumerate((
            ("KVT_ERR_INVALID", 2, silent), ("KVT_ERR_NOMEM", 2, silent), ("KVT_ERR_INTERRUPTED", 2, silent),
            ("(kvt_status)4711", 2, "failing: init() returned 4711, which is no kvt_status"),
            ('env->host->fail(err, KVT_ERR_INVALID, "here", "why")', 2, "here: why"),
            ('env->host->fail(err, KVT_ERR_INTERRUPTED, "here", "why")', 1, "here: why"))):
        plugin = built(folder, FAILING.replace("FAILURE", failure), "failing%d" % number)
        scenario = tiny(folder, changes={**EXACT, "replacement.policy": "failing"})
        before = files_below(folder)
        for command in (("run", scenario, "--out", folder / "out"),
                        ("compare", scenario, scenario + ",replacement=lru", "--out", folder / "out")):
            done = kvtide(*command, "--plugin", plugin, "--quiet")
            assert done.returncode == status and words in done.stderr, (failure, command, done)
            assert files_below(folder) == before, files_below(folder)


def a_curve_takes_what_needs_nothing_and_refuses_what_lacks_something(folder):
    plugin = built(folder, DEMANDING, "demanding")
    recording = folder / "a.kvsel"
    succeeds("trace", "record", tiny(folder, changes=EXACT), "--to", recording, "--quiet")
    curves = json.loads(succeeds("trace", "mrc", recording, "--json", "--quiet", "--plugin", plugin))
    assert "demanding" not in json.dumps(curves) and "s3fifo" in json.dumps(curves)
    said = refuses(2, "trace", "mrc", recording, "--policies", "lru,demanding", "--plugin", plugin)
    assert "demanding takes what has no default: hand_slots is missing: Slots that the hand" in said, said


def a_plugin_that_ends_the_run_is_named_and_leaves_nothing_behind(folder):
    for name, end, words in (("leaves", "exit(0)", "exit() was called in the middle"),
                             ("falls", "*(volatile int *)8 = 1", "the command crashed (SIGSEGV)")):
        if name == "falls" and "address" in os.environ.get("KVT_VARIANT", ""):
            continue  # the sanitizer tells it, in its own words
        plugin = built(folder, ENDING.replace("END;", end + ";"), name)
        scenario = tiny(folder, changes=LONG)
        before = files_below(folder)
        done = kvtide("run", scenario, "--plugin", plugin, "--quiet", "--out", folder / "out")
        assert done.returncode == 2 and done.stdout == "", done
        assert "%s.so: " % name in done.stderr and words in done.stderr, done.stderr
        assert files_below(folder) == before, files_below(folder)


def a_second_signal_ends_a_command_that_does_not_heed_the_first(folder):
    plugin = built(folder, ENDING.replace("END;", "for (volatile int i = 0; i >= 0;) i = 1;"), "stays")
    scenario = tiny(folder, changes=LONG)
    before = files_below(folder)
    command = [support.KVTIDE, "run", scenario, "--plugin", plugin, "--quiet", "--out",
               str(folder / "out")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as run:
        until = time.monotonic() + support.TIMEOUT_S
        while not (folder / "out").exists():
            assert run.poll() is None and time.monotonic() < until, run.poll()
            time.sleep(0.05)
        support.goes_on(run, 0.5)  # into the loop
        for _ in range(2):
            run.send_signal(signal.SIGINT)
            time.sleep(0.3)
        _, said = run.communicate(timeout=support.TIMEOUT_S)
    assert run.returncode == 1 and "a second signal: ended at once" in said, (run.returncode, said)
    assert files_below(folder) == before, files_below(folder)


def what_is_no_plugin_is_told_so(folder):
    text = folder / "text.so"
    text.write_text("no object", encoding="utf-8")
    assert "it is not a shared object" in refuses(2, "list", "policies", "--plugin", text)
    assert "it is not a shared object" in refuses(2, "check", text)
    assert "none.so" in refuses(2, "list", "policies", "--plugin", folder / "none.so")
    assert refuses(2, "check", "none.so") == "kvtide: none.so: no such file"
    assert "--plugin wants a value: --plugin FILE.so" in refuses(2, "list", "--plugin", "")
    plugin = built(folder, EXAMPLE)
    said = refuses(2, "list", "policies", "--plugin", plugin, "--plugin", plugin)
    assert said == "kvtide: %s: it is loaded already" % plugin, said
    twin = pathlib.Path(folder, "twin.so")
    twin.write_bytes(pathlib.Path(plugin).read_bytes())
    said = refuses(2, "list", "policies", "--plugin", plugin, "--plugin", twin)
    assert said == "kvtide: %s: it is loaded already, as %s" % (twin, plugin), said
    half = pathlib.Path(folder, "half.so")
    half.write_bytes(pathlib.Path(plugin).read_bytes()[:600])
    said = refuses(2, "list", "policies", "--plugin", half)
    assert "it cannot be loaded" in said or "loading it crashes" in said, said


CASES = (
    a_policy_of_a_plugin_is_listed_with_its_parameters,
    a_policy_of_a_plugin_runs_and_the_result_says_where_it_came_from,
    without_its_plugin_a_policy_is_unknown,
    a_policy_of_a_plugin_is_compared_and_its_decisions_validated,
    check_plays_every_table_of_a_plugin,
    check_names_the_contract_that_is_broken,
    what_a_plugin_prints_is_no_answer_and_what_it_started_ends_with_it,
    a_table_with_a_parameter_that_must_be_given_is_said_not_to_be_played,
    a_broken_plugin_is_refused_before_anything_runs,
    a_contract_broken_in_the_run_ends_it_with_its_sentence,
    a_failure_in_the_run_is_a_sentence_whatever_comes_with_it,
    a_curve_takes_what_needs_nothing_and_refuses_what_lacks_something,
    a_plugin_that_ends_the_run_is_named_and_leaves_nothing_behind,
    a_second_signal_ends_a_command_that_does_not_heed_the_first,
    what_is_no_plugin_is_told_so,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
