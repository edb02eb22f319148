"""What S3 answers to a request for a bucket or an object, out of the local store.

An object's tag is made of its file's size and times, like the tag of an upload in parts: clients
compare it with itself and never with a digest. Tags, metadata, access lists and versions are not
kept.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, unquote

from compilegate.local.aws.answers import Answer, Fields, Slice, document, failure
from compilegate.local.aws.bodies import BodyError
from compilegate.local.aws.listing import Page, keys_below, page_of
from compilegate.local.aws.uploads import Uploads, file_pieces
from compilegate.local.errors import CapacityError, ObjectStoreError
from compilegate.local.home.object_store import ObjectStore

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_LARGEST_DOCUMENT = 8 << 20
_WITHOUT_EFFECT = frozenset({"tagging", "acl"})
"""What may be asked and set on an object, and changes nothing."""


@dataclass(frozen=True)
class Asked:
    """One request for S3."""

    method: str
    bucket: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name in small letters."""
    body: Iterable[bytes]


class LocalS3:
    """S3 over the store."""

    def __init__(self, store: ObjectStore, scratch: Path, named: str = "") -> None:
        """A bucket whose name stands in the text `named` counts as made."""
        self._store = store
        self._named = named
        self._uploads = Uploads(scratch, store)

    def answer(self, asked: Asked) -> Answer:  # noqa: PLR0911  one for each request
        """The response; a refusal of any kind is one, too."""
        try:
            if not asked.bucket:
                return self._buckets() if asked.method == "GET" else _not_here(asked)
            if not asked.key:
                return self._of_bucket(asked)
            if asked.method in {"GET", "HEAD"}:
                return self._read(asked)
            return self._write(asked)
        except BodyError as error:
            return failure(400, "IncompleteBody", str(error))
        except CapacityError as error:
            return failure(507, "InsufficientStorage", str(error))
        except ObjectStoreError as error:
            return failure(400, "InvalidArgument", str(error))
        except OSError as error:
            return failure(400, "InvalidArgument", f"{_uri(asked)}: {error.strerror or error}")

    # Buckets

    def _buckets(self) -> Answer:
        root = self._store.root
        found = sorted(root.iterdir()) if root.is_dir() else []
        names: Fields = [
            ("Bucket", [("Name", path.name), ("CreationDate", _iso(path.stat().st_mtime))])
            for path in found
            if path.is_dir()
        ]
        return document("ListAllMyBucketsResult", [("Buckets", names)])

    def _of_bucket(self, asked: Asked) -> Answer:  # noqa: PLR0911  one for each request
        folder = self._store.path(f"s3://{asked.bucket}")
        subresource = {"location", "delete", "list-type", "versioning", "uploads"} & set(
            asked.query
        )
        if asked.method == "PUT" and not asked.query:
            folder.mkdir(parents=True, exist_ok=True)
            return Answer(200, {"Location": f"/{asked.bucket}"})
        if not self._has(asked.bucket):
            return _no_bucket(asked.bucket, folder)
        if asked.method == "HEAD":
            return Answer(200)
        if asked.method == "DELETE" and not asked.query:
            return self._delete_bucket(asked.bucket, folder)
        if asked.method == "POST" and "delete" in subresource:
            return self._delete_many(asked)
        if asked.method == "GET" and "location" in subresource:
            return document("LocationConstraint", [])
        if asked.method == "GET" and "versioning" in subresource:
            return document("VersioningConfiguration", [])
        if asked.method == "GET" and _is_listing(asked.query):
            return self._list(asked, folder)
        return _not_here(asked)

    def _delete_bucket(self, bucket: str, folder: Path) -> Answer:
        if keys_below(folder, ""):
            return failure(409, "BucketNotEmpty", f"the bucket {bucket} holds objects")
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir()
        folder.rmdir()
        return Answer(204)

    def _delete_many(self, asked: Asked) -> Answer:
        text = _document_of(asked)
        keys = [_unescaped(key) for key in re.findall(r"<Key>(.*?)</Key>", text, re.DOTALL)]
        for key in keys:
            self._remove(asked.bucket, key)
        quiet = "<Quiet>true</Quiet>" in text
        return document(
            "DeleteResult", [] if quiet else [("Deleted", [("Key", key)]) for key in keys]
        )

    def _list(self, asked: Asked, folder: Path) -> Answer:
        query = asked.query
        second = query.get("list-type") == "2"
        most = min(1000, int(query.get("max-keys") or 1000))
        after = query.get("marker", "")
        if second:
            token = query.get("continuation-token")
            after = query.get("start-after", "") if token is None else _from_token(token)
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        found = page_of(
            keys_below(folder, prefix),
            prefix=prefix,
            delimiter=delimiter,
            after=after,
            most=most,
        )
        encoded = query.get("encoding-type") == "url"

        def written(text: str) -> str:
            return quote(text, safe="/") if encoded else text

        fields: list[tuple[str, str | Fields]] = [
            ("Name", asked.bucket),
            ("Prefix", written(prefix)),
            ("MaxKeys", str(most)),
            ("IsTruncated", "true" if found.next is not None else "false"),
            *([("Delimiter", written(delimiter))] if delimiter else []),
            *([("EncodingType", "url")] if encoded else []),
        ]
        if second:
            fields += _second_version(query, found)
        elif found.next is not None:
            fields.append(("NextMarker", written(found.next)))
        for key in found.keys:
            path = self._store.path(f"s3://{asked.bucket}/{key}")
            if path.is_file():  # it may have gone since it was listed
                fields.append(("Contents", [("Key", written(key)), *_described(path)]))
        fields += [("CommonPrefixes", [("Prefix", written(each))]) for each in found.prefixes]
        return document("ListBucketResult", fields)

    def _has(self, bucket: str) -> bool:
        """Whether there is such a bucket, which is made where the definition names it."""
        folder = self._store.path(f"s3://{bucket}")
        if not folder.is_dir() and re.search(
            rf"(?<![\w.\-]){re.escape(bucket)}(?![\w.\-])", self._named
        ):
            folder.mkdir(parents=True, exist_ok=True)
        return folder.is_dir()

    # Objects

    def _read(self, asked: Asked) -> Answer:
        if asked.query.get("uploadId") is not None:
            return self._list_parts(asked)
        path = self._store.path(_uri(asked))
        if asked.key.endswith("/") and path.is_dir():
            return Answer(200, {"Content-Length": "0", "ETag": '"folder"'})
        if asked.key.endswith("/") or not path.is_file():
            return failure(
                404,
                "NoSuchKey",
                f"{_uri(asked)} is not in the local store; put it at {path}, or let --data "
                "bring its folder",
            )
        if "tagging" in asked.query:
            return document("Tagging", [("TagSet", "")])
        if set(asked.query) & {"acl", "attributes", "torrent", "retention", "legal-hold"}:
            return _not_here(asked)
        return _content(path, asked.headers)

    def _list_parts(self, asked: Asked) -> Answer:
        identifier = asked.query["uploadId"]
        if not self._uploads.is_of(identifier, _uri(asked)):
            return _no_upload(identifier)
        parts = [
            ("Part", [("PartNumber", str(number)), ("Size", str(size)), ("ETag", _part_tag(size))])
            for number, size in self._uploads.parts(identifier)
        ]
        return document("ListPartsResult", [("UploadId", identifier), *parts])

    def _write(self, asked: Asked) -> Answer:  # noqa: PLR0911  one for each request
        uri, query = _uri(asked), asked.query
        folder = self._store.path(f"s3://{asked.bucket}")
        if not self._has(asked.bucket):
            return _no_bucket(asked.bucket, folder)
        if asked.method == "DELETE" and "uploadId" in query:
            self._uploads.drop(query["uploadId"] if self._is_upload(asked) else "")
            return Answer(204)
        if set(query) & _WITHOUT_EFFECT:
            return Answer(204 if asked.method == "DELETE" else 200)
        if asked.method == "DELETE":
            self._remove(asked.bucket, asked.key)
            return Answer(204)
        if asked.method == "POST" and "uploads" in query:
            fields = [("Bucket", asked.bucket), ("Key", asked.key)]
            upload = self._uploads.begin(uri)
            return document("InitiateMultipartUploadResult", [*fields, ("UploadId", upload)])
        if asked.method == "POST" and "uploadId" in query:
            return self._complete(asked)
        if asked.method == "PUT" and "uploadId" in query:
            return self._put_part(asked)
        if asked.method == "PUT":
            return self._put(asked)
        return _not_here(asked)

    def _put(self, asked: Asked) -> Answer:
        uri = _uri(asked)
        path = self._store.path(uri)
        name = path.name
        if name.startswith(".") and name.endswith(".part"):
            return failure(400, "InvalidArgument", f"{uri}: a key may not end in {name} here")
        if asked.headers.get("if-none-match") == "*" and path.is_file():
            return failure(412, "PreconditionFailed", f"{uri} exists")
        if asked.key.endswith("/"):  # what consoles and scripts make to have a folder
            for _ in asked.body:
                pass
            path.mkdir(parents=True, exist_ok=True)
            return Answer(200, {"ETag": '"folder"'})
        source = self._source(asked)
        if isinstance(source, Answer):
            return source
        pieces = asked.body if source is None else file_pieces(source)
        self._uploads.put(pieces, uri)
        tag = _tag(path)
        if source is None:
            return Answer(200, {"ETag": tag})
        return document("CopyObjectResult", [("LastModified", _modified(path)), ("ETag", tag)])

    def _put_part(self, asked: Asked) -> Answer:
        identifier, number = asked.query["uploadId"], asked.query.get("partNumber", "")
        if not self._is_upload(asked):
            return _no_upload(identifier)
        if not re.fullmatch(r"[1-9]\d{0,4}", number):
            return failure(400, "InvalidArgument", f"partNumber is {number!r:.20}")
        source = self._source(asked)
        if isinstance(source, Answer):
            return source
        pieces = asked.body
        if source is not None:
            wanted = _RANGE.fullmatch(asked.headers.get("x-amz-copy-source-range", ""))
            first, last = (int(wanted[1] or 0), int(wanted[2]) + 1) if wanted else (0, None)
            pieces = file_pieces(source, first, last)
        self._uploads.add(identifier, int(number), pieces)
        tag = _part_tag(int(number))
        if source is None:
            return Answer(200, {"ETag": tag})
        return document("CopyPartResult", [("ETag", tag)])

    def _complete(self, asked: Asked) -> Answer:
        identifier, uri = asked.query["uploadId"], _uri(asked)
        if not self._is_upload(asked):
            return _no_upload(identifier)
        found = re.findall(r"<PartNumber>\s*(\d+)\s*</PartNumber>", _document_of(asked))
        numbers = [int(number) for number in found]
        if not numbers or numbers != sorted(set(numbers)):
            return failure(400, "InvalidPartOrder", "parts must be listed once, in order")
        missing = set(numbers) - {number for number, _ in self._uploads.parts(identifier)}
        if missing:
            return failure(400, "InvalidPart", f"part {min(missing)} of {uri} has not come")
        self._uploads.complete(identifier, numbers, uri)
        tag = _tag(self._store.path(uri))
        fields = [("Bucket", asked.bucket), ("Key", asked.key), ("ETag", tag)]
        return document("CompleteMultipartUploadResult", fields)

    def _is_upload(self, asked: Asked) -> bool:
        return self._uploads.is_of(asked.query["uploadId"], _uri(asked))

    def _source(self, asked: Asked) -> Path | Answer | None:
        """The file that is to be copied; None where the body is the object."""
        header = asked.headers.get("x-amz-copy-source")
        if header is None:
            return None
        uri = f"s3://{unquote(header).partition('?')[0].lstrip('/')}"
        path = self._store.path(uri)
        if not path.is_file():
            return failure(404, "NoSuchKey", f"{uri} is not in the local store, at {path}")
        return path

    def _remove(self, bucket: str, key: str) -> None:
        uri = f"s3://{bucket}/{key}"
        path = self._store.path(uri)
        if not key.endswith("/"):
            if path.is_file():
                self._store.remove(uri)
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _no_bucket(bucket: str, folder: Path) -> Answer:
    return failure(404, "NoSuchBucket", f"there is no bucket {bucket}; make the folder {folder}")


