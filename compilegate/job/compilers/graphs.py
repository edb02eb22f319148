"""The graphs that torch.compile hands to a backend, seen as they run.

The parity probe looks for the part of a graph that is compiled wrongly. It needs the graph as it
was captured, and what goes into it; nobody else watches.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any, Callable, Iterator, List, Tuple

Run = Callable[..., Any]
Watch = Callable[[Any, Run, Tuple[Any, ...]], Any]
"""Is given a graph as it was captured, what was compiled of it, and the arguments of a call;
returns what the call is to return."""

_watches: List[Watch] = []


def kept(graph: Any) -> Any:
    """The captured graph as it is now: backends change theirs. Parameters are not copied."""
    import torch  # noqa: PLC0415 - names of compilers are read without it

    return torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))


def watched(graph: Any, run: Run) -> Run:
    """What was compiled of the graph, so that its calls can be watched."""

    def call(*arguments: Any) -> Any:
        if not _watches:
            return run(*arguments)
        return _watches[-1](graph, run, arguments)

    return call


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Have calls of graphs go to `watch` instead of to what was compiled."""
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.pop()
