"""PyTorch/XLA: each training step is traced, compiled whole and executed on an XLA device, with
torch_xla 1.13 (SageMaker Training Compiler) to 2.9."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Sequence

import torch

from compilegate.job.compilers import xla_runtime as runtime
from compilegate.job.compilers.compiler import Compiler, Forward
from compilegate.job.compilers.declaration import Settings
from compilegate.job.compilers.failures import cause_of, compiler_failure
from compilegate.job.compilers.xla_runtime import Compilations
from compilegate.job.errors import CompilerError, InputError
from compilegate.job.evidence import CompilerRecord, Scalar
from compilegate.job.machine.memory import reset_process_peak
from compilegate.job.machine.world import ALONE, SEED_LIMIT, World, hosts

Take = Callable[[], Any]

SEEDS_OF_A_STEP = 2**38
"""More than the seeds of all processes: no two steps of any two draw the same numbers."""
_MOST_CAUSES = 10
"""How many recompilations the evidence gives the cause of; after a few they are all alike."""


class Xla(Compiler):
    """Takes whole steps on the XLA device, counts the graphs, and notes what was new in later ones.
    XLA's CPU device cannot read executables back, so nothing is cached."""

    name = "xla"
    compiles_whole_steps = True
    without_device = "the machine or the image has none of that kind"  # where it does not open

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._version = runtime.start(os.environ, without_device=self.without_device)
        self._graphs_before_steps = Compilations.now().graphs
        self._seed: int | None = None
        self._processes = Processes(ALONE, through_host=False)
        self._steps: TracedSteps | None = None
        self._forwards: list[TracedForward] = []

    @property
    def shares_random_numbers(self) -> bool:
        return False

    def world(self, launched: World) -> World:
        """The processes that train together. Raises CompilerError when some would train alone."""
        self._processes = joined_processes(
            launched, runtime.world(), runtime.hardware(), machines=len(hosts(os.environ))
        )
        return self._processes.world

    def device(self, host: torch.device) -> torch.device:
        return runtime.device()

    def hardware(self) -> str | None:
        return runtime.hardware()

    def peak_memory(self, device: torch.device) -> tuple[int | None, str | None]:
        return runtime.peak_memory()

    def forget_peak_memory(self, device: torch.device) -> bool:
        return runtime.hardware() == "CPU" and reset_process_peak()

    def seed(self, seed: int, world: World) -> None:
        """All processes have the same weights; each draws its own dropout masks."""
        self._seed = seed + world.rank * SEED_LIMIT

    def batches(self, batches: Iterable[Any]) -> Iterable[Any]:
        """Batches are assembled on the host and copied to the device ahead of their steps."""
        self._execute_preparations()
        return runtime.device_batches(batches)

    def take_step(self, step: int, take: Take, update: Take | None) -> tuple[Any, Any]:
        """Takes steps of one graph each, or of two, see `TracedSteps`."""
        if self._steps is None:
            self._execute_preparations()
            self._steps = TracedSteps(
                self._processes, self._forwards, self._seed, self._settings["step_graphs"]
            )
        return self._steps.take(step, take, update)

    def end_step(self) -> None:
        if self._steps is None:
            runtime.sync()

    def execute(self) -> None:
        runtime.sync()

    def compile(self, function: Forward, model: torch.nn.Module) -> Forward:
        forward = TracedForward(function, model)
        self._forwards.append(forward)
        return forward

    def graphs(self) -> int:
        return Compilations.now().graphs - self._graphs_before_steps

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        counted = Compilations.now()
        causes = [] if self._steps is None else self._steps.recompilations
        return CompilerRecord(
            name=self.name,
            ran=counted.graphs > 0 and counted.executions > 0,
            proof={
                "torch": str(torch.__version__),
                "torch_xla": self._version,
                "device": runtime.hardware(),
                "graphs_compiled": counted.graphs,
                "graphs_reused": counted.reused,
                "executions": counted.executions,
                "gradients_averaged": self._processes.averaging,
                "xla_compile_seconds": counted.seconds,
                **numbered("recompilation", causes[:_MOST_CAUSES]),
                **self._own_proof(),
            },
            compile_seconds=compile_seconds,
            options=self._settings,
            graphs=self.graphs(),
            recompilations=recompilations,
        )

    def _execute_preparations(self) -> None:
        """Copies of the weights, if any: they are no part of a step."""
        before = Compilations.now().graphs
        runtime.sync()
        self._graphs_before_steps += Compilations.now().graphs - before

    def _own_proof(self) -> dict[str, Scalar]:
        return {}


def numbered(what: str, texts: Iterable[str]) -> dict[str, Scalar]:
    return {f"{what} {number}": each for number, each in enumerate(texts, start=1)}


@dataclass(frozen=True)
class Processes:
    """The processes that train together, and where their gradients meet. On a CPU torch_xla knows
    one process only and its collectives silently do nothing, so gradients meet in host memory."""

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
    """How torchrun's processes and torch_xla's work together. Raises CompilerError where some would
    train alone."""
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


