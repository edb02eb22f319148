"""Older Pythons, where this machine has them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def find_python(release: str) -> str:
    """A Python of the release (`3.8`) that starts; a pyenv shim is on PATH even where it leads
    nowhere. Skips the test where there is none."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{release}*/bin/python{release}"))
    for candidate in [shutil.which(f"python{release}"), *map(str, pyenv)]:
        if candidate is None:
            continue
        said = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if said.returncode == 0 and said.stdout.startswith(f"Python {release}."):
            return candidate
    pytest.skip(f"no Python {release} on this machine (python{release} on PATH, or pyenv's)")
