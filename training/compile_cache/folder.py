"""Where a compiler keeps its results while it works, and which of them are worth keeping."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Tuple

_UNFINISHED = (".tmp", ".part", ".lock")


@dataclass(frozen=True)
class Lookups:
    """How often the compiler asked its cache for a compiled graph."""

    hits: int
    misses: int


@dataclass(frozen=True)
class CacheFolder:
    """A folder that is the compiler's alone, for the length of one job."""

    path: Path
    left_out: Tuple[str, ...] = ()
    """Subfolders that are not worth keeping, or must not be kept."""
    binaries: Tuple[str, ...] = ()
    """How the names of files end that were slow to make: one that is new was made in this job."""

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
