"""S3: objects by URI, and raw data in the bucket, put there once and found again by its digest.

Raw data is no asset of the deployment, because it may be large, and may change without one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import ClientError

from compilegate.account.errors import AwsError, asking
from compilegate.account.session import AwsSession
from compilegate.datasets import Announce, RawData
from compilegate.job.files import whole_file


@dataclass(frozen=True)
class S3ObjectStore:
    """Objects by `s3://` URI. The bucket's own settings say how they are encrypted."""

    client: Any
    """A boto3 client of `s3`."""

    def names(self, uri: str) -> list[str]:
        """The objects below this URI, relative to it, in order. Raises AwsError."""
        bucket, key = parts_of(f"{uri}/")
        with asking(f"list {uri}"):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key)
            found = [item["Key"] for page in pages for item in page.get("Contents", [])]
        return [name.removeprefix(key) for name in found if not name.endswith("/")]

    def upload(self, source: Path, uri: str, sent: Callable[[int], None] | None = None) -> None:
        """Write one object, whole or not at all: large files in parts that count once all are
        there. `sent` is told of bytes on their way, from several threads. Raises AwsError."""
        bucket, key = parts_of(uri)
        with asking(f"write {uri}"):
            try:
                self.client.upload_file(str(source), bucket, key, Callback=sent)
            except S3UploadFailedError as error:
                # boto3 makes text of the answer here; the answer itself says more.
                if isinstance(error.__context__, ClientError):
                    raise error.__context__ from None
                raise AwsError(f"cannot write {uri}: {error}") from error

    def download(self, uri: str, target: Path) -> None:
        """Write an object's content to a file, whole or not at all. Raises AwsError."""
        bucket, key = parts_of(uri)
        with asking(f"read {uri}"), whole_file(target) as part:
            self.client.download_file(bucket, key, str(part))


def parts_of(uri: str) -> tuple[str, str]:
    """Bucket and key. Raises AwsError for anything but `s3://BUCKET/KEY`."""
    scheme, separator, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not separator or not bucket or not key:
        raise AwsError(f"{uri!r} is not of the form s3://bucket/key")
    return bucket, key


TELL_SECONDS = 10.0
"""Between two lines on how an upload goes."""
MOST_AT_ONCE = 8


def stage_raw_data(
    session: AwsSession, data: RawData, uri: str, cache: Path, announce: Announce
) -> None:
    """Put the raw data under the prefix `uri`, whose last part is its digest, unless it is there.

    Raises DatasetError when the data cannot be had, AwsError.
    """
    store = S3ObjectStore(session.client("s3"))
    present = set(store.names(uri))
    if data.is_whole(present):
        return
    fetched = data.fetch(cache, announce).items()
    absent = {name: path for name, path in fetched if name not in present}
    if not absent:
        return
    size = sum(path.stat().st_size for path in absent.values())
    files = f"{len(absent):,} file{'' if len(absent) == 1 else 's'}"
    announce(f"writing {files} ({size:,} bytes) below {uri}/")
    progress = UploadProgress(files, size, announce)
    # Several at once: each small object takes about as long as the way to the service.
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        written = [
            pool.submit(store.upload, path, f"{uri}/{name}", progress)
            for name, path in absent.items()
        ]
        try:
            for each in written:
                each.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def is_staged(session: AwsSession, data: RawData, uri: str) -> bool:
    """Whether the raw data is there, all of it. Raises AwsError."""
    return data.is_whole(set(S3ObjectStore(session.client("s3")).names(uri)))


class UploadProgress:
    """Says from time to time how much is written; called by the threads that write it."""

    def __init__(
        self,
        name: str,
        size: int,
        announce: Announce,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._size, self._announce, self._clock = name, size, announce, clock
        self._sent = 0
        self._told = clock()
        self._lock = threading.Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._sent += count
            if self._clock() - self._told >= TELL_SECONDS:
                self._told = self._clock()
                self._announce(f"{self._name}: {self._sent / self._size:.0%} written")
