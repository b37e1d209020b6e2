"""Bad files, to every command that reads them: status 2, one sentence with the place, no file left.

DESIGN.md section 15 is the list. What only looks bad (a byte-order mark, CRLF, rows out of order,
empty prompts) is read, and counted.
"""
import json
import os
import sys

import support
from support import TINY, TOP, changed, files_below, refuses, succeeds, tiny

LINE_BYTES_MAX = 64 << 20
TEXT = json.dumps(TINY)


def with_text(old, new):
    assert old in TEXT, old
    return TEXT.replace(old, new, 1).encode()


def tree(**changes):
    """A scenario with values at dotted paths ('__' for '.') replaced."""
    return json.dumps(changed(TINY, {k.replace("__", "."): v for k, v in changes.items()})).encode()


# Each with a word that the sentence must hold. Places: bad.json:LINE:COLUMN or bad.json#/POINTER.
SYNTAX = (
    (b"", "bad.json"),
    (b" \n\t\n", "bad.json"),
    (TEXT[:200].encode(), "bad.json:1:"),
    (TEXT.encode() + b"}", "bad.json:1:"),
    (TEXT.encode() + b"\n{}", "bad.json:2:1"),
    (b"// a comment\n" + TEXT.encode(), "bad.json:1:1"),
    (with_text('"seed": 1', '"seed": 01'), "bad.json:1:"),
    (with_text('"seed": 1', '"seed": +1'), "bad.json:1:"),
    (with_text('"seed": 1', '"seed": 1.'), "bad.json:1:"),
    (with_text('"seed": 1', '"seed": NaN'), "bad.json:1:"),
    (with_text('"seed": 1', '"seed": Infinity'), "bad.json:1:"),
    (with_text('"seed": 1', '"seed": 1e999'), "bad.json:1:"),
    (with_text('"seed": 1', '"seed": 1,'), "bad.json:1:"),
    (with_text('"seed": 1', '"seed": 1, "seed": 1'), "seed"),
    (with_text('"b300"', '"b300\0"'), "bad.json:1:"),
    (with_text('"b300"', '"b300\n"'), "bad.json:1:"),
    (TEXT.encode().replace(b'"b300"', b'"b3\xff0"'), "bad.json:1:"),
    (TEXT.encode().replace(b'"b300"', b'"\\ud800"'), "bad.json:1:"),
    (with_text('"b300"', '"b300'), "bad.json:1:"),
    (b'{"schema":' + b"[" * 100000, "bad.json:1:"),
    (TEXT.encode("utf-16"), "bad.json:1:1"),
)
MEANING = (
    (b"[]", "bad.json"),
    (b"7", "bad.json"),
    (b"{}", "schema"),
    (tree(schema="kvtide/scenario/2"), "#/schema"),
    (tree(schema=1), "#/schema"),
    (tree(name="a\x1b[31mred"), "#/name: text with the control character 0x1b"),
    (tree(name="two\nlines"), "#/name: text with the control character 0x0a"),
    (tree(seed=None), "seed"),
    (tree(seed=-1), "#/seed"),
    (tree(seed=1.5), "#/seed"),
    (tree(seed=2**63), "#/seed"),
    (tree(seed="1"), "#/seed"),
    (tree(seed=True), "#/seed"),
    (tree(seed=[1]), "#/seed"),
    (tree(model=None), "model"),
    (tree(model="glm-9"), "there are: "),
    (tree(model="./none.json"), "none.json"),
    (tree(model={"base": "glm-5.3", "layerz": 1}), "layerz"),
    (tree(hardware="b3000"), "there are: "),
    (tree(hardware=7), "#/hardware"),
    (tree(sede=1), "#/sede"),
    (tree(Seed=1), "#/Seed"),
    (tree(residency__device_buffer_size=4096), "hot_tokens"),
    (tree(residency__policy="lru"), "#/residency/policy"),
    (tree(residency__hot_tokens=-1), "#/residency/hot_tokens"),
    (tree(residency__hot_tokens=1e12), "#/residency/hot_tokens"),
    (tree(residency__hot_tokens=0.5), "#/residency/hot_tokens"),
    (tree(residency__refill_gb_per_s=-0.5), "#/residency/refill_gb_per_s"),
    (tree(residency=None, replacement={"policy": "lruu"}), "#/replacement/policy"),
    (tree(cluster__decode__gpus=0), "#/cluster/decode"),
    (tree(cluster__decode__gpus=1e6), "#/cluster/decode"),
    (tree(cluster__decode__gpus=2.385), "#/cluster/decode"),
    (tree(cluster__decode__tp=3), "#/cluster/decode"),
    (tree(cluster__decode__pools={"unified_gib": 1, "rows_gib": 1}), "#/cluster/decode/pools"),
    (tree(cluster__decode__pools={"unified_gib": -1}), "#/cluster/decode/pools/unified_gib"),
    (tree(cluster__decode__pools=[]), "#/cluster/decode/pools"),
    (tree(cluster__decode=[]), "#/cluster/decode"),
    (tree(cluster__faults=[{"kind": "rank", "at_s": -1}]), "#/cluster/faults/0/at_s"),
    (tree(cluster__faults=[{"kind": "rank", "at_s": 1, "which": 2**53}]),
     "#/cluster/faults/0/which"),
    (tree(cluster__faults=[{"kind": "rank", "at_s": 1}] * 257), "#/cluster/faults"),
    (tree(cluster__import={"law": "teleport"}), "#/cluster/import"),
    (tree(workload__concurrency=0), "#/workload/concurrency"),
    (tree(workload__concurrency=1e18), "#/workload/concurrency"),
    (tree(workload__requests=1e18), "#/workload/requests"),
    (tree(workload__rate=1), "#/workload/rate"),
    (tree(workload__lengths__input__tokens=0), "#/workload/lengths/input/tokens"),
    (tree(workload__lengths__output__cv=-1), "#/workload/lengths/output/cv"),
    (tree(workload={"sessions": {"turns": "two"}}), "#/workload/sessions/turns"),
    (tree(workload={"arrival": "phases"}), "#/workload"),
    (tree(workload={"arrival": "trace"}), "#/workload"),
    (tree(run__interval_s=0), "#/run/interval_s"),
    (tree(run__fidelity="analytical"), "#/run/fidelity"),
    (tree(run__clock="measured"), "#/run/clock"),
    (tree(run__warmup={"rule": "seconds"}), "#/run/warmup"),
    (tree(backend="cude"), "#/backend"),
    (tree(backend={"name": "cuda", "shared_tokens": 1.5}), "#/backend/shared_tokens"),
    (tree(backend="cuda", run__fidelity="sampled"), "fidelity"),
    (tree(selection__tapes=-1), "#/selection/tapes"),
    (tree(slo={"classes": [{"name": "a"}]}), "#/slo/classes/0"),
    (tree(extends="nothing-like-it"), "#/extends"),
    (tree(extends=7), "#/extends"),
    (tree(extends=["tiny", 7]), "#/extends"),
    (tree(extends="./bad.json"), "circle"),
)


