"""What a job ran on: library versions and hardware, for the evidence."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Dict, List, Mapping, Optional

import numpy as np

from compilegate.job.evidence import Scalar
from compilegate.job.machine.accelerators import Machine
from compilegate.job.machine.arithmetic import arithmetic_settings
from compilegate.job.machine.place import HOST
from compilegate.job.names import IMAGE_VARIABLE


def describe_machine(
    machine: Machine, place: Optional[str], environment: Mapping[str, str]
) -> Dict[str, Scalar]:
    """Versions of what decides the arithmetic, and what the machine has.

    `place` is where the process computes; None is a program without torch, which is not imported
    for it. The machine's description is the same for every process that runs on it.
    """
    return {
        "python": platform.python_version(),
        "transformers": version_of("transformers"),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores_available": cores_available(),
        "instance_type": instance_type(environment),
        "image": image(environment),
        **_accelerators(machine),
        **({} if place is None else _torch(place)),
    }


def _accelerators(machine: Machine) -> Dict[str, Scalar]:
    has = machine.accelerators
    found: Dict[str, Scalar] = {"accelerator": None, "accelerators": 0}
    if has is not None:
        found = {
            "accelerator": has.name,
            "accelerators": has.count,
            "accelerator_memory_bytes": has.memory_bytes,
            "accelerator_capability": has.capability,
        }
    # Evidence of a rehearsal never passes for that of the machine itself.
    return found if machine.described is None else {**found, "described": machine.described}


def _torch(place: str) -> Dict[str, Scalar]:
    import torch  # noqa: PLC0415 - the rest of this file does without

    return {
        "torch": str(torch.__version__),
        # What starts the processes decides how many each has. They compute on a host alone.
        "threads": torch.get_num_threads() if place == HOST else None,
        **arithmetic_settings(),
    }


def version_of(package: str) -> Optional[str]:
    """The release of an installed package; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def image(variables: Mapping[str, str]) -> Optional[str]:
    """The URI of the image that this runs in; None where nobody told.

    No container knows its own, so whoever requests the job says it once more, to the job.
    """
    return variables.get(IMAGE_VARIABLE) or None


def instance_type(variables: Mapping[str, str]) -> Optional[str]:
    """The SageMaker instance that this is; None where a job only pretends to run on one.

    A local run has the variables of SageMaker too, but its ARN lies in no region: "local".
    """
    region = (variables.get("TRAINING_JOB_ARN", "").split(":") + [""] * 4)[3]
    on_sagemaker = region not in ("", "local")
    return (variables.get("SM_CURRENT_INSTANCE_TYPE") or None) if on_sagemaker else None


def cores_available() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_model() -> str:
    """The processor's name."""
    return _cpu_entry("model name") or platform.processor() or platform.machine()


def cpu_features() -> List[str]:
    """The instruction sets that the processor names, sorted; empty where it is not Linux."""
    return sorted((_cpu_entry("flags") or _cpu_entry("Features") or "").split())


def _cpu_entry(name: str) -> Optional[str]:
    """What the kernel says of the first processor under that name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                found, _, value = line.partition(":")
                if found.strip() == name:
                    return value.strip()
    except OSError:
        pass  # not Linux: the platform module knows a little
    return None
