"""Run one benchmark and keep what it measured: validation/results/bench-NAME.json.

    record.py NAME OUT -- COMMAND...

What the benchmark prints is shown as it comes. Each line that is a JSON object is a case; a table
for people is kept as text. The file has them with the processor they were measured on, appears
whole or not at all, and holds no date: the same figures are the same bytes. A benchmark that runs
for ten minutes is ended, and has failed; one that ends with status 77 was skipped, and leaves the
file alone.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

LIMIT_S = 600
SKIPPED = 77

# Of the flags in /proc/cpuinfo, those that a loop here may depend on.
FLAGS = ("popcnt bmi1 bmi2 avx2 avx512f avx512bw avx512dq avx512vl avx512vbmi avx512_vbmi2 "
         "avx512_vpopcntdq").split()


def machine():
    """The processor's name, what it can do of FLAGS, and how many there are."""
    said = {}
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        for line in cpuinfo:
            key, _, value = line.partition(":")
            said.setdefault(key.strip(), value.strip())
    found = said.get("flags", "").split()
    described = {
        "cpu": said.get("model name", "unknown"),
        "cpus": os.cpu_count(),
        "flags": [flag for flag in FLAGS if flag in found],
    }
    if shutil.which("nvidia-smi"):
        asked = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        answered = subprocess.run(asked, capture_output=True, encoding="utf-8")
        described["gpus"] = answered.stdout.splitlines() if answered.returncode == 0 else []
    return described


def measure(command):
    """What command ended with, the objects that it printed, and its other lines."""
    cases, text = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith("{"):
                cases.append(json.loads(line))
            else:
                text.append(line.rstrip("\n"))
        limit.cancel()
    return process.returncode, cases, text


def document(name, cases, text):
    """One member a line, one case a line, so that a change of figures is read line by line."""
    members = [("bench", json.dumps(name)), ("machine", json.dumps(machine()))]
    for key, items in (("cases", cases), ("text", text)):
        if items:
            lines = ",\n".join("    " + json.dumps(item, ensure_ascii=False) for item in items)
            members.append((key, "[\n%s\n  ]" % lines))
    return "{\n%s\n}\n" % ",\n".join('  "%s": %s' % member for member in members)


def write_whole(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".bench-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def main():
    name, out, dashes, *command = sys.argv[1:]
    if dashes != "--" or not command:
        print(__doc__, file=sys.stderr)
        return 2
    status, cases, text = measure(command)
    if status != 0:
        word = "was skipped" if status == SKIPPED else "failed"
        print("record.py: %s %s; %s is as it was" % (name, word, out), file=sys.stderr)
        return 0 if status == SKIPPED else 1
    write_whole(out, document(name, cases, text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
