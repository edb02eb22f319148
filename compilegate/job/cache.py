"""The compile cache: retraining runs the same graph again, so compile it once.

A job leaves what its compiler made as one archive in a folder that outlives the job; the next job
with the same key starts from it. docs/compile-cache.md says where the folder comes from and who may
write to it::

    cache = CompileCache(archives, most_bytes, key_here(...), compiler.cache_folder())
    cache.load()                                  # before anything is compiled
    ...                                           # train
    record = cache.keep(lookups, figures, job)    # once everything has succeeded

The code in an archive gets executed. The digest reveals damage, not forgery: an archive is only as
trustworthy as the folder that it lies in. Needs no torch; `here` makes the key of this process.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

from compilegate.job.errors import CompilegateError
from compilegate.job.evidence import CompileCacheRecord, Scalar
from compilegate.job.files import settings_digest, whole_file
from compilegate.job.machine.environment import cpu_features, cpu_model, version_of
from compilegate.job.names import (
    COMPILE_THREADS_VARIABLE,
    INDUCTOR_CACHE_VARIABLE,
    TRITON_CACHE_VARIABLE,
)

FORMAT = 2
_DIGEST, _MANIFEST = "sha256", "manifest.json"
_MANIFEST_LIMIT = 1 << 20
_UNFINISHED = (".tmp", ".part", ".lock")
_DAMAGE = (
    *(tarfile.TarError, EOFError, OSError, OverflowError, RecursionError),
    *(ValueError, TypeError, LookupError),
)
_SHOWN = 60
"""Characters of a value that an archive names; they come from outside."""
_MOST_DIFFERENCES = 3
"""How many differences of keys to name; one that matters usually comes alone."""
_ABSENT = object()


class UnusableCacheError(CompilegateError):
    """An archive that is not used. The message gives the reason, in words that follow "it"."""


@dataclass(frozen=True)
class CacheKey:
    """What must be equal for a cache to fit: equal keys compile to the same code.

    A compiler checks graph and inputs again, by itself. It does not check all of the hardware: code
    that was made for one processor may end the process on another.
    """

    graph: Mapping[str, Scalar]
    """The model, its shapes, its precision, and how the compiler is set."""
    libraries: Mapping[str, Scalar]
    """Everything that is involved in compiling the graph."""
    hardware: Mapping[str, Scalar]
    """The hardware that the code was made for."""

    @property
    def digest(self) -> str:
        """sha256 of the whole key, in hexadecimal."""
        return settings_digest(asdict(self))

    @property
    def archive_name(self) -> str:
        """One archive for each kind of machine: a changed one replaces its predecessor, and kinds
        of machines that take turns do not replace each other's."""
        return f"{settings_digest(self.hardware)[:16]}.tar"

    def differences(self, found: Any) -> List[str]:
        """How an archive's key, JSON of any kind, differs from this one; empty if it does not."""
        differences: List[str] = []
        for part, ours in asdict(self).items():
            theirs = found.get(part) if isinstance(found, dict) else None
            if not isinstance(theirs, dict):
                return [f"its key has no {part}"]
            for name in [*ours, *sorted(set(theirs) - set(ours), key=str)]:
                was, now = theirs.get(name, _ABSENT), ours.get(name, _ABSENT)
                if type(was) is not type(now) or was != now:  # 1 is not true, and not 1.0
                    differences.append(f"{_text(name)} was {_text(was)} and is {_text(now)}")
        if len(differences) > _MOST_DIFFERENCES:
            more = len(differences) - _MOST_DIFFERENCES
            return [*differences[:_MOST_DIFFERENCES], f"{more} more"]
        return differences


@dataclass(frozen=True)
class Lookups:
    """How often the compiler looked for a compiled graph in its cache."""

    hits: int
    misses: int


@dataclass(frozen=True)
class CacheFolder:
    """A folder that only the compiler uses, for one job."""

    path: Path
    left_out: Tuple[str, ...] = ()
    """Subfolders that are not worth keeping, or must not be kept."""
    binaries: Tuple[str, ...] = ()
    """Suffixes of files that are slow to make: a new one was made in this job."""

    def files(self) -> Dict[str, Path]:
        """The files to keep, by their `/`-separated path in the folder, in order of the paths."""
        found: Dict[str, Path] = {}
        for path in sorted(self.path.rglob("*")):
            inside = path.relative_to(self.path)
            kept = inside.parts[0] not in self.left_out and not path.name.endswith(_UNFINISHED)
            if kept and path.is_file() and not path.is_symlink():
                found[inside.as_posix()] = path
        return found


@dataclass(frozen=True)
class ColdFigures:
    """What a job's compilation took from nothing; kept with the cache, for later warm jobs."""

    compile_seconds: Optional[float]
    first_step_seconds: Optional[float]


