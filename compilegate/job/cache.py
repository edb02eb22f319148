"""The compile cache: retraining runs the same graph again, so compile it once.

A job leaves what its compiler made as one archive in a folder that outlives the job; the next job
with the same key starts from it. docs/compilers.md says where the folder comes from and who may
write to it::

    cache = CompileCache(archives, most_bytes, key_here(...), compiler.cache_folder())
    cache.load()                                  # before anything is compiled
    ...                                           # train
    record = cache.keep(lookups, Origin(...))     # once everything has succeeded

An archive is one file, so it is always complete: if two jobs write it at the same time, one wins.
The sha256 of all that follows is its first line, a manifest in JSON the second; the rest is a tar.
Its format belongs to the code of this package, which is in the key.

The code in an archive gets executed. The digest reveals damage, not forgery: an archive is only as
trustworthy as the folder that it lies in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import sys
import tarfile
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

from compilegate.job.errors import CompilegateError
from compilegate.job.evidence import CompileCacheRecord, Scalar
from compilegate.job.files import file_digest, settings_digest, whole_file
from compilegate.job.machine.environment import cpu_features, cpu_model, version_of
from compilegate.job.machine.programs import cxx_compiler, version_line
from compilegate.job.names import (
    COMPILE_THREADS_VARIABLE,
    INDUCTOR_CACHE_VARIABLE,
    TRITON_CACHE_VARIABLE,
)

_LONGEST_LINE = 1 << 20
_UNFINISHED = (".tmp", ".part", ".lock")
_MOST_DIFFERENCES = 3
"""How many differences of keys to name; one that matters usually comes alone."""


class UnusableCacheError(CompilegateError):
    """An archive that is not used. The message gives the reason, in words that follow "it"."""


@dataclass(frozen=True)
class CacheKey:
    """What must be equal for a cache to fit: equal keys compile to the same code.

    A compiler checks graph and inputs again, by itself. It does not check all of the hardware: code
    that was made for one processor may end the process on another.
    """

    graph: Mapping[str, Scalar]  # the model, its shapes and precision, how the compiler is set
    libraries: Mapping[str, Scalar]  # everything that is involved in compiling the graph
    hardware: Mapping[str, Scalar]  # that the code was made for

    @property
    def digest(self) -> str:
        return settings_digest(asdict(self))

    @property
    def archive_name(self) -> str:
        """One archive for each kind of machine: a changed one replaces its predecessor, and kinds
        of machines that take turns do not replace each other's."""
        return f"{settings_digest(self.hardware)[:16]}.tar"

    def differences(self, found: Mapping[str, Mapping[str, Any]]) -> List[str]:
        """How an archive's key differs from this one; empty if it does not."""
        was, now = (
            {name: json.dumps(value) for part in key.values() for name, value in part.items()}
            for key in (found, asdict(self))
        )
        return [
            f"{_line(name)} was {_line(was.get(name, 'absent'))} and is "
            f"{_line(now.get(name, 'absent'))}"
            for name in {**now, **was}
            if was.get(name) != now.get(name)
        ]


@dataclass(frozen=True)
class Lookups:
    """How often the compiler looked for a compiled graph in its cache, and found it."""

    hits: int
    misses: int


@dataclass(frozen=True)
class CacheFolder:
    """A folder that only the compiler uses, for one job."""

    path: Path
    left_out: Tuple[str, ...] = ()  # subfolders not to keep
    binaries: Tuple[str, ...] = ()  # suffixes of files that are slow to make

    def files(self) -> Dict[str, Path]:
        """The files to keep, by their `/`-separated path in the folder, in order of the paths."""
        return {
            path.relative_to(self.path).as_posix(): path
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
            and path.relative_to(self.path).parts[0] not in self.left_out
            and path.suffix not in _UNFINISHED
        }


@dataclass(frozen=True)
class Origin:
    """The job that made a cache, what compiling took it from nothing, and when (ISO 8601, UTC)."""

    job: str
    compile_seconds: Optional[float]
    first_step_seconds: Optional[float]
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat())


