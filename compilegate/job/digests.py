"""sha256 digests of files and settings, in hexadecimal: they show that two jobs used the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Mapping


def file_digest(path: Path) -> str:
    """The digest of a file's bytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def folder_digest(folder: Path) -> str:
    """The digest of all files in a folder, however deep, with their names."""
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name}:{path.stat().st_size}:{file_digest(path)}\n".encode())
    return digest.hexdigest()


def settings_digest(settings: Mapping[str, Any]) -> str:
    """The digest of a JSON object in its canonical form (sorted keys, no spaces)."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
