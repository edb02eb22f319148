"""The largest batch that fits, by bisection. A trial is a fresh process that takes a few training
steps with one batch size; what came of it is stored, so that an interrupted search can go on."""

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
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from compilegate.built_in import import_path
from compilegate.job import contract
from compilegate.job.files import write_json

HEADROOM, MULTIPLE = 0.1, 8
"""Share of the batch that advice leaves free: memory fragments over a long run, evaluation and the
parity probe come on top. Kernels are made for multiples of 8."""


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """The state of a search."""

    fitting: int  # the largest batch that was tried and fits; 0 where not even 1 does
    too_large: int | None  # the smallest that does not; None where the largest allowed one fits


def largest_fitting(
    fits: Callable[[int], bool], *, first: int, most: int, tolerance: float
) -> Bracket:
    """Try `first`, double or halve until the limit lies between two batches, then bisect.

    It ends when the two are neighbours, or nearer than `tolerance` as a share of what fits. No
    batch is tried twice, and none above `most`. `1 <= first <= most`. It takes for granted that a
    batch fits if a larger one does.
    """
    fitting, too_large, size = 0, None, first
    while True:
        if fits(size):
            fitting = size
        else:
            too_large = size
        if too_large is None:
            if fitting == most:
                break
            size = min(2 * fitting, most)
        elif fitting == 0:
            if too_large == 1:
                break
            size = too_large // 2
        elif too_large - fitting <= max(1, tolerance * fitting):
            break
        else:
            size = (fitting + too_large) // 2
    return Bracket(fitting=fitting, too_large=too_large)


def advised(fitting: int) -> int:
    """The batch to take when `fitting` is the largest that fits; at least 1."""
    with_headroom = int(fitting * (1 - HEADROOM))
    return max(with_headroom // MULTIPLE * MULTIPLE or with_headroom, 1)


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """What takes the memory, beside the batch size."""

    hyperparameters: Mapping[str, str]  # those of the arm's training job
    sequence_length: int
    vocabulary: int
    steps: int  # that each trial takes
    memory_limit: int | None  # bytes; None for what the device has


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The result of one batch size."""

    batch_size: int
    outcome: Literal["fits", "out of memory", "failed"]
    reason: str | None  # why it did not fit, in one line
    peak_memory_bytes: int | None = None
    seconds: float | None = None
    device: str | None = None

    @property
    def found(self) -> str:
        """The trial in words: `fits, 1.25 GB at most, 3.1 s`."""
        memory, seconds = self.peak_memory_bytes, self.seconds
        at_most = "" if memory is None else f", {memory / 1e9:.2f} GB at most"
        took = "" if seconds is None else f", {seconds:.1f} s"
        return f"{self.outcome}{at_most}{took}{f' ({self.reason})' if self.reason else ''}"


def try_batch(shapes: Shapes, batch_size: int) -> Trial:
    """Take the steps in a process of its own, whatever becomes of it."""
    job = {**shapes.hyperparameters, "batch_size": batch_size}
    with tempfile.TemporaryDirectory(prefix="batch-size-") as folder:
        result = Path(folder) / "fit.json"
        options = {
            **{"result": result, "memory_limit": shapes.memory_limit or 0},
            **{key: getattr(shapes, key) for key in ("steps", "sequence_length", "vocabulary")},
        }
        ended = subprocess.run(
            [*(sys.executable, "-m", "training.fit"), *_flags(options), "--", *_flags(job)],
            env={
                **os.environ,
                "PYTHONPATH": import_path(os.environ),
                contract.COMPILE_THREADS_VARIABLE: "1",  # the limit holds for one process
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        try:
            return Trial(batch_size=batch_size, **json.loads(result.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            last = (ended.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
            return _ended(batch_size, ended.returncode, last, limited=bool(shapes.memory_limit))


def _flags(values: Mapping[str, object]) -> list[str]:
    return [part for name, value in values.items() for part in (f"--{name}", str(value))]


_BY_LIMIT = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
"""The system kills by the first; libraries end the process by the others when an allocation fails
that they did not check."""
_LAST_WORDS = ("bad_alloc", "Cannot allocate memory", "out of memory", "Thread creation failed")
"""What libraries print about memory before they end the process themselves."""


def _ended(batch_size: int, status: int, last_line: str, *, limited: bool) -> Trial:
    """The trial of a process that left no result."""
    signals = _BY_LIMIT if limited else _BY_LIMIT[:1]
    ran_out = -status in signals or any(each in last_line for each in _LAST_WORDS)
    outcome = "out of memory" if ran_out else "failed"
    killed = status < 0 and f"killed by {signal.Signals(-status).name}"
    how = killed or f"ended with status {status}"
    reason = f"{how}: {last_line[:200]}" if last_line else how
    return Trial(batch_size=batch_size, outcome=outcome, reason=reason)


_UNSHAPED = {"arm", "on_failure", contract.SEED, contract.BATCH_SIZE, contract.LEARNING_RATE}
"""Hyperparameters that take no memory in training."""


class StoredTrials:
    """The trials that were made on one machine, with one arm's shapes."""

    def __init__(self, folder: Path, shapes: Shapes) -> None:
        """`folder` holds a file for each shapes, limit, machine and torch."""
        sizing = {key: x for key, x in shapes.hyperparameters.items() if key not in _UNSHAPED}
        self._key = {
            **asdict(shapes),
            "hyperparameters": sizing,
            "machine": platform.node(),
            **{each: importlib.metadata.version(each) for each in ("torch", "transformers")},
        }
        digest = hashlib.sha256(json.dumps(self._key, sort_keys=True).encode()).hexdigest()
        self.path = folder / f"{digest[:16]}.json"
        try:
            stored = [Trial(**each) for each in json.loads(self.path.read_bytes())["trials"]]
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            stored = []  # none, or of another release: the search starts anew
        self._trials = {each.batch_size: each for each in stored}

    def get(self, batch_size: int) -> Trial | None:
        return self._trials.get(batch_size)

    def add(self, trial: Trial) -> None:
        self._trials[trial.batch_size] = trial
        trials = [asdict(each) for each in self._trials.values()]
        write_json(self.path, {"key": self._key, "trials": trials})
