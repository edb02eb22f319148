"""Checkpoints: a job that loses its machine resumes where it was, with the very same result.

AWS may take managed spot capacity back at any time. The job then starts again on another machine,
under the same name, with the checkpoint folder as it was.

A checkpoint is one file, since a folder is copied to S3 file by file, and one of two files that
belong together may be older than the other. It is safetensors, with facts as JSON beside the
tensors and one digest over both.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from compilegate.job import CompilegateError, Job
from compilegate.job.files import whole_file
from training.update import WeightUpdate

FORMAT = 1
SUFFIX = ".safetensors"
Tensors = Mapping[str, torch.Tensor]
Facts = Mapping[str, Any]  # JSON


class CheckpointError(CompilegateError):
    """A file that is not a complete checkpoint. The message says why, in words that follow "it"."""


@dataclass(frozen=True)
class Identity:
    """Whose checkpoint it is. A job resumes from its own alone: another's would give that job's
    result, with times that this one never measured."""

    job: str
    config: str  # the digest of the job's settings
    data: str  # the digest of the prepared data
    torch: str  # version


class Checkpoints:
    """The checkpoints of one job, one file at a time, in a folder that outlives its machine."""

    def __init__(self, folder: Path, identity: Identity, *, seconds_between: float) -> None:
        self.path = folder / (identity.job + SUFFIX)
        self._identity = asdict(identity)
        self._seconds_between = seconds_between
        self._written_at = time.monotonic()

    def resume(self, job: Job, state: RunState) -> None:
        """Restore the job's checkpoint, if it has one, and continue from its step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            job.resume()
            return
        try:
            tensors, facts = read_checkpoint(self.path)
            owner = facts["identity"]
            differing = [name for name, own in self._identity.items() if owner.get(name) != own]
            if differing:
                raise CheckpointError(f"is another job's: its {' and '.join(differing)} differ")
        except CheckpointError as error:
            print(f"checkpoint ignored: it {error}; the job starts over", flush=True)
            job.resume(ignored=f"{self.path.name} {error}")
            return
        measured = state.restore(tensors, facts)
        job.resume(measured)
        ago = max(time.time() - measured["written"], 0.0)
        print(
            f"resumed: continues with step {job.steps_taken}, {ago:.1f} s after its checkpoint",
            flush=True,
        )

    def save_if_due(self, job: Job, state: RunState) -> None:
        """Write the state after the last step, if it is time. A full disk does not end the
        training."""
        if time.monotonic() - self._written_at < self._seconds_between:
            return
        step = job.steps_taken - 1
        try:
            with job.checkpoint() as measured:
                tensors, facts = state.capture(measured)
                write_checkpoint(self.path, tensors, {**facts, "identity": self._identity})
            print(f"checkpoint after step {step}", flush=True)
        except OSError as error:
            print(f"no checkpoint after step {step}: {error}", flush=True)
        self._written_at = time.monotonic()

    def finish(self) -> None:
        """Empty the file of a job that is done: a changed file is copied to S3, where a removed one
        may stay for good, at its full size."""
        if self.path.exists():
            self.path.write_bytes(b"")


def write_checkpoint(path: Path, tensors: Tensors, facts: Facts) -> None:
    """Write the file whole or not at all. Raises OSError."""
    text = json.dumps({"format": FORMAT, **facts}, sort_keys=True)
    tensors = {name: each.contiguous() for name, each in tensors.items()}
    with whole_file(path, alone=True) as part:
        save_file(dict(tensors), str(part), {"facts": text, "sha256": _digest(tensors, text)})


def read_checkpoint(path: Path) -> Tuple[Tensors, Facts]:
    """Read a file back, tensors on the CPU. Raises CheckpointError."""
    try:
        if path.stat().st_size == 0:
            raise CheckpointError("is empty, as a job leaves it that has finished")
        with safe_open(str(path), framework="pt", device="cpu") as file:
            stored = file.metadata() or {}
            tensors: Dict[str, torch.Tensor] = {
                name: file.get_tensor(name)
                for name in file.keys()  # noqa: SIM118
            }
    except (OSError, SafetensorError, ValueError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"is damaged: {error}") from error
    text = stored.get("facts", "")
    if stored.get("sha256") != _digest(tensors, text):
        raise CheckpointError("is damaged: its content does not match its digest")
    facts = json.loads(text)
    if facts.get("format") != FORMAT:
        raise CheckpointError(f"is of format {facts.get('format')!r}, this job reads {FORMAT}")
    return tensors, facts


