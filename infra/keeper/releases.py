"""What follows from an approval: an endpoint that changes its model, or a batch transform.

The endpoint is a CloudFormation stack with a parameter `Version`, "0" while there is no model. It
answers with the newest version that is approved; nothing is remembered beside the registry and the
stack, so any event, and the look of every hour, may ask what is to be done. CloudFormation takes a
version back whose alarms go off, and such a version is then rejected, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from compilegate.infra.keeper.outbox import Outbox
from compilegate.infra.keeper.settings import Batch, Settings
from compilegate.infra.keeper.subscriptions import (
    ENDPOINT_TYPES,
    RESTING,
    ROLLED_BACK,
    STUCK,
    UPDATED,
)

APPROVED, REJECTED, CHANGED = "Approved", "Rejected", "ModelApprovalStatus"
VERSION = "Version"
MONITORED_MINUTES = 10
"""Time after a change in which an alarm rolls it back."""
BEGUN = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS")
TAKEN_BACK = ("CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_IN_PROGRESS")
MOST_REASON = 1024
"""Characters of a decision's description in the registry."""
_TOKEN = "compilegate-version-"  # noqa: S105  the name of a request
_BEGUN_ALREADY = ("No updates are to be performed", "_IN_PROGRESS", "TokenAlreadyExists")
_THERE = ("already exist", "Cannot create already existing")


def newest_approved(sagemaker: Any, group: str) -> tuple[int, str]:
    """The approved version with the greatest number, and its ARN; 0 where none is approved."""
    pages = sagemaker.get_paginator("list_model_packages").paginate(
        ModelPackageGroupName=group, ModelApprovalStatus=APPROVED
    )
    versions = [
        (int(package["ModelPackageVersion"]), str(package["ModelPackageArn"]))
        for page in pages
        for package in page["ModelPackageSummaryList"]
        if package.get("ModelApprovalStatus") == APPROVED
    ]
    return max(versions, default=(0, ""))


@dataclass(frozen=True)
class Change:
    """The last change of a stack, from its events."""

    version: int
    """The version that the keeper tried; 0 for a change by anybody else."""
    ended: datetime
    reason: str
    """What failed first, and why."""

    @property
    def name(self) -> str:
        """A name of its own among the stack's changes."""
        return f"{self.ended:%Y%m%dT%H%M%S%f}"


@dataclass(frozen=True)
class Endpoint:
    """The stack of a workload's endpoint."""

    cloudformation: Any
    cloudwatch: Any
    sagemaker: Any
    outbox: Outbox
    settings: Settings

    def follow(self) -> dict[str, Any]:
        """Bring the endpoint nearer to the version that should answer."""
        stack = self._described()
        status = stack.get("StackStatus", "none")
        if status not in RESTING:
            return {"endpoint": status}
        parameters = {one["ParameterKey"]: one["ParameterValue"] for one in stack["Parameters"]}
        deployed, change = int(parameters[VERSION]), self._last_change()
        wanted, arn = newest_approved(self.sagemaker, self.settings.group)
        outcome: dict[str, Any] = {"endpoint": deployed, "approved": wanted}
        if status == STUCK:
            kind = "stuck"
        elif wanted == deployed:
            kind = "answers" if status == UPDATED and change.version == deployed else ""
        elif wanted == 0:
            kind = "unapproved"
        elif status == ROLLED_BACK and change.version == wanted and self._is_refused(arn, change):
            kind = "refused"
        else:
            self._update(parameters, wanted, after=change)
            return {**outcome, "updating": wanted}
        still = f"It answers with version {deployed} as before"
        found = {
            "version": wanted,
            "deployed": deployed,
            "still": still if deployed else "No version answered before, and none does now",
            "reason": change.reason,
            "group": self.settings.group,
            "stack": self.settings.endpoint_stack,
        }
        # Once after each change of the stack; and before the version is rejected, since nothing
        # would lead here again.
        sent = self.outbox.notify(kind, "endpoint", change.name, **found) if kind else []
        if kind == "refused":
            self.sagemaker.update_model_package(
                ModelPackageArn=arn,
                ModelApprovalStatus=REJECTED,
                ApprovalDescription=f"Rolled back: {change.reason}"[:MOST_REASON],
            )
        return {**outcome, "is": kind, "sent": sent}

    def _update(self, parameters: Mapping[str, str], wanted: int, *, after: Change) -> None:
        others = [name for name in parameters if name != VERSION]
        try:
            self.cloudformation.update_stack(
                StackName=self.settings.endpoint_stack,
                UsePreviousTemplate=True,
                Parameters=[
                    {"ParameterKey": VERSION, "ParameterValue": str(wanted)},
                    *({"ParameterKey": name, "UsePreviousValue": True} for name in others),
                ],
                # Its role may say no others: CloudFormation acts with the rights of a deployment.
                ResourceTypes=list(ENDPOINT_TYPES),
                RollbackConfiguration={
                    "RollbackTriggers": self._triggers(),
                    "MonitoringTimeInMinutes": MONITORED_MINUTES,
                },
                # The same for every call that finds the stack as it is.
                ClientRequestToken=f"{_TOKEN}{wanted}-after-{after.name}",
            )
        except ClientError as error:
            # The stack may have begun a change since it was looked at, whose end is an event.
            if not any(words in str(error) for words in _BEGUN_ALREADY):
                raise

    def _triggers(self) -> list[dict[str, str]]:
        """The alarms that take a version back. One that is going off already says nothing about the
        new version, and would keep a bad one from being replaced."""
        arns = self.settings.endpoint_alarms
        names = [arn.rpartition(":alarm:")[2] for arn in arns]
        found = self.cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"] if names else []
        loud = {alarm["AlarmArn"] for alarm in found if alarm["StateValue"] == "ALARM"}
        return [{"Arn": arn, "Type": "AWS::CloudWatch::Alarm"} for arn in arns if arn not in loud]

    def _is_refused(self, arn: str, change: Change) -> bool:
        """Not where somebody approved the version after it was taken back: it is then tried
        again."""
        found = self.sagemaker.describe_model_package(ModelPackageName=arn)
        modified = found.get("LastModifiedTime")
        return modified is None or modified <= change.ended

    def _described(self) -> Mapping[str, Any]:
        """The stack; empty before it is deployed."""
        name = self.settings.endpoint_stack
        try:
            found: Mapping[str, Any] = self.cloudformation.describe_stacks(StackName=name)[
                "Stacks"
            ][0]
        except ClientError as error:
            if "does not exist" in error.response["Error"].get("Message", ""):
                return {}
            raise
        return found

    def _last_change(self) -> Change:
        """The stack's newest change, from its newest events back to the one that began it."""
        pages = self.cloudformation.get_paginator("describe_stack_events").paginate(
            StackName=self.settings.endpoint_stack
        )
        events = []
        for event in (event for page in pages for event in page["StackEvents"]):
            events.append(event)
            if event["PhysicalResourceId"] == event["StackId"] and event["ResourceStatus"] in BEGUN:
                break
        reasons = [
            f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
            for event in events
            if event["ResourceStatus"] in TAKEN_BACK and event.get("ResourceStatusReason")
        ]
        # Whoever ends a rollback by hand begins no other change, and gives it another token.
        tokens = [
            re.match(rf"{_TOKEN}(\d+)-", event.get("ClientRequestToken", "")) for event in events
        ]
        return Change(
            version=next((int(token.group(1)) for token in tokens if token), 0),
            ended=events[0]["Timestamp"],
            reason=reasons[-1] if reasons else "the stack's events give no reason",
        )


