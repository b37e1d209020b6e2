"""What the tests of the command line share: the program, a scenario that runs in no time, the loop.

A case is a function that takes a folder of its own; its name is the sentence that must hold.
"""
import copy
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
KVTIDE = os.environ.get("KVTIDE", str(TOP / "build" / "kvtide"))
# Sanitizers and valgrind make everything slower, never differently.
TIMEOUT_S = 300

# 12 requests of 4,096 tokens through two small GPUs' worth of pool: 0.4 simulated seconds.
TINY = {
    "schema": "kvtide/scenario/1",
    "seed": 1,
    "model": "deepseek-v4.1-flash",
    "hardware": "b300",
    "cluster": {
        "decode": {"gpus": 2, "tp": 1, "dp": 2, "ep": 2, "lockstep": True,
                   "pools": {"unified_gib": 0.02}, "growth_reserve_gib": 0.002},
        "import": {"law": "rate"},
    },
    "residency": {"policy": "adaptive", "hot_tokens": 2048},
    "selection": {"law": "tape", "tapes": 1, "steps": 64},
    "timing": {"model": "roofline"},
    "workload": {
        "arrival": "closed", "concurrency": 6, "requests": 12,
        "lengths": {"input": {"law": "fixed", "tokens": 4096},
                    "output": {"law": "lognormal", "mean_tokens": 40, "cv": 0.3}},
    },
    "run": {"fidelity": "sampled", "interval_s": 0.1},
}


class Skip(Exception):
    """A case that this machine or this variant cannot decide."""


def changed(tree, changes):
    """A copy with values at dotted paths replaced; None takes the key away."""
    tree = copy.deepcopy(tree)
    for path, value in changes.items():
        *outer, last = path.split(".")
        node = tree
        for name in outer:
            node = node.setdefault(name, {})
        if value is None:
            del node[last]
        else:
            node[last] = copy.deepcopy(value)
    return tree


def tiny(folder, name="tiny.json", changes=None):
    """Writes the small scenario, changed; its path."""
    path = folder / name
    path.write_text(json.dumps(changed(TINY, changes or {}), indent=1), encoding="utf-8")
    return str(path)


def kvtide(*arguments, **options):
    """Run the program; a CompletedProcess with text."""
    options.setdefault("timeout", TIMEOUT_S)
    return subprocess.run([KVTIDE, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def succeeds(*arguments, **options):
    """What the program prints when all is well."""
    done = kvtide(*arguments, **options)
    assert done.returncode == 0, "%s: status %d\n%s" % (arguments, done.returncode, done.stderr)
    return done.stdout


def refuses(status, *arguments, **options):
    """The one sentence with which the program ends in this status, and nothing on stdout."""
    done = kvtide(*arguments, **options)
    assert done.returncode == status, "%s: status %d, %d was expected\n%s%s" % (
        arguments, done.returncode, status, done.stdout, done.stderr)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("kvtide: "), (
        "%s: one sentence was expected:\n%s" % (arguments, done.stderr))
    assert done.stdout == "", "%s: printed %r" % (arguments, done.stdout)
    return lines[0]


def npy(rows, shape):
    """What numpy.save() writes of int32."""
    literal = "{'descr': '<i4', 'fortran_order': False, 'shape': %s, }" % (shape,)
    literal += " " * (117 - len(literal)) + "\n"
    numbers = [number for token in rows for layer in token for number in layer]
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(literal)) + literal.encode()
            + struct.pack("<%di" % len(numbers), *numbers))


def files_below(folder):
    """Everything that is not a folder, whole files and temporaries alike."""
    folder = pathlib.Path(folder)
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir())


def used():
    """Seconds that have passed, and those of processors that this script and its children took."""
    return time.monotonic(), sum(os.times()[:4])


def goes_on(process, seconds):
    """Waits until it has used so many seconds of processors more, however busy the machine is.

    It fails where the process ends before.
    """
    start = spent(process.pid)
    deadline = time.monotonic() + TIMEOUT_S
    while spent(process.pid) < start + seconds:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it has done nothing for %d s" % TIMEOUT_S
        time.sleep(0.005)


def spent(pid):
    """Seconds of processors a process has used; the fields behind its name, which may hold blanks."""
    with open("/proc/%d/stat" % pid, encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_cases(cases):
    """Runs every case and prints how long it took, then the closing line; the exit status."""
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases:
            folder = pathlib.Path(scratch, case.__name__)
            folder.mkdir()
            begun = used()
            try:
                case(folder)
                passed += 1
            except Skip as reason:
                print("skipped: %s: %s" % (case.__name__, reason))
                skipped += 1
            except Exception as fault:  # a case must not take the others down
                print("failed: %s: %s: %s" % (case.__name__, type(fault).__name__, fault))
                failed += 1
            print("%6.1f s, %6.1f s of processors: %s" % (
                *(after - before for before, after in zip(begun, used())), case.__name__), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0
