"""PyTorch/XLA: each training step is traced, compiled whole and executed on an XLA device.

The same code runs on torch_xla 1.13, which AWS built SageMaker Training Compiler into, and on 2.9.
`xla_runtime` puts torch_xla's two sets of names under one; `xla_step` takes a training step, and
runs a forward pass for the parity probe of a model on the host.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from compilegate.job.compilers import xla_runtime as runtime
from compilegate.job.compilers.compiler import Compiler, Forward
from compilegate.job.compilers.declaration import Settings
from compilegate.job.compilers.xla_runtime import Compilations
from compilegate.job.compilers.xla_step import (
    Processes,
    TracedForward,
    TracedSteps,
    joined_processes,
)
from compilegate.job.evidence import CompilerRecord, Scalar
from compilegate.job.machine.memory import reset_process_peak
from compilegate.job.machine.world import ALONE, SEED_LIMIT, World, hosts

_MOST_CAUSES = 10
"""How many recompilations the evidence gives the cause of; after a few they are all alike."""


class Xla(Compiler):
    """Takes whole steps on the XLA device, counts the graphs, and notes what was new in later ones.

    Nothing is kept for another process: XLA's CPU device cannot read executables back.
    """

    name = "xla"
    compiles_whole_steps = True
    without_device = "the machine or the image has none of that kind"
    """Advice for an XLA device that cannot be opened."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._version = runtime.start(os.environ, without_device=self.without_device)
        self._graphs_before_steps = Compilations.now().graphs
        self._seed: Optional[int] = None
        self._processes = Processes(ALONE, through_host=False)
        self._steps: Optional[TracedSteps] = None
        self._forwards: List[TracedForward] = []

    @property
    def shares_random_numbers(self) -> bool:
        """The device has a generator of its own."""
        return False

    def world(self, launched: World) -> World:
        """The processes that train together. Raises CompilerError when some would train alone."""
        self._processes = joined_processes(
            launched, runtime.world(), runtime.hardware(), machines=len(hosts(os.environ))
        )
        return self._processes.world

    def device(self, host: torch.device) -> torch.device:
        return runtime.device()

    def hardware(self) -> Optional[str]:
        return runtime.hardware()

    def peak_memory(self, device: torch.device) -> Tuple[Optional[int], Optional[str]]:
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

    def take_step(
        self, step: int, take: Callable[[], Any], update: Optional[Callable[[], Any]]
    ) -> Tuple[Any, Any]:
        """Takes steps of one graph each, or of two, see `TracedSteps`."""
        if self._steps is None:
            self._execute_preparations()
            self._steps = TracedSteps(
                self._processes,
                self._parameters,
                lambda: "; ".join(each.shapes for each in self._forwards),
                seed=self._seed,
                most_graphs=self._settings["step_graphs"],
            )
        return self._steps.take(step, take, update)

    def end_step(self) -> None:
        """Execute what the step has traced, unless `take_step` did."""
        if self._steps is None:
            runtime.sync()

    def compile(self, function: Forward, model: torch.nn.Module) -> Forward:
        """The forward pass on the device. Tracing and compilation come with the steps."""
        forward = TracedForward(function, model, runtime.device())
        self._forwards.append(forward)
        return forward

    def graphs(self) -> int:
        """How many graphs XLA compiled for the steps."""
        return Compilations.now().graphs - self._graphs_before_steps

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """`ran` needs both compiled graphs and executions of them."""
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

    def _parameters(self) -> Iterator[torch.nn.Parameter]:
        """Those that are trained, each once."""
        every = (each for forward in self._forwards for each in forward.model.parameters())
        return iter({id(each): each for each in every}.values())

    def _own_proof(self) -> Dict[str, Scalar]:
        """What a compiler that builds on XLA proves beyond XLA's own counts."""
        return {}


def numbered(what: str, texts: Iterable[str]) -> Dict[str, Scalar]:
    """`recompilation 1` and so on."""
    return {f"{what} {number}": each for number, each in enumerate(texts, start=1)}
