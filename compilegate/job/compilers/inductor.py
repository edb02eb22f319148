"""What only Inductor has: its options and its cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Callable, Mapping

import torch
import torch._inductor.config
from torch._inductor.runtime.runtime_utils import cache_dir

from compilegate.job.cache import CacheFolder
from compilegate.job.compilers.declaration import INDUCTOR
from compilegate.job.compilers.failures import compiler_failure
from compilegate.job.errors import CompilerError, first_line
from compilegate.job.files import remove_at_end
from compilegate.job.names import INDUCTOR_CACHE_VARIABLE


def backend(mode: str, options: Mapping[str, Any], *, dynamic: bool | None) -> Callable[..., Any]:
    """Inductor with a mode's settings and options on top. Raises CompilerError for an option that
    it lacks."""
    try:
        torchs_own: Any = torch._TorchCompileInductorWrapper(mode, dict(options), dynamic)
    except RuntimeError as error:
        why = first_line(error).split(", known options")[0]
        raise CompilerError(
            f"options of inductor in torch {torch.__version__}: {why}; torch._inductor.config has "
            "those that there are"
        ) from error

    def inductor(graph: Any, inputs: Any) -> Any:
        from torch._inductor.compile_fx import (  # noqa: PLC0415 - seconds of import
            compile_fx,
            compile_fx_inner,
        )

        def inner(*arguments: Any, **named: Any) -> Any:
            try:
                return compile_fx_inner(*arguments, **named)
            except Exception as error:  # in the middle of a backward pass, perhaps
                raise compiler_failure(INDUCTOR, error) from error

        return compile_fx(graph, inputs, inner_compile=inner, config_patches=torchs_own.config)

    setattr(inductor, "reset", torchs_own.reset)  # noqa: B010 - torch looks for it
    return inductor


def names_a_cache() -> bool:
    """Whether the environment names a cache. Importing torch sets the variable to its default."""
    named = os.environ.pop(INDUCTOR_CACHE_VARIABLE, None)
    default = cache_dir()  # which sets the variable
    if named is not None:
        os.environ[INDUCTOR_CACHE_VARIABLE] = named
    return named is not None and named != default


def use_fresh_cache() -> Path:
    """Give the process an empty compile cache, removed at its end. The default is one folder per
    user: compile times would depend on earlier jobs."""
    folder = tempfile.mkdtemp(prefix="inductor-")
    os.environ[INDUCTOR_CACHE_VARIABLE] = folder
    remove_at_end(folder)
    return Path(folder)


def kept_cache() -> CacheFolder:
    """An empty folder in which Inductor keeps graphs, wrappers and C++ kernels.
    `torch.compiler.save_cache_artifacts` leaves out the kernels, which take most of the time on a
    CPU."""
    torch._inductor.config.fx_graph_cache = True
    _remember_checks()
    # Left out of it are locks, and Triton's own folder: it holds absolute paths, and where it is
    # there inductor does not unpack the kernels that the graphs bring along.
    return CacheFolder(
        use_fresh_cache(), left_out=("locks", "triton"), binaries=(".so", ".dll", ".dylib")
    )


def _remember_checks() -> None:
    """Keep with the cache which vector instructions work here. Inductor asks in a process for each
    kind, which takes longer than loading all kernels. Before torch 2.10 it asks each time."""
    try:
        from torch._inductor.cpu_vec_isa import VecISA  # noqa: PLC0415
    except ImportError:  # torch 2.4 has it elsewhere
        return
    ask = getattr(VecISA, "_probe_load", None)
    if ask is None or ask.__module__ == __name__:
        return

    def remembered(self: Any, output_path: str) -> bool:
        noted = Path(f"{output_path}.loads")
        if not noted.exists() and ask(self, output_path):
            noted.touch()
        return noted.exists()

    setattr(VecISA, "_probe_load", remembered)  # noqa: B010 - a method of torch's, replaced
