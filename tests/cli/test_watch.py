"""perfetto.json and timeline.om of kvtide run: that they are what their formats say, and say what
requests.csv and timeline.csv say."""
import collections
import csv
import decimal
import itertools
import json
import math
import re
import subprocess
import sys

import support
from support import files_below, kvtide, refuses, succeeds, tiny

Decimal = decimal.Decimal
# Imports that overlap, a prefill pool, a row pool that requests fight for, steps of one rank each.
APART = {"cluster.decode.lockstep": False, "cluster.prefill": {"mode": "separate", "gpus": 2,
                                                               "tokens_per_s": 40000},
         "cluster.import": {"law": "rate", "queue": 3, "rate": 1},
         "workload.concurrency": 10, "workload.requests": 30, "run.fidelity": "exact"}
BESIDE = {"cluster.import": None, "cluster.prefill": {"mode": "colocated", "tokens_per_s": 40000, "chunk_tokens": 1024}}
# Two GPUs a rank, each with a copy on host of its own.
SPLIT = {"cluster.decode.gpus": 4, "cluster.decode.tp": 2, "cluster.decode.host_pool": "per_rank"}
# What a slow link was to carry is not over when its rank is back.
FAULTS = {"cluster.import": {"law": "rate", "rate": 1000}, "run.fidelity": "exact",
          "cluster.faults": [
    {"kind": "link", "which": 0, "at_s": 0.03, "back_after_s": 0.3, "bandwidth_factor": 0.001},
    {"kind": "rank", "which": 0, "at_s": 0.06, "back_after_s": 0.0001, "reload_s": 0}]}
LANES = {1: "ranks", 2: "links", 3: "imports", 4: "prefill servers", 5: "run", 6: "requests"}


def ran(folder, changes, *arguments):
    path = tiny(folder, changes=changes)
    done = kvtide("run", path, "--quiet", "--cache", folder / "cache", "--out", folder / "out",
                  *arguments)
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stderr


