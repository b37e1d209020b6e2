"""kvtide trace record, replay and merge: the same decisions from what a run selected, or a sentence."""
import json
import signal
import struct
import subprocess
import sys

from support import KVTIDE, TIMEOUT_S, changed, files_below, goes_on, kvtide, refuses, run_cases, succeeds

# Eight requests of GLM-5.3's 21 stores, 64 rows a query.
GLM = {
    "schema": "kvtide/scenario/1",
    "name": "small",
    "seed": 2385,
    "model": {"base": "glm-5.3", "top_k": 64, "weight_bytes": 1 << 31, "dense_weight_bytes": 1 << 30,
              "weights_replicated_gib": 1, "weights_expert_gib": 1},
    "hardware": "b300",
    "cluster": {"decode": {"gpus": 2, "pools": {"unified_gib": 6}}, "import": {"law": "rate"}},
    "residency": {"policy": "adaptive", "hot_tokens": 256, "refill_gb_per_s": 0.875},
    "selection": {"law": "score"},
    "timing": {"model": "roofline"},
    "workload": {"arrival": "closed", "concurrency": 6, "requests": 8,
                 "lengths": {"input": {"law": "fixed", "tokens": 700},
                             "output": {"law": "lognormal", "mean_tokens": 40, "cv": 0.4}}},
    "run": {"fidelity": "exact", "interval_s": 0.25},
}
HISPARSE = {"residency": {"policy": "hisparse", "hot_tokens": 256}}
# Eight selectors on four stores, three of which gain a row every two tokens.
FLASH = {**HISPARSE, "model.base": "deepseek-v4.1-flash", "selection": {"law": "tape", "tapes": 2, "steps": 32}}
SAMPLED = {"run.fidelity": "sampled", "run.sample_stores": 2}
FEW = {**SAMPLED, "run.sample_requests": 1}
DFLASH2 = {"speculation": {"method": "dflash2"}}
BY_LOAD = {"speculation": {"method": "dflash2", "light_requests": 3, "block": 0, "block_light": 8}}
TREE = {"speculation": {"method": "eagle-tree"}}
DSPARK = {"speculation": {"method": "dspark"}}
# Requests lose their index rows' memory, and come back.
ASIDE = {"cluster.decode.pools": {"index_gib": 0.002, "rows_gib": 0.03},
         "cluster.decode.growth_reserve_gib": 0, "workload.concurrency": 8, "workload.requests": 10,
         "workload.lengths.input.tokens": 100, "workload.lengths.output.mean_tokens": 400}

REPLAYED = (  # what each has beyond the others
    {},
    {**HISPARSE, **DFLASH2},
    {**HISPARSE, **BY_LOAD},
    {**HISPARSE, **TREE, "workload.lengths.input.tokens": 40},  # outgrows 64 rows on the way
    {**HISPARSE, "speculation": {"method": "medusa"}},
    {**HISPARSE, **DFLASH2, "speculation.retrieval": "each_query"},
    {**SAMPLED, **DFLASH2},
    {**HISPARSE, **FEW},  # requests are followed from the middle on
    {**HISPARSE, **FEW, **DFLASH2},
    FLASH,
    {**FLASH, "workload.lengths.input.tokens": 701},  # begins in the middle of a row
    {**FLASH, **DSPARK},
    {**FLASH, **DSPARK, "workload.lengths.input.tokens": 101},
    {**FLASH, **SAMPLED, **DSPARK},
    {"run.duration_s": 0.1},  # cuts everybody
    ASIDE,
    {**ASIDE, "residency": {"policy": "sglang-demote", "hot_tokens": 256}},
)


def written(folder, changes=None, name="scenario.json"):
    path = folder / name
    path.write_text(json.dumps(changed(GLM, changes or {})), encoding="utf-8")
    return path


def recorded(folder, changes=None, name="a.kvsel"):
    """A recording of the small scenario, changed; what was said of it."""
    path = folder / name
    said = succeeds("trace", "record", written(folder, changes), "--to", path, "--json", "--quiet")
    return path, json.loads(said)


def note_of(path):
    data = path.read_bytes()
    at = 64 + 8 * struct.unpack_from("<I", data, 24)[0] * struct.unpack_from("<I", data, 28)[0]
    assert data[at:at + 4] == b"KNOT", data[at:at + 4]
    count = struct.unpack_from("<Q", data, at + 8)[0]
    return json.loads(data[at + 24:at + 24 + count])


# --- Files as docs/kvsel.md has them, so that a note can be another one -----------------------------------------

MASK = (1 << 64) - 1


def link(chain, value):
    x = (0x9e3779b97f4a7c15 * chain + value + 1) & MASK
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & MASK
    return x ^ (x >> 31)


