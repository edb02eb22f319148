"""How many steps a run takes, and the learning rate of each: a linear rise, then a linear fall."""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.job import InputError
from training.hyperparameters import Hyperparameters


@dataclass(frozen=True)
class RunLength:
    """How many steps a run takes."""

    steps: int
    warmup: int
    steps_per_epoch: int
    world_size: int = 1  # processes that train together, each with a batch of its own


def run_length(hyperparameters: Hyperparameters, documents: int, world_size: int = 1) -> RunLength:
    """The length of a run over so many documents. Raises InputError if they fill no batch."""
    per_epoch = steps_per_epoch(documents, hyperparameters.batch_size * world_size)
    if per_epoch == 0:
        together = "" if world_size == 1 else f" in each of {world_size} processes"
        raise InputError(
            f"--batch_size is {hyperparameters.batch_size}{together}, but the train split has "
            f"{documents} documents"
        )
    steps = hyperparameters.epochs * per_epoch
    if hyperparameters.max_steps:
        steps = min(steps, hyperparameters.max_steps)
    warmup = min(round(steps * hyperparameters.warmup_fraction), steps - 1)
    return RunLength(steps, warmup, per_epoch, world_size)


def steps_per_epoch(documents: int, batch_size: int) -> int:
    """Full batches in an epoch; the ragged rest is left out, as it has another shape."""
    return documents // batch_size


def rate_factor(step: int, steps: int, warmup: int) -> float:
    """The part of the peak rate that step number `step` (from 0) of `steps` uses: 1 in step
    `warmup`, and never 0, which it would reach in step `steps`."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return (steps - step) / (steps - warmup)
