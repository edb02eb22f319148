"""The compile cache's key of the job that runs here: what it compiles, with what, and on what."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

import torch
import transformers

from compilegate.job.cache.key import CacheKey
from compilegate.job.evidence import Scalar
from compilegate.job.machine.environment import cpu_features, cpu_model
from training.arguments import Job

_SETTINGS = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE_", "TRITON_")
_CODE = ("compilegate/job", "training")
_NO_SETTINGS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS")
"""Variables that say where and how fast to compile, and not what."""


def key_of(job: Job, model: Any, *, sequence_length: int, device: torch.device) -> CacheKey:
    """The key of this job, with its model as it is about to be compiled."""
    return CacheKey(
        graph={
            "compiler": job.compiler,
            **job.compiler_options.declared(job.compiler),
            "batch_size": job.recipe.batch_size,
            "sequence_length": sequence_length,
            "precision": job.recipe.precision,
            "device": device.type,
            "model": hashlib.sha256(model.config.to_json_string().encode()).hexdigest(),
            **_settings(os.environ),
        },
        libraries=_libraries(),
        hardware=hardware_of(device),
    )


def hardware_of(device: torch.device) -> Dict[str, Scalar]:
    """What compiled code depends on of this machine, as far as this process may use it."""
    on_gpu = device.type == "cuda"
    return {
        "machine": platform.machine(),
        "cpu": cpu_model(),
        # Code is made for exactly this processor (-march=native).
        "cpu features": hashlib.sha256(" ".join(cpu_features()).encode()).hexdigest()[:16],
        # Inductor writes the number of threads into its C++ kernels.
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device) if on_gpu else None,
        "gpu capability": (
            ".".join(map(str, torch.cuda.get_device_capability(device))) if on_gpu else None
        ),
    }


def _settings(variables: Mapping[str, str]) -> Dict[str, Scalar]:
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(_SETTINGS) and name not in _NO_SETTINGS
    }


def _libraries() -> Dict[str, Scalar]:
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "triton": _version("triton") or _version("pytorch-triton"),
        "transformers": transformers.__version__,
        "training code": _code_digest(),
        "C++ compiler": _cpp_compiler(os.environ),
        "C library": " ".join(platform.libc_ver()),
        # Compile commands hold the paths of Python's and torch's headers.
        "environment": sys.prefix,
    }


def _version(distribution: str) -> Optional[str]:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _code_digest() -> str:
    """Of the code that came with the job: its loop decides what is compiled together."""
    root = Path(__file__).resolve().parents[3]
    digest = hashlib.sha256()
    for path in sorted(each for place in _CODE for each in (root / place).rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


def _cpp_compiler(variables: Mapping[str, str]) -> Optional[str]:
    program = shutil.which(variables.get("CXX") or "g++")
    if program is None:
        return None
    said = subprocess.run(
        [program, "--version"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ).stdout.decode(errors="replace")
    return (said.splitlines() or [""])[0]
