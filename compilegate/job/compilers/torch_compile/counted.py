"""A backend's own function: found by its name, bound to its options, counted as it compiles and
runs, and tried where nothing is known of the random numbers that it draws."""

from __future__ import annotations

import contextlib
import copy
import difflib
import functools
import importlib
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch

from compilegate.job.compilers.graphs import watched
from compilegate.job.compilers.torch_compile.backends import Backend, known
from compilegate.job.errors import CompilerError, first_line
from compilegate.job.machine.numerics import preserved_generators

BackendFunction = Callable[..., Any]
"""Given a captured graph and its example inputs, what to call instead of the graph."""


class CountedBackend:
    """A backend as `torch.compile` takes it: counters show that something was compiled, and calls
    that it was used."""

    def __init__(
        self, name: str, function: BackendFunction, reset: Optional[Callable[[], None]] = None
    ) -> None:
        self.compiler_name = name
        self.__name__ = name
        """What torch calls it in its errors."""
        self.graphs = 0
        """Graphs that the backend compiled."""
        self.calls = 0
        """Calls of those."""
        self.left = 0
        """Graphs that it returned as they were: they run in eager mode."""
        self.skipped = 0
        """Graphs of which CUDA graphs were to be recorded, and were not."""
        self.function = function
        """The backend itself, whose graphs are not counted."""
        self.reset = reset or (lambda: None)
        """What `torch.compiler.reset` calls, to forget what was compiled."""

    def __call__(self, graph: Any, inputs: List[Any]) -> Callable[..., Any]:
        """Compile one captured graph."""
        # Backends change the graph that they are given. Parameters are not copied.
        captured = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
        skips = cudagraph_skips()
        compiled: Callable[..., Any] = self.function(graph, inputs)
        self.skipped += cudagraph_skips() > skips
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
        """Raises CompilerError where a gradient flowed through a result of the graph and does not
        through what was compiled. What compiles inference only leaves parameters without gradients,
        and says nothing where that is not all of them."""
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


def cudagraph_skips() -> int:
    """How often CUDA graphs were to be recorded in this process, and were not."""
    from torch._dynamo.utils import counters  # noqa: PLC0415 - seconds of import

    return int(counters["inductor"]["cudagraph_skips"])


def found_backend(name: str, mode: str, options: Mapping[str, Any]) -> CountedBackend:
    """The backend other than Inductor with that name, bound to its mode and its options.

    Raises CompilerError when there is none.
    """
    about = known(name)
    bound: Dict[str, Any] = {} if mode == "default" else {"mode": mode}
    table = dict(options)
    if about is not None:
        os.environ.update(about.strict_variables)
        table.update(about.strict_options)
    if table:
        bound["options"] = table
    function = _imported(name) if "." in name else _registered(name, about)
    return CountedBackend(
        name, functools.partial(function, **bound), getattr(function, "reset", None)
    )


def _registered(name: str, about: Optional[Backend]) -> BackendFunction:
    from torch._dynamo import list_backends  # noqa: PLC0415 - seconds of import
    from torch._dynamo.backends.registry import lookup_backend  # noqa: PLC0415

    if about is not None and about.module is not None:
        # Its import registers it. Where that fails, torch does not know the name.
        with contextlib.suppress(ImportError):
            importlib.import_module(about.module)
    comes_with = (
        "; add the package that registers it to the image's requirements.txt"
        if about is None
        else f"; it comes with {about.install}"
    )
    if name not in list_backends(exclude_tags=()):
        there = list_backends()
        close = difflib.get_close_matches(name, there, n=1) if about is None else []
        raise CompilerError(
            f"backend {name!r} is not installed beside torch {torch.__version__}, which has "
            f"{', '.join(there)}{comes_with}{f'; did you mean {close[0]!r}?' if close else ''}"
        )
    try:
        function: BackendFunction = lookup_backend(name)
    except Exception as error:  # what is imported for it may raise anything
        raise CompilerError(
            f"backend {name!r} is registered and cannot be loaded ({first_line(error)}){comes_with}"
        ) from error
    return function


def _imported(dotted: str) -> BackendFunction:
    module_name, _, attribute = dotted.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module that is imported may raise anything
        raise CompilerError(
            f"backend {dotted!r} cannot be imported ({type(error).__name__}: {first_line(error)}); "
            "its package has to be installed in the image, or lie beside the script"
        ) from error
    function: Any = getattr(module, attribute, None)
    if not callable(function):
        kind = "nothing" if function is None else f"a {type(function).__name__}"
        raise CompilerError(
            f"backend {dotted!r} names {kind}, expected a function of a graph and its example "
            f"inputs in {module_name}"
        )
    return function


_ELEMENTS = 512
_SEEDS = (7, 8, 9)
"""CUDA graphs are replayed from the third call on."""


def draws_as_eager(backend: BackendFunction, device: torch.device) -> bool:
    """Whether compiled dropouts drop what eager's do from one seed; False also where the backend
    fails at it. Generators and dynamo's counters are as they were afterwards."""
    from torch._dynamo.utils import counters  # noqa: PLC0415 - seconds of import

    def dropped(values: torch.Tensor) -> torch.Tensor:
        once = torch.nn.functional.dropout(values, 0.5)
        twice = torch.nn.functional.dropout(once + values, 0.25)
        return torch.stack([once, twice])

    def zeros(function: Callable[..., Any], seed: int) -> Tuple[bool, ...]:
        torch.default_generator.manual_seed(seed)
        if values.is_cuda:
            torch.cuda.manual_seed(seed)
        return tuple((function(values) == 0).flatten().tolist())

    counted = copy.deepcopy(dict(counters))
    values = torch.ones(_ELEMENTS, device=device)
    try:
        compiled = torch.compile(dropped, backend=backend)
        with torch.no_grad(), preserved_generators():
            eager = [zeros(dropped, seed) for seed in _SEEDS]
            return eager == [zeros(compiled, seed) for seed in _SEEDS]
    except Exception:  # noqa: BLE001 - a backend may raise anything
        return False
    finally:
        counters.clear()
        counters.update(counted)
