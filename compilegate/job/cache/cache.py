"""A job's compile cache: load what fits, compile, keep what was compiled.

Where a compiler keeps its results while it works, and which of them are worth keeping.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple

from compilegate.job.cache.archive import (
    UNFINISHED,
    Origin,
    UnusableCacheError,
    created,
    read_archive,
    write_archive,
)
from compilegate.job.cache.key import CacheKey
from compilegate.job.evidence import CompileCacheRecord

_UNFINISHED = (".tmp", ".part", ".lock")


@dataclass(frozen=True)
class Lookups:
    """How often the compiler asked its cache for a compiled graph."""

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
        for parent, folders, names in os.walk(str(self.path)):
            if Path(parent) == self.path:
                folders[:] = [name for name in folders if name not in self.left_out]
            for name in names:
                path = Path(parent) / name
                if not path.is_symlink() and path.is_file() and not name.endswith(_UNFINISHED):
                    found[path.relative_to(self.path).as_posix()] = path
        return dict(sorted(found.items()))


@dataclass(frozen=True)
class ColdFigures:
    """What this job's compilation took; kept with the cache, for later warm jobs."""

    compile_seconds: float
    first_step_seconds: float


@dataclass(frozen=True)
class _Loaded:
    """The result of loading."""

    reason: str
    origin: Optional[Origin] = None
    """None where nothing was loaded."""
    ignored: bool = False
    bytes: int = 0
    seconds: float = 0.0
    names: Tuple[str, ...] = ()


class CompileCache:
    """Archives in `archives`, which may not exist yet; the compiler works in `folder`.

    Nothing here fails a job: whatever goes wrong, the compiler compiles, and the record says why.
    Only loaded code can fail one, and then it is not loaded again.
    """

    def __init__(self, archives: Path, most_bytes: int, key: CacheKey, folder: CacheFolder) -> None:
        self._archives = archives
        self._most_bytes = most_bytes
        self._key = key
        self._folder = folder
        self._loaded = _Loaded("Nothing was loaded.")

    @property
    def load_seconds(self) -> float:
        """How long loading took, wall-clock."""
        return self._loaded.seconds

    def load(self) -> None:
        """Unpack the archive with this key, if there is one that is complete."""
        began = time.perf_counter()
        loaded = self._load()
        self._loaded = dataclasses.replace(loaded, seconds=time.perf_counter() - began)
        print(f"compile cache: {loaded.reason}", flush=True)

    def _load(self) -> _Loaded:
        path = self._path
        if not path.is_file():
            return _Loaded("There was none for this kind of machine.")
        try:
            origin = read_archive(
                path, self._folder.path, key=self._key, most_bytes=self._most_bytes
            )
        except UnusableCacheError as error:
            return _Loaded(f"{path.name} was ignored: it {error}.", ignored=True)
        return _Loaded(
            f"{path.name} was loaded, made by {origin.job}.",
            origin=origin,
            bytes=path.stat().st_size,
            names=tuple(self._folder.files()),
        )

    def keep(self, lookups: Lookups, figures: ColdFigures, job: str) -> CompileCacheRecord:
        """Keep what this job compiled, unless the cache had all of it; returns the record."""
        loaded, made = self._loaded, self._made_here()
        warm = loaded.origin is not None and not (lookups.misses or made) and lookups.hits > 0
        saved_bytes, kept = (0, "") if warm else self._save(figures, job)
        said = [loaded.reason, self._found(lookups, made), kept]
        origin = loaded.origin
        record = CompileCacheRecord(
            state="warm" if warm else "ignored" if loaded.ignored else "cold",
            reason=" ".join(sentence for sentence in said if sentence),
            key=self._key.digest,
            hits=lookups.hits,
            misses=lookups.misses,
            loaded_bytes=loaded.bytes,
            saved_bytes=saved_bytes,
            load_seconds=loaded.seconds,
            cold_compile_seconds=origin.compile_seconds if warm and origin else None,
            cold_first_step_seconds=origin.first_step_seconds if warm and origin else None,
        )
        print(f"compile cache: {record.state}. {record.reason}", flush=True)
        return record

    def discard_loaded(self) -> None:
        """Remove the loaded archive, if any: the job failed, and its code may be the cause."""
        if self._loaded.origin is None:
            return
        with contextlib.suppress(FileNotFoundError):  # of several processes all fail
            os.unlink(str(self._path))
            print(f"compile cache: {self._path.name} was removed: its code may be why", flush=True)

    @property
    def _path(self) -> Path:
        return self._archives / self._key.archive_name

    def _made_here(self) -> Set[str]:
        """Binaries that were not loaded: the graph may be known and its code compiled anew."""
        new = set(self._folder.files()) - set(self._loaded.names)
        return {name for name in new if name.endswith(self._folder.binaries)}

    def _found(self, lookups: Lookups, made: Set[str]) -> str:
        if self._loaded.origin is None:
            return ""
        graphs = lookups.hits + lookups.misses
        missing = f", and {len(made)} shared libraries were made anew" if made else ""
        return f"{lookups.hits} of {graphs} compiled graphs were found in it{missing}."

    def _save(self, figures: ColdFigures, job: str) -> Tuple[int, str]:
        """(size of the archive, what to say of it); the size is zero where none was kept."""
        files = self._folder.files()
        if not files:
            return 0, "Nothing was compiled that could be kept."
        now = datetime.datetime.now(datetime.timezone.utc)
        origin = Origin(job, now.isoformat(), figures.compile_seconds, figures.first_step_seconds)
        try:
            self._archives.mkdir(parents=True, exist_ok=True)
            size = write_archive(
                self._path, files, key=self._key, origin=origin, most_bytes=self._most_bytes
            )
        except UnusableCacheError as error:
            return 0, f"This job's was not kept: it {error}."
        except OSError as error:
            return 0, f"This job's was not kept: {error.strerror or error}."
        return size, f"This job's was kept: {len(files)} files, {size:,} bytes.{self._make_room()}"

    def _make_room(self) -> str:
        """Remove what was left half written, and the oldest archives of other machines until all
        fit the limit together; says which."""
        try:
            for unfinished in self._archives.glob(f".*{UNFINISHED}"):
                os.unlink(str(unfinished))
            removed = self._remove_oldest()
        except OSError as error:
            return f" No room was made for it: {error.strerror or error}."
        return f" {', '.join(removed)} made room for it." if removed else ""

    def _remove_oldest(self) -> List[str]:
        others = [path for path in self._archives.glob("*.tar") if path != self._path]
        total = self._path.stat().st_size + sum(path.stat().st_size for path in others)
        removed = []
        for path in sorted(others, key=created):
            if total <= self._most_bytes:
                break
            total -= path.stat().st_size
            os.unlink(str(path))
            removed.append(path.name)
        return removed


def discard(archives: Path) -> List[str]:
    """Remove all archives; returns their names."""
    found = sorted(archives.glob("*.tar"))
    for path in found:
        os.unlink(str(path))
    return [path.name for path in found]