def _is_listing(query: Mapping[str, str]) -> bool:
    known = {
        *("list-type", "prefix", "delimiter", "max-keys", "marker", "start-after"),
        *("continuation-token", "encoding-type", "fetch-owner", "x-id"),
    }
    return not set(query) - known


def _second_version(query: Mapping[str, str], found: Page) -> list[tuple[str, str | Fields]]:
    fields: list[tuple[str, str | Fields]] = [
        ("KeyCount", str(len(found.keys) + len(found.prefixes)))
    ]
    if "continuation-token" in query:
        fields.append(("ContinuationToken", query["continuation-token"]))
    if found.next is not None:
        fields.append(("NextContinuationToken", _token(found.next)))
    return fields


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
        return failure(412, "PreconditionFailed", f"{path} has changed")
    wanted = _RANGE.fullmatch(headers.get("range", ""))
    if wanted is None or not (wanted[1] or wanted[2]):
        return Answer(200, common, Slice(path, 0, size))
    first = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
    last = min(size - 1, int(wanted[2])) if wanted[1] and wanted[2] else size - 1
    if first > last:
        return failure(416, "InvalidRange", f"{headers['range']} is not within {size} bytes")
    place = {"Content-Range": f"bytes {first}-{last}/{size}"}
    return Answer(206, {**common, **place}, Slice(path, first, last - first + 1))


