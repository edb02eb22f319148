"""PyTorch/XLA: each training step is traced, compiled whole and executed on an XLA device."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

import torch

from training.batches import Batch
from training.compile_cache import CacheFolder, Lookups
from training.compilers import Compiler
from training.compilers.options import CompilerOptions
from training.evidence import CompilerRecord, Scalar
from training.failure import CompilerError
from training.recipe import SEED_LIMIT
from training.step import StepParts, TakeStep
from training.world import World, hosts
from training.xla import runtime
from training.xla.compilations import Compilations, causes
from training.xla.forward import TracedForward
from training.xla.step import TracedStep

TOLD_CAUSES = 10
"""Compilations of which the evidence gives the cause; past a few they are all alike."""


class Xla:
    """Takes whole steps on the XLA device; counts the graphs, and says why each was compiled."""

    name = "xla"
    shares_random_numbers = False  # the device has a generator of its own
    compiles_whole_steps = True

    def __init__(self, options: CompilerOptions) -> None:
        self._options = options
        self._version = runtime.start(os.environ)
        self._graphs_before_steps = 0
        self._seed = 0

    def world(self, launched: World) -> World:
        """The processes that torch_xla knows of. Raises CompilerError when others were launched.

        A process that torch_xla takes for one alone would train for itself: its collective
        operations do nothing then, and do not say so.
        """
        own = runtime.world()
        machines = len(hosts(os.environ))
        if launched.size > own.size:
            raise CompilerError(
                f"torchrun started {launched.size} processes and torch_xla knows of {own.size}: "
                "each would train alone; start them with distribution = 'pytorchxla'"
            )
        if machines > own.size:
            raise CompilerError(
                f"the job has {machines} machines and torch_xla knows of {own.size} process: each "
                "would train alone; set distribution = 'pytorchxla', or one instance"
            )
        return own

    def device(self, host: torch.device) -> torch.device:
        """This process's XLA device."""
        return runtime.device()

    def seed(self, seed: int, world: World) -> None:
        """Weights are the same in all processes; what dropout draws is each one's own."""
        self._seed = seed + world.rank * SEED_LIMIT

    def batches(self, batches: Iterator[Batch]) -> Iterable[Batch]:
        """Put together on the host, and copied to the device ahead of their steps."""
        return runtime.device_batches(batches)

    def stepping(self, parts: StepParts, world: World) -> TakeStep:
        """Takes steps of one graph each."""
        parts.update.allocate()
        runtime.sync()  # copies of the weights, if any: they are no part of a step
        self._graphs_before_steps = Compilations.now().graphs
        return TracedStep(parts, world, self._seed, self._options.step_graphs)

    def cache_folder(self) -> Optional[CacheFolder]:
        """None: executables of XLA's CPU device cannot be read back."""
        return None

    def cache_lookups(self) -> Lookups:
        """None were made."""
        return Lookups(0, 0)

    def compile(self, model: Any) -> Callable[..., Any]:
        """The forward pass on the device. Tracing and compilation come with the steps."""
        return TracedForward(model, runtime.device())

    def graphs(self) -> int:
        """How many graphs XLA compiled for the steps."""
        return Compilations.now().graphs - self._graphs_before_steps

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """`ran` needs both compiled graphs and executions of them."""
        counted = Compilations.now()
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
                "xla_compile_seconds": counted.seconds,
                **self._options.declared(self.name),
                **_told(causes(os.environ)),
                **self._own_proof(),
            },
            compile_seconds=compile_seconds,
            graphs=self.graphs(),
            recompilations=recompilations,
        )

    def _own_proof(self) -> Dict[str, Scalar]:
        """Of a compiler that is XLA and something more."""
        return {}


def create(options: CompilerOptions) -> Compiler:
    """The compiler object of one job."""
    return Xla(options)


def _told(found: List[str]) -> Dict[str, Scalar]:
    """`compilation 1` and so on, with its cause."""
    return {
        f"compilation {number}": cause for number, cause in enumerate(found[:TOLD_CAUSES], start=1)
    }
