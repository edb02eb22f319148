"""The compile cache's key for this process: what it compiles, with what, and on what."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, Mapping, Optional, Sequence

import torch

from compilegate.job.cache import CacheKey
from compilegate.job.evidence import Scalar
from compilegate.job.machine.environment import cpu_features, cpu_model, version_of
from compilegate.job.names import (
    COMPILE_THREADS_VARIABLE,
    INDUCTOR_CACHE_VARIABLE,
    TRITON_CACHE_VARIABLE,
)

_SETTINGS = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE_", "TRITON_")
_NO_SETTINGS = (INDUCTOR_CACHE_VARIABLE, TRITON_CACHE_VARIABLE, COMPILE_THREADS_VARIABLE)
"""Variables that affect where and how fast to compile, but not what."""
_OWN_CODE = Path(__file__).resolve().parents[1]


def key_here(
    graph: Mapping[str, Scalar], *, device: torch.device, code: Sequence[Path] = ()
) -> CacheKey:
    """The key of a job that runs here.

    `graph` is what is compiled: model, shapes, precision, how the compiler is set. `code` are the
    folders of the program: its loop decides what is compiled together.
    """
    settings = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_SETTINGS) and name not in _NO_SETTINGS
    }
    libraries: Dict[str, Scalar] = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "triton": version_of("triton") or version_of("pytorch-triton"),
        "transformers": version_of("transformers"),
        "training code": _code_digest([_OWN_CODE, *code]),
        "C++ compiler": _cpp_compiler(),
        "C library": " ".join(platform.libc_ver()),
        # Compile commands hold the paths of Python's and torch's headers.
        "environment": sys.prefix,
    }
    return CacheKey(
        graph={**graph, "device": device.type, **settings},
        libraries=libraries,
        hardware=hardware_of(device),
    )


def hardware_of(device: torch.device) -> Dict[str, Scalar]:
    """What compiled code depends on in this machine, as far as this process may use it."""
    gpu = capability = None
    if device.type == "cuda":
        gpu = torch.cuda.get_device_name(device)
        capability = ".".join(map(str, torch.cuda.get_device_capability(device)))
    return {
        "machine": platform.machine(),
        "cpu": cpu_model(),
        # Code is made for exactly this processor (-march=native).
        "cpu features": hashlib.sha256(" ".join(cpu_features()).encode()).hexdigest()[:16],
        # Inductor writes the number of threads into its C++ kernels.
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "gpu capability": capability,
    }


def _code_digest(folders: Sequence[Path]) -> str:
    """sha256 of the Python files in these folders, which may lie anywhere."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}:{len(content)}:".encode())
            digest.update(content)
    return digest.hexdigest()[:32]


def _cpp_compiler() -> Optional[str]:
    program = shutil.which(os.environ.get("CXX") or "g++")
    if program is None:
        return None
    version = subprocess.run(
        [program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    ).stdout.decode(errors="replace")
    return next(iter(version.splitlines()), "")
