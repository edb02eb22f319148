"""What a job ran on, for the evidence: versions, hardware, load, and how torch was set to compute.
float32 may mean TF32 on a GPU and bfloat16 on a CPU, and cuDNN may choose algorithms at run time.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any, Callable, Mapping

from compilegate.job.contract import IMAGE_VARIABLE
from compilegate.job.evidence import Scalar
from compilegate.job.machine.accelerators import HOST, Machine

EXACT = "ieee"  # as torch calls plain float32


def describe_machine(
    machine: Machine, place: str | None, environment: Mapping[str, str]
) -> dict[str, Scalar]:
    """Versions that decide the arithmetic, and the hardware, alike for every process on it. `place`
    is where this one computes; None without torch."""
    has = machine.accelerators
    found: dict[str, Scalar] = {
        "python": platform.python_version(),
        "transformers": version_of("transformers"),
        "numpy": version_of("numpy"),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores_available": cores_available(),
        "instance_type": instance_type(environment),
        "image": environment.get(IMAGE_VARIABLE) or None,
        "accelerator": None if has is None else has.name,
        "accelerators": 0 if has is None else has.count,
    }
    if has is not None:
        found["accelerator_memory_bytes"] = has.memory_bytes
        found["accelerator_capability"] = has.capability
    if machine.described is not None:
        found["described"] = machine.described  # a rehearsal never passes for the machine itself
    if place is not None:
        import torch  # noqa: PLC0415 - programs without torch are described, too

        found["torch"] = str(torch.__version__)
        # What starts the processes decides how many each has. They compute on a host alone.
        found["threads"] = torch.get_num_threads() if place == HOST else None
        found.update(arithmetic_settings(environment))
    return found


def arithmetic_settings(environment: Mapping[str, str]) -> dict[str, Scalar]:
    """How torch is set in this process. The `float32_` settings are `ieee`, `tf32` or `bf16`."""
    import torch  # noqa: PLC0415 - as above

    backends: Any = torch.backends
    cudnn = backends.cudnn
    # With 0 NVIDIA's libraries leave TF32 alone, whatever torch asks of them.
    overridden = environment.get("NVIDIA_TF32_OVERRIDE") == "0"

    def on_gpu(place: Any, allowed: Callable[[], bool]) -> str:
        # From torch 2.9 on there are two sets of names, and the old one raises after the new one.
        precision = _precision_set(place) or ("tf32" if allowed() else EXACT)
        return EXACT if overridden else precision

    precision_of = getattr(torch, "get_float32_matmul_precision", lambda: "highest")
    on_cpu = _precision_set(getattr(backends.mkldnn, "matmul", None))
    try:
        release = cudnn.version()
    except RuntimeError:  # one that torch was not built for; a job on the host never uses it
        release = None
    return {
        "float32_matmul_gpu": on_gpu(backends.cuda.matmul, lambda: backends.cuda.matmul.allow_tf32),
        "float32_convolution_gpu": on_gpu(getattr(cudnn, "conv", None), lambda: cudnn.allow_tf32),
        "float32_matmul_cpu": on_cpu or ("bf16" if precision_of() == "medium" else EXACT),
        "cudnn_benchmark": bool(cudnn.benchmark),
        "cudnn_deterministic": bool(cudnn.deterministic),
        "deterministic_algorithms": bool(torch.are_deterministic_algorithms_enabled()),
        "cuda": torch.version.cuda,
        "cudnn": release,
    }


def _precision_set(place: Any) -> str | None:
    """By torch's names since 2.9; None where there are none. `none` is no setting."""
    try:
        precision: str | None = getattr(place, "fp32_precision", None)
    except AssertionError:  # torch 1.13's way of saying that its matmul has no such attribute
        return None
    return EXACT if precision == "none" else precision


def _ticks() -> list[int]:
    """The kernel's count of processor time, all cores together; empty without /proc/stat."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            return [int(each) for each in file.readline().split()[1:9]]
    except OSError:
        return []


_STARTED = _ticks()


def checkup() -> dict[str, Scalar]:
    """What else the machine did since this module was imported: why step times scatter."""
    found: dict[str, Scalar] = {"processors": os.cpu_count() or 1}  # which the load is of
    if hasattr(os, "getloadavg"):
        found["load"] = os.getloadavg()[0]
    passed = [now - then for now, then in zip(_ticks(), _STARTED)]
    if sum(passed) > 0:
        found["steal"] = max(0, passed[7]) / sum(passed)
    return found


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def instance_type(environment: Mapping[str, str]) -> str | None:
    """The SageMaker instance that this is; None in a local run, whose ARN lies in no region."""
    region = (environment.get("TRAINING_JOB_ARN", "").split(":") + [""] * 4)[3]
    on_sagemaker = region not in ("", "local")
    return (environment.get("SM_CURRENT_INSTANCE_TYPE") or None) if on_sagemaker else None


def cores_available() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_model() -> str:
    return _cpu_entry("model name") or platform.processor() or platform.machine()


def cpu_features() -> list[str]:
    """The instruction sets that the processor names, sorted; empty where it is not Linux."""
    return sorted((_cpu_entry("flags") or _cpu_entry("Features") or "").split())


def _cpu_entry(name: str) -> str | None:
    """What the kernel says of the first processor under that name; None where it is not Linux."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            entries = (line.partition(":") for line in file)
            return next((value.strip() for key, _, value in entries if key.strip() == name), None)
    except OSError:
        return None
