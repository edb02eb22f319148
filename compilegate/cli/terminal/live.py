"""The live table of an execution: one row for each job, drawn again every second on a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from compilegate.cli.terminal.board import Board, Row, State
from compilegate.execution.events import (
    EnvironmentBuilding,
    Event,
    ExecutionEnded,
    ExecutionStarted,
    PathsChosen,
    StepEnded,
    StepRetried,
    StepStarted,
    StepWaiting,
    StopAsked,
)

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
    State.WAITING: "dim",
    State.RUNNING: "cyan",
    State.RETRYING: "yellow",
    State.DONE: "green",
    State.CACHED: "green",
    State.FAILED: "bold red",
    State.STOPPED: "yellow",
    State.SKIPPED: "dim",
}
_FIRST = (State.RUNNING, State.RETRYING, State.FAILED, State.STOPPED, State.WAITING)
"""What a low terminal shows first; what is done and skipped comes last."""


class LiveTable:
    """A listener that shows the execution as a table, from its start to its end.

    ``with LiveTable(console) as listener:``; the whole table stays on the screen.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._board = Board()
        self._lock = threading.Lock()  # the frames are drawn by another thread
        self._live: Live | None = None

    def __enter__(self) -> LiveTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._board.hear(event)
        match event:
            case ExecutionStarted():
                self._start()
            case EnvironmentBuilding():
                self._console.print(
                    f"building the environment of {event.image}; log: {event.log}",
                    markup=False,
                    highlight=False,
                )
            case StopAsked():
                self._console.print(event.sentence, markup=False, highlight=False)
            case PathsChosen():
                if not event.own_root:  # what works as in a container needs no word
                    self._console.print(event.sentence, markup=False, highlight=False)
            case StepWaiting():
                waits = f"{event.step}: {event.sentence}"
                self._console.print(waits, markup=False, highlight=False)
            case StepRetried():
                said = self._board.rows[event.step].said
                self._console.print(f"{event.step}: {said}", markup=False, highlight=False)
            case ExecutionEnded():
                self._stop()
            case StepStarted() | StepEnded() if self._live is not None:
                self._live.refresh()
            case _:
                pass  # the next frame shows it

    def _start(self) -> None:
        self._live = Live(
            console=self._console,
            get_renderable=self._frame,
            refresh_per_second=DRAWN_PER_SECOND,
            transient=True,
        )
        self._live.start(refresh=True)

    def _stop(self) -> None:
        """Take the live frame away, and leave the whole table in its place."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._console.print(drawn(self._board, self._console.width, None, time.time()))

    def _frame(self) -> RenderableType:
        with self._lock:
            rows = max(1, self._console.height - AROUND_ROWS)
            return drawn(self._board, self._console.width, rows, time.time())


def drawn(board: Board, width: int, most_rows: int | None, now: float) -> RenderableType:
    """The board as a frame of that width; `most_rows` is how many fit, None for all of them."""
    now = board.ended or now
    rows = list(board.rows.values())
    shown = rows if most_rows is None else _most_important(rows, most_rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("STEP", no_wrap=True, overflow="ellipsis")
    table.add_column("STATE", no_wrap=True, min_width=8)
    progress = BAR_WIDTH + 5 if width >= WIDE else len("compiling, 1:52")
    both = width - _STATE_WIDTH - (_TIME_WIDTH if width >= MEDIUM else 0) - 2
    longest = max((len(row.name) for row in shown), default=0)
    room = max(_LEAST_OF_A_NAME, min(longest, both - progress))
    table.add_column(  # the table that stays cuts no reason off
        "PROGRESS",
        no_wrap=most_rows is not None,
        overflow="ellipsis" if most_rows is not None else "fold",
        min_width=progress,
        max_width=max(progress, both - room),
    )
    if width >= MEDIUM:
        table.add_column("TIME", justify="right", no_wrap=True, min_width=5)
    for row in shown:
        cells: list[RenderableType] = [
            _name(row, room),
            Text(row.state, _STYLES[row.state]),
            _progress(row, now, with_bar=width >= WIDE),
        ]
        if width >= MEDIUM:
            cells.append(_time(row, now))
        table.add_row(*cells)
    lines: list[RenderableType] = [_title(board, now), table]
    hidden = len(rows) - len(shown)
    if hidden:
        lines.append(Text(f"and {hidden} more", "dim"))
    lines.append(_footer(board, now))
    return Group(*lines)


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


def _most_important(rows: Sequence[Row], most: int) -> list[Row]:
    """Those that fit, in their own order: what runs, has failed or waits before what is done."""
    if len(rows) <= most:
        return list(rows)
    rank = {state: number for number, state in enumerate(_FIRST)}
    ordered = sorted(rows, key=lambda row: rank.get(row.state, len(rank)))
    kept = {row.name for row in ordered[:most]}
    return [row for row in rows if row.name in kept]


def _title(board: Board, now: float) -> Text:
    passed = clock(now - (board.began or now))
    text = f"{board.pipeline}: execution {board.execution_id}, {passed}"
    return Text(text, "bold", no_wrap=True, overflow="ellipsis")


def _footer(board: Board, now: float) -> Text:
    of = board.of
    parts = [f"{board.done} done" if of is None else f"{board.done} of {of} done"]
    if board.ended is not None:
        parts.append(board.status.lower())
    else:
        left = board.seconds_left(now)
        if left is not None:
            parts.append(f"{in_words(left)} left")
    return Text(", ".join(parts), "bold", no_wrap=True, overflow="ellipsis")


def _name(row: Row, room: int) -> Text:
    """The name, shortened in its middle: its end tells seeds apart."""
    name, page = row.name, row.links.get("job") or row.links.get("log")
    if len(name) > room:
        name = f"{name[: room - 1 - room // 3]}\N{HORIZONTAL ELLIPSIS}{name[-(room // 3) :]}"
    return Text(name, f"link {page}" if page else "")


def _progress(row: Row, now: float, *, with_bar: bool) -> RenderableType:
    if row.compiling_since is not None:
        return Text(f"compiling, {clock(now - row.compiling_since)}", "magenta")
    if row.said:
        return Text(row.said)
    if not row.state.going or not row.of:
        return Text("")
    if row.counted == row.of:
        return Text("finishing")
    percent = Text(f"{row.counted / row.of:4.0%}")
    if not with_bar:
        return percent
    both = Table.grid(padding=(0, 1))
    both.add_row(ProgressBar(row.of, row.counted, width=BAR_WIDTH), percent)
    return both


def _time(row: Row, now: float) -> Text:
    if row.state.going and row.started is not None:
        return Text(clock(now - row.started))
    return Text(clock(row.seconds) if row.state.ended and row.seconds >= 1.0 else "")
