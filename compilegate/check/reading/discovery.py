"""Which files a path stands for, and their text."""

from __future__ import annotations

import codecs
import io
import os
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.check.findings import Unread
from compilegate.check.reading.notebooks import read_notebook
from compilegate.check.reading.source import Source, UnparsedError, lines_of, parsed

SUFFIXES = (".py", ".pyw", ".ipynb")

MOST_BYTES = 2_000_000
"""The most of a script that is read; what is larger was written by a program."""

MOST_NOTEBOOK_BYTES = 50_000_000
"""The most of a notebook that is read; its pictures lie in it."""

# Folders with what others wrote, or what a tool made.
SKIPPED_FOLDERS = frozenset(
    {
        "__pycache__", "node_modules", "site-packages", "venv", "env", "build", "dist",
        "__pypackages__",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Read:
    """The sources that paths stand for, and what was not read of them."""

    sources: tuple[Source, ...]
    unread: tuple[Unread, ...]
    root: Path
    """The folder that imports are looked up from, beside the importing file's own."""


def read_paths(paths: Sequence[Path]) -> Read:
    """Read files and folders; what cannot be read is told, and the rest is still read."""
    sources: list[Source] = []
    unread: list[Unread] = []
    for path in _files(paths, unread):
        found = _read(path, unread)
        if found is not None:
            sources.append(found)
    folders = [path if path.is_dir() else path.parent for path in paths]
    common = os.path.commonpath([folder.absolute() for folder in folders]) if folders else "."
    return Read(tuple(sources), tuple(unread), Path(common))


def _files(paths: Sequence[Path], unread: list[Unread]) -> Iterator[Path]:
    seen: set[Path] = set()
    for path in paths:
        for file in _within(path, unread):
            known = file.absolute()
            if known not in seen:
                seen.add(known)
                yield file


def _within(path: Path, unread: list[Unread]) -> Iterator[Path]:
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as error:
        unread.append(Unread(path, f"cannot be read: {error.strerror}"))
        return
    if not exists:
        unread.append(Unread(path, "there is no such file or folder"))
    elif not is_folder:
        yield path
    else:

        def refused(error: OSError) -> None:
            place = Path(error.filename) if error.filename else path
            unread.append(Unread(place, f"cannot be read: {error.strerror}"))

        for folder, folders, names in os.walk(path, onerror=refused):
            folders[:] = sorted(
                name for name in folders if name not in SKIPPED_FOLDERS and name[0] != "."
            )
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    yield Path(folder, name)


def _read(path: Path, unread: list[Unread]) -> Source | None:
    try:
        if not path.is_file():
            raise UnparsedError("not a file that can be read")
        notebook = path.suffix == ".ipynb"
        most = MOST_NOTEBOOK_BYTES if notebook else MOST_BYTES
        size = path.stat().st_size
        if size > most:
            raise UnparsedError(f"{size:,} bytes are more than the {most:,} that are read of one")
        raw = path.read_bytes()
        if notebook:
            found = read_notebook(path, raw.decode("utf-8-sig"))
            unread += [Unread(path, sentence) for sentence in found.unread]
            return found.source
        if path.suffix not in SUFFIXES and not _says_python(raw):
            raise UnparsedError("no Python script: its name does not end in .py or .ipynb")
        text = _decoded(raw)
        return Source(path, lines_of(text), parsed(text))
    except UnparsedError as error:
        unread.append(Unread(path, f"not checked: {error}"))
    except UnicodeDecodeError as error:
        unread.append(Unread(path, f"not checked: not {error.encoding} text at byte {error.start}"))
    except OSError as error:
        unread.append(Unread(path, f"cannot be read: {error.strerror}"))
    return None


def _says_python(raw: bytes) -> bool:
    first = raw.split(b"\n", 1)[0]
    return first.startswith(b"#!") and b"python" in first


def _decoded(raw: bytes) -> str:
    """The text in the encoding that its first lines declare."""
    if b"\0" in raw[:4096]:
        raise UnparsedError("no Python script: it holds null bytes")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return codecs.decode(raw, encoding)
    except SyntaxError as error:
        raw.decode("utf-8")  # without a declaration, what is wrong is the text
        raise UnparsedError(f"its encoding is unknown: {error}") from error
    except LookupError as error:
        raise UnparsedError(f"its encoding is unknown: {error}") from error


def is_file_beside(script: Path, name: str) -> bool:
    """Whether a file lies in a script's folder."""
    try:
        return script.with_name(name).is_file()
    except OSError:
        return False
