"""Pages of docs/ that show commands and what they print: both are held to the program.

A block marked `sh` is run by a shell, in one folder for the whole page, with `kvtide` on its path; blocks marked
`python`, `r` and `sql` by Python with pandas, by R, by DuckDB. A block marked `text` right behind one holds lines of
what that printed, in order, up to blanks; "..." stands for any lines between. `sh slow` is run where KVT_SLOW is
set. The folder has links to what a page takes from a checkout.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import support
from support import KVTIDE, TOP, Skip

PAGES = ("docs/questions.md", "docs/results-elsewhere.md", "docs/tutorial-planning.md", "docs/tutorial-validation.md")
CHECKOUT = ("models", "policies", "validation")
BLOCK = re.compile(r"^```(sh|python|r|sql)( slow)?\n(.*?)^```\n(?:\s*^```text\n(.*?)^```\n)?",
                   re.MULTILINE | re.DOTALL)
# Where tests/SConscript puts DuckDB, or why it could not.
NODE = pathlib.Path(os.environ.get("KVT_NODE", TOP / "build/tests/node"))


def on_path(folder):
    """A folder in which the program has its name, for the shell's path."""
    names = folder / "path"
    names.mkdir()
    (names / "kvtide").symlink_to(os.path.realpath(KVTIDE))
    return {**os.environ, "PATH": "%s:%s" % (names, os.environ["PATH"]), "LC_ALL": "C.UTF-8"}


def python_with_pandas():
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run((python, "-c", "import pandas"), stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            return [python, "-c"]
    raise Skip("no pandas here (Debian package: python3-pandas)")


def r_script():
    if shutil.which("Rscript") is None:
        raise Skip("no R here (Debian package: r-base-core)")
    return ["Rscript", "-e"]


def duckdb():
    if not (NODE / "node_modules/@duckdb").is_dir():
        why = NODE / "fetched"
        raise Skip("no DuckDB here (npm package: @duckdb/node-api)%s" % (
            ": " + why.read_text(encoding="utf-8").strip() if why.is_file() else ""))
    return ["node", str(NODE / "duckdb.mjs")]


def interpreters(languages):
    """The command that runs a block of each of the languages; Skip where one is not here."""
    known = {"sh": lambda: ["bash", "-eu", "-o", "pipefail", "-c"], "python": python_with_pandas, "r": r_script,
             "sql": duckdb}
    return {language: known[language]() for language in sorted(languages)}


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
    blocks = BLOCK.findall((TOP / page).read_text(encoding="utf-8"))
    by_language = interpreters({block[0] for block in blocks})
    for language, slow, commands, shown in blocks:
        if slow and not os.environ.get("KVT_SLOW"):
            continue
        done = subprocess.run((*by_language[language], commands), cwd=work, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=support.TIMEOUT_S)
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
