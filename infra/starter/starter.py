"""The starter: a Lambda function that starts a pipeline when a delivery of raw data is complete.

A delivery is a folder below the workload's prefix that holds one `train.*` and one `validation.*`.
EventBridge reports each object that is written. Once both are there, the execution is started with
the folder as the pipeline's parameter `Data`. Each delivery has its own folder, so the step cache
can tell one from the next, and no execution sees half of one and half of another.

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
"""The two files of a delivery, whatever their extension."""
PARAMETER = "Data"
# The function has a minute, so a call that hangs is abandoned and retried.
_CONFIG = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)


class DeliveryError(Exception):
    """A delivery that cannot be trained on. The message says what is wrong with it."""


@dataclass(frozen=True)
class Delivery:
    """A complete delivery."""

    uri: str
    """Its folder, ending in a slash: SageMaker matches keys by prefix, and `.../batch1` would match
    `.../batch10/train.csv`, too."""
    token: str
    """The same for the same objects, however often their events are delivered; 64 characters."""


def handler(event: Mapping[str, Any], _context: object) -> dict[str, str]:
    """Handle one `Object Created` event of S3; returns what came of it.

    Errors are raised, never swallowed: Lambda then retries, and finally puts the event into the
    dead-letter queue, whose alarm goes off.
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
    """The delivery that an object belongs to; None while it is incomplete, and for other objects.

    Raises DeliveryError if a file is there twice, or is not in a folder of its own.
    """
    folder, _, name = key.rpartition("/")
    if _part(name) is None:
        return None
    if not folder or len(folder) < len(prefix):
        raise DeliveryError(
            f"s3://{bucket}/{key} is not in a folder of its own, allowed: "
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
    """The folder's objects by part, each as its key and S3's ETag."""
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
    """A client that a warm function reuses."""
    return boto3.client(service, config=_CONFIG)
