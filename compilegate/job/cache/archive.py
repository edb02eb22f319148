"""A compile cache as one file: a plain tar, its manifest first, then the files that it names.

One file, so that what is stored and fetched is always complete: if two jobs write the same archive
at the same time, one wins, and no manifest is mixed with the other's files.

Reading trusts nothing: every name, size and sha256 must be as the manifest says, nothing may be
missing or left over, and nothing is written outside the target folder.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import shutil
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Dict, Mapping, Optional

from compilegate.job.cache.key import CacheKey
from compilegate.job.digests import file_digest, settings_digest
from compilegate.job.errors import CompilegateError
from compilegate.job.files import whole_file

FORMAT = 1
UNFINISHED = ".part"
"""The suffix of an archive that is being written; a job that dies leaves it behind."""
_MANIFEST = "manifest.json"
_MANIFEST_LIMIT = 8 << 20
_BLOCK = 1 << 20
_DAMAGE = (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, RecursionError)


class UnusableCacheError(CompilegateError):
    """An archive that is not used. The message says why, in words that follow "it"."""


@dataclass(frozen=True)
class Origin:
    """Which job made a cache, when, and what its compilation took from nothing."""

    job: str
    created: str
    """ISO 8601, in UTC."""
    compile_seconds: Optional[float]
    first_step_seconds: Optional[float]


@dataclass(frozen=True)
class _Manifest:
    key: Any
    origin: Origin
    files: Mapping[str, Any]
    """By path, {"bytes": size, "sha256": digest}."""


def write_archive(
    path: Path, files: Mapping[str, Path], *, key: CacheKey, origin: Origin, most_bytes: int
) -> int:
    """Write files, by their name in the archive, whole or not at all; returns the archive's size.

    Raises UnusableCacheError when it would be larger than `most_bytes`, and OSError.
    """
    described: Dict[str, Dict[str, Any]] = {
        name: {"bytes": file.stat().st_size, "sha256": file_digest(file)}
        for name, file in files.items()
    }
    manifest = _manifest_text(key, origin, described)
    with whole_file(path, alone=True) as part:
        with tarfile.open(str(part), "w", format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(_member(_MANIFEST, len(manifest)), io.BytesIO(manifest))
            for name, file in files.items():
                with open(file, "rb") as content:
                    archive.addfile(_member(name, described[name]["bytes"]), content)
        size = part.stat().st_size
        if size > most_bytes:
            raise UnusableCacheError(f"has {size:,} bytes, of at most {most_bytes:,}")
    return size


def read_archive(path: Path, target: Path, *, key: CacheKey, most_bytes: int) -> Origin:
    """Unpack the archive into the empty folder `target` if it is complete and has this key.

    Raises UnusableCacheError, with the folder empty again.
    """
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise UnusableCacheError(f"has {size:,} bytes, of at most {most_bytes:,}")
        with tarfile.open(str(path), "r:") as archive:
            manifest = _read_manifest(archive)
            differences = key.differences(manifest.key)
            if differences:
                raise UnusableCacheError(f"is for another job: {'; '.join(differences)}")
            _unpack(archive, manifest.files, target)
        return manifest.origin
    except _DAMAGE as error:
        _empty(target)
        raise UnusableCacheError(f"is damaged: {_short(error)}") from error
    except UnusableCacheError:
        _empty(target)
        raise


def created(path: Path) -> str:
    """When an archive was made, according to itself; empty if it cannot be read."""
    try:
        with tarfile.open(str(path), "r:") as archive:
            return _read_manifest(archive).origin.created
    except (*_DAMAGE, UnusableCacheError):
        return ""


def _manifest_text(key: CacheKey, origin: Origin, files: Mapping[str, Any]) -> bytes:
    content = {"format": FORMAT, "key": key.parts(), "origin": asdict(origin), "files": files}
    # The digest reveals a change in the manifest itself, too.
    document = {"content": content, "sha256": settings_digest(content)}
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def _read_manifest(archive: tarfile.TarFile) -> _Manifest:
    member = archive.next()
    if member is None or member.name != _MANIFEST or not _is_plain(member):
        raise UnusableCacheError(f"is damaged: it does not begin with {_MANIFEST}")
    if member.size > _MANIFEST_LIMIT:
        raise UnusableCacheError(f"is damaged: its {_MANIFEST} has {member.size:,} bytes")
    document = json.loads(_content(archive, member).read())
    if not isinstance(document, dict) or not isinstance(document.get("content"), dict):
        raise UnusableCacheError(f"is damaged: its {_MANIFEST} is none")
    content: Dict[str, Any] = document["content"]
    if document.get("sha256") != settings_digest(content):
        raise UnusableCacheError(f"is damaged: its {_MANIFEST} is not what was written")
    if content.get("format") != FORMAT:
        raise UnusableCacheError(f"is of format {content.get('format')!r}, this job reads {FORMAT}")
    try:
        return _Manifest(content["key"], _origin(content["origin"]), dict(content["files"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UnusableCacheError(f"is damaged: its {_MANIFEST} is incomplete") from error


def _origin(raw: Mapping[str, Any]) -> Origin:
    """Raises ValueError, TypeError or KeyError for what is none."""
    figures = (raw["compile_seconds"], raw["first_step_seconds"])
    for value in figures:
        if value is not None and not 0 <= float(value) < math.inf:
            raise ValueError("not a number of seconds")
    compile_seconds, first_step_seconds = (
        None if value is None else float(value) for value in figures
    )
    return Origin(_short(raw["job"]), _short(raw["created"]), compile_seconds, first_step_seconds)


def _unpack(archive: tarfile.TarFile, files: Mapping[str, Any], target: Path) -> None:
    missing = dict(files)
    while True:
        member = archive.next()
        if member is None:
            break
        expected = missing.pop(member.name, None)
        if not isinstance(expected, dict):
            raise UnusableCacheError(f"is damaged: {_short(member.name)} is not in its manifest")
        if not _is_plain(member):
            raise UnusableCacheError(f"is refused: {_short(member.name)} is not a plain file")
        if not _stays_inside(member.name):
            raise UnusableCacheError(f"is refused: {_short(member.name)} leads outside")
        place = target.joinpath(*member.name.split("/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        digest = _copy(_content(archive, member), place)
        if {"bytes": member.size, "sha256": digest} != expected:
            raise UnusableCacheError(f"is damaged: {_short(member.name)} is not what was written")
    if missing:
        raise UnusableCacheError(f"is damaged: {_short(next(iter(missing)))} is missing")


def _is_plain(member: tarfile.TarInfo) -> bool:
    return member.isreg() and not member.issparse()


def _stays_inside(name: str) -> bool:
    parts = name.split("/")
    return "\\" not in name and "\0" not in name and not {"", ".", ".."} & set(parts)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:
        raise UnusableCacheError(f"is damaged: {_short(member.name)} cannot be read")
    return content


def _copy(content: IO[bytes], place: Path) -> str:
    """Write a new file; returns the sha256 of what was written."""
    digest = hashlib.sha256()
    with open(place, "xb") as file:
        for block in iter(lambda: content.read(_BLOCK), b""):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def _empty(folder: Path) -> None:
    shutil.rmtree(str(folder), ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


def _short(said: Any) -> str:
    """The text of an error or an archive, in one short line."""
    flat = "".join(each if each.isprintable() else "?" for each in str(said)) or repr(said)
    return flat if len(flat) <= 120 else f"{flat[:117]}..."
