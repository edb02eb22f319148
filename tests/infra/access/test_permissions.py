"""What each role must be able to do and what it must not, asked of an IAM policy engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from compilegate.account.settings import Names, Settings
from tests.infra.access.policy_engine import AWS_ACCOUNT, Question, ask
from tests.infra.access.release_roles import RELEASE
from tests.infra.assembly import ACCOUNT, REGION, Assembly

pytestmark = pytest.mark.slow

FOUNDATION, IMAGES = "compilegate-foundation", "compilegate-images"
WORKLOAD, CI = "compilegate-workload-topics", "compilegate-ci"
WATCHED = "compilegate-workload-watched"

BUCKET = f"arn:aws:s3:::compilegate-{ACCOUNT}-{REGION}"
OURS = f"{BUCKET}/compilegate/workloads/topics"
THEIRS = f"{BUCKET}/compilegate/workloads/topics-of-others"
"""Of another workload, whose name begins like ours."""
QUALIFIER = Names(Settings(project="compilegate")).qualifier
ASSETS = f"arn:aws:s3:::cdk-{QUALIFIER}-assets-{ACCOUNT}-{REGION}"
SAGEMAKER = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
PIPELINE = f"{SAGEMAKER}:pipeline/compilegate-topics"
WATCHED_PIPELINE = f"{SAGEMAKER}:pipeline/compilegate-watched"
OTHERS_PIPELINE = f"{SAGEMAKER}:pipeline/neighbour-topics"
ECR = f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository"
DLC = f"arn:aws:ecr:{REGION}:{AWS_ACCOUNT}:repository/pytorch"
LOGS = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group"
CODEBUILD = f"arn:aws:codebuild:{REGION}:{ACCOUNT}:project"
RULES = f"arn:aws:events:{REGION}:{ACCOUNT}:rule"
LAMBDA = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function"
IAM = f"arn:aws:iam::{ACCOUNT}:role"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:compilegate-notifications"
TO_SAGEMAKER = {"iam:PassedToService": "sagemaker.amazonaws.com"}
SUBNET = f"arn:aws:ec2:{REGION}:{ACCOUNT}:subnet/subnet-0123456789abcdef0"
INTERFACE = f"arn:aws:ec2:{REGION}:{ACCOUNT}:network-interface/eni-1"
LENT_TO_CODEBUILD = {"ec2:AuthorizedService": "codebuild.amazonaws.com", "ec2:Subnet": SUBNET}
OF_OURS = {"aws:ResourceTag/compilegate:workload": "topics"}
OF_OTHERS = {"aws:ResourceTag/compilegate:workload": "topics-of-others"}
THROUGH_DYNAMODB = {"kms:ViaService": f"dynamodb.{REGION}.amazonaws.com"}
STREAM = "/stream/first"
FOR_A_SERVICE = {"kms:GrantIsForAWSResource": "true"}


@dataclass(frozen=True)
class Role:
    """A role, and what is asked of it: an action and a resource, or these and a context."""

    stack: str
    starting: str
    may: list[tuple[Any, ...]] = field(default_factory=list)
    may_not: list[tuple[Any, ...]] = field(default_factory=list)


KEY = "THE KEY"
OTHERS_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/another"
TRAINING_ROLE, PROCESSING_ROLE, PIPELINE_ROLE = (
    "JobsTrainingRole",
    "JobsProcessingRole",
    "JobsPipelineRole",
)

ROLES = {
    "a training job": Role(
        WORKLOAD,
        TRAINING_ROLE,
        may=[
            ("s3:GetObject", f"{ASSETS}/0123.zip"),
            ("s3:GetObject", f"{OURS}/executions/abc/prepared/train.npz"),
            ("s3:PutObject", f"{OURS}/training/job/output/model.tar.gz"),
            ("s3:PutObject", f"{OURS}/checkpoints/compiled/shared/compile-cache/x"),
            ("s3:DeleteObject", f"{OURS}/checkpoints/compiled/seed-7/checkpoints/job/1"),
            (
                "s3:ListBucket",
                BUCKET,
                {"s3:prefix": "compilegate/workloads/topics/executions/abc/prepared/"},
            ),
            ("s3:ListBucket", ASSETS),
            ("s3:GetBucketLocation", BUCKET),
            ("kms:GenerateDataKey", KEY),
            ("kms:CreateGrant", KEY, FOR_A_SERVICE),
            ("ecr:BatchGetImage", f"{ECR}/compilegate/training"),
            ("logs:PutLogEvents", f"{LOGS}:/aws/sagemaker/TrainingJobs:log-stream:x/algo-1"),
            (
                "cloudwatch:PutMetricData",
                "*",
                {"cloudwatch:namespace": "/aws/sagemaker/TrainingJobs"},
            ),
        ],
        may_not=[
            ("s3:PutObject", f"{OURS}/verdicts/abc/verdict.json"),
            ("s3:PutObject", f"{BUCKET}/compilegate/data/topics/0123/train.csv"),
            ("s3:PutObject", f"{ASSETS}/0123.zip"),
            ("s3:DeleteObject", f"{OURS}/training/job/output/model.tar.gz"),
            ("s3:GetObject", "arn:aws:s3:::somebody-elses/key"),
            ("s3:GetObject", f"{BUCKET}/compilegate/data/topics/0123/train.csv"),
            ("s3:GetObject", f"{THEIRS}/training/job/output/model.tar.gz"),
            ("s3:GetObject", f"{THEIRS}/executions/abc/prepared/train.npz"),
            ("s3:PutObject", f"{THEIRS}/training/job/output/model.tar.gz"),
            ("s3:PutObject", f"{THEIRS}/checkpoints/compiled/shared/compile-cache/x"),
            ("s3:DeleteObject", f"{THEIRS}/checkpoints/compiled/shared/compile-cache/x"),
            ("s3:ListBucket", BUCKET, {"s3:prefix": "compilegate/workloads/topics-of-others/"}),
            ("s3:ListBucket", BUCKET, {"s3:prefix": ""}),
            ("kms:Decrypt", OTHERS_KEY),
            ("kms:CreateGrant", KEY, {"kms:GrantIsForAWSResource": "false"}),
            ("kms:ScheduleKeyDeletion", KEY),
            ("ecr:BatchGetImage", f"{ECR}/compilegate/gate"),
            ("ecr:PutImage", f"{ECR}/compilegate/training"),
            ("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": "AWS/Lambda"}),
            ("sagemaker:CreateTrainingJob", f"{SAGEMAKER}:training-job/pipelines-x"),
            ("iam:PassRole", f"{IAM}/TRAINING", TO_SAGEMAKER),
            ("ec2:CreateNetworkInterface", f"arn:aws:ec2:{REGION}:{ACCOUNT}:subnet/subnet-1"),
        ],
    ),
    "a prepare, gather or gate job": Role(
        WORKLOAD,
        PROCESSING_ROLE,
        may=[
            ("s3:GetObject", f"{BUCKET}/compilegate/data/topics/0123/train.csv"),
            ("s3:GetObject", f"{BUCKET}/incoming/topics/2026-11-20/train.csv"),
            ("s3:GetObject", f"{OURS}/training/job/output/output.tar.gz"),
            ("s3:PutObject", f"{OURS}/verdicts/abc/verdict.json"),
            ("ecr:BatchGetImage", f"{ECR}/compilegate/gate"),
            ("ecr:BatchGetImage", f"{ECR}/compilegate/training"),
            ("logs:PutLogEvents", f"{LOGS}:/aws/sagemaker/ProcessingJobs:log-stream:x/algo-1"),
        ],
        may_not=[
            ("s3:PutObject", f"{OURS}/training/job/output/model.tar.gz"),
            ("s3:PutObject", f"{BUCKET}/compilegate/data/topics/0123/train.csv"),
            ("s3:GetObject", f"{BUCKET}/private/key"),
            ("s3:GetObject", f"{BUCKET}/incoming/others/2026-11-20/train.csv"),
            ("s3:GetObject", f"{BUCKET}/compilegate/data/topics-of-others/0123/train.csv"),
            ("s3:GetObject", f"{THEIRS}/training/job/output/output.tar.gz"),
            ("s3:PutObject", f"{THEIRS}/verdicts/abc/verdict.json"),
            ("sagemaker:UpdateModelPackage", f"{SAGEMAKER}:model-package/compilegate-topics/1"),
            ("logs:PutLogEvents", f"{LOGS}:/aws/sagemaker/TrainingJobs:log-stream:x/algo-1"),
        ],
    ),
    "a pipeline": Role(
        WORKLOAD,
        PIPELINE_ROLE,
        may=[
            ("sagemaker:CreateTrainingJob", f"{SAGEMAKER}:training-job/pipelines-x"),
            ("sagemaker:StopTrainingJob", f"{SAGEMAKER}:training-job/pipelines-x", OF_OURS),
            ("sagemaker:StopProcessingJob", f"{SAGEMAKER}:processing-job/pipelines-x", OF_OURS),
            ("sagemaker:CreateProcessingJob", f"{SAGEMAKER}:processing-job/pipelines-x"),
            ("sagemaker:AddTags", f"{SAGEMAKER}:processing-job/pipelines-x"),
            ("sagemaker:CreateModelPackage", f"{SAGEMAKER}:model-package/compilegate-topics/1"),
            ("s3:GetObject", f"{OURS}/verdicts/abc/verdict.json"),
            ("ecr:BatchGetImage", f"{ECR}/compilegate/training"),
            ("iam:PassRole", f"{IAM}/TRAINING", TO_SAGEMAKER),
            ("iam:PassRole", f"{IAM}/PROCESSING", TO_SAGEMAKER),
        ],
        may_not=[
            ("sagemaker:CreateTrainingJob", f"{SAGEMAKER}:training-job/somebodys"),
            ("sagemaker:UpdateModelPackage", f"{SAGEMAKER}:model-package/compilegate-topics/1"),
            ("sagemaker:DeleteModelPackage", f"{SAGEMAKER}:model-package/compilegate-topics/1"),
            ("sagemaker:CreateModelPackage", f"{SAGEMAKER}:model-package/neighbour-topics/1"),
            ("sagemaker:CreateEndpoint", f"{SAGEMAKER}:endpoint/x"),
            ("sagemaker:StopTrainingJob", f"{SAGEMAKER}:training-job/pipelines-x", OF_OTHERS),
            ("sagemaker:StopProcessingJob", f"{SAGEMAKER}:processing-job/pipelines-x"),
            (
                "sagemaker:CreateModelPackage",
                f"{SAGEMAKER}:model-package/compilegate-topics-of-others/1",
            ),
            ("s3:GetObject", f"{THEIRS}/verdicts/abc/verdict.json"),
            ("s3:GetObject", f"{THEIRS}/training/job/output/model.tar.gz"),
            ("iam:PassRole", f"{IAM}/TRAINING", {"iam:PassedToService": "ec2.amazonaws.com"}),
            ("iam:PassRole", f"{IAM}/PIPELINE", TO_SAGEMAKER),
            ("iam:PassRole", f"{IAM}/Admin", TO_SAGEMAKER),
            ("s3:PutObject", f"{OURS}/verdicts/abc/verdict.json"),
            ("s3:GetObject", f"{ASSETS}/0123.zip"),
            ("ecr:PutImage", f"{ECR}/compilegate/training"),
            ("ecr:BatchGetImage", f"{ECR}/neighbour/training"),
        ],
    ),
    "the build of an image": Role(
        IMAGES,
        "Role",
        may=[
            ("ecr:BatchGetImage", DLC),
            ("ecr:PutImage", f"{ECR}/compilegate/training"),
            ("ecr:PutImage", f"{ECR}/compilegate/gate"),
            ("ecr:DescribeImages", f"{ECR}/compilegate/training"),
            ("logs:PutLogEvents", f"{LOGS}:/aws/codebuild/compilegate-images:log-stream:x"),
        ],
        may_not=[
            ("ecr:PutImage", f"{ECR}/neighbour/gate"),
            ("ecr:BatchDeleteImage", f"{ECR}/compilegate/training"),
            ("ecr:BatchGetImage", f"{DLC}-of-somebody"),
            ("s3:GetObject", f"{ASSETS}/another.zip"),
            ("s3:GetObject", f"{OURS}/training/job/output/model.tar.gz"),
            ("codebuild:StartBuild", f"{CODEBUILD}/compilegate-images"),
        ],
    ),
    "a training job in a VPC": Role(
        "neighbour-workload-topics",
        TRAINING_ROLE,
        may=[
            ("ec2:CreateNetworkInterface", SUBNET),
            ("ec2:CreateNetworkInterfacePermission", INTERFACE),
            ("ec2:DescribeVpcs", "*"),
        ],
        may_not=[("ec2:RunInstances", SUBNET), ("ec2:AttachNetworkInterface", INTERFACE)],
    ),
    "the build of an image in a VPC": Role(
        "neighbour-images",
        "Role",
        may=[
            ("ec2:CreateNetworkInterface", SUBNET),
            ("ec2:CreateNetworkInterfacePermission", INTERFACE, LENT_TO_CODEBUILD),
        ],
        may_not=[
            ("ec2:CreateNetworkInterfacePermission", INTERFACE),
            (
                "ec2:CreateNetworkInterfacePermission",
                INTERFACE,
                {**LENT_TO_CODEBUILD, "ec2:Subnet": f"{SUBNET}1"},
            ),
        ],
    ),
    "the scheduler": Role(
        WORKLOAD,
        "ClockRole",
        may=[
            ("sagemaker:StartPipelineExecution", PIPELINE),
            ("sqs:SendMessage", "THE QUEUE"),
        ],
        may_not=[
            ("sagemaker:StartPipelineExecution", OTHERS_PIPELINE),
            ("sagemaker:StopPipelineExecution", f"{PIPELINE}/execution/x"),
            ("sagemaker:UpdatePipeline", PIPELINE),
        ],
    ),
    "the starter": Role(
        WORKLOAD,
        "StarterRole",
        may=[
            ("s3:ListBucket", BUCKET, {"s3:prefix": "incoming/topics/2026-11-20/"}),
            (
                "s3:ListBucket",
                BUCKET,
                {"s3:prefix": "compilegate/workloads/topics/deliveries/waiting/"},
            ),
            ("s3:GetObject", f"{BUCKET}/incoming/topics/2026-11-20/train.csv"),
            ("s3:PutObject", f"{OURS}/deliveries/waiting/0123.json"),
            ("sagemaker:ListPipelineExecutions", PIPELINE),
            ("sagemaker:DescribePipelineExecution", f"{PIPELINE}/execution/x"),
            ("sns:Publish", TOPIC),
            ("sagemaker:StartPipelineExecution", PIPELINE),
            ("sqs:SendMessage", "THE QUEUE"),
        ],
        may_not=[
            ("s3:ListBucket", BUCKET, {"s3:prefix": "compilegate/"}),
            ("s3:GetObject", f"{BUCKET}/incoming/others/2026-11-20/train.csv"),
            ("s3:PutObject", f"{BUCKET}/incoming/topics/2026-11-20/train.csv"),
            ("s3:PutObject", f"{THEIRS}/deliveries/waiting/0123.json"),
            ("sagemaker:StopPipelineExecution", f"{PIPELINE}/execution/x"),
            ("sagemaker:StartPipelineExecution", OTHERS_PIPELINE),
        ],
    ),
    "the notifier": Role(
        WORKLOAD,
        "NotifierRole",
        may=[
            ("sagemaker:ListPipelineExecutions", PIPELINE),
            ("sagemaker:StopPipelineExecution", f"{PIPELINE}/execution/x"),
            # Once more for jobs that the machine lost.
            ("sagemaker:StartPipelineExecution", PIPELINE),
            ("sagemaker:DescribeProcessingJob", f"{SAGEMAKER}:processing-job/pipelines-x-Gate"),
            ("sagemaker:DescribeModelPackage", f"{SAGEMAKER}:model-package/compilegate-topics/1"),
            ("sagemaker:UpdateModelPackage", f"{SAGEMAKER}:model-package/compilegate-topics/1"),
            ("s3:GetObject", f"{OURS}/verdicts/abc/notice.json"),
            ("s3:GetObject", f"{OURS}/verdicts/abc/model_card.json"),
            ("s3:PutObject", f"{OURS}/notices/abc/gate-1.json"),
            ("sns:Publish", TOPIC),
            ("kms:GenerateDataKey", KEY),
        ],
        may_not=[
            ("sagemaker:StopPipelineExecution", f"{OTHERS_PIPELINE}/execution/x"),
            ("sagemaker:StartPipelineExecution", OTHERS_PIPELINE),
            ("sagemaker:DeletePipeline", PIPELINE),
            # It gives models their cards, and must approve none.
            (
                "sagemaker:UpdateModelPackage",
                f"{SAGEMAKER}:model-package/compilegate-topics/1",
                {"sagemaker:ModelApprovalStatus": "Approved"},
            ),
            ("sagemaker:UpdateModelPackage", f"{SAGEMAKER}:model-package/compilegate-watched/1"),
            ("s3:PutObject", f"{OURS}/verdicts/abc/verdict.json"),
            ("s3:GetObject", f"{BUCKET}/compilegate/workloads/others/executions/abc/notice.json"),
            ("sns:Publish", f"arn:aws:sns:{REGION}:{ACCOUNT}:somebody-elses"),
        ],
    ),
    "the pipeline of a posture": Role(
        WATCHED,
        PIPELINE_ROLE,
        may=[("lambda:InvokeFunction", f"{LAMBDA}:compilegate-watched-posture")],
        may_not=[
            ("lambda:InvokeFunction", f"{LAMBDA}:compilegate-watched-notifier"),
            ("lambda:InvokeFunction", f"{LAMBDA}:neighbour-watched-posture"),
            ("lambda:UpdateFunctionCode", f"{LAMBDA}:compilegate-watched-posture"),
            ("dynamodb:PutItem", "THE TABLE"),
        ],
    ),
    "the posture's function": Role(
        WATCHED,
        "PostureKeeperRole",
        may=[
            ("dynamodb:GetItem", "THE TABLE"),
            ("dynamodb:PutItem", "THE TABLE"),
            ("dynamodb:Query", "THE TABLE"),
            ("kms:Decrypt", KEY),
            ("kms:Encrypt", KEY, THROUGH_DYNAMODB),
            ("sagemaker:ListPipelineExecutionSteps", f"{WATCHED_PIPELINE}/execution/x"),
            ("sagemaker:StartPipelineExecution", WATCHED_PIPELINE),
        ],
        may_not=[
            ("dynamodb:DeleteItem", "THE TABLE"),
            ("dynamodb:DeleteTable", "THE TABLE"),
            ("dynamodb:GetItem", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/another"),
            ("kms:Encrypt", KEY, {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}),
            ("sagemaker:StartPipelineExecution", PIPELINE),
            ("sagemaker:StopPipelineExecution", f"{WATCHED_PIPELINE}/execution/x"),
            ("sagemaker:CreateModelPackage", f"{SAGEMAKER}:model-package/compilegate-watched/1"),
            ("s3:GetObject", f"{OURS}/training/job/output/model.tar.gz"),
        ],
    ),
    "the notifier of a posture": Role(
        WATCHED,
        "NotifierRole",
        may=[("dynamodb:GetRecords", "THE STREAM"), ("kms:Decrypt", KEY)],
        may_not=[("dynamodb:PutItem", "THE TABLE"), ("dynamodb:GetItem", "THE TABLE")],
    ),
    "a CI job that deploys": Role(
        CI,
        "DeployRole",
        may=[
            ("sts:AssumeRole", f"{IAM}/cdk-{QUALIFIER}-deploy-role-{ACCOUNT}-{REGION}"),
            ("sts:AssumeRole", f"{IAM}/cdk-{QUALIFIER}-file-publishing-role-{ACCOUNT}-{REGION}"),
            (
                "cloudformation:DescribeStacks",
                f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/compilegate-ci/1",
            ),
            ("sagemaker:StartPipelineExecution", PIPELINE),
            ("sagemaker:ListPipelineExecutionSteps", f"{PIPELINE}/execution/x"),
            ("s3:PutObject", f"{BUCKET}/compilegate/data/topics/0123/train.csv"),
            ("s3:GetObject", f"{OURS}/verdicts/abc/report.html"),
            ("sagemaker:DescribeModelPackage", f"{SAGEMAKER}:model-package/compilegate-topics/1"),
            ("codebuild:StartBuild", f"{CODEBUILD}/compilegate-training"),
            ("logs:DescribeLogStreams", f"{LOGS}:/aws/sagemaker/TrainingJobs"),
            ("logs:DescribeLogStreams", f"{LOGS}:/aws/sagemaker/TrainingJobs:log-stream:"),
            ("logs:GetLogEvents", f"{LOGS}:/aws/sagemaker/TrainingJobs:log-stream:pipelines-x"),
            ("ecr:BatchGetImage", DLC),
        ],
        may_not=[
            ("ecr:BatchGetImage", f"{DLC}-of-somebody"),
            ("ecr:GetDownloadUrlForLayer", DLC),
            ("logs:GetLogEvents", f"{LOGS}:/aws/sagemaker/TrainingJobs:log-stream:somebodys"),
            ("sts:AssumeRole", f"{IAM}/cdk-{QUALIFIER}-cfn-exec-role-{ACCOUNT}-{REGION}"),
            ("sts:AssumeRole", f"{IAM}/Admin"),
            ("sagemaker:StartPipelineExecution", OTHERS_PIPELINE),
            ("sagemaker:CreateTrainingJob", f"{SAGEMAKER}:training-job/pipelines-x"),
            ("sagemaker:UpdateModelPackage", f"{SAGEMAKER}:model-package/compilegate-topics/1"),
            ("s3:PutObject", f"{OURS}/training/job/output/model.tar.gz"),
            ("s3:DeleteObject", f"{BUCKET}/compilegate/data/topics/0123/train.csv"),
            ("iam:CreateRole", f"{IAM}/anything"),
        ],
    ),
    "a CI job of a pull request": Role(
        CI,
        "PlanRole",
        may=[
            ("sagemaker:DescribePipeline", PIPELINE),
            ("servicequotas:ListServiceQuotas", "*"),
        ],
        may_not=[
            ("sts:AssumeRole", f"{IAM}/cdk-{QUALIFIER}-lookup-role-{ACCOUNT}-{REGION}"),
            ("sts:AssumeRole", f"{IAM}/cdk-{QUALIFIER}-deploy-role-{ACCOUNT}-{REGION}"),
            ("sagemaker:StartPipelineExecution", PIPELINE),
            ("s3:GetObject", f"{OURS}/training/job/output/model.tar.gz"),
            ("s3:PutObject", f"{BUCKET}/compilegate/data/topics/0123/train.csv"),
            ("codebuild:StartBuild", f"{CODEBUILD}/compilegate-training"),
        ],
    ),
    **{name: Role(*asked) for name, asked in RELEASE.items()},
}


@pytest.fixture(scope="module")
def answers(assembly: Assembly) -> Mapping[tuple[str, bool, int], str]:
    """All questions of the table, put to the engine at once."""
    asked = {
        (name, allowed, number): _question(assembly, role, *question)
        for name, role in ROLES.items()
        for allowed, questions in ((True, role.may), (False, role.may_not))
        for number, question in enumerate(questions)
    }
    return dict(zip(asked, ask(assembly, list(asked.values())), strict=True))


def _question(
    assembly: Assembly,
    role: Role,
    action: str,
    resource: str,
    context: Mapping[str, str] | None = None,
) -> Question:
    known = {
        KEY: assembly.one(FOUNDATION, "AWS::KMS::Key").arn,
        "THE QUEUE": assembly.one(WORKLOAD, "AWS::SQS::Queue").arn,
        "THE TABLE": assembly.one(WATCHED, "AWS::DynamoDB::Table").arn,
        "THE SERVING ROLE": assembly.one(WATCHED, "AWS::IAM::Role", "ReleaseServingRole").arn,
        "THE STREAM": assembly.one(WATCHED, "AWS::DynamoDB::Table").arn + STREAM,
        f"{IAM}/TRAINING": assembly.one(WORKLOAD, "AWS::IAM::Role", TRAINING_ROLE).arn,
        f"{IAM}/PROCESSING": assembly.one(WORKLOAD, "AWS::IAM::Role", PROCESSING_ROLE).arn,
        f"{IAM}/PIPELINE": assembly.one(WORKLOAD, "AWS::IAM::Role", PIPELINE_ROLE).arn,
    }
    found = assembly.one(role.stack, "AWS::IAM::Role", role.starting)
    return Question(found, action, known.get(resource, resource), context or {})


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ROLES)
def test_a_role_can_do_what_it_is_for(
    name: str, answers: Mapping[tuple[str, bool, int], str]
) -> None:
    refused = [
        question
        for number, question in enumerate(ROLES[name].may)
        if answers[name, True, number] != "Allowed"
    ]
    assert refused == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ROLES)
def test_a_role_can_do_nothing_else(
    name: str, answers: Mapping[tuple[str, bool, int], str]
) -> None:
    allowed = [
        question
        for number, question in enumerate(ROLES[name].may_not)
        if answers[name, False, number] != "ImplicitlyDenied"
    ]
    assert allowed == []


@pytest.mark.slow
def test_every_role_is_in_the_table(assembly: Assembly) -> None:
    asked_about = {
        assembly.one(role.stack, "AWS::IAM::Role", role.starting).logical_id
        for role in ROLES.values()
    }
    there = {
        role.logical_id[: -len("12345678")]
        for stack in (FOUNDATION, IMAGES, WORKLOAD, CI, WATCHED, "neighbour-foundation")
        for role in assembly.resources(stack, "AWS::IAM::Role")
    }
    assert {name[: -len("12345678")] for name in asked_about} == there
