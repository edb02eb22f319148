"""The evaluation: probabilities, losses and metrics from logits."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from compilegate.job import examples_of
from compilegate.job.evidence import Examples
from training.data.prepared import PreparedSplit
from training.evaluation import averages, logits_of


class TokensAsLogits(torch.nn.Module):
    """A model whose logits are its input tokens."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=input_ids.float())


def evaluated(logits: list[list[int]], labels: list[int], batch_size: int = 2) -> Examples:
    tokens = np.array(logits, dtype=np.int32)
    split = PreparedSplit(
        tokens,
        np.ones_like(tokens, dtype=np.int8),
        np.array(labels, dtype=np.int64),
        np.array([f"id-{row}" for row in range(len(labels))]),
    )
    found = logits_of(TokensAsLogits(), split, torch.device("cpu"), batch_size)
    return examples_of(ids=split.ids, labels=split.labels, logits=found)


def averaged(examples: Examples) -> dict[str, float]:
    return averages(examples.labels, examples.scores.argmax(axis=1))


def test_scores_are_the_softmax_and_losses_its_negative_logarithm() -> None:
    examples = evaluated([[1, 0], [0, 0], [0, 3]], [0, 1, 1])
    assert examples.scores[0] == pytest.approx([math.e / (1 + math.e), 1 / (1 + math.e)])
    assert examples.losses[1] == pytest.approx(math.log(2))
    assert examples.losses == pytest.approx(-np.log(examples.scores[range(3), [0, 1, 1]]))
    assert examples.ids.tolist() == ["id-0", "id-1", "id-2"]


def test_a_hopeless_example_has_a_large_but_finite_loss() -> None:
    examples = evaluated([[2000, 0]], [1])
    assert examples.losses[0] == pytest.approx(2000)


def test_the_batch_size_changes_nothing() -> None:
    logits, labels = [[3, 1, 0], [0, 2, 1], [1, 1, 1], [0, 0, 5], [2, 2, 0]], [0, 1, 2, 2, 1]
    small, large = evaluated(logits, labels, 2), evaluated(logits, labels, 5)
    np.testing.assert_array_equal(small.scores, large.scores)


def test_metrics_of_a_counted_example() -> None:
    # True 0, 0, 0, 1; predicted 0, 0, 1, 1.
    result = averaged(evaluated([[1, 0], [1, 0], [0, 1], [0, 1]], [0, 0, 0, 1]))
    assert result["balanced_accuracy"] == pytest.approx((2 / 3 + 1) / 2)
    assert result["macro_f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)


def test_a_class_without_examples_does_not_enter_the_averages() -> None:
    result = averaged(evaluated([[1, 0, 0], [0, 1, 0]], [0, 1]))
    assert result["balanced_accuracy"] == 1
    assert result["macro_f1"] == 1


class TokenSumsAsLogits(torch.nn.Module):
    """A model whose logits are the sums of a document's even and odd tokens; it notes shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, ...]] = []

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        self.seen.append(tuple(input_ids.shape))
        tokens = (input_ids * attention_mask).float()
        odd = (input_ids % 2).float()
        return SimpleNamespace(
            logits=torch.stack([(tokens * (1 - odd)).sum(1), (tokens * odd).sum(1)], 1)
        )


@pytest.mark.parametrize("padding", ["buckets", "longest"])
def test_shorter_padding_gives_every_document_the_scores_of_full_length(padding: str) -> None:
    draw = np.random.default_rng(1)
    lengths = draw.integers(1, 33, 41)
    mask = (np.arange(32)[None, :] < lengths[:, None]).astype(np.int8)
    tokens = (mask * draw.integers(1, 5, mask.shape)).astype(np.int32)
    split = PreparedSplit(tokens, mask, draw.integers(0, 2, 41), np.arange(41).astype(np.str_))
    model = TokenSumsAsLogits()
    whole, short = (
        logits_of(model, split, torch.device("cpu"), 8, padding=each) for each in ("max", padding)
    )
    np.testing.assert_array_equal(short, whole)
    assert {width for _, width in model.seen[:6]} == {32}
    assert [width for _, width in model.seen[6:]] == [
        max(np.sort(lengths)[first : first + 8]) for first in range(0, 41, 8)
    ]
