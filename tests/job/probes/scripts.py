"""Small training scripts of many kinds, whose first steps are captured as a job would."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from compilegate.job.probes.capture import Compiled, Forward, await_cotangents
from tests.job.probes.scenes import bits

BATCH, CLASSES, FEATURES = 6, 3, 8


@dataclass
class Script:
    """A script after its training."""

    compiled: list[Compiled]
    optimizers: list[torch.optim.Optimizer]
    spoken: list[str] = field(default_factory=list)
    """What its hooks said, in order."""

    @property
    def modules(self) -> list[nn.Module]:
        return [each.module for each in self.compiled]

    def forget_gradients(self) -> None:
        for each in self.optimizers:
            each.zero_grad()


class Normalised(nn.Module):
    """Batch normalisation has buffers, and one that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5)
        )
        self.head = nn.Linear(5, CLASSES)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(rows))


class Tied(nn.Module):
    """Its input and its output share a weight; a buffer is replaced, not written into."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, FEATURES, bias=False)
        self.outer = nn.Linear(FEATURES, FEATURES, bias=False)
        self.outer.weight = self.inner.weight
        self.head = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("places", torch.arange(3.0).reshape(3, 1).expand(3, 4))

    def forward(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen = self.seen + 1
        noise = random.random() + np.random.rand()
        return {"logits": self.head(self.outer(torch.tanh(self.inner(rows))) + noise)}


class PartlyFrozen(nn.Module):
    """The first layer is not trained, and its normalisation is kept in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5)).eval()
        for each in self.frozen.parameters():
            each.requires_grad_(False)
        self.head = nn.Linear(5, CLASSES)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.frozen(rows)
        return self.head(hidden), hidden.argmax(dim=1)


MODELS: tuple[type[nn.Module], ...] = (Normalised, Tied, PartlyFrozen)

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "adam": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, amsgrad=True),
    "tensor-rate": lambda parameters: torch.optim.Adam(
        parameters, lr=torch.tensor(0.01), foreach=False
    ),
    "lists": lambda parameters: KeepsLists(parameters, {"lr": 0.01}),
}


class KeepsLists(torch.optim.Optimizer):
    """An optimizer of somebody's own, whose state is nested and replaced in every step."""

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["taken"] = group.get("taken", 0) + 1
            for each in group["params"]:
                if each.grad is not None:
                    history = self.state[each].setdefault("history", [])
                    history.append(each.grad.clone())
                    self.state[each]["mean"] = (sum(history) / len(history), len(history))
                    each.data.sub_(group["lr"] * self.state[each]["mean"][0])


def logits_of(output: Any) -> torch.Tensor:
    if isinstance(output, dict):
        return output["logits"]
    return output[0] if isinstance(output, tuple) else output


def trained(
    models: Sequence[type[nn.Module]] = (Normalised,),
    optimizer: str = "adam",
    *,
    steps: int = 2,
    calls: int = 1,
    bf16: bool = False,
    compiling: Callable[[Forward], Forward] = lambda forward: forward,
    batch: int = BATCH,
    gradients_left: bool = False,
    one_optimizer: bool = True,
) -> Script:
    """Train the models on each other's random rows; every step of the script is captured.

    With several `calls` a step accumulates gradients. A scheduler and a hook of the script's own
    follow the optimizer's steps.
    """
    torch.manual_seed(1)
    modules = [each() for each in models]
    compiled = [
        Compiled(f"{number}-{type(each).__name__}", each, each.forward, compiling(each.forward))
        for number, each in enumerate(modules)
    ]
    groups = [[one for one in each.parameters() if one.requires_grad] for each in modules]
    if one_optimizer:
        groups = [[one for each in groups for one in each]]
    script = Script(compiled, [OPTIMIZERS[optimizer](each) for each in groups])
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(each, 0.9) for each in script.optimizers]
    for each in script.optimizers:
        each.register_step_post_hook(lambda *_: script.spoken.append("stepped"))
    precision = torch.autocast("cpu", dtype=torch.bfloat16) if bf16 else contextlib.nullcontext()
    for step in range(steps):
        script.forget_gradients()
        for _ in range(calls):
            rows, labels = torch.randn(batch, FEATURES), torch.randint(CLASSES, (batch,))
            with precision:
                losses = [loss_of(each, step, rows, labels) for each in compiled]
            torch.stack(losses).mean().backward()
        for each in [*script.optimizers, *schedulers]:
            each.step()
    if not gradients_left:
        script.forget_gradients()
    return script


def loss_of(
    compiled: Compiled, step: int, rows: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """The loss of a captured call."""
    call = compiled.keep_call(step, (rows,), {})
    output = compiled.compiled(rows)
    await_cotangents(call, output)
    return nn.functional.cross_entropy(logits_of(output).float(), labels)


def state_of(script: Script) -> list[Any]:
    """All that a measurement must leave as it was, in values that can be compared."""
    found: list[Any] = [bits(torch.get_rng_state()), random.getstate()]
    found.append([*map(str, np.random.get_state())])
    for module in script.modules:
        found += [(name, each.training) for name, each in module.named_modules()]
        found += [(name, bits(each), id(each)) for name, each in module.named_buffers()]
        for name, each in module.named_parameters():
            gradient = each.grad
            found.append((name, bits(each), id(each), id(gradient)))
            found.append(None if gradient is None else bits(gradient))
    for optimizer in script.optimizers:
        found.append(plain(optimizer.state_dict()))
        found.append(len(optimizer._optimizer_step_post_hooks))  # type: ignore[attr-defined]
        found.append(sorted(key for key in vars(optimizer) if key != "_optimizer_state_dict_hooks"))
    return [*found, list(script.spoken)]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return bits(value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value
