"""The body of an HTTP request, read in pieces, without what its transport wraps around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from compilegate.local.errors import LocalRunError

PIECE = 1 << 20
_LONGEST_LINE = 1 << 16


class Stream(Protocol):
    """Where bytes come from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""

    def readline(self, limit: int, /) -> bytes:
        """A line with its end, or what is left."""


class BodyError(LocalRunError):
    """A body that ends early or whose frames are malformed; nothing of it is stored."""


def body_pieces(stream: Stream, headers: Mapping[str, str]) -> Iterator[bytes]:
    """The body's bytes; exactly as many as were announced, or BodyError."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        raw = _chunks(stream)
    else:
        raw = _exactly(stream, _length(headers))
    if _is_aws_chunked(headers):
        return _chunks(_Joined(raw))
    return raw


def _is_aws_chunked(headers: Mapping[str, str]) -> bool:
    return "aws-chunked" in headers.get("content-encoding", "") or headers.get(
        "x-amz-content-sha256", ""
    ).startswith("STREAMING-")


def _length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length", "0")
    if not text.isdecimal():
        raise BodyError(f"Content-Length is {text!r:.40}, expected a whole number")
    return int(text)


def _exactly(stream: Stream, length: int) -> Iterator[bytes]:
    while length:
        piece = stream.read(min(length, PIECE))
        if not piece:
            raise BodyError(f"the body ended {length} bytes early")
        length -= len(piece)
        yield piece


def _chunks(stream: Stream) -> Iterator[bytes]:
    """SIZE in hexadecimal[;EXTENSION], a line end, that many bytes, a line end; 0 is the last.

    HTTP's own chunks and those of AWS's signed streams have the same form; signatures and trailing
    checksums are read over.
    """
    while True:
        line = stream.readline(_LONGEST_LINE)
        size = line.partition(b";")[0].strip()
        try:
            length = int(size, 16)
        except ValueError:
            raise BodyError(f"a chunk begins with {line!r:.40}, expected its size") from None
        if length == 0:
            break
        yield from _exactly(stream, length)
        if stream.readline(_LONGEST_LINE).strip():
            raise BodyError("a chunk is longer than it says")
    while stream.readline(_LONGEST_LINE).strip():
        pass  # trailers


class _Joined:
    """Pieces as one stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        if not self._rest:
            self._rest = next(self._pieces, b"")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def readline(self, limit: int) -> bytes:
        """A line with its end, or what is left."""
        line = b""
        while not line.endswith(b"\n") and len(line) < limit:
            if not self._rest:
                self._rest = next(self._pieces, b"")
            if not self._rest:
                break
            end = self._rest.find(b"\n") + 1 or len(self._rest)
            line, self._rest = line + self._rest[:end], self._rest[end:]
        return line
