"""The plan of a run's steps: laws that hold for any documents, seed and size of a step."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.evidence import padding_problems
from compilegate.job.names import MOST_BUCKETS
from training.data.padding import (
    LEADING_ROUNDS,
    MOST_BINS,
    MULTIPLE,
    BatchPlan,
    bucket_lengths,
    document_lengths,
    epoch_order,
    fewest_positions,
)
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import run_length, steps_per_epoch

MOST = 100
"""The sequence length of these data sets: no multiple of anything."""
LENGTHS = st.lists(st.integers(min_value=1, max_value=MOST), min_size=1, max_size=120)
SEEDS = st.integers(min_value=0, max_value=2**31 - 1)
PADDINGS = st.sampled_from(["max", "buckets", "longest"])


def split_of(lengths: list[int], most: int = MOST) -> PreparedSplit:
    mask = (np.arange(most)[None, :] < np.array(lengths)[:, None]).astype(np.int8)
    rows = np.arange(len(lengths))
    return PreparedSplit(mask.astype(np.int32), mask, rows, rows.astype(np.str_))


def plan_of(
    lengths: list[int], batch_size: int, seed: int = 1, padding: str = "buckets", most: int = MOST
) -> BatchPlan:
    told = Hyperparameters(batch_size=min(batch_size, len(lengths)), padding=padding)
    return BatchPlan.of(split_of(lengths, most), told, run_length(told, len(lengths)), seed)


@given(
    documents=st.integers(min_value=1, max_value=200),
    seed=SEEDS,
    epoch=st.integers(min_value=0, max_value=100),
)
def test_the_order_visits_every_document_once(documents: int, seed: int, epoch: int) -> None:
    assert sorted(epoch_order(documents, seed, epoch)) == list(range(documents))


@pytest.mark.slow
@given(
    lengths=LENGTHS,
    batch_size=st.integers(min_value=1, max_value=12),
    seed=SEEDS,
    padding=PADDINGS,
    epoch=st.integers(min_value=0, max_value=3),
)
def test_an_epoch_takes_the_same_documents_once_however_they_are_padded(
    lengths: list[int], batch_size: int, seed: int, padding: str, epoch: int
) -> None:
    plan = plan_of(lengths, batch_size, seed, padding)
    taken = plan.epoch(epoch)
    steps = steps_per_epoch(len(lengths), plan.step)
    assert taken.rows.shape == (steps, plan.step)
    wanted = epoch_order(len(lengths), seed, epoch)[: steps * plan.step]
    assert sorted(taken.rows.flatten()) == sorted(wanted)


@pytest.mark.slow
@given(
    lengths=LENGTHS,
    batch_size=st.integers(min_value=1, max_value=12),
    seed=SEEDS,
    padding=PADDINGS,
    epoch=st.integers(min_value=0, max_value=3),
)
def test_no_document_is_cut_and_steps_have_declared_lengths(
    lengths: list[int], batch_size: int, seed: int, padding: str, epoch: int
) -> None:
    plan = plan_of(lengths, batch_size, seed, padding)
    taken = plan.epoch(epoch)
    longest = np.array(lengths)[taken.rows].max(axis=1)
    assert (taken.lengths >= longest).all()
    assert taken.lengths.max() <= MOST
    if padding == "longest":
        assert taken.lengths.tolist() == longest.tolist()
    else:
        # Each of them: a compiler finds all of its shapes in any epoch.
        assert sorted(set(taken.lengths.tolist())) == list(plan.shapes)


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


@pytest.mark.slow
@given(lengths=LENGTHS, seed=SEEDS, padding=PADDINGS)
def test_the_plan_is_a_function_of_the_documents_and_the_seed(
    lengths: list[int], seed: int, padding: str
) -> None:
    one, other = (plan_of(lengths, 4, seed, padding) for _ in range(2))
    steps = 2 * steps_per_epoch(len(lengths), one.step)
    assert one.order_digest(steps) == other.order_digest(steps)
    assert one.lengths_of(steps) == other.lengths_of(steps)
    assert len(one.lengths_of(steps)) == steps


def test_bucket_steps_are_shuffled_and_differ_by_epoch_and_seed() -> None:
    lengths = [8, 16, 24, 32] * 60
    plan = plan_of(lengths, 6)
    after = plan.epoch(0).lengths[2 * len(plan.shapes) :].tolist()
    assert plan.shapes == (8, 16, 24, 32)
    assert after not in (sorted(after), sorted(after, reverse=True))
    assert plan.epoch(1).rows.tolist() != plan.epoch(0).rows.tolist()
    assert plan_of(lengths, 6, seed=2).epoch(0).rows.tolist() != plan.epoch(0).rows.tolist()


def test_the_digest_tells_seeds_sizes_of_steps_orders_and_lengths_of_runs_apart() -> None:
    lengths = [8, 16, 24, 32] * 20

    def digest(batch: int = 4, seed: int = 1, padding: str = "max", steps: int = 30) -> str:
        return plan_of(lengths, batch, seed, padding).order_digest(steps)

    others = {digest(seed=2), digest(batch=3), digest(steps=29), digest(padding="buckets")}
    assert len({digest(), *others}) == 5
    assert digest() == digest(padding="longest")  # the same batches, cut shorter


@pytest.mark.slow
@given(
    lengths=st.lists(st.integers(min_value=1, max_value=MOST), min_size=1, max_size=40),
    buckets=st.integers(min_value=1, max_value=4),
    at_least=st.integers(min_value=1, max_value=12),
)
def test_no_other_bucket_lengths_take_fewer_positions(
    lengths: list[int], buckets: int, at_least: int
) -> None:
    documents = np.array(lengths)
    found = fewest_positions(documents, buckets=buckets, at_least=at_least, most=MOST)
    ends = sorted({min(-(-each // MULTIPLE) * MULTIPLE, MOST) for each in lengths})

    def positions(choice: tuple[int, ...]) -> int:
        return int(np.take(choice, np.searchsorted(choice, documents)).sum())

    def is_allowed(choice: tuple[int, ...]) -> bool:
        held = np.bincount(np.searchsorted(choice, documents), minlength=len(choice))
        return len(choice) == 1 or bool(held.min() >= at_least)

    choices = [
        (*rest, ends[-1])
        for number in range(min(buckets, len(ends)))
        for rest in combinations(ends[:-1], number)
    ]
    assert found in choices
    assert is_allowed(found)
    assert positions(found) == min(positions(each) for each in choices if is_allowed(each))


@pytest.mark.slow
@given(lengths=LENGTHS, step=st.integers(min_value=1, max_value=12))
def test_there_are_a_few_buckets_that_hold_every_document(lengths: list[int], step: int) -> None:
    found = bucket_lengths(np.array(lengths), step, MOST)
    assert 1 <= len(found) <= MOST_BUCKETS
    assert list(found) == sorted(set(found))
    assert max(lengths) <= found[-1] <= MOST
    assert all(each % MULTIPLE == 0 or each == MOST for each in found)


def test_a_bucket_that_hardly_saves_anything_is_not_worth_its_graph() -> None:
    assert bucket_lengths(np.array([64] * 1000), 8, 64) == (64,)
    assert bucket_lengths(np.array([64] * 1000 + [56] * 40), 8, 64) == (64,)
    assert bucket_lengths(np.array([64] * 500 + [8] * 500), 8, 64) == (8, 64)


def test_a_length_that_fills_no_step_has_no_bucket() -> None:
    assert bucket_lengths(np.array([8] * 14 + [64] * 86), 8, 64) == (64,)
    assert bucket_lengths(np.array([8] * 15 + [64] * 85), 8, 64) == (8, 64)


def test_lengths_end_at_the_last_token_even_where_the_mask_has_holes() -> None:
    mask = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=np.int8)
    assert document_lengths(mask).tolist() == [2, 3, 4, 1]


def test_the_record_counts_positions_and_tokens_of_an_epoch() -> None:
    record = plan_of([8] * 8 + [32] * 8, 4, most=64).record()
    assert (record.padding, record.lengths, record.bucket_lengths) == ("buckets", (8, 32), (8, 32))
    assert record.tokens == record.positions.buckets == record.computed == 8 * 8 + 8 * 32
    assert record.positions.max == 16 * 64
    assert record.share == 0
    whole = plan_of([8] * 8 + [32] * 8, 4, padding="max", most=64).record()
    assert whole.lengths == (64,)
    assert whole.share == pytest.approx(1 - 320 / 1024)
    assert whole.saved_by_buckets == pytest.approx(1 - 320 / 1024)


@pytest.mark.slow
@given(lengths=LENGTHS, padding=PADDINGS, batch_size=st.integers(min_value=1, max_value=8))
def test_every_record_is_one_that_a_reader_takes(
    lengths: list[int], padding: str, batch_size: int
) -> None:
    record = plan_of(lengths, batch_size, padding=padding).record()
    assert list(padding_problems(record)) == []
    assert sum(record.histogram_documents) == len(lengths)
    assert len(record.histogram_upto) <= MOST_BINS
    assert record.histogram_upto[-1] == MOST
    short = np.array(lengths) <= record.histogram_upto[0]
    assert record.histogram_documents[0] == short.sum()
