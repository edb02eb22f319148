"""An execution's progress: a table on a terminal, drawn again every second; lines in a log."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from compilegate.cli.terminal.board import GOING, Board, Row, State, retry_sentence
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
from compilegate.execution.status import StepStatus

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
_STATE_WIDTH, _TIME_WIDTH = 12, 7
"""With the space between columns."""
_LEAST_OF_A_NAME = 6
_STYLES = {
    State.RUNNING: "cyan",
    State.RETRYING: "yellow",
    State.FAILED: "bold red",
    State.STOPPED: "yellow",
    State.WAITING: "dim",
    State.DONE: "green",
    State.CACHED: "green",
    State.SKIPPED: "dim",
}
_BY_IMPORTANCE = list(State)
"""What a low terminal shows first; what is done and skipped comes last."""


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
                yield _going(event.steps)
            case ExecutionEnded():
                yield f"execution {event.status.lower()}"
            case _:
                yield from _notices(event)


class LiveTable:
    """A listener that shows the execution as a table; `stop` leaves the whole one on the screen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._board = Board()
        self._lock = threading.Lock()  # the frames are drawn by another thread
        self._live: Live | None = None

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._board.hear(event)
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
            self._console.print(drawn(self._board, self._console.width, None, time.time()))

    def _frame(self) -> RenderableType:
        with self._lock:
            rows = max(1, self._console.height - AROUND_ROWS)
            return drawn(self._board, self._console.width, rows, time.time())


def _notices(event: Event) -> Iterator[str]:
    """What is told in a line, on a terminal as in a log."""
    match event:
        case EnvironmentBuilding():
            yield f"building the environment of {event.image}; log: {event.log}"
        case StepRetried():
            yield retry_sentence(event)
        case PathsChosen(own_root=True):
            pass  # what works as in a container needs no word
        case PathsChosen() | StepWaiting() | StopRequested():
            yield event.sentence
        case _:
            pass  # the table shows it


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


def _going(steps: Sequence[str]) -> str:
    shown, more = steps[:MOST_NAMES], len(steps) - MOST_NAMES
    names = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    return f"still running: {names}" if names else "still executing, between steps"


def drawn(board: Board, width: int, most_rows: int | None, now: float) -> RenderableType:
    """The board as a frame of that width; `most_rows` is how many fit, None for all of them."""
    now = board.ended or now
    rows = list(board.rows.values())
    shown = rows if most_rows is None else _most_important(rows, most_rows)
    with_bar, with_time = width >= WIDE, width >= MEDIUM
    least_progress = BAR_WIDTH + 5 if with_bar else len("compiling, 1:52")
    others = _STATE_WIDTH + least_progress + (_TIME_WIDTH if with_time else 0) + 2
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("STEP", no_wrap=True)
    table.add_column("STATE", no_wrap=True, min_width=8)
    # Only this column gives way; the table that stays cuts no reason off.
    overflow = "fold" if most_rows is None else "ellipsis"
    table.add_column("PROGRESS", overflow=overflow, min_width=least_progress)
    if with_time:
        table.add_column("TIME", justify="right", no_wrap=True, min_width=5)
    for row in shown:
        cells = [
            _name(row, max(_LEAST_OF_A_NAME, width - others)),
            Text(row.state, _STYLES[row.state]),
            _progress(row, now, with_bar=with_bar, no_wrap=most_rows is not None),
            _time(row, now),
        ]
        table.add_row(*cells[: len(table.columns)])
    hidden = len(rows) - len(shown)
    more = [Text(f"and {hidden} more", "dim")] if hidden else []
    return Group(_title(board, now), table, *more, _footer(board, now))


def _most_important(rows: Sequence[Row], most: int) -> list[Row]:
    """Those that fit, in their own order: what runs, has failed or waits before what is done."""
    ordered = sorted(rows, key=lambda row: _BY_IMPORTANCE.index(row.state))
    kept = {row.name for row in ordered[:most]}
    return [row for row in rows if row.name in kept]


def _title(board: Board, now: float) -> Text:
    passed = clock(now - (board.began or now))
    text = f"{board.pipeline}: execution {board.execution_id}, {passed}"
    return Text(text, "bold", no_wrap=True, overflow="ellipsis")


def _footer(board: Board, now: float) -> Text:
    text = f"{board.done}{'' if board.of is None else f' of {board.of}'} done"
    if board.ended is not None:
        text += f", {board.status.lower()}"
    elif (left := board.seconds_left(now)) is not None:
        text += f", {in_words(left)} left"
    return Text(text, "bold", no_wrap=True, overflow="ellipsis")


def _name(row: Row, room: int) -> Text:
    """The name, shortened in its middle: its end tells seeds apart."""
    name, page = row.name, row.links.get("job") or row.links.get("log")
    if len(name) > room:
        name = f"{name[: room - 1 - room // 3]}\N{HORIZONTAL ELLIPSIS}{name[-(room // 3) :]}"
    return Text(name, f"link {page}" if page else "")


def _progress(row: Row, now: float, *, with_bar: bool, no_wrap: bool) -> RenderableType:
    if row.compiling_since is not None:
        return Text(f"compiling, {clock(now - row.compiling_since)}", "magenta")
    if row.said or row.state not in GOING or not row.of:
        return Text(row.said, no_wrap=no_wrap)
    if row.counted == row.of:
        return Text("finishing")
    percent = Text(f"{row.counted / row.of:4.0%}")
    if not with_bar:
        return percent
    both = Table.grid(padding=(0, 1))
    both.add_row(ProgressBar(row.of, row.counted, width=BAR_WIDTH), percent)
    return both


def _time(row: Row, now: float) -> Text:
    if row.state in GOING and row.started is not None:
        return Text(clock(now - row.started))
    return Text(clock(row.seconds) if row.seconds >= 1.0 else "")


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