def commands(folder, path):
    """Every way to hand a scenario in."""
    good = tiny(folder)
    return (("run", path, "--out", folder / "out"), ("size", path), ("check", path),
            ("check", path, "--print"), ("compare", good, path, "--out", folder / "out"),
            ("compare", path, good, "--out", folder / "out"))


def refused_everywhere(folder, content, word):
    """path is relative, so that places read as they are in the tables above."""
    (folder / "bad.json").write_bytes(content)
    before = files_below(folder)
    for arguments in commands(folder, "./bad.json"):
        sentence = refuses(2, *arguments, cwd=folder)
        may_be_trace = b'"schema"' not in content or not content.startswith(b"{")
        if arguments[0] == "check" and may_be_trace:
            continue  # it may be taken for a trace, whose reader has words of its own
        assert word in sentence, "%s: %r was expected in: %s" % (arguments, word, sentence)
        assert "bad.json" in sentence, sentence
        assert len(sentence) < 900, sentence
    assert files_below(folder) in (before, sorted(before + ["tiny.json"])), files_below(folder)


def malformed_json_is_refused_with_line_and_column(folder):
    for content, word in SYNTAX:
        refused_everywhere(folder, content, word)


def scenarios_that_mean_nothing_are_refused_with_their_pointer(folder):
    for content, word in MEANING:
        refused_everywhere(folder, content, word)


def a_scenario_without_its_schema_is_not_taken_for_a_trace(folder):
    for content in ('{"extends": "quickstart", "seed": 2}', '{"workload": {"concurrency": 4}}\n'):
        path = folder / "mine.json"
        path.write_text(content)
        for command in ("check", "run", "size"):
            said = refuses(2, command, path)
            assert 'mine.json#: there is no "schema"; a scenario says "schema": "kvtide/scenario/1"' in said, said


