"""`torch.compile` with any backend: counted, cached, and guarded against silently running eager."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import torch

from compilegate.job.cache import CacheFolder, Lookups
from compilegate.job.compilers.compiler import Compiler
from compilegate.job.compilers.declaration import Settings
from compilegate.job.compilers.immediate import ImmediateSteps
from compilegate.job.compilers.torch_compile import inductor
from compilegate.job.compilers.torch_compile.backends import CUDAGRAPHS, INDUCTOR, known
from compilegate.job.compilers.torch_compile.counted import CountedBackend, cudagraph_skips
from compilegate.job.compilers.torch_compile.found import found_backend
from compilegate.job.compilers.torch_compile.regions import CompiledRegions
from compilegate.job.compilers.torch_compile.slices import without_bases
from compilegate.job.compilers.torch_compile.trial import draws_as_eager
from compilegate.job.errors import CompilerError
from compilegate.job.evidence import CompilerRecord, Scalar

_LIMIT_ERRORS = ("FailOnRecompileLimitHit", "FailOnCacheLimitHit")
"""What dynamo raises instead of compiling one graph too many; the second before torch 2.6."""
_HARD_LIMITS = ("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit")
"""The settings that have it do so, newest first."""
_CUDAGRAPH_MODES = ("reduce-overhead", "max-autotune")


class TorchCompile(ImmediateSteps):
    """Compiles with the options, and counts graphs and their calls."""

    def __init__(self, name: str, settings: Settings) -> None:
        """`name` is the compiler's in the evidence."""
        if not hasattr(torch, "compile"):
            raise CompilerError(
                f"{name} needs torch 2.0 or later, this is torch {torch.__version__}; "
                "use the eager compiler or a newer image"
            )
        self._functions = self._calls_aside = 0
        self._name = name
        self._settings = settings
        self._chosen: str = settings.get("backend", INDUCTOR)
        self._known = known(self._chosen)
        found = found_backend(
            self._chosen,
            settings["compile_mode"],
            settings.get("backend_options", "{}"),
            dynamic=settings["dynamic_shapes"],
        )
        self._backend = CountedBackend(self._chosen, found.function, found.reset)
        self._device = torch.device("cpu")
        self._compiles = False
        self._draws_as_eager: Optional[bool] = None
        self._cache = "keeps nothing"
        if self._may_use_inductor:
            self._cache = "given" if inductor.names_a_cache() else "fresh"

    @property
    def shares_random_numbers(self) -> bool:
        """Whether compiled dropout draws what eager's does. Of a backend that nothing is known of,
        a small function is compiled to see."""
        if self._chosen == INDUCTOR:
            return bool(self._settings["fallback_random"]) and not self._drops_in_attention
        if self._draws_as_eager is None:
            about = self._known
            self._draws_as_eager = (
                draws_as_eager(self._backend.function, self._device)
                if about is None or about.draws_as_eager is None
                else about.draws_as_eager
            )
        return self._draws_as_eager

    @property
    def _drops_in_attention(self) -> bool:
        """Whether attention that the script wrote out may have become one kernel. On a GPU that one
        draws for its own dropout, whatever `fallback_random` says."""
        return self._device.type != "cpu" and inductor.fused_attentions() > 0

    @property
    def overwrites_gradients(self) -> bool:
        """Whether it records CUDA graphs, whose results stay at one address. Source:
        pytorch/pytorch issues 169545 and 96693."""
        options = json.loads(self._settings.get("backend_options", "{}"))
        records = (
            self._chosen == CUDAGRAPHS
            or self._settings["compile_mode"] in _CUDAGRAPH_MODES
            or options.get("triton.cudagraphs") is True
        )
        return records and self._device.type == "cuda"

    def cache_folder(self) -> Optional[CacheFolder]:
        """Inductor's own folder, for it and for any backend that may build on it; None for those
        of which it is known that nothing they compile can be kept."""
        folder = inductor.kept_cache() if self._may_use_inductor else None
        if folder is not None:
            self._cache = "kept"
        return folder

    def cache_lookups(self) -> Lookups:
        """Lookups of compiled graphs in it; forward and backward count separately."""
        return inductor.lookups()

    def compile(self, function: Callable[..., Any], model: torch.nn.Module) -> Callable[..., Any]:
        """Returns the compiled function; compilation itself happens in the first step."""
        self._device = _device_of(model)
        self._require_device()
        if self._cache == "fresh" and not self._compiles:
            inductor.use_fresh_cache()
        self._compiles = True
        if self._may_use_inductor:
            inductor.set_random_numbers(of_eager=self._settings["fallback_random"])
        if self._chosen == INDUCTOR and self._device.type == "cpu":
            inductor.require_cpp_compiler()
        _forbid_falling_back()
        self._functions += 1
        if self._functions > 1:
            _allow_graphs_of_one_more(self._functions)
        if self._settings["regional"]:
            compiled: Callable[..., Any] = CompiledRegions(function, model, self._compiled)
        else:
            compiled = self._compiled(function)
        if self._settings["dynamic_shapes"]:
            compiled = without_bases(compiled)
        return self._stopping_at_the_limit(compiled, function)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Calls of graphs within are not the training's."""
        before = self._backend.calls
        try:
            yield
        finally:
            self._calls_aside += self._backend.calls - before

    def graphs(self) -> int:
        """How many graphs the backend compiled."""
        return self._backend.graphs

    def again(self) -> Dict[str, Any]:
        """How a fresh process compiles alike: what `reference.compiled_by` of the parity probe's
        repro takes."""
        return {
            "backend": self._chosen,
            "mode": self._settings["compile_mode"],
            "options": json.loads(self._settings.get("backend_options", "{}")),
            "dynamic": self._settings["dynamic_shapes"],
            "fallback_random": self._settings["fallback_random"],
        }

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """`ran` needs a compiled graph and calls to it, and of CUDA graphs a recorded one."""
        import torch._dynamo.utils as dynamo  # noqa: PLC0415 - seconds of import, only here
        from torch._dynamo import config  # noqa: PLC0415

        backend, frames = self._backend, dynamo.counters["frames"]
        recorded = self._chosen != CUDAGRAPHS or backend.skipped < backend.graphs
        proof: Dict[str, Scalar] = {
            "torch": str(torch.__version__),
            "backend": self._chosen,
            "graph_calls": backend.calls - self._calls_aside,
            "unique_graphs": int(dynamo.counters["stats"].get("unique_graphs", 0)),
            "graphs_left_as_they_were": backend.left,
            # Functions that dynamo gave up on: they ran in eager mode, or what they call did not.
            "frames_left_to_eager": int(frames.get("total", 0) - frames.get("ok", 0)),
            "errors_suppressed": bool(config.suppress_errors),
            "dynamo_seconds": _frame_seconds(dynamo.get_compilation_metrics()),
            "cache": self._cache,
        }
        if self._may_use_inductor:
            proof.update(inductor.kernels())
        if self._records_cudagraphs:
            proof["cudagraph_skips"] = cudagraph_skips()
        return CompilerRecord(
            name=self._name,
            ran=backend.graphs > 0 and backend.calls > self._calls_aside and recorded,
            proof=proof,
            compile_seconds=compile_seconds,
            options=self._settings,
            graphs=backend.graphs,
            graph_breaks=sum(dynamo.counters["graph_break"].values()),
            recompilations=recompilations,
        )

    @property
    def _may_use_inductor(self) -> bool:
        return self._known is None or self._known.keeps_output

    @property
    def _records_cudagraphs(self) -> bool:
        asked = self._settings["compile_mode"] in _CUDAGRAPH_MODES
        return asked or self._chosen == CUDAGRAPHS or cudagraph_skips() > 0

    def _require_device(self) -> None:
        only_on = None if self._known is None else self._known.only_on
        if only_on is None or self._device.type == only_on:
            return
        what = "a GPU" if only_on == "cuda" else f"a device of type {only_on!r}"
        raise CompilerError(
            f"backend {self._chosen!r} needs {what}, and the model is on {self._device.type!r}; "
            f"take an instance with one, or another backend"
        )

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # Never None, which would let dynamo turn to dynamic shapes by itself.
        dynamic = self._settings["dynamic_shapes"]
        compiled: Callable[..., Any] = torch.compile(
            function, backend=self._backend, dynamic=dynamic
        )
        return compiled

    def _stopping_at_the_limit(
        self, forward: Callable[..., Any], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A function that raises CompilerError, with the reason, at one graph too many, and where
        the backend itself raised one; and at the first call, where nothing was compiled of
        `function`: torch leaves a function to eager without a word."""
        called = False

        def stopping(*arguments: Any, **named: Any) -> Any:
            nonlocal called
            before = self._backend.calls
            seen = {} if called else _not_captured()
            try:
                results = forward(*arguments, **named)
            except Exception as error:
                own = getattr(error, "inner_exception", None)
                if isinstance(own, CompilerError):
                    raise own from error
                if type(error).__name__ not in _LIMIT_ERRORS:
                    raise
                raise CompilerError(
                    f"{self._chosen} would have to compile one function again, and more often than "
                    f"{_recompile_limit()} times: {_failed_guard()}; give every step the same "
                    "shapes and settings, or set dynamic = true"
                ) from error
            if self._backend.left and not self._backend.graphs:
                raise CompilerError(
                    f"backend {self._chosen!r} handed back every graph as it was, so nothing is "
                    "compiled; have it return what it made of the graph, or take compiler = 'eager'"
                )
            if not called and self._backend.calls == before and not self._backend.left:
                raise CompilerError(
                    f"torch compiled nothing of {_named(function)} for {self._chosen}: "
                    f"{_unsupported(seen)}; do not give it to job.compile(), or take compiler = "
                    "'eager'"
                )
            called = True
            return results

        return stopping


def _named(function: Callable[..., Any]) -> str:
    owner = getattr(function, "__self__", None)
    return type(owner).__name__ if owner is not None else getattr(function, "__name__", "it")


def _unsupported(seen: Mapping[str, int]) -> str:
    """What torch said last of code that it could not capture, and had not said before.

    Its counters are the whole process's, and a reason keeps the place where it was first counted.
    """
    from torch._dynamo import config  # noqa: PLC0415

    if config.suppress_errors:
        return "an error was suppressed, since torch._dynamo.config.suppress_errors is set"
    told = _not_captured()
    reasons = [each for each, count in told.items() if count > seen.get(each, 0)] or [*told]
    return reasons[-1].split("\n")[0] if reasons else "it called no operation that torch captures"


def _not_captured() -> Dict[str, int]:
    """How often torch has given each reason for code that it could not capture."""
    from torch._dynamo.utils import counters  # noqa: PLC0415

    return {**counters["graph_break"], **counters["unimplemented"]}


def create(settings: Settings) -> Compiler:
    """The compiler object of one job."""
    return TorchCompile("torch-compile", settings)


def _device_of(model: torch.nn.Module) -> torch.device:
    """Where the parameters lie, or the buffers; for neither, the CPU."""
    for tensors in (model.parameters(), model.buffers()):
        for each in tensors:
            return each.device
    return torch.device("cpu")


def _forbid_falling_back() -> None:
    """Beyond its limit dynamo would silently continue in eager mode, and so it would with errors
    that it is told to suppress (TORCHDYNAMO_SUPPRESS_ERRORS)."""
    import torch._dynamo.config as dynamo  # noqa: PLC0415

    dynamo.suppress_errors = False
    for name in _HARD_LIMITS:
        if hasattr(dynamo, name):
            setattr(dynamo, name, True)
            return


def _allow_graphs_of_one_more(functions: int) -> None:
    """Dynamo counts graphs by code, and models of one class share theirs, as those of a
    cross-validation do; so do all of torch's own classes together."""
    import torch._dynamo.config as dynamo  # noqa: PLC0415

    limit = _recompile_limit() * functions // (functions - 1)
    setattr(dynamo, _limit_setting(), limit)


def _recompile_limit() -> int:
    import torch._dynamo.config as dynamo  # noqa: PLC0415

    return int(getattr(dynamo, _limit_setting()))


def _limit_setting() -> str:
    import torch._dynamo.config as dynamo  # noqa: PLC0415

    # cache_size_limit until torch 2.5
    return "recompile_limit" if hasattr(dynamo, "recompile_limit") else "cache_size_limit"


def _failed_guard() -> str:
    """The last guard that failed, in dynamo's words."""
    from torch._dynamo.utils import get_compilation_metrics  # noqa: PLC0415

    reasons = [getattr(each, "recompile_reason", None) for each in get_compilation_metrics()]
    told = [reason for reason in reasons if reason]
    return f"guard {told[-1].splitlines()[0]}" if told else "this torch does not say which guard"


def _frame_seconds(metrics: List[Any]) -> float:
    """Seconds that dynamo itself reports for compiling all frames."""
    return round(sum((each.duration_us or 0) for each in metrics) / 1e6, 3)
