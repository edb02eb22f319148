"""Locks that last as long as somebody has their file open, in any process of this machine."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class Lease:
    """What a job holds until `release`."""

    files: tuple[IO[bytes], ...]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open lock files: whoever inherits them holds the lease as well."""
        return tuple(file.fileno() for file in self.files)

    def release(self) -> None:
        """Give back what is held."""
        for file in self.files:
            file.close()


def try_lock(path: Path, kind: int) -> IO[bytes] | None:
    """The open file, locked; None where another one holds it. `kind` is one of flock's."""
    file = path.open("ab")
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
