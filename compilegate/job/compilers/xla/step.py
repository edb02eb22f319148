"""A training step on an XLA device: one graph from the forward pass to the averaged weights.

Two where gradients are averaged in host memory, which lies between them.
"""

from __future__ import annotations

import os
import re
from typing import List, Optional, Set

import torch

from compilegate.job.compilers.xla import runtime
from compilegate.job.compilers.xla.compilations import Compilations, cut_by
from compilegate.job.errors import CompilerError
from compilegate.job.machine.world import World
from compilegate.job.steps.distribution import average_through_host
from compilegate.job.steps.step import Batch, StepParts

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

    def __init__(
        self, parts: StepParts, world: World, seed: int, most_graphs: int, *, through_host: bool
    ) -> None:
        """`through_host`: the gradients of the world's processes meet there, since torch_xla joins
        none."""
        self._parts = parts
        self._world = world
        self._seed = seed
        self._losses: List[float] = []
        self._graphs = 0
        self._shapes: Set[str] = set()
        self.recompilations: List[str] = []
        """For each later step that was compiled: its number, and what was new in it."""
        if through_host:
            self._gradients = runtime.compiled(self._trace_gradients, "gradients", most_graphs)
            self._update = runtime.compiled(self._trace_update, "update", most_graphs)
            self._take: runtime.Trace = self._in_two_graphs
        else:
            self._take = runtime.compiled(self._trace_whole, "training step", most_graphs)
        self._most_graphs = most_graphs * (2 if through_host else 1)
        self._compiled_before = Compilations.now().graphs

    def __call__(self, step: int, batch: Batch) -> float:
        """Take the step; returns its loss, the mean of all processes'.

        Raises NonFiniteLossError, and CompilerError when it would be a graph too many.
        """
        try:
            self._take(step, batch)
        except RuntimeError as error:
            explained = self._explained(str(error))
            if explained is None:
                raise
            raise explained from error
        self._count_graphs(step, batch)
        value = self._losses.pop()
        self._parts.require_finite(value, step)
        return value

    def _trace_whole(self, step: int, batch: Batch) -> None:
        reported = self._backward(step, batch)
        if not self._world.alone:
            # Before the update unscales and clips: the norm is that of the whole batch's gradient.
            runtime.reduce_gradients(self._parts.update.optimizer)
            reported = runtime.mean(reported, self._world.size)
        self._parts.update.apply(step)
        runtime.after_step(self._take_loss, reported)

    def _in_two_graphs(self, step: int, batch: Batch) -> None:
        self._gradients(step, batch)
        parameters = self._parts.model.parameters()
        mean = average_through_host(parameters, self._losses.pop(), self._world)
        self._update(step, batch)
        self._losses.append(mean)

    def _trace_gradients(self, step: int, batch: Batch) -> None:
        runtime.after_step(self._take_loss, self._backward(step, batch))

    def _trace_update(self, step: int, _batch: Batch) -> None:
        self._parts.update.apply(step)

    def _backward(self, step: int, batch: Batch) -> torch.Tensor:
        # The device's generator moves on with every synchronisation, and a job that was resumed has
        # others; so each step has a seed of its own.
        runtime.seed(self._seed + (step + 1) * SEEDS_OF_A_STEP)
        loss = self._parts.loss(batch)
        self._parts.update.backward(loss)
        return loss.detach()

    def _take_loss(self, loss: torch.Tensor) -> None:
        self._losses.append(loss.item())

    def _count_graphs(self, step: int, batch: Batch) -> None:
        """Raises CompilerError for one too many: a torch_xla of 1.x has no guard of its own."""
        graphs = Compilations.now().graphs - self._compiled_before
        shapes = ", ".join(f"{name} {list(each.shape)}" for name, each in sorted(batch.items()))
        if graphs > self._graphs and self._shapes:
            new = shapes not in self._shapes
            self.recompilations.append(
                f"step {step}: {f'a batch of {shapes}' if new else 'a number of the step'} is new"
            )
        self._graphs = graphs
        self._shapes.add(shapes)
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
