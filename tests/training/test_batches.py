"""The plan of a run's steps and its batches: laws for any documents, seed and size of a step."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.evidence import padding_problems
from compilegate.job.contract import MOST_BUCKETS
from training.data.batches import Batch, BatchSource
from training.data.padding import (
    LEADING_ROUNDS,
    MOST_BINS,
    MULTIPLE,
    WORTH_A_BUCKET,
    BatchPlan,
    bucket_lengths,
    document_lengths,
    epoch_order,
)
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import run_length, steps_per_epoch

MOST = 100
"""The sequence length of the generated data sets: no multiple of anything."""
LENGTHS = st.lists(st.integers(min_value=1, max_value=MOST), min_size=1, max_size=120)
SEEDS = st.integers(min_value=0, max_value=2**31 - 1)
PADDINGS = st.sampled_from(["max", "buckets", "longest"])


def split_of(lengths: list[int], most: int) -> PreparedSplit:
    """Each document's tokens are its row number and one, its label is its row."""
    rows = np.arange(len(lengths))
    mask = (np.arange(most)[None, :] < np.array(lengths)[:, None]).astype(np.int8)
    tokens = mask.astype(np.int32) * (rows[:, None] + 1).astype(np.int32)
    return PreparedSplit(tokens, mask, rows, rows.astype(np.str_))


def plan_of(
    lengths: list[int],
    batch_size: int,
    seed: int = 1,
    padding: str = "buckets",
    *,
    most: int = MOST,
    processes: int = 1,
) -> BatchPlan:
    recipe = Hyperparameters(batch_size=min(batch_size, len(lengths)), padding=padding)
    length = run_length(recipe, len(lengths), processes)
    return BatchPlan.of(split_of(lengths, most), recipe, length, seed)


@pytest.mark.slow
@given(
    lengths=LENGTHS,
    batch_size=st.integers(min_value=1, max_value=12),
    seed=SEEDS,
    padding=PADDINGS,
    epoch=st.integers(min_value=0, max_value=3),
)
def test_an_epoch_takes_the_same_documents_once_and_cuts_none(
    lengths: list[int], batch_size: int, seed: int, padding: str, epoch: int
) -> None:
    plan = plan_of(lengths, batch_size, seed, padding)
    steps, taken = steps_per_epoch(len(lengths), plan.step), plan.epoch(epoch)
    order = epoch_order(len(lengths), seed, epoch)
    assert sorted(order) == list(range(len(lengths)))
    assert taken.rows.shape == (steps, plan.step)
    assert sorted(taken.rows.flatten()) == sorted(order[: steps * plan.step])
    if padding != "buckets":
        assert taken.rows.flatten().tolist() == order[: steps * plan.step].tolist()
    longest = np.array(lengths)[taken.rows].max(axis=1)
    assert (taken.lengths >= longest).all()
    assert taken.lengths.max() <= MOST
    if padding == "longest":
        assert taken.lengths.tolist() == longest.tolist()
    else:  # each of them: a compiler finds all of its shapes in any epoch
        assert sorted(set(taken.lengths.tolist())) == list(plan.shapes)
    record = plan.record()
    assert list(padding_problems(record)) == []
    assert sum(record.histogram_documents) == len(lengths)
    assert (len(record.histogram_upto) <= MOST_BINS, record.histogram_upto[-1]) == (True, MOST)
    short = np.array(lengths) <= record.histogram_upto[0]
    assert record.histogram_documents[0] == short.sum()


@pytest.mark.slow
@given(lengths=LENGTHS, batch_size=st.integers(min_value=1, max_value=8), seed=SEEDS)
def test_a_run_begins_with_every_length_the_longest_first(
    lengths: list[int], batch_size: int, seed: int
) -> None:
    plan = plan_of(lengths, batch_size, seed)
    first = plan.epoch(0).lengths.tolist()
    descending = sorted(plan.shapes, reverse=True)
    assert first[: len(descending)] == descending
    if all(first.count(each) >= LEADING_ROUNDS for each in descending):
        assert first[: LEADING_ROUNDS * len(descending)] == descending * LEADING_ROUNDS


def test_bucket_steps_are_shuffled_and_differ_by_epoch_and_seed() -> None:
    lengths = [8, 16, 24, 32] * 60
    plan = plan_of(lengths, 6)
    after = plan.epoch(0).lengths[2 * len(plan.shapes) :].tolist()
    assert plan.shapes == (8, 16, 24, 32)
    assert after not in (sorted(after), sorted(after, reverse=True))
    orders = [plan.epoch(0), plan.epoch(1), plan_of(lengths, 6, seed=2).epoch(0)]
    assert len({each.rows.tobytes() for each in orders}) == 3


def test_the_digest_separates_seeds_sizes_of_steps_orders_and_lengths_of_runs() -> None:
    def digest(batch: int = 4, seed: int = 1, padding: str = "max", steps: int = 30) -> str:
        return plan_of([8, 16, 24, 32] * 20, batch, seed, padding).order_digest(steps)

    others = {digest(seed=2), digest(batch=3), digest(steps=29), digest(padding="buckets")}
    assert len({digest(), *others}) == 5
    assert digest() == digest(padding="longest")  # the same batches, cut shorter


