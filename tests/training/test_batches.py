"""Batches: one shape, an order that the seed alone decides, every document once an epoch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.data.batches import BatchSource, epoch_order, order_digest
from training.data.prepared import PreparedSplit
from training.schedule import steps_per_epoch

DOCUMENTS = 10
CPU = torch.device("cpu")


@pytest.fixture
def source() -> BatchSource:
    """Ten documents of three tokens; the label of each is its row."""
    rows = np.arange(DOCUMENTS)
    tokens = np.tile(rows[:, None], (1, 3)).astype(np.int32)
    return BatchSource(
        PreparedSplit(tokens, np.ones((DOCUMENTS, 3), np.int8), rows, rows.astype(np.str_)), CPU
    )


def labels(source: BatchSource, seed: int, epoch: int, batch_size: int) -> list[list[int]]:
    return [batch["labels"].tolist() for batch in source.training(seed, epoch, batch_size)]


@given(
    documents=st.integers(min_value=1, max_value=200),
    seed=st.integers(min_value=0, max_value=2**31 - 1),
    epoch=st.integers(min_value=0, max_value=100),
)
def test_an_epoch_visits_every_document_once(documents: int, seed: int, epoch: int) -> None:
    assert sorted(epoch_order(documents, seed, epoch)) == list(range(documents))


def test_all_batches_have_one_shape_and_the_ragged_rest_is_left_out(source: BatchSource) -> None:
    shapes = {tuple(batch["input_ids"].shape) for batch in source.training(1, 0, batch_size=4)}
    assert shapes == {(4, 3)}
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


def test_a_row_keeps_its_tokens_and_label_together(source: BatchSource) -> None:
    for batch in source.training(1, 0, batch_size=4):
        assert batch["input_ids"][:, 0].tolist() == batch["labels"].tolist()


def test_evaluation_sees_all_rows_in_order(source: BatchSource) -> None:
    seen = [batch["labels"].tolist() for batch in source.in_order(4)]
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_the_order_digest_tells_seeds_batch_sizes_and_lengths_apart() -> None:
    def digest(seed: int = 1, batch_size: int = 4, steps: int = 6) -> str:
        return order_digest(DOCUMENTS, seed, batch_size, steps)

    assert digest() == digest()
    assert len({digest(), digest(seed=2), digest(batch_size=3), digest(steps=5)}) == 4
