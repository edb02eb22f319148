"""The evaluation: probabilities, losses and metrics from logits."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from compilegate.job.evidence import Examples
from training.data.prepared import PreparedSplit
from training.evaluation import evaluate, metrics


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
    return evaluate(TokensAsLogits(), split, torch.device("cpu"), batch_size)


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
    result = metrics(evaluated([[1, 0], [1, 0], [0, 1], [0, 1]], [0, 0, 0, 1]))
    assert result["accuracy"] == 0.75
    assert result["balanced_accuracy"] == pytest.approx((2 / 3 + 1) / 2)
    assert result["macro_f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    right, wrong = math.log(1 + math.exp(-1)), math.log(1 + math.e)
    assert result["log_loss"] == pytest.approx((3 * right + wrong) / 4)


def test_a_class_without_examples_does_not_enter_the_averages() -> None:
    result = metrics(evaluated([[1, 0, 0], [0, 1, 0]], [0, 1]))
    assert result["balanced_accuracy"] == 1
    assert result["macro_f1"] == 1
