"""What is known of the backends of torch.compile before anything runs. Needs no torch.

Whatever is not listed works too: by its name, once the package that registers it is installed, or
as `package.module.function`. What is not known of it is found out, or assumed for the worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

INDUCTOR = "inductor"
CUDAGRAPHS = "cudagraphs"
NAME = r"[A-Za-z_][A-Za-z0-9_]*"


@dataclass(frozen=True)
class Backend:
    """One backend."""

    name: str
    install: str
    """What brings it along, to end "it comes with"."""
    module: Optional[str] = None
    """What has to be imported before torch knows it; None where torch finds it."""
    draws_as_eager: Optional[bool] = None
    """Whether dropout draws eager's random numbers. None: it has to be tried; see `running`."""
    keeps_output: bool = False
    """Whether another job can use what it compiled, by Inductor's cache."""
    takes_mode: bool = False
    takes_options: bool = True
    takes_dynamic: bool = True
    only_on: Optional[str] = None
    """The type of device that the model has to be on; None for any."""
    strict_variables: Tuple[Tuple[str, str], ...] = ()
    """Variables of the environment that keep it from falling back to eager mode in silence."""
    strict_options: Tuple[Tuple[str, bool], ...] = ()
    """Options of its own that do."""
    needs: Tuple[str, ...] = ()
    """What it needs of a machine beyond torch.compile, by the names of `doctor.needs`."""
    refused: Optional[str] = None
    """Why no arm may name it, and what to name instead; None where an arm may."""


_TORCH = "torch itself"
_DEBUG = (
    "which runs the captured graph as it is and compiles nothing; take compiler = 'eager', or "
    "backend 'aot_eager' to try the capture alone"
)

_KNOWN = (
    Backend(INDUCTOR, _TORCH, keeps_output=True, takes_mode=True, needs=("kernels",)),
    Backend(CUDAGRAPHS, _TORCH, takes_options=False, only_on="cuda", needs=("gpu",)),
    # Eager's own operators in eager's order: forward and backward pass are captured, not compiled.
    Backend("aot_eager", _TORCH, draws_as_eager=True, takes_options=False),
    Backend(
        "onnxrt",
        "torch before 2.9 together with the packages onnx, onnxscript and onnxruntime-training",
        draws_as_eager=False,
        needs=("torch before 2.9", "onnxruntime-training"),
    ),
    Backend(
        "neuron",
        "the package torch-neuronx from 2.14 on (TorchNeuron, on Trainium 2 and 3)",
        module="torch_neuronx",
        draws_as_eager=False,
        takes_dynamic=False,
        only_on="neuron",
        needs=("neuron device", "torch-neuronx"),
        strict_variables=(("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "1"),),
        strict_options=(("fallback_execution", False),),
    ),
    Backend(
        "tensorrt",
        "the package torch-tensorrt",
        module="torch_tensorrt",
        draws_as_eager=False,
        only_on="cuda",
        needs=("gpu", "torch-tensorrt"),
        strict_options=(("pass_through_build_failures", True),),
    ),
    Backend(
        "openxla",
        "the package torch_xla",
        draws_as_eager=False,
        takes_options=False,
        needs=("torch_xla",),
    ),
    *(
        Backend(name, _TORCH, refused=_DEBUG)
        for name in ("eager", "eager_noexcept", "eager_debug", "pre_dispatch_eager")
    ),
)


def known(name: str) -> Optional[Backend]:
    """What is known of a backend; None for one that is not listed."""
    return next((each for each in _KNOWN if each.name == name), None)


def usable() -> Tuple[Backend, ...]:
    """Those that are listed and that an arm may name."""
    return tuple(each for each in _KNOWN if each.refused is None)
