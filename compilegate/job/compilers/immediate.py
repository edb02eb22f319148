"""The former name of `Compiler`, whose defaults are those of steps that run at once."""

from compilegate.job.compilers.compiler import Compiler as ImmediateSteps

__all__ = ["ImmediateSteps"]
