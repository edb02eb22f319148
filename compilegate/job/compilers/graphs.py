"""The graphs that torch.compile hands to a backend, seen as they run: the parity probe looks for
the part of one that is compiled wrongly."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, List, Tuple

Run = Callable[..., Any]
Watch = Callable[[Any, Run, Tuple[Any, ...]], Any]
"""Is given a graph as it was captured, what was compiled of it, and the arguments of a call;
returns what the call is to return."""

_watches: List[Watch] = []


def watched(graph: Any, run: Run) -> Run:
    """What was compiled of the graph, so that its calls can be watched."""

    def call(*arguments: Any) -> Any:
        return _watches[-1](graph, run, arguments) if _watches else run(*arguments)

    return call


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Have calls of graphs go to `watch` instead of to what was compiled."""
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.pop()
