"""What S3 answers to a request for a bucket or an object, out of the local store.

An object's tag is made of its file's size and times, like the tag of an upload in parts: clients
compare it with itself and never with a digest. Tags, metadata, access lists and versions are not
kept. Uploads in flight are files of a scratch folder: nothing is seen in the store before all of it
has come.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape, unescape

from compilegate.job.files import NO_SPACE, whole_file
from compilegate.local.errors import LocalRunError, ObjectStoreError
from compilegate.local.home.object_store import ObjectStore, is_upload

PIECE = 1 << 20
"""Bytes that are held at once of a body or a file."""
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_LARGEST_DOCUMENT = 8 << 20
_MOST_LISTED = 1000
_LISTING = frozenset(
    {
        *("list-type", "prefix", "delimiter", "max-keys", "marker", "start-after"),
        *("continuation-token", "encoding-type", "fetch-owner"),
    }
)
"""The members of a query that ask for a part of a bucket's listing."""
_SUBRESOURCES = (
    *("uploadId", "uploads", "tagging", "acl", "attributes", "torrent", "retention"),
    "legal-hold",
)
"""The members of a query that ask for something else than an object's content."""

Fields = Sequence[tuple[str, "str | Fields"]]
"""An XML element's children in order: names with texts, or with children of their own."""


class S3Error(LocalRunError):
    """What is answered to a request that cannot be done."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class BodyError(S3Error):
    """A body that ends early or whose frames are malformed; nothing of it is stored."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "IncompleteBody", message)


@dataclass(frozen=True)
class S3Request:
    method: str
    bucket: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Iterable[bytes]

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True)
class Slice:
    path: Path
    start: int
    length: int


@dataclass(frozen=True)
class Answer:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Slice = b""


def failure(error: S3Error) -> Answer:
    """An error as S3 sends it; clients show code and message."""
    fields = [("Code", error.code), ("Message", str(error)), ("RequestId", "local")]
    return _xml_answer(xml([("Error", fields)]), error.status)


def _document(name: str, fields: Fields = ()) -> Answer:
    return _xml_answer(f"<{name} {_NAMESPACE}>{xml(fields)}</{name}>")


def _xml_answer(element: str, status: int = 200) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n{element}'
    return Answer(status, {"Content-Type": "application/xml"}, text.encode())


def xml(fields: Fields) -> str:
    return "".join(
        f"<{name}>{escape(value) if isinstance(value, str) else xml(value)}</{name}>"
        for name, value in fields
    )


