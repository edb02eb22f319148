"""When a checkpoint is written, which one a job resumes from, and what the evidence records."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

from training.checkpoints.course import Course
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

    def __init__(
        self, folder: Path, identity: Identity, *, seconds_between: float, job_started: float
    ) -> None:
        """`job_started` is when this process's job started, in seconds since the epoch."""
        self._folder = folder
        self._identity = identity
        self._seconds_between = seconds_between
        self._job_started = job_started
        self._written_at = time.monotonic()
        self.written = 0
        """How many checkpoints this process wrote."""
        self.seconds = 0.0
        """How long writing them took."""
        self.ignored: Optional[str] = None
        """Why an existing checkpoint was not used."""

    @property
    def path(self) -> Path:
        """The job's own file."""
        return self._folder / (self._identity.job + SUFFIX)

    def resume(self, state: RunState) -> Course:
        """The job's course so far, with its state restored; a new one if it has none."""
        self._folder.mkdir(parents=True, exist_ok=True)
        checkpoint = self._own_checkpoint()
        if checkpoint is None:
            return Course()
        course = state.restore(checkpoint)
        self._job_started = float(checkpoint.facts["job_started"])
        lost = course.returns[-1].lost_seconds
        print(
            f"resumed: continues with step {course.steps}, {lost:.1f} s after its checkpoint",
            flush=True,
        )
        return course

    def due(self) -> bool:
        """Whether the next checkpoint is due."""
        return time.monotonic() - self._written_at >= self._seconds_between

    def save(self, state: RunState, course: Course) -> None:
        """Write the state after the course's last step. A full disk does not end the training."""
        began = time.monotonic()
        checkpoint = state.capture(course)
        own = {"identity": asdict(self._identity), "job_started": self._job_started}
        try:
            write_checkpoint(self.path, Checkpoint(checkpoint.tensors, {**checkpoint.facts, **own}))
            self.written += 1
            print(f"checkpoint after step {course.steps - 1}", flush=True)
        except OSError as error:
            print(f"no checkpoint after step {course.steps - 1}: {error}", flush=True)
        self._written_at = time.monotonic()
        self.seconds += self._written_at - began

    def finish(self) -> None:
        """The job is done: leave its file empty.

        A changed file is copied to S3, where a removed one may stay for good, at its full size.
        """
        if self.path.exists():
            self.path.write_bytes(b"")

    def total_seconds(self) -> float:
        """Seconds since the job's first process started, interruptions included."""
        return time.time() - self._job_started

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
            self.ignored = f"{self.path.name} {error}"
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