def hashed(chain, data):
    for at in range(0, len(data), 8):
        chain = link(chain, int.from_bytes(data[at:at + 8], "little"))
    return link(chain, len(data))


def with_note(path, to, note):
    """A copy of a recording with another note."""
    data = path.read_bytes()
    at = 64 + 8 * struct.unpack_from("<I", data, 24)[0] * struct.unpack_from("<I", data, 28)[0]
    old = struct.unpack_from("<Q", data, at + 8)[0]
    blocks = at + 24 + old + -old % 8
    text = json.dumps(note).encode()
    head = b"KNOT" + struct.pack("<IQ", 0, len(text))
    checksum = hashed(hashed(0, head), text)
    chain, here = link(0, checksum), blocks
    while data[here:here + 4] == b"KBLK":
        chain = link(chain, struct.unpack_from("<Q", data, here + 24)[0])
        here += 32 + struct.unpack_from("<I", data, here + 20)[0]
    end = data[here:here + 24]
    to.write_bytes(data[:at] + head + struct.pack("<Q", checksum) + text + bytes(-len(text) % 8)
                   + data[blocks:here] + end + struct.pack("<Q", hashed(chain, end)))
    return to


# --- Recording and replaying ------------------------------------------------------------------------------------


def every_run_replays_to_its_own_decisions(folder):
    for changes in REPLAYED:
        path, said = recorded(folder, changes)
        run = json.loads(succeeds("run", folder / "scenario.json", "--json", "--quiet"))
        assert said["decision_hash"] == run["decision_hash"], (changes, said, run["decision_hash"])
        replayed = json.loads(succeeds("trace", "replay", path, "--json", "--quiet"))
        assert replayed["is_same"] and replayed["replayed_hash"] == run["decision_hash"], (changes, replayed)
        for name, both in replayed["metrics"].items():
            assert both["recorded"] == both["replayed"] == run["metrics"][name], (changes, name, both)
    said = succeeds("trace", "replay", path, "--quiet")
    assert said.count(run["decision_hash"]) == 2 and "the same" in said, said


def threads_never_change_a_byte(folder):
    for changes in ({**FLASH, **DSPARK}, {**HISPARSE, **FEW, **DFLASH2}, ASIDE):
        source = written(folder, changes)
        bytes_of = []
        for threads in (1, 2, 4):
            path = folder / ("%d.kvsel" % threads)
            succeeds("trace", "record", source, "--to", path, "--threads", threads, "--quiet")
            bytes_of.append(path.read_bytes())
        assert bytes_of[0] == bytes_of[1] == bytes_of[2], changes


def a_recording_says_what_it_is_of(folder):
    path, said = recorded(folder, ASIDE)
    note = note_of(path)
    run = json.loads(succeeds("run", folder / "scenario.json", "--json", "--quiet"))
    assert note["schema"] == "kvtide/kvsel-note/1" and note["ending"] == "complete"
    assert note["decision_hash"] == run["decision_hash"] and note["scenario"] == run["scenario"]
    assert note["version"] == run["version"] and note["commit"] == run["commit"]
    assert note["stores"] == list(range(21))
    assert len(note["requests"]) == said["recordings"] == 10 + run["metrics"]["preemptions"], said
    first = {}
    for item in note["requests"]:  # who comes back begins behind what he has
        assert item["context_tokens"] > first.get(item["request"], 99), item
        first.setdefault(item["request"], item["context_tokens"])
    assert sorted(first) == list(range(10)) and set(first.values()) == {100}
    stats = json.loads(succeeds("trace", "stats", path, "--json"))
    assert stats["tokens"] == said["tokens"] and stats["selected_rows"] == said["rows"]
    assert said["bytes"] == path.stat().st_size
    assert files_below(folder) == ["a.kvsel", "scenario.json"], files_below(folder)


def what_if_is_told_beside_what_was(folder):
    path, _ = recorded(folder, {**HISPARSE, **DFLASH2})
    changes = ("--set", "replacement=fifo"), ("--set", "residency.hot_tokens=128")
    for change in changes:
        said = json.loads(succeeds("trace", "replay", path, *change, "--json", "--quiet"))
        assert said["is_changed"] and "is_same" not in said, said
        assert said["replayed_hash"] != said["recorded_hash"], said
        ratio = said["metrics"]["hot_miss_ratio"]
        assert ratio["recorded"] != ratio["replayed"], said
    assert ratio["replayed"] > ratio["recorded"], ratio  # a smaller cache
    said = succeeds("trace", "replay", path, *changes[1], "--quiet", "--out", folder / "out")
    assert "hot_miss_ratio" in said and "hashes are not compared" in said and "requests   arrived 8" in said
    result = json.loads((folder / "out/result.json").read_text(encoding="utf-8"))
    assert result["metrics"]["hot_miss_ratio"] == ratio["replayed"]
    assert result["scenario"]["selection"] == {"law": "recorded", "path": str(path), "drafts": "refuse",
                                               "assign": "own"}