class LocalS3:
    """S3 over the store."""

    def __init__(self, store: ObjectStore, scratch: Path, named: str = "") -> None:
        """A bucket whose name stands in the text `named` counts as made."""
        self._store = store
        self._named = named
        self._scratch = scratch
        """The folder of uploads in flight: a file each, or a folder with a file for each part."""
        self._targets: dict[str, str] = {}
        """The object's URI by the ID of its multipart upload."""
        # By method, whether there is a key, and what the query asks for.
        self._operations: Mapping[tuple[str, bool, str], Callable[[S3Request], Answer]] = {
            ("HEAD", False, ""): lambda _: Answer(),
            ("GET", False, ""): self._list,
            ("POST", False, "delete"): self._delete_many,
            ("GET", False, "location"): lambda _: _document("LocationConstraint"),
            ("PUT", True, ""): self._put,
            ("PUT", True, "uploadId"): self._put_part,
            ("POST", True, "uploads"): self._begin,
            ("POST", True, "uploadId"): self._complete,
            ("DELETE", True, ""): self._delete,
            ("DELETE", True, "uploadId"): self._abort,
        }

    def answer(self, request: S3Request) -> Answer:
        """The response; a refusal of any kind is one, too. Raises BodyError."""
        try:
            return self._answer(request)
        except BodyError:
            raise
        except S3Error as error:
            return failure(error)
        except ObjectStoreError as error:
            return failure(S3Error(400, "InvalidArgument", str(error)))
        except OSError as error:
            full = error.errno in NO_SPACE
            status, code = (507, "InsufficientStorage") if full else (400, "InvalidArgument")
            text = f"{request.uri}: {error.strerror or error}"
            return failure(S3Error(status, code, text))

    def _answer(self, request: S3Request) -> Answer:
        if not request.bucket:
            return self._buckets() if request.method == "GET" else _not_here(request)
        if request.key and request.method in {"GET", "HEAD"}:
            return self._read(request)
        folder = self._store.path(f"s3://{request.bucket}")
        if request.method == "PUT" and not request.key and not request.query:
            folder.mkdir(parents=True, exist_ok=True)
            return Answer(200, {"Location": f"/{request.bucket}"})
        # A bucket that the definition names is made when it is first needed.
        if re.search(rf"(?<![\w.\-]){re.escape(request.bucket)}(?![\w.\-])", self._named):
            folder.mkdir(parents=True, exist_ok=True)
        if not folder.is_dir():
            text = f"the bucket {request.bucket} is missing; make the folder {folder}"
            raise S3Error(404, "NoSuchBucket", text)
        kind = (
            _subresource(request) if request.key else "&".join(sorted({*request.query} - _LISTING))
        )
        operation = self._operations.get((request.method, bool(request.key), kind), _not_here)
        return operation(request)

    # Buckets

    def _buckets(self) -> Answer:
        root = self._store.root
        found = [path for path in sorted(root.iterdir()) if path.is_dir()] if root.is_dir() else []
        names: Fields = [
            ("Bucket", [("Name", path.name), ("CreationDate", _modified(path))]) for path in found
        ]
        return _document("ListAllMyBucketsResult", [("Buckets", names)])

    def _delete_many(self, request: S3Request) -> Answer:
        text = _document_of(request)
        keys = [
            unescape(key, {"&quot;": '"', "&apos;": "'"})
            for key in re.findall(r"<Key>(.*?)</Key>", text, re.DOTALL)
        ]
        for key in keys:
            self._remove(request.bucket, key)
        quiet = "<Quiet>true</Quiet>" in text
        return _document(
            "DeleteResult", [] if quiet else [("Deleted", [("Key", key)]) for key in keys]
        )

    def _list(self, request: S3Request) -> Answer:
        """List objects, versions 1 and 2 of the API."""
        query, second = request.query, request.query.get("list-type") == "2"
        token = query.get("continuation-token") if second else None
        after = query.get("start-after" if second else "marker", "")
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most = min(_MOST_LISTED, int(query.get("max-keys") or _MOST_LISTED))
        found = page_of(
            _keys_below(self._store.path(f"s3://{request.bucket}"), prefix),
            prefix=prefix,
            delimiter=delimiter,
            after=after if token is None else unquote(token, errors="surrogateescape"),
            most=most,
        )

        def written(text: str) -> str:
            return quote(text, safe="/") if query.get("encoding-type") == "url" else text

        fields: list[tuple[str, str | Fields]] = [
            ("Name", request.bucket),
            ("Prefix", written(prefix)),
            ("Delimiter", written(delimiter)),
            ("MaxKeys", str(most)),
            ("KeyCount", str(len(found.keys) + len(found.prefixes))),
            ("IsTruncated", "true" if found.next is not None else "false"),
            *([("EncodingType", "url")] if query.get("encoding-type") == "url" else []),
        ]
        if found.next is not None:
            name = "NextContinuationToken" if second else "NextMarker"
            token = quote(found.next, errors="surrogateescape")
            fields.append((name, token if second else written(found.next)))
        for key in found.keys:
            path = self._store.path(f"s3://{request.bucket}/{key}")
            if path.is_file():  # it may have gone since it was listed
                fields.append(("Contents", [("Key", written(key)), *_described(path)]))
        fields += [("CommonPrefixes", [("Prefix", written(each))]) for each in found.prefixes]
        return _document("ListBucketResult", fields)

    # Objects

    def _read(self, request: S3Request) -> Answer:
        path = self._store.path(request.uri)
        if request.key.endswith("/") and path.is_dir():
            return Answer(200, {"Content-Length": "0", "ETag": '"folder"'})
        if request.key.endswith("/") or not path.is_file():
            text = (
                f"{request.uri} is not in the local store; put it at {path}, or name with --data "
            )
            raise S3Error(404, "NoSuchKey", f"{text}its folder")
        return _not_here(request) if _subresource(request) else _content(path, request.headers)

    def _put(self, request: S3Request) -> Answer:
        path = self._store.path(request.uri)
        if is_upload(path.name):
            text = f"{request.uri}: a key may not end in {path.name} here"
            raise S3Error(400, "InvalidArgument", text)
        if request.headers.get("if-none-match") == "*" and path.is_file():
            raise S3Error(412, "PreconditionFailed", f"{request.uri} exists")
        if request.key.endswith("/"):  # what consoles and scripts make to have a folder
            path.mkdir(parents=True, exist_ok=True)
            return Answer(200, {"ETag": '"folder"'})
        source = self._source(request)
        part = self._scratch / secrets.token_hex(8)
        try:
            _write(request.body if source is None else _file_pieces(source), part)
            self._store.upload(part, request.uri)
        finally:
            part.unlink(missing_ok=True)
        if source is None:
            return Answer(200, {"ETag": _tag(path)})
        fields = [("LastModified", _modified(path)), ("ETag", _tag(path))]
        return _document("CopyObjectResult", fields)

    def _begin(self, request: S3Request) -> Answer:
        upload = secrets.token_hex(16)
        (self._scratch / upload).mkdir(parents=True)
        self._targets[upload] = request.uri
        fields = [("Bucket", request.bucket), ("Key", request.key)]
        return _document("InitiateMultipartUploadResult", [*fields, ("UploadId", upload)])

    def _put_part(self, request: S3Request) -> Answer:
        upload, number = self._upload(request), request.query.get("partNumber", "")
        if not re.fullmatch(r"[1-9]\d{0,4}", number):
            raise S3Error(400, "InvalidArgument", f"partNumber is {number!r:.20}")
        source, pieces = self._source(request), request.body
        if source is not None:
            wanted = _RANGE.fullmatch(request.headers.get("x-amz-copy-source-range", ""))
            first, last = (int(wanted[1] or 0), int(wanted[2]) + 1) if wanted else (0, None)
            pieces = _file_pieces(source, first, last)
        _write(pieces, upload / number)
        tag = f'"{int(number):032x}"'
        if source is None:
            return Answer(200, {"ETag": tag})
        return _document("CopyPartResult", [("ETag", tag)])

    def _complete(self, request: S3Request) -> Answer:
        upload = self._upload(request)
        numbers = re.findall(r"<PartNumber>\s*(\d+)\s*</PartNumber>", _document_of(request))
        if not numbers or numbers != sorted(set(numbers), key=int):
            raise S3Error(400, "InvalidPartOrder", "parts must be listed once, in order")
        missing = [number for number in numbers if not (upload / number).is_file()]
        if missing:
            raise S3Error(
                400, "InvalidPart", f"part {missing[0]} of {request.uri} was not uploaded"
            )
        first, *others = [upload / number for number in numbers]
        with first.open("ab") as whole:
            for other in others:
                whole.writelines(_file_pieces(other))
                other.unlink()
        self._store.upload(first, request.uri)
        self._abort(request)
        tag = _tag(self._store.path(request.uri))
        fields = [("Bucket", request.bucket), ("Key", request.key), ("ETag", tag)]
        return _document("CompleteMultipartUploadResult", fields)

    def _abort(self, request: S3Request) -> Answer:
        shutil.rmtree(self._upload(request), ignore_errors=True)
        del self._targets[request.query["uploadId"]]
        return Answer(204)

    def _upload(self, request: S3Request) -> Path:
        """The folder of an upload in parts; each is there by its number."""
        identifier = request.query["uploadId"]
        if self._targets.get(identifier) != request.uri:
            text = f"there is no upload {identifier:.40} of this object"
            raise S3Error(404, "NoSuchUpload", text)
        return self._scratch / identifier

    def _source(self, request: S3Request) -> Path | None:
        """The file that is to be copied; None where the body is the object."""
        header = request.headers.get("x-amz-copy-source")
        if header is None:
            return None
        uri = f"s3://{unquote(header).partition('?')[0].lstrip('/')}"
        path = self._store.path(uri)
        if not path.is_file():
            raise S3Error(404, "NoSuchKey", f"{uri} is not in the local store, at {path}")
        return path

    def _delete(self, request: S3Request) -> Answer:
        self._remove(request.bucket, request.key)
        return Answer(204)

    def _remove(self, bucket: str, key: str) -> None:
        uri = f"s3://{bucket}/{key}"
        path = self._store.path(uri)
        if not key.endswith("/"):
            if path.is_file():
                self._store.remove(uri)
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _subresource(request: S3Request) -> str:
    return next((name for name in _SUBRESOURCES if name in request.query), "")