@dataclass(frozen=True)
class Origin(ColdFigures):
    """And which job made a cache, and when (ISO 8601, in UTC)."""

    job: str
    created: str


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
        self._origin: Optional[Origin] = None
        """The digest of what was loaded; None where nothing was."""
        self._loaded_bytes = 0
        self._loaded: Mapping[str, Path] = {}
        self.load_seconds = 0.0
        """How long loading took, wall-clock."""

    def load(self) -> None:
        """Unpack the archive with this key, if there is one that is complete."""
        began = time.perf_counter()
        if not self._path.is_file():
            self._reason = "There was none for this kind of machine."
        else:
            try:
                self._origin = read_archive(
                    self._path, self._folder.path, key=self._key, most_bytes=self._most_bytes
                )
            except UnusableCacheError as error:
                self._state = "ignored"
                self._reason = f"{self._path.name} was ignored: it {error}."
            else:
                self._reason = f"{self._path.name} was loaded, made by {self._origin.job}."
                self._loaded_bytes = self._path.stat().st_size
                self._loaded = self._folder.files()
        self.load_seconds = time.perf_counter() - began
        print(f"compile cache: {self._reason}", flush=True)

    def keep(self, lookups: Lookups, figures: ColdFigures, job: str) -> CompileCacheRecord:
        """Keep what this job compiled, unless the cache had all of it; returns the record."""
        origin, reasons = self._origin, [self._reason]
        # The graph may be known and its code compiled anew.
        new = set(self._folder.files()) - set(self._loaded)
        made = [name for name in new if name.endswith(self._folder.binaries)]
        warm = origin is not None and not (lookups.misses or made) and lookups.hits > 0
        if origin is not None:
            anew = f", and {len(made)} shared libraries were made anew" if made else ""
            graphs = lookups.hits + lookups.misses
            reasons.append(f"{lookups.hits} of {graphs} compiled graphs were found in it{anew}.")
        saved_bytes = 0
        if not warm:
            saved_bytes, reason = self._save(figures, job)
            reasons.append(reason)
        cold = origin if warm else None
        record = CompileCacheRecord(
            state="warm" if warm else self._state,
            reason=" ".join(reasons),
            key=self._key.digest,
            hits=lookups.hits,
            misses=lookups.misses,
            loaded_bytes=self._loaded_bytes,
            saved_bytes=saved_bytes,
            load_seconds=self.load_seconds,
            cold_compile_seconds=None if cold is None else cold.compile_seconds,
            cold_first_step_seconds=None if cold is None else cold.first_step_seconds,
        )
        print(f"compile cache: {record.state}. {record.reason}", flush=True)
        return record

    def discard_loaded(self) -> None:
        """Remove the loaded archive, if any: the job failed, and its code may be the cause."""
        if self._origin is not None:
            with contextlib.suppress(FileNotFoundError):  # of several processes all fail
                self._path.unlink()
                print(
                    f"compile cache: {self._path.name} was removed: its code may be why", flush=True
                )

    def _save(self, figures: ColdFigures, job: str) -> Tuple[int, str]:
        """(size of the archive, a sentence on it); the size is zero where none was kept."""
        files = self._folder.files()
        if not files:
            return 0, "Nothing was compiled that could be kept."
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        origin = Origin(figures.compile_seconds, figures.first_step_seconds, job, now)
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
        """Remove what was left half written, and the oldest archives of other machines until all
        fit the limit together; names them."""
        folder, removed = self._path.parent, []
        try:
            for unfinished in folder.glob(".*.part"):
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

    It is a plain tar: first the sha256 of all that follows, then the manifest, then the files. One
    file is always complete: if two jobs write the same archive at the same time, one wins.
    Raises UnusableCacheError when it would be larger than `most_bytes`, and OSError.
    """
    manifest = {"format": FORMAT, "key": asdict(key), "origin": asdict(origin)}
    with whole_file(path, alone=True) as part:
        with tarfile.open(str(part), "w", format=tarfile.PAX_FORMAT) as archive:
            for name, content in (
                (_DIGEST, b"0" * 64),
                (_MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode()),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            for name, file in files.items():
                member = tarfile.TarInfo(name)
                member.size = file.stat().st_size
                with open(file, "rb") as content_of_file:
                    archive.addfile(member, content_of_file)
        with open(part, "r+b") as file_of_archive:
            digest = _digest_after_first(file_of_archive)
            file_of_archive.seek(tarfile.BLOCKSIZE)
            file_of_archive.write(digest.encode())
        return _checked_size(part, most_bytes)


def read_archive(path: Path, target: Path, *, key: CacheKey, most_bytes: int) -> Origin:
    """Unpack the archive into the empty folder `target` if it is complete and has this key.

    Raises UnusableCacheError, with the folder empty again. Nothing is written outside of it, and
    nothing but plain files.
    """
    try:
        _checked_size(path, most_bytes)
        with open(path, "rb") as file:
            digest = _digest_after_first(file)
        with tarfile.open(str(path), "r:") as archive:
            if _content(archive, _DIGEST).read() != digest.encode():
                raise UnusableCacheError("is damaged: its digest is another")
            found, origin = _read_manifest(archive)
            differences = key.differences(found)
            if differences:
                raise UnusableCacheError(f"is for another job: {'; '.join(differences)}")
            _unpack(archive, target)
        return origin
    except (*_DAMAGE, UnusableCacheError) as error:
        shutil.rmtree(str(target), ignore_errors=True)
        target.mkdir(parents=True, exist_ok=True)
        if isinstance(error, UnusableCacheError):
            raise
        raise UnusableCacheError(f"is damaged: {_text(error)}") from error


def _created(path: Path) -> str:
    """When an archive was made, according to itself; empty if it cannot be read."""
    try:
        with tarfile.open(str(path), "r:") as archive:
            _content(archive, _DIGEST)
            return _read_manifest(archive)[1].created
    except (*_DAMAGE, UnusableCacheError):
        return ""


def _digest_after_first(file: IO[bytes]) -> str:
    """sha256 of what follows the archive's first member, a block of name and one of content."""
    digest = hashlib.sha256()
    file.seek(2 * tarfile.BLOCKSIZE)
    for block in iter(lambda: file.read(1 << 20), b""):
        digest.update(block)
    return digest.hexdigest()


