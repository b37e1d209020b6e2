"""The hour of docs/writing-a-policy.md, command by command, from what an installation holds.

The page's folder is empty but for what its commands put there; the program is found by its name.
"""
import os
import pathlib
import re
import subprocess
import sys

import support

PAGE = support.TOP / "docs/writing-a-policy.md"
EXAMPLE = support.TOP / "policies/example/hot_pages.c"
STAGE = pathlib.Path(os.environ.get("KVT_STAGE", ""))  # as `scons install` lays it out, below PREFIX


def blocks(kind):
    """The page's commands, in order: blocks marked `sh` and, where asked for, a word behind it."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```sh%s\n(.*?)^```" % kind, text, re.MULTILINE | re.DOTALL)
    return [line for block in found for line in block.splitlines()]


def run(line, folder):
    names = {**os.environ, "PREFIX": str(STAGE), "PATH": "%s:%s" % (STAGE / "bin", os.environ["PATH"])}
    return subprocess.run(line, shell=True, cwd=folder, env=names, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=support.TIMEOUT_S)


def shorter(line):
    """The same command of fewer requests, seeds and tapes, where the page states nothing of what comes out: all
    that it names is there, and runs."""
    if "--presets" in line:
        return line.replace("--seeds 3", "--seeds 1") + " --set workload.requests=16 --set selection.tapes=2"
    if " run policy-lab" in line:
        return line + " --set workload.requests=16"
    return line.replace("workload.requests=4", "workload.requests=2")


def release_only():
    if "release" != os.environ.get("KVT_VARIANT", "release"):
        raise support.Skip("a plug-in is built without the sanitizers of this variant, and runs for minutes")


def the_hour_runs_from_an_empty_folder(folder):
    release_only()
    commands = blocks("")
    assert len(commands) > 8, "the page shows no commands"
    for line in commands:
        done = run(shorter(line), folder)
        assert done.returncode == 0, "%s: status %d\n%s" % (line, done.returncode, done.stdout)
    assert (folder / "two/result.json").exists()


def commands_for_a_gpu_name_what_is_there(folder):
    commands = blocks(" gpu")
    assert commands, "the page shows no commands for a GPU"
    for line in commands:
        for word in re.findall(r"validation/\S+", line):
            assert (support.TOP / word).exists(), line


def the_example_is_as_short_as_the_page_says(_):
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 120


CASES = (
    the_hour_runs_from_an_empty_folder,
    commands_for_a_gpu_name_what_is_there,
    the_example_is_as_short_as_the_page_says,
)

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
