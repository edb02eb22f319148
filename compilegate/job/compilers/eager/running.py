"""Training without a compiler."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Optional

import torch

from compilegate.job.cache import CacheFolder, Lookups
from compilegate.job.compilers.compiler import Compiler
from compilegate.job.compilers.declaration import Settings
from compilegate.job.compilers.immediate import ImmediateSteps
from compilegate.job.evidence import CompilerRecord, Scalar


class Eager(ImmediateSteps):
    """Runs the model as it is."""

    shares_random_numbers = True

    def cache_folder(self) -> Optional[CacheFolder]:
        """None: nothing is compiled."""
        return None

    def cache_lookups(self) -> Lookups:
        """None were made."""
        return Lookups(0, 0)

    def compile(self, function: Callable[..., Any], model: torch.nn.Module) -> Callable[..., Any]:
        """Returns the function."""
        return function

    def graphs(self) -> int:
        """Zero, unless something else in this process compiled."""
        # torch._dynamo fails to import beside some old releases, and nobody can have compiled
        # with it while it is not loaded; so it is looked up, never imported.
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is None:
            return 0
        return int(dynamo.counters["stats"].get("unique_graphs", 0))

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """`ran` is False, as it should be, unless graphs were compiled after all."""
        graphs = self.graphs()
        proof: Dict[str, Scalar] = {
            "torch": str(torch.__version__),
            "dynamo_loaded": "torch._dynamo.utils" in sys.modules,
            "graphs_compiled": graphs,
        }
        return CompilerRecord(
            name="eager",
            ran=graphs > 0,
            proof=proof,
            compile_seconds=compile_seconds if graphs else 0.0,
            graphs=graphs,
            recompilations=recompilations,
        )


def create(_settings: Settings) -> Compiler:
    """The compiler object of one job. It has no options."""
    return Eager()
