"""What is seen of a machine. None stands for what could not be found out; bytes are bytes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from compilegate.job.machine.accelerators import declared_gpus
from compilegate.job.machine.programs import cxx_compiler, nvidia_smi

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's name for it


@dataclass(frozen=True)
class TorchDevice:
    """A GPU as torch sees it."""

    name: str
    capability: str = ""
    error: Optional[str] = None  # what a sum on it failed with; None where it computes


@dataclass(frozen=True)
class Facts:
    """All that is known of a machine."""

    python: str
    cpu: str
    cores: int  # that this process may run on
    memory_bytes: int
    shared_memory_bytes: Optional[int]  # of /dev/shm, where a loader's workers put their batches
    free_disk_bytes: int  # where temporary files go: compilers keep their kernels there
    cxx: Optional[str]  # the C++ compiler that inductor takes for a CPU's kernels
    cc: Optional[str]  # the C compiler that Triton takes
    python_headers: bool  # there is Python.h
    packages: Mapping[str, str]  # the versions of those that matter to a compiler
    driver: Optional[str] = None  # the version of NVIDIA's
    driver_error: Optional[str] = None  # why nvidia-smi does not answer beside a GPU or a driver
    gpus: Tuple[str, ...] = ()  # those that the driver shows, in words
    gpus_declared: int = 0  # how many SageMaker says that this instance has (SM_NUM_GPUS)
    neuron_devices: int = 0  # that the kernel shows
    instance_type: Optional[str] = None  # the SageMaker instance that this is; None elsewhere
    image: Optional[str] = None
    variables: Mapping[str, str] = field(default_factory=dict)  # that switch something on or off

    # As torch's import and its first steps on a device show it.
    torch: Optional[str] = None  # its version
    torch_error: Optional[str] = None  # why it could not be imported, or how its process ended
    cuda: Optional[str] = None  # the CUDA that it was built for; None in a build without
    cuda_error: Optional[str] = None  # what CUDA's start failed with
    devices: Tuple[TorchDevice, ...] = ()  # not any where CUDA does not start
    triton: Optional[str] = None  # Triton's version, where it can be imported
    triton_error: Optional[str] = None  # why it cannot, where it is installed

    # As the import of torch_xla shows it.
    xla_error: Optional[str] = "it is not installed"  # or why its import or its device fails
    xla_configured: bool = False  # it is that of SageMaker Training Compiler, switched on

    tried: Mapping[str, Optional[str]] = field(default_factory=dict)
    """By label, compilers that were given a small model to compile and take three steps with: why
    one failed, in one sentence; None where its gradients are eager's."""


def compilers_here(variables: Mapping[str, str]) -> Dict[str, Any]:
    """The compilers that torch would take in this environment, by their fields of `Facts`."""
    named = [variables["CC"]] if variables.get("CC") else ["gcc", "clang"]
    found = (shutil.which(each, path=variables.get("PATH")) for each in named)
    return {"cxx": cxx_compiler(variables), "cc": next(filter(None, found), None)}


def driver_here(variables: Mapping[str, str]) -> Dict[str, Any]:
    """NVIDIA's driver and its GPUs, by their fields of `Facts`, without torch or use of a GPU."""
    fields, path = ("name", "driver_version", "memory.total", "compute_cap"), variables.get("PATH")
    rows, error = nvidia_smi(fields, path)
    if shutil.which("nvidia-smi", path=path) is None:
        there = next(Path("/dev").glob("nvidia[0-9]*"), None)
        error = None if there is None else f"{error}, though there is {there}"
    return {
        "driver": rows[0].get("driver_version") if rows else None,
        "driver_error": error,
        "gpus": tuple(
            f"{each.get('name')}, compute capability {each.get('compute_cap', 'unknown')}, "
            f"{each.get('memory.total', 'unknown')} MiB"
            for each in rows
        ),
        "gpus_declared": declared_gpus(variables),
    }
