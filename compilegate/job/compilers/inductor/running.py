"""Inductor runs as the backend of torch.compile that it is."""

from __future__ import annotations

from compilegate.job.compilers.compiler import Compiler
from compilegate.job.compilers.declaration import Settings
from compilegate.job.compilers.torch_compile.running import TorchCompile


def create(settings: Settings) -> Compiler:
    """The compiler of one job."""
    return TorchCompile("inductor", settings)
