"""What a doctor's job left in its output archive."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.errors import CompilegateError
from compilegate.job.names import DOCTOR_FILE, DOCTOR_TEXT_FILE

_MOST_BYTES = 4 * 1024**2


class AnswerError(CompilegateError):
    """The archive does not hold what a doctor's job leaves."""


@dataclass(frozen=True)
class Answer:
    """One examination."""

    document: dict[str, Any]
    """As `compilegate doctor --json` prints it."""
    text: str
    """As `compilegate doctor` prints it."""


def read_answer(archive: Path) -> Answer:
    """Read the job's output archive. Raises AnswerError."""
    try:
        with tarfile.open(archive, "r:gz") as packed:
            document = json.loads(_member(packed, archive, DOCTOR_FILE))
            text = _member(packed, archive, DOCTOR_TEXT_FILE).decode("utf-8")
    except (OSError, tarfile.TarError, ValueError, EOFError) as error:
        raise AnswerError(f"{archive} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise AnswerError(f"{archive}: {DOCTOR_FILE} is not an object")
    return Answer(document, text)


def _member(packed: tarfile.TarFile, archive: Path, name: str) -> bytes:
    """One file's bytes, read from the archive without unpacking it."""
    for member in packed:
        if member.isreg() and member.name.removeprefix("./") == name:
            if member.size > _MOST_BYTES:
                raise AnswerError(f"{archive}: {name} has {member.size} bytes")
            file = packed.extractfile(member)
            if file is not None:
                return file.read()
    raise AnswerError(f"{archive} has no {name}: its job was not a doctor's")
