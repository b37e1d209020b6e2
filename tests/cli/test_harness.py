"""The harness counts what tests say of themselves, and believes how they ended."""
import os
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
HARNESS = str(TOP / "tests/harness.py")

# What a test prints and how it ends; the word and the counts that must come of it.
CASES = (
    ("100%: Checks: 3, Failures: 0, Errors: 0", 0, "ok", "3 passed, 0 failed, 0 skipped"),
    ("33%: Checks: 3, Failures: 1, Errors: 1", 1, "FAIL", "1 passed, 2 failed, 0 skipped"),
    ("5 passed, 0 failed", 0, "ok", "5 passed, 0 failed, 0 skipped"),
    ("5 passed, 1 failed, 2 skipped", 1, "FAIL", "5 passed, 1 failed, 2 skipped"),
    ("5 passed, 1 failed", 0, "FAIL", "5 passed, 1 failed, 0 skipped"),
    ("0 passed, 0 failed, 2 skipped", 0, "skip", "0 passed, 0 failed, 2 skipped"),
    ("no device here", 77, "skip", "0 passed, 0 failed, 1 skipped"),
    # A leak found at exit, a crash before the end, an empty suite.
    ("100%: Checks: 3, Failures: 0, Errors: 0", 23, "FAIL", "3 passed, 1 failed, 0 skipped"),
    ("half a", 139, "FAIL", "0 passed, 1 failed, 0 skipped"),
    ("100%: Checks: 0, Failures: 0, Errors: 0", 0, "FAIL", "0 passed, 1 failed, 0 skipped"),
)


def run(folder, number, line, status):
    """One fake test through `harness.py run`: what was printed, and the result file."""
    result, log = folder / ("%d.result" % number), folder / ("%d.log" % number)
    plain = {k: v for k, v in os.environ.items() if not k.startswith("CK_")}
    done = subprocess.run(
        (sys.executable, HARNESS, "run", "fake", result, log, "--",
         "sh", "-c", 'echo "$0"; exit "$1"', line, str(status)),
        env=plain, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, "run must not fail the build: the other tests would not run"
    return done.stdout, result


def main():
    faults = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results = []
        for number, (line, status, word, counts) in enumerate(CASES):
            printed, result = run(folder, number, line, status)
            results.append(result)
            if not printed.startswith(word) or result.read_text() != counts + "\n":
                faults.append("%r, status %d: %s%s" % (line, status, printed, result.read_text()))
        for chosen, status, line in ((results, 1, "22 passed, 7 failed, 5 skipped\n"),
                                     (results[:1], 0, "3 passed, 0 failed, 0 skipped\n")):
            done = subprocess.run((sys.executable, HARNESS, "total", *chosen),
                                  stdout=subprocess.PIPE, text=True)
            if (done.returncode, done.stdout) != (status, line):
                faults.append("total: status %d: %s" % (done.returncode, done.stdout))
    for fault in faults:
        print("failed: " + fault)
    print("%d passed, %d failed" % (len(CASES) + 2 - len(faults), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