def _average_through_host(
    parameters: Iterable[torch.nn.Parameter], loss: float, world: World
) -> float:
    """Average each gradient over all processes, in host memory; returns the mean loss."""
    gradients = {each: each.grad.cpu() for each in parameters if each.grad is not None}
    together = torch.cat([*(each.flatten() for each in gradients.values()), torch.tensor([loss])])
    torch.distributed.all_reduce(together)
    together /= world.size
    *means, mean = torch.split(together, [*(each.numel() for each in gradients.values()), 1])
    for (parameter, gradient), averaged in zip(gradients.items(), means):
        parameter.grad = averaged.view_as(gradient).to(parameter.device)
    return float(mean)


_TOO_MANY = "Maximum number of different graphs allowed per function exceeded"
_CUT = "Unexpected execution happens inside the compiled function"


class TracedSteps:
    """Takes steps that are executed at their end: in one graph from the forward pass to the new
    weights, or in two where gradients meet in host memory. A loss that is not finite is seen only
    after its update."""

    def __init__(
        self,
        processes: Processes,
        forwards: Sequence[TracedForward],
        seed: int | None,
        most_graphs: int,
    ) -> None:
        """`seed` is this process's own; None leaves the device's generator to the script."""
        self._processes = processes
        self._forwards = forwards
        self._seed = seed
        self._result: Any = None
        self._mean: Any = None
        self._graphs = 0
        self._shapes: set[str] = set()
        self.recompilations: list[str] = []  # each later step's number, and what was new in it
        if processes.through_host:
            self._gradients = runtime.compiled(self._trace_gradients, "gradients", most_graphs)
            self._update = runtime.compiled(self._trace_update, "update", most_graphs)
            self._take: runtime.Trace = self._in_two_graphs
        else:
            self._take = runtime.compiled(self._trace_whole, "training step", most_graphs)
        self._most_graphs = most_graphs * (2 if processes.through_host else 1)
        self._compiled_before = Compilations.now().graphs

    def take(self, step: int, take: Take, update: Take | None) -> tuple[Any, Any]:
        """See `Compiler.take_step`. Raises CompilerError for a graph too many, and InputError where
        gradients cannot be averaged before the update."""
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

    def _trace_whole(self, step: int, take: Take, update: Take | None) -> None:
        self._trace_gradients(step, take)
        size = self._processes.world.size
        if size > 1:
            # Before the update unscales and clips: the norm is that of the whole batch's gradient.
            gradients = (each.grad for each in self._parameters())
            runtime.averaged([each for each in gradients if each is not None], size)
            self._mean = runtime.averaged(self._result.detach(), size)
        self._trace_update(update)

    def _in_two_graphs(self, step: int, take: Take, update: Take | None) -> None:
        self._gradients(step, take)
        loss = self._result.item()
        self._mean = _average_through_host(self._parameters(), loss, self._processes.world)
        self._update(update)

    def _trace_gradients(self, step: int, take: Take) -> None:
        # The device's generator moves on with every synchronisation, and a job that was resumed has
        # others; so each step has a seed of its own.
        if self._seed is not None:
            runtime.seed(self._seed + (step + 1) * SEEDS_OF_A_STEP)
        self._result = take()

    def _trace_update(self, update: Take | None) -> None:
        if update is not None:
            update()

    def _parameters(self) -> Iterable[torch.nn.Parameter]:
        every = (each for forward in self._forwards for each in forward.model.parameters())
        return {id(each): each for each in every}.values()

    def _count_graphs(self, step: int) -> None:
        """Raises CompilerError for one too many: a torch_xla of 1.x has no guard of its own."""
        graphs = Compilations.now().graphs - self._compiled_before
        shapes = "; ".join(each.shapes for each in self._forwards)
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

    def _explained(self, error: RuntimeError) -> CompilerError | None:
        """The error in terms of the step, if its cause is known."""
        message = str(error)
        if _CUT in message:
            return CompilerError(
                "the training step asks the XLA device for a value before it ends, which cuts it "
                "into several graphs; compute it without looking at values"
            )
        if _TOO_MANY in message:
            return CompilerError(
                "XLA would have to compile the training step once more, and its graphs may be "
                f"{self._most_graphs}; shapes and constants must be the same in all steps"
            )
        return compiler_failure("XLA", error) if cause_of(error) else None


class TracedForward:
    """A forward pass that is traced, and the shapes of its last call's tensors, in words."""

    def __init__(self, function: Callable[..., Any], model: Any) -> None:
        self._function = function
        self.model = model
        self.shapes = ""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        given = {**{str(index): each for index, each in enumerate(arguments)}, **named}
        self.shapes = ", ".join(
            f"{name} {list(each.shape)}"
            for name, each in sorted(given.items())
            if isinstance(each, torch.Tensor)
        )
        return self._function(*arguments, **_with_fixed_mask(self.model, named))


def _with_fixed_mask(model: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Give the attention mask four dimensions: transformers 5 asks of one with two whether it hides
    anything, which the device would have to answer in every step."""
    transformers: Any = sys.modules.get("transformers")  # never imported: the model may not need it
    if transformers is None or int(transformers.__version__.split(".")[0]) < 5:
        return named
    attention = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if "attention_mask" not in named or attention != "sdpa":
        return named  # other kinds of attention take other kinds of masks
    return {**named, "attention_mask": named["attention_mask"].bool()[:, None, None, :]}
