"""Run one test and keep its counts; add the counts of all.

    harness.py run NAME RESULT LOG -- COMMAND...
    harness.py total RESULT...

A test says how it went in its closing line: Check's own ("100%: Checks: 3, Failures: 0,
Errors: 0") or "3 passed, 0 failed, 0 skipped". Exit status 77 skips the test as a whole. `run`
never fails the build, so that every test runs; `total` does.
"""
import os
import re
import signal
import subprocess
import sys
import time

TIMEOUT_S = 600
SKIPPED = 77
CHECK_LINE = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$")
PLAIN_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


def counts_in(line):
    """(passed, failed, skipped) of a closing line; None of any other."""
    check = CHECK_LINE.match(line)
    if check:
        checks, failures, errors = map(int, check.groups())
        return checks - failures - errors, failures + errors, 0
    plain = PLAIN_LINE.match(line)
    if plain:
        return tuple(int(number or 0) for number in plain.groups())
    return None


def closing(output):
    """The last closing line and its counts."""
    for line in reversed(output.splitlines()):
        counts = counts_in(line.strip())
        if counts:
            return line.strip(), counts
    return None, (0, 0, 0)


def execute(command, log_path):
    """Run command in a process group of its own, output into the log; its exit status, or None."""
    with open(log_path, "wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            return process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def judge(status, output):
    """(closing line, counts): what the test says of itself, corrected by how it ended."""
    line, (passed, failed, skipped) = closing(output)
    chosen = any(name.startswith(("CK_RUN_", "CK_INCLUDE_", "CK_EXCLUDE_")) for name in os.environ)
    if status == SKIPPED:
        return (output.splitlines() or ["skipped"])[-1], (0, 0, 1)
    if status is None:
        return "still running after %d s" % TIMEOUT_S, (passed, failed + 1, skipped)
    if line is None:
        return "no closing line, exit status %d" % status, (0, 1, 0)
    if status != 0 and failed == 0:
        return "%s; but exit status %d" % (line, status), (passed, 1, skipped)
    if passed + failed + skipped == 0 and not chosen:
        return line + "; a test that checks nothing", (0, 1, 0)
    return line, (passed, failed, skipped)


def run(name, result_path, log_path, command):
    started = time.monotonic()
    status = execute(command, log_path)
    seconds = time.monotonic() - started
    with open(log_path, encoding="utf-8", errors="replace") as log:
        output = log.read()
    line, counts = judge(status, output)
    word = "FAIL" if counts[1] else "skip" if not counts[0] and counts[2] else "ok"
    report = "%-4s  %s: %s (%.1f s)\n" % (word, name, line, seconds)
    if counts[1]:
        report += "".join("      | %s\n" % text for text in output.splitlines())
    with open(result_path, "w", encoding="utf-8") as result:
        result.write("%d passed, %d failed, %d skipped\n" % counts)
    # One write, so that tests running side by side do not mix their lines.
    sys.stdout.write(report)
    sys.stdout.flush()


def total(result_paths):
    sums = [0, 0, 0]
    for path in result_paths:
        with open(path, encoding="utf-8") as result:
            sums = [a + b for a, b in zip(sums, counts_in(result.read().strip()))]
    print("%d passed, %d failed, %d skipped" % tuple(sums), flush=True)
    return 1 if sums[1] else 0


def main(arguments):
    if arguments[:1] == ["run"] and len(arguments) > 5 and arguments[4] == "--":
        run(*arguments[1:4], arguments[5:])
        return 0
    if arguments[:1] == ["total"]:
        return total(arguments[1:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
