"""The evaluation: every document's logits, however they are batched, and the metrics of classes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from training.data.prepared import PreparedSplit
from training.evaluation import averages, logits_of
from training.hyperparameters import Hyperparameters


class TokenSums(torch.nn.Module):
    """A model whose logits are the sums of a document's even and odd tokens; it notes lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        self.lengths.append(input_ids.shape[1])
        tokens = (input_ids * attention_mask).float()
        odd = (input_ids % 2).float()
        return SimpleNamespace(
            logits=torch.stack([(tokens * (1 - odd)).sum(1), (tokens * odd).sum(1)], 1)
        )


@pytest.mark.parametrize("padding", ["max", "buckets", "longest"])
@pytest.mark.parametrize("batch_size", [8, 41])
def test_every_document_has_its_logits_in_the_split_s_order(padding: str, batch_size: int) -> None:
    draw = np.random.default_rng(1)
    lengths = draw.integers(1, 33, 41)
    mask = (np.arange(32)[None, :] < lengths[:, None]).astype(np.int8)
    tokens = (mask * draw.integers(1, 5, mask.shape)).astype(np.int32)
    split = PreparedSplit(tokens, mask, draw.integers(0, 2, 41), np.arange(41).astype(np.str_))
    model, recipe = TokenSums(), Hyperparameters(eval_batch_size=batch_size, padding=padding)
    found = logits_of(model, split, torch.device("cpu"), recipe)
    odd = tokens % 2
    expected = np.stack([(tokens * (1 - odd)).sum(1), (tokens * odd).sum(1)], 1)
    np.testing.assert_array_equal(found, expected)
    firsts = range(0, 41, batch_size)
    longest = [max(np.sort(lengths)[first : first + batch_size]) for first in firsts]
    assert model.lengths == ([32] * len(firsts) if padding == "max" else longest)


@pytest.mark.parametrize(
    ("labels", "predictions", "recall", "f1"),
    [
        ([0, 0, 0, 1], [0, 0, 1, 1], (2 / 3 + 1) / 2, (4 / 5 + 2 / 3) / 2),
        ([0, 2], [0, 2], 1, 1),  # a class without examples does not enter
    ],
)
def test_metrics_of_counted_examples(
    labels: list[int], predictions: list[int], recall: float, f1: float
) -> None:
    found = averages(np.array(labels), np.array(predictions))
    assert found == pytest.approx({"balanced_accuracy": recall, "macro_f1": f1})
