"""The training loop: the same statements for every arm, around the compiler's forward pass."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from typing import Any, ContextManager, Dict, List

import numpy as np
import torch

from training.arguments import Recipe
from training.averaging import WeightAverage
from training.batches import BatchSource, steps_per_epoch
from training.compilers import Compiler
from training.evidence import Steps
from training.failure import InputError, NonFiniteLossError
from training.schedule import rate_factor, warmup_steps

REPORT_SECONDS = 1.0  # SageMaker keeps one value of a metric a minute; people want a live log


@dataclass(frozen=True)
class Plan:
    """How many steps a run takes."""

    steps: int
    warmup: int
    steps_per_epoch: int


@dataclass(frozen=True)
class TrainingRun:
    """What the loop measured."""

    steps: Steps
    seconds: float
    graphs: List[int]
    """(steps,) graphs the compiler had compiled by the end of each step."""


def plan_run(recipe: Recipe, documents: int) -> Plan:
    """Raises InputError when the data do not fill one batch."""
    per_epoch = steps_per_epoch(documents, recipe.batch_size)
    if per_epoch == 0:
        raise InputError(
            f"--batch_size is {recipe.batch_size}, but the train split has {documents} documents"
        )
    steps = recipe.epochs * per_epoch
    if recipe.max_steps:
        steps = min(steps, recipe.max_steps)
    return Plan(steps, warmup_steps(steps, recipe.warmup_fraction), per_epoch)


def train(
    model: Any,
    *,
    compiler: Compiler,
    source: BatchSource,
    recipe: Recipe,
    plan: Plan,
    seed: int,
) -> TrainingRun:
    """Train the model in place; its weights are the averaged ones afterwards.

    Raises NonFiniteLossError before an update with a loss that is NaN or infinite.
    """
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(_parameter_groups(model, recipe), lr=recipe.learning_rate)
    average = WeightAverage(model, recipe.averaging)
    progress = _Progress(plan, recipe.batch_size)
    losses, seconds, graphs = [], [], []
    model.train()
    began = clock = time.perf_counter()
    forward = compiler.compile(model)
    for step, batch in enumerate(_batches(source, recipe, plan, seed)):
        rate = recipe.learning_rate * rate_factor(step, plan.steps, plan.warmup)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with _precision(recipe.precision, device):
            loss = forward(**batch).loss
        value = loss.item()
        if not math.isfinite(value):
            raise NonFiniteLossError(
                f"the training loss is {value} in step {step} (epoch "
                f"{step // plan.steps_per_epoch + 1}) at learning rate {rate:.3g}"
            )
        loss.backward()
        if recipe.gradient_clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.gradient_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update()
        now = time.perf_counter()
        losses.append(value)
        seconds.append(now - clock)
        graphs.append(compiler.graphs())
        clock = now
        progress.report(step, value, seconds)
    ended = time.perf_counter()
    average.apply()
    return TrainingRun(Steps(np.array(losses), np.array(seconds)), ended - began, graphs)


def _batches(source: BatchSource, recipe: Recipe, plan: Plan, seed: int) -> Any:
    taken = 0
    for epoch in range(recipe.epochs):
        for batch in source.training(seed, epoch, recipe.batch_size):
            if taken == plan.steps:
                return
            taken += 1
            yield batch


def _parameter_groups(model: Any, recipe: Recipe) -> List[Dict[str, Any]]:
    """Weight decay on matrices only: biases and normalisation weights have one dimension."""
    parameters = [each for each in model.parameters() if each.requires_grad]
    return [
        {
            "params": [each for each in parameters if each.dim() > 1],
            "weight_decay": recipe.weight_decay,
        },
        {"params": [each for each in parameters if each.dim() <= 1], "weight_decay": 0.0},
    ]


def _precision(precision: str, device: torch.device) -> ContextManager[Any]:
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


class _Progress:
    """Prints a line of metrics about once a second, in the form the job's metric regexes read."""

    def __init__(self, plan: Plan, batch_size: int) -> None:
        self._plan = plan
        self._batch_size = batch_size
        self._printed_at = time.perf_counter()
        self._printed_steps = 0

    def report(self, step: int, loss: float, seconds: List[float]) -> None:
        now = time.perf_counter()
        done = step + 1
        if now - self._printed_at < REPORT_SECONDS and done != self._plan.steps:
            return
        recent = seconds[self._printed_steps :]
        rate = len(recent) * self._batch_size / sum(recent)
        print(
            f"step={done}/{self._plan.steps} epoch={step // self._plan.steps_per_epoch + 1} "
            f"train:loss={loss:.4f} train:samples_per_second={rate:.1f}",
            flush=True,
        )
        self._printed_at, self._printed_steps = now, done
