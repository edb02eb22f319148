"""Backends of torch.compile that are wrong in one known way, to see whether parity finds them.

Each changes the captured graph as a wrong rewrite would, and has torch's own `aot_eager` compile
the result: the model's code stays correct. Use one as the compiler of an arm by its dotted name, as
in `backend = "benchmarks.miscompilers.dropped_bias"`. A graph without the operation in question is
compiled rightly.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Graph = torch.fx.GraphModule
Backend = Callable[[Graph, list[Any]], Callable[..., Any]]
"""The graph and example inputs in, the function to call instead of the graph out."""


class ChangedGradient(torch.autograd.Function):
    """The identity, with a gradient that is changed on its way back."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        context.change = change
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.change(gradient), None


def _replaced(graph: Graph, inputs: list[Any], *targets: Any, by: Callable[..., Any]) -> Any:
    """The graph with every call of one of these functions or methods going to `by`, compiled."""
    from torch._dynamo.backends.debugging import aot_eager  # noqa: PLC0415 - seconds of import

    broken = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for node in broken.graph.nodes:
        if node.op in ("call_function", "call_method") and node.target in targets:
            node.op, node.target = "call_function", by
    broken.recompile()
    return aot_eager(broken, inputs)


def lost_upsample_gradient(graph: Graph, inputs: list[Any]) -> Any:
    """What is before an upsampling gets no gradient: torch 2.13's own defect in bfloat16."""

    def wrong(image: Tensor, *arguments: Any, **named: Any) -> Tensor:
        return functional.interpolate(image.detach(), *arguments, **named)

    return _replaced(graph, inputs, functional.interpolate, by=wrong)