def _digest(tensors: Tensors, facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name, each in sorted(tensors.items()):
        digest.update(f"{name}:{each.dtype}:{tuple(each.shape)}:".encode())
        # As bytes: numpy has no bfloat16.
        digest.update(each.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class RunState:
    """What must be restored for a run to continue as if it had not been interrupted: the weights,
    the optimizer's moments, the average, every random generator and what the job has measured. The
    data order follows from the seed and the number of the step."""

    model: Any
    update: WeightUpdate

    def capture(self, measured: Facts) -> Tuple[Tensors, Facts]:
        """The state after the last step. Tensors on the CPU are not copied."""
        columns = {
            name: _column(each)
            for name, each in measured.items()
            if isinstance(each, list) and not any(isinstance(entry, str) for entry in each)
        }
        average = self.update.average
        generators, random_facts = _generators()
        parts: Mapping[str, Tensors] = {
            "model": self._model_tensors(),
            "optimizer": self.update.tensors(),
            "average": {str(number): each for number, each in enumerate(average.tensors)},
            "random": generators,
            "measured": columns,
        }
        tensors = {
            f"{part}.{name}": each.detach().cpu()
            for part, named in parts.items()
            for name, each in named.items()
        }
        facts = {
            "measured": {name: each for name, each in measured.items() if name not in columns},
            "average_updates": average.updates,
            "random": random_facts,
        }
        return tensors, facts

    @torch.no_grad()
    def restore(self, tensors: Tensors, facts: Facts) -> Dict[str, Any]:
        """Bring everything back, in place. Returns what the job has measured."""
        parts: Dict[str, Dict[str, torch.Tensor]] = {}
        for name, each in tensors.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = each
        for name, own in self._model_tensors().items():
            own.copy_(parts["model"][name])
        self.update.restore(parts["optimizer"])
        average = parts.get("average", {})
        self.update.average.restore(
            [average[str(number)] for number in range(len(average))], facts["average_updates"]
        )
        _restore_generators(parts["random"], facts["random"])
        columns = {name: each.tolist() for name, each in parts["measured"].items()}
        return {**facts["measured"], **columns}

    def _model_tensors(self) -> Dict[str, torch.Tensor]:
        # Each once, even if two names share one: the file holds no tensor twice.
        saved = self.model.state_dict().keys()
        buffers = {name: each for name, each in self.model.named_buffers() if name in saved}
        return {**dict(self.model.named_parameters()), **buffers}


def _column(numbers: List[float]) -> torch.Tensor:
    """Make a column of what was measured, one number for each step."""
    whole = all(isinstance(each, int) for each in numbers)
    return torch.tensor(numbers, dtype=torch.int64 if whole else torch.float64)


def _generators() -> Tuple[Dict[str, torch.Tensor], Dict[str, Any]]:
    """The states of every random generator that a step may draw from: columns of numbers, and the
    rest of them as JSON."""
    version, python, next_gauss = random.getstate()
    numpy: Any = np.random.get_state(legacy=True)
    _, keys, position, has_gauss, cached_gauss = numpy
    states = {
        "python": torch.tensor(python, dtype=torch.int64),
        "numpy": torch.from_numpy(keys.astype(np.int64)),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        gpus = enumerate(torch.cuda.get_rng_state_all())
        states.update({f"cuda{number}": state for number, state in gpus})
    numpy_rest = [int(position), int(has_gauss), float(cached_gauss)]
    return states, {"python": [version, next_gauss], "numpy": numpy_rest}


def _restore_generators(states: Tensors, rest: Facts) -> None:
    """Set every generator to what `_generators` gave."""
    version, next_gauss = rest["python"]
    random.setstate((version, tuple(states["python"].tolist()), next_gauss))
    position, has_gauss, cached_gauss = rest["numpy"]
    keys = states["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, position, has_gauss, cached_gauss))
    torch.set_rng_state(states["torch"])
    if torch.cuda.is_available():
        devices = range(torch.cuda.device_count())
        torch.cuda.set_rng_state_all([states[f"cuda{number}"] for number in devices])
