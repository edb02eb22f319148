"""Pages followed line by line: files are written, commands run as printed, their output compared.

A block with a path is a file to save, a block of `sh` runs in a shell of its own, a block of `text`
is what its commands print, where `...` stands for anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUSY = "run again when the machine is quiet"
QUIETER_TIMES = 3
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\s`]*)(?: (?P<path>\S+))?\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
Run = Callable[[str], str]
"""Runs commands in a shell, and returns what they print."""


@dataclass(frozen=True)
class Block:
    """A block of a page: a file to save, commands to run, or what is then seen."""

    section: str
    """The heading that it stands below."""
    language: str
    path: str | None
    text: str


def blocks(page: str) -> Iterator[Block]:
    """Those of a page, such as `docs/deploy.md`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    for found in _BLOCK.finditer(text):
        above = [each[1] for each in headings if each.start() < found.start()]
        lines = found["text"].splitlines()
        body = "\n".join(line.removeprefix(found["indent"]) for line in lines) + "\n"
        yield Block(above[-1] if above else "", found["language"], found["path"], body)


def follow(page: str, folder: Path, run: Run, sections: Sequence[str] = ()) -> int:
    """Go through a page, or some of its sections, in a folder; returns how many blocks were run."""
    output, ran = "", 0
    for block in blocks(page):
        if sections and block.section not in sections:
            continue
        if block.path is not None:
            path = folder / block.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            output, ran = _run_until_quiet(block.text, run), ran + 1
        elif block.language == "text":
            assert _missing(block.text, output) == [], output
    return ran


def _run_until_quiet(commands: str, run: Run) -> str:
    """What a reader does whose verdict says that the machine was too busy: again, jobs and all."""
    output = run(commands)
    for _ in range(QUIETER_TIMES):
        if BUSY not in output:
            break
        output = run(commands.replace("compilegate run", "compilegate run --no-cache"))
    return output


def _missing(expected: str, output: str) -> list[str]:
    """The expected lines that the output lacks, in their order; `...` is any text."""
    lines = iter(output.splitlines())
    lacking = []
    for line in expected.splitlines():
        pattern = re.compile(re.escape(line).replace(re.escape("..."), ".*"))
        if line != "..." and not any(pattern.fullmatch(each) for each in lines):
            lacking.append(line)
    return lacking
