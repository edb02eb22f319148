"""A notebook as one script: its code cells one after another, without what only a shell knows."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.check.reading.source import Place, Source, UnparsedError, lines_of, parsed

# `%%time` and the like run the rest of their cell as Python; other cell magics do not.
_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "memit"})
# A cell under one of these is a script, as notebooks for SageMaker write theirs.
_FILE_MAGICS = frozenset({"writefile", "file"})
_SHELL_LINE = re.compile(r"^(\s*)(?:%|!|\?)")
_ASSIGNED_SHELL = re.compile(r"^(\s*)([\w, ]+?)\s*=\s*[!%](?![=])")
_HELP = re.compile(r"^(\s*)[\w.]+\?{1,2}\s*$")


@dataclass(frozen=True)
class Notebook:
    """What was read of a notebook, and which cells were not."""

    source: Source
    unread: tuple[str, ...]


def read_notebook(path: Path, text: str) -> Notebook:
    """Join the code cells. Raises UnparsedError where this is not a notebook."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnparsedError("not a notebook: it is not JSON") from error
    cells = _cells(document)
    language = _language(document)
    if "python" not in language.lower():
        raise UnparsedError(f"not a notebook of Python: its language is {language[:40]!r}")
    lines: list[str] = []
    places: list[Place] = []
    unread: list[str] = []
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        written = _written(cell)
        if written is None:
            unread.append(f"cell {number} was not read: its source is not text")
            continue
        found = without_magics(lines_of(written))
        try:
            parsed("\n".join(found))
        except UnparsedError as error:
            unread.append(f"cell {number} was not read: {error}")
            continue
        lines += found
        places += [Place(line, number) for line in range(1, len(found) + 1)]
    tree = parsed("\n".join(lines))
    return Notebook(Source(path, tuple(lines), tree, tuple(places)), tuple(unread))


def _cells(document: Any) -> list[Any]:
    cells = document.get("cells") if isinstance(document, dict) else None
    if cells is None and isinstance(document, dict):  # the third format keeps them in worksheets
        sheets = document.get("worksheets")
        if isinstance(sheets, list) and all(isinstance(sheet, dict) for sheet in sheets):
            lists = [sheet.get("cells") for sheet in sheets]
            cells = [cell for each in lists if isinstance(each, list) for cell in each]
    if not isinstance(cells, list):
        raise UnparsedError("not a notebook: it has no list of cells")
    return cells


def _language(document: dict[str, Any]) -> str:
    """The language that a notebook names; Python where it names none."""
    metadata = document.get("metadata")
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        there = metadata.get(part) if isinstance(metadata, dict) else None
        named = there.get(key) if isinstance(there, dict) else None
        if isinstance(named, str) and named:
            return named
    return "python"


def _written(cell: dict[str, Any]) -> str | None:
    written = cell.get("source", cell.get("input", ""))
    if isinstance(written, list):
        lines = [line for line in written if isinstance(line, str)]
        return "".join(lines) if len(lines) == len(written) else None
    return written if isinstance(written, str) else None


def without_magics(lines: tuple[str, ...]) -> list[str]:
    """The lines with each line of a shell or a magic made harmless, so that line numbers hold."""
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%"):
        magic, *rest = first[2:].split() or [""]
        writes = magic in _FILE_MAGICS and bool(rest) and rest[-1].strip("\"'").endswith(".py")
        if magic not in _PYTHON_MAGICS and not writes:
            return ["" for _ in lines]
    kept: list[str] = []
    continued = False
    for line in lines:
        shell = _SHELL_LINE.match(line)
        if continued:
            kept.append("")
        elif shell is not None and not _is_modulo(kept):
            kept.append(f"{shell[1]}pass")
        elif (assigned := _ASSIGNED_SHELL.match(line)) is not None:
            kept.append(f"{assigned[1]}{assigned[2]} = None")
        elif (asked := _HELP.match(line)) is not None:
            kept.append(f"{asked[1]}pass")
        else:
            kept.append(line)
            continued = False
            continue
        continued = line.rstrip().endswith("\\")
    return kept


def _is_modulo(kept: list[str]) -> bool:
    """Whether the line before is unfinished, so that a `%` that begins a line is arithmetic."""
    before = next((line for line in reversed(kept) if line.strip()), "")
    return before.rstrip().endswith(("\\", "(", ",", "+", "[", "{"))
