"""Compilers that are wrong in one known way, to see whether the parity probe notices.

Each captures the forward pass as `torch.compile` does, changes the graph or its arguments, and runs
it. So the defects are those of a compiler: the model's own code stays correct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from compilegate.job.compilers.immediate import ImmediateSteps

Graph = torch.fx.GraphModule
Edit = Callable[[Graph, list[Any]], Callable[..., Any]]
"""The graph and example inputs in, the function to call instead of the graph out."""


class Miscompiler(ImmediateSteps):
    """Runs the captured graph after `edit` has broken it."""

    shares_random_numbers = True

    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self._graphs = 0

    def compile(self, model: Any) -> Callable[..., Any]:
        """The forward pass, which dynamo captures on its first call."""
        torch.compiler.reset()
        return torch.compile(model, backend=self._backend, dynamic=False)

    def graphs(self) -> int:
        """How many graphs were captured."""
        return self._graphs

    def _backend(self, graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
        self._graphs += 1
        return self._edit(graph, inputs)


class _ScaledGradient(torch.autograd.Function):
    """The identity, with a gradient that is off by a factor."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, factor: float) -> torch.Tensor:
        context.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient * context.factor, None


def scaled_gradient(factor: float) -> Edit:
    """Scale the gradient of the largest weight that is not an embedding."""

    def edit(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
        weights = {
            index: each.numel()
            for index, each in enumerate(inputs)
            if isinstance(each, torch.nn.Parameter) and each.dim() == 2
        }
        chosen = sorted(weights, key=lambda index: weights[index])[-2]

        def run(*arguments: Any) -> Any:
            changed = list(arguments)
            changed[chosen] = _ScaledGradient.apply(changed[chosen], factor)
            return graph(*changed)

        return run

    return edit


def detached_weight(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Give the last weight no gradient."""
    last = max(i for i, each in enumerate(inputs) if isinstance(each, torch.nn.Parameter))

    def run(*arguments: Any) -> Any:
        return graph(*(each.detach() if i == last else each for i, each in enumerate(arguments)))

    return run


def keyword_changed(target: Callable[..., Any], name: str, place: int, value: Any) -> Edit:
    """Change one argument, given by name and position, in every call of `target`."""

    def edit(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
        found = 0
        for node in graph.graph.nodes:
            if node.op != "call_function" or node.target is not target:
                continue
            found += 1
            if name in node.kwargs or len(node.args) <= place:
                node.kwargs = {**node.kwargs, name: value}
            else:
                node.args = (*node.args[:place], value, *node.args[place + 1 :])
        if not found:
            raise ValueError(
                f"the graph never calls {target.__name__}, so there is nothing to break"
            )
        graph.recompile()
        return graph

    return edit


def lower_precision(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Compute matrix products in bfloat16, whatever was asked for."""

    def run(*arguments: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return graph(*arguments)

    return run


def unchanged(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """The graph as captured, for comparison with the others."""
    return graph


EDITS: Mapping[str, Edit] = {
    "layer norm's epsilon 1e-5 for 1e-12": keyword_changed(functional.layer_norm, "eps", 4, 1e-5),
    "layer norm's epsilon 1e-3 for 1e-12": keyword_changed(functional.layer_norm, "eps", 4, 1e-3),
    "tanh approximation of GELU": keyword_changed(functional.gelu, "approximate", 1, "tanh"),
    "a weight's gradient off by 0.1%": scaled_gradient(1.001),
    "a weight's gradient off by 10%": scaled_gradient(1.1),
    "a weight without a gradient": detached_weight,
    "silently in bfloat16": lower_precision,
}
