"""Training without a compiler."""

from __future__ import annotations

import sys

import torch

from compilegate.job.compilers.compiler import Compiler
from compilegate.job.compilers.declaration import Settings
from compilegate.job.evidence import CompilerRecord


class Eager(Compiler):
    """Runs the model as it is."""

    def graphs(self) -> int:
        """Zero, unless something else in this process compiled."""
        # Looked up, never imported: beside some old releases torch._dynamo fails to import, and
        # nobody can have compiled with it while it is not loaded.
        dynamo = sys.modules.get("torch._dynamo.utils")
        return 0 if dynamo is None else int(dynamo.counters["stats"].get("unique_graphs", 0))

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """`ran` is False, as it should be, unless graphs were compiled after all."""
        graphs = self.graphs()
        return CompilerRecord(
            name="eager",
            ran=graphs > 0,
            proof={
                "torch": str(torch.__version__),
                "dynamo_loaded": "torch._dynamo.utils" in sys.modules,
                "graphs_compiled": graphs,
            },
            compile_seconds=compile_seconds if graphs else 0.0,
            graphs=graphs,
            recompilations=recompilations,
        )


def create(_settings: Settings) -> Compiler:
    """The compiler of one job. It has no options."""
    return Eager()
