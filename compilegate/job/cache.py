"""The compile cache: a job starts from what the last job with the same key compiled.

An archive is one zip with a manifest, whose checksums show damage, not forgery. Its code gets
executed, so an archive is as trustworthy as its folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
import zipfile
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Mapping, Sequence

import torch

from compilegate.job.contract import (
    COMPILE_THREADS_VARIABLE,
    INDUCTOR_CACHE_VARIABLE,
    TRITON_CACHE_VARIABLE,
)
from compilegate.job.errors import CompilegateError, one_sentence
from compilegate.job.evidence import CompileCacheRecord, Scalar
from compilegate.job.files import file_digest, settings_digest, whole_file
from compilegate.job.machine.environment import cpu_features, cpu_model, version_of
from compilegate.job.machine.programs import cxx_compiler, version_line

_MANIFEST = "manifest.json"
_UNFINISHED = (".tmp", ".part", ".lock")
_MOST_DIFFERENCES = 3  # differences of keys that are named; one that matters usually comes alone


class UnusableCacheError(CompilegateError):
    """An archive that is not used, with the reason in words that follow "it"."""


@dataclass(frozen=True)
class CacheKey:
    """What must be equal for a cache to fit. Compilers check graph and inputs again, but not all of
    the hardware: code made for one processor may crash on another."""

    graph: Mapping[str, Scalar]  # the model, its shapes and precision, how the compiler is set
    libraries: Mapping[str, Scalar]  # everything that is involved in compiling the graph
    hardware: Mapping[str, Scalar]  # that the code was made for

    @property
    def digest(self) -> str:
        return settings_digest(asdict(self))

    @property
    def archive_name(self) -> str:
        """One archive for each kind of machine, so that kinds that take turns keep theirs."""
        return f"{settings_digest(self.hardware)[:16]}.zip"

    def differences(self, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """How an archive's key differs from this one; empty if it does not."""
        was, now = (
            {name: json.dumps(value) for part in key.values() for name, value in part.items()}
            for key in (found, asdict(self))
        )
        return [
            f"{name} was {_short(was.get(name, 'absent'))} and is {_short(now.get(name, 'absent'))}"
            for name in {**now, **was}
            if was.get(name) != now.get(name)
        ]


def _short(value: str) -> str:
    text = value.strip('"')
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Lookups:
    """How often the compiler looked for a compiled graph in its cache, and found it."""

    hits: int
    misses: int


@dataclass(frozen=True)
class CacheFolder:
    """A folder that only the compiler uses, for one job."""

    path: Path
    left_out: tuple[str, ...] = ()  # subfolders not to keep

    def files(self) -> dict[str, Path]:
        return {
            path.relative_to(self.path).as_posix(): path
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
            and path.relative_to(self.path).parts[0] not in self.left_out
            and path.suffix not in _UNFINISHED
        }


@dataclass(frozen=True)
class SourceJob:
    """The job that made a cache, what compiling took it from nothing, and when (ISO 8601, UTC)."""

    job: str
    compile_seconds: float | None
    first_step_seconds: float | None
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat())


