"""The HTTP side: whose request it is, for which service, what is refused, and how bodies come."""

from __future__ import annotations

import json
import re
import select
import socket
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from compilegate.local.aws.s3 import PIECE, Answer, Asked, BodyError, LocalS3, Slice, failure
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.requests import ACCOUNT

_CREDENTIAL = re.compile(
    r"(?P<key>[^/,=\s]+)/\d{8}/(?:[^/,\s]+/)?(?P<service>[^/,\s]+)/aws4_request"
)
_ACCOUNT_ID = ACCOUNT.rpartition(":")[2]
_READS = frozenset({"GET", "HEAD"})
_LONGEST_LINE = 1 << 16


def serve(
    listener: socket.socket,
    stop: int,
    *,
    store: ObjectStore,
    scratch: Path,
    key: str,
    named: str,
) -> None:
    """Answer requests until the pipe `stop` is closed at its other end."""
    server = _Server(listener, LocalS3(store, scratch, named), key)
    try:
        while True:
            readable, _, _ = select.select([listener, stop], [], [])
            if stop in readable:
                return
            server.handle_request()
    finally:
        server.let_go()


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a job that keeps a connection open does not keep the runner

    def __init__(self, listener: socket.socket, s3: LocalS3, key: str) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.s3 = s3
        self.key = key

    def let_go(self) -> None:
        """Nothing: the socket is its giver's."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A job that goes away in the middle of an answer is no event."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "compilegate"
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed: the execution's own table is on the terminal."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        served = cast(_Server, self.server)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        said = _credential(headers.get("authorization", ""), query)
        refusal = self._why_refused(headers.get("host", ""), said, served.key)
        if refusal is not None:
            self.close_connection = True
            self._send(refusal)
            return
        service = "s3" if said is None else said[1]
        if service not in {"s3", "s3express"}:
            self._send(self._elsewhere(service, headers))
            return
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        body = _body_pieces(self.rfile, headers)
        query.pop("x-id", None)
        for name in [name for name in query if name.lower().startswith("x-amz-")]:
            del query[name]
        answer = served.s3.answer(Asked(self.command, bucket, key, query, headers, body))
        try:
            for _ in body:  # what the answer did not need
                pass
        except BodyError:
            self.close_connection = True
        self._send(answer)

    def _why_refused(self, host: str, said: tuple[str, str] | None, key: str) -> Answer | None:
        """Why a request that is signed as `said` is not answered; None where it is."""
        if not host.startswith("127.0.0.1"):
            return failure(403, "AccessDenied", "this address is for the jobs of an execution")
        if said is None and self.command not in _READS:
            return failure(403, "AccessDenied", "a request that changes something is signed")
        if said is None or said[0] == key:
            return None
        return failure(
            403,
            "InvalidAccessKeyId",
            "this is the local S3, and the key is not the one that the job was given in "
            "AWS_ACCESS_KEY_ID; to reach an account on purpose: "
            "--env AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true and its keys with --env",
        )

    do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815

    def _elsewhere(self, service: str, headers: Mapping[str, str]) -> Answer:
        """The answer for another service: who one is, and otherwise that it is not here."""
        content = b"".join(_body_pieces(self.rfile, headers))
        operation = _operation(headers, content, self.command, self.path)
        if service == "sts" and operation == "GetCallerIdentity":
            return _identity()
        sentence = (
            f"{service} {operation} is not answered on this machine: of AWS, jobs find S3 alone "
            "here, in the local store; leave the step out with --skip, let a command do it with "
            "--command, or reach an account on purpose: its keys with --env, and "
            "--env AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true"
        )
        return _refusal(headers.get("content-type", ""), sentence)

    def _send(self, answer: Answer) -> None:
        body = answer.body
        length = body.length if isinstance(body, Slice) else len(body)
        self.send_response(answer.status)
        for name, value in {"x-amz-request-id": "local", **answer.headers}.items():
            self.send_header(name, value)
        if "Content-Length" not in answer.headers and answer.status not in {204, 304}:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "HEAD" or answer.status in {204, 304}:
            return
        if isinstance(body, Slice):
            self.wfile.flush()
            if body.length:
                with body.path.open("rb") as file:
                    self.connection.sendfile(file, body.start, body.length)
        else:
            self.wfile.write(body)


def _credential(authorization: str, query: Mapping[str, str]) -> tuple[str, str] | None:
    """(key, service) that a request is signed with; None for one that is not signed."""
    old = re.fullmatch(r"AWS ([^:\s]+):\S+", authorization)
    if old is not None:
        return old[1], "s3"
    match = _CREDENTIAL.search(authorization or query.get("X-Amz-Credential", ""))
    if match is not None:
        return match["key"], match["service"]
    if "AWSAccessKeyId" in query:
        return query["AWSAccessKeyId"], "s3"
    return ("", "") if authorization else None


def _operation(headers: Mapping[str, str], content: bytes, method: str, path: str) -> str:
    """What is called: each family of protocols says it elsewhere."""
    target = headers.get("x-amz-target", "")
    if target:
        return target.rpartition(".")[2]
    if "form-urlencoded" in headers.get("content-type", ""):
        return dict(parse_qsl(content.decode("utf-8", "replace"))).get("Action", method)
    return f"{method} {path.partition('?')[0]}"


def _identity() -> Answer:
    arn = f"arn:aws:sts::{_ACCOUNT_ID}:assumed-role/local/job"
    text = (
        '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
        f"<GetCallerIdentityResult><Arn>{arn}</Arn><UserId>LOCAL:job</UserId>"
        f"<Account>{_ACCOUNT_ID}</Account></GetCallerIdentityResult>"
        "<ResponseMetadata><RequestId>local</RequestId></ResponseMetadata>"
        "</GetCallerIdentityResponse>"
    )
    return Answer(200, {"Content-Type": "text/xml"}, text.encode())


def _refusal(content_type: str, sentence: str) -> Answer:
    """In the form of the protocol that was spoken, so that the client shows the sentence."""
    code = "NotOnThisMachine"
    if "form-urlencoded" in content_type:
        text = (
            f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code>"
            f"<Message>{escape(sentence)}</Message></Error><RequestId>local</RequestId>"
            "</ErrorResponse>"
        )
        return Answer(400, {"Content-Type": "text/xml"}, text.encode())
    body = json.dumps({"__type": code, "message": sentence, "Message": sentence}).encode()
    kind = content_type or "application/json"
    return Answer(400, {"Content-Type": kind, "x-amzn-ErrorType": code}, body)


# Bodies, without what their transport wraps around them


class _Stream(Protocol):
    """Where bytes come from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""

    def readline(self, limit: int, /) -> bytes:
        """A line with its end, or what is left."""


def _body_pieces(stream: _Stream, headers: Mapping[str, str]) -> Iterator[bytes]:
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


def _exactly(stream: _Stream, length: int) -> Iterator[bytes]:
    while length:
        piece = stream.read(min(length, PIECE))
        if not piece:
            raise BodyError(f"the body ended {length} bytes early")
        length -= len(piece)
        yield piece


def _chunks(stream: _Stream) -> Iterator[bytes]:
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
