"""The handler: acts on one event, and sends each message once.

Errors are raised, never swallowed: Lambda then delivers the event again, and the alarm goes off.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from notifier.decisions import (
    decision_message,
    read_decisions,
    read_summaries,
    summary_message,
)
from notifier.events import ExecutionFailed, ExecutionStarted, GateFinished, read_event
from notifier.messages import Message, failure_message, gate_message, overlap_message
from notifier.outbox import Occasion, Outbox
from notifier.overlap import overlap_of
from notifier.pipeline import Pipeline
from notifier.settings import Settings, read_settings

# The function has a minute, so a call that hangs is abandoned and retried.
_CONFIG = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)


def handler(event: Mapping[str, Any], _context: object) -> dict[str, list[str]]:
    """Handle one EventBridge event; returns the subjects of the messages that were sent."""
    notifier = connect(read_settings(os.environ))
    return {"sent": notifier.handle(event)}


@cache
def connect(settings: Settings) -> Notifier:
    """The notifier of one pipeline, with clients that a warm function reuses."""
    s3, sns, sagemaker = (boto3.client(name, config=_CONFIG) for name in ("s3", "sns", "sagemaker"))
    outbox = Outbox(s3, sns, settings.bucket, settings.notices_prefix, settings.topic_arn)
    return Notifier(settings.workload, Pipeline(sagemaker, settings.pipeline_arn), outbox)


@dataclass(frozen=True)
class Notifier:
    """Acts on what happens to one pipeline."""

    workload: str
    pipeline: Pipeline
    outbox: Outbox

    def handle(self, event: Mapping[str, Any]) -> list[str]:
        """Act on an event; returns the subjects of the messages that were sent."""
        if "Records" in event:
            return self._tell_decisions(event)
        match read_event(event, self.pipeline.arn):
            case ExecutionStarted(execution_arn):
                return self._end_overlap(execution_arn)
            case ExecutionFailed(execution_arn):
                return self._tell_failure(execution_arn)
            case GateFinished(execution_arn, job_arn):
                return self._forward_notice(execution_arn, job_arn)
            case None:
                return []

    def _tell_decisions(self, event: Mapping[str, Any]) -> list[str]:
        sent = []
        for decision in read_decisions(event):
            number = decision.part.replace("/", "-")
            occasion = Occasion("posture", number, occurrence=decision.when)
            sent += self._send(occasion, decision_message(decision))
        for summary in read_summaries(event):
            month = summary.part.replace("/", "-")
            occasion = Occasion("posture", month, occurrence=summary.part)
            sent += self._send(occasion, summary_message(summary))
        return sent

    def _end_overlap(self, started_arn: str) -> list[str]:
        overlap = overlap_of(self.pipeline.executions(started_arn))
        if overlap is None:
            return []
        sent = []
        for execution in overlap.newer:
            message = overlap_message(self.workload, execution, overlap.oldest)
            occasion = Occasion(execution.arn, "overlap", occurrence=overlap.oldest.arn)
            # Before the stop: once it is stopped there is no overlap left for a retry to report.
            sent += self._send(occasion, message)
            self.pipeline.stop(execution.arn)
        return sent

    def _tell_failure(self, execution_arn: str) -> list[str]:
        ending = self.pipeline.ending(execution_arn)
        failed = self.pipeline.failed_steps(execution_arn)
        message = failure_message(self.workload, execution_arn, ending.reason, failed)
        occasion = Occasion(execution_arn, "failure", occurrence=ending.at)
        return self._send(occasion, message)

    def _forward_notice(self, execution_arn: str, job_arn: str) -> list[str]:
        output = self.pipeline.gate_output(job_arn)
        message = gate_message(self._notice(output), execution_arn, output)
        if message is None:
            return []
        occasion = Occasion(execution_arn, "gate", occurrence=job_arn)
        return self._send(occasion, message)

    def _send(self, occasion: Occasion, message: Message) -> list[str]:
        return [message.subject] if self.outbox.send(occasion, message) else []

    def _notice(self, output_uri: str) -> bytes:
        bucket, _, key = output_uri.removeprefix("s3://").partition("/")
        body = self.outbox.s3.get_object(Bucket=bucket, Key=f"{key}/notice.json")["Body"]
        content: bytes = body.read()
        return content