def _content(path: Path, headers: Mapping[str, str]) -> Answer:
    status = path.stat()
    tag, size = _tag(path), status.st_size
    common = {
        "ETag": tag,
        "Last-Modified": formatdate(status.st_mtime, usegmt=True),
        "Accept-Ranges": "bytes",
        "Content-Type": "binary/octet-stream",
    }
    if headers.get("if-none-match") in {tag, "*"}:
        return Answer(304, common)
    if headers.get("if-match") not in {None, tag, "*"}:
        raise S3Error(412, "PreconditionFailed", f"{path} has changed")
    wanted = _RANGE.fullmatch(headers.get("range", ""))
    if wanted is None or not (wanted[1] or wanted[2]):
        return Answer(200, common, Slice(path, 0, size))
    first = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
    last = min(size - 1, int(wanted[2])) if wanted[1] and wanted[2] else size - 1
    if first > last:
        raise S3Error(416, "InvalidRange", f"{headers['range']} is not within {size} bytes")
    place = {"Content-Range": f"bytes {first}-{last}/{size}"}
    return Answer(206, {**common, **place}, Slice(path, first, last - first + 1))


def _not_here(request: S3Request) -> Answer:
    what = " ".join([request.method, "&".join(sorted(request.query))]).strip()
    raise S3Error(400, "NotImplemented", f"{what} of {request.uri} is not supported here")


