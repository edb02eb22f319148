"""An execution's progress: a table on a terminal, drawn again every second; lines in a log."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from statistics import fmean

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from compilegate.execution.events import (
    EnvironmentBuilding,
    Event,
    ExecutionEnded,
    ExecutionStarted,
    PathsChosen,
    StepEnded,
    StepOutput,
    StepRetried,
    StepStarted,
    StepWaiting,
    StillRunning,
    StopRequested,
)
from compilegate.execution.status import UNSUCCESSFUL, StepStatus
from compilegate.job.contract import COMPILED_LINE, COMPILING_LINE

OUTPUT_EVERY_SECONDS = 10.0
"""A job may print many lines a second; one in this time is enough to show its progress."""
LONGEST_LINE = 100
MOST_NAMES = 6
"""How many steps one line names."""
DRAWN_PER_SECOND = 1.0
"""The jobs beside it are being measured: a frame costs some 5 ms of one core."""
BAR_WIDTH = 12
WIDE, MEDIUM = 72, 44
"""From so many columns on there is a bar; from so many on, the time."""
AROUND_ROWS = 5
"""Lines that are no rows: the title, the header, a count of hidden rows, the footer, the cursor."""
STEPS = re.compile(r"\bsteps?(?:[ =:]+|\s*\[)(\d+)\s*(?:/|of)\s*(\d+)", re.IGNORECASE)
"""`step=305/1710`, `step 305 of 1710`, `Step [305/1710]`: as training programs print it."""


@contextmanager
def progress_shown() -> Iterator[Callable[[Event], None]]:
    """A listener for one execution: a live table on a terminal, else lines."""
    if not sys.stdout.isatty() or os.environ.get("TERM") in {None, "", "dumb", "unknown"}:
        yield ProgressLines()
        return
    table = LiveTable(Console(highlight=False, force_terminal=True))
    try:
        yield table
    finally:
        table.stop()


class StepLines:
    """`MINUTES:SECONDS  STEP  what happened`; the steps' column grows with the longest name."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, seconds: float, step: str, text: str) -> None:
        """Print one line; `seconds` is how long the execution had run."""
        self._width = max(self._width, len(step))
        click.echo(f"{clock(seconds):>7}  {step:<{self._width}}  {text}")


class ProgressLines:
    """A listener that prints a line for each start and end, and some of the jobs' output."""

    def __init__(self) -> None:
        self._lines = StepLines()
        self._began: float | None = None
        self._shown: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        self._began = event.at if self._began is None else self._began
        if isinstance(event, ExecutionStarted):
            verb = "resumed" if event.resumed else "started"
            click.echo(f"{event.pipeline_name}: execution {event.execution_id} {verb}")
            if event.reference != event.execution_id:
                click.echo(event.reference)
        for text in self._texts(event):
            self._lines.show(event.at - self._began, getattr(event, "step", ""), text)

    def _texts(self, event: Event) -> Iterator[str]:
        match event:
            case StepStarted() if event.job_name is not None:
                self._shown[event.step] = event.at
                yield _start(event)
                if "log" in event.links:
                    yield f"log  {event.links['log']}"
            case StepOutput():
                line, shown = event.line.strip(), self._shown.get(event.step, event.at)
                if line and event.at - shown >= OUTPUT_EVERY_SECONDS:
                    self._shown[event.step] = event.at
                    yield click.style(line[:LONGEST_LINE], dim=True)
            case StepEnded() if event.status is not StepStatus.NOT_EXECUTED:
                yield _ending(event)
            case StillRunning():
                yield _still_running(event.steps)
            case ExecutionEnded():
                yield f"execution {event.status.lower()}"
            case _:
                yield from _notices(event)


class State(StrEnum):
    """The state of a job, in the words of the table; a low terminal shows the first ones."""

    RUNNING = "running"
    RETRYING = "retrying"
    FAILED = "failed"
    STOPPED = "stopped"
    WAITING = "waiting"
    DONE = "done"
    CACHED = "cached"
    SKIPPED = "skipped"


