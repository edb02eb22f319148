"""Read scripts and notebooks: which files paths stand for, their text, and their trees."""

from __future__ import annotations

import ast
import codecs
import io
import json
import os
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.errors import CompilegateError

LINE_END = re.compile(r"\r\n|\r|\n")
SUFFIXES = (".py", ".pyw", ".ipynb")

MOST_BYTES = {".ipynb": 50_000_000}
"""The most that is read of a file; a notebook's pictures lie in it."""
_MOST_OF_A_SCRIPT = 2_000_000  # what is larger was written by a program

# Folders with what others wrote, or what a tool made.
SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env", "build",
                             "dist", "__pypackages__"})  # fmt: skip
# `%%time` and the like run the rest of their cell as Python; `%%writefile` makes a script of it.
_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "memit"})
_FILE_MAGICS = frozenset({"writefile", "file"})
_SHELL_LINE = re.compile(r"^(\s*)(?:%|!|\?)")
_ASSIGNED_SHELL = re.compile(r"^(\s*)([\w, ]+?)\s*=\s*[!%](?![=])")
_HELP = re.compile(r"^(\s*)[\w.]+\?{1,2}\s*$")


@dataclass(frozen=True)
class Place:
    """A line in a file, or in a notebook's cell."""

    line: int
    cell: int | None = None


@dataclass(frozen=True)
class Source:
    """A script that was parsed. A notebook's cells are joined into one script."""

    path: Path
    lines: tuple[str, ...]
    tree: ast.Module
    text: str = ""  # the text as it was decoded; "" of a notebook
    encoding: str = ""  # that of the file; "" of a notebook
    places: tuple[Place, ...] = ()  # in a notebook, where each line of the joined script stands

    def place(self, line: int) -> Place:
        """The file's place of a line of the tree."""
        if not self.places:
            return Place(line)
        return self.places[min(max(line, 1), len(self.places)) - 1]


class UnparsedError(CompilegateError):
    """Text is not Python. The message is one clause that says where and why."""


def lines_of(text: str) -> tuple[str, ...]:
    """The lines as Python counts them; a form feed does not end one."""
    return tuple(LINE_END.split(text))