def _uri(asked: Asked) -> str:
    return f"s3://{asked.bucket}/{asked.key}"


def _not_here(asked: Asked) -> Answer:
    what = " ".join([asked.method, "&".join(sorted(asked.query))]).strip()
    return failure(
        400, "NotImplemented", f"{what} of s3://{asked.bucket}/{asked.key} is not answered here"
    )


def _no_upload(identifier: str) -> Answer:
    return failure(404, "NoSuchUpload", f"there is no upload {identifier:.40} of this object")


def _document_of(asked: Asked) -> str:
    text = b"".join(asked.body)
    if len(text) > _LARGEST_DOCUMENT:
        raise BodyError(f"the document has {len(text)} bytes, allowed: {_LARGEST_DOCUMENT}")
    return text.decode("utf-8", errors="replace")


def _unescaped(text: str) -> str:
    for name, character in (("lt", "<"), ("gt", ">"), ("quot", '"'), ("apos", "'"), ("amp", "&")):
        text = text.replace(f"&{name};", character)
    return text


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


def _part_tag(number: int) -> str:
    return f'"{number:032x}"'


def _modified(path: Path) -> str:
    return _iso(path.stat().st_mtime)


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogateescape")).decode()


def _from_token(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token).decode("utf-8", "surrogateescape")
    except ValueError as error:
        raise ObjectStoreError(f"the continuation token {token!r:.40} is malformed") from error