ACTIVE = (State.RUNNING, State.RETRYING)
_STYLES = {
    State.RUNNING: "cyan",
    State.RETRYING: "yellow",
    State.FAILED: "bold red",
    State.STOPPED: "yellow",
    State.DONE: "green",
    State.CACHED: "green",
}
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
    step: int = 0
    steps: int = 0
    """Its training steps so far, and in all; 0 if it prints none."""
    first_step: tuple[float, int] | None = None
    """When it printed a step first, and which."""
    step_at: float = 0.0
    """When it printed a step last."""
    message: str = ""
    """Why it failed, or is tried again."""
    page: str | None = None
    """The console's page of the job, or else its log."""

    def seconds_left(self, now: float) -> float | None:
        """By its own steps; None where it has printed too few."""
        if self.first_step is None:
            return None
        at, first = self.first_step
        if self.step <= first or self.step_at <= at:
            return None
        per_step = (self.step_at - at) / (self.step - first)
        return max(0.0, (self.steps - self.step) * per_step - (now - self.step_at))

    def cells(self, now: float, *, wide: bool) -> Iterator[RenderableType]:
        """Its name, state, progress and time."""
        yield Text(self.name, f"link {self.page}" if self.page else "")
        yield Text(self.state, _STYLES.get(self.state, "dim"))
        if self.compiling_since is not None:
            yield Text(f"compiling, {clock(now - self.compiling_since)}", "magenta")
        elif self.message or self.state not in ACTIVE or not self.steps:
            yield Text(self.message)
        elif self.step == self.steps:
            yield Text("finishing")
        else:
            both = Table.grid(padding=(0, 1))
            bar = [ProgressBar(self.steps, self.step, width=BAR_WIDTH)] if wide else []
            both.add_row(*bar, f"{self.step / self.steps:4.0%}")
            yield both
        active = self.state in ACTIVE and self.started is not None
        seconds = now - (self.started or now) if active else self.seconds
        yield Text(clock(seconds) if active or seconds >= 1.0 else "")