class CompileCache:
    """Archives in `archives`, which may not exist yet; the compiler works in `folder`.

    Nothing here fails a job: whatever goes wrong, the compiler compiles, and the record gives the
    reason. Only loaded code can fail one, and then it is not loaded again.
    """

    def __init__(self, archives: Path, most_bytes: int, key: CacheKey, folder: CacheFolder) -> None:
        self._path = archives / key.archive_name
        self._most_bytes = most_bytes
        self._key = key
        self._folder = folder
        self._state = "cold"
        self._reason = "Nothing was loaded."
        self._loaded: Optional[Origin] = None
        self._loaded_files: Mapping[str, Path] = {}
        self._loaded_bytes = 0
        self._load_seconds = 0.0

    def load(self) -> None:
        """Unpack the archive with this key, if there is one that is complete."""
        began = time.perf_counter()
        if not self._path.is_file():
            self._reason = "There was none for this kind of machine."
        else:
            try:
                self._loaded = read_archive(
                    self._path, self._folder.path, key=self._key, most_bytes=self._most_bytes
                )
            except UnusableCacheError as error:
                self._state = "ignored"
                self._reason = f"{self._path.name} was ignored: it {error}."
            else:
                self._reason = f"{self._path.name} was loaded, made by {self._loaded.job}."
                self._loaded_bytes = self._path.stat().st_size
                self._loaded_files = self._folder.files()
        self._load_seconds = time.perf_counter() - began
        print(f"compile cache: {self._reason}", flush=True)

    def keep(self, lookups: Lookups, origin: Origin) -> CompileCacheRecord:
        """Keep what this job compiled, unless the cache had all of it; returns the record."""
        reasons, saved_bytes, files = [self._reason], 0, self._folder.files()
        # The graph may be known and its code compiled anew.
        made = [
            name
            for name in files
            if name not in self._loaded_files and name.endswith(self._folder.binaries)
        ]
        cold = self._loaded if lookups.hits and not lookups.misses and not made else None
        if self._loaded is not None:
            anew = f", and {len(made)} shared libraries were made anew" if made else ""
            graphs = lookups.hits + lookups.misses
            reasons.append(f"{lookups.hits} of {graphs} compiled graphs were found in it{anew}.")
        if cold is None:
            saved_bytes, reason = self._save(files, origin)
            reasons.append(reason)
        record = CompileCacheRecord(
            state=self._state if cold is None else "warm",
            reason=" ".join(reasons),
            key=self._key.digest,
            hits=lookups.hits,
            misses=lookups.misses,
            loaded_bytes=self._loaded_bytes,
            saved_bytes=saved_bytes,
            load_seconds=self._load_seconds,
            cold_compile_seconds=None if cold is None else cold.compile_seconds,
            cold_first_step_seconds=None if cold is None else cold.first_step_seconds,
        )
        print(f"compile cache: {record.state}. {record.reason}", flush=True)
        return record

    def discard_loaded(self) -> None:
        """Remove the loaded archive, if any: the job failed, and its code may be the cause."""
        if self._loaded is not None:
            with contextlib.suppress(FileNotFoundError):  # several processes may fail together
                self._path.unlink()
                print(
                    f"compile cache: {self._path.name} was removed: its code may be why", flush=True
                )

    def _save(self, files: Mapping[str, Path], origin: Origin) -> Tuple[int, str]:
        """(size of the archive, a sentence on it); the size is zero where none was kept."""
        if not files:
            return 0, "Nothing was compiled that could be kept."
        try:
            size = write_archive(
                self._path, files, key=self._key, origin=origin, most_bytes=self._most_bytes
            )
        except UnusableCacheError as error:
            return 0, f"This job's was not kept: it {error}."
        except OSError as error:
            return 0, f"This job's was not kept: {error.strerror or error}."
        room = self._make_room(size)
        return size, f"This job's was kept: {len(files)} files, {size:,} bytes.{room}"

    def _make_room(self, size: int) -> str:
        """Remove the oldest archives of other machines until all fit the limit together; names
        them."""
        folder, removed = self._path.parent, []
        try:
            for unfinished in folder.glob(".*.part"):  # their writers were killed
                unfinished.unlink()
            others = {each: each.stat().st_size for each in folder.glob("*.tar")}
            others.pop(self._path)
            for path in sorted(others, key=_created):
                if size + sum(others.values()) <= self._most_bytes:
                    break
                path.unlink()
                del others[path]
                removed.append(path.name)
        except OSError as error:
            return f" No room was made for it: {error.strerror or error}."
        return f" {', '.join(removed)} made room for it." if removed else ""


def write_archive(
    path: Path, files: Mapping[str, Path], *, key: CacheKey, origin: Origin, most_bytes: int
) -> int:
    """Write files, by their name in the archive, whole or not at all; returns the archive's size.
    Raises UnusableCacheError when it would be larger than `most_bytes`, and OSError."""
    manifest = {"key": asdict(key), "origin": asdict(origin)}
    with whole_file(path, alone=True) as part, open(part, "w+b") as file:
        file.write(b"0" * 64 + b"\n" + json.dumps(manifest).encode() + b"\n")
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, each in files.items():
                member = tarfile.TarInfo(name)
                member.size = each.stat().st_size
                with open(each, "rb") as content:
                    archive.addfile(member, content)
        size = file.tell()
        _require_size(size, most_bytes)
        file.seek(0)
        file.write(_digest_after_line(file).encode())
        return size


