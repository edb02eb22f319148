"""What is seen of a machine. None stands for what could not be found out; bytes are bytes."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from compilegate.job.machine.accelerators import TOOLKIT_GPUS_VARIABLE
from compilegate.job.machine.programs import nvidia_smi

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's name for it


@dataclass(frozen=True)
class TorchDevice:
    """A GPU as torch sees it."""

    name: str
    capability: str = ""
    error: Optional[str] = None
    """What a sum on it failed with; None where it computes."""


@dataclass(frozen=True)
class Facts:
    """All that is known of a machine."""

    python: str
    cpu: str
    cores: int
    """Cores that this process may run on."""
    memory_bytes: Optional[int]
    shared_memory_bytes: Optional[int]
    """Size of /dev/shm, through which a loader's workers hand over their batches."""
    free_disk_bytes: Optional[int]
    """Where temporary files go: compilers keep their kernels there."""
    cxx: Optional[str]
    """The C++ compiler that inductor takes for a CPU's kernels."""
    cc: Optional[str]
    """The C compiler that Triton takes."""
    python_headers: bool
    """Whether there is Python.h."""
    packages: Mapping[str, str]
    """Installed packages that matter to a compiler, with their versions."""
    driver: Optional[str] = None
    """The version of NVIDIA's."""
    driver_error: Optional[str] = None
    """Why nvidia-smi does not answer, where there is a GPU or a driver."""
    gpus: Tuple[str, ...] = ()
    """Those that the driver shows, in words."""
    gpus_declared: int = 0
    """How many SageMaker says that this instance has (SM_NUM_GPUS)."""
    neuron_devices: int = 0
    """Neuron devices that the kernel shows."""
    instance_type: Optional[str] = None
    """The SageMaker instance that this is; None elsewhere."""
    image: Optional[str] = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment that switch something on or off."""

    # As torch's import and its first steps on a device show it.
    torch: Optional[str] = None
    """Its version."""
    torch_error: Optional[str] = None
    """Why it could not be imported, or how its process ended."""
    cuda: Optional[str] = None
    """The CUDA that it was built for; None in a build without."""
    cuda_error: Optional[str] = None
    """What CUDA's start failed with."""
    devices: Tuple[TorchDevice, ...] = ()
    """Not any where CUDA does not start."""
    triton: Optional[str] = None
    """Triton's version, where it can be imported."""
    triton_error: Optional[str] = None
    """Why it cannot, where it is installed."""

    # As the import of torch_xla shows it.
    xla_error: Optional[str] = "it is not installed"
    """Why it could not be imported or has no device."""
    xla_configured: bool = False
    """Whether it is that of SageMaker Training Compiler, switched on."""

    tried: Mapping[str, Optional[str]] = field(default_factory=dict)
    """By label, compilers that were given a small model to compile and take three steps with: why
    one failed, in one sentence; None where its gradients are eager's."""


def host_here() -> Dict[str, Any]:
    """The sizes of memory and disk, by their fields of `Facts`."""
    names = "memory_bytes", "shared_memory_bytes", "free_disk_bytes"
    found: Dict[str, Any] = dict.fromkeys(names)
    with contextlib.suppress(OSError, ValueError):
        found["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError):
        found["free_disk_bytes"] = shutil.disk_usage(tempfile.gettempdir()).free
        found["shared_memory_bytes"] = shutil.disk_usage(SHARED_MEMORY).total
    return found


def compilers_here(variables: Mapping[str, str]) -> Dict[str, Any]:
    """The compilers that torch would take, by their fields of `Facts`. `variables` are the
    environment's."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    named = {"cxx": [variables.get("CXX") or usual], "cc": ["gcc", "clang"]}
    if variables.get("CC"):
        named["cc"] = [variables["CC"]]
    path = variables.get("PATH")
    return {
        field: next(filter(None, (shutil.which(each, path=path) for each in names)), None)
        for field, names in named.items()
    }


def driver_here(variables: Mapping[str, str]) -> Dict[str, Any]:
    """NVIDIA's driver and its GPUs, by their fields of `Facts`, without torch and without use of a
    GPU. `variables` are the environment's."""
    fields, path = ("name", "driver_version", "memory.total", "compute_cap"), variables.get("PATH")
    rows, error = nvidia_smi(fields, path)
    if shutil.which("nvidia-smi", path=path) is None:
        there = next(Path("/dev").glob("nvidia[0-9]*"), None)
        error = None if there is None else f"{error}, though there is {there}"
    declared = variables.get(TOOLKIT_GPUS_VARIABLE, "")
    return {
        "driver": rows[0].get("driver_version") if rows else None,
        "driver_error": error,
        "gpus": tuple(
            f"{each.get('name')}, compute capability {each.get('compute_cap', 'unknown')}, "
            f"{each.get('memory.total', 'unknown')} MiB"
            for each in rows
        ),
        "gpus_declared": int(declared) if declared.isdigit() else 0,
    }
