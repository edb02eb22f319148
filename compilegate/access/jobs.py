"""What one workload's jobs and its pipeline may do. Pure: ARNs in, statements out.

Every workload has three roles of its own, so that no job can read or change what belongs to
another workload: neither its data and models nor the compiled code that later jobs execute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.access.layout import (
    checkpoints_prefix,
    data_prefix,
    executions_prefix,
    models_prefix,
    registered_prefix,
    training_prefix,
    verdicts_prefix,
    workload_prefix,
)
from compilegate.access.policy import (
    MANY_OBJECTS,
    Arns,
    Statement,
    may,
    may_grant,
    may_list,
    may_objects,
    may_pass,
)
from compilegate.access.sharing import SEE_IMAGE

PROJECT_TAG = "compilegate:project"
"""On every resource of a project."""
WORKLOAD_TAG = "compilegate:workload"
"""The tag of every job, stack and resource that belongs to one workload."""

ANY = "*"
NO_RESOURCE = "The action does not support permissions for single resources"
JOB_NAMES = "SageMaker names a pipeline's jobs and their log streams when they start"
VERSIONS = "The versions in a group are numbered"
AS_WAITING = {"StringEquals": {"sagemaker:ModelApprovalStatus": "PendingManualApproval"}}
"""The condition under which a model is registered without being approved."""
IN_A_VPC = "SageMaker refuses a job in a VPC whose role limits these actions to resources"

PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
USE_KEY = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey")
WRITE = ("s3:AbortMultipartUpload", "s3:PutObject")
WRITE_LOGS = (
    "logs:CreateLogGroup",
    "logs:CreateLogStream",
    "logs:DescribeLogStreams",
    "logs:PutLogEvents",
)


@dataclass(frozen=True, kw_only=True)
class Place:
    workload: str
    arns: Arns
    bucket_arn: str
    assets_arn: str
    """The bucket that code is uploaded to: that of `cdk bootstrap`, or the project's own."""
    code_prefix: str
    """What the keys of the workload's code begin with there."""
    key_arn: str
    in_vpc: bool
    repository_arns: Sequence[str] = ()
    """The repositories of the images that the role's jobs run in."""


def training_statements(place: Place) -> list[Statement]:
    """A training job: reads code and prepared data, writes its model, evidence and checkpoints."""
    name, bucket = place.workload, place.bucket_arn
    written = [training_prefix(name), checkpoints_prefix(name)]
    return [
        *_read(place, [workload_prefix(name)]),
        may_objects("WriteObjects", *WRITE, bucket=bucket, below=written),
        # When a job removes a checkpoint, SageMaker deletes the object with the job's role.
        may_objects("DeleteObjects", "s3:DeleteObject", bucket=bucket, below=written[1:]),
        *_job_statements(place, "TrainingJobs"),
    ]


def processing_statements(place: Place, *, deliveries: Sequence[str]) -> list[Statement]:
    """A prepare, gather, gate or package job: reads code, raw data, evidence and trained models,
    writes to its execution and what stays.

    `deliveries` are the prefixes of keys that raw data is delivered under.
    """
    name = place.workload
    written = (executions_prefix, models_prefix, verdicts_prefix, registered_prefix)
    below = [each(name) for each in written]
    return [
        *_read(place, [workload_prefix(name), data_prefix(name), *deliveries]),
        may_objects("WriteObjects", *WRITE, bucket=place.bucket_arn, below=below),
        *_job_statements(place, "ProcessingJobs"),
    ]


