"""Small networks that are really trained with torch on the CPU, many at a time.

A pool has the networks of some seeds for each arm. All of them are trained together, as one batched
product of matrices, each from its own weights and on its own batches: a second for a pool. A seed's
networks of two arms are one recipe computed otherwise: features and hidden units stand in another
order, so that sums round differently (`Recipe.drift` has what else may differ).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import functional

Tensor = torch.Tensor
FEATURES, BATCH, MODELS = 16, 32, 24
TRAINING, ROWS, OTHERS = 2400, 2400, 600
"""Rows to train on, to validate on, and to stop early by. An execution takes some of the second."""


@dataclass(frozen=True)
class Recipe:
    """A model, its data, and its training."""

    data: Literal["classes", "numbers", "labels"] = "classes"
    """`labels`: each row has as many yes-or-no answers as there are outputs."""
    outputs: int = 4
    shares: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)  # of the classes
    clear: float = 0.55  # how far apart classes are, or how much of a number the features explain
    errors: int = 0
    """Degrees of freedom of Student's t, which errors of numbers follow; 0: they are normal."""
    members: int = 1  # rows of one group, which share a class and most of their features
    hidden: int = 24  # 0: a linear model
    dropout: float = 0.0
    adam: bool = False  # and GELU, in place of momentum and ReLU
    rate: float = 0.05
    cycles: int = 1  # times that the learning rate begins anew and falls to nearly nothing
    steps: int = 300
    drift: Literal["rounding", "order", "bf16", "none"] = "order"
    """How arms differ: by rounding alone; by the order of batches too, as with a loader of several
    workers; by the candidates' products in bf16 too; or not by a bit."""
    same_seeds: bool = False  # whether all seeds begin alike and see the same batches
    smoothing: float = 0.0  # of labels
    curriculum: bool = False  # from easy to hard examples
    early: bool = False
    """Whether training ends where the loss on other rows was lowest, in its last three tenths."""
    pretrained: bool = False  # whether all seeds begin from one trained model
    own_rate: tuple[int, float] = (-1, 0.0)  # an arm, and its learning rate
    arms: int = 2


@lru_cache(maxsize=1)
def train_pool(name: str, recipe: Recipe) -> dict[str, np.ndarray[Any, Any]]:
    """The pool of a kind of this name.

    `outputs` (arms, models, rows, outputs), `losses` (arms, models, steps), `stops` (arms, models)
    in steps, and by validation row `answers`.
    """
    torch.set_num_threads(1)
    torch.manual_seed(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16))
    features, answers = _data(recipe)
    start, order = _weights(recipe), _order(recipe, features)
    if recipe.pretrained:
        start = [each[:1].expand_as(each).clone() for each in start]
        first = _train(recipe, (features, answers), start, order[:, ::2], 0)[0]
        start = [each[:1] + 0.005 * torch.randn_like(each) for each in first]
    found = []
    for arm in range(recipe.arms):
        weights, moved = _reordered(recipe, start, features, arm)
        shuffled = arm and recipe.drift == "order"
        own = order[:, torch.randperm(order.shape[1])] if shuffled else order
        found.append(_train(recipe, (moved, answers), weights, own, arm)[1:])
    parts = dict(zip(("outputs", "losses", "stops"), zip(*found, strict=True), strict=True))
    pool = {each: torch.stack(arms).numpy() for each, arms in parts.items()}
    return {**pool, "answers": answers[TRAINING : TRAINING + ROWS].numpy()}


