"""Reads `profile.json` back. It may come from another machine and release, so it is checked."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from compilegate.errors import CompilegateError
from compilegate.job.names import PROFILE_FILE, PROFILE_FOLDER
from compilegate.job.profiling.record import PROFILE_SCHEMA, Profile

MOST_BYTES = 64 * 1024**2
_ADAPTER = TypeAdapter(Profile)


class ProfileError(CompilegateError):
    """The profile cannot be read. The message names the file, the key and what was found."""


def read_profile(path: Path) -> Profile:
    """The profile in a file, in a folder that holds one, or in a job's output.tar.gz. Raises
    ProfileError."""
    try:
        content = _content(path)
        document = json.loads(content)
    except (OSError, ValueError, EOFError, tarfile.TarError, RecursionError) as error:
        raise ProfileError(f"{path} holds no readable {PROFILE_FILE}: {error}") from error
    found = document.get("schema") if isinstance(document, dict) else None
    if found != PROFILE_SCHEMA:
        raise ProfileError(
            f"{path}: schema is {found!r}, allowed: {PROFILE_SCHEMA}; it is not a profile of this "
            "release, so profile again"
        )
    try:
        profile = _ADAPTER.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProfileError(f"{path}: {where}: {first['msg'].lower()}") from error
    if not profile.steps:
        raise ProfileError(f"{path}: steps is empty, expected one step or more")
    return profile


def _content(path: Path) -> bytes:
    if path.is_dir():
        inner = path / PROFILE_FOLDER / PROFILE_FILE
        path = inner if inner.is_file() else path / PROFILE_FILE
    if path.suffixes[-2:] == [".tar", ".gz"]:
        with tarfile.open(path) as archive:
            name = f"{PROFILE_FOLDER}/{PROFILE_FILE}"
            found = (each for each in archive if each.name.removeprefix("./") == name)
            member = next(found, None)
            if member is None:
                raise ValueError("its job was not profiled")
            file = archive.extractfile(member)
            if file is None or member.size > MOST_BYTES:
                raise ValueError(f"{member.name} is no file of up to {MOST_BYTES} bytes")
            return file.read()
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    return path.read_bytes()
