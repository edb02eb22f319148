"""Objects on their way into the store: nothing is seen there before all of it has come."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.local.home.object_store import ObjectStore


@dataclass(frozen=True)
class Uploads:
    """Uploads in flight, as files below `folder`."""

    folder: Path
    store: ObjectStore

    def put(self, pieces: Iterable[bytes], uri: str) -> None:
        """Store one object; raises what reading it raises, and stores nothing then."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / secrets.token_hex(8)
        try:
            _write(pieces, part)
            self.store.upload(part, uri)
        finally:
            part.unlink(missing_ok=True)

    def begin(self, uri: str) -> str:
        """A new upload in parts; returns its id."""
        identifier = secrets.token_hex(16)
        folder = self.folder / identifier
        folder.mkdir(parents=True)
        (folder / "target.json").write_text(json.dumps(uri), encoding="utf-8")
        return identifier

    def is_of(self, identifier: str, uri: str) -> bool:
        """Whether there is such an upload of that object."""
        target = self.folder / identifier / "target.json"
        return (
            re.fullmatch(r"[0-9a-f]{32}", identifier) is not None
            and target.is_file()
            and json.loads(target.read_text(encoding="utf-8")) == uri
        )

    def add(self, identifier: str, number: int, pieces: Iterable[bytes]) -> None:
        """One part; a second one of the same number takes the first one's place."""
        part = self.folder / identifier / secrets.token_hex(8)
        try:
            _write(pieces, part)
            part.replace(self._part(identifier, number))
        finally:
            part.unlink(missing_ok=True)

    def parts(self, identifier: str) -> list[tuple[int, int]]:
        """The numbers and sizes of the parts that have come."""
        found = sorted((self.folder / identifier).glob("part-*"))
        return [(int(path.name.removeprefix("part-")), path.stat().st_size) for path in found]

    def complete(self, identifier: str, numbers: Sequence[int], uri: str) -> None:
        """Store the object that these parts make. Raises FileNotFoundError when one is absent."""
        first, *others = [self._part(identifier, number) for number in numbers]
        for other in others:
            other.stat()
        with first.open("ab") as whole:
            for other in others:
                with other.open("rb") as part:
                    shutil.copyfileobj(part, whole, 1 << 20)
                other.unlink()
        self.store.upload(first, uri)
        self.drop(identifier)

    def drop(self, identifier: str) -> None:
        """Forget an upload and what has come of it."""
        shutil.rmtree(self.folder / identifier, ignore_errors=True)

    def _part(self, identifier: str, number: int) -> Path:
        return self.folder / identifier / f"part-{number:05d}"


def _write(pieces: Iterable[bytes], path: Path) -> None:
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)


def file_pieces(path: Path, start: int = 0, end: int | None = None) -> Iterable[bytes]:
    """A file's bytes from `start` up to `end`, in pieces."""
    with path.open("rb") as file:
        file.seek(start)
        left = (path.stat().st_size if end is None else end) - start
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            left -= len(piece)
            yield piece
