"""The HTTP side: an endpoint for an execution's jobs, whose request it is and for which service,
what is refused, and how bodies come."""

from __future__ import annotations

import io
import json
import re
import secrets
import shutil
import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from compilegate.local.aws.s3 import (
    PIECE,
    Answer,
    BodyError,
    Fields,
    LocalS3,
    S3Error,
    S3Request,
    Slice,
    failure,
    xml,
)
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.requests import ACCOUNT

_CREDENTIAL = re.compile(
    r"(?P<key>[^/,=\s]+)/\d{8}/(?:[^/,\s]+/)?(?P<service>[^/,\s]+)/aws4_request"
)
_ACCOUNT_ID = ACCOUNT.rpartition(":")[2]
_DEFAULT_REGION = "us-east-1"
_READS = frozenset({"GET", "HEAD"})
_LONGEST_LINE = 1 << 16


@contextmanager
def aws_endpoint(
    store: ObjectStore, scratch: Path, machine: Mapping[str, str], named: str = ""
) -> Iterator[Mapping[str, str]]:
    """Answer S3 from `store` as long as the block lasts; gives the variables that lead a job there.

    `scratch` is the folder of uploads in flight, on the store's disk. `machine` is the runner's own
    environment, of which the region alone is passed on. A bucket whose name stands in the text
    `named` is made when a job first writes to it.
    """
    key = f"LOCAL{secrets.token_hex(8).upper()}"
    region = machine.get("AWS_REGION") or machine.get("AWS_DEFAULT_REGION") or _DEFAULT_REGION
    with _Server(LocalS3(store, scratch, named), key) as server:
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield _endpoint_variables(f"http://127.0.0.1:{server.server_port}", key, region)
        finally:
            server.stopping = True
            socket.create_connection(("127.0.0.1", server.server_port)).close()  # wakes it
            thread.join()
            shutil.rmtree(scratch, ignore_errors=True)


