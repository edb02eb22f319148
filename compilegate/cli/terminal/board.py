"""How far an execution is, kept from its events: a row for each job. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from compilegate.execution.events import (
    Event,
    ExecutionEnded,
    ExecutionStarted,
    StepEnded,
    StepOutput,
    StepRetried,
    StepStarted,
)
from compilegate.execution.status import UNSUCCESSFUL, ExecutionStatus, StepStatus
from compilegate.job.names import COMPILED_LINE, COMPILING_LINE

STEPS = re.compile(r"\bsteps?(?:[ =:]+|\s*\[)(\d+)\s*(?:/|of)\s*(\d+)", re.IGNORECASE)
"""`step=305/1710`, `step 305 of 1710`, `Step [305/1710]`: how training programs say it."""


class State(StrEnum):
    """The state of a job, in the words of the table."""

    RUNNING = "running"
    RETRYING = "retrying"
    FAILED = "failed"
    STOPPED = "stopped"
    WAITING = "waiting"
    DONE = "done"
    CACHED = "cached"
    SKIPPED = "skipped"


GOING = (State.RUNNING, State.RETRYING)
_ENDS = {
    StepStatus.SUCCEEDED: State.DONE,
    StepStatus.FAILED: State.FAILED,
    StepStatus.STOPPED: State.STOPPED,
    StepStatus.NOT_EXECUTED: State.SKIPPED,
}


@dataclass
class Row:
    """One job. Times are seconds since the epoch."""

    name: str
    state: State = State.WAITING
    started: float | None = None
    seconds: float = 0.0
    """How long it took; 0 until it has ended."""
    compiling_since: float | None = None
    """Set while it compiles."""
    counted: int = 0
    of: int = 0
    """Its training steps so far, and in all; 0 if it does not say."""
    first_counted: tuple[float, int] | None = None
    """When it said so first, and how many."""
    last_counted_at: float = 0.0
    said: str = ""
    """Why it failed, or is tried again."""
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def kin(self) -> str:
        """What it shares with jobs that differ in a number at the end, such as the seed."""
        return re.sub(r"[-_]?\d+$", "", self.name)

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]

    def seconds_left(self, now: float) -> float | None:
        """By its own steps; None where it has said too few."""
        if self.first_counted is None:
            return None
        at, count = self.first_counted
        taken = self.counted - count
        if taken <= 0 or self.last_counted_at <= at:
            return None
        a_step = (self.last_counted_at - at) / taken
        return max(0.0, (self.of - self.counted) * a_step - (now - self.last_counted_at))


class Board:
    """All rows of one execution."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.pipeline = ""
        self.execution_id = ""
        self.began: float | None = None
        self.ended: float | None = None
        self.status = ExecutionStatus.EXECUTING
        self._all_known = False
        self._at_once: int | None = None
        self._most_seen = 1

    @property
    def of(self) -> int | None:
        """How many jobs there are in all; None if unknown."""
        if not self._all_known:
            return None
        return sum(row.state is not State.SKIPPED for row in self.rows.values())

    @property
    def done(self) -> int:
        """How many have succeeded, here or in an earlier execution."""
        return sum(row.state in {State.DONE, State.CACHED} for row in self.rows.values())

    def hear(self, event: Event) -> None:
        """Take an event in."""
        self.began = event.at if self.began is None else self.began
        match event:
            case ExecutionStarted():
                self.pipeline, self.execution_id = event.pipeline_name, event.execution_id
                self._all_known, self._at_once = bool(event.jobs), event.at_once
                for name, status in event.jobs.items():
                    kept = status is StepStatus.SUCCEEDED
                    self.rows[name] = Row(name, State.DONE if kept else State.WAITING)
            case StepStarted() if event.job_name is not None:
                self.rows[event.step] = Row(
                    event.step, State.RUNNING, event.at, links=dict(event.links)
                )
                going = sum(row.state in GOING for row in self.rows.values())
                self._most_seen = max(self._most_seen, going)
            case StepOutput():
                self._output(event)
            case StepRetried():
                row = self._row(event.step)
                row.state, row.compiling_since = State.RETRYING, None
                row.said = retry_sentence(event)
            case StepEnded():
                self._ended(event)
            case ExecutionEnded():
                self.ended, self.status = event.at, event.status
            case _:
                pass  # nothing of it stands in a row

    def seconds_left(self, now: float) -> float | None:
        """Until the last job is over, by what jobs have told and taken; None before one has.

        Jobs run `at_once` at a time, so that it is the longest of them at least.
        """
        open_rows = (row for row in self.rows.values() if row.state in {*GOING, State.WAITING})
        left = [seconds for row in open_rows if (seconds := self._left(row, now)) is not None]
        if not left:
            return None
        return max(*left, sum(left) / (self._at_once or self._most_seen))

    def _left(self, row: Row, now: float) -> float | None:
        """By its own steps or by how long such jobs take, whichever is longer."""
        usual = self._usual(row)
        if row.state not in GOING or row.started is None:
            return usual
        by_kin = None if usual is None else max(0.0, usual - (now - row.started))
        known = (seconds for seconds in (row.seconds_left(now), by_kin) if seconds is not None)
        return max(known, default=None)

    def _usual(self, row: Row) -> float | None:
        """How long such a job takes: the mean of those of its kin that ran, or else of its kind."""
        ran = [each for each in self.rows.values() if each.state is State.DONE and each.seconds]
        alike = [each.seconds for each in ran if each.kin == row.kin] or [
            each.seconds for each in ran if each.kind == row.kind
        ]
        return fmean(alike) if alike else None

    def _output(self, event: StepOutput) -> None:
        row = self._row(event.step)
        if event.line.startswith(COMPILING_LINE):
            row.compiling_since = event.at
        elif event.line.startswith(COMPILED_LINE):
            row.compiling_since = None
        found = STEPS.search(event.line)
        if found is None or not 0 < int(found[1]) <= int(found[2]):
            return
        row.counted, row.of, row.compiling_since = int(found[1]), int(found[2]), None
        row.first_counted = row.first_counted or (event.at, row.counted)
        row.last_counted_at = event.at

    def _ended(self, event: StepEnded) -> None:
        cached, failure = event.cached_from is not None, event.failure
        if event.step not in self.rows and not cached and event.status not in UNSUCCESSFUL:
            return  # it ran no job
        row = self._row(event.step)
        row.state = State.CACHED if cached else _ENDS[event.status]
        if row.state is State.DONE and failure is not None:
            row.state = State.FAILED
        row.seconds, row.compiling_since = event.seconds, None
        # Where its log is and what it printed last is told below the table.
        row.said = "" if failure is None else failure.sentence.partition("\n")[0]

    def _row(self, name: str) -> Row:
        return self.rows.setdefault(name, Row(name))


def retry_sentence(event: StepRetried) -> str:
    """That an attempt failed, and when the next one starts."""
    return (
        f"attempt {event.attempt} failed ({event.failure.headline}); "
        f"again in {event.wait_seconds:.0f} s"
    )
