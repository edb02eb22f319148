"""When a checkpoint is written, and which one a job resumes from."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

from compilegate.job import Job
from training.checkpoints.file import Checkpoint, CheckpointError, read_checkpoint, write_checkpoint
from training.checkpoints.run_state import RunState

SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Identity:
    """Whose checkpoint it is. A job resumes only from its own: another's would give that job's
    result, with times that this one never measured."""

    job: str
    config: str
    """The digest of the job's settings."""
    data: str
    """The digest of the prepared data."""
    torch: str
    """Version."""


class Checkpoints:
    """The checkpoints of one job, one file at a time, in a folder that outlives its machine."""

    def __init__(self, folder: Path, identity: Identity, *, seconds_between: float) -> None:
        self._folder = folder
        self._identity = identity
        self._seconds_between = seconds_between
        self._written_at = time.monotonic()
        self._ignored: Optional[str] = None

    @property
    def path(self) -> Path:
        """The job's own file."""
        return self._folder / (self._identity.job + SUFFIX)

    def resume(self, job: Job, state: RunState) -> None:
        """Go on from the job's checkpoint, if it has one, with its state restored."""
        self._folder.mkdir(parents=True, exist_ok=True)
        checkpoint = self._own_checkpoint()
        if checkpoint is None:
            job.resume(ignored=self._ignored)
            return
        measured = state.restore(checkpoint)
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
                write_checkpoint(self.path, self._owned(state.capture(measured)))
            print(f"checkpoint after step {step}", flush=True)
        except OSError as error:
            print(f"no checkpoint after step {step}: {error}", flush=True)
        self._written_at = time.monotonic()

    def finish(self) -> None:
        """The job is done: leave its file empty.

        A changed file is copied to S3, where a removed one may stay for good, at its full size.
        """
        if self.path.exists():
            self.path.write_bytes(b"")

    def _owned(self, checkpoint: Checkpoint) -> Checkpoint:
        own = {"identity": asdict(self._identity)}
        return Checkpoint(checkpoint.tensors, {**checkpoint.facts, **own})

    def _own_checkpoint(self) -> Optional[Checkpoint]:
        others = [path for path in self._folder.glob("*" + SUFFIX) if path != self.path]
        if others:
            print(f"checkpoints of {len(others)} other jobs are left alone", flush=True)
        if not self.path.exists():
            return None
        try:
            checkpoint = read_checkpoint(self.path)
            self._check_owner(checkpoint)
            return checkpoint
        except CheckpointError as error:
            self._ignored = f"{self.path.name} {error}"
            print(f"checkpoint ignored: it {error}; the job starts over", flush=True)
            return None

    def _check_owner(self, checkpoint: Checkpoint) -> None:
        ours = asdict(self._identity)
        theirs = checkpoint.facts.get("identity")
        if theirs == ours:
            return
        found = theirs if isinstance(theirs, dict) else {}
        differing = [name for name in ours if found.get(name) != ours[name]]
        raise CheckpointError(f"is another job's: its {' and '.join(differing)} differ")
