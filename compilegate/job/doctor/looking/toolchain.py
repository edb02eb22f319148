"""The compilers of kernels: which ones torch would take, and whether they make a program that runs.

Inductor calls a C++ compiler for kernels on a CPU, with OpenMP and Python's headers; Triton calls a
C compiler, with the same headers, for what starts its kernels on a GPU.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Mapping, Optional, Tuple

from compilegate.job.doctor.facts import Toolchain
from compilegate.job.doctor.looking.processes import run

_SECONDS = 60.0
_PLAIN = "#include <vector>\nint main() { std::vector<int> one(1, 0); return one[0]; }\n"
_PARALLEL = "#include <omp.h>\nint main() { return omp_get_max_threads() > 0 ? 0 : 1; }\n"


def examine_toolchain(variables: Mapping[str, str]) -> Toolchain:
    """What is there, tried out. `variables` are the environment's."""
    cxx, cc = cxx_compiler(variables), c_compiler(variables)
    version, plain, parallel = None, None, None
    if cxx is not None:
        version = (run([cxx, "--version"], _SECONDS).output.splitlines() or [None])[0]
        plain = _attempt(cxx, _PLAIN, ())
        parallel = plain or _attempt(cxx, _PARALLEL, _openmp_flags())
    return Toolchain(
        cxx=cxx,
        cxx_version=version,
        cxx_error=plain,
        openmp_error=parallel,
        cc=cc,
        python_headers=python_headers(),
    )


def cxx_compiler(variables: Mapping[str, str]) -> Optional[str]:
    """The C++ compiler that inductor would take: that of CXX, or the system's usual one."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    return shutil.which(variables.get("CXX") or usual, path=variables.get("PATH"))


def c_compiler(variables: Mapping[str, str]) -> Optional[str]:
    """The C compiler that Triton would take: that of CC, gcc or clang."""
    named = variables.get("CC")
    for name in [named] if named else ["gcc", "clang"]:
        found = shutil.which(name, path=variables.get("PATH"))
        if found is not None:
            return found
    return None


def python_headers() -> Optional[str]:
    """The folder with Python.h; None where only the interpreter is installed."""
    folder = sysconfig.get_paths()["include"]
    return folder if os.path.isfile(os.path.join(folder, "Python.h")) else None


def _openmp_flags() -> Tuple[str, ...]:
    # Apple's clang has no OpenMP of its own; torch brings the library and says so itself.
    return ("-Xclang", "-fopenmp") if sys.platform == "darwin" else ("-fopenmp",)


def _attempt(cxx: str, code: str, flags: Tuple[str, ...]) -> Optional[str]:
    """Why this program could not be compiled or run; None where it did both."""
    with tempfile.TemporaryDirectory(prefix="compilegate-doctor-") as folder:
        source, program = Path(folder) / "one.cpp", Path(folder) / "one"
        source.write_text(code, encoding="ascii")
        compiled = run([cxx, *flags, str(source), "-o", str(program)], _SECONDS)
        return compiled.error or run([str(program)], _SECONDS).error