@pytest.mark.slow
@given(
    lengths=st.lists(st.integers(min_value=1, max_value=MOST), min_size=1, max_size=40),
    step=st.integers(min_value=1, max_value=6),
)
def test_no_other_buckets_take_fewer_positions_and_there_are_as_few_as_needed(
    lengths: list[int], step: int
) -> None:
    documents = np.array(lengths)
    ends = sorted({min(-(-each // MULTIPLE) * MULTIPLE, MOST) for each in lengths})

    def positions(choice: tuple[int, ...]) -> int:
        return int(np.take(choice, np.searchsorted(choice, documents)).sum())

    def is_allowed(choice: tuple[int, ...]) -> bool:
        held = np.bincount(np.searchsorted(choice, documents), minlength=len(choice))
        return len(choice) == 1 or bool(held.min() >= 2 * step - 1)

    best = [
        min(map(positions, filter(is_allowed, choices)), default=np.inf)
        for number in range(min(MOST_BUCKETS, len(ends)))
        for choices in [[(*rest, ends[-1]) for rest in combinations(ends[:-1], number)]]
    ]
    found = bucket_lengths(documents, step, MOST)
    assert is_allowed(found)
    assert positions(found) == best[len(found) - 1] <= (1 + WORTH_A_BUCKET) * min(best)
    assert all(each > (1 + WORTH_A_BUCKET) * min(best) for each in best[: len(found) - 1])


@pytest.mark.parametrize(
    ("lengths", "step", "buckets"),
    [
        ([64] * 1000 + [56] * 40, 8, (64,)),  # a second one would save hardly anything
        ([64] * 500 + [8] * 500, 8, (8, 64)),
        ([8] * 14 + [64] * 86, 8, (64,)),  # fills no step
        ([8] * 15 + [64] * 85, 8, (8, 64)),
    ],
)
def test_a_bucket_has_to_be_worth_its_graph(
    lengths: list[int], step: int, buckets: tuple[int, ...]
) -> None:
    assert bucket_lengths(np.array(lengths), step, 64) == buckets


def test_the_record_counts_positions_and_tokens_of_an_epoch() -> None:
    record = plan_of([8] * 8 + [32] * 8, 4, most=64).record()
    assert (record.padding, record.lengths, record.bucket_lengths) == ("buckets", (8, 32), (8, 32))
    assert record.tokens == record.positions.buckets == record.computed == 8 * 8 + 8 * 32
    assert (record.positions.max, record.share) == (16 * 64, 0)
    whole = plan_of([8] * 8 + [32] * 8, 4, padding="max", most=64).record()
    assert whole.lengths == (64,)
    assert whole.share == whole.saved_by_buckets == pytest.approx(1 - 320 / 1024)


def test_lengths_end_at_the_last_token_even_where_the_mask_has_holes() -> None:
    mask = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=np.int8)
    assert document_lengths(mask).tolist() == [2, 3, 4, 1]


TEN = [1, 2, 2, 3, 4, 9, 9, 10, 16, 16]
"""Lengths of ten documents; the longest fill the data set's sequence length."""


@pytest.fixture
def source() -> BatchSource:
    return BatchSource(split_of(TEN, 16), torch.device("cpu"))


def rows_of(batch: Batch) -> list[int]:
    rows: list[int] = batch["labels"].tolist()
    return rows


@pytest.mark.parametrize("padding", ["max", "buckets", "longest"])
def test_batches_are_the_plan_s_with_all_their_tokens(source: BatchSource, padding: str) -> None:
    plan = plan_of(TEN, 3, padding=padding, most=16)
    torch.manual_seed(5)  # torch's generator decides nothing
    batches = list(source.training(plan, 0, 3))
    assert [rows_of(batch) for batch in batches] == plan.epoch(0).rows.tolist()
    for batch, length in zip(batches, plan.epoch(0).lengths.tolist(), strict=True):
        assert batch["input_ids"].shape == batch["attention_mask"].shape == (3, length)
        assert batch["attention_mask"].sum(dim=1).tolist() == [TEN[row] for row in rows_of(batch)]
        tokens = (batch["labels"] + 1)[:, None] * batch["attention_mask"]
        assert torch.equal(batch["input_ids"], tokens)


def test_processes_share_a_step_of_one_length(source: BatchSource) -> None:
    plan = plan_of(TEN, 1, most=16, processes=2)
    shares = [list(source.training(plan, 0, 5, rank=rank, processes=2)) for rank in (0, 1)]
    pairs = list(zip(*shares, strict=True))
    together = [rows_of(one) + rows_of(other) for one, other in pairs]
    assert together == plan.epoch(0).rows.tolist()
    assert all(one["input_ids"].shape == other["input_ids"].shape for one, other in pairs)


def test_a_resumed_run_takes_the_steps_that_it_would_have_taken(source: BatchSource) -> None:
    plan = plan_of(TEN, 2, most=16)
    whole, later = (
        [rows_of(each) for each in source.training(plan, first, 13)] for first in (0, 7)
    )
    assert (len(whole), later) == (13, whole[7:])
    assert whole[5:10] == plan.epoch(1).rows.tolist()


@pytest.mark.parametrize(
    ("by_length", "shapes"),
    [(False, [(4, 16), (4, 16), (2, 16)]), (True, [(4, 3), (4, 10), (2, 16)])],
)
def test_evaluation_sees_each_row_once_with_its_number(
    source: BatchSource, by_length: bool, shapes: list[tuple[int, int]]
) -> None:
    seen = list(source.evaluation(4, by_length=by_length))
    assert [rows_of(batch) for _, batch in seen] == [rows.tolist() for rows, _ in seen]
    assert sorted(row for rows, _ in seen for row in rows.tolist()) == list(range(len(TEN)))
    assert [tuple(batch["input_ids"].shape) for _, batch in seen] == shapes
