"""The hyperparameters of a job: how its model is built and trained, and what is allowed."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

from compilegate.job import InputError
from compilegate.job.contract import PADDINGS

PRECISIONS = ("fp32", "bf16", "fp16")


def _option(
    default: Any,
    description: str,
    *,
    at_least: float = 0,
    below: float = math.inf,
    choices: Optional[Sequence[str]] = None,
) -> Any:
    """A hyperparameter: its default, its help text, and what is allowed."""
    bounds = (at_least, below)
    metadata = {"description": description, "bounds": bounds, "choices": choices}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Hyperparameters:
    """How the model is built and trained. Arms that share them differ in the compiler only.

    Raises InputError for a value that is not allowed.
    """

    batch_size: int = _option(32, "training documents per step", at_least=1)
    learning_rate: float = _option(1e-3, "peak of the schedule", at_least=1e-9)
    precision: str = _option(
        "fp32", "arithmetic; 16 bits are by autocast, fp16 on a GPU", choices=PRECISIONS
    )
    padding: str = _option(
        "max",
        "documents of a step are filled up to the data's sequence length, to one of a few lengths, "
        "or to the longest of them",
        choices=PADDINGS,
    )
    epochs: int = _option(3, "passes over the training split", at_least=1)
    warmup_fraction: float = _option(0.1, "part of the steps in which the rate rises", below=1)
    weight_decay: float = _option(0.01, "AdamW's; biases and normalisation weights go without")
    gradient_clip: float = _option(1.0, "largest norm of the gradient; 0 turns clipping off")
    averaging: float = _option(0.0, "decay of the weights' moving average; 0 is off", below=1)
    dropout: float = _option(0.1, "probability, in hidden layers and attention", below=1)
    layers: int = _option(2, "encoder layers of a model from scratch", at_least=1)
    hidden_size: int = _option(128, "width of a model from scratch", at_least=1)
    attention_heads: int = _option(2, "heads per layer of a model from scratch", at_least=1)
    intermediate_size: int = _option(512, "inner width of a model from scratch", at_least=1)
    model_id: str = _option("", "fine-tune this model (hub id or folder), not one from scratch")
    max_steps: int = _option(0, "stop after so many steps; 0 trains all epochs")
    log_every_steps: int = _option(0, "steps between two lines of the log; 0: about a second")
    evaluate_every_epochs: int = _option(
        0, "epochs between two evaluations while training; 0: only the trained model is evaluated"
    )
    eval_batch_size: int = _option(256, "validation documents per forward pass", at_least=1)

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value, least, below = getattr(self, each.name), *each.metadata["bounds"]
            if each.type != "str" and not least <= value < below:  # also refuses NaN
                limit = f" and below {below:g}" if math.isfinite(below) else " and finite"
                raise InputError(f"--{each.name} is {value}, expected {least:g} or more{limit}")
        if self.hidden_size % self.attention_heads:
            raise InputError(
                f"--hidden_size is {self.hidden_size}, expected a multiple of "
                f"--attention_heads ({self.attention_heads})"
            )
