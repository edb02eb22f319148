"""The interface of a raw data set, and the error all kinds share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

Announce = Callable[[str], None]
"""Receives one line about a step that may take longer than two seconds."""


class DatasetError(Exception):
    """The raw data cannot be had. The message says what was tried and what to do."""


class RawData(Protocol):
    """A training and a validation file, somewhere."""

    @property
    def identity(self) -> str:
        """sha256 in hexadecimal: two data sets of one identity have the same content."""

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        """Files by the name they shall have (`train.*`, `validation.*`), from the cache if there.

        Raises DatasetError.
        """


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def identity_of(*parts: str) -> str:
    """One digest over several strings, none of which can run into the next."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()
