"""The wrapper around every backend: what it was given, what it made of it, and whether that runs.

Counters show that something was compiled; only calls show that it was used. It knows nothing of any
backend but its function.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import torch

from compilegate.job.compilers.graphs import kept, watched
from compilegate.job.errors import CompilerError


class CountedBackend:
    """A backend as `torch.compile` takes it."""

    def __init__(
        self, name: str, function: Callable[..., Any], forget: Optional[Callable[[], None]] = None
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
        self._forget = forget
        self.function = function
        """The backend itself, whose graphs are not counted."""

    def __call__(self, graph: Any, inputs: List[Any]) -> Callable[..., Any]:
        """Compile one captured graph."""
        skips, captured = cudagraph_skips(), kept(graph)
        compiled: Callable[..., Any] = self.function(graph, inputs)
        self.skipped += cudagraph_skips() > skips
        if getattr(compiled, "__self__", compiled) is graph:
            self.left += 1
            return compiled
        self.graphs += 1
        carrying = _carrying_gradients(graph)

        def first(*arguments: Any) -> Any:
            results = compiled(*arguments)
            self._require_gradients(results, carrying)
            return results

        call = first

        def counted(*arguments: Any) -> Any:
            nonlocal call
            self.calls += 1
            results = call(*arguments)
            call = compiled
            return results

        return watched(captured, counted)

    def reset(self) -> None:
        """Forget what was compiled, as `torch.compiler.reset` asks for."""
        if self._forget is not None:
            self._forget()

    def _require_gradients(self, results: Any, carrying: Tuple[int, ...]) -> None:
        """What compiles inference only leaves parameters without a gradient. Where that is all of
        them, the backward pass fails; where it is some, they are not trained, without a word."""
        if not torch.is_grad_enabled():
            return
        for index in carrying:
            result = results[index]
            if isinstance(result, torch.Tensor) and not result.requires_grad:
                raise CompilerError(
                    f"backend {self.compiler_name!r} returned a result that no gradient flows "
                    "through, so what comes before it would not be trained: it compiles inference "
                    "only; take another backend"
                )


def cudagraph_skips() -> int:
    """How often CUDA graphs were asked for in this process, and not recorded."""
    from torch._dynamo.utils import counters  # noqa: PLC0415

    return int(counters["inductor"]["cudagraph_skips"])


def _carrying_gradients(graph: Any) -> Tuple[int, ...]:
    """Which results of a captured graph a gradient flows through, where it says so."""
    outputs: Optional[Any] = next(
        (node.args[0] for node in graph.graph.nodes if node.op == "output"), None
    )
    if not isinstance(outputs, (tuple, list)):
        return ()
    return tuple(
        index
        for index, node in enumerate(outputs)
        if getattr(getattr(node, "meta", {}).get("example_value"), "requires_grad", False)
    )