def _checked_size(path: Path, most_bytes: int) -> int:
    size = path.stat().st_size
    if size > most_bytes:
        raise UnusableCacheError(f"has {size:,} bytes, of at most {most_bytes:,}")
    return size


def _content(archive: tarfile.TarFile, name: Optional[str] = None) -> IO[bytes]:
    """The content of the archive's next member, which has that name."""
    member = archive.next()
    content = None if member is None or not member.isreg() else archive.extractfile(member)
    if member is None or content is None or member.name != name or member.size > _MANIFEST_LIMIT:
        raise UnusableCacheError(f"is damaged: it does not begin with {_DIGEST} and {_MANIFEST}")
    return content


def _read_manifest(archive: tarfile.TarFile) -> Tuple[Any, Origin]:
    """The archive's key, JSON of any kind, and its origin."""
    manifest = json.loads(_content(archive, _MANIFEST).read())
    if manifest["format"] != FORMAT:
        raise UnusableCacheError(
            f"is of format {_text(manifest['format'])}, this job reads {FORMAT}"
        )
    return manifest["key"], Origin(**manifest["origin"])


def _unpack(archive: tarfile.TarFile, target: Path) -> None:
    for member in iter(archive.next, None):
        parts = member.name.split("/")
        if not member.isreg() or member.issparse():
            raise UnusableCacheError(f"is refused: {_text(member.name)} is not a plain file")
        if "\\" in member.name or "\0" in member.name or {"", ".", ".."} & set(parts):
            raise UnusableCacheError(f"is refused: {_text(member.name)} leads outside")
        place = target.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        content: Any = archive.extractfile(member)
        with open(place, "xb") as file:
            shutil.copyfileobj(content, file)


def _text(value: Any) -> str:
    """A value, or the text of an error or an archive, in one short line."""
    if value is _ABSENT or value is None:
        return "none" if value is None else "absent"
    flat = "".join(each if each.isprintable() else "?" for each in str(value)) or repr(value)
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 3]}..."


_SETTINGS = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE_", "TRITON_")
_NO_SETTINGS = (INDUCTOR_CACHE_VARIABLE, TRITON_CACHE_VARIABLE, COMPILE_THREADS_VARIABLE)
"""Variables that affect where and how fast to compile, but not what."""
_OWN_CODE = Path(__file__).resolve().parents[1]


def key_here(
    graph: Mapping[str, Scalar], *, device: torch.device, code: Sequence[Path] = ()
) -> CacheKey:
    """The key of a job that runs here.

    `graph` is what is compiled: model, shapes, precision, how the compiler is set. `code` are the
    folders of the program: its loop decides what is compiled together.
    """
    settings = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_SETTINGS) and name not in _NO_SETTINGS
    }
    libraries: Dict[str, Scalar] = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "triton": version_of("triton") or version_of("pytorch-triton"),
        "transformers": version_of("transformers"),
        "training code": _code_digest([_OWN_CODE, *code]),
        "C++ compiler": _cpp_compiler(),
        "C library": " ".join(platform.libc_ver()),
        # Compile commands hold the paths of Python's and torch's headers.
        "environment": sys.prefix,
    }
    return CacheKey(
        graph={**graph, "device": device.type, **settings},
        libraries=libraries,
        hardware=hardware_of(device),
    )


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


def _code_digest(folders: Sequence[Path]) -> str:
    """sha256 of the Python files in these folders, which may lie anywhere."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}:{len(content)}:".encode())
            digest.update(content)
    return digest.hexdigest()[:32]


def _cpp_compiler() -> Optional[str]:
    program = shutil.which(os.environ.get("CXX") or "g++")
    if program is None:
        return None
    version = subprocess.run(
        [program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    ).stdout.decode(errors="replace")
    return next(iter(version.splitlines()), "")
