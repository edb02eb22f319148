"""S3 as the object store that staging writes to, and reading single objects from it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import ClientError

from pipelines.aws.errors import AwsError, asking, is_absent


@dataclass(frozen=True)
class S3ObjectStore:
    """Objects by `s3://` URI. The bucket's own settings say how they are encrypted."""

    client: Any
    """Of `s3`."""

    def exists(self, uri: str) -> bool:
        """Whether there is an object at this URI. Raises AwsError."""
        bucket, key = parts_of(uri)
        with asking(f"look for {uri}"):
            try:
                self.client.head_object(Bucket=bucket, Key=key)
            except ClientError as error:
                if is_absent(error):
                    return False
                raise
            return True

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
        part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with asking(f"read {uri}"):
                self.client.download_file(bucket, key, str(part))
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def parts_of(uri: str) -> tuple[str, str]:
    """Bucket and key. Raises AwsError for anything but `s3://BUCKET/KEY`."""
    scheme, separator, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not separator or not bucket or not key:
        raise AwsError(f"{uri!r} is not of the form s3://bucket/key")
    return bucket, key
