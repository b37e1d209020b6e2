"""kvtide trace: what it counts, what it converts, and what it refuses without a file left."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import support

TOP = pathlib.Path(__file__).resolve().parents[2]
KVTIDE = os.path.abspath(os.environ.get("KVTIDE", TOP / "build/kvtide"))
SAMPLES = TOP / "tests/unit/data/traces"
CONVERTED = ("kvtide.csv mooncake.jsonl azure2023.csv azure2024.csv burstgpt3.csv qwen-bailian.jsonl"
             " client-trace.csv llmservingsim.jsonl"
             " llmservingsim-conversation.jsonl vidur.csv splitwise.csv vllm.json apex.jsonl"
             " ragpulse/0_trace.jsonl mooncake-delays.jsonl aiperf.jsonl weka.jsonl guidellm.json"
             " blis.csv blis-growing.csv sglang-burst.jsonl burstgpt-without-fails.csv")
MIXED = "arrival_s,input_tokens,output_tokens,slo_class\n5,40,2,\"a, \"\"b\"\"\"\n3,0,9,\n4.25,10,1,c\n"

REFUSED = (  # arguments; what stderr says
    (("stats",), "trace stats: 0 arguments given; usage: kvtide trace stats FILE.."),
    ((), "trace: an action comes first; there are: stats convert"),
    (("--json", "stats", "mixed.csv"), "trace: an action comes first"),
    (("weigh", "x"), "no action weigh; there are: stats convert record replay merge mrc"),
    (("merge", "x"), "trace merge: --to OUT.kvsel is expected"),
    (("merge", "x", "--to", "y.kvsel"), "merge takes two files or more; one is given"),
    (("merge", "x", "x", "--to", "y.csv"), "--to y.csv is expected to end in .kvsel"),
    (("record", "quickstart", "--to", "y.csv"), "--to y.csv is expected to end in .kvsel"),
    (("stats", "none.csv"), "none.csv: the file cannot be opened: No such file"),
    (("stats", "none.kvsel", "mixed.csv"), "none.kvsel: the file cannot be opened: No such file"),
    (("convert", "none.npy", "--to", "x.kvsel"), "none.npy: the file cannot be opened: No such file"),
    (("convert", "none.kvsel", "--to", "x.csv", "--row-bytes", "3"),
     "none.kvsel: the file cannot be opened: No such file"),
    (("stats", "mixed.csv", "--to", "x.csv"), "trace stats: no option --to; kvtide trace stats --help lists them"),
    (("stats", "mixed.csv", "--window", "7"), "is no window"),
    (("stats", "mixed.csv", "--window", "7:"), "no row of this trace is used: 3 read"),
    (("stats", "mixed.csv", "--rate-scale", "0"), "--rate-scale"),
    (("stats", "mixed.csv", "--format", "mooncake"), "format mooncake is JSON"),
    (("convert", "mixed.csv"), "--to OUT.csv"),
    (("convert", "mixed.csv", "mixed.csv", "--to", "x.csv"), "trace convert: 2 arguments given"),
    (("convert", "bad.csv", "--to", "x.csv"), "bad.csv:2:2"),
    (("convert", "mixed.csv", "--to", "none/x.csv"), "none/x.csv"),
    (("convert", "mixed.csv", "--to", "x.csv", "--context-rows", "7"), "--context-rows is of"),
    (("stats", "mixed.csv", "--context-rows", "7"), "trace stats: no option --context-rows"),
    (("stats", "rows.npy"), "rows.npy is a NumPy array; trace convert"),
    (("convert", "rows.npy"), "--to OUT.csv (OUT.kvsel of selections)"),
    (("convert", "rows.npy", "--to", "x.kvsel", "--window", "1:2"), "rows.npy holds selections"),
    (("convert", "rows.npy", "--to", "x.kvsel", "--context-rows", "3"), "it sees 3 rows"),
    (("convert", "rows.npy", "--to", "x.kvsel", "--context-rows", "5000000000"), "is too large"),
    (("convert", "rows.npy", "--to", "none/x.kvsel"), "none/x.kvsel"),
    (("convert", "cut.npy", "--to", "x.kvsel"), "cut.npy: 0 bytes of numbers"),
    (("convert", "rows.npy", "--to", "x.csv"), "--to x.csv is expected to end in .kvsel"),
    (("convert", "rubbish.npy", "--to", "x.kvsel"), "does not begin as a NumPy file does"),
    (("stats", "cut.kvsel"), "cut.kvsel: byte 8: the file ends before its end; it was cut"),
    (("stats", "cut.kvsel", "--seed", "0"), "cut.kvsel holds selections"),
    (("stats", "cut.kvsel", "mixed.csv"), "one kind at a time"),
    (("convert", "cut.kvsel", "--to", "x.kvsel"), "cut.kvsel is a .kvsel file already"),
    (("convert", "mixed.csv", "--to", "mixed.csv"), "is the file that is read"),
    (("convert", "mixed.csv", "--to", "linked.csv"), "is the file that is read"),
    (("convert", "rows.npy", "--to", "rows.kvsel"), "--to rows.kvsel is the file that is read"),
    (("convert", "rows.npy", "--to", "x.kvsel", "--context-rows", "0"), "--context-rows 0 is too small"),
    (("convert", "mixed.csv", "--to", "x.csv", "--context-rows", "0"), "--context-rows is of"),
    (("stats", "prefix.csv"), "prefix.csv:3: a prefix of 101 tokens in a prompt of 100"),
    (("convert", "large.npy", "--to", "x.kvsel"), "large.npy: 1099511627776 tokens; 1 to"),
    (("stats", "pipe"), "pipe: this is not an ordinary file"),
    (("convert", "pipe", "--to", "x.csv"), "pipe: this is not an ordinary file"),
    (("convert", "pipe.npy", "--to", "x.kvsel"), "pipe.npy"),
)
ROWS = [[list(range(t, t + 4)), [-1] * 4, list(range(2, 6))] for t in range(100)]


def trace(folder, *arguments):
    return subprocess.run((KVTIDE, "trace", *map(str, arguments)), cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def counts_and_lengths(folder):
    done = trace(folder, "stats", "mixed.csv", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["rows_read"] == 3 and said["used"] == 2 and said["requests"] == 2, said
    assert said["dropped"] == {"zero_input": 1, "zero_output": 0, "failed": 0,
                               "outside_window": 0, "idle": 0}, said
    assert said["rows_read"] == said["used"] + sum(said["dropped"].values())
    assert (said["rebased_s"], said["span_s"], said["out_of_order_rows"]) == (4.25, 0.75, 1), said
    assert said["mean_rate_per_s"] == 1 / 0.75, said
    assert said["input_tokens"]["mean"] == 25 and said["input_tokens"]["max"] == 40, said
    assert said["longest_context_tokens"] == 42, said


def several_files_are_an_array(folder):
    done = trace(folder, "stats", "mixed.csv", SAMPLES / "mooncake.jsonl", "--json")
    assert [item["format"] for item in json.loads(done.stdout)] == ["kvtide", "mooncake"]


def text_says_the_same(folder):
    done = trace(folder, "stats", "mixed.csv")
    assert "3 = 2 used + 1 zero_input" in done.stdout, done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def classes_survive_quoting(folder):
    done = trace(folder, "convert", "mixed.csv", "--to", "out.csv", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stderr
    rows = (folder / "out.csv").read_text().splitlines()
    assert rows[1:] == ["0,10,1,,,,,,c,,", "0.75,40,2,,,,,,\"a, \"\"b\"\"\",,"], rows


def what_is_not_simulated_or_carried_over_is_said(folder):
    sample = SAMPLES / "kvtide.csv"
    lost = ["tenant"]
    assert json.loads(trace(folder, "stats", sample, "--json").stdout)["unused"] == lost
    said = trace(folder, "stats", sample).stdout
    assert "  not used here   tenant\n" in said, said
    assert max(len(line) for line in said.splitlines()[1:]) <= 80, said
    done = trace(folder, "convert", sample, "--to", "a.csv")
    assert "a.csv: not carried over: %s\n" % ", ".join(lost) in done.stderr, done.stderr
    rows = (folder / "a.csv").read_text().splitlines()
    assert rows[3].startswith("1.5,64,1,7,1,") and rows[3].endswith(",64,1.25,chat,,qa"), rows
    done = trace(folder, "convert", "a.csv", "--to", "b.csv")
    assert "not carried over" not in done.stderr, done.stderr
    assert json.loads(trace(folder, "stats", "mixed.csv", "--json").stdout)["unused"] == []


def prefixes_of(folder, name):
    return json.loads(trace(folder, "stats", name, "--json").stdout)["prefixes"]


def what_prompts_share_is_counted(folder):
    """Of 1,300, 512 and 513 tokens: 7 pages of the second are in block 0, 8 of the third."""
    sample = SAMPLES / "mooncake.jsonl"
    assert prefixes_of(folder, sample) == {
        "requests": 3, "hash_ids_requests": 3, "pages": 20 + 8 + 8,
        "found_share": 15 * 64 / (1300 + 512 + 513), "counted_share": 1}
    said = trace(folder, "stats", sample).stdout
    assert ("  known prompts   3 requests, 3 with hash_ids; 36 pages of 64 tokens\n"
            "  found again     41.3 % of prompt tokens, were nothing ever lost\n") in said, said
    # Nothing is known of these.
    assert prefixes_of(folder, "mixed.csv")["requests"] == 0
    assert "found again" not in trace(folder, "stats", "mixed.csv").stdout
    # Sorted rows keep no hash ids: that would take memory by the page.
    (folder / "back.jsonl").write_text("".join(reversed(sample.read_text().splitlines(True))))
    said = prefixes_of(folder, "back.jsonl")
    assert (said["hash_ids_requests"], said["found_share"]) == (3, None), said
    assert "not counted: sort the file" in trace(folder, "stats", "back.jsonl").stdout


def sharing_of_more_pages_than_are_kept_is_estimated(folder):
    """40 conversations of 100,000 pages and then 200,000, of which the first half is there: 8 million
    pages, of which every fourth is kept."""
    rows = ["%d,%d,64,%d" % (40 * t + s, 6400000 * (t + 1) - 64 * (1 - t), s)
            for t in range(2) for s in range(40)]
    (folder / "long.csv").write_text("arrival_s,input_tokens,output_tokens,session_id\n"
                                     + "\n".join(rows) + "\n")
    said = prefixes_of(folder, "long.csv")
    exact = 40 * 6400000 / sum(int(row.split(",")[1]) for row in rows)
    assert said["pages"] == 40 * (99999 + 200000) and said["counted_share"] == 0.25, said
    assert abs(said["found_share"] / exact - 1) < 0.004 and said["found_share"] != exact, said
    assert "about 33.4 % of prompt tokens, were" in trace(folder, "stats", "long.csv").stdout


def converted_files_convert_to_themselves(folder):
    for name in CONVERTED.split():
        assert trace(folder, "convert", SAMPLES / name, "--to", "a.csv").returncode == 0, name
        assert trace(folder, "convert", "a.csv", "--to", "b.csv").returncode == 0, name
        assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes(), name


def selections_of_an_engine_are_converted_and_counted(folder):
    done = trace(folder, "convert", "rows.npy", "--to", "a.kvsel")
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert ("a.kvsel: 100 tokens of 2 layers, 4 rows each; the first token sees 6 rows, "
            "the fewest that fit\na.kvsel: left out: 1 of 3 layers, all of them -1\n"
            == done.stderr), done.stderr
    said = json.loads(trace(folder, "stats", "a.kvsel", "--json").stdout)
    assert (said["format"], said["selectors"], said["top_k"]) == ("kvsel", 2, 4), said
    assert (said["tokens"], said["selected_rows"]) == (200, 800), said
    assert (said["visible_rows_min"], said["visible_rows_max"]) == (6, 105), said
    # One layer moves on by a row a token, the other never.
    assert said["overlap_by_lag"] == {"1": 0.875, "2": 0.75, "4": 0.5, "8": 0.5, "16": 0.5,
                                      "32": 0.5, "63": 0.5}, said
    assert said["union_by_selections"]["8"] == (11 / 4 + 1) / 2, said
    again = trace(folder, "convert", "rows.npy", "--to", "b.kvsel", "--context-rows", "50",
                  "--quiet")
    assert (again.returncode, again.stderr) == (0, ""), again.stderr
    several = json.loads(trace(folder, "stats", "a.kvsel", "b.kvsel", "--json").stdout)
    assert [item["visible_rows_max"] for item in several] == [105, 149], several
    text = trace(folder, "stats", "b.kvsel").stdout
    assert "  k               4 of 50 to 149 visible rows\n" in text, text
    assert max(map(len, text.splitlines())) <= 80, text


def malformed_questions_leave_nothing(folder):
    for arguments, says in REFUSED:
        before = sorted(folder.iterdir())
        done = trace(folder, *arguments)
        # A folder that is not there cannot be written in: that is the machine's.
        expected = 3 if arguments and arguments[-1].startswith("none/") else 2
        assert done.returncode == expected, (arguments, done.returncode)
        assert says in done.stderr and done.stderr.count("\n") == 1, (arguments, done.stderr)
        assert done.stdout == "" and sorted(folder.iterdir()) == before, arguments


CHECKS = (counts_and_lengths, several_files_are_an_array, text_says_the_same,
          classes_survive_quoting, what_is_not_simulated_or_carried_over_is_said,
          what_prompts_share_is_counted, sharing_of_more_pages_than_are_kept_is_estimated,
          converted_files_convert_to_themselves,
          selections_of_an_engine_are_converted_and_counted, malformed_questions_leave_nothing)


def main():
    failed = 0
    for check in CHECKS:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "mixed.csv").write_text(MIXED)
            (folder / "bad.csv").write_text("arrival_s,input_tokens,output_tokens\n1,1.5,2\n")
            array = support.npy(ROWS, (100, 3, 4))
            (folder / "rows.npy").write_bytes(array)
            os.link(folder / "rows.npy", folder / "rows.kvsel")
            os.symlink("mixed.csv", folder / "linked.csv")
            os.mkfifo(folder / "pipe")  # that nobody writes to
            os.mkfifo(folder / "pipe.npy")
            (folder / "large.npy").write_bytes(support.npy([], (1 << 40, 1 << 20, 4)))
            (folder / "prefix.csv").write_text(
                "arrival_s,input_tokens,output_tokens,prefix_group,prefix_tokens\n"
                "1,100,5,a,100\n2,100,5,a,101\n")
            (folder / "cut.npy").write_bytes(array[:128])
            (folder / "rubbish.npy").write_bytes(b"rubbish")
            (folder / "cut.kvsel").write_bytes(b"\x89KVSEL\r\n")
            try:
                check(folder)
            except AssertionError as fault:
                print("failed: %s: %s" % (check.__name__, fault))
                failed += 1
    print("%d passed, %d failed" % (len(CHECKS) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
