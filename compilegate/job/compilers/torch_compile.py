"""`torch.compile` with any backend: counted, cached, and with evidence where eager ran instead."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

import torch
import torch._dynamo.config
import torch._inductor.config
import torch._inductor.metrics
from torch._dynamo.backends.registry import list_backends, lookup_backend
from torch._dynamo.utils import counters
from torch._inductor.runtime.runtime_utils import cache_dir
from torch.utils._pytree import tree_map

from compilegate.job.cache import CacheFolder, Lookups
from compilegate.job.compilers.compiler import Compiler, Forward, watched
from compilegate.job.compilers.declaration import (
    CUDAGRAPHS,
    INDUCTOR,
    Backend,
    Settings,
    find_backend,
)
from compilegate.job.compilers.failures import compiler_failure
from compilegate.job.contract import INDUCTOR_CACHE_VARIABLE
from compilegate.job.errors import CompilerError, first_line
from compilegate.job.evidence import CompilerRecord, Scalar
from compilegate.job.files import remove_at_end
from compilegate.job.machine.numerics import preserved_generators

_CUDAGRAPH_MODES = ("reduce-overhead", "max-autotune")
_COMPILERS_OWN = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "triton")
"""Modules of the errors with which torch's compilers give up."""
_MOST_REASONS = 3  # how many reasons for running eagerly the evidence gives


