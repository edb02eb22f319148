"""What a job's source asks to have installed, as SageMaker's training toolkit does before it runs.

    HOME/environments/layers/DIGEST/    packages, scripts and a marker that it is whole

The digest is that of what was asked for and of the image's environment.
"""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compilegate.local.home.images import Environment

_REQUIREMENTS = "requirements.txt"
_PACKAGE = "setup.py"
_MARKER = "complete"
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Wanted:
    """What pip has to do for a source."""

    arguments: tuple[str, ...]
    """What pip is told, in the source's folder."""
    digest: str
    files: str
    """The files that ask for it."""


def wanted_by(source: Path | None, image: Environment) -> Wanted | None:
    """What a source asks for beyond what the image's environment has; None if that is nothing."""
    if source is None:
        return None
    requirements = source / _REQUIREMENTS
    asks = requirements.is_file()
    if (source / _PACKAGE).is_file():
        arguments = ("install", "--upgrade", ".", *(("-r", _REQUIREMENTS) if asks else ()))
        files = f"{_PACKAGE} and {_REQUIREMENTS}" if asks else _PACKAGE
        return Wanted(arguments, _digest(image, _files(source)), files)
    if not asks or image.first_unmet(requirements) is None:
        return None
    # A line that is no plain requirement may lead to any other file of the source.
    told = _files(source) if _leads_on(requirements) else [(_REQUIREMENTS, requirements)]
    return Wanted(("install", "-r", _REQUIREMENTS), _digest(image, told), _REQUIREMENTS)


def is_whole(layer: Path) -> bool:
    """Whether a kept layer is not the rest of an interrupted installation."""
    return (layer / _MARKER).is_file()


def mark_whole(layer: Path) -> None:
    """Last of all."""
    (layer / _MARKER).touch()


@contextmanager
def one_at_a_time(lock: Path, given_up: Callable[[], bool]) -> Iterator[bool]:
    """Hold a lock over processes; yields False when `given_up` says so before it is free."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("wb") as file:
        while not given_up():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_POLL_SECONDS)
                continue
            yield True
            return
    yield False


def _leads_on(requirements: Path) -> bool:
    lines = requirements.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.strip()[:1] in {"-", ".", "/"} or "/" in line.split("#")[0] for line in lines)


def _files(source: Path) -> list[tuple[str, Path]]:
    found = sorted(path for path in source.rglob("*") if path.is_file())
    return [(path.relative_to(source).as_posix(), path) for path in found]


def _digest(image: Environment, files: list[tuple[str, Path]]) -> str:
    digest = hashlib.sha256(f"{image.identity}\n".encode())
    for name, path in files:
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:24]
