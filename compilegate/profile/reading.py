"""Reads `profile.json` back. It may come from another machine and release, so it is checked."""

from __future__ import annotations

import json
import math
import tarfile
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from compilegate.errors import CompilegateError
from compilegate.job.names import PROFILE_FILE, PROFILE_FOLDER
from compilegate.job.profiling.record import PARTS, PROFILE_SCHEMA, Profile

MOST_BYTES = 64 * 1024**2
_ADAPTER = TypeAdapter(Profile)
_TIMES = ("seconds", "communication", "copies", "outside")


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
    _require_sense(path, profile)
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


def _require_sense(path: Path, profile: Profile) -> None:
    """What types do not say."""
    if not profile.steps:
        raise ProfileError(f"{path}: steps is empty, expected one step or more")
    missing = set(PARTS) - set(profile.profiled.host)
    if missing:
        raise ProfileError(f"{path}: profiled.host.{min(missing)} is missing")
    seen = profile.profiled
    numbers = [
        *(("steps.seconds", each.seconds) for each in profile.steps),
        *(("steps.waited", each.waited) for each in profile.steps),
        *((f"profiled.host.{part}", seconds) for part, seconds in seen.host.items()),
        *((f"profiled.{name}", getattr(seen, name)) for name in _TIMES),
        *(("operators.seconds", each.seconds) for each in profile.operators),
        *(("operators.device_seconds", each.device_seconds) for each in profile.operators),
        *(("operators.calls", each.calls) for each in profile.operators),
        ("least_seconds", profile.least_seconds),
    ]
    for name, value in numbers:
        if not (math.isfinite(value) and value >= 0):
            raise ProfileError(f"{path}: {name} is {value}, expected zero or more")
    for each in profile.operators:
        if each.part not in PARTS:
            raise ProfileError(f"{path}: operators.part is {each.part!r}, allowed: {PARTS}")
