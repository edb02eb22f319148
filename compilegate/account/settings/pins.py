"""`infra/images.lock.toml`: what the tags of base images stood for when somebody last looked.

A tag moves: AWS puts every patched image under the same one. Two builds of one folder would then
be two images under one tag, and neither the step cache nor the gate would see a difference. So an
image is built from its base's digest, and its own tag is computed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import RootModel

from compilegate.account.settings.declaration import Digest
from compilegate.declaration_errors import read_toml
from compilegate.errors import CompilegateError
from compilegate.job.files import write_text
from compilegate.workload.declaration.values import Table

LOCK_FILE = "images.lock.toml"
"""Beside the settings."""
HEADER = """\
# What the tags of base images stood for when `compilegate aws images --pin` last looked. Commit
# this file: images are built from these digests, and a changed one is a new image.
"""


class LockError(CompilegateError):
    """The lock cannot be used; one sentence that names the file and the key."""


class _Pin(Table):
    digest: Digest


class _Lock(RootModel[dict[str, _Pin]]):
    pass


def read_pins(settings: Path) -> dict[str, str]:
    """The digest by base image, `REPOSITORY:TAG`; empty without a lock beside the settings.

    Raises LockError.
    """
    path = settings.with_name(LOCK_FILE)
    if not path.exists():
        return {}
    lock = read_toml(path, _Lock, LockError)
    return {base: pin.digest for base, pin in lock.root.items()}


def write_pins(settings: Path, pins: Mapping[str, str]) -> Path:
    """Write the lock beside the settings, whole or not at all; returns its path."""
    path = settings.with_name(LOCK_FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = [f'\n["{base}"]\ndigest = "{pins[base]}"\n' for base in sorted(pins)]
    write_text(path, HEADER + "".join(tables))
    return path
