"""`torch.compile` with any backend: counted, cached, and with evidence where eager ran instead."""

from __future__ import annotations

import contextlib
import json
import logging
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import torch
from torch.utils._pytree import tree_map

from compilegate.job.cache import CacheFolder, Lookups
from compilegate.job.compilers.compiler import Compiler
from compilegate.job.compilers.declaration import Settings
from compilegate.job.compilers.failures import compiler_failure
from compilegate.job.compilers.torch_compile import inductor
from compilegate.job.compilers.torch_compile.backends import CUDAGRAPHS, INDUCTOR, known
from compilegate.job.compilers.torch_compile.counted import (
    cudagraph_skips,
    draws_as_eager,
    found_backend,
)
from compilegate.job.errors import CompilerError
from compilegate.job.evidence import CompilerRecord, Scalar

Forward = Callable[..., Any]

_CUDAGRAPH_MODES = ("reduce-overhead", "max-autotune")
_COMPILERS_OWN = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "triton")
"""Modules of the errors with which torch's compilers give up."""
_MOST_REASONS = 3
"""How many reasons for running eagerly the evidence gives."""


class TorchCompile(Compiler):
    """Compiles with the options, and counts graphs and their calls."""

    def __init__(self, name: str, settings: Settings) -> None:
        """`name` is the compiler's in the evidence."""
        if not hasattr(torch, "compile"):
            raise CompilerError(
                f"{name} needs torch 2.0 or later, this is torch {torch.__version__}; "
                "use the eager compiler or a newer image"
            )
        self._name = name
        self._settings = settings
        self._chosen: str = settings.get("backend", INDUCTOR)
        self._mode: str = settings["compile_mode"]
        self._options: Dict[str, Any] = json.loads(settings.get("backend_options", "{}"))
        self._known = known(self._chosen)
        takes_dynamic = self._known is None or self._known.takes_dynamic
        self._dynamic: Optional[bool] = settings["dynamic_shapes"] if takes_dynamic else False
        self._backend = (
            inductor.inductor_backend(self._mode, self._options, dynamic=self._dynamic)
            if self._chosen == INDUCTOR
            else found_backend(self._chosen, self._mode, self._options)
        )
        self._functions = self._calls_aside = 0
        self._left = _LeftToEager()
        self._device = torch.device("cpu")
        self._draws_as_eager: Optional[bool] = None
        self._cache = "keeps nothing"
        if self._may_use_inductor:
            self._cache = "given" if inductor.names_a_cache() else "fresh"

    @property
    def shares_random_numbers(self) -> bool:
        """A small function is compiled to see, with a backend that nothing is known of."""
        if self._chosen == INDUCTOR:
            # Attention that the script wrote out may have become one kernel. On a GPU that draws
            # for its own dropout, whatever `fallback_random` says.
            fused = self._device.type != "cpu" and inductor.fused_attentions() > 0
            return bool(self._settings["fallback_random"]) and not fused
        if self._draws_as_eager is None and self._known is not None:
            self._draws_as_eager = self._known.draws_as_eager
        if self._draws_as_eager is None:
            self._draws_as_eager = draws_as_eager(self._backend.function, self._device)
        return self._draws_as_eager

    @property
    def overwrites_gradients(self) -> bool:
        """Whether it records CUDA graphs, whose results stay at one address. Source:
        pytorch/pytorch issues 169545 and 96693."""
        records = (
            self._chosen == CUDAGRAPHS
            or self._mode in _CUDAGRAPH_MODES
            or self._options.get("triton.cudagraphs") is True
        )
        return records and self._device.type == "cuda"

    @property
    def left_to_eager(self) -> Optional[str]:
        """Those functions that torch did not capture, or whose limit of graphs it reached."""
        return "; ".join(self._left.reasons[:_MOST_REASONS]) or None

    def cache_folder(self) -> Optional[CacheFolder]:
        """Inductor's own folder, for it and for any backend that may build on it."""
        folder = inductor.kept_cache() if self._may_use_inductor else None
        if folder is not None:
            self._cache = "kept"
        return folder

    def cache_lookups(self) -> Lookups:
        """Lookups of compiled graphs in it; forward and backward count separately."""
        return inductor.lookups()

    def compile(self, function: Forward, model: torch.nn.Module) -> Forward:
        """Returns the compiled function; compilation itself happens in the first step."""
        import torch._dynamo.config as dynamo  # noqa: PLC0415 - seconds of import

        self._device = _device_of(model)
        self._require_device()
        if self._cache == "fresh" and not self._functions:
            inductor.use_fresh_cache()
        if self._may_use_inductor:
            inductor.set_random_numbers(of_eager=self._settings["fallback_random"])
        if self._chosen == INDUCTOR and self._device.type == "cpu":
            inductor.require_cpp_compiler()
        dynamo.suppress_errors = False  # TORCHDYNAMO_SUPPRESS_ERRORS would have errors run eagerly
        self._functions += 1
        if self._functions > 1:
            _allow_graphs_of_one_more(self._functions)
        compiled = self._compiled_within(function, model)
        if self._dynamic is not False:
            compiled = without_bases(compiled)
        return self._observed(compiled, function)

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
            "mode": self._mode,
            "options": self._options,
            "dynamic": self._dynamic,
            "fallback_random": self._settings["fallback_random"],
        }

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """`ran` needs a compiled graph and calls to it, of CUDA graphs a recorded one, and that no
        function was left to eager."""
        import torch._dynamo.utils as dynamo  # noqa: PLC0415 - seconds of import, only here
        from torch._dynamo import config  # noqa: PLC0415

        backend, frames = self._backend, dynamo.counters["frames"]
        called = backend.calls - self._calls_aside
        recorded = self._chosen != CUDAGRAPHS or backend.skipped < backend.graphs
        seconds = [getattr(each, "duration_us", 0) for each in dynamo.get_compilation_metrics()]
        proof: Dict[str, Scalar] = {
            "torch": str(torch.__version__),
            "backend": self._chosen,
            "graph_calls": called,
            "unique_graphs": int(dynamo.counters["stats"].get("unique_graphs", 0)),
            "graphs_left_as_they_were": backend.left,
            # Functions that dynamo gave up on: they ran in eager mode, or what they call did not.
            "frames_left_to_eager": int(frames.get("total", 0) - frames.get("ok", 0)),
            "errors_suppressed": bool(config.suppress_errors),
            "dynamo_seconds": round(sum(each or 0 for each in seconds) / 1e6, 3),
            "cache": self._cache,
        }
        if self._may_use_inductor:
            proof.update(inductor.kernels())
        skips = cudagraph_skips()
        if skips or self._chosen == CUDAGRAPHS or self._mode in _CUDAGRAPH_MODES:
            proof["cudagraph_skips"] = skips
        if self.left_to_eager:
            proof["left_to_eager"] = self.left_to_eager
        return CompilerRecord(
            name=self._name,
            ran=recorded and backend.graphs > 0 and called > 0 and not self.left_to_eager,
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

    def _require_device(self) -> None:
        only_on = None if self._known is None else self._known.only_on
        if only_on is None or self._device.type == only_on:
            return
        what = "a GPU" if only_on == "cuda" else f"a device of type {only_on!r}"
        raise CompilerError(
            f"backend {self._chosen!r} needs {what}, and the model is on {self._device.type!r}; "
            f"take an instance with one, or another backend"
        )

    def _compiled(self, function: Forward) -> Forward:
        compiled: Forward = torch.compile(function, backend=self._backend, dynamic=self._dynamic)
        return compiled

    def _compiled_within(self, function: Forward, model: torch.nn.Module) -> Forward:
        """The function compiled as a whole, or the model's repeated blocks in it; recurrent layers
        stay eager, which dynamo does not capture and has kernels of their own anyway."""
        recurrent = [each for each in model.modules() if isinstance(each, torch.nn.RNNBase)]
        replaced: Dict[Any, Forward] = {}
        if self._settings["regional"]:
            replaced = {each: self._compiled(each.forward) for each in repeated_blocks(model)}
        elif not any(getattr(function, "__self__", function) is each for each in recurrent):
            function = self._compiled(function)
        if recurrent:
            import torch._dynamo.config as dynamo  # noqa: PLC0415

            if hasattr(dynamo, "allow_rnn"):
                dynamo.allow_rnn = True  # or the function that calls one is not captured at all
            replaced.update({each: torch._dynamo.disable(each.forward) for each in recurrent})
        return with_forwards(function, replaced) if replaced else function

    def _observed(self, forward: Forward, function: Forward) -> Forward:
        """A function that notes where nothing was compiled of `function`, since torch leaves it to
        eager without a word, and raises CompilerError with the cause where a compiler gives up."""
        backend, called = self._backend, False

        def observed(*arguments: Any, **named: Any) -> Any:
            nonlocal called
            before, seen = backend.calls, {} if called else _not_captured()
            try:
                results = forward(*arguments, **named)
            except Exception as error:
                if type(error).__module__.startswith(_COMPILERS_OWN):
                    raise compiler_failure(self._chosen, error) from error
                raise
            if not called and backend.calls == before:
                why = "the backend handed back every graph as it was"
                self._left.reasons.append(
                    f"{_named(function)}: {why if backend.left else _unsupported(seen)}"
                )
            called = True
            return results

        return observed


class _LeftToEager(logging.Handler):
    """Why functions run in eager mode: dynamo only logs that it passed its limit of graphs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reasons: List[str] = []
        logging.getLogger("torch._dynamo.convert_frame").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the warning's first lines: the limit, the function, and the guard that failed."""
        text = record.getMessage()
        if text.startswith("torch._dynamo hit config."):
            self.reasons.append(", ".join(each.strip() for each in text.split("\n")[:3]))


def _named(function: Forward) -> str:
    owner = getattr(function, "__self__", None)
    return type(owner).__name__ if owner is not None else getattr(function, "__name__", "it")


def _unsupported(seen: Mapping[str, int]) -> str:
    """What torch gave last as a reason for code that it could not capture, and had not before: its
    counters are the whole process's."""
    from torch._dynamo import config  # noqa: PLC0415

    if config.suppress_errors:
        return "an error was suppressed, since torch._dynamo.config.suppress_errors is set"
    counted = _not_captured()
    reasons = [each for each, count in counted.items() if count > seen.get(each, 0)] or [*counted]
    return reasons[-1].split("\n")[0] if reasons else "it called no operation that torch captures"


def _not_captured() -> Dict[str, int]:
    """How often torch has given each reason for code that it could not capture."""
    from torch._dynamo.utils import counters  # noqa: PLC0415

    return {**counters["graph_break"], **counters["unimplemented"]}


def create(settings: Settings) -> Compiler:
    """The compiler of one job."""
    return TorchCompile("torch-compile", settings)


def _device_of(model: torch.nn.Module) -> torch.device:
    """Where the parameters lie, or the buffers; for neither, the CPU."""
    for tensors in (model.parameters(), model.buffers()):
        for each in tensors:
            return each.device
    return torch.device("cpu")


def _allow_graphs_of_one_more(functions: int) -> None:
    """Dynamo counts graphs by code, and models of one class share theirs, as those of a
    cross-validation do; so do all of torch's own classes together."""
    import torch._dynamo.config as dynamo  # noqa: PLC0415

    # cache_size_limit until torch 2.5
    name = "recompile_limit" if hasattr(dynamo, "recompile_limit") else "cache_size_limit"
    setattr(dynamo, name, getattr(dynamo, name) * functions // (functions - 1))


def repeated_blocks(model: Any) -> List[Any]:
    """The blocks of the model's largest list of modules of one class, in order. Equal layers share
    one graph: compiling takes a fraction of the time, but nothing is fused across layers.

    Raises CompilerError when it has no such list.
    """
    lists = [
        list(each)
        for each in model.modules()
        if isinstance(each, (torch.nn.ModuleList, torch.nn.Sequential))
        and len({type(block) for block in each}) == 1
    ]
    if not lists:
        raise CompilerError(
            f"regional compilation needs a model that repeats a block, and {type(model).__name__} "
            "has no list of modules of one class; set regional = false"
        )
    return max(lists, key=lambda blocks: sum(p.numel() for b in blocks for p in b.parameters()))


def with_forwards(function: Forward, forwards: Mapping[Any, Forward]) -> Forward:
    """The function, during whose calls these modules have other forward passes. Outside of a call
    they are as they were: evaluation and the parity probe call them too."""

    def called(*arguments: Any, **named: Any) -> Any:
        # What a library has put in a module's place already, such as a hook, is what was replaced.
        own = {each: vars(each)["forward"] for each in forwards if "forward" in vars(each)}
        for module, forward in forwards.items():
            module.forward = forward  # of this object: it hides the method of its class
        try:
            return function(*arguments, **named)
        finally:
            for module in forwards:
                vars(module).pop("forward", None)
            for module, forward in own.items():
                module.forward = forward

    return called


def without_bases(function: Forward) -> Forward:
    """The function, called with slices of larger tensors as tensors of their own in that memory.

    Guards of dynamic shapes ask for the shape of the tensor that an argument is a slice of; the
    same values in a tensor of their own, as a loader or a probe makes them, would be compiled anew.
    What is one tensor among the arguments stays one; those that gradients flow to stay as they are.
    """

    def called(*arguments: Any, **named: Any) -> Any:
        own: Dict[int, torch.Tensor] = {}

        def alone(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.requires_grad or value._base is None:
                return value
            return own.setdefault(id(value), value.detach())

        arguments, named = tree_map(alone, (arguments, named))
        return function(*arguments, **named)

    return called