def circles_of_extends_are_named(folder):
    for name, other in (("bad", "b"), ("b", "c"), ("c", "bad")):
        (folder / (name + ".json")).write_text(json.dumps(
            {"schema": "kvtide/scenario/1", "extends": "./%s.json" % other}), encoding="utf-8")
    for arguments in commands(folder, "./bad.json"):
        sentence = refuses(2, *arguments, cwd=folder)
        assert "circle" in sentence and "b.json" in sentence and "c.json" in sentence, sentence


def marks_and_line_ends_are_no_matter(folder):
    for content in (b"\xef\xbb\xbf" + TEXT.encode(),
                    json.dumps(TINY, indent=1).replace("\n", "\r\n").encode(),
                    TEXT.encode() + b"\n\n"):
        (folder / "good.json").write_bytes(content)
        assert succeeds("check", "./good.json", cwd=folder) == "./good.json: ok (scenario)\n"
        succeeds("size", "./good.json", cwd=folder)


def what_is_no_file_is_refused(folder):
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe")  # nobody is waited for
    for path in ("./folder.json", "./none.json", "/dev/null", "./pipe"):
        for arguments in commands(folder, path):
            refuses(2, *arguments, cwd=folder)


def a_file_too_large_is_refused_before_it_is_read(folder):
    with open(folder / "bad.json", "wb") as file:
        file.write(TEXT.encode())
        file.truncate(LINE_BYTES_MAX + 1024)
    for arguments in (("run", "./bad.json"), ("size", "./bad.json"), ("check", "./bad.json")):
        assert "bad.json" in refuses(2, *arguments, cwd=folder)


# --- Models and hardware ------------------------------------------------------------------------------


def edits_of(shipped):
    """Bad versions of a model or hardware file: (tree, word)."""
    number = next(name for name, value in shipped.items() if isinstance(value, (int, float)))
    source = next(iter(shipped["sources"]))
    return (
        (changed(shipped, {number: -1}), number),
        (changed(shipped, {number: "many"}), number),
        (changed(shipped, {number: 1e30}), number),
        (changed(shipped, {number: None}), number),
        (changed(shipped, {"colour": 1}), "colour"),
        (changed(shipped, {"schema": "kvtide/%s/9" % shipped["schema"].split("/")[1]}), "schema"),
        ({k: v for k, v in shipped.items() if k != "sources"}, "sources"),
        (dict(shipped, sources={k: v for k, v in shipped["sources"].items() if k != source}),
         source.split("/")[0].split(".")[0]),
    )


def bad_models_and_hardware_are_refused_by_themselves_and_in_a_scenario(folder):
    for key, file in (("model", "llm/glm-5.3.json"), ("hardware", "hardware/h200.json"),
                      (None, "drafters/glm-5.3-dflash2.json")):
        shipped = json.loads((TOP / "models" / file).read_text(encoding="utf-8"))
        for bad, word in edits_of(shipped):
            (folder / "bad.json").write_text(json.dumps(bad), encoding="utf-8")
            sentence = refuses(2, "check", "./bad.json", cwd=folder)
            assert word in sentence and "bad.json" in sentence, (word, sentence)
            if key is None:
                continue
            path = tiny(folder, "scenario.json", {key: "./bad.json"})
            for arguments in (("run", path, "--out", folder / "out"), ("size", path)):
                sentence = refuses(2, *arguments, cwd=folder)
                assert word in sentence and "bad.json" in sentence, (word, sentence)
            assert files_below(folder) == ["bad.json", "scenario.json"], files_below(folder)


def a_missing_key_is_what_a_data_file_is_told_of(folder):
    """Not the source that was given for it."""
    optional = ("basis", "cliff", "pass", "made", "machine", "leave_one_out", "points")
    for file in sorted((TOP / "models").glob("*/*.json")):
        shipped = json.loads(file.read_text(encoding="utf-8"))
        if file.parent.name == "llm" and shipped["name"] != "glm-5.3":
            continue
        for key in shipped:
            if key in optional or (file.parent.name == "hardware" and shipped["name"] != "h200"):
                continue
            (folder / "bad.json").write_text(json.dumps(changed(shipped, {key: None})),
                                             encoding="utf-8")
            sentence = refuses(2, "check", "./bad.json", cwd=folder)
            place = "bad.json" if key == "schema" else "bad.json#/%s: missing" % key
            assert place in sentence, (file.name, key, sentence)


