"""The handler: acts on a new object, and on the end of an execution.

Errors are raised, never swallowed: Lambda then delivers the event again, and finally puts it into
the dead-letter queue, whose alarm goes off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from starter.delivery import Delivery, DeliveryError, delivery_of
from starter.queue import Queue
from starter.settings import Settings, read_settings

PARAMETER = "Data"
RUNNING = ("Executing", "Stopping")
NEWEST = 100
"""How many executions are looked at: they do not overlap, so one that runs is among the newest."""
# The function has a minute, so a call that hangs is abandoned and retried.
_CONFIG = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)


def handler(event: Mapping[str, Any], _context: object) -> dict[str, str]:
    """Handle one event of S3 or SageMaker; returns what came of it, and prints it for the log."""
    said = connect(read_settings(os.environ)).handle(event)
    print(json.dumps(said))
    return said


@cache
def connect(settings: Settings) -> Starter:
    """The starter of one pipeline, with clients that a warm function reuses."""
    s3, sagemaker, sns = (boto3.client(name, config=_CONFIG) for name in ("s3", "sagemaker", "sns"))
    return Starter(settings, s3, sagemaker, sns, Queue(s3, settings.bucket, settings.queue_prefix))


@dataclass(frozen=True)
class Starter:
    """Starts one pipeline, one delivery after the other."""

    settings: Settings
    s3: Any
    sagemaker: Any
    sns: Any
    queue: Queue

    def handle(self, event: Mapping[str, Any]) -> dict[str, str]:
        """Act on an event; says what came of it."""
        detail = event["detail"]
        if "object" in detail:
            return self._take(detail["bucket"]["name"], detail["object"]["key"])
        return self._after(
            detail["pipelineExecutionArn"].rpartition("/")[2],
            detail["currentPipelineExecutionStatus"],
        )

    def _take(self, bucket: str, key: str) -> dict[str, str]:
        """A new object: the delivery that it completes is put into the queue."""
        delivery = delivery_of(self.s3, bucket, key, self.settings.prefix)
        if delivery is None:
            return {"incomplete": f"s3://{bucket}/{key}"}
        if self.queue.files_in(delivery) != delivery.token:
            raise DeliveryError(
                f"{delivery.uri} was delivered before, with other files, and what was prepared of "
                "it is in the step cache under that name, allowed: a folder of its own for each "
                "delivery"
            )
        first = self.queue.remember(delivery)
        if first != delivery.uri:
            return self._same(delivery, first)
        return self._start_next()

    def _same(self, delivery: Delivery, first: str) -> dict[str, str]:
        self.sns.publish(
            TopicArn=self.settings.topic_arn,
            Subject=f"{self.settings.pipeline_name}: the same data came twice"[:100],
            Message=f"{delivery.uri} holds the same files as {first}, so it is the same delivery "
            "and starts nothing. To train on it again, run: compilegate aws submit WORKLOAD "
            f"-p {PARAMETER}={delivery.uri}",
        )
        return {"same": delivery.uri, "as": first}

    def _after(self, execution: str, status: str) -> dict[str, str]:
        """An execution ended: the next delivery's turn, and that of one that had to give way."""
        if status == "Stopped" and self._gave_way(execution):
            self.queue.put_back(execution)
        return self._start_next()

    def _gave_way(self, execution: str) -> bool:
        """Whether the notifier stopped it because an older one was running; it says so first."""
        listed = self.s3.list_objects_v2(
            Bucket=self.settings.bucket,
            Prefix=f"{self.settings.notices_prefix}{execution}/overlap-",
            MaxKeys=1,
        )
        return bool(listed.get("Contents"))

    def _start_next(self) -> dict[str, str]:
        """Start the delivery that has waited longest, unless an execution runs."""
        waiting = self.queue.waiting()
        if not waiting:
            return {"waiting": "none"}
        for number, delivery in enumerate(waiting):
            if self._runs():
                break
            arn = self.sagemaker.start_pipeline_execution(
                PipelineName=self.settings.pipeline_name,
                PipelineParameters=[{"Name": PARAMETER, "Value": delivery.uri}],
                PipelineExecutionDescription=f"New data: {delivery.uri}",
                ClientRequestToken=delivery.request_token,
            )["PipelineExecutionArn"]
            execution = arn.rpartition("/")[2]
            self.queue.begin(delivery, execution)
            # It may be one that an interrupted call started and that has ended since, or one that
            # gave way before the line above said whose it is.
            status = self._status(arn)
            if status in RUNNING:
                return {"started": arn, "waiting": str(len(waiting) - number - 1)}
            if status == "Stopped" and self._gave_way(execution):
                self.queue.put_back(execution)
        return {"waiting": ", ".join(delivery.uri for delivery in self.queue.waiting()) or "none"}

    def _runs(self) -> bool:
        pages = self.sagemaker.get_paginator("list_pipeline_executions").paginate(
            PipelineName=self.settings.pipeline_name,
            SortBy="CreationTime",
            SortOrder="Descending",
            PaginationConfig={"MaxItems": NEWEST},
        )
        return any(
            summary["PipelineExecutionStatus"] in RUNNING
            for page in pages
            for summary in page["PipelineExecutionSummaries"]
        )

    def _status(self, arn: str) -> str:
        described = self.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
        return str(described["PipelineExecutionStatus"])