class TorchCompile(Compiler):
    """Compiles with the options, and counts graphs and their calls."""

    name = "torch-compile"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._chosen: str = settings.get("backend", INDUCTOR)
        self._mode: str = settings["compile_mode"]
        self._options: dict[str, Any] = json.loads(settings.get("backend_options", "{}"))
        self._known = find_backend(self._chosen)
        self._dynamic: bool | None = settings["dynamic_shapes"]
        if not self._known.takes_dynamic:
            self._dynamic = False
        if self._chosen == INDUCTOR:
            function = inductor_backend(self._mode, self._options, dynamic=self._dynamic)
        else:
            function = _found(self._known, self._mode, self._options)
        self._backend = CountedBackend(self._chosen, function)
        self._functions = self._uncounted_calls = 0
        self._left = _EagerReasons()
        self._device = torch.device("cpu")
        self._draws_as_eager = self._known.draws_as_eager
        self._cache = "keeps nothing"
        if self._known.keeps_output:
            self._cache = "given" if cache_is_configured() else "fresh"

    @property
    def shares_random_numbers(self) -> bool:
        """A small function is compiled to see, with a backend that nothing is known of."""
        if self._chosen == INDUCTOR:
            # Attention that the script wrote out may have become one kernel. On a GPU that draws
            # for its own dropout, whatever `fallback_random` says.
            fused = self._device.type != "cpu" and counters["inductor"]["fuse_attention"] > 0
            return bool(self._settings["fallback_random"]) and not fused
        if self._draws_as_eager is None:
            self._draws_as_eager = _draws_as_eager(self._backend.function, self._device)
        return self._draws_as_eager

    @property
    def overwrites_gradients(self) -> bool:
        """Whether it records CUDA graphs, whose results stay at one address. Source:
        pytorch/pytorch issues 169545 and 96693."""
        return self._device.type == "cuda" and (
            self._chosen == CUDAGRAPHS
            or self._mode in _CUDAGRAPH_MODES
            or self._options.get("triton.cudagraphs") is True
        )

    @property
    def left_to_eager(self) -> str | None:
        """Those functions that torch did not capture, or whose limit of graphs it reached."""
        return "; ".join(self._left.reasons[:_MOST_REASONS]) or None

    def cache_folder(self) -> CacheFolder | None:
        """Inductor's own folder, for it and for any backend that may build on it."""
        if not self._known.keeps_output:
            return None
        self._cache = "kept"
        return persistent_cache()

    def cache_lookups(self) -> Lookups:
        """Forward and backward graphs count separately."""
        counted = counters["inductor"]
        missed = counted["fxgraph_cache_miss"] + counted["fxgraph_cache_bypass"]
        return Lookups(hits=int(counted["fxgraph_cache_hit"]), misses=int(missed))

    def compile(self, function: Forward, model: torch.nn.Module) -> Forward:
        """Returns the compiled function; compilation itself happens in the first step."""
        tensors = [*model.parameters(), *model.buffers()]
        self._device = tensors[0].device if tensors else torch.device("cpu")
        self._require_device()
        if self._known.keeps_output:
            # Inductor's own generator is slow on a CPU, and draws other masks than eager's: arms
            # would differ by more than arithmetic.
            torch._inductor.config.fallback_random = self._settings["fallback_random"]
        # TORCHDYNAMO_SUPPRESS_ERRORS would have errors run eagerly.
        torch._dynamo.config.suppress_errors = False
        # What a model draws of NumPy, as the masks of some speech models, is then what eager draws.
        torch._dynamo.config.use_numpy_random_stream = True
        self._functions += 1
        if self._functions > 1:
            _allow_graphs_of_one_more(self._functions)
        elif self._cache == "fresh":
            use_fresh_cache()
        compiled = self._compiled_within(function, model)
        if self._dynamic is not False:
            compiled = _without_bases(compiled)
        return self._observed(compiled, function)

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        before = self._backend.calls
        try:
            yield
        finally:
            self._uncounted_calls += self._backend.calls - before

    def graphs(self) -> int:
        return self._backend.graphs

    def again(self) -> dict[str, Any]:
        """How a fresh process compiles alike, as `reference.compiled_by` takes it."""
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
        backend, frames = self._backend, counters["frames"]
        called = backend.calls - self._uncounted_calls
        recorded = self._chosen != CUDAGRAPHS or backend.skipped < backend.graphs
        proof: dict[str, Scalar] = {
            "torch": str(torch.__version__),
            "backend": self._chosen,
            "graph_calls": called,
            "unique_graphs": int(counters["stats"].get("unique_graphs", 0)),
            "graphs_left_as_they_were": backend.left,
            # Functions that dynamo gave up on: they ran in eager mode, or what they call did not.
            "frames_left_to_eager": int(frames.get("total", 0) - frames.get("ok", 0)),
            "errors_suppressed": bool(torch._dynamo.config.suppress_errors),
            "cache": self._cache,
        }
        if self._known.keeps_output:
            proof["kernels"] = int(torch._inductor.metrics.generated_kernel_count)
        skips = _cudagraph_skips()
        if skips or self._chosen == CUDAGRAPHS or self._mode in _CUDAGRAPH_MODES:
            proof["cudagraph_skips"] = skips
        if self.left_to_eager:
            proof["left_to_eager"] = self.left_to_eager
        return CompilerRecord(
            name=self.name,
            ran=recorded and backend.graphs > 0 and called > 0 and not self.left_to_eager,
            proof=proof,
            compile_seconds=compile_seconds,
            options=self._settings,
            graphs=backend.graphs,
            graph_breaks=sum(counters["graph_break"].values()),
            recompilations=recompilations,
        )

    def _require_device(self) -> None:
        only_on = self._known.only_on
        if only_on is None or self._device.type == only_on:
            return
        what = "a GPU" if only_on == "cuda" else f"a device of type {only_on!r}"
        raise CompilerError(
            f"backend {self._chosen!r} needs {what}, and the model is on {self._device.type!r}; "
            "take an instance with one, or another backend"
        )

    def _compiled(self, function: Forward) -> Forward:
        compiled: Forward = torch.compile(function, backend=self._backend, dynamic=self._dynamic)
        return compiled

    def _compiled_within(self, function: Forward, model: torch.nn.Module) -> Forward:
        """The function compiled as a whole, or the model's repeated blocks in it. Recurrent layers
        stay eager: dynamo does not capture them."""
        recurrent = [each for each in model.modules() if isinstance(each, torch.nn.RNNBase)]
        replaced: dict[Any, Forward] = {}
        if self._settings["regional"]:
            replaced = {each: self._compiled(each.forward) for each in _repeated_blocks(model)}
        elif not any(getattr(function, "__self__", function) is each for each in recurrent):
            function = self._compiled(function)
        if recurrent and hasattr(torch._dynamo.config, "allow_rnn"):
            torch._dynamo.config.allow_rnn = True  # or what calls one is not captured at all
        replaced.update({each: torch._dynamo.disable(each.forward) for each in recurrent})
        return _with_forwards(function, replaced) if replaced else function

    def _observed(self, forward: Forward, function: Forward) -> Forward:
        """The function, noting where torch silently leaves it to eager mode. Raises CompilerError
        with the cause where a compiler gives up."""
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
                owner = getattr(function, "__self__", function)
                name = getattr(owner, "__name__", type(owner).__name__)
                why = "the backend handed back every graph as it was"
                self._left.reasons.append(f"{name}: {why if backend.left else _unsupported(seen)}")
            called = True
            return results

        return observed


