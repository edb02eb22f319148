"""The batches of a run: rows of the prepared data, padded and ordered as the run's plan says."""

from __future__ import annotations

from typing import Dict, Iterator, Tuple

import numpy as np
import torch

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

    def __len__(self) -> int:
        return len(self._labels)

    def training(
        self, plan: BatchPlan, epoch: int, first: int = 0, share: Tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """The batches of one epoch's steps, from step number `first` on.

        `share` is (rank, processes): a step takes a batch for each process, all padded to the same
        length, and this is the one of that rank.
        """
        rank, processes = share
        batch_size = plan.step // processes
        steps = plan.epoch(epoch)
        mine = slice(rank * batch_size, (rank + 1) * batch_size)
        rows = torch.from_numpy(steps.rows[:, mine]).to(self._labels.device)
        for step in range(first, len(rows)):
            yield self._padded(rows[step], int(steps.lengths[step]))

    def in_order(self, batch_size: int) -> Iterator[Batch]:
        """All rows in their stored order and full length; the last batch may be smaller."""
        rows = torch.arange(len(self._labels), device=self._labels.device)
        for chunk in torch.split(rows, batch_size):
            yield self._padded(chunk, self._input_ids.shape[1])

    def by_length(self, batch_size: int) -> Iterator[Tuple[torch.Tensor, Batch]]:
        """All rows, the shortest documents first, with their row numbers; each batch is padded to
        its longest document. The last batch may be smaller."""
        lengths = document_lengths(self.split.attention_mask)
        order = torch.from_numpy(np.argsort(lengths, kind="stable")).to(self._labels.device)
        for chunk in torch.split(order, batch_size):
            yield chunk, self._padded(chunk, int(lengths[chunk.cpu().numpy()].max()))

    def _padded(self, rows: torch.Tensor, length: int) -> Batch:
        """The rows, with what lies beyond the length cut off, which is padding."""
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
    taken = first
    begun, skipped = divmod(first, length.steps_per_epoch)
    for epoch in range(begun, hyperparameters.epochs):
        start = skipped if epoch == begun else 0
        for batch in source.training(plan, epoch, start, share=(rank, length.world_size)):
            if taken == length.steps:
                return
            taken += 1
            yield batch
