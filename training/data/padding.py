"""Which documents each step of a run takes, and to which length they are padded.

There are three ways:

* `max`: every document to the data set's sequence length. One shape, so one graph.
* `buckets`: each step's documents to one of a few lengths, which the training split decides. As
  many shapes as buckets, so as many graphs.
* `longest`: each step's documents to the longest of them. Hardly two steps have the same shape.

An epoch takes the same documents in all three ways, once each: the seed's order, without the ragged
rest that fills no step. With `max` and `longest` its steps cut that order into pieces. With
`buckets` each document waits in the shortest bucket that holds it until a step is full. What is
left waiting at the end fills no step of its bucket: it moves to the next longer one, and so on, so
that no step is short and none has another length. Then the steps are shuffled, except that the
first epoch begins with steps of every length, the longest first: whatever compiles does so at once,
and memory that suffices then will suffice later.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple

import numpy as np
import numpy.typing as npt

from compilegate.job import IntArray, PaddedPositions, PaddingRecord
from compilegate.job.contract import MOST_BUCKETS, PADDINGS
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength, steps_per_epoch

MULTIPLE = 8
"""Bucket lengths are multiples of it, as matrix units of GPUs like them."""
WORTH_A_BUCKET = 0.02
"""There are no more buckets than it takes to compute at most so many positions more than with
`MOST_BUCKETS`, as a share."""
LEADING_ROUNDS = 2
"""How often the first epoch goes through all lengths before it is shuffled. Twice, since CUDA
graphs are recorded in the second step of each shape."""
MOST_BINS = 32
"""The histogram of lengths has so many at most."""


def document_lengths(attention_mask: npt.NDArray[np.int8]) -> IntArray:
    """(documents,) positions up to the last token of each document, and 1 at least.

    `attention_mask` is (documents, sequence_length), 1 where a token stands.
    """
    backwards = attention_mask[:, ::-1] != 0
    last = attention_mask.shape[1] - backwards.argmax(axis=1)
    return np.where(backwards.any(axis=1), last, 1).astype(np.int64)


def epoch_order(documents: int, seed: int, epoch: int) -> IntArray:
    """The order in which an epoch (from 0) visits the documents: a permutation of their rows.

    It does not use torch's generator, so neither the compiler nor the model can shift it.
    """
    return np.random.default_rng([seed, epoch]).permutation(documents)


def bucket_lengths(lengths: IntArray, step: int, most: int) -> Tuple[int, ...]:
    """The ascending lengths of the buckets for documents of these lengths, `step` in each step.

    `lengths` are 1 to `most`. Buckets are multiples of `MULTIPLE`, or `most`; each document counts
    in the shortest that holds it, and takes as many positions. There are as few buckets as take
    hardly more positions (`WORTH_A_BUCKET`) than the best `MOST_BUCKETS` would. Each one fills a
    step in every epoch, whichever documents are the epoch's ragged rest, so that every epoch has
    the same shapes. Dynamic programming over the lengths that occur: no choice is better.
    """
    at_least = 2 * step - 1
    rounded = np.minimum(-(-lengths // MULTIPLE) * MULTIPLE, most)
    ends, counts = np.unique(rounded, return_counts=True)
    upto = np.concatenate([[0], np.cumsum(counts)])
    # positions[i, j]: positions of one bucket for the lengths from number i to number j - 1.
    documents = upto[None, :] - upto[:, None]
    positions = documents * np.concatenate([[0], ends])[None, :].astype(np.float64)
    positions[documents < at_least] = np.inf
    cost = np.full(len(ends) + 1, np.inf)
    cost[0] = 0.0
    begins: List[IntArray] = []
    totals: List[float] = []  # positions of all documents, by one bucket, two, and so on
    for _ in range(min(MOST_BUCKETS, len(ends))):
        ways = cost[:, None] + positions
        begins.append(ways.argmin(axis=0))
        cost = ways.min(axis=0)
        totals.append(float(cost[-1]))
    if not np.isfinite(totals[0]):  # too few documents for any bucket to fill a step
        return (int(ends[-1]),)
    enough = (1 + WORTH_A_BUCKET) * min(totals)
    fewest = next(number for number, total in enumerate(totals) if total <= enough)
    buckets, number = [], len(ends)
    for begin in reversed(begins[: fewest + 1]):
        buckets.append(int(ends[number - 1]))
        number = int(begin[number])
    return tuple(reversed(buckets))


@dataclass(frozen=True)
class EpochSteps:
    """The steps of one epoch."""

    rows: IntArray  # (steps, documents of a step) rows of the split
    lengths: IntArray  # (steps,) to which length the documents of each step are padded


@dataclass(frozen=True)
class BatchPlan:
    """The steps of a run: a function of the documents, the seed and the size of a step alone."""

    padding: str  # one of PADDINGS
    documents: IntArray  # (documents,) the length of each
    most: int  # the data set's sequence length
    step: int  # documents of one step, of all processes together
    seed: int
    buckets: Tuple[int, ...]  # the lengths that `buckets` has, or would have, ascending

    @classmethod
    def of(
        cls, split: PreparedSplit, hyperparameters: Hyperparameters, length: RunLength, seed: int
    ) -> BatchPlan:
        """The plan of a job with that training split."""
        documents = document_lengths(split.attention_mask)
        most = split.attention_mask.shape[1]
        step = hyperparameters.batch_size * length.world_size
        return cls(
            padding=hyperparameters.padding,
            documents=documents,
            most=most,
            step=step,
            seed=seed,
            buckets=bucket_lengths(documents, step, most),
        )

    @property
    def shapes(self) -> Tuple[int, ...]:
        """The lengths that steps may have, ascending; none with `longest`, where each has its own.
        A compiler of static shapes compiles one graph for each."""
        return {"max": (self.most,), "buckets": self.buckets, "longest": ()}[self.padding]

    def epoch(self, epoch: int, padding: Optional[str] = None) -> EpochSteps:
        """The steps of an epoch, from 0; with another padding, those that it would have."""
        steps = steps_per_epoch(len(self.documents), self.step)
        order = epoch_order(len(self.documents), self.seed, epoch)[: steps * self.step]
        padding = padding or self.padding
        if padding == "buckets":
            return self._bucketed(order, epoch)
        rows = order.reshape(steps, self.step)
        if padding == "max":
            return EpochSteps(rows, np.full(steps, self.most))
        return EpochSteps(rows, self.documents[rows].max(axis=1, initial=1))

    def epochs(self, first: int, steps: int) -> Iterator[EpochSteps]:
        """The steps of the run from number `first` up to `steps`, epoch by epoch."""
        per_epoch = steps_per_epoch(len(self.documents), self.step)
        for epoch in range(first // per_epoch, -(-steps // per_epoch)):
            whole, start = self.epoch(epoch), epoch * per_epoch
            part = slice(max(first - start, 0), steps - start)
            yield EpochSteps(whole.rows[part], whole.lengths[part])

    def order_digest(self, steps: int) -> str:
        """sha256 of the rows of the run's first steps: equal digests, equal data order."""
        digest = hashlib.sha256()
        for each in self.epochs(0, steps):
            digest.update(each.rows.astype("<i8").tobytes())
        return digest.hexdigest()

    def record(self) -> PaddingRecord:
        """The lengths of the documents, and what padding costs in the first epoch."""
        width = -(-self.most // MOST_BINS)
        upto = np.minimum(np.arange(1, -(-self.most // width) + 1) * width, self.most)
        counts = np.bincount(np.searchsorted(upto, self.documents), minlength=len(upto))
        positions = {each: self.step * int(self.epoch(0, each).lengths.sum()) for each in PADDINGS}
        return PaddingRecord(
            padding=self.padding,
            lengths=self.shapes,
            bucket_lengths=self.buckets,
            tokens=int(self.documents[self.epoch(0, "max").rows].sum()),
            positions=PaddedPositions(**positions),
            histogram_upto=tuple(upto.tolist()),
            histogram_documents=tuple(counts.tolist()),
        )

    def _bucketed(self, order: IntArray, epoch: int) -> EpochSteps:
        belongs = np.searchsorted(self.buckets, self.documents[order])
        waiting, steps = order[:0], []
        for number in range(len(self.buckets)):
            # Those from a shorter bucket come first, so that they wait no longer.
            waiting = np.concatenate([waiting, order[belongs == number]])
            full = len(waiting) - len(waiting) % self.step
            steps.append(waiting[:full].reshape(-1, self.step))
            waiting = waiting[full:]
        lengths = np.repeat(self.buckets, [len(each) for each in steps])
        shuffled = np.random.default_rng([self.seed, epoch, 1]).permutation(len(lengths))
        if epoch == 0:
            shuffled = _every_length_first(shuffled, lengths)
        return EpochSteps(np.concatenate(steps)[shuffled], lengths[shuffled])


def _every_length_first(shuffled: IntArray, lengths: IntArray) -> IntArray:
    """Move `LEADING_ROUNDS` through all lengths to the front of the shuffled steps."""
    by_length = [shuffled[lengths[shuffled] == each] for each in np.unique(lengths)[::-1]]
    leading = [
        steps[number]
        for number in range(LEADING_ROUNDS)
        for steps in by_length
        if number < len(steps)
    ]
    return np.array([*leading, *shuffled[~np.isin(shuffled, leading)]], dtype=np.int64)
