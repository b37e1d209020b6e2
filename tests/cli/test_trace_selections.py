"""kvtide trace on recorded selections: miss curves, selected rows as CSV and for libCacheSim, and back."""
import base64
import csv
import http.server
import json
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time

import support
from support import KVTIDE, refuses, run_cases, succeeds

K, TOKENS, LAYERS, CONTEXT = 8, 150, 3, 40


def selections(tokens=TOKENS, seed=1, k=K, layers=LAYERS, context=CONTEXT):
    """[tokens][layers][k] rows that drift, the newest always among them."""
    dice, held, out = random.Random(seed), [set() for _ in range(layers)], []
    for token in range(tokens):
        for rows in held:
            for row in dice.sample(sorted(rows), min(3, len(rows))):
                rows.discard(row)
            rows.add(context + token - 1)
            while len(rows) > k:
                rows.remove(min(rows - {context + token - 1}))
            while len(rows) < k:
                rows.add(dice.randrange(context + token) if dice.random() < 0.5 else dice.randrange(12))
        out.append([sorted(rows) for rows in held])
    return out


def recorded(folder, name="a.kvsel", **shape):
    rows = selections(**shape)
    (folder / "a.npy").write_bytes(support.npy(rows, (len(rows), len(rows[0]), len(rows[0][0]))))
    succeeds("trace", "convert", "a.npy", "--to", name, "--quiet", cwd=folder)
    return rows


def lru_misses(accesses, slots):
    """A dict that keeps its order is the shortest LRU there is."""
    held, missed = {}, 0
    for access in accesses:
        if access in held:
            del held[access]
        else:
            missed += 1
            if len(held) == slots:
                del held[next(iter(held))]
        held[access] = None
    return missed


def points(answer, policy):
    curve = [curve for curve in answer["curves"] if curve["policy"] == policy]
    assert len(curve) == 1, answer
    return curve[0]["points"]


# --- Miss curves ----------------------------------------------------------------------------------------


def rows_are_missed_as_by_an_lru_of_each_layer(folder):
    rows = recorded(folder)
    answer = json.loads(succeeds("trace", "mrc", "a.kvsel", "--stream", "rows", "--json", "--quiet", "--policies",
                                 "lru", "--at", "0.5,1,2.25,5", cwd=folder))
    assert (answer["top_k"], answer["caches"], answer["selections"]) == (K, LAYERS, LAYERS * TOKENS), answer
    for point in points(answer, "lru"):
        expected = sum(lru_misses([row for token in rows for row in token[layer]], point["slots"])
                       for layer in range(LAYERS))
        assert point["missed"] == expected, (point, expected)
        assert point["miss_ratio"] == expected / (LAYERS * TOKENS * K), point
    distinct = sum(len({row for token in rows for row in token[layer]}) for layer in range(LAYERS))
    assert answer["compulsory"] == distinct / answer["selected"], answer