def parsed(text: str) -> ast.Module:
    """The tree of a script. Raises UnparsedError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes: not this check's business
            return ast.parse(text)
    except SyntaxError as error:
        at = f"line {error.lineno}: " if error.lineno else ""
        raise UnparsedError(f"{at}{error.msg}") from error
    except (RecursionError, MemoryError) as error:
        raise UnparsedError("its expressions are nested too deeply") from error
    except ValueError as error:  # null bytes, in older Pythons
        raise UnparsedError(str(error)) from error


@dataclass(frozen=True)
class Unread:
    """A file, or a cell of a notebook, that was not checked, and why."""

    path: Path
    reason: str

    @property
    def sentence(self) -> str:
        """One line for a terminal."""
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class Read:
    """The sources that paths stand for, and what was not read of them."""

    sources: tuple[Source, ...]
    unread: tuple[Unread, ...]
    root: Path  # the folder that imports are looked up from, beside the importing file's own


def read_paths(paths: Sequence[Path]) -> Read:
    """Read files and folders, each file once; what cannot be read is reported."""
    unread: list[Unread] = []
    files: dict[Path, Path] = {}
    for path in paths:
        for file in _within(path, unread):
            files.setdefault(file.absolute(), file)
    read = (_read(file, unread) for file in files.values())
    sources = tuple(each for each in read if each is not None)
    folders = [path if path.is_dir() else path.parent for path in paths]
    common = os.path.commonpath([folder.absolute() for folder in folders]) if folders else "."
    return Read(sources, tuple(unread), Path(common))


def _within(path: Path, unread: list[Unread]) -> Iterator[Path]:
    def refused(error: OSError) -> None:
        place = Path(error.filename) if error.filename else path
        unread.append(Unread(place, f"cannot be read: {error.strerror}"))

    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as error:
        return refused(error)
    if not exists:
        unread.append(Unread(path, "there is no such file or folder"))
    elif not is_folder:
        yield path
    for folder, folders, names in os.walk(path, onerror=refused) if is_folder else ():
        folders[:] = sorted(x for x in folders if x not in SKIPPED_FOLDERS and x[0] != ".")
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(SUFFIXES))
    return None


def _read(path: Path, unread: list[Unread]) -> Source | None:
    try:
        if not path.is_file():
            raise UnparsedError("not a file that can be read")
        most, size = MOST_BYTES.get(path.suffix, _MOST_OF_A_SCRIPT), path.stat().st_size
        if size > most:
            raise UnparsedError(f"{size:,} bytes are more than the {most:,} that are read of one")
        raw = path.read_bytes()
        if path.suffix == ".ipynb":
            return _notebook(path, raw.decode("utf-8-sig"), unread)
        first = raw.split(b"\n", 1)[0]
        if path.suffix not in SUFFIXES and not (first[:2] == b"#!" and b"python" in first):
            raise UnparsedError("no Python script: its name does not end in .py or .ipynb")
        text, encoding = _decoded(raw)
        return Source(path, lines_of(text), parsed(text), text, encoding)
    except UnparsedError as error:
        reason = f"not checked: {error}"
    except UnicodeDecodeError as error:
        reason = f"not checked: not {error.encoding} text at byte {error.start}"
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    unread.append(Unread(path, reason))
    return None


def _decoded(raw: bytes) -> tuple[str, str]:
    """The text in the encoding that its first lines declare, and that encoding."""
    if b"\0" in raw[:4096]:
        raise UnparsedError("no Python script: it holds null bytes")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return codecs.decode(raw, encoding), encoding
    except (SyntaxError, LookupError) as error:
        raw.decode("utf-8")  # without a declaration, what is wrong is the text
        raise UnparsedError(f"its encoding is unknown: {error}") from error


# ---- notebooks


def _notebook(path: Path, text: str, unread: list[Unread]) -> Source:
    """The code cells as one script, one after another. Raises UnparsedError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnparsedError("not a notebook: it is not JSON") from error
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise UnparsedError("not a notebook: it has no list of cells")
    metadata = document.get("metadata")
    tables = metadata if isinstance(metadata, dict) else {}
    keys = (("language_info", "name"), ("kernelspec", "language"))
    named = [x.get(key) for part, key in keys if isinstance(x := tables.get(part), dict)]
    language = next((each for each in named if isinstance(each, str) and each), "python")
    if "python" not in language.lower():
        raise UnparsedError(f"not a notebook of Python: its language is {language[:40]!r}")
    lines: list[str] = []
    places: list[Place] = []
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        written = cell.get("source", "")
        written = "".join(map(str, written)) if isinstance(written, list) else str(written)
        found = without_magics(lines_of(written))
        try:
            parsed("\n".join(found))
        except UnparsedError as error:
            unread.append(Unread(path, f"cell {number} was not read: {error}"))
            continue
        lines += found
        places += [Place(line, number) for line in range(1, len(found) + 1)]
    return Source(path, tuple(lines), parsed("\n".join(lines)), places=tuple(places))


def without_magics(lines: tuple[str, ...]) -> list[str]:
    """Replace each line of a shell or a magic by harmless Python, so that line numbers hold."""
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%"):
        magic, *rest = first[2:].split() or [""]
        writes = magic in _FILE_MAGICS and bool(rest) and rest[-1].strip("\"'").endswith(".py")
        if magic not in _PYTHON_MAGICS and not writes:
            return ["" for _ in lines]
    result: list[str] = []
    continued = False
    for line in lines:
        harmless = line
        before = next((each for each in reversed(result) if each.strip()), "").rstrip()
        # A `%` that begins a line is arithmetic where the line before is unfinished.
        modulo = before.endswith(("\\", "(", ",", "+", "[", "{"))
        if continued:
            harmless = ""
        elif (shell := _SHELL_LINE.match(line)) is not None and not modulo:
            harmless = f"{shell[1]}pass"
        elif (assigned := _ASSIGNED_SHELL.match(line)) is not None:
            harmless = f"{assigned[1]}{assigned[2]} = None"
        elif (help_line := _HELP.match(line)) is not None:
            harmless = f"{help_line[1]}pass"
        result.append(harmless)
        continued = harmless is not line and line.rstrip().endswith("\\")
    return result