def _data(recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Features and answers: of the training, then of the validation, then of the other rows."""
    total = TRAINING + ROWS + OTHERS
    features = torch.randn(total, FEATURES)
    direction = torch.randn(recipe.outputs, FEATURES)
    if recipe.data == "classes":
        group = torch.arange(total) // recipe.members * recipe.members
        classes = torch.multinomial(torch.tensor(recipe.shares).float(), total, True)[group]
        if recipe.members > 1:
            features = 0.6 * features + 0.8 * features[group]
        wrong = (torch.rand(total) < 0.03) & (torch.arange(total) < TRAINING)
        other = torch.randint(0, recipe.outputs, (total,))
        return features + recipe.clear * direction[classes], torch.where(wrong, other, classes)
    signal = torch.tanh(features @ direction.T / FEATURES**0.5 * 1.5)
    noise = torch.randn(total, recipe.outputs)
    if recipe.errors:
        noise /= (torch.randn(total, recipe.errors) ** 2).mean(dim=1, keepdim=True).sqrt()
    numbers = recipe.clear * signal + 0.5 * noise
    return features, numbers[:, 0] if recipe.data == "numbers" else (numbers > 0).long()


def _weights(recipe: Recipe) -> list[Tensor]:
    """By layer, (models, inputs, outputs) and biases."""
    widths = [FEATURES, *([recipe.hidden] if recipe.hidden else []), recipe.outputs]
    found = []
    for before, after in pairwise(widths):
        found += [torch.randn(MODELS, before, after) / before**0.5, torch.zeros(MODELS, 1, after)]
    return [each[:1].expand_as(each).clone() for each in found] if recipe.same_seeds else found


def _order(recipe: Recipe, features: Tensor) -> Tensor:
    """(models, steps, batch) rows of the training data."""
    count = recipe.steps * BATCH
    epochs = range(-(-count // TRAINING))
    order = torch.stack(
        [torch.cat([torch.randperm(TRAINING) for _ in epochs])[:count] for _ in range(MODELS)]
    )
    if recipe.same_seeds:
        order = order[:1].repeat(MODELS, 1)
    if recipe.curriculum:
        hard = -(features - features.mean(dim=0)).norm(dim=1)
        order = torch.stack([row[hard[row].argsort()] for row in order])
    return order.reshape(MODELS, recipe.steps, BATCH)


def _reordered(
    recipe: Recipe, start: list[Tensor], features: Tensor, arm: int
) -> tuple[list[Tensor], Tensor]:
    """The same weights and features with hidden units and features in another order."""
    if arm == 0 or recipe.drift == "none":
        return start, features
    columns, units = torch.randperm(FEATURES), torch.randperm(max(recipe.hidden, 1))
    first, *rest = start[0][:, columns], *start[1:]
    if recipe.hidden:
        bias, last, *rest = rest
        first, rest = first[..., units], [bias[..., units], last[:, units], *rest]
    return [first, *rest], features[:, columns]


def _forward(recipe: Recipe, weights: list[Tensor], rows: Tensor, arm: int) -> Tensor:
    """(models, rows, outputs). Dropout belongs to training, where gradients are enabled."""
    found = rows
    for layer in range(0, len(weights), 2):
        weight, bias = weights[layer : layer + 2]
        if recipe.drift == "bf16" and arm:
            found, weight = found.bfloat16().float(), weight.bfloat16().float()
        found = torch.baddbmm(bias, found, weight)
        if layer + 2 < len(weights):
            found = functional.gelu(found) if recipe.adam else functional.relu(found)
            found = functional.dropout(found, recipe.dropout, torch.is_grad_enabled())
    return found


def _losses(recipe: Recipe, outputs: Tensor, answers: Tensor) -> Tensor:
    """(models,) the training loss of a batch."""
    if recipe.data == "numbers":
        return ((outputs[..., 0] - answers) ** 2).mean(dim=1)
    if recipe.data == "labels":
        return functional.softplus((1.0 - 2.0 * answers) * outputs).mean(dim=(1, 2))
    of_class = functional.cross_entropy(
        outputs.flatten(0, 1), answers.flatten(), reduction="none", label_smoothing=recipe.smoothing
    )
    return of_class.reshape(outputs.shape[:2]).mean(dim=1)


def _train(
    recipe: Recipe, rows: tuple[Tensor, Tensor], start: list[Tensor], order: Tensor, arm: int
) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
    """The weights, the outputs for the validation rows, (models, steps) losses, and after how many
    steps each training ended."""
    features, answers = rows
    weights = [each.clone().requires_grad_() for each in start]
    rate = recipe.own_rate[1] if recipe.own_rate[0] == arm else recipe.rate
    sgd = torch.optim.SGD(weights, rate, momentum=0.9)
    optimizer = torch.optim.Adam(weights, rate) if recipe.adam else sgd
    steps, course, snapshots, checked = order.shape[1], [], [], []
    others = answers[TRAINING + ROWS :].expand(MODELS, *answers[TRAINING + ROWS :].shape)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1.02 - step / steps * recipe.cycles % 1.0)
        batch = order[:, step]
        losses = _losses(recipe, _forward(recipe, weights, features[batch], arm), answers[batch])
        optimizer.zero_grad()
        losses.sum().backward()
        torch.nn.utils.clip_grad_value_(weights, 1.0)
        optimizer.step()
        course.append(losses.detach().double())
        if step == steps - 1 or (recipe.early and step % 20 == 19 and step >= 0.7 * steps):
            with torch.no_grad():
                rest = features[TRAINING:].expand(MODELS, -1, -1)
                snapshots.append(_forward(recipe, weights, rest, arm))
                checked.append(_losses(recipe, snapshots[-1][:, ROWS:], others))
    best = torch.stack(checked).argmin(dim=0)
    outputs = torch.stack([snapshots[at][model] for model, at in enumerate(best.tolist())])
    stops = steps - 20 * (len(checked) - 1 - best)
    return [each.detach() for each in weights], outputs[:, :ROWS], torch.stack(course, dim=1), stops
