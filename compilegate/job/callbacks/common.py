"""What all callbacks need: whether the framework trains as the arm declares; and what a Hugging
Face model makes of a batch, example by example."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional

import torch
from torch.nn.functional import cross_entropy

from compilegate.job.errors import InputError
from compilegate.job.script import Job


def require_agreement(job: Job, name: str, value: Any, called: str, remedy: str) -> None:
    """Raises InputError where a setting of the framework is not the arm's: evidence of an arm that
    was not trained as declared would be worse than none.

    `name` is the setting's, `value` the framework's, None where it is not known; `called` is what
    the framework calls it, and `remedy` how the script takes it from the job.
    """
    if name in ("precision", "seed") and job.told.alone:
        return  # in a script that is started by hand, they are the script's own
    declared = job.precision if name == "precision" else getattr(job.told, name)
    if declared is None or value is None or declared == value:
        return
    if isinstance(declared, float) and math.isclose(declared, value):
        return
    if name == "precision":
        remedy += f', or set precision = "{value}" in [arms.{job.arm}]'
    raise InputError(f"the job's {name} is {declared}, and {called} is {value}; say {remedy}")


def scalars(values: Optional[Mapping[str, Any]]) -> Dict[str, float]:
    """Those that are finite numbers."""
    found = {}
    for name, value in (values or {}).items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            found[name] = number
    return found


_IGNORED = -100
"""The label of a position that has none."""
_SAME_LOSS = 1e-4
"""Relative difference of a loss that was computed twice in float32."""


def outcome(model: Any, batch: Dict[str, Any], labels_name: str) -> Dict[str, Any]:
    """Columns of `compilegate.job.examples`. Classes: `labels` and `logits`. Numbers: `targets` and
    `predictions`. All else, as language models, tags and several labels at once: `losses`, the
    model's own for each example. Raises InputError where the model returns no loss then."""
    outputs = model(**batch)
    labels = batch.get(labels_name)
    logits = outputs.get("logits") if isinstance(outputs, dict) else None
    if labels is not None and isinstance(logits, torch.Tensor):
        whole = not labels.is_floating_point()
        if whole and labels.dim() == 1 and logits.dim() == 2 and logits.shape[1] > 1:
            return {"labels": labels, "logits": logits}
        if not whole and labels.numel() == logits.numel() == len(labels):
            return {"targets": labels, "predictions": logits}
        if whole and logits.dim() == 3 and labels.shape == logits.shape[:2]:
            losses = _sequence_losses(outputs.get("loss"), logits, labels)
            if losses is not None:
                return {"losses": losses}
    return {"losses": _losses_one_by_one(model, batch)}


def _sequence_losses(
    own: Any, logits: torch.Tensor, labels: torch.Tensor
) -> Optional[torch.Tensor]:
    """Mean loss of each sequence's positions. Whether position t predicts label t or t + 1 is what
    agrees with the model's own loss of the batch; None where neither does, or both do."""
    found: List[torch.Tensor] = []
    for shift in (0, 1) if own is not None else ():
        wanted = labels[:, shift:]
        shown = logits[:, : logits.shape[1] - shift].float().transpose(1, 2)
        losses = cross_entropy(shown, wanted, ignore_index=_IGNORED, reduction="none")
        counts = (wanted != _IGNORED).sum(dim=1)
        mean = losses.sum() / counts.sum().clamp(min=1)
        if math.isclose(float(mean), float(own), rel_tol=_SAME_LOSS):
            found.append(losses.sum(dim=1) / counts.clamp(min=1))
    return found[0] if len(found) == 1 else None


def _losses_one_by_one(model: Any, batch: Dict[str, Any]) -> List[float]:
    size = next(len(each) for each in batch.values() if isinstance(each, torch.Tensor))
    losses = []
    for row in range(size):
        alone = {
            name: each[row : row + 1]
            if isinstance(each, torch.Tensor) and each.dim() and len(each) == size
            else each
            for name, each in batch.items()
        }
        outputs = model(**alone)
        loss = outputs.get("loss") if isinstance(outputs, dict) else None
        if loss is None:
            raise InputError(
                f"{type(model).__name__} returns neither classes nor numbers nor a loss for a "
                f"batch of {', '.join(batch)}; say what it makes of a batch: "
                "job.TrainerCallback(examples=function), where function(model, batch) returns "
                "labels and logits, targets and predictions, or losses, by name"
            )
        losses.append(float(loss))
    return losses