class CompileCache:
    """Archives in `archives`, which may not exist yet. Nothing here fails a job: without a cache
    the compiler compiles, and the record gives the reason."""

    def __init__(self, archives: Path, most_bytes: int, key: CacheKey, folder: CacheFolder) -> None:
        self._path = archives / key.archive_name
        self._most_bytes = most_bytes
        self._key = key
        self._folder = folder
        self._state = "cold"
        self._reason = "There was none for this kind of machine."
        self._loaded: SourceJob | None = None
        self._loaded_bytes = 0
        self._load_seconds = 0.0

    def load(self) -> None:
        """Unpack the archive with this key, if there is one that is complete."""
        began = time.perf_counter()
        if self._path.is_file():
            try:
                self._loaded = read_archive(
                    self._path, self._folder.path, key=self._key, most_bytes=self._most_bytes
                )
                self._reason = f"{self._path.name} was loaded, made by {self._loaded.job}."
                self._loaded_bytes = self._path.stat().st_size
            except UnusableCacheError as error:
                self._state = "ignored"
                self._reason = f"{self._path.name} was ignored: it {error}."
        self._load_seconds = time.perf_counter() - began
        print(f"compile cache: {self._reason}", flush=True)

    def save(self, lookups: Lookups, source: SourceJob) -> CompileCacheRecord:
        """Save what this job compiled, unless the cache had all of it; returns the record."""
        reasons, saved_bytes = [self._reason], 0
        warm = self._loaded if lookups.hits and not lookups.misses else None
        if self._loaded is not None:
            graphs = lookups.hits + lookups.misses
            reasons.append(f"{lookups.hits} of {graphs} compiled graphs were found in it.")
        if warm is None:
            saved_bytes, reason = self._write(source)
            reasons.append(reason)
        record = CompileCacheRecord(
            state=self._state if warm is None else "warm",
            reason=" ".join(reasons),
            key=self._key.digest,
            hits=lookups.hits,
            misses=lookups.misses,
            loaded_bytes=self._loaded_bytes,
            saved_bytes=saved_bytes,
            load_seconds=self._load_seconds,
            cold_compile_seconds=None if warm is None else warm.compile_seconds,
            cold_first_step_seconds=None if warm is None else warm.first_step_seconds,
        )
        print(f"compile cache: {record.state}. {record.reason}", flush=True)
        return record

    def discard_loaded(self) -> None:
        """Remove the loaded archive, if any: the job failed, and its code may be the cause."""
        if self._loaded is not None:
            with contextlib.suppress(FileNotFoundError):  # several processes may fail together
                self._path.unlink()
                print(f"compile cache: {self._path.name} was removed: its code may be why")

    def _write(self, source: SourceJob) -> tuple[int, str]:
        """(size of the archive, a sentence on it); the size is zero where none was kept."""
        files = self._folder.files()
        if not files:
            return 0, "Nothing was compiled that could be kept."
        try:
            size = write_archive(
                self._path, files, key=self._key, source=source, most_bytes=self._most_bytes
            )
        except UnusableCacheError as error:
            return 0, f"This job's was not kept: it {error}."
        except OSError as error:
            return 0, f"This job's was not kept: {error.strerror or error}."
        return size, f"This job's was kept: {len(files)} files, {size:,} bytes.{self._room(size)}"

    def _room(self, size: int) -> str:
        """Remove the oldest archives of other machines until all fit the limit; name them."""
        folder, removed = self._path.parent, []
        try:
            for unfinished in folder.glob(".*.part"):  # their writers were killed
                unfinished.unlink()
            others = {each: each.stat().st_size for each in folder.glob("*.zip")}
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
    path: Path, files: Mapping[str, Path], *, key: CacheKey, source: SourceJob, most_bytes: int
) -> int:
    """Write the files whole or not at all; returns the size. Raises UnusableCacheError when it
    would exceed `most_bytes`, and OSError."""
    with whole_file(path, alone=True) as part:
        with zipfile.ZipFile(part, "w", strict_timestamps=False) as archive:
            manifest = {"key": asdict(key), "source": asdict(source)}
            archive.writestr(_MANIFEST, json.dumps(manifest))
            for name, each in files.items():
                archive.write(each, f"files/{name}")
        size = part.stat().st_size
        _require_size(size, most_bytes)
        return size


def read_archive(path: Path, target: Path, *, key: CacheKey, most_bytes: int) -> SourceJob:
    """Unpack a complete archive with this key into the empty folder `target`. Raises
    UnusableCacheError, with the folder empty again."""
    try:
        _require_size(path.stat().st_size, most_bytes)
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(dir=target) as place:
            manifest = json.loads(archive.read(_MANIFEST))
            differences = key.differences(manifest["key"])[:_MOST_DIFFERENCES]
            if differences:
                raise UnusableCacheError(f"is for another job: {'; '.join(differences)}")
            archive.extractall(place)
            for each in Path(place, "files").iterdir():
                each.rename(target / each.name)
        return SourceJob(**manifest["source"])
    except Exception as error:  # what lies there may be anything
        shutil.rmtree(str(target), ignore_errors=True)
        target.mkdir(parents=True, exist_ok=True)
        if isinstance(error, UnusableCacheError):
            raise
        raise UnusableCacheError(f"is damaged: {one_sentence(error)}") from error


def _require_size(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise UnusableCacheError(f"has {size:,} bytes, of at most {most_bytes:,}")


def _created(path: Path) -> str:
    """When an archive was made, according to itself; empty if it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return str(json.loads(archive.read(_MANIFEST))["source"]["created"])
    except Exception:  # noqa: BLE001 - what lies there may be anything
        return ""


_SETTINGS = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE_", "TRITON_")
_NO_SETTINGS = (INDUCTOR_CACHE_VARIABLE, TRITON_CACHE_VARIABLE, COMPILE_THREADS_VARIABLE)
"""Variables that affect where and how fast to compile, but not what."""
_OWN_CODE = Path(__file__).resolve().parents[1]


def key_here(
    graph: Mapping[str, Scalar], *, device: torch.device, code: Sequence[Path] = ()
) -> CacheKey:
    """The key of a job that runs here. `code` are the program's folders: its loop decides what is
    compiled together."""
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


def hardware_of(device: torch.device) -> dict[str, Scalar]:
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
