"""Raw data that is a folder: images, arrays, anything, in as many folders as there are.

The folder's identity is that of its content: the path and the sha256 of every file. Hidden files
are left out, since programs put them there and no person means them. A link is followed where it
leads to another file of the folder; elsewhere it could lead to anything that this machine holds.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compilegate.datasets.raw_data import Announce, DatasetError, identity_of, sha256_of

MOST_FILES = 50_000
MOST_BYTES = 50_000_000_000
LONGEST_PATH = 700
"""Bytes in UTF-8. A key in the object store has at most 1024, with what stands before."""

_LARGER = (
    "put larger data into the object store, and name its prefix in the pipeline's parameter Data"
)


@dataclass(frozen=True)
class _Found:
    """A file as it was when the folder was read."""

    path: Path
    """What holds its content: the file itself, or what a link leads to."""
    size: int
    changed: int
    """When, in nanoseconds."""


class FolderFiles:
    """All files below a folder, each under its path there."""

    def __init__(self, folder: Path, *, beside: Path) -> None:
        """`beside` is the folder of the workload's file. Raises DatasetError."""
        if not folder.is_dir():
            raise DatasetError(
                f"data.folder: {folder} is not a folder, allowed: one with a path relative to the "
                "workload's file"
            )
        self._root = folder.resolve()
        if beside.resolve().is_relative_to(self._root):
            raise DatasetError(
                f"data.folder: {folder} holds the workload's own file, allowed: a folder that "
                "holds the data alone, since its content identifies the data"
            )
        self._files = self._read()

    @cached_property
    def identity(self) -> str:
        parts: list[str] = []
        for name, found in self._files.items():
            try:
                parts += (name, sha256_of(found.path))
            except OSError as error:
                raise DatasetError(
                    f"data.folder: {self._root / name} cannot be read: {error.strerror}"
                ) from error
        return identity_of("folder", *parts)

    def is_whole(self, names: AbstractSet[str]) -> bool:
        return self._files.keys() <= names

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        if self._read() != self._files:
            raise DatasetError(
                f"data.folder: {self._root} has changed since it was read, allowed: data that stay "
                "as they are meanwhile; run again"
            )
        return {name: found.path for name, found in self._files.items()}

    def _read(self) -> dict[str, _Found]:
        found: dict[str, _Found] = {}
        size = 0
        for path in _files_below(self._root):
            name = path.relative_to(self._root).as_posix()
            self._check_name(name)
            found[name] = self._found(path)
            size += found[name].size
            if len(found) > MOST_FILES or size > MOST_BYTES:
                raise DatasetError(
                    f"data.folder: {self._root} holds more than {MOST_FILES:,} files or "
                    f"{MOST_BYTES:,} bytes, allowed: fewer; {_LARGER}"
                )
        if not found:
            raise DatasetError(
                f"data.folder: {self._root} holds no file, allowed: a folder with data in it "
                "(hidden files do not count)"
            )
        return dict(sorted(found.items()))

    def _found(self, path: Path) -> _Found:
        try:
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                path = self._followed(path)
                status = path.lstat()
        except (OSError, RuntimeError) as error:  # a link that leads nowhere, or to itself
            raise DatasetError(f"data.folder: {path} cannot be read: {error}") from error
        if not stat.S_ISREG(status.st_mode):
            raise DatasetError(
                f"data.folder: {path} is no plain file, allowed: files, folders, and links to "
                "files of the folder"
            )
        return _Found(path, status.st_size, status.st_mtime_ns)

    def _followed(self, link: Path) -> Path:
        target = link.resolve(strict=True)
        if not target.is_relative_to(self._root):
            raise DatasetError(
                f"data.folder: {link} is a link to {target}, allowed: links to files of the same "
                "folder; put the file itself there"
            )
        return target

    def _check_name(self, name: str) -> None:
        try:
            length = len(name.encode())
        except UnicodeEncodeError as error:
            raise DatasetError(
                f"data.folder: {self._root} holds a file whose name is not UTF-8 ({name!r}), "
                "allowed: names in UTF-8"
            ) from error
        if length > LONGEST_PATH or not name.isprintable() or "\\" in name:
            raise DatasetError(
                f"data.folder: {self._root} holds {name!r}, allowed: paths of at most "
                f"{LONGEST_PATH} bytes without control characters and backslashes"
            )


def _files_below(root: Path) -> Iterator[Path]:
    """All that is no folder, except what is hidden. Links to folders are not followed."""

    def refuse(error: OSError) -> None:
        raise DatasetError(
            f"data.folder: {error.filename} cannot be read: {error.strerror}"
        ) from error

    for parent, folders, names in os.walk(root, onerror=refuse):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        if links:
            raise DatasetError(
                f"data.folder: {Path(parent, links[0])} is a link to a folder, allowed: links to "
                "files of the folder; put the folder itself there"
            )
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            if not name.startswith("."):
                yield Path(parent, name)
