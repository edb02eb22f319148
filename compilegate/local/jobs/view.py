"""The root that a job sees: this machine's, with folders of the job's own at the container's paths.

Pure: `process.py` makes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PRIVATE_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - what is there must not be seen
"""Each job has its own, as in a container; this machine's are hidden."""
SCRATCH = "/compilegate"
"""Where a job finds its home, its caches and its Python environment."""
_IN_MEMORY = ("/dev/shm",)  # noqa: S108


@dataclass(frozen=True)
class Bind:
    """A folder of this machine at a path of the job's root."""

    source: Path
    target: str
    may_write: bool = True


@dataclass(frozen=True)
class View:
    """A job's own root. What no bind names is this machine's, and read-only."""

    root: Path
    """The folder that becomes the root: what a job makes there, beside the binds, stays here."""
    binds: Sequence[Bind]
    files: Mapping[str, Path] = field(default_factory=dict)
    """By path of the job's root, a file that is shown instead of the one there."""

    def told(self) -> str:
        """As `process.py` wants it: a folder comes before what lies in it."""
        binds = sorted(self.binds, key=lambda bind: bind.target.count("/"))
        return json.dumps(
            {
                "root": str(self.root),
                "binds": [[str(b.source), b.target, b.may_write] for b in binds],
                "files": [[str(source), target] for target, source in self.files.items()],
                "memory": _IN_MEMORY,
            }
        )


def hidden(path: Path) -> bool:
    """Whether a job with its own root would not find this path of the machine."""
    return any(path.is_relative_to(folder) for folder in PRIVATE_FOLDERS)
