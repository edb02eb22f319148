"""From a name on the command line to a checked workload."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from compilegate.declaration_errors import read_toml
from compilegate.workload.declared.data import Data
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
    file = read_toml(path, WorkloadFile, WorkloadError)
    try:
        workload = settle(file)
    except WorkloadError as error:
        raise error.within(path) from error
    if workload.name != path.stem:
        raise WorkloadError(
            f"{path}: name: found {workload.name!r}, allowed: {path.stem!r}, as the file is called"
        )
    return workload


def read_data_table(path: Path) -> tuple[Data, bool] | None:
    """`[data]` of a file that may be wrong elsewhere, and whether the built-in program is to train;
    None where the table itself is wrong. So that data are looked into before the rest is right."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        data: Data = TypeAdapter(Data).validate_python(raw.get("data"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError):
        return None
    return data, "program" not in raw