def a_recording_that_does_not_fit_is_named_with_its_own_selector(folder):
    rows = [[list(range(token, token + 512))] for token in range(50)]
    (folder / "rows.npy").write_bytes(support.npy(rows, (50, 1, 512)))
    succeeds("trace", "convert", "rows.npy", "--to", "rows.kvsel", cwd=folder)
    path = tiny(folder, changes={"selection": {"law": "recorded", "path": "rows.kvsel"}})
    for sets, place in (((), path + "#/selection/path"),
                        (("--set", "selection.path=rows.kvsel"), "--set selection.path")):
        sentence = refuses(2, "run", path, *sets, cwd=folder)
        assert sentence.startswith("kvtide: %s: selector " % place), sentence
        assert "rows.kvsel, whose selector 0 it reads" in sentence, sentence


# --- Results --------------------------------------------------------------------------------------------


def bad_results_are_refused(folder):
    succeeds("run", tiny(folder), "--out", folder / "out", "--quiet")
    result = json.loads((folder / "out/result.json").read_text(encoding="utf-8"))
    for bad, word in (
            (changed(result, {"scenario": None}), "scenario"),
            (changed(result, {"scenario.seed": -1}), "#/scenario/seed"),
            (changed(result, {"scenario.colour": 1}), "#/scenario/colour"),
    ):
        (folder / "bad.json").write_text(json.dumps(bad), encoding="utf-8")
        for arguments in (("check", "./bad.json"), ("run", "./bad.json")):
            sentence = refuses(2, *arguments, cwd=folder)
            assert "bad.json" in sentence, sentence
            assert word in sentence or arguments[0] == "run", (word, sentence)
    for bad, word in (
            (changed(result, {"decision_hash": "xyz"}), "decision_hash"),
            (changed(result, {"metrics": None}), "metrics"),
            (changed(result, {"metrics.mean_tpot_ms": "fast"}), "mean_tpot_ms"),
            (changed(result, {"metrics.mean_tpt_ms": 1}), "mean_tpot_ms"),
    ):
        (folder / "bad.json").write_text(json.dumps(bad), encoding="utf-8")
        assert word in refuses(2, "check", "./bad.json", cwd=folder)


# --- Traces -------------------------------------------------------------------------------------------------

HEAD = b"arrival_s,input_tokens,output_tokens\n"
BAD_TRACES = (
    (b"", "bad.csv"),
    (HEAD, "bad.csv"),
    (b"arrival_s,input_tokens\n0,1\n", "input_tokens"),
    (HEAD + b"0,4096\n", "bad.csv:2"),
    (HEAD + b"0,4096,40\n1,4096,x\n", "bad.csv:3"),
    (HEAD + b"0,4096,40\n1,-4096,40\n", "bad.csv:3"),
    (HEAD + b"0,4096,40\n-1,4096,40\n", "bad.csv:3"),
    (HEAD + b"nan,4096,40\n", "bad.csv:2"),
    (HEAD + b"inf,4096,40\n", "bad.csv:2"),
    (HEAD + b"1e999,4096,40\n", "bad.csv:2"),
    (HEAD + b"0,4096.5,40\n", "bad.csv:2"),
    (HEAD + b"0,9223372036854775808,40\n", "bad.csv:2"),
    (HEAD + b"0,0x10,40\n", "bad.csv:2"),
    (HEAD + b"0,,40\n", "bad.csv:2"),
    (HEAD + b'0,"4096,40\n', "bad.csv"),
    (HEAD + b"0,40\x0096,40\n", "bad.csv:2"),
    (HEAD + b"0,0,40\n1,40,0\n", "no row"),
    (b'{"timestamp": 0, "input_length": 40, "output_length": 4}\n{"timestamp": 1,\n', "bad.csv:2"),
    (b'{"timestamp": 0, "input_length": 40, "output_length": 4, "output_length": 4}\n', "bad.csv:1"),
    (b'{"timestamp": 0, "input_length": 1e999, "output_length": 4}\n', "bad.csv:1"),
    (b'{"timestamp": 0, "input_length": 4.5, "output_length": 4}\n', "bad.csv:1"),
    (b'{"timestamp": 0, "output_length": 4}\n', "bad.csv"),
    (b"[1, 2]\n", "bad.csv"),
    (b'{"id": "a", "requests": [{"t": -1, "in": 8, "out": 4, "hash_ids": []}]}\n',
     "bad.csv:1#/requests/0/t: requests/0/t: found -1, expected a number from 0 to 4000000000"),
)


def traced(folder, path):
    """A scenario that replays the trace."""
    return tiny(folder, "traced.json", {"workload": {"arrival": "trace", "path": path}})


