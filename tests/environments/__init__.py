"""Virtual environments that tests start programs in, and older Pythons where this machine has them.

They lie below the folder that COMPILEGATE_TEST_ENVIRONMENTS names (by default
.cache/test-environments in the repository), under a digest of the files that say what they hold.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_UNREACHABLE = ("connection broken", "Network is unreachable")


class BuildError(Exception):
    """An environment could not be made: which, and why, in one sentence."""


class NotOfferedError(BuildError):
    """The package index cannot be reached, or does not have these releases."""


def folder(name: str, *contents: Path) -> Path:
    """Where an environment is, or would be."""
    named = os.environ.get("COMPILEGATE_TEST_ENVIRONMENTS")
    base = Path(named) if named else ROOT / ".cache" / "test-environments"
    if not contents:
        return base / name
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in contents))
    return base / f"{name}-{digest.hexdigest()[:12]}"


def interpreter(place: Path) -> Path | None:
    """Its Python; None where it was not made, or not to its end."""
    return place / "bin" / "python" if (place / "complete").is_file() else None


def make(place: Path, python: str | Path, install: Callable[[Path], None]) -> Path:
    """The interpreter of an environment, which is made where it is not there. Raises BuildError."""
    found = interpreter(place)
    if found is not None:
        return found
    shutil.rmtree(place, ignore_errors=True)  # an earlier build was broken off
    try:
        _run(place, [python, "-m", "venv", place], doing="venv")
        install(place)
        (place / "complete").touch()
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"{place.name} could not be made: {error}") from error
    finally:
        if interpreter(place) is None:
            shutil.rmtree(place, ignore_errors=True)  # half of one is gigabytes of no use
    return place / "bin" / "python"


def pip_install(place: Path, what: Sequence[str]) -> None:
    """Install wheels into an environment. Raises BuildError with pip's own reason."""
    options = ["--quiet", "--disable-pip-version-check", "--no-input", "--only-binary=:all:"]
    pip = [place / "bin" / "python", "-m", "pip", "install", *options]
    _run(place, [*pip, *what], doing=f"pip install {' '.join(what)}")


def _run(place: Path, command: Sequence[str | Path], *, doing: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    output = done.stderr + done.stdout
    unreachable = any(words in output for words in _UNREACHABLE)
    absent = "No matching distribution found" in output
    raise (NotOfferedError if unreachable or absent else BuildError)(
        f"{place.name} could not be made: {doing}: {_reason(output)}"
        + ("; the package index could not be reached" if unreachable else "")
    )


def _reason(output: str) -> str:
    """pip gives its reason in the last line that begins with ERROR, after any number of warnings;
    other programs end with theirs."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    others = [line for line in lines if not line.startswith("WARNING")]
    return (errors or others or ["it printed nothing"])[-1]


def find_python(release: str) -> str:
    """A Python of the release (`3.8`) that starts; a pyenv shim is on PATH even where it leads
    nowhere. Skips the test where there is none."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{release}*/bin/python{release}"))
    for candidate in [shutil.which(f"python{release}"), *map(str, pyenv)]:
        if candidate is None:
            continue
        answer = subprocess.run(
            [candidate, "--version"], capture_output=True, text=True, check=False
        )
        if answer.returncode == 0 and answer.stdout.startswith(f"Python {release}."):
            return candidate
    pytest.skip(f"no Python {release} on this machine (python{release} on PATH, or pyenv's)")