def pipeline_statements(
    place: Place,
    *,
    group: str,
    training_role_arn: str,
    processing_role_arn: str,
    posture_function: str | None = None,
    approved_by_people: bool = True,
) -> list[Statement]:
    """A pipeline: starts, follows and stops its jobs, reads the verdict, registers a model.

    `group` is the name of the model package group that it registers in, `posture_function` the ARN
    of what its Lambda steps call. `approved_by_people` lets it register models only as waiting:
    whoever starts an execution chooses the status of its model, and could approve it by that.
    """
    of_group = place.arns.sagemaker(f"model-package-group/{group}")
    versions = place.arns.sagemaker(f"model-package/{group}/*")
    register = "sagemaker:CreateModelPackage"
    see = [
        f"sagemaker:{action}"
        for action in ("DescribeModelPackage", "DescribeModelPackageGroup", "ListModelPackages")
    ]
    if not approved_by_people:
        see.insert(0, register)
    new = {"StringEquals": {"sagemaker:TaggingAction": "CreateModelPackage"}}
    statements = [
        *_run_jobs(place),
        may_pass("PassTrainingRole", training_role_arn),
        may_pass("PassProcessingRole", processing_role_arn),
        may("RegisterModels", *see, on=[of_group, versions], because=VERSIONS),
        may("TagNewModels", "sagemaker:AddTags", on=[versions], when=new, because=VERSIONS),
    ]
    if approved_by_people:
        statements += [
            may("RegisterAsWaiting", register, on=[versions], when=AS_WAITING, because=VERSIONS),
            # The request is asked for on the group, too, which has no status.
            may("RegisterInGroup", register, on=[of_group]),
        ]
    below = [workload_prefix(place.workload)]
    statements += [
        # CreateModelPackage looks up the model's image with the caller's permissions.
        may("SeeImagesOfModels", *SEE_IMAGE, on=place.repository_arns),
        may_objects("ReadObjects", "s3:GetObject", bucket=place.bucket_arn, below=below),
        may("UseKey", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey", on=[place.key_arn]),
    ]
    if posture_function is not None:
        statements.append(may("AskThePosture", "lambda:InvokeFunction", on=[posture_function]))
    return statements


def schedule_statements(*, pipeline_arn: str, dead_letter_arn: str | None) -> list[Statement]:
    """The scheduler: start this pipeline, and put failed starts into the queue, if there is one."""
    statements = [may("StartPipeline", "sagemaker:StartPipelineExecution", on=[pipeline_arn])]
    if dead_letter_arn is not None:
        statements.append(may("KeepWhatFailed", "sqs:SendMessage", on=[dead_letter_arn]))
    return statements


def _run_jobs(place: Place) -> list[Statement]:
    """Start jobs with the workload's tag, follow them, and stop those that have it.

    All pipelines' jobs are called `pipelines-EXECUTION-STEP`, so that names cannot tell whose they
    are. Tags can: a job is only made with its workload's, and gets no other later.
    """
    request_tag = {f"aws:RequestTag/{WORKLOAD_TAG}": place.workload}
    resource_tag = {f"aws:ResourceTag/{WORKLOAD_TAG}": place.workload}
    create_actions = ["CreateProcessingJob", "CreateTrainingJob"]
    new_job = {**request_tag, "sagemaker:TaggingAction": create_actions}
    jobs = [place.arns.sagemaker(f"{kind}-job/pipelines-*") for kind in ("processing", "training")]

    def may_jobs(sid: str, actions: list[str], equal: dict[str, Any] | None = None) -> Statement:
        when = {"StringEquals": equal} if equal else {}
        named = [f"sagemaker:{action}" for action in actions]
        return may(sid, *named, on=jobs, when=when, because=JOB_NAMES)

    return [
        may_jobs("StartJobs", create_actions, request_tag),
        may_jobs("TagNewJobs", ["AddTags"], new_job),
        may_jobs("SeeJobs", ["DescribeProcessingJob", "DescribeTrainingJob"]),
        may_jobs("StopJobs", ["StopProcessingJob", "StopTrainingJob"], resource_tag),
    ]


def _job_statements(place: Place, kind: str) -> list[Statement]:
    """What every job of that kind needs, whatever it does."""
    return [
        may("UseKey", *USE_KEY, on=[place.key_arn]),
        may_grant("EncryptVolumes", place.key_arn),
        *pull_images(place.repository_arns),
        write_logs(place.arns, f"/aws/sagemaker/{kind}", because=JOB_NAMES),
        publish_metrics(f"/aws/sagemaker/{kind}"),
        *([join_vpc()] if place.in_vpc else []),
    ]


def _read(place: Place, prefixes: Sequence[str]) -> list[Statement]:
    """Read and list what lies below these prefixes, and read code."""
    bucket, assets, code = place.bucket_arn, place.assets_arn, place.code_prefix
    objects = [*(f"{bucket}/{prefix}*" for prefix in prefixes), f"{assets}/{code}*"]
    buckets = list(dict.fromkeys([bucket, assets]))
    return [
        may("ReadObjects", "s3:GetObject", on=objects, because=MANY_OBJECTS),
        may_list("ListObjects", bucket, prefixes),
        # Code is named by its digest: without that, a list of digests says nothing.
        may_list("ListCode", assets, [code]),
        may("FindBuckets", "s3:GetBucketLocation", on=buckets),
    ]


def pull_images(repository_arns: Sequence[str]) -> list[Statement]:
    """Pull from these repositories, and no others."""
    return [
        may("LogInToRegistry", "ecr:GetAuthorizationToken", on=[ANY], because=NO_RESOURCE),
        may("PullImages", *PULL, on=repository_arns),
    ]


def write_logs(arns: Arns, group: str, *, because: str) -> Statement:
    """Write to a log group, and make it for the first one."""
    streams = [arns.log_group(f"{group}{stream}") for stream in ("", ":log-stream:*")]
    return may("WriteLogs", *WRITE_LOGS, on=streams, because=because)


def publish_metrics(*namespaces: str) -> Statement:
    named = namespaces[0] if len(namespaces) == 1 else list(namespaces)
    within = {"StringEquals": {"cloudwatch:namespace": named}}
    return may(
        "PublishMetrics", "cloudwatch:PutMetricData", on=[ANY], when=within, because=NO_RESOURCE
    )


def join_vpc() -> Statement:
    return may(
        "JoinVpc",
        "ec2:CreateNetworkInterface",
        "ec2:CreateNetworkInterfacePermission",
        "ec2:DeleteNetworkInterface",
        "ec2:DeleteNetworkInterfacePermission",
        "ec2:DescribeDhcpOptions",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSubnets",
        "ec2:DescribeVpcs",
        on=[ANY],
        because=IN_A_VPC,
    )
