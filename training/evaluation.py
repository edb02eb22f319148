"""Evaluates a model on the validation split: one program for all arms, eager and in float32."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import numpy.typing as npt
import torch

from compilegate.job import Examples
from training.data.batches import BatchSource
from training.data.prepared import PreparedSplit


@torch.no_grad()
def evaluate(model: Any, split: PreparedSplit, device: torch.device, batch_size: int) -> Examples:
    """The model's probabilities and losses for each document, computed in float64 from logits."""
    model.eval()
    logits: List[npt.NDArray[np.float32]] = []
    for batch in BatchSource(split, device).in_order(batch_size):
        output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        logits.append(output.logits.float().cpu().numpy())
    log_scores = _log_softmax(np.concatenate(logits).astype(np.float64))
    return Examples(
        ids=split.ids,
        labels=split.labels,
        scores=np.exp(log_scores),
        losses=-log_scores[np.arange(len(split.labels)), split.labels],
        slices=split.slices,
    )


def metrics(examples: Examples) -> Dict[str, float]:
    """accuracy, balanced_accuracy and macro_f1 as fractions, log_loss in nats.

    The averages over classes are over the classes that occur among the labels.
    """
    labels = examples.labels
    predictions = examples.scores.argmax(axis=1)
    recalls, f1_scores = [], []
    for label in np.unique(labels):
        hits = int(((predictions == label) & (labels == label)).sum())
        present = int((labels == label).sum())
        predicted = int((predictions == label).sum())
        recalls.append(hits / present)
        f1_scores.append(2 * hits / (present + predicted))
    return {
        "accuracy": float((predictions == labels).mean()),
        "balanced_accuracy": float(np.mean(recalls)),
        "macro_f1": float(np.mean(f1_scores)),
        "log_loss": float(examples.losses.mean()),
    }


def _log_softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result