def files_hold_what_is_printed_and_more_files_add_up(folder):
    recorded(folder)
    recorded(folder, "b.kvsel", seed=2)
    both = json.loads(succeeds("trace", "mrc", "a.kvsel", "b.kvsel", "--json", "--out", "out/deep", cwd=folder))
    each = [json.loads(succeeds("trace", "mrc", name, "--json", cwd=folder)) for name in ("a.kvsel", "b.kvsel")]
    assert json.loads((folder / "out/deep/mrc.json").read_text()) == both
    for curve in both["curves"]:
        for i, point in enumerate(curve["points"]):
            assert point["missed"] == sum(points(one, curve["policy"])[i]["missed"] for one in each), curve
    with open(folder / "out/deep/mrc.csv", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert list(lines[0]) == "policy b_over_k slots selected missed miss_ratio regret".split(), lines[0]
    flat = [(curve["policy"], point) for curve in both["curves"] for point in curve["points"]]
    assert len(flat) == len(lines)
    for (policy, point), line in zip(flat, lines):
        assert policy == line["policy"] and float(line["b_over_k"]) == point["b_over_k"], line
        assert int(line["missed"]) == point["missed"] and int(line["slots"]) == point["slots"], line
        assert line["regret"] == "" if point["regret"] is None else float(line["regret"]) == point["regret"], line


def the_bound_is_named_and_nobody_is_below_it_by_rows(folder):
    recorded(folder)
    answer = json.loads(succeeds("trace", "mrc", "a.kvsel", "--stream", "rows", "--json", cwd=folder))
    names = [curve["policy"] for curve in answer["curves"]]
    listed = [entry["name"] for entry in json.loads(succeeds("list", "policies", "--json"))["policies"]
              if entry["kind"] == "replacement"]
    assert names == listed, (names, listed)
    if "belady" not in names:
        raise support.Skip("there is no policy of the name belady")
    for curve in answer["curves"]:
        if curve["policy"] == "oracle-pages":
            continue
        for point, least in zip(curve["points"], points(answer, "belady")):
            assert point["missed"] >= least["missed"], (curve["policy"], point)
            assert point["regret"] == point["missed"] / least["missed"] - 1, point


def the_table_fits_and_threads_change_nothing(folder):
    recorded(folder)
    one = succeeds("trace", "mrc", "a.kvsel", "--threads", "1", cwd=folder)
    assert one == succeeds("trace", "mrc", "a.kvsel", "--threads", "3", cwd=folder)
    assert max(map(len, one.splitlines())) <= 80, one
    assert "  missed / selected\n" in one and "of them for the first time" in one, one
    part = succeeds("trace", "mrc", "a.kvsel", "--tokens", "10:60", "--json", cwd=folder)
    assert json.loads(part)["selections"] == 50 * LAYERS, part


MRC_REFUSED = (  # arguments; status; what is said
    (("a.kvsel", "--at", "2,1"), 2, "1 after 2"),
    (("a.kvsel", "--at", "x"), 2, "--at"),
    (("a.kvsel", "--at", "1,"), 2, "--at"),
    (("a.kvsel", "--at", "0.01"), 2, "a cache of 0 slots"),
    (("a.kvsel", "--at", "1,1.01"), 2, "both 8 slots"),
    (("a.kvsel", "--at", "5000"), 2, "--at"),
    (("a.kvsel", "--stream", "cells"), 2, "calls or rows is expected"),
    (("a.kvsel", "--tokens", "7"), 2, "FROM:TO is expected"),
    (("a.kvsel", "--tokens", "9:9"), 2, "holds no token"),
    (("a.kvsel", "--tokens", "150:"), 2, "no selection lies in the tokens asked for"),
    (("a.kvsel", "--policies", "lruu"), 2, "no such replacement policy"),
    (("a.kvsel", "--policies", "lru,"), 2, "no such replacement policy"),
    (("a.kvsel", "--policies", "lru,lru"), 2, "named twice"),
    (("a.kvsel", "--threads", "0"), 2, "--threads"),
    (("a.kvsel", "other.kvsel"), 2, "k is 4, and 8 in a.kvsel"),
    (("cut.kvsel",), 2, "it was cut"),
    (("flipped.kvsel",), 2, "byte "),
    (("none.kvsel",), 2, "none.kvsel"),
    (("a.npy",), 2, "byte 0: this is no file of selections"),
    (("a.kvsel", "--out", "a.npy"), 3, "a.npy"),
)


def malformed_questions_leave_nothing(folder):
    recorded(folder, "other.kvsel", k=4)
    recorded(folder)
    whole = (folder / "a.kvsel").read_bytes()
    (folder / "cut.kvsel").write_bytes(whole[:-40])
    (folder / "flipped.kvsel").write_bytes(whole[:500] + bytes([whole[500] ^ 4]) + whole[501:])
    before = support.files_below(folder)
    for arguments, status, says in MRC_REFUSED:
        sentence = refuses(status, "trace", "mrc", *arguments, cwd=folder)
        assert says in sentence, (arguments, sentence)
        assert support.files_below(folder) == before, arguments


def peak_kib(*arguments):
    """The most memory of its own that the program was seen with: which pages of its file and of libraries are
    in memory is the machine's affair, and differs by half a MiB from run to run."""
    peak = 0
    with subprocess.Popen((KVTIDE, *map(str, arguments)), stdout=subprocess.DEVNULL) as child:
        while child.poll() is None:
            with open("/proc/%d/status" % child.pid, encoding="utf-8") as status:
                for line in status:
                    if line.startswith("RssAnon:"):
                        peak = max(peak, int(line.split()[1]))
            time.sleep(0.001)
        assert child.returncode == 0
    return peak


def memory_does_not_grow_with_tokens(folder):
    if os.environ.get("KVT_VARIANT", "release") != "release":
        raise support.Skip("a sanitizer keeps memory of its own")
    peaks = []
    for tokens in (800, 6400):
        recorded(folder, k=64, tokens=tokens, layers=2, context=20000)
        peaks.append(max(peak_kib("trace", "mrc", folder / "a.kvsel", "--quiet", "--policies", "fifo,clock",
                                  "--threads", "1") for _ in range(3)))
    # A row in sight takes a bit in each of 14 caches, and there are 1.3 times as many: 16 KiB, and what the
    # allocator makes of it. What is kept of each selection would be 2.8 MiB.
    assert 0 < peaks[1] < peaks[0] + 256, "%d KiB, then %d KiB" % tuple(peaks)


def an_interrupt_ends_it_and_leaves_nothing(folder):
    recorded(folder, k=64, tokens=4000, layers=2, context=20000)
    with subprocess.Popen((KVTIDE, "trace", "mrc", "a.kvsel", "--stream", "rows", "--policies", "fifo,clock", "--at",
                           ",".join(map(str, range(20, 1020, 20))), "--out", "out"), cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        support.goes_on(child, 0.05)  # among the rows
        child.send_signal(signal.SIGINT)
        said, complaint = child.communicate(timeout=support.TIMEOUT_S)
    assert child.returncode == 1 and said == "", (child.returncode, said, complaint)
    assert "interrupted" in complaint, complaint
    assert support.files_below(folder) == ["a.kvsel", "a.npy"]


# --- Rows, there and back ---------------------------------------------------------------------------------


def rows_as_csv_come_back_as_the_same_file(folder):
    rows = recorded(folder)
    succeeds("trace", "convert", "a.kvsel", "--to", "a.csv", cwd=folder)
    with open(folder / "a.csv", newline="") as stream:
        lines = list(csv.reader(stream))
    assert lines[0] == "request selector token visible_rows row".split()
    expected = [["0", str(layer), str(token), str(CONTEXT + token), str(row)]
                for layer in range(LAYERS) for token in range(TOKENS) for row in rows[token][layer]]
    assert lines[1:] == expected
    succeeds("trace", "convert", "a.csv", "--to", "b.kvsel", cwd=folder)
    succeeds("trace", "convert", "b.kvsel", "--to", "b.csv", cwd=folder)
    assert (folder / "b.csv").read_bytes() == (folder / "a.csv").read_bytes()
    # Token by token, as an engine makes them; CRLF; rows of a selection in any order.
    mixed = sorted(expected, key=lambda line: (int(line[2]), int(line[1]), -int(line[4])))
    (folder / "m.csv").write_bytes(b"\r\n".join(",".join(line).encode() for line in [lines[0]] + mixed))
    succeeds("trace", "convert", "m.csv", "--to", "m.kvsel", cwd=folder)
    succeeds("trace", "convert", "m.kvsel", "--to", "m2.csv", cwd=folder)
    assert (folder / "m2.csv").read_bytes() == (folder / "a.csv").read_bytes()


def rows_that_are_born_every_fourth_token_come_back(folder):
    """Two requests, one selector of another length, a stream without a token."""
    lines = ["request,selector,token,visible_rows,row"]
    for request, selector, tokens, first, pace in ((0, 0, 130, 3, 4), (1, 1, 7, 9, 100), (1, 0, 70, 5, 1)):
        for token in range(tokens):
            visible = first + token // pace
            lines += ["%d,%d,%d,%d,%d" % (request, selector, token, visible, row)
                      for row in range(max(0, visible - 6), visible)]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    succeeds("trace", "convert", "a.csv", "--to", "a.kvsel", cwd=folder)
    succeeds("trace", "convert", "a.kvsel", "--to", "b.csv", cwd=folder)
    found = (folder / "b.csv").read_text().splitlines()
    key = lambda line: tuple(map(int, line.split(",")))
    assert found == lines[:1] + sorted(lines[1:], key=key)
    said = json.loads(succeeds("trace", "stats", "a.kvsel", "--json", cwd=folder))
    assert (said["requests"], said["selectors"], said["top_k"], said["tokens"]) == (2, 2, 6, 207), said


def accesses_for_libcachesim_say_when_each_comes_next(folder):
    rows = recorded(folder)
    succeeds("trace", "convert", "a.kvsel", "--to", "a.oracleGeneral.bin", "--row-bytes", "576", cwd=folder)
    written = (folder / "a.oracleGeneral.bin").read_bytes()
    records = list(struct.iter_unpack("<IQIq", written))
    assert len(records) * 24 == len(written) and len(records) == LAYERS * TOKENS * K
    expected = [(token, layer, row) for layer in range(LAYERS) for token in range(TOKENS)
                for row in rows[token][layer]]
    numbers, next_at, due = {}, {}, [0] * len(records)
    for i in range(len(records) - 1, -1, -1):
        due[i] = next_at.get(expected[i][1:], -1)
        next_at[expected[i][1:]] = i + 1  # accesses are counted from 1
    for i, (time, number, size, following) in enumerate(records):
        assert (time, size, following) == (expected[i][0], 576, due[i]), i
        assert numbers.setdefault(expected[i][1:], number) == number, i
    assert len(set(numbers.values())) == len(numbers)
    # One LRU cache over all of it misses what mrc says of one for each stream.
    answer = json.loads(succeeds("trace", "mrc", "a.kvsel", "--stream", "rows", "--json", "--policies", "lru",
                                 cwd=folder))
    for point in points(answer, "lru"):
        assert point["missed"] == lru_misses([record[1] for record in records], point["slots"]), point


HEAD = "request,selector,token,visible_rows,row\n"
CSV_REFUSED = (  # lines behind the names; what is said
    ("", "no row is selected in it"),
    ("0,0,0,4\n", "bad.csv:2: 4 fields"),
    ("0,0,0,4,x\n", "bad.csv:2:5: "),
    ("0,0,0,4,-1\n", "bad.csv:2:5: "),
    ("0,0,0,4,1.5\n", "bad.csv:2:5: "),
    ("0,0,0,9999999999,1\n", "bad.csv:2:4: "),
    ("0,0,0,4,4\n", "bad.csv:2: row 4, but visible_rows are 4"),
    ("0,0,0,4,1\n0,0,0,4,1\n", "row 1 is selected twice"),
    ("0,0,0,4,1\n0,0,0,5,2\n", "visible_rows 5 after 4 of the same selection"),
    ("0,0,1,4,1\n", "token 1 of selector 0 of request 0, whose next is 0"),
    ("0,0,0,4,1\n0,0,2,6,1\n", "token 2 of selector 0 of request 0, whose next is 1"),
    ("0,0,0,4,1\n0,1,0,4,1\n0,0,0,4,2\n", "token 0 of selector 0 of request 0, whose next is 1"),
    ("0,0,0,4,1\n0,0,1,6,1\n", "sees 6 rows; 4 are expected"),
    ("0,0,0,4,1\n0,0,1,5,1\n0,0,2,5,1\n", "sees 5 rows; 6 are expected"),
    ("0,0,0,4,1\n0,0,1,3,1\n", "sees 3 rows; 4 are expected"),
    ("0,0,0,4,1\n0,0,0,4,2\n0,0,1,5,1\n", "selects 1 rows; of the 5 that it sees 2 are expected, k being 2"),
    ("1048575,1048575,0,4,1\n", "at most 1048576 streams are expected"),
    ("0,0,0,4,\"1\n", "bad.csv:2"),
)
CONVERT_REFUSED = (
    (("a.kvsel", "--to", "b.kvsel"), "a.kvsel is a .kvsel file already"),
    (("a.kvsel", "--to", "b.bin"), "is expected to end in .csv or .oracleGeneral.bin"),
    (("a.kvsel", "--to", "b.csv", "--row-bytes", "5"), "--row-bytes is of what is written to"),
    (("a.kvsel", "--to", "b.oracleGeneral.bin", "--row-bytes", "0"), "--row-bytes 0 is too small"),
    (("a.kvsel", "--to", "b.csv", "--context-rows", "5"), "--context-rows is of arrays"),
    (("a.kvsel", "--to", "b.csv", "--seed", "5"), "a.kvsel holds selections"),
    (("a.kvsel", "--to", "none/b.csv"), "none/b.csv"),
    (("cut.kvsel", "--to", "b.csv"), "it was cut"),
    (("cut.kvsel", "--to", "b.oracleGeneral.bin"), "it was cut"),
    (("good.csv", "--to", "b.csv"), "is expected to end in .kvsel"),
    (("good.csv", "--to", "b.kvsel", "--context-rows", "5"), "--context-rows is of arrays"),
    (("requests.csv", "--to", "b.csv", "--row-bytes", "5"), "--row-bytes is of selections"),
)


def bad_rows_are_refused_with_their_line(folder):
    recorded(folder)
    (folder / "cut.kvsel").write_bytes((folder / "a.kvsel").read_bytes()[:-1])
    (folder / "good.csv").write_text(HEAD + "0,0,0,4,1\n")
    (folder / "requests.csv").write_text("arrival_s,input_tokens,output_tokens\n1,2,3\n")
    (folder / "bad.csv").write_text("")
    before = support.files_below(folder)
    for lines, says in CSV_REFUSED:
        (folder / "bad.csv").write_text(HEAD + lines)
        sentence = refuses(2, "trace", "convert", "bad.csv", "--to", "x.kvsel", cwd=folder)
        assert says in sentence, (lines, sentence)
        assert support.files_below(folder) == before, lines
    for arguments, says in CONVERT_REFUSED:
        sentence = refuses(3 if "none/b.csv" in arguments else 2, "trace", "convert", *arguments, cwd=folder)
        assert says in sentence, (arguments, sentence)
        assert support.files_below(folder) == before, arguments
    assert "trace convert --to OUT.kvsel" in refuses(2, "trace", "stats", "good.csv", cwd=folder)


# --- What stats says ----------------------------------------------------------------------------------------


def statistics_say_when_rows_come_again_and_where_they_lie(folder):
    rows = recorded(folder)
    said = json.loads(succeeds("trace", "stats", "a.kvsel", "--json", cwd=folder))
    ages, pages = {}, 0
    for layer in range(LAYERS):
        last = {}
        for token in range(TOKENS):
            pages += len({row // 64 for row in rows[token][layer]})
            for row in rows[token][layer]:
                age = token - last.get(row, token)
                name = "never" if age == 0 else "1" if age == 1 else "%d-%d" % (
                    1 << age.bit_length() - 1, (1 << age.bit_length()) - 1)
                ages[name] = ages.get(name, 0) + 1
                last[row] = token
    total = LAYERS * TOKENS * K
    found = said["tokens_since_selected"]
    for name in {**ages, **found}:
        assert abs(found.get(name, 0) - ages.get(name, 0) / total) < 1e-12, (name, found, ages)
    assert said["pages"]["touched_per_row"] == pages / total, said["pages"]
    hot = [said["pages"]["hottest_%d_percent" % share] for share in (1, 10, 50)]
    assert 0 < hot[0] <= hot[1] <= hot[2] <= 1, hot
    depths = list(said["stack_distance_over_k"].values())
    assert depths == sorted(depths) and len(depths) == 3, depths
    laws = said["nearest_laws"]
    assert len({(law["set"], law["preset"]) for law in laws}) == 9, laws
    distances = [law["distance"] for law in laws if law["distance"] is not None]
    assert distances == sorted(distances) and min(distances) >= 0, laws
    text = succeeds("trace", "stats", "a.kvsel", cwd=folder)
    assert "  nearest law     score, set %s, %s; distance %.4f\n" % (
        laws[0]["set"], laws[0]["preset"], distances[0]) in text, text
    assert max(map(len, text.splitlines())) <= 80, text
    recorded(folder, "short.kvsel", tokens=20)
    assert "nearest law     not told" in succeeds("trace", "stats", "short.kvsel", cwd=folder)


# --- The page -------------------------------------------------------------------------------------------------


def blocks(language):
    page = (support.TOP / "docs/kvsel.md").read_text(encoding="utf-8")
    return [block.split("```")[0] for block in page.split("```%s\n" % language)[1:]]


class Engine(http.server.BaseHTTPRequestHandler):
    """Answers as SGLang does: rows of 40 tokens of prompt, and of what was generated."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["return_indexer_topk"] is True and self.path == "/generate", asked
        tokens = asked["sampling_params"]["max_new_tokens"]
        prompt = [[[0] * K] * LAYERS] * CONTEXT
        rows = prompt + selections(tokens=tokens, context=CONTEXT + 1)
        flat = [row for token in rows for layer in token for row in layer]
        told = {"prompt_tokens": CONTEXT,
                "indexer_topk": base64.b64encode(struct.pack("<%di" % len(flat), *flat)).decode()}
        body = json.dumps({"text": "", "meta_info": told}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def the_recorder_of_the_page_records_an_engine(folder):
    (folder / "record.py").write_text(blocks("python")[0])
    (folder / "prompt.txt").write_text("What is where?")
    with http.server.HTTPServer(("127.0.0.1", 0), Engine) as engine:
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        done = subprocess.run((sys.executable, "record.py", "http://127.0.0.1:%d" % engine.server_port, "prompt.txt",
                               "90", str(LAYERS), str(K), "o.npy"), cwd=folder, stdout=subprocess.PIPE,
                              text=True, env={**os.environ, "no_proxy": "127.0.0.1"}, check=True)
        engine.shutdown()
    program, *command = done.stdout.replace("OUT.kvsel", "a.kvsel").split()
    assert program == "kvtide", done.stdout
    succeeds(*command, cwd=folder)
    said = json.loads(succeeds("trace", "stats", "a.kvsel", "--json", cwd=folder))
    assert (said["tokens"], said["visible_rows_min"]) == (90 * LAYERS, CONTEXT + 1), said
    for line in "".join(blocks("sh")).splitlines():
        program, *command = line.split()
        assert program == "kvtide", line
        succeeds(*command, cwd=folder)
    assert (folder / "curves/mrc.csv").is_file()


def the_other_recorder_writes_what_is_read(folder):
    rows = selections()
    (folder / "selections.py").write_text(blocks("python")[1])
    (folder / "use.py").write_text(
        "import json, selections\n"
        "recorder = selections.Recorder('a.csv')\n"
        "for token, layers in enumerate(json.load(open('rows.json'))):\n"
        "    for layer, rows in enumerate(layers):\n"
        "        recorder.selected(0, layer, %d + token, rows + [-1])\n"
        "recorder.close()\n" % CONTEXT)
    (folder / "rows.json").write_text(json.dumps(rows))
    subprocess.run((sys.executable, "use.py"), cwd=folder, check=True)
    succeeds("trace", "convert", "a.csv", "--to", "a.kvsel", cwd=folder)
    recorded(folder, "b.kvsel")
    succeeds("trace", "convert", "a.kvsel", "--to", "back.csv", cwd=folder)
    succeeds("trace", "convert", "b.kvsel", "--to", "same.csv", cwd=folder)
    assert (folder / "back.csv").read_bytes() == (folder / "same.csv").read_bytes()


CASES = (
    the_recorder_of_the_page_records_an_engine,
    the_other_recorder_writes_what_is_read,
    statistics_say_when_rows_come_again_and_where_they_lie,
    rows_are_missed_as_by_an_lru_of_each_layer,
    files_hold_what_is_printed_and_more_files_add_up,
    the_bound_is_named_and_nobody_is_below_it_by_rows,
    the_table_fits_and_threads_change_nothing,
    malformed_questions_leave_nothing,
    memory_does_not_grow_with_tokens,
    an_interrupt_ends_it_and_leaves_nothing,
    rows_as_csv_come_back_as_the_same_file,
    rows_that_are_born_every_fourth_token_come_back,
    accesses_for_libcachesim_say_when_each_comes_next,
    bad_rows_are_refused_with_their_line,
)

if __name__ == "__main__":
    sys.exit(run_cases(CASES))
