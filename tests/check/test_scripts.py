"""Each rule finds the lines that its scripts mark, and no others.

A script of scripts/RULE.py begins at `# ==== fires: WHAT` or `# ==== clean: WHAT`, with `[COMPILER,
...]` before the colon where it is not for all compilers of the rule. A line in which the rule finds
something ends with `# <- RULE`. `# ---- NAME.py` begins another file. What stands before the first
script begins each of them. `after OWNER/NAME PATH` names the public script that one is a short
version of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compilegate.check.checking import check_paths
from compilegate.check.rules import BY_NAME, RULES

SCRIPTS = Path(__file__).with_name("scripts")
HEAD = re.compile(r"^# ==== (fires|clean)(?: \[(.+)\])?: (.+)\n", re.MULTILINE)
FILE = re.compile(r"^# ---- (\S+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Golden:
    """One script."""

    rule: str
    fires: bool
    compilers: tuple[str, ...]
    what: str
    files: dict[str, str]

    @property
    def marked(self) -> set[tuple[str, int]]:
        """The files and lines in which the rule finds something."""
        return {
            (name, number)
            for name, text in self.files.items()
            for number, line in enumerate(text.splitlines(), start=1)
            if line.endswith(f"# <- {self.rule}")
        }


def read(path: Path) -> Iterator[Golden]:
    imports, *parts = HEAD.split(path.read_text(encoding="utf-8"))
    for sort, compilers, what, text in zip(*(parts[at::4] for at in range(4)), strict=True):
        names = compilers.split(", ") if compilers else BY_NAME[path.stem].compilers
        named = ["train.py", *FILE.split(imports + text)]
        files = dict(zip(named[::2], named[1::2], strict=True))
        yield Golden(path.stem, sort == "fires", tuple(names), what, files)


GOLDEN = [each for path in sorted(SCRIPTS.glob("*.py")) for each in read(path)]


def found(folder: Path, files: dict[str, str], rule: str, compiler: str) -> set[tuple[str, int]]:
    """The files and lines in which a rule finds something."""
    for name, text in files.items():
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_text(text, encoding="utf-8")
    checked = check_paths([folder], (compiler,))
    assert checked.unread == ()
    return {
        (each.path.relative_to(folder).as_posix(), each.line)
        for each in checked.findings
        if each.rule == rule
    }


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda each: f"{each.rule}: {each.what}")
def test_a_rule_finds_the_marked_lines_and_no_others(golden: Golden, tmp_path: Path) -> None:
    assert bool(golden.marked) == golden.fires
    for compiler in golden.compilers:
        places = found(tmp_path, golden.files, golden.rule, compiler)
        assert (compiler, places) == (compiler, golden.marked)


def test_each_rule_has_scripts_of_both_sorts_after_public_ones() -> None:
    public = {(each.rule, each.fires) for each in GOLDEN if ", after " in each.what}
    assert public == {(each.name, sort) for each in RULES for sort in (True, False)}
