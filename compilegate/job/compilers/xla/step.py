"""A training step on an XLA device, and what was compiled for it: one graph from the forward pass
to the averaged weights, or two where gradients are averaged in host memory, which lies between."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable, List, Mapping, Optional, Set, Tuple

import torch

from compilegate.job.compilers.failures import cause_of, compiler_failure
from compilegate.job.compilers.xla import runtime
from compilegate.job.errors import CompilerError, InputError
from compilegate.job.machine.distribution import average_through_host
from compilegate.job.machine.world import World

Take = Callable[[], Any]

SEEDS_OF_A_STEP = 2**38
"""More than the seeds of all processes: no two steps of any two draw the same numbers."""


@dataclass(frozen=True)
class Processes:
    """The processes that train together, and where their gradients meet.

    torch_xla averages gradients within a step's graph, over the processes that it knows of. On a
    CPU it knows of this one only: its collective operations silently do nothing. There the
    gradients of torchrun's processes meet in host memory.
    """

    world: World
    through_host: bool

    @property
    def averaging(self) -> str:
        """Where gradients are averaged, in words for the evidence."""
        if self.world.alone:
            return "one process"
        if self.through_host:
            return "in host memory, by gloo, between two graphs of a step"
        return "within the graph of a step, by torch_xla"


def joined_processes(launched: World, known: World, hardware: str, *, machines: int) -> Processes:
    """How the processes that torchrun launched and those that torch_xla knows work together.

    `hardware` is the kind of XLA device. Raises CompilerError where some would train alone.
    """
    through_host = hardware == "CPU" and known.alone and not launched.alone
    world = launched if through_host else known
    if launched.size > world.size:
        raise CompilerError(
            f"torchrun started {launched.size} processes and torch_xla knows of {world.size}: "
            "each would train alone; start them with distribution = 'pytorchxla'"
        )
    if machines > world.size:
        raise CompilerError(
            f"the job has {machines} machines, and of their processes {world.size} would train "
            "together; set distribution = 'pytorchxla', or one instance"
        )
    return Processes(world, through_host)


@dataclass(frozen=True)
class Compilations:
    """Counted since torch_xla was imported."""

    graphs: int
    """Graphs compiled because there was none like them."""
    reused: int
    """Executions of a graph that had been compiled."""
    seconds: float
    """Spent on compiling, and on no training."""
    executions: int

    @classmethod
    def now(cls) -> Compilations:
        """torch_xla's counters as they stand."""
        compiling, executing = runtime.metric("CompileTime"), runtime.metric("ExecuteTime")
        return cls(
            graphs=runtime.counter("UncachedCompile"),
            reused=runtime.counter("CachedCompile"),
            seconds=round(compiling[1] / 1e9, 3) if compiling else 0.0,
            executions=int(executing[0]) if executing else 0,
        )


_REPORT = re.compile(r"^Compilation Analysis: =+$", re.MULTILINE)
_LINE = re.compile(r"^Compilation Analysis: ?(.*)$", re.MULTILINE)
_UNEXPECTED = re.compile(
    r"^Unexpected Execution Analysis: Python Frame Triggered Execution: ?\n"
    r"Unexpected Execution Analysis: +(\S+) \((?:.*/)?([^/]+:\d+)\)$",
    re.MULTILINE,
)


def causes(environment: Mapping[str, str]) -> List[str]:
    """Why each graph was compiled, in order, by torch_xla's report:
    `torch_xla.compile: training step, 61 inputs, 124 outputs`. Before release 2 there is none."""
    found = []
    for report in _REPORT.split(_report(environment)):
        lines = [line.strip() for line in _LINE.findall(report)]
        values = dict(line.split(": ", 1) for line in lines if ": " in line)
        if "Compilation Cause" in lines and "Number of Graph Inputs" in values:
            name = values.get("Graph Name")
            found.append(
                f"{lines[lines.index('Compilation Cause') + 1]}: {f'{name}, ' if name else ''}"
                f"{values['Number of Graph Inputs']} inputs, "
                f"{values['Number of Graph Outputs']} outputs"
            )
    return found


def cut_by(environment: Mapping[str, str]) -> str:
    """The function, file and line that asked the device for a value in the middle of a step; empty
    where the report does not tell."""
    found = _UNEXPECTED.findall(_report(environment))
    return "{} in {}".format(*found[-1]) if found else ""


def _report(environment: Mapping[str, str]) -> str:
    path = environment.get(runtime.DEBUG_FILE_VARIABLE)
    if not path or not os.path.isfile(path):
        return ""
    return Path(path).read_text(encoding="utf-8", errors="replace")


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
        """`parameters` are those that are trained; `shapes` are those of a step's batch, in words.
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
            explained = self._explained(error)
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
            new = "a number of the step" if shapes in self._shapes else f"a batch of {shapes}"
            self.recompilations.append(f"step {step}: {new} is new")
        self._graphs = graphs
        self._shapes.add(shapes)
        if graphs > self._most_graphs:
            raise CompilerError(
                f"XLA compiled {graphs} graphs for the training step, and they may be "
                f"{self._most_graphs}; shapes and constants must be the same in all steps"
            )

    def _explained(self, error: RuntimeError) -> Optional[CompilerError]:
        """The error in terms of the step, if its cause is known."""
        message = str(error)
        if _CUT in message:
            place = cut_by(os.environ)
            return CompilerError(
                "the training step asks the XLA device for a value before it ends"
                f"{f' ({place})' if place else ''}, which cuts it into several graphs; compute it "
                "without looking at values"
            )
        if _TOO_MANY in message:
            got, *known = [
                each if len(each) <= _SHOWN else f"{each[: _SHOWN - 3]}..."
                for each in _OPERATION.findall(message)
            ] or [""]
            return CompilerError(
                "XLA would have to compile the training step once more, and its graphs may be "
                f"{self._most_graphs}: it found {got or 'an operation'} where "
                f"{' or '.join(known) or 'another'} was; shapes and constants must be the same in "
                "all steps"
            )
        return compiler_failure("XLA", error) if cause_of(error) else None
