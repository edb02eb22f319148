"""Trials: a fresh process takes a few training steps with one batch size, and what came of it is
kept, so that an interrupted search can continue."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from compilegate.built_in import import_path
from compilegate.job import names
from compilegate.job.files import write_json

Outcome = Literal["fits", "out of memory", "failed"]

_BY_MEMORY = {signal.SIGKILL}
"""A process that the system kills for lack of memory gets this signal."""
_BY_LIMIT = {*_BY_MEMORY, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS}
"""Libraries end the process like this when an allocation fails that they did not check."""
_SAID_LAST = ("bad_alloc", "Cannot allocate memory", "out of memory", "Thread creation failed")
"""What libraries print about memory before they end the process themselves."""


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """What takes the memory, beside the batch size."""

    hyperparameters: Mapping[str, str]
    """What the arm's training job is told."""
    sequence_length: int
    vocabulary: int
    steps: int
    """How many each trial takes."""
    memory_limit: int | None
    """Bytes; None for what the device has."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of one batch size."""

    batch_size: int
    outcome: Outcome
    reason: str | None
    """Why it did not fit, in one line."""
    peak_memory_bytes: int | None
    seconds: float | None
    device: str | None

    @property
    def found(self) -> str:
        """`fits, 1.25 GB at most, 3.1 s`."""
        parts: list[str] = [self.outcome]
        if self.peak_memory_bytes is not None:
            parts.append(f"{self.peak_memory_bytes / 1e9:.2f} GB at most")
        if self.seconds is not None:
            parts.append(f"{self.seconds:.1f} s")
        why = f" ({self.reason})" if self.reason else ""
        return f"{', '.join(parts)}{why}"


def try_batch(shapes: Shapes, batch_size: int) -> Trial:
    """Take the steps in a process of its own, whatever becomes of it."""
    with tempfile.TemporaryDirectory(prefix="batch-size-") as folder:
        result = Path(folder) / "fit.json"
        ended = subprocess.run(
            _command(shapes, batch_size, result),
            env=_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        try:
            told = json.loads(result.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            last = (ended.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
            return _ended(batch_size, ended.returncode, last, limited=bool(shapes.memory_limit))
    return Trial(batch_size=batch_size, **told)


def _command(shapes: Shapes, batch_size: int, result: Path) -> Sequence[str]:
    options = {
        "result": str(result),
        "steps": str(shapes.steps),
        "sequence_length": str(shapes.sequence_length),
        "vocabulary": str(shapes.vocabulary),
        "memory_limit": str(shapes.memory_limit or 0),
    }
    job = {**shapes.hyperparameters, "batch_size": str(batch_size)}
    return [
        *(sys.executable, "-m", "training.fit"),
        *_flags(options),
        "--",
        *_flags(job),
    ]


def _flags(values: Mapping[str, str]) -> Sequence[str]:
    return [part for name, value in values.items() for part in (f"--{name}", value)]


def _environment() -> dict[str, str]:
    # One process, so that the limit holds for all of it.
    return {
        **os.environ,
        "PYTHONPATH": import_path(os.environ),
        names.COMPILE_THREADS_VARIABLE: "1",
    }


def _ended(batch_size: int, status: int, last_line: str, *, limited: bool) -> Trial:
    """What became of a process that left no result."""
    fatal = {-each for each in (_BY_LIMIT if limited else _BY_MEMORY)}
    ran_out = status in fatal or any(said in last_line for said in _SAID_LAST)
    how = (
        f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    )
    return Trial(
        batch_size=batch_size,
        outcome="out of memory" if ran_out else "failed",
        reason=f"{how}: {last_line[:200]}" if last_line else how,
        peak_memory_bytes=None,
        seconds=None,
        device=None,
    )


_UNSHAPED = (
    "arm",
    "on_failure",
    names.SEED,
    names.BATCH_SIZE,
    names.LEARNING_RATE,
    names.PARITY_STEPS,
    names.SPEED_PROBE_SECONDS,
    names.BASELINE_COMPILER,
    names.BASELINE_BATCH_SIZE,
    names.BASELINE_PRECISION,
    names.BASELINE_PADDING,
)
"""Hyperparameters that take no memory in training."""


class KeptTrials:
    """The trials that were made on one machine, with one arm's shapes."""

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
