"""The bucket and the topic: facts, an object each, and messages, each of which is sent once.

A message is first claimed: its text is written to an object that can be written only once, so two
deliveries of an event at the same moment cannot both send it. If publishing fails, the claim is
withdrawn and the next delivery sends the message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from compilegate.access.layout import notices_prefix
from compilegate.infra.keeper.notifications import Message, short_name, worded

ABSENT = ("NoSuchKey", "404", "AccessDenied", "403")
"""How S3 answers for an object that is not there: to a role that may not list its prefix, as for
one that may not be read."""
ALREADY_THERE = "PreconditionFailed"


@dataclass(frozen=True)
class Bucket:
    """What the keeper reads and writes of the project's bucket, all below prefixes of its own."""

    s3: Any
    name: str

    def read(self, key: str) -> bytes | None:
        """An object; None where there is none."""
        try:
            content: bytes = self.s3.get_object(Bucket=self.name, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in ABSENT:
                return None
            raise
        return content

    def read_fact(self, key: str) -> dict[str, Any] | None:
        """An object of JSON; None where there is none."""
        content = self.read(key)
        found: dict[str, Any] | None = None if content is None else json.loads(content)
        return found

    def write_fact(self, key: str, fact: Mapping[str, Any], *, once: bool = False) -> bool:
        """Write an object of JSON; False where it was there and may be written only `once`."""
        how = {"IfNoneMatch": "*"} if once else {}
        body = json.dumps(fact, indent=2).encode()
        try:
            self.s3.put_object(
                Bucket=self.name, Key=key, Body=body, ContentType="application/json", **how
            )
        except ClientError as error:
            if once and error.response["Error"]["Code"] == ALREADY_THERE:
                return False
            raise
        return True

    def delete(self, key: str) -> None:
        self.s3.delete_object(Bucket=self.name, Key=key)

    def listed(self, prefix: str, **how: str) -> Iterator[Mapping[str, Any]]:
        """The objects whose keys begin like this."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=prefix, **how
        )
        return (item for page in pages for item in page.get("Contents", ()))


@dataclass(frozen=True)
class Outbox:
    """Publishes what happens to one workload to one topic."""

    bucket: Bucket
    sns: Any
    topic_arn: str
    workload: str

    def notify(self, kind: str, about: str, occurrence: str, **found: Any) -> list[str]:
        """Send the message of a kind; see `send`."""
        return self.send(worded(kind, self.workload, **found), kind, about, occurrence)

    def send(self, message: Message, kind: str, about: str, occurrence: str) -> list[str]:
        """Publish a message; returns its subject, or nothing where it was sent before.

        `about` is mostly an execution's ARN. `occurrence` is the same for every delivery of an
        event, and different when it happens again.
        """
        digest = hashlib.sha256(occurrence.encode()).hexdigest()[:12]
        key = f"{self._claims(kind, about)}{digest}.json"
        claim = {"subject": message.subject, "message": message.text}
        if not self.bucket.write_fact(key, claim, once=True):
            return []
        try:
            self.sns.publish(TopicArn=self.topic_arn, Subject=message.subject, Message=message.text)
        except Exception:
            self.bucket.delete(key)
            raise
        return [message.subject]

    def has_sent(self, kind: str, about: str) -> bool:
        """Whether a message of this kind was sent about this."""
        return any(True for _ in self.bucket.listed(self._claims(kind, about)))

    def _claims(self, kind: str, about: str) -> str:
        return f"{notices_prefix(self.workload)}{short_name(about)}/{kind}-"
