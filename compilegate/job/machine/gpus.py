"""How many GPUs torch_xla 1.x is to find. Needs no torch."""

from __future__ import annotations

from typing import MutableMapping

from compilegate.job.names import GPU_COUNT_VARIABLE

TOOLKIT_GPUS_VARIABLE = "SM_NUM_GPUS"
"""The machine's, as SageMaker's training toolkit, or the local runner, counted them."""


def name_gpus(environment: MutableMapping[str, str]) -> None:
    """Set GPU_NUM_DEVICES, unless somebody has: where it is missing, torch_xla 1.x ends with
    "Missing XLA configuration"."""
    gpus = environment.get(TOOLKIT_GPUS_VARIABLE) or "0"
    if gpus != "0":
        environment.setdefault(GPU_COUNT_VARIABLE, gpus)
