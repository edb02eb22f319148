"""A training step on an XLA device: one graph from the forward pass to the averaged weights."""

from __future__ import annotations

import os
import re
from typing import List, Optional

import torch

from training.batches import Batch
from training.failure import CompilerError
from training.step import StepParts
from training.world import World
from training.xla import runtime
from training.xla.compilations import Compilations, cut_by

SEEDS_OF_A_STEP = 2**38
"""More than the seeds of all processes: no two steps of any two draw the same numbers."""

_TOO_MANY = "Maximum number of different graphs allowed per function exceeded"
_OPERATION = re.compile(r"\[\] (.+?)(?:, dynamic_dims.*)?$", re.MULTILINE)
_CUT = "Unexpected execution happens inside the compiled function"
_SHOWN = 150
"""Characters of a graph's operation; it names every shape it has."""


class TracedStep:
    """Takes steps whose operations are executed together, at the step's end.

    The loss is known only then: one that is not finite has been used for an update, of weights that
    nobody will see, since the job ends.
    """

    def __init__(self, parts: StepParts, world: World, seed: int, most_graphs: int) -> None:
        self._parts = parts
        self._world = world
        self._seed = seed
        self._most_graphs = most_graphs
        self._losses: List[float] = []
        self._run = runtime.compiled(self._trace, most_graphs)
        self._compiled_before = Compilations.now().graphs

    def __call__(self, step: int, batch: Batch) -> float:
        """Take the step; returns its loss, the mean of all processes'.

        Raises NonFiniteLossError, and CompilerError when it would be a graph too many.
        """
        try:
            self._run(step, batch)
        except RuntimeError as error:
            explained = self._explained(str(error))
            if explained is None:
                raise
            raise explained from error
        self._check_graphs()
        value = self._losses.pop()
        self._parts.require_finite(value, step)
        return value

    def _trace(self, step: int, batch: Batch) -> None:
        parts = self._parts
        # The device's generator moves on with every synchronisation, and a job that was resumed has
        # others; so each step has a seed of its own.
        runtime.seed(self._seed + (step + 1) * SEEDS_OF_A_STEP)
        loss = parts.loss(batch)
        parts.update.backward(loss)
        reported = loss.detach()
        if not self._world.alone:
            # Before the update unscales and clips: the norm is that of the whole batch's gradient.
            runtime.reduce_gradients(parts.update.optimizer)
            reported = runtime.mean(reported, self._world.size)
        parts.change(step)
        runtime.after_step(self._take_loss, reported)

    def _take_loss(self, loss: torch.Tensor) -> None:
        self._losses.append(loss.item())

    def _check_graphs(self) -> None:
        """For a torch_xla that has no guard of its own."""
        graphs = Compilations.now().graphs - self._compiled_before
        if graphs > self._most_graphs:
            raise CompilerError(
                f"XLA compiled {graphs} graphs for the training step, and they may be "
                f"{self._most_graphs}; shapes and constants must be the same in all steps"
            )

    def _explained(self, message: str) -> Optional[CompilerError]:
        if _CUT in message:
            place = cut_by(os.environ)
            return CompilerError(
                "the training step asks the XLA device for a value before it ends"
                f"{f' ({place})' if place else ''}, which cuts it into several graphs; compute it "
                "without looking at values"
            )
        if _TOO_MANY not in message:
            return None
        got, *known = [_shortened(each) for each in _OPERATION.findall(message)] or [""]
        return CompilerError(
            "XLA would have to compile the training step once more, and its graphs may be "
            f"{self._most_graphs}: it found {got or 'an operation'} where "
            f"{' or '.join(known) or 'another'} was; shapes and constants must be the same in all "
            "steps"
        )


def _shortened(operation: str) -> str:
    return operation if len(operation) <= _SHOWN else f"{operation[: _SHOWN - 3]}..."
