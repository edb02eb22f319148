"""How torch was set to compute, as far as two jobs with one model can differ by it.

float32 is not always float32: a GPU may multiply in TF32, which has ten bits of the mantissa, and a
CPU in bfloat16. cuDNN may try its algorithms out (benchmark) and take another one in another job,
and some operations have a slower variant that repeats itself. Whoever compares arms has to know.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Optional

from compilegate.job.evidence import Scalar

EXACT = "ieee"
"""As torch calls plain float32."""
_TF32 = "tf32"
_OVERRIDE = "NVIDIA_TF32_OVERRIDE"
"""With 0 NVIDIA's libraries leave TF32 alone, whatever torch asks of them."""


def arithmetic_settings(variables: Optional[Mapping[str, str]] = None) -> Dict[str, Scalar]:
    """What torch is told in this process, whatever it has to compute on; `variables` are those of
    the environment. The `float32_` ones are `ieee`, `tf32` or `bf16`."""
    import torch  # noqa: PLC0415 - programs without torch are described, too

    backends: Any = torch.backends
    overridden = (os.environ if variables is None else variables).get(_OVERRIDE) == "0"

    def on_gpu(place: Any, allowed: Callable[[], bool]) -> str:
        # From torch 2.9 on there are two sets of names, and the old one raises after the new one.
        told = str(_told(place) or (_TF32 if allowed() else EXACT))
        return EXACT if overridden else told

    cudnn = backends.cudnn
    return {
        "float32_matmul_gpu": on_gpu(backends.cuda.matmul, lambda: backends.cuda.matmul.allow_tf32),
        "float32_convolution_gpu": on_gpu(getattr(cudnn, "conv", None), lambda: cudnn.allow_tf32),
        "float32_matmul_cpu": _told(getattr(backends.mkldnn, "matmul", None)) or _of_old_cpus(),
        "cudnn_benchmark": bool(cudnn.benchmark),
        "cudnn_deterministic": bool(cudnn.deterministic),
        "deterministic_algorithms": bool(torch.are_deterministic_algorithms_enabled()),
        "cuda": torch.version.cuda,
        "cudnn": _release(cudnn),
    }


def _release(cudnn: Any) -> Optional[int]:
    """That of the library; None where there is none, or one that torch was not built for: torch
    says so itself where it has to use it, and a job on the host never does."""
    try:
        found: Optional[int] = cudnn.version()
    except RuntimeError:
        return None
    return found


def _told(place: Any) -> Optional[str]:
    """By the names that torch has from 2.9 on; None where it has none. `none` is no setting, in the
    place itself as in those that it follows."""
    try:
        told = getattr(place, "fp32_precision", None)
    except AssertionError:  # torch 1.13's way of saying that its matmul has no such attribute
        return None
    return EXACT if told == "none" else told


def _of_old_cpus() -> str:
    import torch  # noqa: PLC0415 - as above

    asked = getattr(torch, "get_float32_matmul_precision", lambda: "highest")()
    return "bf16" if asked == "medium" else EXACT
