"""The batches of a run: one fixed shape, in an order that only the seed decides."""

from __future__ import annotations

import hashlib
from typing import Iterator, Tuple

import numpy as np
import numpy.typing as npt
import torch

from compilegate.job import Batch
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength, steps_per_epoch


def epoch_order(documents: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The order in which an epoch (from 0) visits the documents: a permutation of their rows.

    It does not use torch's generator, so neither the compiler nor the model can shift it.
    """
    return np.random.default_rng([seed, epoch]).permutation(documents)


def order_digest(documents: int, seed: int, batch_size: int, steps: int) -> str:
    """sha256 of the document rows of a run's batches: equal digests, equal data order."""
    digest = hashlib.sha256()
    per_epoch = steps_per_epoch(documents, batch_size)
    for epoch, done in enumerate(range(0, steps, per_epoch)):
        taken = min(per_epoch, steps - done) * batch_size
        digest.update(epoch_order(documents, seed, epoch)[:taken].astype("<i8").tobytes())
    return digest.hexdigest()


class BatchSource:
    """A split as tensors on the device, served in batches."""

    def __init__(self, split: PreparedSplit, device: torch.device) -> None:
        self._input_ids = torch.from_numpy(split.input_ids.astype(np.int64)).to(device)
        self._attention_mask = torch.from_numpy(split.attention_mask.astype(np.int64)).to(device)
        self._labels = torch.from_numpy(split.labels).to(device)

    def __len__(self) -> int:
        return len(self._labels)

    def training(
        self,
        seed: int,
        epoch: int,
        batch_size: int,
        first: int = 0,
        share: Tuple[int, int] = (0, 1),
    ) -> Iterator[Batch]:
        """The full batches of one epoch, in the seed's order, from number `first` on.

        `share` is (rank, processes): a step takes a batch for each process, and this is the one of
        that rank.
        """
        rank, processes = share
        order = torch.from_numpy(epoch_order(len(self), seed, epoch)).to(self._labels.device)
        for step in range(first, steps_per_epoch(len(self), batch_size * processes)):
            begin = (step * processes + rank) * batch_size
            yield self._rows(order[begin : begin + batch_size])

    def in_order(self, batch_size: int) -> Iterator[Batch]:
        """All rows in their stored order; the last batch may be smaller."""
        rows = torch.arange(len(self), device=self._labels.device)
        for chunk in torch.split(rows, batch_size):
            yield self._rows(chunk)

    def _rows(self, rows: torch.Tensor) -> Batch:
        return {
            "input_ids": self._input_ids[rows],
            "attention_mask": self._attention_mask[rows],
            "labels": self._labels[rows],
        }


def batches_of_run(
    source: BatchSource,
    hyperparameters: Hyperparameters,
    length: RunLength,
    seed: int,
    *,
    first: int = 0,
    rank: int = 0,
) -> Iterator[Batch]:
    """The batch that process number `rank` takes in each step of the run, from step `first` on."""
    taken = first
    begun, skipped = divmod(first, length.steps_per_epoch)
    for epoch in range(begun, hyperparameters.epochs):
        start = skipped if epoch == begun else 0
        for batch in source.training(
            seed, epoch, hyperparameters.batch_size, start, share=(rank, length.world_size)
        ):
            if taken == length.steps:
                return
            taken += 1
            yield batch
