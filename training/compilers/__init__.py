"""The compilers an arm can name: one file each, all behind one small interface.

Nothing here imports torch at the top, so that the names can be read without it.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, Optional, Protocol

from training.compile_cache import CacheFolder, Lookups
from training.compilers.options import CompilerOptions
from training.evidence import CompilerRecord

COMPILERS: Dict[str, str] = {
    "eager": "training.compilers.eager",
    "inductor": "training.compilers.inductor",
}
"""The module of each compiler, by the name a workload declares."""


class Compiler(Protocol):
    """What the training loop needs of a compiler."""

    shares_random_numbers: bool
    """Whether a compiled step draws the random numbers that the eager one draws at that seed."""

    def cache_folder(self) -> Optional[CacheFolder]:
        """An empty folder in which this compiler will keep what it compiles, to be filled first.

        None when it keeps nothing that another process could use. Asked before `compile`, and only
        where a compile cache is declared.
        """

    def cache_lookups(self) -> Lookups:
        """What the compiler found in that folder so far."""

    def compile(self, model: Any) -> Callable[..., Any]:
        """The function to call for a training step's forward pass, on the model's own weights.

        The model itself stays as it was: it is what evaluation calls and what is saved. Raises
        CompilerError when the compiler is not available here.
        """

    def graphs(self) -> int:
        """How many graphs were compiled so far. Asked after every step, so it must be cheap."""

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """What the compiler did, with the observations that prove it."""


def load_compiler(name: str, options: CompilerOptions) -> Compiler:
    """The compiler of that name, set as told; `name` must be a key of `COMPILERS`."""
    module = importlib.import_module(COMPILERS[name])
    compiler: Compiler = module.create(options)
    return compiler
