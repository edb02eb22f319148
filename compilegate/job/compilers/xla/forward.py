"""A model's forward pass on an XLA device."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, Callable, Dict, Sequence, Tuple

import torch

from compilegate.job.compilers.xla import runtime
from compilegate.job.steps.step import Batch

Tensors = Dict[str, torch.Tensor]


class TracedForward:
    """Calls the model on the device, wherever the model itself lies.

    In training it lies on the device. The parity probe has it on the host: then the device computes
    on a copy of its weights, and what comes back has its loss, its logits, and a backward pass to
    the model's own parameters.
    """

    def __init__(self, model: Any, device: torch.device) -> None:
        self._model = model
        self._device = device

    def __call__(self, **batch: torch.Tensor) -> Any:
        if next(self._model.parameters()).device.type == self._device.type:
            return self._model(**fixed_mask(self._model, batch))
        trained = {
            name: each for name, each in self._model.named_parameters() if each.requires_grad
        }
        loss, logits = _OnDevice.apply(
            lambda copies: self._on_device(dict(zip(trained, copies)), batch),
            self._device,
            *trained.values(),
        )
        return SimpleNamespace(loss=loss, logits=logits)

    def _on_device(self, trained: Tensors, batch: Batch) -> Any:
        fixed = {
            name: each.to(self._device)
            for tensors in (self._model.named_parameters(), self._model.named_buffers())
            for name, each in tensors
            if name not in trained
        }
        inputs = {name: each.to(self._device) for name, each in batch.items()}
        return _functional_call(self._model, {**fixed, **trained}, fixed_mask(self._model, inputs))


class _OnDevice(torch.autograd.Function):
    """A forward and a backward pass as one graph.

    Gradients that went back to the host one by one would be a graph each.
    """

    @staticmethod
    def forward(  # pyrefly: ignore[bad-override]
        context: Any,
        compute: Callable[[Sequence[torch.Tensor]], Any],
        device: torch.device,
        *parameters: torch.Tensor,
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        copies = [each.detach().to(device).requires_grad_() for each in parameters]
        with torch.enable_grad():
            output = compute(copies)
            gradients = torch.autograd.grad(output.loss, copies, allow_unused=True)
        runtime.sync()
        context.gradients = [None if each is None else each.cpu() for each in gradients]
        return output.loss.detach().cpu(), output.logits.detach().cpu()

    @staticmethod
    def backward(  # pyrefly: ignore[bad-override-param-name]
        context: Any, *outer: torch.Tensor
    ) -> Any:
        scale = outer[0]
        return (
            *(None, None),
            *(None if each is None else each * scale for each in context.gradients),
        )


def fixed_mask(model: Any, batch: Batch) -> Batch:
    """The batch with an attention mask that is used as it is.

    From release 5 on, transformers asks of one with two dimensions whether it hides anything at
    all. The answer has to come from the device, in the middle of every step.
    """
    transformers: Any = sys.modules.get("transformers")  # never imported: the model may not need it
    if transformers is None or "attention_mask" not in batch:
        return batch
    if int(transformers.__version__.split(".")[0]) < 5:
        return batch
    if getattr(getattr(model, "config", None), "_attn_implementation", None) != "sdpa":
        return batch  # other kinds of attention take other kinds of masks
    return {**batch, "attention_mask": batch["attention_mask"].bool()[:, None, None, :]}


def _functional_call(model: Any, tensors: Tensors, batch: Batch) -> Any:
    if hasattr(torch, "func"):
        return torch.func.functional_call(model, tensors, args=(), kwargs=batch)
    from torch.nn.utils import stateless  # noqa: PLC0415 - torch before 2.0

    return stateless.functional_call(model, tensors, args=(), kwargs=batch)
