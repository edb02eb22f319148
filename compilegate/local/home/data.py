"""Folders and files of this machine that stand for what lies in S3.

Each file gets a symbolic link in the store. A job's input is a copy of what the link leads to, and
an object that is stored takes the link's place: nothing is ever written through one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from compilegate.local.errors import ExecutionError, ObjectStoreError
from compilegate.local.home.object_store import ObjectStore


def place_data(store: ObjectStore, uri: str, where: Path) -> int:
    """Let `where`, a file or a folder, stand for what lies at `uri`; returns how many files it has.

    Raises ExecutionError when it has none, or when the store holds an object of its own there.
    """
    try:
        target = store.path(uri)
    except ObjectStoreError as error:
        raise ExecutionError(f"--data: {error}") from error
    source = where.expanduser().absolute()
    wanted = dict(_links(source, target))
    if not wanted:
        found = "no files" if source.is_dir() else "nothing"
        raise ExecutionError(f"--data: {where} holds {found}, allowed: a file or a folder of files")
    for link, file in wanted.items():
        if _occupied(link):
            raise ExecutionError(
                f"--data: {link} is an object that was stored there; remove it, or let {file} "
                "stand for another URI"
            )
    _drop_links(target, keep=wanted)
    for link, file in wanted.items():
        _link(link, file)
    return len(wanted)


def _links(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    if source.is_file():
        yield target, source
        return
    for parent, _, names in os.walk(source, followlinks=True):
        for name in sorted(names):
            file = Path(parent) / name
            if file.is_file():
                yield target / file.relative_to(source), file


def _occupied(link: Path) -> bool:
    """Whether something is in the way that is no link; also a file where a folder must be."""
    if link.exists() and not link.is_symlink():
        return True
    return any(parent.is_file() and not parent.is_symlink() for parent in link.parents)


def _drop_links(target: Path, *, keep: dict[Path, Path]) -> None:
    """Remove what an earlier folder at the same place has left."""
    links = [target] if target.is_symlink() else sorted(target.rglob("*"))
    for path in links:
        if path.is_symlink() and path not in keep:
            path.unlink()


def _link(link: Path, file: Path) -> None:
    if link.is_symlink():
        if link.readlink() == file:
            return
        link.unlink()
    for parent in reversed(link.parents):
        if parent.is_symlink() and not parent.is_dir():
            parent.unlink()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(file)
