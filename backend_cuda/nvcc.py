"""nvcc.py -- SCons tool: finds the CUDA toolkit, and compiles .cu files beside the project's C.

An environment with this tool has a builder CudaObject(target, source), of one .cu file, and

    NVCC          the compiler; None where there is no toolkit that a build can stand on
    NVCC_FOUND    where it was found, or what is missing
    CUDA_INCLUDE  the folder of cuda_runtime_api.h
    CUDA_STATIC   libcudart_static.a
    CUDA_ARCHS    what to make code for, as nvcc writes it behind sm_: ["90a"]
    NVCCFLAGS     for every file; host flags go behind -Xcompiler

Host code of .cu files sees the environment's CPPDEFINES and CPPPATH, not its CCFLAGS: kernels and
their launchers are the same under every sanitizer.
"""
import os

import SCons.Action
import SCons.Builder
import SCons.Scanner.C
import SCons.Tool

HOMES = ("/usr/local/cuda",)


def compiler(path):
    """(nvcc, how it was found); (None, where it was looked for)."""
    found = SCons.Util.WhereIs("nvcc", path)
    if found:
        return found, "on PATH"
    for home in HOMES:
        found = os.path.join(home, "bin", "nvcc")
        if os.access(found, os.X_OK):
            return found, "under " + home
    return None, "no nvcc on PATH or under " + ", ".join(HOMES)


def holding(root, folders, name):
    """The first of the folders below root that has the file; None where none has."""
    paths = (os.path.join(root, folder) for folder in folders)
    return next((path for path in paths if os.path.exists(os.path.join(path, name))), None)


def toolkit(path):
    """The settings that describe the toolkit whose nvcc comes first."""
    nvcc, found = compiler(path)
    include = library = None
    if nvcc:
        root = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
        include = holding(root, ("include", "targets/x86_64-linux/include"), "cuda_runtime_api.h")
        library = holding(
            root, ("lib64", "lib", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu"),
            "libcudart_static.a")
        for folder, name in ((include, "cuda_runtime_api.h"), (library, "libcudart_static.a")):
            if not folder:
                nvcc, found = None, "no %s in the toolkit of %s" % (name, nvcc)
                break
    return {
        "NVCC": nvcc,
        "NVCC_FOUND": found,
        "CUDA_INCLUDE": include,
        "CUDA_STATIC": library and os.path.join(library, "libcudart_static.a"),
    }


def code_flags(target, source, env, for_signature):
    return ["-gencode=arch=compute_%s,code=sm_%s" % (arch, arch) for arch in env["CUDA_ARCHS"]]


def generate(env):
    scanner = SCons.Scanner.C.CScanner()
    for suffix in (".cu", ".cuh"):
        SCons.Tool.SourceFileScanner.add_scanner(suffix, scanner)
    env.Replace(**toolkit(env["ENV"].get("PATH", "")))
    env.SetDefault(
        CUDA_ARCHS=["90a"],
        NVCCFLAGS=[],
        _CUDA_CODE=code_flags,
        NVCCCOM="$NVCC -ccbin $CXX $_CUDA_CODE $NVCCFLAGS $_CPPDEFFLAGS $_CPPINCFLAGS"
                " -c -o $TARGET $SOURCE",
    )
    env["BUILDERS"]["CudaObject"] = SCons.Builder.Builder(
        action=SCons.Action.Action("$NVCCCOM", "$NVCCCOMSTR"),
        suffix=".o", src_suffix=".cu", single_source=True,
        source_scanner=SCons.Tool.SourceFileScanner,
    )


def exists(env):
    return toolkit(env["ENV"].get("PATH", ""))["NVCC"] is not None
