"""SageMaker's executions of one pipeline: which give way, what they cost, how long they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from botocore.exceptions import ClientError

from compilegate.infra.keeper.notifications import short_name
from compilegate.infra.keeper.settings import Limits

EXECUTING = "Executing"
RUNNING = (EXECUTING, "Stopping")
LARGEST_PAGE = 100
_NOT_RUNNING = ("ConflictException", "ResourceNotFound", "ValidationException")
"""How SageMaker answers a request to stop an execution that has already ended."""


class Execution(NamedTuple):
    """One execution of the pipeline; compared by precedence.

    The order is total (start, then ARN) and never depends on who looks or when, so two starts at
    one moment cannot stop each other, and the older one is never stopped.
    """

    started: datetime
    arn: str
    status: str


def running(executions: Iterable[Execution]) -> list[Execution]:
    """Running executions, the oldest first, to which all others give way.

    All, and not only the one that just started: so neither a retried execution, which keeps its
    place in the order, nor a lost event leaves an overlap behind.
    """
    return sorted(each for each in executions if each.status == EXECUTING)


def spent(limits: Limits, steps: Iterable[Mapping[str, Any]], now: datetime) -> float:
    """What these steps have cost in US dollars; one that runs counts until now."""
    rates = {step: float(rate) for rate, names in (limits.rates or {}).items() for step in names}
    hour = timedelta(hours=1)
    return sum(
        rates.get(step["StepName"], 0.0)
        * (((step.get("EndTime") or now) - step["StartTime"]) / hour)
        for step in steps
        if "StartTime" in step and "CacheHitResult" not in step
    )


def overdue(limits: Limits, executions: Iterable[Execution], now: datetime) -> list[Execution]:
    """Executions that have run for longer than the workload allows."""
    if limits.hours is None:
        return []
    since = now - timedelta(hours=limits.hours)
    return [each for each in executions if each.status == EXECUTING and each.started < since]


def unstarted_since(
    limits: Limits, executions: Iterable[Execution], changed: datetime, now: datetime
) -> datetime | None:
    """Since when the schedule has started nothing though it should have; None if all is well.

    A pipeline that was changed since may have got its schedule then.
    """
    latest = max([changed, *(each.started for each in executions)])
    late = limits.gap_hours is not None and now - latest > timedelta(hours=limits.gap_hours)
    return latest if late else None


@dataclass(frozen=True)
class Pipeline:
    """One pipeline, through a boto3 client for SageMaker."""

    client: Any
    arn: str

    def executions(self, started_arn: str = "") -> list[Execution]:
        """All that the service still lists, newest first, and the one that just started.

        The list may lag behind: an execution that is not on it yet would overlap unnoticed.
        """
        pages = self.client.get_paginator("list_pipeline_executions").paginate(
            PipelineName=short_name(self.arn),
            SortBy="CreationTime",
            SortOrder="Descending",
            PaginationConfig={"PageSize": LARGEST_PAGE},
        )
        listed = [
            Execution(one["StartTime"], one["PipelineExecutionArn"], one["PipelineExecutionStatus"])
            for page in pages
            for one in page["PipelineExecutionSummaries"]
        ]
        if started_arn and started_arn not in {each.arn for each in listed}:
            found = self.describe(started_arn)
            if found:
                status = found["PipelineExecutionStatus"]
                listed.append(Execution(found["CreationTime"], started_arn, status))
        return listed

    def describe(self, arn: str) -> Mapping[str, Any]:
        """What the service says of an execution; nothing when it has been deleted."""
        try:
            found: Mapping[str, Any] = self.client.describe_pipeline_execution(
                PipelineExecutionArn=arn
            )
        except self.client.exceptions.ResourceNotFound:
            return {}
        return found

    def steps(self, arn: str) -> Sequence[Mapping[str, Any]]:
        """An execution's steps as the service lists them, in the order they began."""
        pages = self.client.get_paginator("list_pipeline_execution_steps").paginate(
            PipelineExecutionArn=arn, SortOrder="Ascending"
        )
        return [step for page in pages for step in page["PipelineExecutionSteps"]]

    def parameters(self, arn: str) -> dict[str, str]:
        """What an execution was started with."""
        pages = self.client.get_paginator("list_pipeline_parameters_for_execution").paginate(
            PipelineExecutionArn=arn
        )
        return {one["Name"]: one["Value"] for page in pages for one in page["PipelineParameters"]}

    def changed(self) -> datetime:
        """When the pipeline was deployed last."""
        found = self.client.describe_pipeline(PipelineName=short_name(self.arn))
        changed: datetime = found["LastModifiedTime"]
        return changed

    def start(self, parameters: Mapping[str, str], why: str, token: str) -> str:
        """Start an execution, once for each token; returns its ARN."""
        started = self.client.start_pipeline_execution(
            PipelineName=short_name(self.arn),
            PipelineParameters=[{"Name": key, "Value": it} for key, it in parameters.items()],
            PipelineExecutionDescription=why[:3072],
            ClientRequestToken=token[:128],
        )
        return str(started["PipelineExecutionArn"])

    def stop(self, arn: str) -> None:
        """Stop an execution, unless it has ended by itself."""
        try:
            self.client.stop_pipeline_execution(
                PipelineExecutionArn=arn, ClientRequestToken=uuid4().hex
            )
        except ClientError as error:
            running = self.describe(arn).get("PipelineExecutionStatus") == EXECUTING
            if error.response["Error"]["Code"] not in _NOT_RUNNING or running:
                raise

    def attach_card(self, model_arn: str, read: Callable[[str], str]) -> None:
        """Give a registered model the card that the gate has written, for people to review; not one
        that names none, or has its card, which people may have changed."""
        found = self.client.describe_model_package(ModelPackageName=model_arn)
        uri = (found.get("CustomerMetadataProperties") or {}).get("model_card")
        if uri is not None and not found.get("ModelCard"):
            card = {"ModelCardContent": read(uri), "ModelCardStatus": "PendingReview"}
            self.client.update_model_package(ModelPackageArn=model_arn, ModelCard=card)
