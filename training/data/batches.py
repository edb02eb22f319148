"""The batches of a run: rows of the prepared data, padded and ordered as the run's plan says."""

from __future__ import annotations

import itertools
from typing import Dict, Iterator, Tuple

import numpy as np
import torch

from compilegate.job import IntArray
from training.data.padding import BatchPlan, document_lengths
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength

Batch = Dict[str, torch.Tensor]
"""The tensors of one step, by the names under which the model takes them."""


class BatchSource:
    """A split as tensors on the device, served in batches."""

    def __init__(self, split: PreparedSplit, device: torch.device) -> None:
        self.split = split
        self._input_ids = torch.from_numpy(split.input_ids.astype(np.int64)).to(device)
        self._attention_mask = torch.from_numpy(split.attention_mask.astype(np.int64)).to(device)
        self._labels = torch.from_numpy(split.labels).to(device)

    def training(
        self, plan: BatchPlan, epoch: int, first: int = 0, *, rank: int = 0, processes: int = 1
    ) -> Iterator[Batch]:
        """The batches of one epoch's steps, from step number `first` on.

        A step takes a batch for each process, all padded to the same length; this is the one of
        process number `rank`.
        """
        batch_size = plan.step // processes
        steps = plan.epoch(epoch)
        own = slice(rank * batch_size, (rank + 1) * batch_size)
        rows = torch.from_numpy(steps.rows[:, own]).to(self._labels.device)
        for step in range(first, len(rows)):
            yield self._padded(rows[step], int(steps.lengths[step]))

    def evaluation(self, batch_size: int, *, by_length: bool) -> Iterator[Tuple[IntArray, Batch]]:
        """All rows once, with their numbers; the last batch may be smaller.

        In their stored order and full length, or the shortest documents first, each batch padded to
        its longest document.
        """
        lengths = document_lengths(self.split.attention_mask)
        order = np.argsort(lengths, kind="stable") if by_length else np.arange(len(lengths))
        for first in range(0, len(order), batch_size):
            rows = order[first : first + batch_size]
            length = int(lengths[rows].max()) if by_length else self._input_ids.shape[1]
            yield rows, self._padded(torch.from_numpy(rows).to(self._labels.device), length)

    def _padded(self, rows: torch.Tensor, length: int) -> Batch:
        """The rows, without the padding beyond the length."""
        return {
            "input_ids": self._input_ids[:, :length][rows],
            "attention_mask": self._attention_mask[:, :length][rows],
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
    plan = BatchPlan.of(source.split, hyperparameters, length, seed)
    epoch, skipped = divmod(first, length.steps_per_epoch)
    left = length.steps - first
    while left > 0:
        batches = source.training(plan, epoch, skipped, rank=rank, processes=length.world_size)
        for batch in itertools.islice(batches, left):
            left -= 1
            yield batch
        epoch, skipped = epoch + 1, 0
