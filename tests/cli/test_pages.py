"""Pages of docs/ that show commands and what they print: both are held to the program.

A block marked `sh` is run by a shell, in one folder for the whole page, with `kvtide` on its path.
A block marked `text` right behind it holds lines of what that printed, in order, up to blanks; "..."
stands for any lines between. `sh slow` is run where KVT_SLOW is set. The folder has links to what a page
takes from a checkout.
"""
import os
import pathlib
import re
import subprocess
import sys

import support
from support import KVTIDE, TOP

PAGES = ("docs/questions.md", "docs/tutorial-validation.md")
CHECKOUT = ("models", "policies", "validation")
BLOCK = re.compile(r"^```sh( slow)?\n(.*?)^```\n(?:\s*^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def on_path(folder):
    """A folder in which the program has its name, for the shell's path."""
    names = folder / "path"
    names.mkdir()
    (names / "kvtide").symlink_to(os.path.realpath(KVTIDE))
    return {**os.environ, "PATH": "%s:%s" % (names, os.environ["PATH"]), "LC_ALL": "C.UTF-8"}


def squeezed(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def not_printed(shown, printed):
    """The first line of the page that the program did not print behind the one before it; or None."""
    lines = iter(squeezed(printed))
    for wanted in squeezed(shown):
        if wanted in ("", "..."):
            continue
        if not any(line == wanted for line in lines):
            return wanted
    return None


def page_faults(page, folder):
    work = folder / "work"
    work.mkdir()
    for name in CHECKOUT:
        (work / name).symlink_to(TOP / name)
    environment, faults, run = on_path(folder), [], 0
    for slow, commands, shown in BLOCK.findall((TOP / page).read_text(encoding="utf-8")):
        if slow and not os.environ.get("KVT_SLOW"):
            continue
        done = subprocess.run(("bash", "-eu", "-o", "pipefail", "-c", commands), cwd=work, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=support.TIMEOUT_S)
        run += 1
        if done.returncode != 0:
            faults.append("%s\nstatus %d: %s" % (commands, done.returncode, done.stderr))
            continue
        missing = not_printed(shown, done.stdout)
        if missing is not None:
            faults.append("%s\nthe page shows %r; printed was\n%s" % (commands, missing, done.stdout))
    assert run > 0, "%s shows no commands" % page
    return faults


def case_of(page):
    def case(folder):
        faults = page_faults(page, pathlib.Path(folder))
        assert not faults, "%s:\n%s" % (page, "\n".join(faults))
    case.__name__ = "commands_of_%s_print_what_it_shows" % pathlib.Path(page).stem.replace("-", "_")
    return case


def what_a_page_shows_is_looked_for_in_order(_):
    printed = "a  1\nb 2\nc 3\n"
    assert not_printed("a 1\n...\nc   3\n", printed) is None
    assert not_printed("c 3\na 1\n", printed) == "a 1"
    assert not_printed("a 1\nb 3\n", printed) == "b 3"


CASES = (what_a_page_shows_is_looked_for_in_order, *map(case_of, PAGES))

if __name__ == "__main__":
    sys.exit(support.run_cases(CASES))
