"""S3: objects by URI, and raw data in the bucket, put there once and found again by its digest.

Raw data is no asset of the deployment, because it may be large, and may change without one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import ClientError

from compilegate.account.errors import AwsError, aws_errors
from compilegate.account.session import AwsSession
from compilegate.datasets import Announce, RawData
from compilegate.job.files import whole_file

ANNOUNCE_SECONDS = 10.0
"""Between two lines on how an upload goes."""
MOST_AT_ONCE = 8


def parts_of(uri: str) -> tuple[str, str]:
    """Bucket and key. Raises AwsError for anything but `s3://BUCKET/KEY`."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise AwsError(f"{uri!r} is not of the form s3://bucket/key")
    return bucket, key


def names_below(session: AwsSession, uri: str) -> list[str]:
    """The objects below this URI, relative to it, in order. Raises AwsError."""
    bucket, prefix = parts_of(f"{uri}/")
    with aws_errors(f"list {uri}"):
        found = session.listed("s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
        names = [item["Key"].removeprefix(prefix) for item in found]
    return [name for name in names if name and not name.endswith("/")]


def object_at(session: AwsSession, uri: str) -> bytes | None:
    bucket, key = parts_of(uri)
    client = session.client("s3")
    with aws_errors(f"read {uri}"):
        # Listed first: a role that may list its prefixes alone gets 403 for a missing object.
        found = client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents")
        if not found or found[0]["Key"] != key:
            return None
        body: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


def download(session: AwsSession, uri: str, target: Path) -> None:
    """Write an object's content to a file, whole or not at all. Raises AwsError."""
    bucket, key = parts_of(uri)
    with aws_errors(f"read {uri}"), whole_file(target) as part:
        session.client("s3").download_file(bucket, key, str(part))


def stage_raw_data(
    session: AwsSession, data: RawData, uri: str, cache: Path, announce: Announce
) -> None:
    """Put the raw data under the prefix `uri`, whose last part is its digest, unless it is there.

    Raises DatasetError when the data cannot be had, AwsError.
    """
    present = set(names_below(session, uri))
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
            pool.submit(_upload, session, path, f"{uri}/{name}", progress)
            for name, path in absent.items()
        ]
        try:
            for each in written:
                each.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _upload(session: AwsSession, source: Path, uri: str, sent: Callable[[int], None]) -> None:
    """Write one object, whole or not at all: large files in parts that count once all are there."""
    bucket, key = parts_of(uri)
    with aws_errors(f"write {uri}"):
        try:
            session.client("s3").upload_file(str(source), bucket, key, Callback=sent)
        except S3UploadFailedError as error:
            # boto3 makes text of the answer here; the answer itself says more.
            if isinstance(error.__context__, ClientError):
                raise error.__context__ from None
            raise AwsError(f"cannot write {uri}: {error}") from error


class UploadProgress:
    """Says from time to time how much is written; called by the threads that write it."""

    def __init__(
        self, name: str, size: int, announce: Announce, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._size, self._announce, self._clock = name, size, announce, clock
        self._sent = 0
        self._announced = clock()
        self._lock = threading.Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._sent += count
            if self._clock() - self._announced >= ANNOUNCE_SECONDS:
                self._announced = self._clock()
                self._announce(f"{self._name}: {self._sent / self._size:.0%} written")
