"""The starter: a Lambda function that starts a pipeline when a delivery of raw data is complete.

A delivery is a folder below the workload's prefix that holds one `train.*` and one `validation.*`.
EventBridge tells of each object that is written; the execution is started when both are there, with
the folder as the pipeline's parameter `Data`. Each delivery is a folder of its own, so the step
cache can tell one from the next, and no execution sees half of one and half of another.

It runs on Python 3.14 with the runtime's own boto3 and imports nothing else; its handler is
`starter.handler`. Environment: PIPELINE_NAME and PREFIX.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

PARTS = ("train", "validation")
"""What a delivery has one file of each of, whatever their ending."""
PARAMETER = "Data"
# A function has a minute; a call that hangs is better tried again.
_CONFIG = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)


class DeliveryError(Exception):
    """A delivery that cannot be trained on. The message says what is wrong with it."""


@dataclass(frozen=True)
class Delivery:
    """A complete one."""

    uri: str
    """Of its folder. It ends in a slash: SageMaker takes it for the beginning of keys, and
    `.../batch1` is that of `.../batch10/train.csv` too."""
    token: str
    """The same for the same objects, however often their events are delivered; 64 characters."""


def handler(event: Mapping[str, Any], _context: object) -> dict[str, str]:
    """Handle one `Object Created` event of S3; returns what came of it.

    An error is raised, never swallowed: Lambda then tries again, and at last keeps the event in the
    dead-letter queue, whose alarm rings.
    """
    bucket, key = event["detail"]["bucket"]["name"], event["detail"]["object"]["key"]
    delivery = delivery_of(_client("s3"), bucket, key, os.environ["PREFIX"])
    if delivery is None:
        return {"waiting": f"s3://{bucket}/{key}"}
    started = _client("sagemaker").start_pipeline_execution(
        PipelineName=os.environ["PIPELINE_NAME"],
        PipelineParameters=[{"Name": PARAMETER, "Value": delivery.uri}],
        PipelineExecutionDescription=f"New data: {delivery.uri}",
        ClientRequestToken=delivery.token,
    )
    return {"started": started["PipelineExecutionArn"]}


def delivery_of(s3: Any, bucket: str, key: str, prefix: str) -> Delivery | None:
    """The delivery that an object belongs to; None while it is not whole, and for other objects.

    Raises DeliveryError for a part that is there twice, or lies in no folder of its own.
    """
    folder, _, name = key.rpartition("/")
    if _part(name) is None:
        return None
    if not folder or len(folder) < len(prefix):
        raise DeliveryError(
            f"s3://{bucket}/{key} lies in no folder of its own, allowed: "
            f"s3://{bucket}/{prefix.rstrip('/')}/DELIVERY/{name}"
        )
    objects = _parts(s3, bucket, folder)
    for part in PARTS:
        if len(objects[part]) > 1:
            raise DeliveryError(
                f"s3://{bucket}/{folder}/ holds {len(objects[part])} files {part}.*, allowed: one"
            )
    if not all(objects.values()):
        return None
    content = "\0".join(objects[part][0] for part in PARTS)
    return Delivery(
        uri=f"s3://{bucket}/{folder}/", token=hashlib.sha256(content.encode()).hexdigest()
    )


def _parts(s3: Any, bucket: str, folder: str) -> dict[str, list[str]]:
    """By part, the objects of the folder: each as its key and what S3 calls its content."""
    found: dict[str, list[str]] = {part: [] for part in PARTS}
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{folder}/", Delimiter="/"
    )
    for page in pages:
        for item in page.get("Contents", ()):
            part = _part(item["Key"].rpartition("/")[2])
            if part is not None:
                found[part].append(f"{item['Key']} {item['ETag']}")
    return found


def _part(name: str) -> str | None:
    stem, dot, _ = name.partition(".")
    return stem if dot and stem in PARTS else None


@cache
def _client(service: str) -> Any:
    """A client that a warm function uses again."""
    return boto3.client(service, config=_CONFIG)