@dataclass(frozen=True)
class Transforms:
    """Batch transforms, one for each approval."""

    sagemaker: Any
    outbox: Outbox
    settings: Settings
    batch: Batch

    def decided(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Start a transform with the version that was approved, if it is the newest. Other changes
        of an approved model, such as of its metadata, come as events of the same kind."""
        detail = event["detail"]
        wanted, arn = newest_approved(self.sagemaker, self.settings.group)
        if (
            detail.get("ModelApprovalStatus") != APPROVED
            or CHANGED not in (detail.get("UpdatedModelPackageFields") or [CHANGED])
            or wanted != int(detail["ModelPackageVersion"])
        ):
            return {"approved": wanted}
        when = "".join(letter for letter in event["time"][:19] if letter.isdigit())
        name = f"{self.batch.name}--{wanted}-{when}"
        return {"transform" if self._start(name, arn) else "was started": name}

    def ended(self, detail: Mapping[str, Any]) -> dict[str, Any]:
        """A transform that failed or was stopped."""
        name, status = detail["TransformJobName"], detail["TransformJobStatus"]
        reason = detail.get("FailureReason") or "the service gives no reason"
        found = {"name": name, "status": status, "reason": reason}
        return {"sent": self.outbox.notify("transform", name, status, **found)}

    def _start(self, name: str, package: str) -> bool:
        """Whether this call started it; not where it was started before."""
        batch, tags = self.batch, self.settings.tags
        in_vpc = {"Subnets": batch.subnets, "SecurityGroupIds": batch.security_groups}
        _once(
            self.sagemaker.create_model,
            ModelName=name,
            Containers=[{"ModelPackageName": package}],
            ExecutionRoleArn=batch.role_arn,
            EnableNetworkIsolation=batch.isolation,
            Tags=tags,
            **({"VpcConfig": in_vpc} if batch.subnets else {}),
        )
        volume = {"VolumeKmsKeyId": batch.volume_key_arn} if batch.volume_key_arn else {}
        requests = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": batch.input}}
        answers = f"{batch.output}{name.rpartition('--')[2]}/"
        return _once(
            self.sagemaker.create_transform_job,
            TransformJobName=name,
            ModelName=name,
            TransformInput={"DataSource": requests, "ContentType": batch.content_type},
            TransformOutput={"S3OutputPath": answers, "KmsKeyId": batch.key_arn},
            TransformResources={
                "InstanceType": batch.instance_type,
                "InstanceCount": batch.instance_count,
                **volume,
            },
            Tags=tags,
        )


def _once(create: Any, **request: Any) -> bool:
    """Whether this call made it; not where it was there already."""
    try:
        create(**request)
    except ClientError as error:
        details = error.response["Error"]
        there = any(words in details.get("Message", "") for words in _THERE)
        if details["Code"] == "ResourceInUse" or there:
            return False
        raise
    return True
