"""Batches: the documents of a step, padded as the plan says; every document once an epoch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from training.data.batches import BatchSource, batches_of_run
from training.data.padding import BatchPlan
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import run_length, steps_per_epoch

CPU = torch.device("cpu")
LENGTHS = [1, 2, 2, 3, 4, 9, 9, 10, 16, 16]
"""Of ten documents; the longest fill the data set's sequence length."""
DOCUMENTS, MOST = len(LENGTHS), max(LENGTHS)


@pytest.fixture
def source() -> BatchSource:
    """Each document's tokens are its row number and one, its label is its row."""
    rows = np.arange(DOCUMENTS)
    mask = (np.arange(MOST)[None, :] < np.array(LENGTHS)[:, None]).astype(np.int8)
    tokens = mask.astype(np.int32) * (rows[:, None] + 1).astype(np.int32)
    return BatchSource(PreparedSplit(tokens, mask, rows, rows.astype(np.str_)), CPU)


def plan_of(
    source: BatchSource, batch_size: int, seed: int = 1, padding: str = "max", processes: int = 1
) -> BatchPlan:
    told = Hyperparameters(batch_size=batch_size, padding=padding)
    length = run_length(told, DOCUMENTS, processes)
    return BatchPlan.of(source.split, told, length, seed)


def labels(source: BatchSource, seed: int, epoch: int, batch_size: int) -> list[list[int]]:
    plan = plan_of(source, batch_size, seed)
    return [batch["labels"].tolist() for batch in source.training(plan, epoch)]


def test_all_batches_have_one_shape_and_the_ragged_rest_is_left_out(source: BatchSource) -> None:
    batches = source.training(plan_of(source, 4), 0)
    assert {tuple(batch["input_ids"].shape) for batch in batches} == {(4, MOST)}
    assert len(labels(source, 1, 0, batch_size=4)) == steps_per_epoch(DOCUMENTS, 4) == 2


def test_the_order_is_the_seeds_whatever_torch_drew_before(source: BatchSource) -> None:
    torch.manual_seed(5)
    first = labels(source, 1, 0, batch_size=5)
    torch.rand(100)
    assert labels(source, 1, 0, batch_size=5) == first
    assert labels(source, 2, 0, batch_size=5) != first
    assert labels(source, 1, 1, batch_size=5) != first


def test_another_batch_size_cuts_the_same_order(source: BatchSource) -> None:
    small = np.concatenate(labels(source, 1, 0, batch_size=2))
    large = np.concatenate(labels(source, 1, 0, batch_size=5))
    assert small.tolist() == large.tolist()


@pytest.mark.parametrize("padding", ["max", "buckets", "longest"])
def test_a_row_keeps_all_its_tokens_and_its_label(source: BatchSource, padding: str) -> None:
    for batch in source.training(plan_of(source, 2, padding=padding), 0):
        assert batch["attention_mask"].sum(dim=1).tolist() == [
            LENGTHS[row] for row in batch["labels"].tolist()
        ]
        tokens = (batch["labels"] + 1)[:, None] * batch["attention_mask"]
        assert torch.equal(batch["input_ids"], tokens)


def test_longest_has_the_order_of_max_and_pads_to_the_longest(source: BatchSource) -> None:
    whole = source.training(plan_of(source, 3), 0)
    short = source.training(plan_of(source, 3, padding="longest"), 0)
    for full, cut in zip(whole, short, strict=True):
        assert torch.equal(full["labels"], cut["labels"])
        longest = max(LENGTHS[row] for row in cut["labels"].tolist())
        assert cut["input_ids"].shape == (3, longest)
        assert torch.equal(full["input_ids"][:, :longest], cut["input_ids"])


def test_processes_share_a_step_of_one_length(source: BatchSource) -> None:
    plan = plan_of(source, 1, padding="buckets", processes=2)
    shares = [list(source.training(plan, 0, share=(rank, 2))) for rank in (0, 1)]
    together = [
        sorted(one["labels"].tolist() + other["labels"].tolist())
        for one, other in zip(*shares, strict=True)
    ]
    assert together == [sorted(rows.tolist()) for rows in plan.epoch(0).rows]
    for one, other in zip(*shares, strict=True):
        assert one["input_ids"].shape == other["input_ids"].shape


def test_a_run_that_goes_on_takes_the_steps_that_it_would_have_taken(source: BatchSource) -> None:
    told = Hyperparameters(batch_size=2, padding="buckets", epochs=3, max_steps=13)
    length = run_length(told, DOCUMENTS)
    taken = [each["labels"].tolist() for each in batches_of_run(source, told, length, 1)]
    later = [each["labels"].tolist() for each in batches_of_run(source, told, length, 1, first=7)]
    assert len(taken) == 13
    assert later == taken[7:]


def test_evaluation_sees_all_rows_in_order(source: BatchSource) -> None:
    seen = [batch["labels"].tolist() for batch in source.in_order(4)]
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_evaluation_by_length_names_the_rows_and_pads_to_the_longest(source: BatchSource) -> None:
    seen = list(source.by_length(4))
    assert [batch["labels"].tolist() for _, batch in seen] == [rows.tolist() for rows, _ in seen]
    assert sorted(row for rows, _ in seen for row in rows.tolist()) == list(range(DOCUMENTS))
    assert [batch["input_ids"].shape for _, batch in seen] == [(4, 3), (4, 10), (2, 16)]
