"""Take the README's pictures: a command in a terminal (SVG, which moves) and a page (PNG).

    .venv/bin/python tools/pictures.py terminal docs/run.svg compilegate run digits-cnn
    .venv/bin/python tools/pictures.py page docs/report.png [REPORT.html]

The command runs in a pseudo-terminal of 100 columns; the picture shows its screens faster than they
were, and stays at the last one. It needs no script and fetches nothing. A page is shown as a
browser shows its top, by default that of the latest execution in .compilegate; `make browser`
installs the browser.
"""

from __future__ import annotations

import argparse
import html
import os
import pty
import select
import subprocess
import time
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

import pyte

ROOT = Path(__file__).parents[1]
CHROMIUM = ROOT / "tests" / "report" / "browser" / "node_modules" / "chromium" / "chromium"
PAGE_SIZE = {"width": 1180, "height": 1300}
COLUMNS, ROWS = 100, 34
SHORTEST = 0.4
"""Seconds between two recorded screens."""
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
class Screen:
    """The terminal's lines as SVG, and since when (seconds)."""

    since: float
    lines: tuple[str, ...]


def record(command: list[str]) -> list[Screen]:
    """Run the command; returns its screens. Raises CalledProcessError when it fails."""
    terminal = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(terminal)
    ours, theirs = pty.openpty()
    size = {"COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    began = time.monotonic()
    program = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **size}
    )
    os.close(theirs)
    screens: list[Screen] = []
    running = True
    while running:
        running = _read_into(stream, ours, program)
        now = time.monotonic() - began
        if running and screens and now - screens[-1].since < SHORTEST:
            continue
        lines = tuple(_line(terminal.buffer[row], row) for row in range(ROWS))
        if any(lines) and (not screens or screens[-1].lines != lines):
            screens.append(Screen(now, lines))
    os.close(ours)
    if program.wait():
        raise subprocess.CalledProcessError(program.returncode, command)
    return screens


def _read_into(stream: pyte.ByteStream, ours: int, program: subprocess.Popen[bytes]) -> bool:
    """Feed the terminal what the program printed; whether the program continues."""
    ready, _, _ = select.select([ours], [], [], SHORTEST)
    if not ready:
        return program.poll() is None
    try:
        printed = os.read(ours, 65536)
    except OSError:  # Linux's way of saying that the other end is closed
        return False
    stream.feed(printed)
    return bool(printed)


def _line(cells: dict[int, pyte.screens.Char], row: int) -> str:
    """One line of the terminal: a text for each run of characters of one colour."""

    def look(column: int) -> tuple[str, bool]:
        cell = cells[column]
        return cell.fg if cell.fg in COLOURS else "default", cell.bold

    texts = []
    for (colour, bold), columns in groupby(range(COLUMNS), look):
        first, *others = columns
        run = "".join(cells[column].data for column in (first, *others))
        text = run.strip()
        left = first + len(run) - len(run.lstrip())
        if text:
            texts.append(
                f"<text x='{MARGIN + left * CELL:.1f}' y='{BAR + MARGIN + row * LINE}' "
                f"fill='{COLOURS[colour]}' textLength='{len(text) * CELL:.1f}' "
                f"lengthAdjust='spacingAndGlyphs' font-weight='{'bold' if bold else 'normal'}'>"
                f"{html.escape(text).replace(' ', SPACE)}</text>"
            )
    return "".join(texts)


def moving_picture(screens: list[Screen], title: str) -> str:
    """The screens as one SVG document. Without animation, as in print, the last one shows."""
    rows = max(row + 1 for each in screens for row, line in enumerate(each.lines) if line)
    width, height = round(COLUMNS * CELL + 2 * MARGIN), rows * LINE + BAR + 2 * MARGIN
    starts = [PLAYS * each.since / max(screens[-1].since, 1e-9) for each in screens]

    def opacity(value: int, begin: float) -> str:
        return f"<set attributeName='opacity' to='{value}' begin='{begin:.2f}s'/>"

    groups = [
        f"<g opacity='0'>{opacity(1, start)}{opacity(0, end)}{''.join(screen.lines)}</g>"
        for screen, (start, end) in zip(screens, pairwise(starts), strict=False)
    ]
    hidden = opacity(0, 0) if len(screens) > 1 else ""
    groups.append(
        f"<g opacity='1'>{hidden}{opacity(1, starts[-1])}{''.join(screens[-1].lines)}</g>"
    )
    circles = "".join(
        f"<circle cx='{18 + 20 * place}' cy='18' r='6' fill='{colour}'/>"
        for place, colour in enumerate(("#ef5350", "#e6c07b", "#66d97a"))
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img'>"
        f"<title>{html.escape(title)}</title>"
        f"<rect width='{width}' height='{height}' rx='8' fill='#011627'/>{circles}"
        f"<text x='{width / 2:.0f}' y='23' fill='#8badc1' text-anchor='middle' "
        f"font-family='sans-serif' font-size='13'>{html.escape(title)}</text>"
        "<g font-family='ui-monospace, Menlo, Consolas, monospace' font-size='14'>"
        f"{''.join(groups)}</g></svg>\n"
    )


def take_page(page: Path, picture: Path) -> None:
    """Write the PNG of a page's top."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  of `page` alone

    with sync_playwright() as playwright:
        libraries = {**os.environ, "LD_LIBRARY_PATH": str(CHROMIUM.parent / "lib")}
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), env=libraries)
        shown = browser.new_page(viewport=PAGE_SIZE, color_scheme="light")
        shown.goto(page.resolve().as_uri())
        shown.screenshot(path=str(picture))
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind in ("terminal", "page"):
        kinds.add_parser(kind).add_argument("picture", type=Path, help="the file to write")
    kinds.choices["terminal"].add_argument("command", nargs=argparse.REMAINDER)
    kinds.choices["page"].add_argument("page", type=Path, nargs="?")
    options = parser.parse_args()
    if options.kind == "page":
        pages = (ROOT / ".compilegate" / "executions").glob("*/report.html")
        take_page(options.page or max(pages, key=lambda it: it.stat().st_mtime), options.picture)
        return
    made = moving_picture(record(options.command), "$ " + " ".join(options.command))
    part = options.picture.with_suffix(".part")
    part.write_text(made, encoding="utf-8")
    part.replace(options.picture)


if __name__ == "__main__":
    main()
