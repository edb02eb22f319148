"""From a name on the command line to a checked workload."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path

from pydantic import ValidationError

from compilegate.declaration_errors import sentences
from compilegate.workload.declared.file import WorkloadFile
from compilegate.workload.errors import WorkloadError
from compilegate.workload.settled import Workload
from compilegate.workload.settling import settle


def find_workload(name_or_path: str, folder: Path) -> Path:
    """The file of a workload that is given by its name (`news-topics`) or by its path.

    Raises WorkloadError when there is none, naming those that there are.
    """
    given = Path(name_or_path)
    if given.suffix == ".toml" or given.parent != Path():
        if given.is_file():
            return given
        raise WorkloadError(f"{given}: no such file, allowed: the path of a workload's TOML file")
    path = folder / f"{name_or_path}.toml"
    if path.is_file():
        return path
    known = sorted(entry.stem for entry in folder.glob("*.toml"))
    close = difflib.get_close_matches(name_or_path, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    there = ", ".join(known) if known else "no workload at all"
    raise WorkloadError(f"{path}: no such file{hint}; {folder} holds {there}")


def read_workload(path: Path) -> Workload:
    """The workload of one file, with every value settled.

    Raises WorkloadError with one sentence for each thing that is wrong with the file.
    """
    file = _declared(path)
    try:
        workload = settle(file)
    except WorkloadError as error:
        raise error.within(path) from error
    if workload.name != path.stem:
        raise WorkloadError(
            f"{path}: name: found {workload.name!r}, allowed: {path.stem!r}, as the file is called"
        )
    return workload


def _declared(path: Path) -> WorkloadFile:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path}: not UTF-8 text at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise WorkloadError(f"{path}: {_toml_sentence(str(error))}") from error
    try:
        return WorkloadFile.model_validate(raw)
    except ValidationError as error:
        raise WorkloadError(*sentences(path, error, WorkloadFile)) from error


def _toml_sentence(message: str) -> str:
    """tomllib's message; for a repeated table also what that means here."""
    if message.startswith("Cannot declare ('arms'"):
        return f"two arms of one name, allowed: each arm once: {message}"
    if message.startswith("Cannot overwrite a value"):
        return f"a key is given twice, allowed: each key once: {message}"
    return f"not valid TOML: {message}"
