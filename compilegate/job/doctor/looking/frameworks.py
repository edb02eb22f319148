"""The packages that compilers need, and torch, asked in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Optional, Tuple

from compilegate.job.doctor.facts import Timing, Torch, TorchDevice, Xla
from compilegate.job.doctor.looking.processes import ask
from compilegate.job.machine.environment import version_of
from compilegate.job.names import XLA_DEVICE_VARIABLE

PACKAGES = (
    *("torch", "torchvision", "transformers", "accelerate", "lightning", "tensorflow", "keras"),
    *("triton", "pytorch-triton", "torch_xla", "torch-neuronx", "neuronx-cc", "torch-tensorrt"),
    *("onnx", "onnxscript", "onnxruntime-training", "onnxruntime", "safetensors", "numpy"),
)
VARIABLES = (
    *("SM_TRAINING_COMPILER_CONFIGURED", XLA_DEVICE_VARIABLE),
    *("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS"),
    *("NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
    "OMP_NUM_THREADS",
)
"""Variables that switch something on or off."""
_SECONDS = 180.0
"""torch's first import from a cold disk, and CUDA's start on eight GPUs."""


def installed_packages() -> Dict[str, str]:
    """Those of PACKAGES that are installed, with their versions. Nothing is imported."""
    found = {name: version_of(name) for name in PACKAGES}
    return {name: version for name, version in found.items() if version is not None}


def neuron_devices() -> int:
    """Trainium or Inferentia devices that the kernel shows."""
    return len(list(Path("/dev").glob("neuron[0-9]*")))


def examine_torch() -> Tuple[Torch, List[Timing]]:
    """torch with its devices, and how the times of each GPU vary."""
    if version_of("torch") is None:
        return Torch(), []
    told = ask("compilegate.job.doctor.looking.torch_here", _SECONDS)
    timings = [Timing(**each) for each in told.pop("timings", [])]
    devices = tuple(
        TorchDevice(precisions=tuple(each.pop("precisions")), **each)
        for each in told.pop("devices", [])
    )
    architectures = tuple(told.pop("architectures", ()))
    return Torch(**told, devices=devices, architectures=architectures), timings


def examine_xla() -> Optional[Xla]:
    """torch_xla and its device; None where it is not installed."""
    version = version_of("torch_xla")
    if version is None:
        return None
    return Xla(version, **ask("compilegate.job.doctor.looking.xla_here", _SECONDS))
