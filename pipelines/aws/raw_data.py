"""Raw data in the bucket: put there once, and found again by its digest.

It is no asset of the deployment, because it may be large, and may change without one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.aws.errors import asking
from pipelines.aws.object_store import S3ObjectStore, parts_of
from pipelines.aws.session import AwsSession
from pipelines.datasets import RawData
from pipelines.datasets.raw_data import Announce

TELL_SECONDS = 10.0
"""Between two lines on how an upload goes."""


def stage_raw_data(
    session: AwsSession, data: RawData, uri: str, cache: Path, announce: Announce
) -> bool:
    """Put the raw data under the prefix `uri`, whose last part is its digest, unless it is there.

    Returns whether anything was put. Raises DatasetError when the data cannot be had, AwsError.
    """
    client = session.client("s3")
    present = _present(client, uri)
    if {name.partition(".")[0] for name in present} >= data.parts:
        return False
    store = S3ObjectStore(client)
    for name, path in data.fetch(cache, announce).items():
        if name not in present:
            size = path.stat().st_size
            announce(f"writing {uri}/{name} ({size:,} bytes)")
            store.upload(path, f"{uri}/{name}", UploadProgress(name, size, announce))
    return True


class UploadProgress:
    """Says now and then how much of a file is written; called from the threads that write it."""

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


def _present(client: Any, uri: str) -> set[str]:
    """Names of the objects under a prefix. An object is whole or not there at all."""
    bucket, key = parts_of(uri)
    with asking(f"list {uri}/"):
        answer = client.list_objects_v2(Bucket=bucket, Prefix=f"{key}/")
    return {entry["Key"].removeprefix(f"{key}/") for entry in answer.get("Contents", [])}