class LiveTable:
    """A listener that shows the execution as a table, a row for each job; `stop` leaves the whole
    one on the screen."""

    def __init__(self, console: Console) -> None:
        self.rows: dict[str, Row] = {}
        self._console = console
        self._lock = threading.Lock()  # the frames are drawn by another thread
        self._live: Live | None = None
        self._title = ""
        self._began = 0.0
        self._ended: ExecutionEnded | None = None
        self._at_once: int | None = None
        self._most_active = 1
        self._names_jobs = False

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._update(event)
        match event:
            case ExecutionStarted():
                self._live = Live(
                    console=self._console,
                    get_renderable=self._frame,
                    refresh_per_second=DRAWN_PER_SECOND,
                    transient=True,
                )
                self._live.start(refresh=True)
            case ExecutionEnded():
                self.stop()
            case StepStarted() | StepEnded() if self._live is not None:
                self._live.refresh()
            case _:
                step = getattr(event, "step", "")
                for text in _notices(event):
                    line = f"{step}: {text}" if step else text
                    self._console.print(line, markup=False, highlight=False)

    def stop(self) -> None:
        """Take the live frame away, and leave the whole table in its place."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._console.print(self._drawn(time.time(), None))

    def _update(self, event: Event) -> None:
        match event:
            case ExecutionStarted():
                self._title = f"{event.pipeline_name}: execution {event.execution_id}"
                self._began, self._at_once = event.at, event.at_once
                self._names_jobs = bool(event.jobs)
                for name, status in event.jobs.items():
                    ended = status is StepStatus.SUCCEEDED
                    self.rows[name] = Row(name, State.DONE if ended else State.WAITING)
            case StepStarted() if event.job_name is not None:
                page = event.links.get("job") or event.links.get("log")
                self.rows[event.step] = Row(event.step, State.RUNNING, event.at, page=page)
                active = sum(row.state in ACTIVE for row in self.rows.values())
                self._most_active = max(self._most_active, active)
            case StepOutput():
                self._read_output(self._row(event.step), event)
            case StepRetried():
                row = self._row(event.step)
                row.state, row.compiling_since = State.RETRYING, None
                row.message = _retry(event)
            case StepEnded():
                self._end(event)
            case ExecutionEnded():
                self._ended = event
            case _:
                pass  # nothing of it stands in a row

    def _row(self, name: str) -> Row:
        return self.rows.setdefault(name, Row(name))

    def _read_output(self, row: Row, event: StepOutput) -> None:
        if event.line.startswith(COMPILING_LINE):
            row.compiling_since = event.at
        elif event.line.startswith(COMPILED_LINE):
            row.compiling_since = None
        found = STEPS.search(event.line)
        if found is not None and 0 < int(found[1]) <= int(found[2]):
            row.step, row.steps, row.compiling_since = int(found[1]), int(found[2]), None
            row.first_step = row.first_step or (event.at, row.step)
            row.step_at = event.at

    def _end(self, event: StepEnded) -> None:
        cached, failure = event.cached_from is not None, event.failure
        if event.step not in self.rows and not cached and event.status not in UNSUCCESSFUL:
            return  # it ran no job
        row = self._row(event.step)
        row.state = State.CACHED if cached else _ENDS[event.status]
        if row.state is State.DONE and failure is not None:
            row.state = State.FAILED
        row.seconds, row.compiling_since = event.seconds, None
        # Where its log is and what it printed last stands below the table.
        row.message = "" if failure is None else failure.sentence.partition("\n")[0]

    @property
    def footer(self) -> str:
        """How many jobs are done; of how many, where the target names them."""
        states = [row.state for row in self.rows.values()]
        done = states.count(State.DONE) + states.count(State.CACHED)
        of_all = f" of {len(states) - states.count(State.SKIPPED)}" if self._names_jobs else ""
        return f"{done}{of_all} done"

    def seconds_left(self, now: float) -> float | None:
        """Until the last job is over, by what jobs have printed and taken; None before one has.

        Jobs run `at_once` at a time, so that it is the longest of them at least.
        """
        unfinished = (row for row in self.rows.values() if row.state in {*ACTIVE, State.WAITING})
        left = [each for row in unfinished if (each := self._left(row, now)) is not None]
        return max(*left, sum(left) / (self._at_once or self._most_active)) if left else None

    def _left(self, row: Row, now: float) -> float | None:
        """By its own steps or by how long such jobs take, whichever is longer."""
        usual = self._usual(row)
        if row.state not in ACTIVE or row.started is None:
            return usual
        by_others = None if usual is None else max(0.0, usual - (now - row.started))
        known = (each for each in (row.seconds_left(now), by_others) if each is not None)
        return max(known, default=None)

    def _usual(self, row: Row) -> float | None:
        """How long such a job takes: the mean of those that differ in the number at the end, such
        as the seed, or else of those whose names begin alike."""
        ran = [each for each in self.rows.values() if each.state is State.DONE and each.seconds]
        for part in (r"[-_]?\d+$", r"-.*"):
            alike = re.sub(part, "", row.name)
            took = [each.seconds for each in ran if re.sub(part, "", each.name) == alike]
            if took:
                return fmean(took)
        return None

    def _frame(self) -> RenderableType:
        with self._lock:
            return self._drawn(time.time(), max(1, self._console.height - AROUND_ROWS))

    def _drawn(self, now: float, most_rows: int | None) -> RenderableType:
        """The table; `most_rows` is how many fit, None for all of them."""
        now = now if self._ended is None else self._ended.at
        rows, footer = list(self.rows.values()), self.footer
        # What runs, has failed or waits stands before what is done, and all in their own order.
        first = sorted(rows, key=lambda row: list(State).index(row.state))[:most_rows]
        shown = [row for row in rows if row in first]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("STEP", overflow="ellipsis", min_width=6)
        table.add_column("STATE", no_wrap=True)
        # The table that stays cuts no reason off.
        whole = most_rows is None
        table.add_column("PROGRESS", overflow="fold" if whole else "ellipsis", no_wrap=not whole)
        if self._console.width >= MEDIUM:
            table.add_column("TIME", justify="right", no_wrap=True)
        for row in shown:
            cells = row.cells(now, wide=self._console.width >= WIDE)
            table.add_row(*islice(cells, len(table.columns)))
        more = [Text(f"and {len(rows) - len(shown)} more", "dim")] if len(shown) < len(rows) else []
        if self._ended is not None:
            footer += f", {self._ended.status.lower()}"
        elif (left := self.seconds_left(now)) is not None:
            footer += f", {in_words(left)} left"
        title = f"{self._title}, {clock(now - self._began)}"
        bold = [Text(text, "bold", no_wrap=True, overflow="ellipsis") for text in (title, footer)]
        return Group(bold[0], table, *more, bold[1])


def _notices(event: Event) -> Iterator[str]:
    """What is printed in a line, on a terminal as in a log."""
    match event:
        case EnvironmentBuilding():
            yield f"building the environment of {event.image}; log: {event.log}"
        case StepRetried():
            yield _retry(event)
        case PathsChosen(own_root=True):
            pass  # what works as in a container needs no word
        case PathsChosen() | StepWaiting() | StopRequested():
            yield event.sentence
        case _:
            pass  # the table shows it


def _retry(event: StepRetried) -> str:
    headline = event.failure.headline
    return f"attempt {event.attempt} failed ({headline}); again in {event.wait_seconds:.0f} s"


def _start(event: StepStarted) -> str:
    places = [("core", tuple(map(str, event.cores))), ("GPU", event.gpus)]
    words = [_numbered(kind, names) for kind, names in places if names]
    where = f" on {' and '.join(words)}" if words else ""
    again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    page = f"  {event.links['job']}" if "job" in event.links else ""
    return f"started{where}{again}{page}"


def _numbered(kind: str, names: tuple[str, ...]) -> str:
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _ending(event: StepEnded) -> str:
    if event.cached_from is not None:
        return f"taken from the cache (execution {event.cached_from.rpartition('/')[2]})"
    if event.status is not StepStatus.SUCCEEDED:
        return click.style(event.status.lower(), fg="red")
    if event.failure is not None:
        return click.style(f"failed, recorded as evidence: {event.failure.headline}", fg="red")
    return f"succeeded in {event.seconds:.1f} s"


def _still_running(steps: Sequence[str]) -> str:
    shown, more = steps[:MOST_NAMES], len(steps) - MOST_NAMES
    names = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    return f"still running: {names}" if names else "still executing, between steps"


def clock(seconds: float) -> str:
    """`1:52`, or `1:02:03` from an hour on."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def in_words(seconds: float) -> str:
    """Roughly how long, as a person would say it."""
    if seconds < 60.0:
        return "less than a minute"
    if seconds < 5400.0:
        minutes = round(seconds / 60.0)
        return f"about {minutes} minute{'' if minutes == 1 else 's'}"
    return f"about {seconds / 3600.0:.1f} hours"
