"""What the function remembers from one call to the next: an object for each fact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

_ABSENT = ("NoSuchKey", "404")


@dataclass(frozen=True)
class Facts:
    """The facts of one workload, through a boto3 client for S3."""

    s3: Any
    bucket: str
    prefix: str

    def read(self, name: str) -> dict[str, Any] | None:
        """A fact; None where there is none of that name."""
        try:
            answer = self.s3.get_object(Bucket=self.bucket, Key=f"{self.prefix}{name}.json")
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return None
            raise
        content: dict[str, Any] = json.loads(answer["Body"].read())
        return content

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        self.s3.put_object(
            Bucket=self.bucket,
            Key=f"{self.prefix}{name}.json",
            Body=json.dumps(content, sort_keys=True).encode(),
            ContentType="application/json",
        )
