"""How much of an account's quotas a project takes, said before a deployment runs into one. Pure.

Only quotas of which every workload takes some, and which a new account has by default: fifty
workloads are the first to meet them. What the account has been granted, or uses otherwise, is not
asked here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from compilegate.workload import Workload


@dataclass(frozen=True)
class Quota:
    """One default quota, and what of a project counts against it."""

    type: str
    """What templates call such a resource."""
    name: str
    """As the Service Quotas console calls it, with its service."""
    default: int


LIFECYCLE_RULE = "AWS::S3::Bucket LifecycleRule"
"""No resource of its own: each workload has some on the project's bucket."""
QUOTAS = (
    Quota("AWS::Events::Rule", "EventBridge (CloudWatch Events): Rules, of one event bus", 300),
    Quota("AWS::IAM::Role", "IAM: Roles per account", 1_000),
    Quota("AWS::CloudFormation::Stack", "CloudFormation: Stack count", 2_000),
    Quota("AWS::SageMaker::Pipeline", "SageMaker: Maximum number of pipelines", 500),
    Quota("AWS::CloudWatch::Alarm", "CloudWatch: Alarms of a region", 5_000),
    Quota(LIFECYCLE_RULE, "S3: Lifecycle rules of a bucket (it cannot be raised)", 1_000),
)

LIFECYCLE_RULES = 3
"""For checkpoints, for what executions write, and for what is not registered."""
ENDPOINT_ALARMS = 2
"""For errors, and for answers that come late."""
ENDPOINTS = ("real-time", "serverless")
RULES_OF = {"real-time": 1, "serverless": 2, "batch": 1}
"""What tells the releaser of an endpoint, of a serverless one's alarms, or of a batch."""


def resources_of(workload: Workload) -> Counter[str]:
    """What the stack of one workload has of the resources that quotas count."""
    counted = Counter({"AWS::CloudFormation::Stack": 1, "AWS::SageMaker::Pipeline": 1})
    counted += Counter({LIFECYCLE_RULE: LIFECYCLE_RULES})
    # An execution failed, an event was not delivered, the notifier failed.
    counted += Counter({"AWS::CloudWatch::Alarm": 3})
    # The pipeline's three and the notifier's; executions, the gate, and the hourly look.
    counted += Counter({"AWS::IAM::Role": 4, "AWS::Events::Rule": 3})
    if workload.schedule is not None:
        counted += Counter({"AWS::IAM::Role": 1})
    if workload.new_data is not None:
        counted += Counter(
            {"AWS::IAM::Role": 1, "AWS::Events::Rule": 2, "AWS::CloudWatch::Alarm": 1}
        )
    if workload.posture is not None:
        counted += Counter(
            {"AWS::IAM::Role": 1, "AWS::Events::Rule": 1, "AWS::CloudWatch::Alarm": 1}
        )
    return counted + _of_releases(workload)


def _of_releases(workload: Workload) -> Counter[str]:
    """What follows from approvals: the releaser with its decisions, and what answers requests."""
    deploy = "none" if workload.serving is None else workload.serving.deploy
    counted: Counter[str] = Counter()
    if deploy != "none":
        counted += Counter(
            {"AWS::IAM::Role": 1, "AWS::Events::Rule": 1, "AWS::CloudWatch::Alarm": 1}
        )
    if deploy != "none":
        counted += Counter({"AWS::IAM::Role": 1, "AWS::Events::Rule": RULES_OF[deploy]})
    if deploy in ENDPOINTS:
        counted += Counter({"AWS::CloudWatch::Alarm": ENDPOINT_ALARMS})
    return counted


def quota_warnings(workloads: Iterable[Workload]) -> list[str]:
    """A sentence for each default quota that the workloads alone would exceed."""
    total = sum((resources_of(workload) for workload in workloads), Counter[str]())
    return [
        f"{quota.name}: the workloads take {total[quota.type]:,}, a new account has "
        f"{quota.default:,}; ask for more in the Service Quotas console before you deploy"
        for quota in QUOTAS
        if total[quota.type] > quota.default
    ]
