"""Backends that make one known error, as a miscompiler would; else they are torch's `aot_eager`.

Those of `benchmarks.miscompilers` are for one operation each; those here fit every model. What is
wrong stands in the environment, so that a process which compiles parts of the graph again, to find
the smallest that is wrong, makes the same error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.miscompilers import ChangedGradient

SHAPE, SIZE = "ZOO_SHAPE", "ZOO_SIZE"
"""The shape, as `64x3x3`, of what gets a wrong gradient; the error as a share of the number."""


def _change_gradients(change: Callable[[Tensor], Tensor], graph: Any, inputs: list[Any]) -> Any:
    """Change the gradient of the graph's inputs that have the shape."""

    def changed(tensor: Tensor) -> Tensor:
        result: Tensor = ChangedGradient.apply(tensor, change)
        return result

    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, value in zip(nodes, inputs, strict=True):
        if not isinstance(value, Tensor) or not value.requires_grad:
            continue
        if "x".join(str(int(each)) for each in value.shape) == os.environ[SHAPE]:
            with graph.graph.inserting_after(nodes[-1]):
                new = graph.graph.call_function(changed, (node,))
            node.replace_all_uses_with(new, delete_user_cb=lambda user, new=new: user is not new)
    return _compiled(graph, inputs)


def _compiled(graph: Any, inputs: list[Any]) -> Any:
    graph.recompile()
    return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)


def scaled_gradient(graph: Any, inputs: list[Any]) -> Any:
    """A gradient is too large by a share."""
    return _change_gradients(lambda each: each * (1 + float(os.environ[SIZE])), graph, inputs)


def lost_gradient(graph: Any, inputs: list[Any]) -> Any:
    """A gradient is zero."""
    return _change_gradients(torch.zeros_like, graph, inputs)


def transposed_gradient(graph: Any, inputs: list[Any]) -> Any:
    """A gradient is transposed, or in reverse order where the shape does not allow that."""

    def change(each: Tensor) -> Tensor:
        square = each.dim() > 1 and each.shape[0] == each.shape[1]
        return each.transpose(0, 1).contiguous() if square else each.flip(0)

    return _change_gradients(change, graph, inputs)


def wrong_output(graph: Any, inputs: list[Any]) -> Any:
    """The graph's outputs are too large by a share; the gradients are right."""
    run = _compiled(graph, inputs)

    def off(each: Any) -> Any:
        if not isinstance(each, Tensor) or not each.is_floating_point():
            return each
        return each + (each * float(os.environ[SIZE])).detach()

    return lambda *arguments: tuple(off(each) for each in run(*arguments))


def recorder(backend: str, operations: set[str]) -> Callable[..., Any]:
    """The backend, which also adds the names of the operations that it compiles."""

    def compiled(graph: Any, inputs: list[Any]) -> Any:
        operations.update(getattr(node.target, "__name__", "") for node in graph.graph.nodes)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    return compiled


_GRADIENTS = ("scaled_gradient", "lost_gradient", "transposed_gradient")
_OPERATIONS = {
    "shifted_mask": "masked_fill", "wrong_dimension": "softmax", "unscaled_dropout": "dropout",
    "unmasked_relu_gradient": "relu", "tanh_gelu": "gelu", "wrong_epsilon": "layer_norm",
    "rough_sigmoid": "sigmoid", "averaged_pool_gradient": "max_pool2d", "detached_branch": "add",
    "neighbouring_embedding": "embedding", "dropped_bias": "conv2d",
}  # fmt: skip
"""Those of `miscompilers`, with the operation that a graph needs to have."""


def candidates(number: int, operations: set[str]) -> list[tuple[str, ...]]:
    """Errors to plant in the architecture of this number, whose graphs have these operations: the
    first of each kind that shows; and more gradients, where that is too few."""
    fitting = tuple(kind for kind, needed in _OPERATIONS.items() if needed in operations)
    result = "stale_buffers" if "batch_norm" in operations else "wrong_output"
    more = [(each,) for each in _rotate(_GRADIENTS, number + 1)]
    return [_rotate(_GRADIENTS, number), (result,), _rotate(fitting, number), *more]


def dotted(kind: str) -> str:
    """The backend's name for `torch.compile`."""
    return f"{__name__ if kind in globals() else 'benchmarks.miscompilers'}.{kind}"


def _rotate(kinds: tuple[str, ...], number: int) -> tuple[str, ...]:
    first = number % max(len(kinds), 1)
    return kinds[first:] + kinds[:first]