class Inductor(TorchCompile):
    name = "inductor"


class CountedBackend:
    """A backend for `torch.compile` that counts the graphs it compiles and their calls."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        """`function` takes a captured graph and example inputs and returns what to call instead."""
        self.compiler_name = self.__name__ = name  # what torch calls it, also in its errors
        self.function = function
        self.graphs = 0  # that the backend compiled
        self.calls = 0  # of those
        self.left = 0  # graphs that it returned as they were: they run in eager mode
        self.skipped = 0  # graphs of which CUDA graphs were to be recorded, and were not

    def reset(self) -> None:
        getattr(self.function, "reset", lambda: None)()

    def __call__(self, graph: Any, inputs: list[Any]) -> Forward:
        # Backends change the graph that they are given. Parameters are not copied.
        captured = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
        skips = _cudagraph_skips()
        compiled: Forward = self.function(graph, inputs)
        self.skipped += _cudagraph_skips() > skips
        if getattr(compiled, "__self__", compiled) is graph:
            self.left += 1
            return compiled
        self.graphs += 1
        checked = False

        def counted(*arguments: Any) -> Any:
            nonlocal checked
            self.calls += 1
            results = compiled(*arguments)
            if not checked:
                checked = True
                self._require_gradients(captured, results)
            return results

        return watched(captured, counted)

    def _require_gradients(self, graph: Any, results: Any) -> None:
        """Raise CompilerError where a gradient flowed through a result of the graph and does not
        through the compiled one, as with backends for inference."""
        outputs = next((node.args[0] for node in graph.graph.nodes if node.op == "output"), None)
        if not torch.is_grad_enabled() or not isinstance(outputs, (tuple, list)):
            return
        for node, result in zip(outputs, results):
            example = getattr(node, "meta", {}).get("example_value")
            lost = isinstance(result, torch.Tensor) and not result.requires_grad
            if lost and getattr(example, "requires_grad", False):
                raise CompilerError(
                    f"backend {self.compiler_name!r} returned a result that no gradient flows "
                    "through, so what comes before it would not be trained: it compiles inference "
                    "only; take another backend"
                )


def _cudagraph_skips() -> int:
    return int(counters["inductor"]["cudagraph_skips"])


def _found(backend: Backend, mode: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of a backend other than Inductor, bound to its mode and options. Raises
    CompilerError when there is none."""
    os.environ.update(backend.strict_variables)
    module, _, attribute = backend.name.rpartition(".")
    try:
        if module:
            function: Any = getattr(importlib.import_module(module), attribute)
        else:
            if backend.module is not None:
                # Its import registers it. Where that fails, torch does not know the name.
                with contextlib.suppress(ImportError):
                    importlib.import_module(backend.module)
            function = lookup_backend(backend.name)
        if not callable(function):
            raise TypeError(f"it is a {type(function).__name__}, expected a function")
    except Exception as error:  # what is imported for it may raise anything
        if module:
            remedy = "its package has to be installed in the image, or lie beside the script"
        else:
            device_batches = "add the package that registers it to the image's requirements.txt"
            if backend.install is not None:
                device_batches = f"it comes with {backend.install}"
            remedy = f"torch {torch.__version__} has {', '.join(list_backends())}; {device_batches}"
        raise CompilerError(
            f"backend {backend.name!r} cannot be loaded ({type(error).__name__}: "
            f"{first_line(error)}); {remedy}"
        ) from error
    bound: dict[str, Any] = {} if mode == "default" else {"mode": mode}
    table = {**options, **dict(backend.strict_options)}
    if table:
        bound["options"] = table
    return functools.partial(function, **bound) if bound else function


