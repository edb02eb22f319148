"""`torch.compile` with Inductor: counted, cached, and guarded against silently running eager."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import torch

from compilegate.job.cache import CacheFolder, Lookups
from compilegate.job.compilers.compiler import Compiler
from compilegate.job.compilers.declaration import Settings
from compilegate.job.compilers.immediate import ImmediateSteps
from compilegate.job.compilers.inductor.regions import CompiledRegions
from compilegate.job.errors import CompilerError
from compilegate.job.evidence import CompilerRecord, Scalar
from compilegate.job.names import INDUCTOR_CACHE_VARIABLE

_LIMIT_ERRORS = ("FailOnRecompileLimitHit", "FailOnCacheLimitHit")
"""What dynamo raises instead of compiling one graph too many; the second before torch 2.6."""


class Inductor(ImmediateSteps):
    """Compiles with the options, and counts graphs and their calls."""

    def __init__(self, settings: Settings) -> None:
        if not hasattr(torch, "compile"):
            raise CompilerError(
                f"inductor needs torch 2.0 or later, this is torch {torch.__version__}; "
                "use the eager compiler or a newer image"
            )
        self.shares_random_numbers = settings["fallback_random"]
        self._settings = settings
        self._graphs = 0
        self._graph_calls = 0
        self._cache = "given" if _names_a_cache() else "fresh"

    def cache_folder(self) -> Optional[CacheFolder]:
        """Inductor's own folder: graphs, their wrappers, C++ kernels.

        `torch.compiler.save_cache_artifacts` bundles the same graphs without the C++ kernels, which
        are what takes the time on a CPU; on a GPU the graphs hold the Triton kernels.
        """
        import torch._inductor.config as inductor  # noqa: PLC0415

        if not hasattr(inductor, "fx_graph_cache"):
            return None  # torch 2.0 and 2.1 keep no graphs
        inductor.fx_graph_cache = True
        self._cache = "kept"
        # Left out of it are locks, and Triton's own folder: it holds absolute paths, and where it
        # is there inductor does not unpack the kernels that the graphs bring along.
        return CacheFolder(
            _use_fresh_cache(), left_out=("locks", "triton"), binaries=(".so", ".dll", ".dylib")
        )

    def cache_lookups(self) -> Lookups:
        """Lookups of compiled graphs; forward and backward count separately."""
        from torch._dynamo.utils import counters  # noqa: PLC0415

        counted = counters["inductor"]
        return Lookups(
            hits=int(counted["fxgraph_cache_hit"]),
            misses=int(counted["fxgraph_cache_miss"] + counted["fxgraph_cache_bypass"]),
        )

    def compile(self, model: Any) -> Callable[..., Any]:
        """Returns the compiled forward pass; compilation itself happens in the first step."""
        if self._cache == "fresh":
            _use_fresh_cache()
        if not next(model.parameters()).is_cuda:
            _require_cpp_compiler()
        import torch._dynamo.config  # noqa: PLC0415 - seconds of import, only for this compiler
        import torch._inductor.config  # noqa: PLC0415

        # Inductor's own generator is slow on a CPU, and draws other dropout masks than eager
        # does; with eager's generator the two arms differ by arithmetic only.
        torch._inductor.config.fallback_random = self._settings["fallback_random"]
        # Beyond its limit dynamo would silently continue in eager mode.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        if self._settings["regional"]:
            return _stopping_at_the_limit(CompiledRegions(model, self._compiled))
        return _stopping_at_the_limit(self._compiled(model))

    def graphs(self) -> int:
        """How many graphs inductor compiled."""
        return self._graphs

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """`ran` needs both a compiled graph and calls to it."""
        import torch._dynamo.utils as dynamo  # noqa: PLC0415
        import torch._inductor.metrics as inductor  # noqa: PLC0415

        proof: Dict[str, Scalar] = {
            "torch": str(torch.__version__),
            "backend": "inductor",
            "graph_calls": self._graph_calls,
            "unique_graphs": int(dynamo.counters["stats"].get("unique_graphs", 0)),
            "kernels": int(inductor.generated_kernel_count),
            "vectorised_kernels": int(inductor.generated_cpp_vec_kernel_count),
            "dynamo_seconds": _frame_seconds(dynamo.get_compilation_metrics()),
            "cache": self._cache,
        }
        return CompilerRecord(
            name="inductor",
            ran=self._graphs > 0 and self._graph_calls > 0,
            proof=proof,
            compile_seconds=compile_seconds,
            options=self._settings,
            graphs=self._graphs,
            graph_breaks=sum(dynamo.counters["graph_break"].values()),
            recompilations=recompilations,
        )

    def _compiled(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        # Never None, which would let dynamo turn to dynamic shapes by itself.
        dynamic = self._settings["dynamic_shapes"]
        compiled: Callable[..., Any] = torch.compile(
            forward, backend=self._backend, dynamic=dynamic
        )
        return compiled

    def _backend(self, graph: Any, inputs: List[Any]) -> Callable[..., Any]:
        """Inductor, with every compiled graph and every call of one counted.

        Counters show that something was compiled; only the calls show that it was used.
        """
        from torch._inductor import list_mode_options  # noqa: PLC0415
        from torch._inductor.compile_fx import compile_fx  # noqa: PLC0415

        settings = list_mode_options(
            self._settings["compile_mode"], self._settings["dynamic_shapes"]
        )
        compiled: Callable[..., Any] = compile_fx(  # pyrefly: ignore[bad-assignment]
            graph, inputs, config_patches=settings
        )
        self._graphs += 1

        def counted(*arguments: Any) -> Any:
            self._graph_calls += 1
            return compiled(*arguments)

        return counted


def create(settings: Settings) -> Compiler:
    """The compiler object of one job."""
    return Inductor(settings)


def _stopping_at_the_limit(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward pass that raises CompilerError, with the reason, at one graph too many."""

    def stopping(*arguments: Any, **named: Any) -> Any:
        try:
            return forward(*arguments, **named)
        except Exception as error:
            if type(error).__name__ not in _LIMIT_ERRORS:
                raise
            raise CompilerError(
                f"inductor would have to compile one function again, and more often than "
                f"{_recompile_limit()} times: {_failed_guard()}; give every step the same shapes "
                "and settings, or set dynamic = true"
            ) from error

    return stopping


