"""Trains a tiny model on XLA's CPU device, in three ways that XLA cannot compile once for all.

Prints one JSON object: what happened in each.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from compilegate.job.compilers.xla import Xla
from compilegate.job.errors import CompilerError
from training.data.batches import Batch
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength
from training.update import WeightUpdate

LENGTH = RunLength(steps=6, warmup=0, steps_per_epoch=6)


class Doubling(torch.nn.Module):
    """One layer; with `looks`, a step that looks at one of its values."""

    def __init__(self, looks: bool) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.looks = looks
        self.config = SimpleNamespace()

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> Any:
        outputs = self.layer(inputs)
        if self.looks and bool((outputs > 1e9).any()):
            outputs = outputs / 2
        return SimpleNamespace(loss=(outputs.squeeze(1) - labels).square().mean())


def batches(sizes: list[int]) -> Iterator[Batch]:
    for size in sizes:
        yield {"inputs": torch.ones(size, 4), "labels": torch.zeros(size)}


def train(sizes: list[int], *, looks: bool = False, most_graphs: int = 1) -> dict[str, Any]:
    """Take a step for each size of a batch: the losses, and why it ended early."""
    torch.manual_seed(0)
    compiler = Xla({"step_graphs": most_graphs})
    model = Doubling(looks)
    device = compiler.device(torch.device("cpu"))
    model.to(device)
    forward = compiler.compile(model.forward, model)
    update = WeightUpdate(model, Hyperparameters(learning_rate=0.03), LENGTH)
    update.allocate()

    def gradients(batch: Batch) -> torch.Tensor:
        loss: torch.Tensor = forward(**batch).loss
        update.backward(loss)
        return loss

    losses: list[float] = []
    failure = None
    try:
        for step, batch in enumerate(compiler.batches(batches(sizes))):
            loss, _ = compiler.take_step(
                step, functools.partial(gradients, batch), functools.partial(update.apply, step)
            )
            losses.append(loss.item())
    except CompilerError as error:
        failure = str(error)
    told = [str(each) for name, each in compiler.record(0, 0).proof.items() if "recomp" in name]
    return {
        "losses": losses,
        "failure": failure,
        "graphs": compiler.graphs(),
        "recompilations": told,
    }


if __name__ == "__main__":
    found = {
        "alike": train([8] * 6),
        "varied": train([8, 8, 8, 7, 6, 5], most_graphs=2),
        "varied and allowed": train([8, 8, 7, 7, 6, 6], most_graphs=3),
        "looking": train([8] * 6, looks=True),
    }
    json.dump(found, sys.stdout)
