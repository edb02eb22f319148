"""The tutorials, line by line: files are written, commands run, their output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# One took nine minutes of a whole run, and where the machine is busy its comparisons are repeated.
pytestmark = [pytest.mark.slow, pytest.mark.environments, pytest.mark.timeout(2700)]

ROOT = Path(__file__).parents[2]
TUTORIALS = [
    ("first-workload",),
    ("own-programs", "registered-model"),  # the second goes on where the first ends
    ("port-a-script",),
    ("inconclusive",),
    ("miscompilations",),
]
BUSY = "run again when the machine is quiet"
QUIETER_TIMES = 3
_BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of the page: a file to save, commands to run, or what is then seen."""

    language: str
    path: str | None
    text: str


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        language, path, text = found.groups()
        yield Block(language, path, text)


def run(commands: str, folder: Path) -> str:
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
    }
    ended = subprocess.run(
        ["/bin/sh", "-e", "-c", commands],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{commands}\n{ended.stdout}"
    return ended.stdout


def run_until_quiet(commands: str, folder: Path) -> str:
    """What a reader does whose verdict says that the machine was too busy: again, jobs and all."""
    output = run(commands, folder)
    for _ in range(QUIETER_TIMES):
        if BUSY not in output:
            break
        output = run(commands.replace("compilegate run", "compilegate run --no-cache"), folder)
    return output


def missing(expected: str, output: str) -> list[str]:
    """The expected lines that the output lacks, in their order; `...` is any text."""
    lines = iter(output.splitlines())
    lacking = []
    for line in expected.splitlines():
        pattern = re.compile(re.escape(line).replace(re.escape("..."), ".*"))
        if line != "..." and not any(pattern.fullmatch(each) for each in lines):
            lacking.append(line)
    return lacking


@pytest.mark.parametrize("pages", TUTORIALS, ids=lambda pages: pages[0])
def test_a_tutorial_holds_line_by_line(pages: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for page in pages:
        output, ran = "", 0
        for block in blocks(page):
            if block.path is not None:
                path = tmp_path / block.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            elif block.language == "sh":
                output, ran = run_until_quiet(block.text, tmp_path), ran + 1
            else:
                assert block.language == "text", f"{page}: {block}"
                assert missing(block.text, output) == [], output
        assert ran >= 2, page
