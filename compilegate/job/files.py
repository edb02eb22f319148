"""Files that are whole or absent, whatever kills the writing process; files that end with their
process; locks and digests."""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import os
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Iterator, Mapping

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system says when a disk, or somebody's share of it, is full."""
_OF_THIS_PROCESS: list[str] = []


def remove_at_end(path: str) -> None:
    """Remove a folder when the process ends, after all that a job does then."""
    _OF_THIS_PROCESS.append(path)


@atexit.register  # before any job registers what it does at the end, which runs first therefore
def _remove() -> None:
    for path in _OF_THIS_PROCESS:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def whole_file(path: Path, *, alone: bool = False) -> Iterator[Path]:
    """A path beside `path` to write to, which replaces `path` when the block succeeds. `alone`: no
    other writer at the same time, so the name is fixed and a killed writer's file is overwritten.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    infix = "" if alone else f".{secrets.token_hex(6)}"
    part = path.with_name(f".{path.name}{infix}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        # Also after success: where both are links to one file, renaming leaves both.
        if os.path.lexists(part):
            part.unlink()


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` durably: after a power cut it holds the old bytes or the new ones."""
    try:
        with whole_file(path) as part, open(part, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.filename is not None:
            raise
        # The system names no file when a write fails, and a full disk is such a failure.
        needed = f"{error.strerror}, {len(content):,} bytes needed"
        raise OSError(error.errno, needed, str(path)) from error


def write_text(path: Path, text: str) -> None:
    """Replace `path` by text in UTF-8, durably."""
    write_bytes(path, text.encode())


def write_json(path: Path, document: Any) -> None:
    """Replace `path` by `document` as JSON, durably. Raises ValueError for NaN and infinities."""
    write_text(path, json.dumps(document, indent=1, allow_nan=False) + "\n")


def lock(path: Path) -> IO[bytes]:
    """Hold the lock `path` as long as the returned file is open; waits for other processes."""
    held = try_lock(path, wait=True)
    assert held is not None  # noqa: S101  it waited
    return held


def try_lock(path: Path, *, shared: bool = False, wait: bool = False) -> IO[bytes] | None:
    """The open file that holds the lock `path`, exclusively or `shared`; None where another process
    holds it. Whoever inherits the file holds the lock as well."""
    import fcntl  # noqa: PLC0415  no training script needs it, and Windows has none

    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "ab")  # noqa: SIM115  whoever holds the lock closes it
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def folder_digest(folder: Path) -> str:
    """The digest of all files in a folder, however deep, with their names."""
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name}:{path.stat().st_size}:{file_digest(path)}\n".encode())
    return digest.hexdigest()


def settings_digest(settings: Mapping[str, Any]) -> str:
    """The digest of a JSON object in its canonical form (sorted keys, no spaces)."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
