"""The handler: one function for all that happens to a workload.

Errors are raised, never swallowed: Lambda then delivers the event again, and finally puts it into
the dead-letter queue, whose alarm goes off. So every act may come twice, and is done once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from compilegate.access.layout import verdicts_prefix
from compilegate.infra.keeper import subscriptions
from compilegate.infra.keeper.deliveries import Deliveries
from compilegate.infra.keeper.executions import (
    EXECUTING,
    Pipeline,
    overdue,
    running,
    spent,
    unstarted_since,
)
from compilegate.infra.keeper.notifications import (
    ACTION,
    INFO,
    Notice,
    decision_found,
    failure_found,
    is_rejection,
    read_notice,
    short_name,
)
from compilegate.infra.keeper.outbox import Bucket, Outbox
from compilegate.infra.keeper.releases import Endpoint, Transforms
from compilegate.infra.keeper.settings import Settings, read_settings
from compilegate.posture import contract
from compilegate.posture.function import act, now, settle_ended
from compilegate.posture.records import DynamoRecords, current
from compilegate.posture.state import Settled

ATTEMPT = "Attempt"
"""The parameter by which candidates train again."""
REGISTER_STEPS = "Register-"
"""What the names of the steps that register a model begin with; an arm's name follows."""
REPORT_DAYS = 7
"""Age up to which a decision is reported, so that a first deployment reports no old ones."""
WHO = "function"
# The function has a minute, so a call that hangs is abandoned and retried.
_CONFIG = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle one event; returns the outcome, and prints it for the log."""
    outcome = connect().handle(event)
    print(json.dumps(outcome))
    return outcome


@cache
def connect() -> Keeper:
    """The keeper of one workload, with clients that a warm function reuses."""

    def client(service: str) -> Any:
        return boto3.client(service, config=_CONFIG)

    settings = read_settings(os.environ)
    bucket, sagemaker = Bucket(client("s3"), settings.bucket), client("sagemaker")
    outbox = Outbox(bucket, client("sns"), settings.topic_arn, settings.workload)
    pipeline = Pipeline(sagemaker, settings.pipeline_arn)
    records = deliveries = endpoint = transforms = None
    if settings.posture_table:
        records = DynamoRecords(client("dynamodb"), settings.posture_table)
    if settings.new_data_prefix:
        deliveries = Deliveries(bucket, pipeline, outbox, settings.new_data_prefix)
    if settings.endpoint_stack:
        stacks, alarms = client("cloudformation"), client("cloudwatch")
        endpoint = Endpoint(stacks, alarms, sagemaker, outbox, settings)
    if settings.batch is not None:
        transforms = Transforms(sagemaker, outbox, settings, settings.batch)
    return Keeper(settings, pipeline, outbox, records, deliveries, endpoint, transforms)


@dataclass(frozen=True)
class Keeper:
    """Acts on what happens to one workload."""

    settings: Settings
    pipeline: Pipeline
    outbox: Outbox
    records: DynamoRecords | None
    deliveries: Deliveries | None
    endpoint: Endpoint | None
    transforms: Transforms | None

    def handle(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Act on an event, or answer a step of the pipeline."""
        if contract.ACT in event:
            return self._answer(event)
        if subscriptions.LOOK in event:
            return {"sent": self._look(datetime.now(UTC))}
        outcome: dict[str, Any] = {}
        detail = event["detail"]
        match event["detail-type"]:
            case subscriptions.EXECUTION:
                arn = detail["pipelineExecutionArn"]
                status = detail["currentPipelineExecutionStatus"]
                outcome = self._started(arn) if status == EXECUTING else self._ended(arn, status)
            case subscriptions.OBJECT if self.deliveries:
                outcome = self.deliveries.take(detail["object"]["key"])
            case subscriptions.PACKAGE | subscriptions.STACK if self.endpoint:
                outcome = self.endpoint.follow()
            case subscriptions.PACKAGE if self.transforms:
                outcome = self.transforms.decided(event)
            case subscriptions.TRANSFORM if self.transforms:
                outcome = self.transforms.ended(detail)
        return outcome

    def _answer(self, event: Mapping[str, Any]) -> dict[str, str]:
        if self.records is None:
            raise contract.PostureError(f"{self.settings.workload} has no posture")
        answer = act(event, self.records)
        # The pipeline waits for the answer, which holds; the hourly look reports it then.
        with suppress(BotoCoreError, ClientError):
            self._report_decisions()
        return answer

    def _started(self, arn: str) -> dict[str, Any]:
        """Stop executions beyond one, or beyond the month's budget."""
        limits, at = self.settings.limits, datetime.now(UTC)
        listed = self.pipeline.executions(arn)
        sent: list[str] = []
        run = running(listed)
        for each in run[1:]:
            found = {"arn": each.arn, "oldest": run[0].arn, "since": run[0].started}
            # Before the stop: once it is stopped there is no overlap left for a retry to report.
            sent += self.outbox.notify("overlap", each.arn, run[0].arn, **found)
            self.pipeline.stop(each.arn)
        if limits.month_usd is None or not run or run[0].arn != arn:
            return {"sent": sent}
        first = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        month = [each.arn for each in listed if each.started >= first and each.arn != arn]
        usd = sum(spent(limits, self.pipeline.steps(each), at) for each in month)
        if usd + limits.most_usd > limits.month_usd:
            found = {"most": limits.most_usd, "spent": usd, "allowed": limits.month_usd}
            sent += self.outbox.notify("budget", arn, arn, arn=arn, **found)
            self.pipeline.stop(arn)
        return {"sent": sent}

    def _ended(self, arn: str, status: str) -> dict[str, Any]:
        """People first, then what follows by itself."""
        steps = self.pipeline.steps(arn)
        failed = [step for step in steps if step.get("StepStatus") == "Failed"]
        sent: list[str] = []
        if status == "Succeeded":
            notice = self._notice(arn, INFO)
            if notice is not None and notice.message is not None:
                # What the gate says of candidates, where a model was registered or nothing is new.
                sent += self.outbox.send(notice.message, "gate", arn, notice.message.text)
            if notice is not None and notice.lost:
                sent += self._start_again(arn)
        elif status == "Failed":
            sent += self._report_failure(arn, failed)
        for step in steps:
            model = (step.get("Metadata") or {}).get("RegisterModel", {}).get("Arn")
            if model and step["StepName"].startswith(REGISTER_STEPS):
                # A definition cannot put a file's content into a request, so the model gets its
                # card once it is registered.
                self.pipeline.attach_card(model, self._text)
        if status != "Succeeded":
            self._settle(arn, status, failed)
        sent += self._report_decisions()
        outcome = {} if self.deliveries is None else self.deliveries.after(arn, status)
        return {"sent": sent, **outcome}

    def _report_failure(self, arn: str, failed: Sequence[Mapping[str, Any]]) -> list[str]:
        """The message on a failed execution, in the gate's words where the gate registered
        nothing."""
        found = self.pipeline.describe(arn)
        # An execution that is retried and fails again ends again.
        occurrence = str(found.get("LastModifiedTime"))
        notice = self._notice(arn, ACTION) if is_rejection(failed) else None
        if notice is not None and notice.message is not None:
            return self.outbox.send(notice.message, "failure", arn, occurrence)
        words = failure_found(failed, found.get("FailureReason") or "")
        return self.outbox.notify("failure", arn, occurrence, arn=arn, **words)

    def _start_again(self, arn: str) -> list[str]:
        """Once, where the machines lost candidates' jobs: the steps of those ended well for the
        service, whose cache would serve them to every later execution."""
        given = self.pipeline.parameters(arn)
        if int(given.get(ATTEMPT, "1")) > 1:
            return []
        why = f"After {short_name(arn)}, which lost jobs"
        token = f"compilegate-again-after-{short_name(arn):>012}"
        started = self.pipeline.start({**given, ATTEMPT: "2"}, why, token)
        return self.outbox.notify("again", arn, arn, arn=arn, started=started)

    def _settle(self, arn: str, status: str, failed: Sequence[Mapping[str, Any]]) -> None:
        """Settle the posture of an execution that ended before its gate could say anything, and
        train the baseline in another one where no model is left.

        The second time nothing happens: the execution is settled, and another start with its token
        is the same execution.
        """
        if self.records is None:
            return
        workload, execution = self.settings.workload, short_name(arn)
        # Of each step that failed, the first line of why.
        why = {
            step["StepName"]: (step.get("FailureReason") or "").strip().partition("\n")[0][:200]
            for step in (failed if status == "Failed" else [])
        }
        otherwise = f"the execution ended with status {status}"
        settled = settle_ended(
            self.records, workload, execution, failed=why, otherwise=otherwise, who=WHO
        )
        record = settled or current(self.records, workload, when=now(), who=WHO)
        newest = record.decisions[-1].event if record.decisions else None
        # Where an earlier call settled it and failed after that, its rescue may still be missing.
        ended = isinstance(newest, Settled) and newest.execution == execution
        if ended and record.state.rescue:
            self.pipeline.start(
                self.pipeline.parameters(arn),
                f"After {execution}: {record.state.rescue}",
                f"compilegate-rescue-after-{execution:>012}",
            )

    def _notice(self, arn: str, severity: str) -> Notice | None:
        """What the gate of an execution left for people; None where it left nothing."""
        key = f"{verdicts_prefix(self.settings.workload)}{short_name(arn)}/notice.json"
        content, uri = self.outbox.bucket.read(key), f"s3://{self.settings.bucket}/{key}"
        return None if content is None else read_notice(content, uri, arn, severity)

    def _text(self, uri: str) -> str:
        """An object that must be there."""
        content = self.outbox.bucket.read(uri.removeprefix(f"s3://{self.settings.bucket}/"))
        if content is None:
            raise FileNotFoundError(uri)
        return content.decode()

    def _look(self, at: datetime) -> list[str]:
        """Report what no event reports: an execution that does not end, a schedule that does not
        start, a posture that a person changed; and events that were lost."""
        limits, listed = self.settings.limits, self.pipeline.executions()
        sent: list[str] = []
        for late in overdue(limits, listed, at):
            taken = (at - late.started) / timedelta(hours=1)
            found = {"arn": late.arn, "taken": taken, "allowed": limits.hours}
            sent += self.outbox.notify("overdue", late.arn, late.arn, **found)
        since = None
        if limits.gap_hours is not None:
            since = unstarted_since(limits, listed, self.pipeline.changed(), at)
        if since is not None:
            sent += self.outbox.notify("unstarted", "schedule", since.isoformat(), since=since)
        sent += self._report_decisions()
        return sent + (self.endpoint.follow().get("sent", []) if self.endpoint else [])

    def _report_decisions(self) -> list[str]:
        """Each recent decision that moved the posture, once, whoever made it."""
        if self.records is None:
            return []
        workload, sent = self.settings.workload, list[str]()
        record = current(self.records, workload, when=now(), who=WHO)
        oldest = _time(now()) - timedelta(days=REPORT_DAYS)
        for number, decision in enumerate(record.decisions[: record.stored], 1):
            when = decision.event.when
            if decision.before != decision.after and _time(when) >= oldest:
                part = f"{int(record.tag['generation']['N']):04}-{number:06}"
                found = decision_found(workload, decision)
                sent += self.outbox.notify("posture", "posture", f"{part} {when}", **found)
        return sent


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