def transposed_weight_gradient(graph: Graph, inputs: list[Any]) -> Any:
    """The gradient of a square weight is transposed."""

    def wrong(inputs: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
        if weight.shape[0] == weight.shape[1]:
            weight = ChangedGradient.apply(weight, torch.t)
        return functional.linear(inputs, weight, bias)

    return _replaced(graph, inputs, *_LINEAR, by=wrong)


def scaled_weight_gradient(graph: Graph, inputs: list[Any]) -> Any:
    """The gradient of a square weight is off by 0.1%."""

    def wrong(inputs: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
        if weight.shape[0] == weight.shape[1]:
            weight = ChangedGradient.apply(weight, lambda gradient: gradient * 1.001)
        return functional.linear(inputs, weight, bias)

    return _replaced(graph, inputs, *_LINEAR, by=wrong)


def wrong_epsilon(graph: Graph, inputs: list[Any]) -> Any:
    """Layer normalisation with 1e-3 for its epsilon."""

    def wrong(inputs: Tensor, shape: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Tensor:
        return functional.layer_norm(inputs, shape, weight, bias, 1e-3)

    return _replaced(graph, inputs, functional.layer_norm, by=wrong)


def low_precision_products(graph: Graph, inputs: list[Any]) -> Any:
    """Matrix products in bfloat16, whatever was asked for."""

    def wrong(inputs: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
        product = functional.linear(inputs.bfloat16(), weight.bfloat16()).to(inputs.dtype)
        return product if bias is None else product + bias

    return _replaced(graph, inputs, *_LINEAR, by=wrong)


def dropped_bias(graph: Graph, inputs: list[Any]) -> Any:
    """A convolution without its bias."""

    def wrong(image: Tensor, weight: Tensor, bias: Any = None, *arguments: Any) -> Tensor:
        return torch.conv2d(image, weight, None, *arguments)

    return _replaced(graph, inputs, torch.conv2d, by=wrong)


def shifted_mask(graph: Graph, inputs: list[Any]) -> Any:
    """A mask that hides the next position instead."""

    def wrong(scores: Tensor, mask: Tensor, value: float) -> Tensor:
        return scores.masked_fill(mask.roll(1, -1), value)

    return _replaced(graph, inputs, "masked_fill", by=wrong)


def stale_buffers(graph: Graph, inputs: list[Any]) -> Any:
    """Batch normalisation that never updates its running statistics."""

    def wrong(inputs: Tensor, mean: Tensor, variance: Tensor, *arguments: Any) -> Tensor:
        return functional.batch_norm(inputs, mean.clone(), variance.clone(), *arguments)

    return _replaced(graph, inputs, functional.batch_norm, by=wrong)


def wrong_dimension(graph: Graph, inputs: list[Any]) -> Any:
    """Softmax over the last but one dimension instead of the last."""

    def wrong(scores: Tensor, dim: int = -1, **named: Any) -> Tensor:
        return functional.softmax(scores, -2)

    return _replaced(graph, inputs, functional.softmax, by=wrong)


def unscaled_dropout(graph: Graph, inputs: list[Any]) -> Any:
    """Dropout that does not scale up what it keeps."""

    def wrong(inputs: Tensor, share: float = 0.5, training: bool = True, *rest: Any) -> Tensor:
        return functional.dropout(inputs, share, training) * (1 - share)

    return _replaced(graph, inputs, functional.dropout, by=wrong)


def detached_branch(graph: Graph, inputs: list[Any]) -> Any:
    """No gradient through the second operand of an addition."""

    def wrong(one: Any, other: Any) -> Any:
        return one + (other.detach() if isinstance(other, Tensor) else other)

    return _replaced(graph, inputs, operator.add, by=wrong)


def neighbouring_embedding(graph: Graph, inputs: list[Any]) -> Any:
    """Each token gets the row after its own."""

    def wrong(tokens: Tensor, weight: Tensor, *arguments: Any) -> Tensor:
        return functional.embedding((tokens + 1) % len(weight), weight, *arguments)

    return _replaced(graph, inputs, functional.embedding, by=wrong)


def swapped_operands(graph: Graph, inputs: list[Any]) -> Any:
    """b - a for a - b."""
    return _replaced(graph, inputs, operator.sub, by=lambda one, other: other - one)


def wrong_divisor(graph: Graph, inputs: list[Any]) -> Any:
    """A mean that divides by one more than there are."""

    def wrong(values: Tensor, *arguments: Any, **named: Any) -> Tensor:
        return values.sum() / (values.numel() + 1)

    return _replaced(graph, inputs, "mean", torch.mean, by=wrong)


def unmasked_relu_gradient(graph: Graph, inputs: list[Any]) -> Any:
    """ReLU that lets all gradients pass."""

    def wrong(values: Tensor, inplace: bool = False) -> Tensor:
        return values + (values.clamp(min=0) - values).detach()

    return _replaced(graph, inputs, functional.relu, torch.relu, by=wrong)


def tanh_gelu(graph: Graph, inputs: list[Any]) -> Any:
    """GELU by its approximation with a hyperbolic tangent."""

    def wrong(values: Tensor, approximate: str = "none") -> Tensor:
        return functional.gelu(values, approximate="tanh")

    return _replaced(graph, inputs, functional.gelu, torch._C._nn.gelu, by=wrong)


def averaged_pool_gradient(graph: Graph, inputs: list[Any]) -> Any:
    """The gradient of a maximum goes to all of its candidates."""

    def wrong(image: Tensor, size: Any, *arguments: Any, **named: Any) -> Tensor:
        average = functional.avg_pool2d(image, size)
        return average + (functional.max_pool2d(image, size) - average).detach()

    return _replaced(graph, inputs, functional.max_pool2d, torch.max_pool2d, by=wrong)


def rough_sigmoid(graph: Graph, inputs: list[Any]) -> Any:
    """A sigmoid that is right to three digits."""

    def wrong(values: Tensor) -> Tensor:
        return torch.sigmoid(values * 1.001)

    return _replaced(graph, inputs, torch.sigmoid, "sigmoid", by=wrong)


def honest(graph: Graph, inputs: list[Any]) -> Any:
    """Nothing is wrong with this one, for comparison with the others."""
    return _replaced(graph, inputs, by=functional.linear)


_LINEAR = (functional.linear, torch._C._nn.linear)
MISCOMPILERS: Mapping[str, Backend] = MappingProxyType(
    {
        each.__name__: each
        for each in (
            lost_upsample_gradient,
            transposed_weight_gradient,
            scaled_weight_gradient,
            wrong_epsilon,
            low_precision_products,
            dropped_bias,
            shifted_mask,
            stale_buffers,
            wrong_dimension,
            unscaled_dropout,
            detached_branch,
            neighbouring_embedding,
            swapped_operands,
            wrong_divisor,
            unmasked_relu_gradient,
            tanh_gelu,
            averaged_pool_gradient,
            rough_sigmoid,
        )
    }
)
"""All that are wrong, by their names in this module."""
