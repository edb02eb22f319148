"""What one workload's jobs and its pipeline may do. Pure: ARNs in, statements out.

Every workload has three roles of its own, so that no job can read or change what belongs to
another workload: neither its data and models nor the compiled code that later jobs execute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from compilegate.access.policy import Arns, Statement

PROJECT_TAG = "compilegate:project"
"""On every resource of a project."""
WORKLOAD_TAG = "compilegate:workload"
"""The tag of every job, stack and resource that belongs to one workload."""

ANY = "*"
NO_RESOURCE = "The action does not support permissions for single resources"
JOB_NAMES = "SageMaker names a pipeline's jobs and their log streams when they start"
MANY_OBJECTS = "Keys hold digests and execution IDs; this is their common prefix"
VERSIONS = "The versions in a group are numbered"
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
    name = place.workload
    return [
        *_read(place, [workload_prefix(name)]),
        _change(place, "WriteObjects", [training_prefix(name), checkpoints_prefix(name)], *WRITE),
        # When a job removes a checkpoint, SageMaker deletes the object with the job's role.
        _change(place, "DeleteObjects", [checkpoints_prefix(name)], "s3:DeleteObject"),
        *_job_statements(place, "TrainingJobs"),
    ]


def processing_statements(place: Place, *, deliveries: Sequence[str]) -> list[Statement]:
    """A prepare, gather, gate or package job: reads code, raw data, evidence and trained models,
    writes to its execution and what stays.

    `deliveries` are the prefixes of keys that raw data is delivered under.
    """
    name = place.workload
    written = (executions_prefix, models_prefix, verdicts_prefix, registered_prefix)
    return [
        *_read(place, [workload_prefix(name), data_prefix(name), *deliveries]),
        _change(place, "WriteObjects", [each(name) for each in written], *WRITE),
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
    passed_on = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    registering = ["sagemaker:CreateModelPackage"]
    waiting = {"StringEquals": {"sagemaker:ModelApprovalStatus": "PendingManualApproval"}}
    statements = [
        *_run_jobs(place),
        *(
            Statement(sid, ["iam:PassRole"], [arn], conditions=passed_on)
            for sid, arn in (
                ("PassTrainingRole", training_role_arn),
                ("PassProcessingRole", processing_role_arn),
            )
        ),
        Statement(
            "RegisterModels",
            [
                *([] if approved_by_people else registering),
                "sagemaker:DescribeModelPackage",
                "sagemaker:DescribeModelPackageGroup",
                "sagemaker:ListModelPackages",
            ],
            [of_group, versions],
            because=VERSIONS,
        ),
        Statement(
            "TagNewModels",
            ["sagemaker:AddTags"],
            [versions],
            conditions={"StringEquals": {"sagemaker:TaggingAction": "CreateModelPackage"}},
            because=VERSIONS,
        ),
    ]
    if approved_by_people:
        statements += [
            Statement(
                "RegisterAsWaiting", registering, [versions], conditions=waiting, because=VERSIONS
            ),
            # The request is asked for on the group, too, which has no status.
            Statement("RegisterInGroup", registering, [of_group]),
        ]
    statements += [
        # CreateModelPackage looks up the model's image with the caller's permissions.
        Statement(
            "SeeImagesOfModels", ["ecr:BatchGetImage", "ecr:DescribeImages"], place.repository_arns
        ),
        Statement(
            "ReadObjects",
            ["s3:GetObject"],
            [f"{place.bucket_arn}/{workload_prefix(place.workload)}*"],
            because=MANY_OBJECTS,
        ),
        _use_key(place, "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"),
    ]
    if posture_function is not None:
        calling = ["lambda:InvokeFunction"]
        statements.append(Statement("AskThePosture", calling, [posture_function]))
    return statements


def schedule_statements(*, pipeline_arn: str, dead_letter_arn: str | None) -> list[Statement]:
    """The scheduler: start this pipeline, and put failed starts into the queue, if there is one."""
    start = ("StartPipeline", "sagemaker:StartPipelineExecution", pipeline_arn)
    dead_letter = ("KeepWhatFailed", "sqs:SendMessage", dead_letter_arn)
    return [
        Statement(sid, [action], [arn])
        for sid, action, arn in (start, dead_letter)
        if arn is not None
    ]


def _run_jobs(place: Place) -> list[Statement]:
    """Start jobs with the workload's tag, follow them, and stop those that have it.

    All pipelines' jobs are called `pipelines-EXECUTION-STEP`, so that names cannot tell whose they
    are. Tags can: a job is only made with its workload's, and gets no other later.
    """
    request_tag = {f"aws:RequestTag/{WORKLOAD_TAG}": place.workload}
    resource_tag = {f"aws:ResourceTag/{WORKLOAD_TAG}": place.workload}
    create_actions = ["CreateProcessingJob", "CreateTrainingJob"]
    jobs = [place.arns.sagemaker(f"{kind}-job/pipelines-*") for kind in ("processing", "training")]
    return [
        Statement(
            sid,
            [f"sagemaker:{action}" for action in actions],
            jobs,
            conditions={"StringEquals": conditions} if conditions else {},
            because=JOB_NAMES,
        )
        for sid, actions, conditions in (
            ("StartJobs", create_actions, request_tag),
            ("TagNewJobs", ["AddTags"], {**request_tag, "sagemaker:TaggingAction": create_actions}),
            ("SeeJobs", ["DescribeProcessingJob", "DescribeTrainingJob"], {}),
            ("StopJobs", ["StopProcessingJob", "StopTrainingJob"], resource_tag),
        )
    ]


def _job_statements(place: Place, kind: str) -> list[Statement]:
    """What every job of that kind needs, whatever it does."""
    return [
        _use_key(place, *USE_KEY),
        # Only SageMaker itself, for the job's volume: a program could give the key to anybody.
        Statement(
            "EncryptVolumes",
            ["kms:CreateGrant"],
            [place.key_arn],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
        *pull_images(place.repository_arns),
        write_logs(place.arns, f"/aws/sagemaker/{kind}", because=JOB_NAMES),
        publish_metrics(f"/aws/sagemaker/{kind}"),
        *([join_vpc()] if place.in_vpc else []),
    ]


def _read(place: Place, prefixes: Sequence[str]) -> list[Statement]:
    """Read and list what lies below these prefixes, and read code."""
    return [
        Statement(
            "ReadObjects",
            ["s3:GetObject"],
            [
                *(f"{place.bucket_arn}/{prefix}*" for prefix in prefixes),
                f"{place.assets_arn}/{place.code_prefix}*",
            ],
            because=MANY_OBJECTS,
        ),
        Statement(
            "ListObjects",
            ["s3:ListBucket"],
            [place.bucket_arn],
            conditions={"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}},
        ),
        # Code is named by its digest: without that, a list of digests says nothing.
        Statement(
            "ListCode",
            ["s3:ListBucket"],
            [place.assets_arn],
            conditions={"StringLike": {"s3:prefix": [f"{place.code_prefix}*"]}},
        ),
        Statement(
            "FindBuckets",
            ["s3:GetBucketLocation"],
            list(dict.fromkeys([place.bucket_arn, place.assets_arn])),
        ),
    ]


def _change(place: Place, sid: str, prefixes: Sequence[str], *actions: str) -> Statement:
    return Statement(
        sid, actions, [f"{place.bucket_arn}/{prefix}*" for prefix in prefixes], because=MANY_OBJECTS
    )


def _use_key(place: Place, *actions: str) -> Statement:
    return Statement("UseKey", actions, [place.key_arn])


def pull_images(repository_arns: Sequence[str]) -> list[Statement]:
    """Pull from these repositories, and no others."""
    return [
        Statement("LogInToRegistry", ["ecr:GetAuthorizationToken"], [ANY], because=NO_RESOURCE),
        Statement("PullImages", PULL, repository_arns),
    ]


def write_logs(arns: Arns, group: str, *, because: str) -> Statement:
    """Write to a log group, and make it for the first one."""
    return Statement(
        "WriteLogs",
        WRITE_LOGS,
        [arns.log_group(f"{group}{stream}") for stream in ("", ":log-stream:*")],
        because=because,
    )


def publish_metrics(*namespaces: str) -> Statement:
    named = namespaces[0] if len(namespaces) == 1 else list(namespaces)
    return Statement(
        "PublishMetrics",
        ["cloudwatch:PutMetricData"],
        [ANY],
        conditions={"StringEquals": {"cloudwatch:namespace": named}},
        because=NO_RESOURCE,
    )


def join_vpc() -> Statement:
    return Statement(
        "JoinVpc",
        [
            "ec2:CreateNetworkInterface",
            "ec2:CreateNetworkInterfacePermission",
            "ec2:DeleteNetworkInterface",
            "ec2:DeleteNetworkInterfacePermission",
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
        ],
        [ANY],
        because=IN_A_VPC,
    )
