"""What an arm may tell its compiler: `[arms.NAME.training_compiler]`, `[arms.NAME.neuron]`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from pipelines.workload.table import Table

Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+(?:\.\d+)*$", max_length=20)]


class TrainingCompiler(Table):
    """Of SageMaker Training Compiler: the stack, which is one of AWS's images, and debug mode.

    The defaults are its newest stack.
    """

    framework: Literal["pytorch", "tensorflow"] = "pytorch"
    version: Version = "1.13.1"
    """Of the framework."""
    transformers: Version | None = None
    """Of a Hugging Face stack; none for a stack of the framework alone."""
    debug: bool = False
    """The compiler's debug mode: graphs and metrics go into the job's output, steps are slower."""


class Neuron(Table):
    """Of AWS Neuron."""

    framework: Literal["pytorch"] = "pytorch"
    version: Version = "2.9.0"
    """Of PyTorch, in AWS's Neuron image."""
    transformers: None = None
    precompile: bool = True
    """Extract the graphs in a job of its own, and compile them side by side, before training."""
    extraction_steps: int = Field(default=10, ge=2, le=1000)
    """Training steps that the extraction goes through; enough for every graph to occur."""
