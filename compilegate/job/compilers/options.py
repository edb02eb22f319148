"""How an arm sets its compiler. Needs no torch: the command line and the evidence read it too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict

from compilegate.job.evidence import Scalar

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""What torch.compile calls its modes."""

DEFAULT_STEP_GRAPHS = 4
"""Of steps that are all alike one would do. But numbers of a step that happen to be equal, such as
its learning rate and a bias correction, are one input of its graph, and that is another graph."""

TRACING = ("xla", "training-compiler", "neuron")
"""The compilers that trace a step on an XLA device."""


@dataclass(frozen=True)
class CompilerOptions:
    """What a compiler is told; one that has no such choice leaves it alone."""

    compile_mode: str = "default"
    """One of `MODES`."""
    dynamic_shapes: bool = False
    """Whether one graph may serve several shapes; otherwise each shape is a graph of its own, and
    too many of them stop the job."""
    regional: bool = False
    """Compile the block that the model repeats, once, and not the model as a whole."""
    fallback_random: bool = True
    """Draw the random numbers (dropout) that eager draws at that seed: parity needs them equal."""
    step_graphs: int = DEFAULT_STEP_GRAPHS
    """Of XLA: graphs that a training step may become. One that needs more stops the job."""

    def declared(self, compiler: str) -> Dict[str, Scalar]:
        """The options that this compiler has, by name."""
        if compiler in TRACING:
            return {"step_graphs": self.step_graphs}
        if compiler != "inductor":
            return {}
        return {
            "compile_mode": self.compile_mode,
            "dynamic_shapes": self.dynamic_shapes,
            "regional": self.regional,
            "fallback_random": self.fallback_random,
        }
