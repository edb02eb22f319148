"""Functions of many forms through the XLA compiler, from a model on the host: as eager has them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import torch

from compilegate.job.compilers.xla import Xla
from compilegate.job.probes.capture import Compiled, await_cotangents
from compilegate.job.probes.replay import Replay


class Model(torch.nn.Module):
    """Two layers, a buffer, and a weight that no output needs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)
        self.unused = torch.nn.Parameter(torch.ones(2))
        self.last.bias.requires_grad_(False)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, values: torch.Tensor, *, form: str, shift: float = 0.0) -> Any:
        hidden = torch.tanh(self.first(values)) * self.scale + shift
        outputs = self.last(hidden)
        loss = outputs.square().mean()
        return {
            "outputs": outputs,
            "several": (outputs, {"hidden": hidden, "best": outputs.argmax(1), "name": "x"}),
            "loss": SimpleNamespace(loss=loss, logits=outputs),
            "two losses": [loss, hidden.mean()],
        }[form]


def differentiable(output: Any) -> list[torch.Tensor]:
    """All tensors of an output that gradients may come back to."""
    if isinstance(output, torch.Tensor):
        return [output] if output.requires_grad else []
    if isinstance(output, SimpleNamespace):
        output = vars(output)
    if isinstance(output, dict):
        output = list(output.values())
    return [] if isinstance(output, str) else [t for each in output for t in differentiable(each)]


def main() -> None:
    compiler = Xla({"step_graphs": 1})
    found = {}
    for form in ("outputs", "several", "loss", "two losses"):
        model = Model()
        part = Compiled("Model", model, model.forward, compiler.compile(model.forward, model))
        values = torch.randn(5, 4, requires_grad=True)
        call = part.capture_call(0, (values,), {"form": form, "shift": 0.5})
        output = part.eager(values, form=form, shift=0.5)
        await_cotangents(call, output)
        outputs = differentiable(output)
        torch.autograd.backward(outputs, [torch.randn_like(each) for each in outputs])
        with Replay(part, compiler) as replay:
            eager, traced = replay.eager(call).tensors, replay.compiled(call).tensors
        assert eager.keys() == traced.keys()
        found[form] = [float((eager[name] - traced[name]).abs().max()) for name in eager]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
