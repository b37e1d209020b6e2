"""The include layers hold, and each public header stands alone.

base < core < {kv, serve} < backend < scenario < report < analytic < sim.c < cli. A file includes public
headers of its own layer and below and private headers of its own folder, nothing else. In cli, the
rooms of the commands also know what sim/cli itself shares, and sim/cli knows its rooms. policies/,
models/ and workloads/ are built as a plug-in would be: they see public headers up to core, where
the contracts are. Public headers compile alone as C11, C17 and C++17.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RANK = {"base": 0, "core": 1, "kv": 2, "serve": 2, "backend": 3, "scenario": 4, "report": 5,
        "analytic": 6, "sim": 7, "cli": 8, "backend_cuda": 8}
PLUGIN_FOLDERS = ("policies", "models", "workloads")
# The one file of the library that knows the built-in plug-ins, through each folder's table.h.
REGISTRY = pathlib.Path("sim/scenario/plugin_registry.c")

# The lowest layer that may know a public header. The contracts that plug-ins fill sit in core.
HEADERS = {
    "base": "base cpu error arena rng clock hash json file version",
    "core": "crew event metrics plugin policy law kvsel timing llm hardware workload row_counts "
            "row_set sampling speculation costs profile page_keys order "
            "page_watch recorder crossing faults observer",
    "kv": "engine prefill layout resolver memory pages prefix prefix_pool strata",
    "serve": "rank request",
    "backend": "backend backend_pair backend_params calls gather look_ahead waves",
    "scenario": "plugins scenario source",
    "report": "badge explain report size compare machine",
    "analytic": "analytic",
    "sim": "sim",
}
LAYER_OF_HEADER = {"kvt/%s.h" % noun: layer for layer, nouns in HEADERS.items()
                   for noun in nouns.split()}

# The folder of the commands, and those of its rooms that every other room may know.
CLI = pathlib.Path("sim/cli")
SHARED_ROOMS = ("report", "engine")

# Headers of CUDA and its libraries, which only backend_cuda/ may see.
CUDA_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*'
                          r'[<"]((?:cuda|cublas|cub/|nvml|nvtx|cooperative_groups)[^>"]*)[>"]',
                          re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<(kvt/[^>]+)>)', re.MULTILINE)
STANDARDS = (("c", "c11"), ("c", "c17"), ("c++", "c++17"))


def sources(root):
    """Every source and header that the layers speak of, relative to root."""
    tops = ("sim", "backend_cuda") + PLUGIN_FOLDERS
    endings = (".c", ".h", ".cu", ".cuh")
    found = [p for top in tops for p in (root / top).rglob("*") if p.suffix in endings]
    return sorted(path.relative_to(root) for path in found)


def layer_of(path):
    """The layer of a file; a plug-in's files see as far as core does."""
    if path.parts[0] in PLUGIN_FOLDERS:
        return "core"
    if path.parts[0] == "backend_cuda":
        return "backend_cuda"
    if path.parts[:2] == ("sim", "include"):
        return LAYER_OF_HEADER.get("/".join(path.parts[2:]))
    return path.parts[1] if len(path.parts) > 2 else "sim"


def includes(root, path):
    text = (root / path).read_text(encoding="utf-8")
    return [quoted or angled for quoted, angled in INCLUDE.findall(text)]


def is_of_the_command(root, path, target):
    """A header of sim/cli seen from one of its rooms, or one of a room seen from sim/cli."""
    if not (root / target).is_file():
        return False
    if path.parent.parent == CLI:
        return target.parent == CLI or (target.parent.parent == CLI
                                        and target.parent.name in SHARED_ROOMS)
    return path.parent == CLI and target.parent.parent == CLI


def edge_fault(root, path, name):
    """What is wrong with one include of a file whose layer is known, or None."""
    layer = layer_of(path)
    if name.startswith("kvt/"):
        wanted = LAYER_OF_HEADER.get(name)
        if wanted is None:
            return '"%s" has no layer: tests/check_layers.py lists them' % name
        if RANK[wanted] > RANK[layer]:
            return '"%s" belongs to %s, which is above %s' % (name, wanted, layer)
        return None
    target = pathlib.Path(os.path.normpath(path.parent / name))
    if target.name == "table.h" and target.parent.as_posix() in PLUGIN_FOLDERS:
        if path == REGISTRY or path.parts[0] == target.parts[0]:
            return None
    if is_of_the_command(root, path, target):
        return None
    if "/" in name:
        return '"%s" is private to another folder' % name
    if not (root / path).with_name(name).is_file():
        return '"%s" is neither public nor in the file\'s own folder' % name
    return None


def cuda_fault(root, path):
    """A header of CUDA where none may be, or None."""
    if layer_of(path) == "backend_cuda":
        return None
    seen = CUDA_INCLUDE.search((root / path).read_text(encoding="utf-8"))
    return seen and '"%s" is for backend_cuda/ alone' % seen.group(1)


