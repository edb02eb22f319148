"""The image folders, and the tag that the content of each gives its image."""

from __future__ import annotations

import hashlib
from pathlib import Path

TAG_LENGTH = 16


def image_tags(containers: Path) -> dict[str, str]:
    """Tag by image folder: a digest of the folder's files, so that the step cache notices when an
    image changes."""
    return {
        folder.name: _digest(folder)[:TAG_LENGTH]
        for folder in sorted(containers.iterdir())
        if (folder / "requirements.txt").is_file()
    }


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            name = path.relative_to(folder).as_posix()
            digest.update(f"{len(name)}:{name}:{len(content)}:".encode())
            digest.update(content)
    return digest.hexdigest()
