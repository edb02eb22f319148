"""What is known of deliveries: which came, which wait, and which execution trains on which.

Objects below one prefix, one for each fact, so that no fact is ever half written:

- `known/TOKEN.json`: these files came, in that folder;
- `folders/DIGEST.json`: that folder holds these files;
- `waiting/TOKEN.json`: no execution has begun to train on them;
- `started/EXECUTION.json`: this execution trains on them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from botocore.exceptions import ClientError

from starter.delivery import Delivery

_ABSENT = ("NoSuchKey", "404")
_ALREADY_THERE = ("PreconditionFailed", "ConditionalRequestConflict")


@dataclass(frozen=True, order=True)
class Waiting:
    """A delivery in the queue; the one that arrived first comes first."""

    arrived: str
    uri: str
    token: str
    attempt: int = 1
    """How often it was put into the queue: once, and again whenever its execution gave way."""

    @property
    def request_token(self) -> str:
        """The same however often this attempt is started: SageMaker then starts it once."""
        return hashlib.sha256(f"{self.token} {self.attempt}".encode()).hexdigest()


@dataclass(frozen=True)
class Queue:
    """The queue of one workload, through a boto3 client for S3."""

    s3: Any
    bucket: str
    prefix: str

    def remember(self, delivery: Delivery) -> str:
        """The folder in which these files came first; they wait there if that is this one."""
        known = self._read(f"known/{delivery.token}")
        if known is not None:
            return str(known["uri"])
        # First what waits: an interruption here is repeated from the start, and loses nothing.
        self._write(
            f"waiting/{delivery.token}",
            asdict(Waiting(delivery.arrived, delivery.uri, delivery.token)),
        )
        self._write_once(f"known/{delivery.token}", {"uri": delivery.uri})
        return delivery.uri

    def files_in(self, delivery: Delivery) -> str:
        """The token of the files that came first in a delivery's folder."""
        name = f"folders/{hashlib.sha256(delivery.uri.encode()).hexdigest()}"
        if self._write_once(name, {"token": delivery.token}):
            return delivery.token
        found = self._read(name)
        return delivery.token if found is None else str(found["token"])

    def waiting(self) -> list[Waiting]:
        """What waits, the oldest first."""
        found = []
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self.prefix}waiting/"
        )
        for page in pages:
            for item in page.get("Contents", ()):
                content = self._get(item["Key"])
                if content is not None:
                    found.append(Waiting(**content))
        return sorted(found)

    def begin(self, waiting: Waiting, execution: str) -> None:
        """An execution trains on this delivery, which waits no longer."""
        self._write(f"started/{execution}", asdict(waiting))
        self.s3.delete_object(Bucket=self.bucket, Key=f"{self.prefix}waiting/{waiting.token}.json")

    def put_back(self, execution: str) -> bool:
        """Let the delivery of an execution wait again; False if the execution had none."""
        content = self._read(f"started/{execution}")
        if content is None:
            return False
        again = Waiting(**{**content, "attempt": content["attempt"] + 1})
        self._write(f"waiting/{again.token}", asdict(again))
        return True

    def _read(self, name: str) -> dict[str, Any] | None:
        return self._get(f"{self.prefix}{name}.json")

    def _get(self, key: str) -> dict[str, Any] | None:
        try:
            body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"]
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return None
            raise
        content: dict[str, Any] = json.loads(body.read())
        return content

    def _write(self, name: str, content: Mapping[str, Any], **conditions: str) -> None:
        self.s3.put_object(
            Bucket=self.bucket,
            Key=f"{self.prefix}{name}.json",
            Body=json.dumps(content).encode(),
            ContentType="application/json",
            **conditions,
        )

    def _write_once(self, name: str, content: Mapping[str, Any]) -> bool:
        """Whether it was not there yet."""
        try:
            self._write(name, content, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] in _ALREADY_THERE:
                return False
            raise
        return True
