"""kvtide validate --suite public: published measurements, each with what its setting does not say."""
import json
import os
import sys

import support
from support import TOP, refuses, succeeds

SHARE = TOP / "build" / "share" / "kvt"


def with_public(folder, **settings):
    """A data folder like the real one, with these published settings alone."""
    for name in ("models", "scenarios", "schema"):
        (folder / name).symlink_to((SHARE / name).resolve())
    (folder / "public").mkdir()
    for name, setting in settings.items():
        text = json.dumps({"schema": "kvtide/public/1", "name": name, "summary": "made up",
                           "source": "nobody", "unknown": ["everything"], **setting})
        (folder / "public" / (name + ".json")).write_text(text, encoding="utf-8")
    return {**os.environ, "KVT_DATA": str(folder)}


def point(name, concurrency, measured):
    return {"name": name, "sets": ["workload.concurrency=%d" % concurrency],
            "measured": {"output_throughput": measured}}


def two_points(measured, claims):
    return {"scenario": support.changed(support.TINY, {"run.fidelity": "exact"}),
            "points": [point("one", 1, 1), point("six", 6, measured)], "claims": claims}


def what_holds_is_told_and_decides(folder):
    """One request at a time is slower than six; that it is ten times slower is not true."""
    claims = [{"kind": "order", "metric": "output_throughput", "points": ["one", "six"],
               "says": "more is more"},
              {"kind": "ratio", "metric": "output_throughput", "of": "six", "over": "one",
               "least": 1, "most": 9, "says": "by some"},
              {"kind": "number", "metric": "output_throughput", "tolerance": 0.25}]
    env = with_public(folder, good=two_points(5, claims), bad=two_points(5, [
        {**claims[1], "least": 50, "most": 99}]))
    done = support.kvtide("validate", "--suite", "public", "good", "--json", "--quiet", env=env)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["claims"], result["holding"], result["numbers"]) == (2, 2, 2), result
    setting = result["settings"][0]
    assert setting["unknown"] == ["everything"] and setting["source"] == "nobody", setting
    ours = [each["values"]["output_throughput"]["ours"] for each in setting["points"]]
    single = json.loads(succeeds("run", support.tiny(folder, changes={
        "run.fidelity": "exact", "workload.concurrency": 6}), "--json", "--quiet"))
    assert ours[1] == single["metrics"]["output_throughput"] > ours[0] > 0, ours
    assert result["badge"]["engine"] == "in order", result["badge"]
    done = support.kvtide("validate", "--suite", "public", "--json", "--quiet", env=env)
    assert done.returncode == 1 and not json.loads(done.stdout)["good"], done.stdout
    text = support.kvtide("validate", "--suite", "public", "--quiet", env=env).stdout
    assert "ratio: by some (six / one): measured 5.00, ours" in text, text
    assert "DOES NOT HOLD" in text and "1 of 2 published" not in text, text


def every_shipped_setting_is_sound_and_names_what_is_unknown(folder):
    """None is run here: they take half a minute; docs/validation.md has what they say."""
    del folder
    files = sorted((TOP / "validation" / "public").glob("*.json"))
    assert len(files) >= 4, files
    for path in files:
        setting = json.loads(path.read_text(encoding="utf-8"))
        assert setting["name"] == path.stem and setting["unknown"] and setting["source"], path
        assert succeeds("check", path) == "%s: ok (published measurement)\n" % path
    result = json.loads(succeeds("validate", "--suite", "public", "not-run", "--json", "--quiet"))
    assert result["claims"] == 0 and len(result["settings"][0]["unknown"]) >= 8, result


def names_and_options_that_mean_nothing_are_refused(folder):
    del folder
    for arguments, words in (
            (("nobody",), 'validate --suite public: "nobody": no such published setting; there are: '
                          'not-run, '),
            (("not-run", "--backend", "sim"), "takes runs of the simulator"),
            (("not-run", "--seeds", "2"), "runs each point once"),
            (("not-run", "--quick"), "--quick and --shard go with"),
            (("not-run", "--steps", "3"), "--steps goes with a scenario")):
        sentence = refuses(2, "validate", "--suite", "public", *arguments)
        assert words in sentence, (arguments, sentence)


CASES = (
    what_holds_is_told_and_decides,
    every_shipped_setting_is_sound_and_names_what_is_unknown,
    names_and_options_that_mean_nothing_are_refused,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
