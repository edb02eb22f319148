"""A training step on an XLA device: one graph from the forward pass to the averaged weights.

Two where gradients are averaged in host memory, which lies between them.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Iterable, List, Optional, Set, Tuple

import torch

from compilegate.job.compilers.xla import runtime
from compilegate.job.compilers.xla.compilations import Compilations, cut_by
from compilegate.job.compilers.xla.processes import Processes
from compilegate.job.errors import CompilerError, InputError
from compilegate.job.stepping.distribution import average_through_host

Take = Callable[[], Any]

SEEDS_OF_A_STEP = 2**38
"""More than the seeds of all processes: no two steps of any two draw the same numbers."""

_TOO_MANY = "Maximum number of different graphs allowed per function exceeded"
_OPERATION = re.compile(r"\[\] (.+?)(?:, dynamic_dims.*)?$", re.MULTILINE)
_CUT = "Unexpected execution happens inside the compiled function"
_SHOWN = 150
"""Characters of a graph's operation; it names every shape it has."""


class TracedSteps:
    """Takes steps whose operations are executed together, at the step's end.

    What its operations compute is known only then. A loss that is not finite has been used for an
    update by the time that anyone sees it.
    """

    def __init__(
        self,
        processes: Processes,
        parameters: Callable[[], Iterable[torch.nn.Parameter]],
        shapes: Callable[[], str],
        *,
        seed: Optional[int],
        most_graphs: int,
    ) -> None:
        """`parameters` are those that are trained; `shapes` says what a step's batch looked like.
        `seed` is this process's own; None leaves the device's generator to the script."""
        self._processes = processes
        self._parameters = parameters
        self._shapes_now = shapes
        self._seed = seed
        self._result: Any = None
        self._mean: Any = None
        self._graphs = 0
        self._shapes: Set[str] = set()
        self.recompilations: List[str] = []
        """For each later step that was compiled: its number, and what was new in it."""
        if processes.through_host:
            self._gradients = runtime.compiled(self._trace_gradients, "gradients", most_graphs)
            self._update = runtime.compiled(self._trace_update, "update", most_graphs)
            self._take: runtime.Trace = self._in_two_graphs
        else:
            self._take = runtime.compiled(self._trace_whole, "training step", most_graphs)
        self._most_graphs = most_graphs * (2 if processes.through_host else 1)
        self._compiled_before = Compilations.now().graphs

    def take(self, step: int, take: Take, update: Optional[Take]) -> Tuple[Any, Any]:
        """Take the step; returns what `take` did, and the mean of all processes' losses if there
        are several.

        Raises CompilerError when it would be a graph too many, and InputError where there is no
        place between gradients and update.
        """
        if update is None and not self._processes.world.alone:
            raise InputError(
                f"job.step() was given one function in one of {self._processes.world.size} "
                "processes; give it two, so that gradients can be averaged in between: one that "
                "calls backward() and returns the loss, and one that changes the weights"
            )
        self._result = self._mean = None
        try:
            self._take(step, take, update)
        except RuntimeError as error:
            explained = self._explained(str(error))
            if explained is None:
                raise
            raise explained from error
        self._count_graphs(step)
        return self._result, self._mean

    def _trace_whole(self, step: int, take: Take, update: Optional[Take]) -> None:
        self._trace_gradients(step, take)
        size = self._processes.world.size
        if size > 1:
            # Before the update unscales and clips: the norm is that of the whole batch's gradient.
            runtime.reduce_gradients(self._parameters(), size)
            self._mean = runtime.mean(self._result.detach(), size)
        self._trace_update(update)

    def _in_two_graphs(self, step: int, take: Take, update: Optional[Take]) -> None:
        self._gradients(step, take)
        loss = self._result.item()
        self._mean = average_through_host(self._parameters(), loss, self._processes.world)
        self._update(update)

    def _trace_gradients(self, step: int, take: Take) -> None:
        # The device's generator moves on with every synchronisation, and a job that was resumed has
        # others; so each step has a seed of its own.
        if self._seed is not None:
            runtime.seed(self._seed + (step + 1) * SEEDS_OF_A_STEP)
        self._result = take()

    def _trace_update(self, update: Optional[Take]) -> None:
        if update is not None:
            update()

    def _count_graphs(self, step: int) -> None:
        """Raises CompilerError for one too many: a torch_xla of 1.x has no guard of its own."""
        graphs, shapes = Compilations.now().graphs - self._compiled_before, self._shapes_now()
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
