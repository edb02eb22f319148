"""Evaluates a model on the validation split: one program for all arms, eager and in float32."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import numpy as np
import numpy.typing as npt
import torch

from compilegate.job import IntArray, Job
from training.data.batches import Batch, BatchSource
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength


def evaluate(
    job: Job,
    model: Any,
    split: PreparedSplit,
    device: torch.device,
    hyperparameters: Hyperparameters,
) -> None:
    """Tell the job what the model makes of each document, and what that comes to."""
    logits = logits_of(
        model, split, device, hyperparameters.eval_batch_size, padding=hyperparameters.padding
    )
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
    model: Any,
    split: PreparedSplit,
    device: torch.device,
    batch_size: int,
    *,
    padding: str = "max",
) -> npt.NDArray[np.float32]:
    """(documents, classes) what the model makes of each document.

    Where training pads documents to less than full length, so does this: documents are evaluated by
    length, each batch as long as its longest, and are put back into the split's order.
    """
    model.eval()
    source = BatchSource(split, device)
    if padding == "max":
        return np.concatenate([_logits(model, each) for each in source.in_order(batch_size)])
    batches = [(rows, _logits(model, each)) for rows, each in source.by_length(batch_size)]
    logits = np.empty((len(split.labels), batches[0][1].shape[1]), dtype=np.float32)
    for rows, found in batches:
        logits[rows.cpu().numpy()] = found
    return logits


class InterimEvaluation:
    """Evaluates the weights so far every few epochs, for the log.

    It takes place between two steps, whose times it is no part of, on a copy of the model: nothing
    is compiled for it, and training goes on as if it had not been. All arms do it alike.
    """

    def __init__(
        self,
        model: Any,
        split: PreparedSplit,
        device: torch.device,
        hyperparameters: Hyperparameters,
    ) -> None:
        self._model = model
        self._split = split
        self._device = device
        self._hyperparameters = hyperparameters

    @classmethod
    def of(
        cls,
        model: Any,
        split: PreparedSplit,
        device: torch.device,
        hyperparameters: Hyperparameters,
    ) -> Optional[InterimEvaluation]:
        """None where none is asked for."""
        if not hyperparameters.evaluate_every_epochs:
            return None
        return cls(model, split, device, hyperparameters)

    def report_if_due(self, done: int, length: RunLength, average: Sequence[torch.Tensor]) -> None:
        """Print the scores after `done` steps, at the end of every so many epochs but the last:
        what was trained to the end is evaluated as it will be released. `average` is the weights'
        moving average, parameter by parameter; empty where there is none."""
        interval = self._hyperparameters.evaluate_every_epochs * length.steps_per_epoch
        if done % interval or done == length.steps:
            return
        scored = self._copy(average).to(self._device)
        logits = logits_of(
            scored,
            self._split,
            self._device,
            self._hyperparameters.eval_batch_size,
            padding=self._hyperparameters.padding,
        ).astype(np.float64)
        labels = self._split.labels
        largest = logits.max(axis=1)
        normaliser = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))
        losses = normaliser - logits[np.arange(len(labels)), labels]
        print(
            f"step={done}/{length.steps} epoch={done // length.steps_per_epoch} "
            f"validation:accuracy={(logits.argmax(axis=1) == labels).mean():.6f} "
            f"validation:log_loss={losses.mean():.6f}",
            flush=True,
        )

    @torch.no_grad()
    def _copy(self, average: Sequence[torch.Tensor]) -> Any:
        """A model of its own on the host, with the weights to be evaluated."""
        with torch.random.fork_rng(
            devices=[]
        ):  # its initial weights draw no numbers of the training's
            copy = type(self._model)(self._model.config)
        own = copy.state_dict()
        own.update({name: each.cpu() for name, each in self._model.state_dict().items()})
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
        present = int((labels == label).sum())
        predicted = int((predictions == label).sum())
        recalls.append(hits / present)
        f1_scores.append(2 * hits / (present + predicted))
    return {
        "balanced_accuracy": float(np.mean(recalls)),
        "macro_f1": float(np.mean(f1_scores)),
    }


def _logits(model: Any, batch: Batch) -> npt.NDArray[np.float32]:
    output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    found: npt.NDArray[np.float32] = output.logits.float().cpu().numpy()
    return found