def _draws_as_eager(backend: Callable[..., Any], device: torch.device) -> bool:
    """Whether compiled dropouts drop what eager's do; False where the backend fails."""

    def dropped(values: torch.Tensor) -> torch.Tensor:
        once = torch.nn.functional.dropout(values, 0.5)
        twice = torch.nn.functional.dropout(once + values, 0.25)
        return torch.stack([once, twice])

    def zeros(function: Forward, seed: int) -> tuple[bool, ...]:
        torch.manual_seed(seed)
        return tuple((function(values) == 0).flatten().tolist())

    counted = copy.deepcopy(dict(counters))
    values = torch.ones(512, device=device)
    seeds = (7, 8, 9)  # CUDA graphs are replayed from the third call on
    try:
        compiled = torch.compile(dropped, backend=backend)
        with torch.no_grad(), preserved_generators():
            eager = [zeros(dropped, seed) for seed in seeds]
            return eager == [zeros(compiled, seed) for seed in seeds]
    except Exception:  # noqa: BLE001 - a backend may raise anything
        return False
    finally:
        counters.clear()
        counters.update(counted)


class _EagerReasons(logging.Handler):
    """Why functions run in eager mode: dynamo only logs that it passed its limit of graphs. The
    first lines are kept: the limit, the function, the guard that failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reasons: list[str] = []
        logging.getLogger("torch._dynamo.convert_frame").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith("torch._dynamo hit config."):
            self.reasons.append(", ".join(each.strip() for each in text.split("\n")[:3]))


def _not_captured() -> dict[str, int]:
    """How often torch has given each reason for code that it could not capture, in this process."""
    return {**counters["graph_break"], **counters["unimplemented"]}


def _unsupported(seen: Mapping[str, int]) -> str:
    """The last reason that torch gave for code that it could not capture, and had not before."""
    if torch._dynamo.config.suppress_errors:
        return "an error was suppressed, since torch._dynamo.config.suppress_errors is set"
    counted = _not_captured()
    reasons = [each for each, count in counted.items() if count > seen.get(each, 0)] or [*counted]
    return reasons[-1].split("\n")[0] if reasons else "it called no operation that torch captures"


def _allow_graphs_of_one_more(functions: int) -> None:
    """Raise dynamo's limit: it counts graphs by code, and models of one class share theirs, as
    those of a cross-validation."""
    config = torch._dynamo.config
    # cache_size_limit until torch 2.5
    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    setattr(config, name, getattr(config, name) * functions // (functions - 1))


def _repeated_blocks(model: Any) -> list[Any]:
    """The blocks of the model's largest list of modules of one class, which share one graph;
    nothing is fused across them. Raises CompilerError without such a list."""
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


def _with_forwards(function: Forward, forwards: Mapping[Any, Forward]) -> Forward:
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


def _without_bases(function: Forward) -> Forward:
    """The function, called with views as tensors of their own in the same memory: guards of dynamic
    shapes look at the tensor behind a view, so a probe's copies would be compiled anew. Tensors
    that gradients flow to stay as they are."""

    def called(*arguments: Any, **named: Any) -> Any:
        own: dict[int, torch.Tensor] = {}

        def alone(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.requires_grad or value._base is None:
                return value
            return own.setdefault(id(value), value.detach())

        arguments, named = tree_map(alone, (arguments, named))
        return function(*arguments, **named)

    return called


# Inductor's options and its cache.


def inductor_backend(
    mode: str, options: Mapping[str, Any], *, dynamic: bool | None
) -> Callable[..., Any]:
    """Inductor with a mode's settings and options on top. Raises CompilerError for an option that
    it lacks."""
    try:
        torch_device: Any = torch._TorchCompileInductorWrapper(mode, dict(options), dynamic)
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

        return compile_fx(graph, inputs, inner_compile=inner, config_patches=torch_device.config)

    setattr(inductor, "reset", torch_device.reset)  # noqa: B010 - torch looks for it
    return inductor


def cache_is_configured() -> bool:
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


def persistent_cache() -> CacheFolder:
    """An empty folder in which Inductor keeps graphs, wrappers and C++ kernels.
    `torch.compiler.save_cache_artifacts` leaves out the kernels, which take most of the time on a
    CPU."""
    torch._inductor.config.fx_graph_cache = True
    # Left out of it are locks, and Triton's own folder: it holds absolute paths, and where it is
    # there inductor does not unpack the kernels that the graphs bring along.
    return CacheFolder(use_fresh_cache(), left_out=("locks", "triton"))
