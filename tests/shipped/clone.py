"""A clone of the repository as somebody has it: every tracked file, in a folder of its own, with
the environment and the Node tools that are here already."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKLOADS = sorted(path.stem for path in (ROOT / "workloads").glob("*.toml"))


@dataclass(frozen=True)
class Place:
    """A folder in which commands run, and what they find in their environment."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, commands: str) -> str:
        """What commands of a shell print; they must end well."""
        ended = subprocess.run(
            ["/bin/sh", "-e", "-c", commands],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{commands}\n{ended.stdout}"
        return ended.stdout


def clone_at(folder: Path, environment: Mapping[str, str] = os.environ) -> Place:
    """Make it. What git ignores stays behind."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, folder / name
        if not os.path.lexists(source):
            continue  # deleted, and not committed yet
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target, follow_symlinks=False)
    made = (Path(sys.prefix) / ".developing", ROOT / "node_modules" / ".installed")
    assert all(path.is_file() for path in made), "run these tests as `make shipped` does"
    for name in ("pyproject.toml", "constraints.txt", "package.json", "package-lock.json"):
        os.utime(folder / name, (0, 0))  # or make would install what is there
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "node_modules").symlink_to(ROOT / "node_modules")
    programs = str(Path(sys.executable).parent)
    return Place(
        folder,
        {
            **environment,
            "PATH": os.pathsep.join([programs, environment["PATH"]]),
            "PYTHONPATH": str(folder),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
