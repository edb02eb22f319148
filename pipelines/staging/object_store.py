"""What staging needs of an object store; a local folder and S3 both can do it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class ObjectStore(Protocol):
    """Objects by `s3://` URI."""

    def exists(self, uri: str) -> bool:
        """Whether there is an object at this URI."""

    def upload(self, source: Path, uri: str) -> None:
        """Write one object with a file's content, whole or not at all. May keep the file itself
        instead of a copy, so the file must not be anybody else's."""