def _endpoint_variables(url: str, key: str, region: str) -> dict[str, str]:
    """What leads boto3, the CLI and others to the endpoint at `url` and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": key,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a job that keeps a connection open does not keep the runner
    request_queue_size = 128

    def __init__(self, s3: LocalS3, key: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.s3 = s3
        self.key = key
        self.stopping = False

    def server_bind(self) -> None:
        """Without the look-up of a name, which may wait for the network."""
        socketserver.TCPServer.server_bind(self)
        self.server_port = self.server_address[1]

    def serve(self) -> None:
        """Answer requests, asleep between them, until `stopping`."""
        while not self.stopping:
            self.handle_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A job that goes away in the middle of an answer is no event."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "compilegate"
    wbufsize = -1

    def handle_expect_100(self) -> bool:
        """Let the client go on at once: boto3 waits a second for it."""
        go_on = super().handle_expect_100()
        self.wfile.flush()
        return go_on

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the terminal shows the execution's own table."""

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = _body_pieces(self.rfile, headers)
            answer = self._answer(headers, body)
            for _ in body:  # what the answer did not need
                pass
        except S3Error as error:
            self.close_connection = True
            answer = failure(error)
        self._send(answer)

    def _answer(self, headers: Mapping[str, str], body: Iterator[bytes]) -> Answer:
        parts, served = urlsplit(self.path), cast(_Server, self.server)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        key, service = _credential(headers.get("authorization", ""), query) or (None, "s3")
        if not headers.get("host", "").startswith("127.0.0.1"):
            raise S3Error(403, "AccessDenied", "this address is for the jobs of an execution")
        if key is None and self.command not in _READS:
            raise S3Error(403, "AccessDenied", "a request that changes something must be signed")
        if key not in (None, served.key):
            raise S3Error(
                403,
                "InvalidAccessKeyId",
                "this is the local S3, which takes the key that the job has in "
                "AWS_ACCESS_KEY_ID and no other; to reach an account, pass its keys "
                "and AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true with --env",
            )
        if service != "s3":
            return self._other_service(service, headers, b"".join(body))
        asks = {
            name: value
            for name, value in query.items()
            if name != "x-id" and not name.lower().startswith("x-amz-")
        }
        bucket, _, name = unquote(parts.path).lstrip("/").partition("/")
        return served.s3.answer(S3Request(self.command, bucket, name, asks, headers, body))

    do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815

    def _other_service(self, service: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """The answer for another service: who one is, and otherwise that it is not here."""
        operation = _operation(headers, content, self.command, self.path)
        if service == "sts" and operation == "GetCallerIdentity":
            return _identity()
        sentence = (
            f"{service} {operation} is not available on this machine, where jobs "
            "reach S3 alone, in the local store; leave the step out (--skip), "
            "replace it by a command (--command), or reach an account: pass its "
            "keys and AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true with --env"
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
    match = _CREDENTIAL.search(authorization or query.get("X-Amz-Credential", ""))
    if match is not None:
        return match["key"], match["service"]
    if "AWSAccessKeyId" in query:
        return query["AWSAccessKeyId"], "s3"
    return ("", "") if authorization else None


def _operation(headers: Mapping[str, str], content: bytes, method: str, path: str) -> str:
    """The name of the action. Each family of protocols puts it in another place."""
    target = headers.get("x-amz-target", "")
    if target:
        return target.rpartition(".")[2]
    if "form-urlencoded" in headers.get("content-type", ""):
        return dict(parse_qsl(content.decode("utf-8", "replace"))).get("Action", method)
    return f"{method} {path.partition('?')[0]}"


def _identity() -> Answer:
    arn = f"arn:aws:sts::{_ACCOUNT_ID}:assumed-role/local/job"
    who: Fields = [("Arn", arn), ("UserId", "LOCAL:job"), ("Account", _ACCOUNT_ID)]
    name, namespace = "GetCallerIdentityResponse", "https://sts.amazonaws.com/doc/2011-06-15/"
    text = f'<{name} xmlns="{namespace}">{xml([("GetCallerIdentityResult", who)])}</{name}>'
    return Answer(200, {"Content-Type": "text/xml"}, text.encode())


def _refusal(content_type: str, sentence: str) -> Answer:
    """An error in the form of the request's protocol, so that the client shows the sentence."""
    code = "NotOnThisMachine"
    if "form-urlencoded" in content_type:
        error: Fields = [("Type", "Sender"), ("Code", code), ("Message", sentence)]
        text = xml([("ErrorResponse", [("Error", error), ("RequestId", "local")])])
        return Answer(400, {"Content-Type": "text/xml"}, text.encode())
    body = json.dumps({"__type": code, "message": sentence, "Message": sentence}).encode()
    kind = content_type or "application/json"
    return Answer(400, {"Content-Type": kind, "x-amzn-ErrorType": code}, body)


# Bodies, without what their transport wraps around them


def _body_pieces(stream: io.BufferedIOBase, headers: Mapping[str, str]) -> Iterator[bytes]:
    """The body's bytes; exactly as many as were announced, or BodyError."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        raw = _chunks(stream)
    else:
        raw = _exactly(stream, _length(headers))
    signed = headers.get("x-amz-content-sha256", "").startswith("STREAMING-")
    if signed or "aws-chunked" in headers.get("content-encoding", ""):
        return _chunks(io.BufferedReader(_Joined(raw)))
    return raw


def _length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length", "0")
    if not text.isdecimal():
        raise BodyError(f"Content-Length is {text!r:.40}, expected a whole number")
    return int(text)


def _exactly(stream: io.BufferedIOBase, length: int) -> Iterator[bytes]:
    while length:
        piece = stream.read(min(length, PIECE))
        if not piece:
            raise BodyError(f"the body ended {length} bytes early")
        length -= len(piece)
        yield piece


def _chunks(stream: io.BufferedIOBase) -> Iterator[bytes]:
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


class _Joined(io.RawIOBase):
    """Pieces as one stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or some of it; returns with how many bytes, 0 at the end."""
        piece = self._rest or next(self._pieces, b"")
        taken, self._rest = piece[: len(buffer)], piece[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
