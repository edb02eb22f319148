"""A forward pass on an XLA device, also of a model on the host, as the parity probe's."""

from __future__ import annotations

import functools
import sys
from types import SimpleNamespace
from typing import Any, Callable, Mapping, Sequence

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from compilegate.job.compilers import xla_runtime as runtime


class TracedForward:
    """Calls the function on the device. Of a model on the host, the device computes on copies, and
    results have a backward pass to the model's parameters and to arguments that want gradients."""

    def __init__(self, function: Callable[..., Any], model: Any, device: torch.device) -> None:
        """`function` is the forward pass of `model`, or calls it."""
        self._function = function
        self.model = model
        self._device = device
        self.shapes = ""  # of the last call's tensors, in words

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        given = {**{str(index): each for index, each in enumerate(arguments)}, **named}
        self.shapes = ", ".join(
            f"{name} {list(each.shape)}"
            for name, each in sorted(given.items())
            if isinstance(each, torch.Tensor)
        )
        named = _with_fixed_mask(self.model, named)
        if next(self.model.parameters()).device.type == self._device.type:
            return self._function(*arguments, **named)
        leaves, structure = tree_flatten((arguments, named))
        trained = {name: each for name, each in self.model.named_parameters() if each.requires_grad}
        inputs = {
            index: each for index, each in enumerate(leaves) if isinstance(each, torch.Tensor)
        }
        returned: list[Any] = []

        def compute(copies: Sequence[torch.Tensor]) -> Sequence[Any]:
            weights = dict(zip(trained, copies))
            moved = dict(zip(inputs, copies[len(trained) :]))
            there = [moved.get(index, each) for index, each in enumerate(leaves)]
            output = self._on_device(weights, *tree_unflatten(there, structure))
            found, form = tree_flatten(_plain(output))
            returned.extend((output, found, form))
            return found

        tensors = iter(_OnDevice.apply(compute, self._device, *trained.values(), *inputs.values()))
        output, found, form = returned
        back = [next(tensors) if isinstance(each, torch.Tensor) else each for each in found]
        return _like(output, tree_unflatten(back, form))

    def _on_device(
        self, trained: dict[str, torch.Tensor], arguments: Sequence[Any], named: dict[str, Any]
    ) -> Any:
        weights = {
            name: trained[name] if name in trained else each.to(self._device)
            for tensors in (self.model.named_parameters(), self.model.named_buffers())
            for name, each in tensors
        }
        replaced = {f"model.{name}": each for name, each in weights.items()}
        if hasattr(torch, "func"):
            call = torch.func.functional_call
        else:
            from torch.nn.utils.stateless import functional_call as call  # noqa: PLC0415 - torch 1
        return call(_Caller(self._function, self.model), replaced, tuple(arguments), named)


class _Caller(torch.nn.Module):
    """A module that calls the function, so that it computes with other tensors than the model's."""

    def __init__(self, function: Callable[..., Any], model: Any) -> None:
        super().__init__()
        self._call = functools.partial(function)  # a module would be one more child
        self.model = model

    def forward(self, *arguments: Any, **named: Any) -> Any:
        return self._call(*arguments, **named)


class _OnDevice(torch.autograd.Function):
    """A forward and a backward pass, each executed as one graph: gradients that went back one by
    one would be a graph each. Those of a single loss are part of the forward graph, as in training.
    """

    @staticmethod
    def forward(  # pyrefly: ignore[bad-override]
        context: Any,
        compute: Callable[[Sequence[torch.Tensor]], Sequence[Any]],
        device: torch.device,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        copies = [each.detach().to(device).requires_grad_(each.requires_grad) for each in tensors]
        with torch.enable_grad():
            outputs = [each for each in compute(copies) if isinstance(each, torch.Tensor)]
            context.device, context.outputs, context.copies = device, outputs, copies
            losses = [i for i, each in enumerate(outputs) if each.requires_grad and not each.dim()]
            context.loss = losses[0] if len(losses) == 1 else None
            if context.loss is not None:
                context.gradients = _gradients(context, {context.loss: torch.ones(())})
        runtime.sync()
        returned = tuple(each.detach().cpu() for each in outputs)
        context.mark_non_differentiable(
            *(here for here, there in zip(returned, outputs) if not there.requires_grad)
        )
        context.set_materialize_grads(False)
        return returned

    @staticmethod
    def backward(  # pyrefly: ignore[bad-override-param-name]
        context: Any, *outer: torch.Tensor | None
    ) -> Any:
        came = {index: each for index, each in enumerate(outer) if each is not None}
        if list(came) == [context.loss]:
            found, scale = context.gradients, came[context.loss]
        else:
            found, scale = _gradients(context, came), torch.ones(())
            runtime.sync()
        return (None, None, *(None if each is None else each.cpu() * scale for each in found))


def _gradients(context: Any, starts: Mapping[int, torch.Tensor]) -> Sequence[torch.Tensor | None]:
    """On the device: one for each copy, of what came back to these outputs; None where none is."""
    found = iter(
        torch.autograd.grad(
            [context.outputs[index] for index in starts],
            [each for each in context.copies if each.requires_grad],
            [each.to(context.device) for each in starts.values()],
            retain_graph=True,
            allow_unused=True,
        )
    )
    return [next(found) if each.requires_grad else None for each in context.copies]


def _plain(output: Any) -> Any:
    """What `tree_flatten` looks into, of an output that it takes for one value."""
    if isinstance(output, SimpleNamespace):
        return vars(output)
    return dict(output) if hasattr(output, "to_tuple") else output


def _like(output: Any, values: Any) -> Any:
    """The values in the form that the function returned them in."""
    plain = isinstance(output, SimpleNamespace) or hasattr(output, "to_tuple")
    return type(output)(**values) if plain else values


def _with_fixed_mask(model: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Give the attention mask four dimensions: transformers 5 asks of one with two whether it hides
    anything, which the device would have to answer in every step."""
    transformers: Any = sys.modules.get("transformers")  # never imported: the model may not need it
    if transformers is None or int(transformers.__version__.split(".")[0]) < 5:
        return named
    attention = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if "attention_mask" not in named or attention != "sdpa":
        return named  # other kinds of attention take other kinds of masks
    return {**named, "attention_mask": named["attention_mask"].bool()[:, None, None, :]}
