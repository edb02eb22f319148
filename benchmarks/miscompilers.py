"""Backends of torch.compile with one known error each, to see whether the parity probe finds it.

Each replaces an operation of the captured graph, as a wrong rewrite would, and has torch's own
`aot_eager` compile the result: the model's code stays correct. Use one as an arm's compiler by its
dotted name, as in `backend = "benchmarks.miscompilers.dropped_bias"`. A graph without the operation
is compiled correctly.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Graph = torch.fx.GraphModule
Backend = Callable[[Graph, list[Any]], Callable[..., Any]]
"""The graph and example inputs in, the function to call instead of the graph out."""
MISCOMPILERS: dict[str, Backend] = {}
"""All backends with an error, by their names in this module."""
LINEAR = (functional.linear, torch._C._nn.linear)


class ChangedGradient(torch.autograd.Function):
    """The identity, with a gradient that is changed on its way back."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        context.change = change
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.change(gradient), None


def replace_calls(graph: Graph, inputs: list[Any], *targets: Any, by: Callable[..., Any]) -> Any:
    """Compile the graph with every call of one of these functions or methods going to `by`."""
    from torch._dynamo.backends.debugging import aot_eager  # noqa: PLC0415 - seconds of import

    broken = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for node in broken.graph.nodes:
        if node.op in ("call_function", "call_method") and node.target in targets:
            node.op, node.target = "call_function", by
    broken.recompile()
    return aot_eager(broken, inputs)


def replaces(*targets: Any) -> Callable[[Callable[..., Any]], Backend]:
    """Make a backend of the function that replaces these functions or methods in a graph."""

    def made(wrong: Callable[..., Any]) -> Backend:
        def backend(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
            return replace_calls(graph, inputs, *targets, by=wrong)

        backend.__name__, backend.__doc__ = wrong.__name__, wrong.__doc__
        MISCOMPILERS[wrong.__name__] = backend
        return backend

    return made


def honest(graph: Graph, inputs: list[Any]) -> Any:
    """Compile without an error, as the peer of the others."""
    return replace_calls(graph, inputs, by=functional.linear)


@replaces(functional.interpolate)
def lost_upsample_gradient(image: Tensor, *arguments: Any, **named: Any) -> Tensor:
    """Lose the gradient of what is before an upsampling: torch 2.13's own defect in bfloat16."""
    return functional.interpolate(image.detach(), *arguments, **named)


@replaces(*LINEAR)
def transposed_weight_gradient(inputs: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """Transpose the gradient of a square weight."""
    if weight.shape[0] == weight.shape[1]:
        weight = ChangedGradient.apply(weight, torch.t)
    return functional.linear(inputs, weight, bias)


@replaces(*LINEAR)
def scaled_weight_gradient(inputs: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """Make the gradient of a square weight 0.1% too large."""
    if weight.shape[0] == weight.shape[1]:
        weight = ChangedGradient.apply(weight, lambda gradient: gradient * 1.001)
    return functional.linear(inputs, weight, bias)


@replaces(functional.layer_norm)
def wrong_epsilon(inputs: Tensor, shape: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Tensor:
    """Normalise layers with an epsilon of 1e-3."""
    return functional.layer_norm(inputs, shape, weight, bias, 1e-3)


@replaces(*LINEAR)
def low_precision_products(inputs: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """Multiply matrices in bfloat16 whatever their precision."""
    product = functional.linear(inputs.bfloat16(), weight.bfloat16()).to(inputs.dtype)
    return product if bias is None else product + bias


@replaces(torch.conv2d)
def dropped_bias(image: Tensor, weight: Tensor, bias: Any = None, *arguments: Any) -> Tensor:
    """Convolve without the bias."""
    return torch.conv2d(image, weight, None, *arguments)


@replaces("masked_fill")
def shifted_mask(scores: Tensor, mask: Tensor, value: float) -> Tensor:
    """Mask the next position instead."""
    return scores.masked_fill(mask.roll(1, -1), value)


@replaces(functional.batch_norm)
def stale_buffers(inputs: Tensor, mean: Tensor, variance: Tensor, *arguments: Any) -> Tensor:
    """Normalise batches without updating the running statistics."""
    return functional.batch_norm(inputs, mean.clone(), variance.clone(), *arguments)


@replaces(functional.softmax)
def wrong_dimension(scores: Tensor, dim: int = -1, **named: Any) -> Tensor:
    """Take softmax over the last but one dimension instead of the last."""
    return functional.softmax(scores, -2)


@replaces(functional.dropout)
def unscaled_dropout(
    inputs: Tensor, share: float = 0.5, training: bool = True, *rest: Any
) -> Tensor:
    """Drop out without scaling up the rest."""
    return functional.dropout(inputs, share, training) * (1 - share)


@replaces(operator.add)
def detached_branch(one: Any, other: Any) -> Any:
    """Lose the gradient of the second operand of an addition."""
    return one + (other.detach() if isinstance(other, Tensor) else other)


@replaces(functional.embedding)
def neighbouring_embedding(tokens: Tensor, weight: Tensor, *arguments: Any) -> Tensor:
    """Give each token the row after its own."""
    return functional.embedding((tokens + 1) % len(weight), weight, *arguments)


@replaces(operator.sub)
def swapped_operands(one: Any, other: Any) -> Any:
    """Subtract the other way round."""
    return other - one


@replaces("mean", torch.mean)
def wrong_divisor(values: Tensor, *arguments: Any, **named: Any) -> Tensor:
    """Divide a mean by one more than there are."""
    return values.sum() / (values.numel() + 1)


@replaces(functional.relu, torch.relu)
def unmasked_relu_gradient(values: Tensor, inplace: bool = False) -> Tensor:
    """Let all gradients pass ReLU."""
    return values + (values.clamp(min=0) - values).detach()


@replaces(functional.gelu, torch._C._nn.gelu)
def tanh_gelu(values: Tensor, approximate: str = "none") -> Tensor:
    """Approximate GELU with a hyperbolic tangent."""
    return functional.gelu(values, approximate="tanh")


@replaces(functional.max_pool2d, torch.max_pool2d)
def averaged_pool_gradient(image: Tensor, size: Any, *arguments: Any, **named: Any) -> Tensor:
    """Spread the gradient of a maximum over all of its candidates."""
    average = functional.avg_pool2d(image, size)
    return average + (functional.max_pool2d(image, size) - average).detach()


@replaces(torch.sigmoid, "sigmoid")
def rough_sigmoid(values: Tensor) -> Tensor:
    """Compute a sigmoid to three digits."""
    return torch.sigmoid(values * 1.001)
