"""The house: what scons refuses, what install stages, and whether the tarball runs anywhere.

Works in a copy of the checkout that takes the objects along, so that little is compiled twice.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("SConstruct", "LICENSE", "README.md", "CHANGELOG.md", "sim", "backend_cuda", "policies",
           "models", "workloads", "docs", "tests", "validation")
BUILT = ("build/sconsign.dblite", "build/vega", "build/release/report-runtime", "build/release/sim", "build/release/backend_cuda",
         "build/release/policies", "build/release/models", "build/release/workloads",
         "build/release/tests/cuda")
# As the objects are that the copy takes along.
CUDA = os.environ.get("KVT_CUDA", "0")
# Folder under share/kvt: the folder here, and how the names of its data files end.
DATA = {"models": ("models", ".json"), "scenarios": ("workloads/scenarios", (".json", ".csv")),
        "schema": ("docs/schema", ".json"), "calls": ("tests/golden/calls", ".txt"),
        "paper": ("validation/paper", ".json"), "public": ("validation/public", ".json"),
        "grids": ("validation/grids", ".json"), "slurm": ("docs/slurm", ".sbatch"), "example": ("policies/example", (".c", "Makefile"))}
# Of a folder of many files the one that a command reads.
DATA_ALONE = {"measured/h200-bench.json"}
OLDEST_GLIBC = (2, 36)
# What is asked is what a build is set to, and nothing needs to be looked at for it.
NOTHING = ("-n", "LICENSE")


class Skip(Exception):
    """A case that this machine or this variant cannot decide."""


def copy_tree(to):
    for name in SOURCES + BUILT:
        source, target = TOP / name, to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        elif source.exists():
            shutil.copy2(source, target)


def scons(tree, *arguments, **variables):
    """Run scons in the tree; (status, everything it said)."""
    # What the outer scons says to the compiler and to pkg-config holds inside as well.
    done = subprocess.run(
        ("scons", "-Q", *arguments), cwd=tree, env={**os.environ, **variables},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def refuses(tree, sentence, *arguments):
    status, said = scons(tree, *arguments)
    assert status == 2, "status %d, 2 was expected:\n%s" % (status, said)
    assert sentence in said, "%r was expected in:\n%s" % (sentence, said)


def succeeds(tree, *arguments, **variables):
    status, said = scons(tree, *arguments, **variables)
    assert status == 0, "status %d:\n%s" % (status, said)
    return said


def release_only():
    if os.environ.get("KVT_VARIANT", "release") != "release":
        raise Skip("objects of the release variant are needed")


def files_below(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
# The manual, and what shells complete.
WORDS = {"share/man/man1/kvtide.1", "share/bash-completion/completions/kvtide",
         "share/zsh/site-functions/_kvtide", "share/fish/vendor_completions.d/kvtide.fish"}


def data_files():
    """What share/kvt must hold: every data file of the checkout."""
    found = set(DATA_ALONE)
    for name, (folder, ends) in DATA.items():
        found |= {"%s/%s" % (name, path) for path in files_below(TOP / folder) if path.endswith(ends)}
    return found


def headers():
    return {"include/kvt/" + path.name for path in (TOP / "sim/include/kvt").glob("*.h")}


# --- Cases: each takes the tree and a folder of its own -------------------------------------------


def an_unknown_setting_is_refused_wherever_it_stands(tree, scratch):
    refuses(tree, "cdua: no such setting (from the command line)", "cdua=0")
    conf = tree / "build.conf"
    conf.write_text("mdoe = 'debug'\n")
    try:
        refuses(tree, "mdoe: no such setting (from build.conf)", "-n")
    finally:
        conf.unlink()


def a_value_outside_its_choices_is_refused(tree, scratch):
    refuses(tree, "'adress' is none of: none, address, undefined, thread", "sanitize=adress")
    refuses(tree, "thread and address cannot be built", "sanitize=thread,address")
    refuses(tree, "fast", "mode=fast")
    refuses(tree, "PREFIX=usr: an absolute path without", "PREFIX=usr")
    refuses(tree, "PREFIX=/a b: an absolute path without", "PREFIX=/a b")


def mpi_is_refused_when_demanded_without_a_compiler_and_answered_when_left_to_us(tree, scratch):
    mpicc = scratch / "bin/mpicc"
    mpicc.parent.mkdir()
    mpicc.write_text("#!/bin/sh\nexit 1\n")
    mpicc.chmod(0o755)
    path = "%s:%s" % (mpicc.parent, os.environ["PATH"])
    status, said = scons(tree, "-n", "cuda=0", "mpi=1", PATH=path)
    assert status == 2 and "mpi=1: no mpicc that works; Debian package: libopenmpi-dev" in said, said
    assert succeeds(tree, *NOTHING, "cuda=0", PATH=path).startswith("mpi: no ("), "auto"
    assert "mpi" not in succeeds(tree, *NOTHING, "cuda=0", "mpi=0").splitlines()[0]


def cuda_is_refused_when_demanded_without_a_toolkit_and_answered_when_left_to_us(tree, scratch):
    nvcc = scratch / "bin/nvcc"  # a compiler and nothing beside it
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    path = "%s:%s" % (nvcc.parent, os.environ["PATH"])
    status, said = scons(tree, "-n", "cuda=1", PATH=path)
    assert status == 2 and "cuda=1: no cuda_runtime_api.h in the toolkit of" in said, said
    said = succeeds(tree, *NOTHING, PATH=path).splitlines()
    assert said[0].startswith("cuda: no (no cuda_runtime_api.h in the toolkit of"), said[0]
    assert "cuda" not in succeeds(tree, *NOTHING, "cuda=0", PATH=path).splitlines()[0]
    refuses(tree, "'sm_90' is not what nvcc has behind sm_", "CUDA_ARCHS=sm_90")


def everything_missing_is_named_at_once_and_its_arrival_noticed(tree, scratch):
    compiler = scratch / "cc"
    compiler.write_text(
        '#!/bin/sh\ncat >"$0.c"\n! grep -q csv.h "$0.c" || exit 1\nexec cc "$@" <"$0.c"\n')
    compiler.chmod(0o755)
    status, said = scons(tree, CC=str(compiler), PKG_CONFIG_LIBDIR=str(scratch / "none"))
    assert status == 2, said
    for package in ("libgsl-dev", "libcjson-dev", "check", "libcsv-dev"):
        assert re.search(r"missing: .*Debian package: %s\b" % package, said), said
    assert "apt-get install libgsl-dev libcjson-dev check libcsv-dev" in said, said
    succeeds(tree, "-n")


def what_draws_reports_is_asked_for_before_anything_is_built(tree, scratch):
    npm = scratch / "npm"
    kept = tree / "build/vega"
    away = tree / "build/vega-away"
    path = "%s:%s" % (scratch, os.environ["PATH"])
    kept.rename(away)
    try:
        npm.write_text("#!/bin/sh\n[ \"$1\" = --version ] || { echo npm error code ENOTFOUND; exit 1; }\n")
        npm.chmod(0o755)
        status, said = scons(tree, "-n", PATH=path)
        assert status == 2 and "npm ci: npm error code ENOTFOUND" in said, said
        assert "let npm reach a registry, or copy build/vega here" in said, said
        npm.write_text("#!/bin/sh\nexit 1\n")
        status, said = scons(tree, "-n", PATH=path, CC="no-such-compiler")
        assert status == 2 and "apt-get install gcc libc6-dev libcsv-dev nodejs npm" in said, said
        succeeds(tree, "-h", PATH=path)
        assert not kept.exists()
    finally:
        away.rename(kept)
    succeeds(tree, "-n", PATH=path)  # what is kept needs no npm


def help_needs_nothing_installed_and_names_every_setting(tree, scratch):
    said = succeeds(tree, "-h", PKG_CONFIG_LIBDIR=str(scratch / "none"), CC="no-such-compiler")
    for setting in ("mode", "sanitize", "cuda", "CUDA_ARCHS", "werror", "verbose", "PREFIX", "DESTDIR"):
        assert "\n%s: " % setting in said, said


def an_installation_is_complete_and_does_not_know_its_stage(tree, scratch):
    release_only()
    succeeds(tree, "install", "cuda=" + CUDA, "PREFIX=/usr", "DESTDIR=%s" % os.path.relpath(scratch, tree))
    data = {"share/kvt/" + path for path in data_files()}
    expected = {"bin/kvtide", "lib/libkvt.a", "lib/pkgconfig/kvtide.pc"} | headers() | data | WORDS
    expected |= {"lib/kvt/kvt_mpi.so"} if shutil.which("mpicc") else set()
    staged = files_below(scratch / "usr")
    assert staged == expected, "differs in %s" % sorted(staged ^ expected)
    for path in staged:
        content = (scratch / "usr" / path).read_bytes()
        assert str(scratch).encode() not in content, "%s names the stage" % path
    assert b"/usr/share/kvt\0" in (scratch / "usr/bin/kvtide").read_bytes()


def a_program_builds_against_the_installation(tree, scratch):
    release_only()
    succeeds(tree, "install", "cuda=" + CUDA, "PREFIX=/usr", "DESTDIR=%s" % scratch)
    source = scratch / "user.c"
    source.write_text("#include <kvt/version.h>\n#include <stdio.h>\n"
                      "int main(void)\n{\n    return puts(kvt_version()) < 0;\n}\n")
    flags = subprocess.run(
        ("pkg-config", "--define-variable=prefix=%s/usr" % scratch, "--cflags", "--libs", "kvtide"),
        env={**os.environ, "PKG_CONFIG_PATH": "%s/usr/lib/pkgconfig" % scratch},
        check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    subprocess.run(("cc", str(source), "-o", str(scratch / "user"), *flags), check=True)
    said = subprocess.run((str(scratch / "user"),), check=True, stdout=subprocess.PIPE, text=True)
    assert said.stdout.strip() == stated_version(), said.stdout


def stated_version():
    header = (TOP / "sim/include/kvt/version.h").read_text()
    return re.search(r'#define KVT_VERSION "([^"]+)"', header).group(1)


def device_files():
    """What a machine with a GPU needs besides the program; nothing without a CUDA backend."""
    if CUDA == "0":
        return set()
    found = {"tests/cuda/" + path.stem for path in (TOP / "tests/cuda").glob("*.cu")}
    for pattern in ("validation/*.sh", "validation/scenarios/*.json"):
        found |= {path.relative_to(TOP).as_posix() for path in TOP.glob(pattern)}
    return found


def unpacked_dist(tree, scratch):
    """The tarball, unpacked somewhere else; the folder it makes."""
    name = "kvtide-%s-linux-%s" % (stated_version(), os.uname().machine)
    succeeds(tree, "dist", "cuda=" + CUDA)
    subprocess.run(("tar", "-xzf", str(tree / "build/dist" / (name + ".tar.gz"))), cwd=scratch,
                   check=True)
    return scratch / name


def the_tarball_holds_program_data_and_licences(tree, scratch):
    release_only()
    folder = unpacked_dist(tree, scratch)
    texts = {"LICENSE", "README.md", "CHANGELOG.md", "docs/cuda.md", "docs/validation.md"}
    names = ("gsl", "libcsv", "cjson", "vega-lite") + (("libstdc++",) if CUDA != "0" else ())
    licences = {"licences/" + name for name in names}
    data = {"share/kvt/" + path for path in data_files()}
    programs = {"bin/kvtide", "bin/libcjson.so.1"}
    programs |= {"share/kvt/example/%s.so" % path.stem
                 for path in (TOP / "policies/example").glob("*.c")}
    expected = programs | texts | licences | data | headers() | device_files() | WORDS
    assert files_below(folder) == expected, sorted(files_below(folder) ^ expected)
    tarball = tree / "build/dist" / (folder.name + ".tar.gz")
    before = tarball.read_bytes()
    tarball.unlink()
    succeeds(tree, "dist", "cuda=" + CUDA)
    assert tarball.read_bytes() == before, "the same files packed twice differ"


def the_tarball_needs_no_package_but_libc(tree, scratch):
    release_only()
    folder = unpacked_dist(tree, scratch)
    for program in (folder / "bin/kvtide", *sorted(folder.glob("tests/cuda/*"))):
        said = subprocess.run(("ldd", str(program)), check=True, stdout=subprocess.PIPE, text=True)
        needed = {line.split()[0] for line in said.stdout.splitlines() if "=>" in line}
        assert needed <= {"libc.so.6", "libm.so.6", "libcjson.so.1"}, (program, needed)
        if "libcjson.so.1" in needed:
            beside = "libcjson.so.1 => %s/" % folder
            assert beside in said.stdout, said.stdout
        symbols = subprocess.run(("objdump", "-T", str(program)), check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", symbols))
        assert newest[:2] <= OLDEST_GLIBC, "%s asks for glibc %s" % (program, newest)


def the_unpacked_program_finds_its_data_from_any_folder(tree, scratch):
    release_only()
    program = unpacked_dist(tree, scratch) / "bin/kvtide"
    questions = (
        (("--version",), stated_version()), (("list", "scenarios"), "quickstart"),
        # Its load is a file beside it.
        (("run", "strata-sessions", "--set", "run.duration_s=1", "--quiet"), "rows read 2000"))
    for arguments, word in questions:
        done = subprocess.run((str(program), *arguments), cwd="/", env={}, capture_output=True,
                              text=True)
        assert done.returncode == 0 and word in done.stdout, done.stdout + done.stderr


CASES = (
    an_unknown_setting_is_refused_wherever_it_stands,
    a_value_outside_its_choices_is_refused,
    mpi_is_refused_when_demanded_without_a_compiler_and_answered_when_left_to_us,
    cuda_is_refused_when_demanded_without_a_toolkit_and_answered_when_left_to_us,
    everything_missing_is_named_at_once_and_its_arrival_noticed,
    what_draws_reports_is_asked_for_before_anything_is_built,
    help_needs_nothing_installed_and_names_every_setting,
    an_installation_is_complete_and_does_not_know_its_stage,
    a_program_builds_against_the_installation,
    the_tarball_holds_program_data_and_licences,
    the_tarball_needs_no_package_but_libc,
    the_unpacked_program_finds_its_data_from_any_folder,
)


def main():
    passed, failed, skipped = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder, "tree")
        copy_tree(tree)
        for case in CASES:
            scratch = pathlib.Path(folder, case.__name__)
            scratch.mkdir()
            try:
                case(tree, scratch)
                passed += 1
            except Skip as reason:
                print("skipped: %s: %s" % (case.__name__, reason))
                skipped += 1
            except (AssertionError, OSError, subprocess.CalledProcessError) as fault:
                print("failed: %s: %s" % (case.__name__, fault))
                failed += 1
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