def another_hash_is_the_answer_no(folder):
    path, _ = recorded(folder)
    other = with_note(path, folder / "b.kvsel", {**note_of(path), "decision_hash": "0123456789abcdef"})
    done = kvtide("trace", "replay", other, "--quiet")
    assert done.returncode == 1 and "another one" in done.stdout, (done.returncode, done.stdout)
    done = kvtide("trace", "replay", other, "--json", "--quiet")
    assert done.returncode == 1 and json.loads(done.stdout)["is_same"] is False


def what_a_gpu_decided_the_simulator_decides_too(folder):
    path, said = recorded(folder, HISPARSE)
    note = note_of(path)
    note["scenario"]["backend"] = {"name": "cuda"}
    other = with_note(path, folder / "b.kvsel", note)
    replayed = json.loads(succeeds("trace", "replay", other, "--json", "--quiet"))
    assert replayed["is_same"] and replayed["replayed_hash"] == said["decision_hash"], replayed
    note["scenario"]["run"]["clock"] = "measured"
    other = with_note(path, folder / "c.kvsel", note)
    assert "measured" in refuses(2, "trace", "replay", other)


def what_cannot_be_replayed_is_refused(folder):
    path, _ = recorded(folder, HISPARSE)
    for sets, part in (
            ({"workload.requests": 9}, "request 8 is not recorded"),
            ({"workload.lengths.input.tokens": 600}, "request 0 begins with 600 tokens"),
            ({"workload.lengths.output.mean_tokens": 80}, "this run goes further than the one that was recorded"),
            ({"speculation.method": "mtp"}, "holds no rejected drafts"),
            ({"model.top_k": 32}, "holds selections of 64 rows"),
            ({"run.fidelity": "analytic"}, "follows no request")):
        words = [word for item in sets.items() for word in ("--set", "%s=%s" % item)]
        said = refuses(2, "trace", "replay", path, *words, "--quiet", "--out", folder / "out")
        assert part in said, said
        assert not (folder / "out").exists(), files_below(folder)
    few, _ = recorded(folder, {**HISPARSE, **SAMPLED}, "few.kvsel")
    said = refuses(2, "trace", "replay", few, "--fidelity", "exact", "--quiet")
    assert "was not followed" in said, said
    note = note_of(path)
    del note["scenario"]
    assert "has no scenario" in refuses(2, "trace", "replay", with_note(path, folder / "c.kvsel", note))
    other = with_note(path, folder / "d.kvsel", {"schema": "kvtide/kvsel-note/2"})
    assert "\"kvtide/kvsel-note/1\" is expected" in refuses(2, "trace", "replay", other)
    other = with_note(path, folder / "e.kvsel", {**note_of(path), "ending": "interrupted"})
    assert "was interrupted" in refuses(2, "trace", "replay", other)


def what_cannot_be_recorded_is_refused_and_leaves_nothing(folder):
    source = written(folder)
    to = folder / "a.kvsel"
    for words, part in (
            (("--fidelity", "analytic"), "fidelity analytic follows no request"),
            (("--set", "residency.policy=resident"), "residency keeps all history in HBM"),
            (("--set", "run.threads=1"), "unknown key"),
            (("--threads", "0"), "expected 1 to 1024")):
        assert part in refuses(2, "trace", "record", source, "--to", to, "--quiet", *words)
    assert "--to OUT.kvsel is expected" in refuses(2, "trace", "record", source)
    assert "nowhere" in refuses(3, "trace", "record", source, "--to", folder / "nowhere/a.kvsel", "--quiet")
    assert files_below(folder) == ["scenario.json"], files_below(folder)