def read_archive(path: Path, target: Path, *, key: CacheKey, most_bytes: int) -> Origin:
    """Unpack the archive into the empty folder `target` if it is complete and has this key. Nothing
    is written outside of it, and nothing but plain files. Raises UnusableCacheError, with the
    folder empty again."""
    try:
        _require_size(path.stat().st_size, most_bytes)
        with open(path, "rb") as file:
            digest = _digest_after_line(file)
            if file.readline(_LONGEST_LINE).strip() != digest.encode():
                raise UnusableCacheError("is damaged: its digest is another")
            manifest = json.loads(file.readline(_LONGEST_LINE))
            differences = key.differences(manifest["key"])[:_MOST_DIFFERENCES]
            if differences:
                raise UnusableCacheError(f"is for another job: {'; '.join(differences)}")
            with tarfile.open(fileobj=file, mode="r:") as archive:
                for member in iter(archive.next, None):
                    _unpack(archive, member, target)
            return Origin(**manifest["origin"])
    except Exception as error:  # what lies there may be anything
        shutil.rmtree(str(target), ignore_errors=True)
        target.mkdir(parents=True, exist_ok=True)
        if isinstance(error, UnusableCacheError):
            raise
        raise UnusableCacheError(f"is damaged: {_line(error)}") from error


def _require_size(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise UnusableCacheError(f"has {size:,} bytes, of at most {most_bytes:,}")


def _digest_after_line(file: IO[bytes]) -> str:
    """sha256 of what follows the file's first line. The file is at its start, and again after."""
    file.readline(_LONGEST_LINE)
    digest = hashlib.sha256()
    for block in iter(lambda: file.read(1 << 20), b""):
        digest.update(block)
    file.seek(0)
    return digest.hexdigest()


def _created(path: Path) -> str:
    """When an archive was made, according to itself; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.readline(_LONGEST_LINE)
            return str(json.loads(file.readline(_LONGEST_LINE))["origin"]["created"])
    except Exception:  # noqa: BLE001 - what lies there may be anything
        return ""


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    parts = member.name.split("/")
    if not member.isreg() or member.issparse():
        raise UnusableCacheError(f"is refused: {_line(member.name)} is not a plain file")
    if "\\" in member.name or {"", ".", ".."} & set(parts):
        raise UnusableCacheError(f"is refused: {_line(member.name)} leads outside")
    place = target.joinpath(*parts)
    place.parent.mkdir(parents=True, exist_ok=True)
    content: Any = archive.extractfile(member)
    with open(place, "xb") as file:
        shutil.copyfileobj(content, file)


def _line(value: Any) -> str:
    """A text that comes from outside, in one short line."""
    text = str(value).strip('"')
    flat = "".join(each if each.isprintable() else "?" for each in text) or repr(value)
    return flat if len(flat) <= 60 else f"{flat[:57]}..."


_SETTINGS = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE_", "TRITON_")
_NO_SETTINGS = (INDUCTOR_CACHE_VARIABLE, TRITON_CACHE_VARIABLE, COMPILE_THREADS_VARIABLE)
"""Variables that affect where and how fast to compile, but not what."""
_OWN_CODE = Path(__file__).resolve().parents[1]


def key_here(
    graph: Mapping[str, Scalar], *, device: torch.device, code: Sequence[Path] = ()
) -> CacheKey:
    """The key of a job that runs here. `graph` as in CacheKey; `code` are the folders of the
    program, wherever they lie: its loop decides what is compiled together."""
    settings = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_SETTINGS) and name not in _NO_SETTINGS
    }
    cxx = cxx_compiler(os.environ)
    files = [
        (path.relative_to(folder).as_posix(), file_digest(path))
        for folder in (_OWN_CODE, *code)
        for path in sorted(folder.rglob("*.py"))
    ]
    libraries = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "triton": version_of("triton") or version_of("pytorch-triton"),
        "transformers": version_of("transformers"),
        "training code": settings_digest({"files": files})[:32],
        "C++ compiler": None if cxx is None else version_line(cxx),
        "C library": " ".join(platform.libc_ver()),
        # Compile commands hold the paths of Python's and torch's headers.
        "environment": sys.prefix,
    }
    return CacheKey({**graph, "device": device.type, **settings}, libraries, hardware_of(device))


def hardware_of(device: torch.device) -> Dict[str, Scalar]:
    """What compiled code depends on in this machine, as far as this process may use it."""
    gpu = capability = None
    if device.type == "cuda":
        gpu = torch.cuda.get_device_name(device)
        capability = ".".join(map(str, torch.cuda.get_device_capability(device)))
    return {
        "machine": platform.machine(),
        "cpu": cpu_model(),
        # Code is made for exactly this processor (-march=native).
        "cpu features": hashlib.sha256(" ".join(cpu_features()).encode()).hexdigest()[:16],
        # Inductor writes the number of threads into its C++ kernels.
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "gpu capability": capability,
    }
