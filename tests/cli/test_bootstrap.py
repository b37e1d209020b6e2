"""bootstrap installs what is missing and only then, says what it cannot, and does its one job.

It runs in an empty folder, where apt-get, pkg-config, scons and kvtide only note how they were
called; pkg-config finds nothing before apt-get has installed something.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = "libgsl-dev libcjson-dev check"
FAKES = {
    "id": "echo 0",
    "apt-get": 'echo "apt-get $*" >>"$HERE/calls"\n'
               '[ "$APT" = works ] || exit 100\n'
               'case "$*" in *install*) : >"$HERE/installed";; esac',
    "pkg-config": 'test -e "$HERE/installed"',
    "scons": 'echo "scons $*" >>"$HERE/calls"; echo "scons said this"',
}


class Machine:
    """A folder with bootstrap, its fakes, and a note of their calls."""

    def __init__(self, folder, installed, apt="works"):
        self.folder = pathlib.Path(folder)
        self.environment = {"PATH": "%s/bin:%s" % (folder, os.environ["PATH"]),
                            "HERE": str(folder), "APT": apt}
        shutil.copy2(TOP / "bootstrap", self.folder / "bootstrap")
        for name, body in FAKES.items():
            self.program("bin/" + name, body)
        self.program("build/kvtide", 'echo "kvtide $*"')
        if installed:
            (self.folder / "installed").touch()

    def program(self, name, body):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n%s\n" % body)
        path.chmod(0o755)

    def bootstrap(self, *arguments):
        return subprocess.run((str(self.folder / "bootstrap"), *arguments), cwd="/",
                              env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True)

    def calls(self):
        notes = self.folder / "calls"
        return notes.read_text().splitlines() if notes.exists() else []


def expect(condition, done):
    assert condition, "status %d\n%s\n%s" % (done.returncode, done.stdout, done.stderr)


def nothing_missing_means_no_apt_get(folder):
    machine = Machine(folder, installed=True)
    done = machine.bootstrap("run", "quickstart", "--seed", "2")
    expect(done.returncode == 0, done)
    expect(not any(call.startswith("apt-get") for call in machine.calls()), done)
    expect(done.stdout == "kvtide run quickstart --seed 2\n", done)


def what_is_missing_is_installed_in_one_go_and_said(folder):
    machine = Machine(folder, installed=False)
    done = machine.bootstrap("run")
    expect(done.returncode == 0 and done.stdout == "kvtide run\n", done)
    installs = [call for call in machine.calls() if " install " in call]
    expect(len(installs) == 1 and installs[0].endswith(LIBRARIES), done)
    expect("installing with apt-get: " in done.stderr and LIBRARIES in done.stderr, done)


def what_cannot_be_installed_is_all_named(folder):
    machine = Machine(folder, installed=False, apt="fails")
    done = machine.bootstrap("test")
    expect(done.returncode == 3, done)
    expect("apt-get could not install: " in done.stderr and LIBRARIES in done.stderr, done)
    expect(not any(call.startswith("scons") for call in machine.calls()), done)


def test_builds_and_then_tests(folder):
    machine = Machine(folder, installed=True)
    done = machine.bootstrap("test")
    calls = machine.calls()
    expect(done.returncode == 0 and len(calls) == 2 and calls[1].endswith(" test"), done)
    expect(done.stdout == "scons said this\n", done)


def anything_else_is_a_malformed_question(folder):
    machine = Machine(folder, installed=True)
    for arguments in ((), ("tset",), ("test", "more")):
        done = machine.bootstrap(*arguments)
        expect(done.returncode == 2 and done.stderr.startswith("Usage: ./bootstrap run"), done)
    expect(machine.calls() == [], done)


CASES = (
    nothing_missing_means_no_apt_get,
    what_is_missing_is_installed_in_one_go_and_said,
    what_cannot_be_installed_is_all_named,
    test_builds_and_then_tests,
    anything_else_is_a_malformed_question,
)


def main():
    failed = 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(folder)
            except (AssertionError, OSError) as fault:
                print("failed: %s: %s" % (case.__name__, fault))
                failed += 1
    print("%d passed, %d failed" % (len(CASES) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