def table(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def total(rows, column):
    return sum(Decimal(row[column]) for row in rows)


def no_repeats(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), "a key twice: %s" % keys
    return dict(pairs)


def events_of(out):
    tree = json.loads((out / "perfetto.json").read_text(encoding="utf-8"), parse_float=Decimal,
                      object_pairs_hook=no_repeats)
    tree["otherData"]["written"] = sum(event["ph"] != "M" for event in tree["traceEvents"])
    return whole_slices(tree["traceEvents"]), tree["otherData"]


def whole_slices(events):
    """Beginnings and ends as slices with a duration, each where it begins."""
    opened, out = collections.defaultdict(list), []
    for event in events:
        if event["ph"] == "B":
            opened[event["pid"], event["tid"]].append({**event, "ph": "X"})
            out.append(opened[event["pid"], event["tid"]][-1])
        elif event["ph"] == "E":
            begun = opened[event["pid"], event["tid"]].pop()
            begun["dur"] = event["ts"] - begun["ts"]
        else:
            out.append(event)
    assert not any(opened.values()), opened
    return out


def ns(value):
    """Microseconds with three digits, exactly."""
    exact = Decimal(value) * 1000
    assert exact == int(exact), value
    return int(exact)


def slices(events):
    """By lane: (from, to, name, args), in order of the file."""
    lanes = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            assert ns(event["dur"]) >= 0, event
            begin = ns(event["ts"])
            lanes[event["pid"], event["tid"]].append(
                (begin, begin + ns(event["dur"]), event["name"], event["args"]))
    return lanes


def check_lanes(events):
    """Slices of a lane follow each other or lie in each other; parts fill their step."""
    lanes = slices(events)
    for (pid, tid), found in lanes.items():
        open_ones, last = [], None
        for begin, end, name, _ in found:
            while open_ones and open_ones[-1][1] <= begin:
                open_ones.pop()
            if open_ones:
                assert pid == 1 and open_ones[0][0] <= begin and end <= open_ones[0][1], (
                    pid, tid, name, begin, end, open_ones)
                assert len(open_ones) == 1 or end == begin, (pid, tid, name, open_ones)
                assert begin == last, "a gap between parts: %s %s" % (name, begin)
            else:
                assert last is None or last <= begin, (pid, tid, name, begin, last)
            if name == "step":
                open_ones.append((begin, end))
                last = begin
            else:
                last = end
        if pid == 1:
            steps = [(b, e) for b, e, name, _ in found if name == "step"]
            parts = sum(e - b for b, e, name, _ in found
                        if name not in ("step", "waits for the others"))
            assert parts == sum(e - b for b, e in steps), (tid, parts)
    return lanes


def check_names(events):
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"} == LANES
    used = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    assert used <= named, used - named


def check_requests(events, rows):
    """Spans of a request are its line of requests.csv."""
    spans = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "be":
            assert event["pid"] == 6 and event["cat"] == "request", event
            spans[event["id"]].append((event["ph"], event["name"], ns(event["ts"])))
    assert len(spans) == len(rows)
    for row in rows:
        found = spans[int(row["request"])]
        assert [kind for kind, _, _ in found] == ["b"] + ["b", "e"] * (len(found) // 2 - 1) + ["e"]
        times = {name: (begin, end) for (_, name, begin), (_, other, end)
                 in zip(found[1:-1:2], found[2:-1:2]) if name == other}
        assert found[0][2] == int(row["arrival_ns"])
        if row["finished_ns"]:
            assert found[-1][2] == int(row["finished_ns"])
            assert times == {
                "waits": (int(row["arrival_ns"]), int(row["admitted_ns"])),
                "comes in": (int(row["admitted_ns"]), int(row["first_token_ns"])),
                "decodes": (int(row["first_token_ns"]), int(row["finished_ns"]))}, (row, times)


FORMAT = {  # by phase: what an event of it must have beside ph, name, pid and tid
    "B": {"ts", "args"}, "E": {"ts"}, "C": {"ts", "args"}, "M": {"args"}, "b": {"ts", "cat", "id"}, "e": {"ts", "cat", "id"},
    "s": {"ts", "cat", "id"}, "t": {"ts", "cat", "id"}, "f": {"ts", "cat", "id", "bp"}}
METADATA = {"process_name": "name", "process_sort_index": "sort_index", "thread_name": "name",
            "thread_sort_index": "sort_index"}


def check_format(out):
    """The rules of the Trace Event Format, by themselves: what any viewer builds on."""
    tree = json.loads((out / "perfetto.json").read_text(encoding="utf-8"))
    assert tree["displayTimeUnit"] in ("ms", "ns"), tree["displayTimeUnit"]
    last = collections.defaultdict(float)
    opened, metadata, counters = collections.defaultdict(list), set(), {}
    for event in tree["traceEvents"]:
        phase = event["ph"]
        assert phase in FORMAT and FORMAT[phase] <= set(event), event
        assert isinstance(event["name"], str) and event["name"], event
        is_of_process = phase == "C" or event["name"].startswith("process_")
        assert type(event["pid"]) is int and (is_of_process or type(event["tid"]) is int), event
        if phase == "M":
            said = event["args"][METADATA[event["name"]]]
            assert type(said) is (str if event["name"].endswith("_name") else int) and said != "", event
            assert (event["name"], event["pid"], event.get("tid")) not in metadata, event
            metadata.add((event["name"], event["pid"], event.get("tid")))
            continue
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0, event
        # A track's events are in order of time: slices of a thread, a counter, spans of an id.
        kind = next((kind for kind in ("BE", "be", "C") if phase in kind), None)
        if kind is not None:
            track = (kind, event["pid"], {"BE": event.get("tid"), "be": event.get("id"), "C": event.get("name")}[kind])
            assert last[track] <= event["ts"], (event, last[track])
            last[track] = event["ts"]
        if phase == "B":
            opened[event["pid"], event["tid"]].append((event["name"], event["ts"]))
        elif phase == "E":
            name, begun = opened[event["pid"], event["tid"]].pop()
            assert name == event["name"] and begun <= event["ts"], event
        elif phase == "C":
            assert event["args"] and all(type(v) in (int, float) for v in event["args"].values()), event
            assert counters.setdefault((event["pid"], event["name"]), set(event["args"])) == set(event["args"]), event
        elif phase == "b":
            opened[event["cat"], event["id"]].append(event["name"])
        elif phase == "e":
            assert opened[event["cat"], event["id"]].pop() == event["name"], event
        elif phase == "f":
            assert event["bp"] == "e", event
    assert not any(opened.values()), opened
    assert {pid for name, pid, _ in metadata if name == "process_name"} >= {e["pid"] for e in tree["traceEvents"]}


def check_flows(events, lanes):
    """Every arrow that begins in a slice ends in a step of the request's own rank, once."""
    flows = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            at = ns(event["ts"])
            assert any(b <= at <= e for b, e, _, _ in lanes[event["pid"], event["tid"]]), event
            flows[event["id"]].append((event["ph"], event["pid"], at))
    for request, found in flows.items():
        phases = "".join(phase for phase, _, _ in found)
        assert re.fullmatch("st*f?", phases), (request, found)
        assert [at for _, _, at in found] == sorted(at for _, _, at in found), found
        assert found[-1][0] != "f" or found[-1][1] == 1
    return flows


def check_totals(events, lanes, timeline):
    args = collections.defaultdict(int)
    for (pid, _), found in lanes.items():
        for _, _, name, said in found:
            if "bytes" in said:
                args[pid, name] += said["bytes"]
    assert args[2, "fill"] == total(timeline, "fill_bytes")
    assert args[2, "backup"] == total(timeline, "d2h_bytes")
    assert args[3, "import"] == total(timeline, "import_bytes")
    wire = sum(said["wire_bytes"] for (pid, _), found in lanes.items() if pid == 1
               for _, _, name, said in found if name == "step")
    rounding = len(timeline) + len(events)
    assert abs(wire - total(timeline, "h2d_wire_bytes")) <= rounding
    assert abs(args[2, "fetch"] - wire) <= rounding
    counters = [e for e in events if e["ph"] == "C" and e["name"] == "requests"]
    assert len(counters) == len(timeline)
    for event, row in zip(counters, timeline):
        assert abs(ns(event["ts"]) - Decimal(row["from_s"]) * 10**9) < 1
        for name, column in (("decoding", "running_mean"), ("waiting", "waiting_mean"),
                             ("importing", "importing_mean")):
            assert event["args"][name] == Decimal(row[column]), (event, row)
    hbm = [sum(e["args"].values()) for e in events if e["ph"] == "C" and e["name"] == "HBM bytes"]
    assert hbm == [int(row["hbm_kv_peak_bytes"]) for row in timeline]


def every_lane_says_what_the_tables_say(folder):
    for name, changes in (("lockstep", {}), ("apart", APART), ("beside", BESIDE),
                          ("split", SPLIT), ("faults", FAULTS)):
        place = folder / name
        place.mkdir()
        out, said = ran(place, changes, "--perfetto")
        assert said == "", said
        events, other = events_of(out)
        timeline = table(out / "timeline.csv")
        check_format(out)
        lanes = check_lanes(events)
        check_names(events)
        check_requests(events, table(out / "requests.csv"))
        flows = check_flows(events, lanes)
        check_totals(events, lanes, timeline)
        steps = [sum(1 for _, _, what, _ in found if what == "step")
                 for (pid, _), found in lanes.items() if pid == 1]
        if name == "faults":
            again = {e["args"]["name"] for e in events
                     if e["name"] == "thread_name" and "after a fault" in e["args"]["name"]}
            assert {"rank 0, after a fault", "rank 0, missing rows, after a fault"} <= again, again
            assert total(timeline, "ranks_down_mean") > 0
        if name == "apart":
            assert sum(steps) == total(timeline, "decode_steps"), steps
            prefilled = [said["request"] for (pid, _), found in lanes.items() if pid == 4
                         for _, _, _, said in found]
            assert sorted(prefilled) == list(range(30)), prefilled
            assert {tid for pid, tid in lanes if pid == 4} == {0, 1}
            assert len({tid for pid, tid in lanes if pid == 3}) > 2, "imports never overlapped"
            assert {"".join(p for p, _, _ in flow) for flow in flows.values()} == {"stf"}
        if name == "lockstep":
            whole = [sum(1 for _, _, what, _ in found if what in ("step", "waits for the others"))
                     for (pid, _), found in lanes.items() if pid == 1]
            assert whole == [total(timeline, "decode_steps")] * 2, whole
        if name == "beside":
            assert any(what == "prefill" for (pid, _), found in lanes.items() if pid == 1
                       for _, _, what, _ in found)
        assert other["events"] == other["written"] and set(other["left_out"].values()) == {0}, other


def a_window_holds_what_touches_it(folder):
    out, _ = ran(folder, {}, "--perfetto")
    whole, other = events_of(out)
    for window, low, high in (("0.1:0.15", 100000, 150000), ("0.1:", 100000, 10**9),
                              (":0.1", 0, 100000)):
        out, said = ran(folder, {}, "--perfetto", window)
        assert said == "", said
        part, other = events_of(out)
        keep = [e for e in whole if e["ph"] == "X" and e["ts"] < high
                and (e["ts"] + e["dur"] > low or e["ts"] >= low)]
        # Parts go with their steps, whole.
        inside = lambda e: e["pid"] != 1 or e["name"] in ("step", "waits for the others")
        assert ([(e["pid"], e["name"], e["ts"], e["dur"]) for e in part
                 if e["ph"] == "X" and inside(e) and e["pid"] != 2]
                == [(e["pid"], e["name"], e["ts"], e["dur"]) for e in keep
                    if inside(e) and e["pid"] != 2]), window
        check_lanes(part)
        assert other["from_s"] == Decimal(low) / 10**6, other
        assert 0 < sum(e["ph"] != "M" for e in part) < sum(e["ph"] != "M" for e in whole)
    out, said = ran(folder, {}, "--perfetto", "1000:2000")
    assert "nothing is in it: its window begins at 1000 s, and the run ends at " in said, said
    assert all(e["ph"] == "M" for e in events_of(out)[0])


def what_finds_no_room_is_said(folder):
    out, _ = ran(folder, APART, "--perfetto")
    whole, _ = events_of(out)
    out, said = ran(folder, APART, "--perfetto", "--perfetto-events", "1000")
    part, other = events_of(out)
    assert 900 < other["events"] == other["written"] <= 1000, other
    left = other["left_out"]
    assert left["steps"] > 0 and left["transfers"] > 0 and left["counters"] > 0, left
    assert said == ("kvtide: perfetto.json: %d events; left out for want of room: %s; a window "
                    "(--perfetto FROM:TO) or more events (--perfetto-events) hold them\n"
                    % (other["events"],
                       ", ".join("%d %s" % (n, k) for k, n in left.items() if n > 0))), said
    check_lanes(part)
    check_format(out)
    steps = lambda events: [e for e in events if e["ph"] == "X" and e["name"] == "step"]
    assert len(steps(whole)) == len(steps(part)) + left["steps"]
    # Up to where it is full it lacks nothing.
    until = other["whole_to_s"] * 10**6
    assert ([e for e in part if e["ph"] == "X" and e["ts"] < until]
            == [e for e in whole if e["ph"] == "X" and e["ts"] < until])
    assert 0 < until < other["to_s"] * 10**6


def threads_and_watching_change_nothing(folder):
    found = []
    path = tiny(folder, changes=APART)
    for i, arguments in enumerate((("--threads", 1, "--perfetto"), ("--threads", 4, "--perfetto"),
                                   ())):
        out = folder / str(i)
        succeeds("run", path, "--quiet", "--cache", folder / "cache", "--out", out, *arguments)
        found.append({name: (out / name).read_bytes() for name in files_below(out)
                      if name != "run.log"})
    assert found[0] == found[1], [n for n in found[0] if found[0][n] != found[1].get(n)]
    del found[0]["perfetto.json"]
    assert sorted(found[2]) == ["itl.csv", "report.html", "requests.csv", "result.json", "timeline.csv", "timeline.om"]
    assert found[2] == found[0]


def perfetto_where_it_cannot_be_is_refused(folder):
    path, out = tiny(folder), folder / "out"
    for arguments, says in (
            (("--perfetto",), "run --perfetto: perfetto.json is one of a run's files; --out DIR"),
            (("--perfetto", "--out", out, "--fidelity", "analytic"),
             "run --perfetto: a run of mean values has no steps to show"),
            (("--perfetto", "3:2", "--out", out), "run --perfetto: \"3:2\" does not end after"),
            (("--perfetto=x:", "--out", out), "run --perfetto"),
            (("--perfetto", "--perfetto", "--out", out), "--perfetto is given twice"),
            (("--perfetto", "--out", out, "--perfetto-events", "12"), "found 12, expected 1000"),
            (("--out", out, "--perfetto-events", "5000"), "--perfetto is expected with it")):
        assert says in refuses(2, "run", path, "--quiet", *arguments), arguments
        assert not out.exists(), arguments


# ---- timeline.om ------------------------------------------------------------------------------

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
NUMBER = r"(?:[+-]?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?))"
META = re.compile(r"# (TYPE|UNIT|HELP) (%s) (\S.*)" % NAME)
SAMPLE = re.compile(r"(%s)(?:\{(%s(?:,%s)*)\})? (%s) (%s)" % (NAME, LABEL, LABEL, NUMBER, NUMBER))
ENDS = {"gauge": {""}, "counter": {"_total"}, "histogram": {"_bucket", "_count", "_sum"},
        "summary": {"_count", "_sum"}}


def families_of(text):
    """The OpenMetrics grammar, as far as this file uses it, without any forgiveness: name: (type,
    unit, [(name, labels, value, seconds)])."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""], lines[-2:]
    families, name, said = {}, None, {}
    for line in lines[:-2]:
        meta, sample = META.fullmatch(line), SAMPLE.fullmatch(line)
        assert (meta is None) != (sample is None), line
        if meta:
            key, of, value = meta.groups()
            if of != name:
                assert of not in families, "%s comes back" % of
                name, said = of, {}
                families[name] = (said, [])
            assert key not in said and not families[name][1], line
            said[key] = value
            continue
        whole, labels, value, at = sample.groups()
        assert name is not None and whole.startswith(name), line
        assert whole[len(name):] in ENDS[said["TYPE"]], line
        families[name][1].append((whole[len(name):], labels or "", Decimal(value), Decimal(at)))
    for name, (said, samples) in families.items():
        assert {"TYPE", "HELP"} <= set(said), name
        assert "UNIT" not in said or name.endswith("_" + said["UNIT"]), name
        check_series(name, said["TYPE"], samples)
    return {name: samples for name, (_, samples) in families.items()}


def check_series(name, kind, samples):
    if kind == "histogram":
        return check_histogram(name, samples)
    if kind == "summary":
        assert [end for end, _, _, _ in samples] == ["_count", "_sum"] * (len(samples) // 2), name
        samples = sorted(((end, end, value, at) for end, _, value, at in samples),
                         key=lambda sample: sample[0])
    for labels, series in itertools.groupby(samples, key=lambda sample: sample[1]):
        series = list(series)
        times = [at for _, _, _, at in series]
        assert times == sorted(set(times)), (name, labels, "times go back, or twice")
        values = [value for _, _, value, _ in series]
        assert kind == "gauge" or values == sorted(values), (name, "a counter falls")
        assert kind == "gauge" or values[0] >= 0
    groups = [labels for labels, _ in itertools.groupby(s[1] for s in samples)]
    assert len(groups) == len(set(groups)), (name, "series are mixed")


def check_histogram(name, samples):
    last = None
    for at, point in itertools.groupby(samples, key=lambda sample: sample[3]):
        point = list(point)
        assert [end for end, _, _, _ in point[-2:]] == ["_count", "_sum"], name
        bounds = [re.fullmatch(r'le="(.*)"', labels).group(1) for _, labels, _, _ in point[:-2]]
        assert bounds[-1] == "+Inf" and all("." in bound for bound in bounds[:-1]), bounds
        assert [float(bound) for bound in bounds] == sorted({float(bound) for bound in bounds})
        counts = [value for _, _, value, _ in point[:-2]]
        assert counts == sorted(counts) and counts[-1] == point[-2][2], (name, at)
        assert last is None or (at > last[0] and all(a <= b for a, b in zip(last[1], counts)))
        last = at, counts


def an_independent_parser_takes_it(text, families):
    """Python's prometheus_client, once for each time: of later times of a histogram it keeps the
    first bucket only, and 1 comes before 0.9 for it."""
    reads = ("import sys\nfrom prometheus_client.openmetrics.parser import "
             "text_string_to_metric_families as parse\n"
             "print(sum(len(family.samples) for text in sys.stdin.read().split('\\0')"
             " for family in parse(text)))")
    texts = []
    for at in sorted({sample[3] for samples in families.values() for sample in samples}):
        lines = [line for line in text.splitlines()
                 if line.startswith("#") or Decimal(line.rsplit(" ", 1)[1]) == at]
        texts.append("\n".join(lines) + "\n")
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run([python, "-c", reads], input="\0".join(texts), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if "No module named" not in done.stderr:
            assert done.returncode == 0, done.stderr
            assert int(done.stdout) == sum(map(len, families.values())), done.stdout
            return
    raise support.Skip("python3-prometheus-client is not installed")


GAUGES = {"vllm:num_requests_running": "running_mean", "sglang:num_running_reqs": "running_mean",
          "vllm:num_requests_waiting": "waiting_mean", "sglang:num_queue_reqs": "waiting_mean",
          "kvtide:requests_importing": "importing_mean",
          "kvtide:allocated_slots": "allocated_slots_mean", "kvtide:coverage_ratio": "coverage",
          "kvtide:host_fetch_ratio": "host_fetch_share",
          "kvtide:barrier_wait_ratio": "barrier_wait_share",
          "kvtide:ranks_down": "ranks_down_mean",
          "kvtide:hbm_kv_peak_bytes": "hbm_kv_peak_bytes",
          "kvtide:host_peak_bytes": "host_peak_bytes"}
COUNTERS = {"vllm:generation_tokens": "output_tokens", "sglang:generation_tokens": "output_tokens",
            "vllm:num_preemptions": "preemptions", "vllm:request_success": "completed",
            "kvtide:requests_arrived": "arrived", "kvtide:requests_admitted": "admitted",
            "kvtide:h2d_wire_bytes": "h2d_wire_bytes", "kvtide:fill_bytes": "fill_bytes",
            "kvtide:d2h_bytes": "d2h_bytes", "kvtide:import_bytes": "import_bytes",
            "kvtide:pages_filled": "pages_filled", "kvtide:pages_released": "pages_released",
            "kvtide:requests_interrupted": "requests_interrupted",
            "kvtide:decode_steps": "decode_steps"}


def check_latency(families, name, samples, until):
    """At each interval's end, what is done by then."""
    points = {at: list(point) for at, point in
              itertools.groupby(families[name], key=lambda sample: sample[3])}
    assert list(points) == [0] + until
    for at in points:
        done = [value for when, value in samples if when <= at * 10**9]
        said = {(end, labels): value for end, labels, value, _ in points[at]}
        assert said["_count", ""] == len(done), (name, at)
        assert math.isclose(said["_sum", ""], sum(done), rel_tol=1e-9, abs_tol=1e-12), (name, at)
        for (end, labels), count in said.items():
            if end == "_bucket":
                bound = Decimal(labels[4:-1].replace("+Inf", "Infinity"))
                assert count == sum(value <= bound for value in done), (name, at, labels)


def timeline_om_is_openmetrics_and_says_what_the_tables_say(folder):
    out, _ = ran(folder, APART)
    text = (out / "timeline.om").read_text(encoding="utf-8")
    families = families_of(text)
    timeline = table(out / "timeline.csv")
    until = [Decimal(row["to_s"]) for row in timeline]
    for name, column in GAUGES.items():
        assert [(at, value) for _, _, value, at in families[name]] == [
            (Decimal(row["to_s"]), Decimal(row[column])) for row in timeline if row[column]], name
    for name, column in COUNTERS.items():
        sums = list(itertools.accumulate(Decimal(row[column]) for row in timeline))
        assert [value for _, _, value, _ in families[name]] == [0] + sums, name
        assert [at for _, _, _, at in families[name]] == [0] + until, name
    gaps = families["vllm:inter_token_latency_seconds"]
    for (_, _, n, at), (_, _, s, _), row, before in zip(
            gaps[2::2], gaps[3::2], timeline, zip(gaps[0::2], gaps[1::2])):
        if row["mean_itl_ms"]:
            assert math.isclose((s - before[1][2]) * 1000 / (n - before[0][2]),
                                Decimal(row["mean_itl_ms"]), rel_tol=1e-9), (at, row)
    rows = table(out / "requests.csv")
    prompts = sum(int(row["input_tokens"]) for row in rows)
    assert families["vllm:prompt_tokens"][-1][2] == prompts
    for at, group in itertools.groupby(sorted(families["kvtide:hbm_kv_class_bytes"],
                                              key=lambda sample: sample[3]),
                                       key=lambda sample: sample[3]):
        peak = next(row["hbm_kv_peak_bytes"] for row in timeline if Decimal(row["to_s"]) == at)
        assert sum(value for _, _, value, _ in group) == int(peak)
    seconds = lambda row, a, b: (Decimal(row[b]) - Decimal(row[a])) / 10**9
    check_latency(families, "vllm:time_to_first_token_seconds",
                  [(int(r["first_token_ns"]), seconds(r, "arrival_ns", "first_token_ns"))
                   for r in rows], until)
    check_latency(families, "vllm:e2e_request_latency_seconds",
                  [(int(r["finished_ns"]), seconds(r, "arrival_ns", "finished_ns"))
                   for r in rows], until)
    check_latency(families, "vllm:request_time_per_output_token_seconds",
                  [(int(r["finished_ns"]), seconds(r, "first_token_ns", "finished_ns")
                    / (int(r["output_tokens"]) - 1)) for r in rows if int(r["output_tokens"]) > 1],
                  until)
    an_independent_parser_takes_it(text, families)


def our_own_reader_of_engines_metrics_takes_it(folder):
    """validate --measured: a run beside itself. A gauge is a mean over an interval, never its peak."""
    path = tiny(folder, changes=APART)
    succeeds("run", path, "--quiet", "--out", folder / "out", "--cache", folder / "cache")
    done = kvtide("validate", path, "--measured", folder / "out/timeline.om", "--json", "--quiet",
                  "--cache", folder / "cache")
    figures = json.loads(done.stdout)["figures"]
    names = [figure["name"] for figure in figures]
    assert len(names) > 6 and "mean_ttft_ms" in names and "total_output_tokens" in names, names
    for figure in figures:
        if figure["name"] != "peak_running":
            assert math.isclose(figure["measured"], figure["ours"], rel_tol=1e-9), figure


def a_run_of_mean_values_has_an_empty_file_of_the_same_kind(folder):
    path = tiny(folder, changes={"workload.requests": 400, "workload.concurrency": 20})
    succeeds("run", path, "--quiet", "--fidelity", "analytic", "--out", folder / "out",
             "--cache", folder / "cache")
    families = families_of((folder / "out/timeline.om").read_text(encoding="utf-8"))
    assert len(families) > 40 and all(not samples for samples in families.values())


CASES = (every_lane_says_what_the_tables_say, a_window_holds_what_touches_it,
         what_finds_no_room_is_said, threads_and_watching_change_nothing,
         perfetto_where_it_cannot_be_is_refused,
         timeline_om_is_openmetrics_and_says_what_the_tables_say,
         our_own_reader_of_engines_metrics_takes_it,
         a_run_of_mean_values_has_an_empty_file_of_the_same_kind)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
