"""What the roles of a CI may do. Pure: ARNs in, statements out."""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.access import Arns, Statement
from compilegate.access.jobs import ANY, JOB_NAMES, MANY_OBJECTS, NO_RESOURCE
from compilegate.access.layout import PREFIX, data_prefix
from compilegate.infra.ci.promoting import Place, promoting
from compilegate.infra.functions.permissions import EXECUTION_NAMES

DEPLOYING = ("deploy", "file-publishing")
"""The roles that `cdk bootstrap` made, by their purpose. Not the one that looks things up, which
reads the whole account: the app looks nothing up, and `cdk diff` goes on with the role's own."""
OF_THE_PROJECT = "These belong to the project: workloads come and go, and share its prefix"


def plan_statements(*, arns: Arns, project: str) -> list[Statement]:
    """Read what belongs to the project, for `cdk diff` and `compilegate aws plan`."""
    return _looking(arns, project)


def deploy_statements(
    *,
    arns: Arns,
    project: str,
    qualifier: str,
    bucket_arn: str,
    key_arn: str,
    repository_arns: Sequence[str],
    base_repository_arns: Sequence[str],
    source: Place | None = None,
) -> list[Statement]:
    """Plan, and also deploy through the CDK's roles, build, stage data and submit; and bring models
    from the stage before."""
    return [
        *([] if source is None else promoting(arns, project, bucket_arn, source)),
        _assume_cdk_roles(arns, qualifier),
        Statement(
            sid="SeeWhetherBootstrapped",
            actions=["ssm:GetParameter"],
            resources=[arns.of_service("ssm", f"parameter/cdk-bootstrap/{qualifier}/version")],
        ),
        *_looking(arns, project),
        *_submitting(arns, project, bucket_arn, key_arn),
        *_building(arns, project, repository_arns),
        *_pinning(base_repository_arns),
    ]


def _looking(arns: Arns, project: str) -> list[Statement]:
    return [
        Statement(
            sid="ReadStacks",
            actions=[
                "cloudformation:DescribeStacks",
                "cloudformation:GetTemplate",
                "cloudformation:ListStackResources",
            ],
            resources=[arns.of_service("cloudformation", f"stack/{project}-*/*")],
            because=OF_THE_PROJECT,
        ),
        Statement(
            sid="ReadPipelines",
            actions=["sagemaker:DescribePipeline", "sagemaker:ListPipelineExecutions"],
            resources=[arns.sagemaker(f"pipeline/{project}-*")],
            because=OF_THE_PROJECT,
        ),
        Statement(
            sid="ReadExecutions",
            actions=[
                "sagemaker:DescribePipelineDefinitionForExecution",
                "sagemaker:DescribePipelineExecution",
                "sagemaker:ListPipelineExecutionSteps",
                "sagemaker:ListPipelineParametersForExecution",
            ],
            resources=[arns.sagemaker(f"pipeline/{project}-*/execution/*")],
            because=EXECUTION_NAMES,
        ),
        Statement(
            sid="ReadJobs",
            actions=["sagemaker:DescribeProcessingJob", "sagemaker:DescribeTrainingJob"],
            resources=[
                arns.sagemaker("processing-job/pipelines-*"),
                arns.sagemaker("training-job/pipelines-*"),
            ],
            because=JOB_NAMES,
        ),
        Statement(
            sid="ReadQuotas",
            actions=["servicequotas:ListServiceQuotas"],
            resources=[ANY],
            because=NO_RESOURCE,
        ),
    ]


def _submitting(arns: Arns, project: str, bucket_arn: str, key_arn: str) -> list[Statement]:
    """Stage data, start an execution, follow it to its verdict."""
    return [
        Statement(
            sid="StartPipelines",
            actions=["sagemaker:StartPipelineExecution"],
            resources=[arns.sagemaker(f"pipeline/{project}-*")],
            because=OF_THE_PROJECT,
        ),
        Statement(
            sid="StopExecutions",
            actions=["sagemaker:RetryPipelineExecution", "sagemaker:StopPipelineExecution"],
            resources=[arns.sagemaker(f"pipeline/{project}-*/execution/*")],
            because=EXECUTION_NAMES,
        ),
        Statement(
            sid="ReadModels",
            actions=["sagemaker:DescribeModelPackage"],
            resources=[arns.sagemaker(f"model-package/{project}-*/*")],
            because=OF_THE_PROJECT,
        ),
        Statement(
            sid="ReadJobLogs",
            actions=["logs:DescribeLogStreams", "logs:GetLogEvents"],
            # A request to list streams names the group, with an empty stream at the end.
            resources=[
                arns.log_group(f"/aws/sagemaker/{kind}{stream}")
                for kind in ("ProcessingJobs", "TrainingJobs")
                for stream in ("", ":log-stream:", ":log-stream:pipelines-*")
            ],
            because=JOB_NAMES,
        ),
        Statement(
            sid="ReadObjects",
            actions=["s3:GetObject"],
            resources=[f"{bucket_arn}/{PREFIX}/*"],
            because=MANY_OBJECTS,
        ),
        Statement(sid="ListObjects", actions=["s3:ListBucket"], resources=[bucket_arn]),
        Statement(
            sid="StageData",
            actions=["s3:AbortMultipartUpload", "s3:PutObject"],
            resources=[f"{bucket_arn}/{data_prefix()}*"],
            because=MANY_OBJECTS,
        ),
        Statement(
            sid="UseKey", actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[key_arn]
        ),
    ]


def _building(arns: Arns, project: str, repository_arns: Sequence[str]) -> list[Statement]:
    """See which images are built, and start builds."""
    return [
        Statement(
            sid="BuildImages",
            actions=[
                "codebuild:BatchGetBuilds",
                "codebuild:BatchGetProjects",
                "codebuild:ListBuildsForProject",
                "codebuild:StartBuild",
            ],
            resources=[arns.of_service("codebuild", f"project/{project}-*")],
            because=OF_THE_PROJECT,
        ),
        Statement(
            sid="SeeImages",
            actions=["ecr:DescribeImageScanFindings", "ecr:DescribeImages"],
            resources=repository_arns,
        ),
    ]


def _pinning(base_repository_arns: Sequence[str]) -> list[Statement]:
    """Ask what the tags of base images stand for; registries that want no login need no right."""
    bases = Statement(
        sid="SeeWhatBasesAre",
        actions=["ecr:BatchGetImage"],
        resources=base_repository_arns,
    )
    return [bases] if base_repository_arns else []


def _assume_cdk_roles(arns: Arns, qualifier: str) -> Statement:
    return Statement(
        sid="AssumeCdkRoles",
        actions=["sts:AssumeRole"],
        resources=[
            arns.role(f"cdk-{qualifier}-{purpose}-role-{arns.account}-{arns.region}")
            for purpose in DEPLOYING
        ],
    )