def a_run_that_is_broken_off_is_recorded_so_far(folder):
    source = written(folder, {"workload.requests": 100000, "run.duration_s": 100000})
    path = folder / "a.kvsel"
    process = subprocess.Popen([KVTIDE, "trace", "record", source, "--to", path, "--quiet"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    goes_on(process, 0.5)
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1 and "interrupted" in said, (process.returncode, complained)
    assert note_of(path)["ending"] == "interrupted"
    assert json.loads(succeeds("trace", "stats", path, "--json"))["tokens"] > 0
    assert "was interrupted" in refuses(2, "trace", "replay", path)
    succeeds("trace", "replay", path, "--set", "run.duration_s=0.05", "--quiet")
    assert files_below(folder) == ["a.kvsel", "scenario.json"], files_below(folder)


# --- Damage -----------------------------------------------------------------------------------------------------


def a_damaged_recording_is_refused_with_its_byte(folder):
    whole, _ = recorded(folder)
    bad = folder / "bad.kvsel"
    data = whole.read_bytes()
    notes = 64 + 8 * struct.unpack_from("<I", data, 24)[0] * struct.unpack_from("<I", data, 28)[0]
    blocks = data.index(b"KBLK", notes)
    cut = [data[:count] for count in (0, 63, notes - 1, notes + 30, blocks + 31, len(data) // 2, len(data) - 1)]
    flips = [data[:at] + bytes([data[at] ^ 16]) + data[at + 1:]
             for at in (9, 70, notes + 200, blocks + 12, blocks + 100, len(data) // 2, len(data) - 5)]
    for damaged in cut + flips + [data + b"\0"]:
        bad.write_bytes(damaged)
        for words in (("replay", bad), ("merge", whole, bad, "--to", folder / "m.kvsel")):
            said = refuses(2, "trace", *words)
            assert "bad.kvsel: byte " in said, said
        assert not (folder / "m.kvsel").exists()


# --- Merging ----------------------------------------------------------------------------------------------------


def merged_recordings_lie_one_after_the_other(folder):
    first, one = recorded(folder, HISPARSE)
    second, two = recorded(folder, {**HISPARSE, "workload.lengths.input.tokens": 650}, "b.kvsel")
    merged = folder / "m.kvsel"
    said = json.loads(succeeds("trace", "merge", first, second, first, "--to", merged, "--json"))
    assert said["requests"] == 2 * one["recordings"] + two["recordings"], said
    assert said["tokens"] == 2 * one["tokens"] + two["tokens"] and said["has_requests"] is False
    stats = json.loads(succeeds("trace", "stats", merged, "--json"))
    assert stats["selected_rows"] == 2 * one["rows"] + two["rows"] and stats["visible_rows_min"] == 651
    assert note_of(merged) == {"schema": "kvtide/kvsel-note/1", "stores": list(range(21))}
    assert "has no scenario" in refuses(2, "trace", "replay", merged)
    own = {"selection": {"law": "recorded", "path": str(merged), "assign": "own"}}
    assert "does not say whose" in refuses(2, "run", written(folder, {**HISPARSE, **own}), "--quiet")


def whose_recordings_are_is_kept_where_no_number_clashes(folder):
    first, one = recorded(folder, HISPARSE)
    second, _ = recorded(folder, {**HISPARSE, "workload.lengths.input.tokens": 650}, "b.kvsel")
    note = note_of(second)
    for item in note["requests"]:
        item["request"] += 100
    merged = folder / "m.kvsel"
    other = with_note(second, folder / "c.kvsel", note)
    said = json.loads(succeeds("trace", "merge", other, first, "--to", merged, "--json"))
    assert said["has_requests"] is True, said
    assert note_of(merged)["requests"] == note["requests"] + note_of(first)["requests"]
    assert "scenario" not in note_of(merged) and "decision_hash" not in note_of(merged)
    own = {"selection": {"law": "recorded", "path": str(merged), "assign": "own"}}
    run = json.loads(succeeds("run", written(folder, {**HISPARSE, **own}), "--json", "--quiet"))
    assert run["decision_hash"] == one["decision_hash"], run["decision_hash"]


def shapes_that_differ_are_not_merged(folder):
    first, _ = recorded(folder, HISPARSE)
    merged = folder / "m.kvsel"
    for changes, part in (
            ({**HISPARSE, **DFLASH2}, "1 rejected drafts of 7 tokens"),
            (FLASH, "64 rows a selection of 8 selectors"),
            ({**HISPARSE, "model.top_k": 32}, "32 rows a selection of 21 selectors")):
        other, _ = recorded(folder, changes, "b.kvsel")
        said = refuses(2, "trace", "merge", first, other, "--to", merged)
        assert "b.kvsel: " in said and part in said, said
        assert not merged.exists()
    assert "is a file that is read" in refuses(2, "trace", "merge", first, other, "--to", other)
    assert "--to OUT.kvsel is expected" in refuses(2, "trace", "merge", first, other)
    assert "merge takes two files or more" in refuses(2, "trace", "merge", first, "--to", merged)


CASES = (
    every_run_replays_to_its_own_decisions,
    threads_never_change_a_byte,
    a_recording_says_what_it_is_of,
    what_if_is_told_beside_what_was,
    another_hash_is_the_answer_no,
    what_a_gpu_decided_the_simulator_decides_too,
    what_cannot_be_replayed_is_refused,
    what_cannot_be_recorded_is_refused_and_leaves_nothing,
    a_run_that_is_broken_off_is_recorded_so_far,
    a_damaged_recording_is_refused_with_its_byte,
    merged_recordings_lie_one_after_the_other,
    whose_recordings_are_is_kept_where_no_number_clashes,
    shapes_that_differ_are_not_merged,
)

if __name__ == "__main__":
    sys.exit(run_cases(CASES))
