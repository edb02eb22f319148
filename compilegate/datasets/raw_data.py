"""What every kind of raw data can do, and the simplest kind: files beside the workload."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Protocol

from compilegate.errors import CompilegateError

_TWO_SPLITS = frozenset({"train", "validation"})
"""What most raw data consists of."""

Announce = Callable[[str], None]
"""Gets one line before anything that may take longer than two seconds."""


class DatasetError(CompilegateError):
    """The raw data cannot be had. The message says what was tried and what to do."""


class RawData(Protocol):
    """Files, somewhere: mostly one for training and one for validation."""

    @property
    def identity(self) -> str:
        """sha256 in hexadecimal: two data sets of one identity have the same content."""

    def is_whole(self, names: AbstractSet[str]) -> bool:
        """Whether files of these names are all of it, which is known without fetching."""

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        """Files by their new names, which may be paths, from the cache if they are there.

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


def are_two_splits(names: AbstractSet[str]) -> bool:
    """Whether there is a training and a validation file, in whatever format."""
    return {name.partition(".")[0] for name in names} >= _TWO_SPLITS


class LocalFiles:
    """Two files that are there already; their content is their identity."""

    def __init__(self, *, train: Path, validation: Path) -> None:
        self._files = {"train": train, "validation": validation}
        for key, path in self._files.items():
            if not path.is_file():
                raise DatasetError(
                    f"data.{key}: {path} is not a file, allowed: a file, "
                    "with a path relative to the workload's file"
                )

    @property
    def identity(self) -> str:
        return identity_of(*(sha256_of(path) for path in self._files.values()))

    def is_whole(self, names: AbstractSet[str]) -> bool:
        return are_two_splits(names)

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        return {f"{key}{path.suffix}": path for key, path in self._files.items()}
