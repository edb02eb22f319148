"""What is sent back: status, headers, and a document or a file's bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'

Fields = Sequence[tuple[str, "str | Fields"]]
"""An XML element's children in order: names with texts, or with children of their own."""


@dataclass(frozen=True)
class Slice:
    """Some bytes of a file."""

    path: Path
    start: int
    length: int


@dataclass(frozen=True)
class Answer:
    """One HTTP response."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Slice = b""


def document(name: str, fields: Fields, *, status: int = 200) -> Answer:
    """An XML document of S3's."""
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{name} {_NAMESPACE}>{_xml(fields)}</{name}>'
    return Answer(status, {"Content-Type": "application/xml"}, text.encode())


def failure(status: int, code: str, message: str) -> Answer:
    """An error as S3 says it; clients show code and message."""
    fields = [("Code", code), ("Message", message), ("RequestId", "local")]
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{_xml(fields)}</Error>'
    return Answer(status, {"Content-Type": "application/xml"}, text.encode())


def _xml(fields: Fields) -> str:
    return "".join(
        f"<{name}>{escape(value) if isinstance(value, str) else _xml(value)}</{name}>"
        for name, value in fields
    )