def _document_of(request: S3Request) -> str:
    text = b"".join(request.body)
    if len(text) > _LARGEST_DOCUMENT:
        raise BodyError(f"the document has {len(text)} bytes, expected at most {_LARGEST_DOCUMENT}")
    return text.decode("utf-8", errors="replace")


def _described(path: Path) -> Fields:
    return [
        ("LastModified", _modified(path)),
        ("ETag", _tag(path)),
        ("Size", str(path.stat().st_size)),
        ("StorageClass", "STANDARD"),
    ]


def _tag(path: Path) -> str:
    status = path.stat()
    text = f"{status.st_size} {status.st_mtime_ns}"
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}-1"'


def _modified(path: Path) -> str:
    moment = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='milliseconds')}Z"


# Listings


@dataclass(frozen=True)
class Page:
    """A part of a listing."""

    keys: tuple[str, ...]
    prefixes: tuple[str, ...]
    """What several keys have in common up to the delimiter; it stands for them."""
    next: str | None
    """What the next page comes after; None on the last one."""


def _keys_below(bucket: Path, prefix: str) -> list[str]:
    """The keys that begin with `prefix`, in S3's order (that of their UTF-8)."""
    folder = bucket / prefix.rpartition("/")[0] if "/" in prefix else bucket
    found: list[str] = []
    for parent, _, names in os.walk(folder, followlinks=True):
        base = Path(parent).relative_to(bucket).as_posix()
        keys = (name if base == "." else f"{base}/{name}" for name in names if not is_upload(name))
        found += [key for key in keys if key.startswith(prefix)]
    return sorted(found, key=os.fsencode)


def page_of(keys: Iterable[str], *, prefix: str, delimiter: str, after: str, most: int) -> Page:
    """The page of sorted `keys` that comes after `after`, with at most `most` entries."""
    listed: list[str] = []
    prefixes: list[str] = []
    last = after
    start = os.fsencode(after)
    for key in keys:
        end = key.find(delimiter, len(prefix)) if delimiter else -1
        entry = key if end < 0 else key[: end + len(delimiter)]
        if os.fsencode(entry) <= start or (prefixes and entry == prefixes[-1]):
            continue
        if len(listed) + len(prefixes) >= most:
            return Page(tuple(listed), tuple(prefixes), last)
        (listed if end < 0 else prefixes).append(entry)
        last = entry
    return Page(tuple(listed), tuple(prefixes), None)


# Files


def _write(pieces: Iterable[bytes], path: Path) -> None:
    """Write a file, whole or not at all."""
    with whole_file(path) as part, part.open("xb") as file:
        file.writelines(pieces)


def _file_pieces(path: Path, start: int = 0, end: int | None = None) -> Iterable[bytes]:
    """A file's bytes from `start` up to `end`, in pieces."""
    with path.open("rb") as file:
        file.seek(start)
        left = (path.stat().st_size if end is None else end) - start
        while left > 0 and (piece := file.read(min(left, PIECE))):
            left -= len(piece)
            yield piece