def edge_faults(root):
    faults = []
    for path in sources(root):
        if layer_of(path) not in RANK:
            faults.append("%s: no layer is known for it: tests/check_layers.py lists them" % path)
            continue
        found = [edge_fault(root, path, name) for name in includes(root, path)]
        found.append(cuda_fault(root, path))
        faults += ["%s: %s" % (path, fault) for fault in found if fault]
    return faults


def cycle_faults(root):
    """Headers that include themselves, through others or not: one sentence a cycle."""
    graph = {}
    for path in (p for p in sources(root) if p.suffix == ".h"):
        own = path.parent
        graph[path] = [pathlib.Path("sim/include", n) if n.startswith("kvt/")
                       else pathlib.Path(os.path.normpath(own / n))
                       for n in includes(root, path)]
    faults, done = [], set()

    def walk(path, trail):
        if path in trail:
            faults.append(" -> ".join(map(str, trail[trail.index(path):] + [path])))
        elif path not in done:
            for other in graph.get(path, ()):
                walk(other, trail + [path])
            done.add(path)

    for path in graph:
        walk(path, [])
    return faults


def stands_alone(root, header, language, standard):
    """What the compiler has against a header that is compiled by itself; empty if nothing."""
    compiler = os.environ.get("CC", "gcc") if language == "c" else os.environ.get("CXX", "g++")
    command = compiler.split() + [
        "-x", language, "-std=" + standard, "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra",
        "-Werror", "-fsyntax-only", "-Isim/include", "-"]
    code = '#include "%s"\n' % header
    try:
        done = subprocess.run(command, cwd=root, input=code, capture_output=True, text=True)
        return done.stderr
    except FileNotFoundError as error:
        return "%s (Debian package: %s)\n" % (error, "gcc" if language == "c" else "g++")


def injected(root, path, text, check):
    """The faults that check finds once text is appended to path in a copy of the tree."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for top in ("sim", "backend_cuda") + PLUGIN_FOLDERS:
            if (root / top).is_dir():
                shutil.copytree(root / top, copy / top)
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        with open(copy / path, "a", encoding="utf-8") as changed:
            changed.write(text)
        return check(copy)


# Edges that must be noticed: where, what, by which check, and a word of the complaint.
FORBIDDEN = (
    ("sim/base/injected.c", '#include "kvt/event.h"\n', edge_faults, "above base"),
    ("sim/include/kvt/base.h", '#include "kvt/scenario.h"\n', edge_faults, "above base"),
    ("sim/kv/injected.c", '#include "../serve/private.h"\n', edge_faults, "another folder"),
    ("sim/kv/injected.c", '#include "private_to_serve.h"\n', edge_faults, "neither public"),
    ("sim/core/injected.c", "#include <kvt/resolver.h>\n", edge_faults, "above core"),
    ("policies/residency/injected.c", '#include "kvt/resolver.h"\n', edge_faults, "above core"),
    ("sim/kv/injected.c", '#include "../../policies/table.h"\n', edge_faults, "another folder"),
    ("models/law/injected.c", '#include "../../policies/table.h"\n', edge_faults, "another folder"),
    ("policies/injected.c", '#include "kvt/unheard_of.h"\n', edge_faults, "has no layer"),
    ("sim/include/kvt/injected.h", '#include "kvt/base.h"\n', edge_faults, "no layer is known"),
    ("sim/backend/injected.c", '#include "../../backend_cuda/launch.h"\n', edge_faults,
     "another folder"),
    ("sim/cli/injected.c", "#include <cuda_runtime_api.h>\n", edge_faults, "backend_cuda/ alone"),
    ("sim/cli/paper/injected.c", '#include "../trace/trace.h"\n', edge_faults, "another folder"),
    ("sim/cli/paper/injected.c", '#include "../../kv/strata.h"\n', edge_faults, "another folder"),
    ("backend_cuda/injected.c", '#include "../sim/cli/cli.h"\n', edge_faults, "another folder"),
    ("sim/include/kvt/base.h", '#include "kvt/error.h"\n', cycle_faults, "error.h -> "),
)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    verdicts = [("include edges", edge_faults(root)), ("header cycles", cycle_faults(root))]
    for path, text, check, word in FORBIDDEN:
        noticed = any(word in fault for fault in injected(root, path, text, check))
        case = "%s gains %s" % (path, text.strip())
        verdicts.append((case, [] if noticed else ["it was not noticed"]))
    headers = sorted(p.relative_to(root / "sim/include").as_posix()
                     for p in (root / "sim/include").rglob("*.h"))
    cases = [(header, *standard) for header in headers for standard in STANDARDS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda case: stands_alone(root, *case), cases)
        verdicts += [(" ".join(case), text.splitlines()) for case, text in zip(cases, said)]
    failed = [(case, faults) for case, faults in verdicts if faults]
    for case, faults in failed:
        print("%s:\n  %s" % (case, "\n  ".join(faults)))
    print("%d passed, %d failed" % (len(verdicts) - len(failed), len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
