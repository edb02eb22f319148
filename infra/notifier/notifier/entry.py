"""The handler: acts on one event, and sends each message once.

Errors are raised, never swallowed: Lambda then delivers the event again, and the alarm goes off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from notifier.decisions import decision_message, read_decisions
from notifier.events import (
    ExecutionFailed,
    ExecutionStarted,
    ExecutionSucceeded,
    GateFinished,
    ModelRegistered,
    read_event,
)
from notifier.limits import (
    Limits,
    above_message,
    is_above,
    month_begins,
    overdue,
    overdue_message,
    spent,
    unstarted_message,
    unstarted_since,
)
from notifier.links import short_name
from notifier.messages import (
    Message,
    again_message,
    failure_message,
    gate_message,
    overlap_message,
)
from notifier.outbox import Occasion, Outbox
from notifier.overlap import EXECUTING, overlap_of
from notifier.pipeline import Pipeline
from notifier.settings import Settings, read_settings

_ABSENT = ("NoSuchKey", "404", "AccessDenied", "403")
"""How S3 answers for an object that is not there: without the right to list, as one that may not be
read."""
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
    pipeline = Pipeline(sagemaker, settings.pipeline_arn)
    return Notifier(settings.workload, pipeline, outbox, settings.limits)


@dataclass(frozen=True)
class Notifier:
    """Acts on what happens to one pipeline."""

    workload: str
    pipeline: Pipeline
    outbox: Outbox
    limits: Limits = field(default_factory=Limits)

    def handle(self, event: Mapping[str, Any]) -> list[str]:
        """Act on an event; returns the subjects of the messages that were sent."""
        if "Records" in event:
            return self._tell_decisions(event)
        if event.get("look") == self.workload:
            return self._look(datetime.now(UTC))
        match read_event(event, self.pipeline.arn):
            case ExecutionStarted(execution_arn):
                return [
                    *self._end_overlap(execution_arn),
                    *self._end_above_budget(execution_arn, datetime.now(UTC)),
                ]
            case ExecutionFailed(execution_arn) | ExecutionSucceeded(execution_arn) as ended:
                failed = isinstance(ended, ExecutionFailed)
                tell = self._tell_failure if failed else self._start_again
                return tell(execution_arn)
            case GateFinished(execution_arn, job_arn):
                return self._forward_notice(execution_arn, job_arn)
            case ModelRegistered(execution_arn, step):
                self._attach_card(execution_arn, step)
            case None:
                pass
        return []

    def _tell_decisions(self, event: Mapping[str, Any]) -> list[str]:
        sent = []
        for decision in read_decisions(event):
            number = decision.part.replace("/", "-")
            occasion = Occasion("posture", number, occurrence=decision.when)
            sent += self._send(occasion, decision_message(decision))
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

    def _end_above_budget(self, started_arn: str, now: datetime) -> list[str]:
        """Stop what could cost more than the month allows, unless it ended already."""
        if self.limits.month_usd is None:
            return []
        listed = self.pipeline.executions(started_arn)
        if not any(each.arn == started_arn and each.status == EXECUTING for each in listed):
            return []
        first = month_begins(now)
        usd = sum(
            spent(self.limits, self.pipeline.step_times(each.arn), now)
            for each in listed
            if each.started >= first and each.arn != started_arn
        )
        if not is_above(self.limits, usd):
            return []
        occasion = Occasion(started_arn, "budget", occurrence=started_arn)
        sent = self._send(occasion, above_message(self.workload, started_arn, self.limits, usd))
        self.pipeline.stop(started_arn)
        return sent

    def _look(self, now: datetime) -> list[str]:
        """What nothing tells of: an execution that does not end, a schedule that does not start."""
        listed, limits = self.pipeline.listed(), self.limits
        sent = []
        for late in overdue(limits, listed, now):
            occasion = Occasion(late.arn, "overdue", occurrence=late.arn)
            sent += self._send(
                occasion, overdue_message(self.workload, late, limits.hours or 0, now)
            )
        if limits.gap_hours is not None:
            since = unstarted_since(limits, listed, self.pipeline.changed(), now)
            if since is not None:
                occasion = Occasion("schedule", "unstarted", occurrence=since.isoformat())
                sent += self._send(occasion, unstarted_message(self.workload, since))
        return sent

    def _tell_failure(self, execution_arn: str) -> list[str]:
        ending = self.pipeline.ending(execution_arn)
        failed = self.pipeline.failed_steps(execution_arn)
        message = failure_message(self.workload, execution_arn, ending.reason, failed)
        occasion = Occasion(execution_arn, "failure", occurrence=ending.at)
        return self._send(occasion, message)

    def _start_again(self, execution_arn: str) -> list[str]:
        """Once, where the machines lost candidates' jobs: the steps of those ended well for the
        service, whose cache would serve them to every later execution."""
        verdicts = f"{self.outbox.prefix.rpartition('/')[0]}/verdicts"
        place = f"s3://{self.outbox.bucket}/{verdicts}/{short_name(execution_arn)}/notice.json"
        try:
            notice = json.loads(self._object(place))
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return []
            raise
        if not notice.get("lost"):
            return []
        started = self.pipeline.start_again(execution_arn)
        if started is None:
            return []
        occasion = Occasion(execution_arn, "again", occurrence=execution_arn)
        return self._send(occasion, again_message(self.workload, execution_arn, started))

    def _forward_notice(self, execution_arn: str, job_arn: str) -> list[str]:
        output = self.pipeline.gate_output(job_arn)
        message = gate_message(self._object(f"{output}/notice.json"), execution_arn, output)
        if message is None:
            return []
        occasion = Occasion(execution_arn, "gate", occurrence=job_arn)
        return self._send(occasion, message)

    def _send(self, occasion: Occasion, message: Message) -> list[str]:
        return [message.subject] if self.outbox.send(occasion, message) else []

    def _attach_card(self, execution_arn: str, step: str) -> None:
        """A definition cannot put a file's content into a request, so the model gets its card once
        it is registered. Nobody is told."""
        model = self.pipeline.registered(execution_arn, step)
        uri = None if model is None else self.pipeline.card_uri(model)
        if model is not None and uri is not None:
            self.pipeline.attach_card(model, self._object(uri).decode())

    def _object(self, uri: str) -> bytes:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        content: bytes = self.outbox.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content
