"""Files that are either whole or absent, whatever kills the process that writes them."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, durably: after a crash it holds the old bytes or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, document: Any) -> None:
    """Replace `path` by `document` as JSON, durably. Raises ValueError for NaN and infinities."""
    text = json.dumps(document, indent=1, allow_nan=False)
    write_bytes(path, (text + "\n").encode())


def read_json(path: Path) -> Any:
    """The JSON document in `path`. Raises OSError or ValueError."""
    return json.loads(path.read_bytes())


def temporary_name(path: Path) -> Path:
    """A fresh name beside `path`, for content that is renamed to `path` once it is whole."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
