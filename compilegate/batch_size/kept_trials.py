"""Trials that were made are kept, so that a search that was interrupted goes on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compilegate.batch_size.trial import Shapes, Trial
from compilegate.job.files import write_json

_UNSHAPED = ("arm", "seed", "batch_size", "learning_rate", "on_failure", "parity_steps")
"""Hyperparameters that take no memory."""


class KeptTrials:
    """The trials of one arm's shapes on one machine."""

    def __init__(self, folder: Path, shapes: Shapes) -> None:
        """`folder` holds a file for each shapes, limit, machine and torch."""
        self._key = _key(shapes)
        digest = hashlib.sha256(json.dumps(self._key, sort_keys=True).encode()).hexdigest()
        self.path = folder / f"{digest[:16]}.json"
        self._trials = self._read()

    def get(self, batch_size: int) -> Trial | None:
        """The trial with this batch size, if it was made."""
        return self._trials.get(batch_size)

    def add(self, trial: Trial) -> None:
        """Keep one."""
        self._trials[trial.batch_size] = trial
        document = {"key": self._key, "trials": [asdict(each) for each in self._trials.values()]}
        write_json(self.path, document)

    def _read(self) -> dict[int, Trial]:
        try:
            document = json.loads(self.path.read_bytes())
            trials = [Trial(**each) for each in document["trials"]]
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError):
            return {}  # not ours, or of another release: the search starts anew, and replaces it
        return {each.batch_size: each for each in trials}


def _key(shapes: Shapes) -> dict[str, Any]:
    job = {name: each for name, each in shapes.hyperparameters.items() if name not in _UNSHAPED}
    return {
        **asdict(shapes),
        "hyperparameters": job,
        "machine": platform.node(),
        "torch": importlib.metadata.version("torch"),
        "transformers": importlib.metadata.version("transformers"),
    }