def _recompile_limit() -> int:
    import torch._dynamo.config as dynamo  # noqa: PLC0415

    # cache_size_limit until torch 2.5
    return int(getattr(dynamo, "recompile_limit", None) or dynamo.cache_size_limit)


def _failed_guard() -> str:
    """The last guard that failed, in dynamo's words."""
    from torch._dynamo.utils import get_compilation_metrics  # noqa: PLC0415

    reasons = [getattr(each, "recompile_reason", None) for each in get_compilation_metrics()]
    told = [reason for reason in reasons if reason]
    return f"guard {told[-1].splitlines()[0]}" if told else "this torch does not say which guard"


def _names_a_cache() -> bool:
    """Whether the environment names a cache. Importing torch sets the variable to its default."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir  # noqa: PLC0415

    return os.environ.get(INDUCTOR_CACHE_VARIABLE, default_cache_dir()) != default_cache_dir()


def _use_fresh_cache() -> Path:
    """Give the process an empty compile cache of its own, removed at its end.

    The default is one folder per user, which makes the compile time of a job depend on the jobs
    before it, and grows without end. What should be kept is kept by compilegate.job.cache.
    """
    folder = tempfile.mkdtemp(prefix="inductor-")
    os.environ[INDUCTOR_CACHE_VARIABLE] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _require_cpp_compiler() -> None:
    from torch._inductor.cpp_builder import get_cpp_compiler  # noqa: PLC0415
    from torch._inductor.exc import InvalidCxxCompiler  # noqa: PLC0415

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler as error:
        raise CompilerError(
            "inductor needs a C++ compiler on a CPU and found none; install g++ (Debian: "
            "apt-get install g++) or name one in the CXX variable"
        ) from error


def _frame_seconds(metrics: List[Any]) -> float:
    """Seconds that dynamo itself reports for compiling all frames."""
    return round(sum((each.duration_us or 0) for each in metrics) / 1e6, 3)
