"""The batches of a run: rows of the prepared data, padded and ordered as the run's plan says."""

from __future__ import annotations

from typing import Dict, Iterator, Tuple

import numpy as np
import torch

from compilegate.job import IntArray
from training.data.padding import BatchPlan, document_lengths
from training.data.prepared import PreparedSplit

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
        self, plan: BatchPlan, first: int, steps: int, *, rank: int = 0, processes: int = 1
    ) -> Iterator[Batch]:
        """The batches of the run's steps from number `first` up to `steps`.

        A step takes a batch for each process, all padded to the same length; this is the one of
        process number `rank`.
        """
        batch_size = plan.step // processes
        own = slice(rank * batch_size, (rank + 1) * batch_size)
        for each in plan.epochs(first, steps):
            rows = torch.from_numpy(each.rows[:, own]).to(self._labels.device)
            for row, length in zip(rows, each.lengths.tolist()):
                yield self._padded(row, length)

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
