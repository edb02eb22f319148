"""What a job ran on: library versions and hardware, for the evidence."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Dict, List, Mapping, Optional

import numpy as np
import torch

from compilegate.job.evidence import Scalar
from compilegate.job.names import IMAGE_VARIABLE


def describe_machine(device: torch.device) -> Dict[str, Scalar]:
    """Versions of what decides the arithmetic, and the hardware it ran on."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": version_of("transformers"),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores_available": _cores_available(),
        "threads": torch.get_num_threads(),
        "instance_type": _instance_type(os.environ),
        "image": image(os.environ),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
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


def _instance_type(variables: Mapping[str, str]) -> Optional[str]:
    """The SageMaker instance that this is; None where a job only pretends to run on one.

    A local run has the variables of SageMaker too, but its ARN lies in no region: "local".
    """
    region = (variables.get("TRAINING_JOB_ARN", "").split(":") + [""] * 4)[3]
    on_sagemaker = region not in ("", "local")
    return (variables.get("SM_CURRENT_INSTANCE_TYPE") or None) if on_sagemaker else None


def _cores_available() -> int:
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