def bad_traces_are_refused_with_their_line(folder):
    path = traced(folder, "./bad.csv")
    for content, word in BAD_TRACES:
        (folder / "bad.csv").write_bytes(content)
        for arguments in (("run", path, "--out", folder / "out"), ("size", path),
                          ("compare", path, path, "--out", folder / "out"),
                          ("check", "./bad.csv"), ("trace", "stats", "./bad.csv"),
                          ("trace", "convert", "./bad.csv", "--to", folder / "out.csv")):
            sentence = refuses(2, *arguments, cwd=folder)
            assert word in sentence and "bad.csv" in sentence, (arguments, content, sentence)
        assert files_below(folder) == ["bad.csv", "traced.json"], files_below(folder)


def a_line_without_end_is_refused(folder):
    with open(folder / "bad.csv", "wb") as file:
        file.write(HEAD)
        for _ in range(65):
            file.write(b"0" * (1 << 20))
    for arguments in (("run", traced(folder, "./bad.csv"), "--out", folder / "out"),
                      ("check", "./bad.csv"), ("trace", "stats", "./bad.csv")):
        assert "bad.csv:2" in refuses(2, *arguments, cwd=folder)
    assert not (folder / "out").exists()


def a_class_of_a_trace_that_is_not_the_scenario_s_is_found_before_the_run(folder):
    rows = "arrival_s,input_tokens,output_tokens,slo_class\n0,4096,8,chat\n900,4096,8,slow\n"
    (folder / "classes.csv").write_text(rows, encoding="utf-8")
    path = tiny(folder, "classed.json", {
        "workload": {"arrival": "trace", "path": "./classes.csv"},
        "slo": {"classes": [{"name": "chat", "share": 1}]}})
    sentence = refuses(2, "run", path, "--out", folder / "out", "--quiet", cwd=folder)
    assert "classes.csv:3:4: slo_class \"slow\"" in sentence and "chat" in sentence, sentence
    assert files_below(folder) == ["classed.json", "classes.csv"], files_below(folder)


def traces_that_only_look_bad_are_read_and_counted(folder):
    (folder / "odd.csv").write_bytes(
        b"\xef\xbb\xbf" + HEAD.replace(b"\n", b"\r\n") +
        b"1,4096,40\r\n0.5,4096,40\r\n0.75,0,40\r\n2,4096,0\r\n\r\n0.5,4096,1")
    path = traced(folder, "./odd.csv")
    trace = json.loads(succeeds("run", path, "--json", "--quiet", cwd=folder))["trace"]
    assert (trace["rows_read"], trace["used"]) == (5, 3), trace
    assert trace["dropped"]["zero_input"] == trace["dropped"]["zero_output"] == 1, trace
    assert trace["out_of_order_rows"] > 0 and trace["rebased_s"] == 0.5, trace
    assert succeeds("check", "./odd.csv", cwd=folder) == "./odd.csv: ok (trace, kvtide)\n"


def a_cache_that_cannot_be_one_is_refused_and_one_full_of_rubbish_is_not(folder):
    path = tiny(folder)
    (folder / "file").write_text("no folder", encoding="utf-8")
    for cache in ("", folder / "file", folder / "file/below"):
        for command in (("run",), ("compare", path), ("validate", "--suite", "fidelity")):
            sentence = refuses(3 if cache else 2, *command, path, "--cache", cache, "--quiet")
            assert sentence.startswith("kvtide: --cache: ") and str(cache) in sentence, sentence
    (folder / "kept/tapes").mkdir(parents=True)
    (folder / "kept/tapes/0.kvsel").write_bytes(b"rubbish" * 1000)
    assert succeeds("run", path, "--quiet", "--cache", folder / "kept") == succeeds(
        "run", path, "--quiet", "--cache", "none")


CASES = (
    malformed_json_is_refused_with_line_and_column,
    scenarios_that_mean_nothing_are_refused_with_their_pointer,
    a_scenario_without_its_schema_is_not_taken_for_a_trace,
    circles_of_extends_are_named,
    marks_and_line_ends_are_no_matter,
    what_is_no_file_is_refused,
    a_file_too_large_is_refused_before_it_is_read,
    bad_models_and_hardware_are_refused_by_themselves_and_in_a_scenario,
    a_missing_key_is_what_a_data_file_is_told_of,
    a_recording_that_does_not_fit_is_named_with_its_own_selector,
    bad_results_are_refused,
    bad_traces_are_refused_with_their_line,
    a_line_without_end_is_refused,
    a_class_of_a_trace_that_is_not_the_scenario_s_is_found_before_the_run,
    traces_that_only_look_bad_are_read_and_counted,
    a_cache_that_cannot_be_one_is_refused_and_one_full_of_rubbish_is_not,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
