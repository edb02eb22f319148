"""What a training job runs and is told. The rest of its request is the same for every program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class TrainingProgram:
    """A script in the training archive, and what it gets."""

    entry: str
    """The script, by its path in the archive."""
    hyperparameters: Mapping[str, str]
    metrics: Mapping[str, str]
    """Regular expressions by metric, for what the script prints."""
    environment: Mapping[str, str] = field(default_factory=dict)
