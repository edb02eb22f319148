"""One architecture of the zoo: how to build it, a batch for it, and its losses."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = Any
"""Tensors in a dictionary or a tuple."""
CLASSES = 10


@dataclass(frozen=True)
class Architecture:
    """One of the hundred. Its models are trained in turn, each by its own loss."""

    name: str
    family: str
    build: Callable[[], Any]
    """Returns a model with random weights, or a tuple of them."""
    batch: Callable[[], Batch]
    """Draws a batch from torch's generator."""
    losses: tuple[Callable[..., Tensor], ...]
    """One for each model. It takes all models, then the batch."""

    def models(self) -> tuple[nn.Module, ...]:
        """The models in training mode."""
        built = self.build()
        return tuple(each.train() for each in (built if isinstance(built, tuple) else (built,)))


class Library:
    """A module that is imported when it is used: the list needs none of the libraries in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


def prepare_torchvision() -> Any:
    """Let torchvision's CUDA wheel be imported beside a torch without CUDA: its operators do not
    load there. No architecture here needs them, but the import needs their names."""
    try:
        without_names = "+cpu" not in importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        return None
    if not without_names or torch.version.cuda is not None:
        return None
    operators = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor dets, Tensor scores, float limit) -> Tensor")
    return operators


_OPERATORS = prepare_torchvision()


def classifier(
    name: str, family: str, build: Callable[[], Any], *shape: int, examples: int = 8
) -> Architecture:
    """A classifier of images, clips or signals of this shape."""

    def batch() -> Batch:
        return torch.randn(examples, *shape), torch.randint(CLASSES, (examples,))

    return Architecture(name, family, build, batch, (cross_entropy,))


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """The loss for a batch whose last part are the classes."""
    return functional.cross_entropy(model(*batch[:-1]), batch[-1])


def regression(
    name: str, family: str, build: Callable[[], Any], batch: Callable[[], Batch], output: str
) -> Architecture:
    """A model that is to return 0.5 everywhere, in this attribute of its output."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        found = model(**batch) if isinstance(batch, dict) else model(*batch)
        return (getattr(found, output) - 0.5).square().mean()

    return Architecture(name, family, build, batch, (loss,))


def own_loss(
    name: str, family: str, build: Callable[[], Any], batch: Callable[[], Batch]
) -> Architecture:
    """A model that returns its loss, as those of transformers do."""
    return Architecture(name, family, build, batch, (lambda model, batch: model(**batch).loss,))
