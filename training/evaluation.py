"""Evaluates a model on the validation split: one program for all arms, eager and in float32."""

from __future__ import annotations

from typing import Any, Dict, Sequence

import numpy as np
import numpy.typing as npt
import torch

from compilegate.job import IntArray, Job, examples_of
from training.data.batches import BatchSource
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters


def evaluate(
    job: Job,
    model: Any,
    split: PreparedSplit,
    device: torch.device,
    hyperparameters: Hyperparameters,
) -> None:
    """Give the job the model's logits for each document, and the metrics that average classes."""
    logits = logits_of(model, split, device, hyperparameters)
    job.examples(
        ids=split.ids,
        labels=split.labels,
        logits=logits,
        slices=split.slices,
        inputs=split.input_ids,
    )
    job.metrics(**averages(split.labels, logits.argmax(axis=1)))


@torch.no_grad()
def logits_of(
    model: Any, split: PreparedSplit, device: torch.device, hyperparameters: Hyperparameters
) -> npt.NDArray[np.float32]:
    """The model's logits, (documents, classes), in the order of the split.

    Where training pads documents to less than full length, so does this: documents are evaluated by
    length, and each batch is as long as its longest document.
    """
    model.eval()
    batches = BatchSource(split, device).evaluation(
        hyperparameters.eval_batch_size, by_length=hyperparameters.padding != "max"
    )
    order, logits = [], []
    for rows, batch in batches:
        output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        order.append(rows)
        logits.append(output.logits.float().cpu().numpy())
    return np.concatenate(logits)[np.argsort(np.concatenate(order))]


def scores(
    model: Any,
    average: Sequence[torch.Tensor],
    split: PreparedSplit,
    device: torch.device,
    hyperparameters: Hyperparameters,
) -> str:
    """Accuracy and log loss of the weights so far, as a line of the log has them.

    `average` is the weights' moving average, parameter by parameter; empty without averaging. A
    copy of the model is evaluated: nothing is compiled for it, and training goes on as without it.
    """
    copy = _copy(model, average).to(device)
    logits = logits_of(copy, split, device, hyperparameters)
    examples = examples_of(ids=split.ids, labels=split.labels, logits=logits)
    accuracy = (logits.argmax(axis=1) == split.labels).mean()
    return f"validation:accuracy={accuracy:.6f} validation:log_loss={examples.losses.mean():.6f}"


@torch.no_grad()
def _copy(model: Any, average: Sequence[torch.Tensor]) -> Any:
    """A model of its own on the host, with the weights to be evaluated."""
    with torch.random.fork_rng(devices=[]):  # its initial weights draw no numbers of the training's
        copy = type(model)(model.config)
    own = copy.state_dict()
    own.update({name: each.cpu() for name, each in model.state_dict().items()})
    copy.load_state_dict(own)
    for parameter, averaged in zip(copy.parameters(), average):
        parameter.copy_(averaged.cpu())
    return copy.float()


def averages(labels: IntArray, predictions: IntArray) -> Dict[str, float]:
    """balanced_accuracy and macro_f1 as fractions: means over the classes that occur among the
    labels."""
    recalls, f1_scores = [], []
    for label in np.unique(labels):
        hits = int(((predictions == label) & (labels == label)).sum())
        present, predicted = int((labels == label).sum()), int((predictions == label).sum())
        recalls.append(hits / present)
        f1_scores.append(2 * hits / (present + predicted))
    return {"balanced_accuracy": float(np.mean(recalls)), "macro_f1": float(np.mean(f1_scores))}
