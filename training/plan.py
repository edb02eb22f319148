"""The plan of a run: how many steps it takes, and which batches, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator

from training.batches import Batch, BatchSource, steps_per_epoch
from training.failure import InputError
from training.recipe import Recipe
from training.schedule import warmup_steps


@dataclass(frozen=True)
class Plan:
    """How many steps a run takes."""

    steps: int
    warmup: int
    steps_per_epoch: int
    world_size: int = 1
    """Processes that train together, each with a batch of the recipe's size in every step."""


def plan_run(recipe: Recipe, documents: int, world_size: int = 1) -> Plan:
    """Raises InputError when the data do not fill one batch."""
    per_epoch = steps_per_epoch(documents, recipe.batch_size * world_size)
    if per_epoch == 0:
        together = "" if world_size == 1 else f" in each of {world_size} processes"
        raise InputError(
            f"--batch_size is {recipe.batch_size}{together}, but the train split has "
            f"{documents} documents"
        )
    steps = recipe.epochs * per_epoch
    if recipe.max_steps:
        steps = min(steps, recipe.max_steps)
    return Plan(steps, warmup_steps(steps, recipe.warmup_fraction), per_epoch, world_size)


def planned_batches(
    source: BatchSource, recipe: Recipe, plan: Plan, seed: int, *, first: int = 0, rank: int = 0
) -> Iterator[Batch]:
    """The batch that process number `rank` takes in each step of the run, from step `first` on."""
    taken = first
    begun, skipped = divmod(first, plan.steps_per_epoch)
    for epoch in range(begun, recipe.epochs):
        start = skipped if epoch == begun else 0
        for batch in source.training(
            seed, epoch, recipe.batch_size, start, share=(rank, plan.world_size)
        ):
            if taken == plan.steps:
                return
            taken += 1
            yield batch
