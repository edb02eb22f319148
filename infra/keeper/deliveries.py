"""Deliveries of raw data: what each holds, which wait, and which execution trains on which.

A delivery is a folder below the workload's prefix that holds one `train.*` and one `validation.*`.
Once both are there it waits, and an execution is started with the folder as the pipeline's
parameter `Data` as soon as no other execution runs. A rule alone could start the pipeline, but only
with parameters that are fixed when the rule is made.

What is known are objects below one prefix, one for each fact, so that no fact is ever half written:

- `known/TOKEN.json`: these files came, in that folder;
- `folders/DIGEST.json`: that folder holds these files;
- `waiting/TOKEN.json`: no execution has begun to train on them;
- `started/EXECUTION.json`: this execution trains on them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from compilegate.access.layout import deliveries_prefix
from compilegate.infra.keeper.executions import RUNNING, Pipeline
from compilegate.infra.keeper.notifications import short_name
from compilegate.infra.keeper.outbox import Bucket, Outbox

PARAMETER = "Data"
PARTS = ("train", "validation")
"""The two files of a delivery, whatever their extension."""
CHECKSUMS = ("SHA256", "SHA1", "CRC64NVME", "CRC32C", "CRC32")
"""What S3 may have computed of an object, the surest first."""


class DeliveryError(Exception):
    """A delivery that cannot be trained on. The message says what is wrong with it."""


@dataclass(frozen=True, order=True)
class Delivery:
    """A complete delivery; the one that arrived first comes first."""

    arrived: str
    """When its last file was written."""
    uri: str
    """The delivery's folder, ending in a slash: SageMaker matches keys by prefix, and
    `.../batch1` would match `.../batch10/train.csv`, too."""
    token: str
    """The same for the same files, whatever folder they are in; 64 characters."""
    attempt: int = 1
    """How often it was put into the queue: once, and again whenever its execution gave way."""

    @property
    def request_token(self) -> str:
        """The same however often this attempt is started: SageMaker then starts it once."""
        return hashlib.sha256(f"{self.token} {self.attempt}".encode()).hexdigest()


@dataclass(frozen=True)
class Deliveries:
    """The queue of one workload."""

    bucket: Bucket
    pipeline: Pipeline
    outbox: Outbox
    prefix: str
    """What the keys of all deliveries begin with."""

    def take(self, key: str) -> dict[str, Any]:
        """A new object: the delivery that it completes is put into the queue."""
        delivery = self._delivery_of(key)
        if delivery is None:
            return {"incomplete": key}
        folder = hashlib.sha256(delivery.uri.encode()).hexdigest()
        if self._first(f"folders/{folder}", token=delivery.token) != delivery.token:
            raise DeliveryError(
                f"{delivery.uri} was delivered before, with other files, and what was prepared of "
                "it is in the step cache under that name, allowed: a folder of its own for each "
                "delivery"
            )
        if self._read(f"known/{delivery.token}") is None:
            # First what waits: an interruption here is repeated from the start, and loses nothing.
            self._write(f"waiting/{delivery.token}", asdict(delivery))
        first = self._first(f"known/{delivery.token}", uri=delivery.uri)
        if first == delivery.uri:
            return self.start_next()
        sent = self.outbox.notify("same", "data", delivery.uri, uri=delivery.uri, first=first)
        return {"same": delivery.uri, "as": first, "sent": sent}

    def after(self, arn: str, status: str) -> dict[str, Any]:
        """An execution ended: the next delivery's turn, and that of one that had to give way."""
        if status == "Stopped":
            self._put_back(arn)
        return self.start_next()

    def start_next(self) -> dict[str, Any]:
        """Start the delivery that has waited longest, unless an execution runs."""
        for delivery in self._waiting():
            if any(each.status in RUNNING for each in self.pipeline.executions()):
                break
            why, token = f"New data: {delivery.uri}", delivery.request_token
            arn = self.pipeline.start({PARAMETER: delivery.uri}, why, token)
            self._write(f"started/{short_name(arn)}", asdict(delivery))
            self.bucket.delete(self._key(f"waiting/{delivery.token}"))
            # It may be one that an interrupted call started and that has ended since, or one that
            # gave way before the lines above recorded whose it is.
            status = self.pipeline.describe(arn).get("PipelineExecutionStatus")
            if status in RUNNING:
                return {"started": arn}
            if status == "Stopped":
                self._put_back(arn)
        return {"waiting": [delivery.uri for delivery in self._waiting()]}

    def _waiting(self) -> list[Delivery]:
        listed = self.bucket.listed(f"{deliveries_prefix(self.outbox.workload)}waiting/")
        facts = [self.bucket.read_fact(item["Key"]) for item in listed]
        return sorted(Delivery(**fact) for fact in facts if fact is not None)

    def _put_back(self, arn: str) -> None:
        """Let the delivery of an execution wait again, if the execution had one and had to give way
        to an older one."""
        fact = self._read(f"started/{short_name(arn)}")
        if fact is not None and self.outbox.has_sent("overlap", arn):
            self._write(f"waiting/{fact['token']}", {**fact, "attempt": fact["attempt"] + 1})

    def _key(self, name: str) -> str:
        return f"{deliveries_prefix(self.outbox.workload)}{name}.json"

    def _read(self, name: str) -> dict[str, Any] | None:
        return self.bucket.read_fact(self._key(name))

    def _write(self, name: str, fact: Mapping[str, Any]) -> None:
        self.bucket.write_fact(self._key(name), fact)

    def _first(self, name: str, **fact: str) -> str:
        """A fact's one value: the first that was written."""
        self.bucket.write_fact(self._key(name), fact, once=True)
        (value,) = (self._read(name) or fact).values()
        return str(value)

    def _delivery_of(self, key: str) -> Delivery | None:
        """The delivery that an object belongs to; None while it is incomplete, and for other
        objects."""
        folder, _, name = key.rpartition("/")
        if _part(key) is None:
            return None
        here = f"s3://{self.bucket.name}"
        if not folder or len(folder) < len(self.prefix):
            raise DeliveryError(
                f"{here}/{key} is not in a folder of its own, allowed: "
                f"{here}/{self.prefix.rstrip('/')}/DELIVERY/{name}"
            )
        listed = list(self.bucket.listed(f"{folder}/", Delimiter="/"))
        both = []
        for part in PARTS:
            found = [item for item in listed if _part(item["Key"]) == part]
            if len(found) > 1:
                raise DeliveryError(
                    f"{here}/{folder}/ holds {len(found)} files {part}.*, allowed: one"
                )
            both += found
        if len(both) < len(PARTS):
            return None
        content = "\0".join(map(self._described, both))
        return Delivery(
            arrived=max(item["LastModified"] for item in both).isoformat(),
            uri=f"{here}/{folder}/",
            token=hashlib.sha256(content.encode()).hexdigest(),
        )

    def _described(self, item: Mapping[str, Any]) -> str:
        head = self.bucket.s3.head_object(
            Bucket=self.bucket.name, Key=item["Key"], ChecksumMode="ENABLED"
        )
        return f"{short_name(item['Key'])} {fingerprint(head)}"


def fingerprint(head: Mapping[str, Any]) -> str:
    """What distinguishes an object's content: its length, and the checksum that S3 has of it.

    An ETag comes last: where an object is encrypted with a key of KMS it is no digest of the
    content, and the same file that is uploaded twice gets two.
    """
    found = next(
        (f"{name} {head[f'Checksum{name}']}" for name in CHECKSUMS if head.get(f"Checksum{name}")),
        f"ETag {head['ETag']}",
    )
    return f"{head['ContentLength']} {found}"


def _part(key: str) -> str | None:
    stem, dot, _ = short_name(key).partition(".")
    return stem if dot and stem in PARTS else None
