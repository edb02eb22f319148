"""Record what a command shows on a terminal, as a picture that moves (SVG).

    .venv/bin/python tools/record_terminal.py docs/run.svg compilegate run news-topics

The command runs in a pseudo-terminal of 100 columns. The picture shows its screens one after the
other, faster than they were, and stays at the last one. It needs no script and fetches nothing.
"""

from __future__ import annotations

import argparse
import html
import os
import pty
import select
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pyte

COLUMNS, ROWS = 100, 34
SHORTEST = 0.4
"""Seconds between two screens that are kept."""
PLAYS = 14.0
"""Seconds that the picture moves, however long the command took."""
SPACE = "\u00a0"
"""One that no reader of SVG drops beside another."""
CELL, LINE, MARGIN, BAR = 8.4, 18, 16, 34
COLOURS = {
    "default": "#d6deeb",
    "black": "#637777",
    "red": "#ef5350",
    "green": "#66d97a",
    "brown": "#e6c07b",
    "blue": "#82aaff",
    "magenta": "#c792ea",
    "cyan": "#7fdbca",
    "white": "#ffffff",
}


@dataclass(frozen=True)
class Run:
    """Characters of one colour beside each other."""

    column: int
    text: str
    colour: str
    bold: bool


@dataclass(frozen=True)
class Screen:
    """What stood on the terminal, and since when (seconds)."""

    since: float
    lines: tuple[tuple[Run, ...], ...]


def recorded(command: list[str]) -> list[Screen]:
    """Run the command; its screens. Raises CalledProcessError when it fails."""
    terminal = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(terminal)
    ours, theirs = pty.openpty()
    environment = {
        **os.environ, "COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color",
    }  # fmt: skip
    began = time.monotonic()
    program = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    screens: list[Screen] = []
    while _read_into(stream, ours, program):
        now = time.monotonic() - began
        if not screens or now - screens[-1].since >= SHORTEST:
            _keep(screens, terminal, now)
    _keep(screens, terminal, time.monotonic() - began)
    os.close(ours)
    if program.wait():
        raise subprocess.CalledProcessError(program.returncode, command)
    return screens


def _read_into(stream: pyte.ByteStream, ours: int, program: subprocess.Popen[bytes]) -> bool:
    """Show what has come; whether the command goes on."""
    ready, _, _ = select.select([ours], [], [], SHORTEST)
    if not ready:
        return program.poll() is None
    try:
        came = os.read(ours, 65536)
    except OSError:  # Linux's way of saying that the other end is closed
        return False
    stream.feed(came)
    return bool(came)


def _keep(screens: list[Screen], terminal: pyte.Screen, now: float) -> None:
    lines = tuple(_runs(terminal.buffer[row]) for row in range(ROWS))
    if any(lines) and (not screens or screens[-1].lines != lines):
        screens.append(Screen(now, lines))


def _runs(cells: dict[int, pyte.screens.Char]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for column in range(COLUMNS):
        cell = cells[column]
        colour = cell.fg if cell.fg in COLOURS else "default"
        if runs and (runs[-1].colour, runs[-1].bold) == (colour, cell.bold):
            last = runs.pop()
            runs.append(Run(last.column, last.text + cell.data, colour, cell.bold))
        else:
            runs.append(Run(column, cell.data, colour, cell.bold))
    return tuple(_trimmed(each) for each in runs if each.text.strip())


def _trimmed(run: Run) -> Run:
    left = len(run.text) - len(run.text.lstrip())
    return replace(run, column=run.column + left, text=run.text.strip())


def picture(screens: list[Screen], title: str) -> str:
    """The screens as one SVG document."""
    rows = max(number + 1 for each in screens for number, line in enumerate(each.lines) if line)
    width, height = round(COLUMNS * CELL + 2 * MARGIN), rows * LINE + BAR + 2 * MARGIN
    lasts = max(screens[-1].since, 1e-9)
    starts = [PLAYS * each.since / lasts for each in screens]
    groups = []
    for number, (screen, start) in enumerate(zip(screens, starts, strict=True)):
        last = number == len(screens) - 1
        until = (
            ""
            if last
            else f"<set attributeName='opacity' to='0' begin='{starts[number + 1]:.2f}s'/>"
        )
        # Without animation, as in print, the last screen is what shows.
        shown = f"opacity='{1 if last else 0}'"
        hidden = "<set attributeName='opacity' to='0' begin='0s'/>" if last and start else ""
        groups.append(
            f"<g {shown}>{hidden}<set attributeName='opacity' to='1' begin='{start:.2f}s'/>{until}"
            f"{_text(screen)}</g>"
        )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img'>"
        f"<title>{html.escape(title)}</title>"
        f"<rect width='{width}' height='{height}' rx='8' fill='#011627'/>"
        + "".join(
            f"<circle cx='{18 + 20 * place}' cy='18' r='6' fill='{colour}'/>"
            for place, colour in enumerate(("#ef5350", "#e6c07b", "#66d97a"))
        )
        + f"<text x='{width / 2:.0f}' y='23' fill='#8badc1' text-anchor='middle' "
        f"font-family='sans-serif' font-size='13'>{html.escape(title)}</text>"
        "<g font-family='ui-monospace, Menlo, Consolas, monospace' font-size='14'>"
        f"{''.join(groups)}</g></svg>\n"
    )


def _text(screen: Screen) -> str:
    return "".join(
        f"<text x='{MARGIN + run.column * CELL:.1f}' y='{BAR + MARGIN + number * LINE}' "
        f"fill='{COLOURS[run.colour]}' textLength='{len(run.text) * CELL:.1f}' "
        f"lengthAdjust='spacingAndGlyphs' font-weight='{'bold' if run.bold else 'normal'}'>"
        f"{html.escape(run.text).replace(' ', SPACE)}</text>"
        for number, line in enumerate(screen.lines)
        for run in line
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture", type=Path, help="the file to write")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what runs in the terminal")
    options = parser.parse_args()
    title = "$ " + " ".join(options.command)
    made = picture(recorded(options.command), title)
    part = options.picture.with_suffix(".part")
    part.write_text(made, encoding="utf-8")
    part.replace(options.picture)


if __name__ == "__main__":
    main()
