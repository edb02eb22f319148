"""What a job trained in, and what its workload declares: one sentence for the job and the gate."""

from __future__ import annotations

from typing import Iterable, Sequence

_COARSER = ("fp32", "fp16", "bf16")


def coarsest(precisions: Iterable[str]) -> str:
    """The one that rounds most of several; fp32 of none."""
    return max(precisions, key=_COARSER.index, default=_COARSER[0])


def trains_in(trained: str, *, autocast: bool) -> str:
    """How a training computes, to go on with."""
    return f"this script trains {f'under {trained} autocast' if autocast else f'in {trained}'}"


def otherwise_declared(trained: str, declared: str, arms: Sequence[str], *, autocast: bool) -> str:
    """That arms trained in another precision than the workload declares, with what to change."""
    if declared != _COARSER[0]:
        instead = "run its forward pass under job.autocast()"
    elif autocast:
        instead = "remove torch.autocast"
    else:
        instead = "keep its parameters and products in float32"
    tables = " and ".join(f"[arms.{arm}]" for arm in arms)
    return (
        f"{trains_in(trained, autocast=autocast)}; the workload declares {declared}: set precision "
        f'= "{trained}" in {tables}, or {instead}'
    )
