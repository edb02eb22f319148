"""What those roles must be able to do, and what they must not, that a model meets on its way from
approval to production."""

from __future__ import annotations

from typing import Any

from compilegate.account.settings import Names, Settings
from tests.infra.assembly import ACCOUNT, REGION

SAGEMAKER = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
BUCKET = f"arn:aws:s3:::compilegate-{ACCOUNT}-{REGION}"
OURS = f"{BUCKET}/compilegate/workloads/watched"
NAME = "compilegate-watched"
MODEL = f"{SAGEMAKER}:model-package/{NAME}/3"
THEIRS = f"{SAGEMAKER}:model-package/compilegate-topics/3"
NEIGHBOURS_BUCKET = f"arn:aws:s3:::neighbour-{ACCOUNT}-{REGION}"
NEIGHBOURS = f"{SAGEMAKER}:model-package/neighbour-topics/3"
APPROVED = {"sagemaker:ModelApprovalStatus": "Approved"}
REJECTED = {"sagemaker:ModelApprovalStatus": "Rejected"}
WAITING = {"sagemaker:ModelApprovalStatus": "PendingManualApproval"}
TO_SAGEMAKER = {"iam:PassedToService": "sagemaker.amazonaws.com"}
FOR_A_SERVICE = {"kms:GrantIsForAWSResource": "true"}
STACK = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/compilegate-endpoint-watched/1"
WORKLOADS_STACK = STACK.replace("-endpoint-", "-workload-")
TYPES = "cloudformation:ResourceTypes"
OF_ENDPOINTS = {TYPES: "AWS::SageMaker::Endpoint"}
QUALIFIER = Names(Settings(project="compilegate")).qualifier
BOOTSTRAP = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/cdk-bootstrap/{QUALIFIER}/version"
ALARM = f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{NAME}-errors"
LOGS = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/sagemaker"
IMAGES_OF_AWS = f"arn:aws:ecr:{REGION}:763104351884:repository"

Asked = list[tuple[Any, ...]]
RELEASE: dict[str, tuple[str, str, Asked, Asked]] = {
    "a keeper that releases": (
        "compilegate-workload-watched",
        "KeeperRole",
        [
            ("sagemaker:ListModelPackages", "*"),
            ("sagemaker:DescribeModelPackage", MODEL),
            ("sagemaker:UpdateModelPackage", MODEL, REJECTED),
            ("cloudformation:DescribeStacks", STACK),
            ("cloudformation:DescribeStackEvents", STACK),
            ("cloudformation:UpdateStack", STACK, OF_ENDPOINTS),
            ("ssm:GetParameters", BOOTSTRAP),
            ("cloudwatch:DescribeAlarms", ALARM),
        ],
        [
            ("sagemaker:UpdateModelPackage", MODEL, APPROVED),
            ("sagemaker:UpdateModelPackage", THEIRS, REJECTED),
            ("sagemaker:DescribeModelPackage", THEIRS),
            # With a template of its own it would have the rights of CloudFormation's role.
            ("cloudformation:UpdateStack", STACK),
            ("cloudformation:UpdateStack", STACK, {TYPES: "AWS::IAM::Role"}),
            ("cloudformation:UpdateStack", WORKLOADS_STACK, OF_ENDPOINTS),
            ("cloudformation:DeleteStack", STACK),
            ("sagemaker:CreateModel", f"{SAGEMAKER}:model/{NAME}--3-0123abcd"),
            ("sagemaker:UpdateEndpoint", f"{SAGEMAKER}:endpoint/{NAME}"),
            ("sagemaker:InvokeEndpoint", f"{SAGEMAKER}:endpoint/{NAME}"),
            ("kms:CreateGrant", "THE KEY", FOR_A_SERVICE),
            ("iam:PassRole", "THE SERVING ROLE", TO_SAGEMAKER),
            ("s3:PutObject", f"{OURS}/models/job/model/model.tar.gz"),
        ],
    ),
    "a served model": (
        "compilegate-workload-watched",
        "ServingRole",
        [
            ("s3:GetObject", f"{OURS}/models/job/model/model.tar.gz"),
            ("kms:Decrypt", "THE KEY"),
            ("ecr:BatchGetImage", f"{IMAGES_OF_AWS}/huggingface-pytorch-inference"),
            ("logs:PutLogEvents", f"{LOGS}/Endpoints/{NAME}:log-stream:x"),
        ],
        [
            ("s3:GetObject", f"{BUCKET}/compilegate/workloads/topics/models/x/model/model.tar.gz"),
            ("s3:GetObject", f"{OURS}/executions/abc/prepared/train.npz"),
            ("s3:PutObject", f"{OURS}/models/job/model/model.tar.gz"),
            ("s3:PutObject", f"{BUCKET}/answers/watched/x"),
            ("logs:PutLogEvents", f"{LOGS}/Endpoints/compilegate-topics:log-stream:x"),
            ("sagemaker:DescribeModelPackage", MODEL),
        ],
    ),
    "an approver": (
        "neighbour-foundation",
        "Approver",
        [
            ("sagemaker:UpdateModelPackage", NEIGHBOURS, APPROVED),
            ("sagemaker:UpdateModelPackage", NEIGHBOURS, REJECTED),
            ("sagemaker:DescribeModelPackage", NEIGHBOURS),
            ("sagemaker:ListModelPackages", "*"),
            ("sagemaker:ListModelPackageGroups", "*"),
            (
                "s3:GetObject",
                f"{NEIGHBOURS_BUCKET}/compilegate/workloads/topics/verdicts/abc/verdict.json",
            ),
        ],
        [
            ("sagemaker:UpdateModelPackage", NEIGHBOURS),
            ("sagemaker:UpdateModelPackage", MODEL, APPROVED),
            ("sagemaker:CreateModelPackage", NEIGHBOURS, APPROVED),
            ("sagemaker:DeleteModelPackage", NEIGHBOURS),
            ("sagemaker:CreateModel", f"{SAGEMAKER}:model/neighbour-topics--3-0123abcd"),
            ("sagemaker:StartPipelineExecution", f"{SAGEMAKER}:pipeline/neighbour-topics"),
            ("sagemaker:UpdateEndpoint", f"{SAGEMAKER}:endpoint/neighbour-watched"),
            (
                "s3:GetObject",
                f"{NEIGHBOURS_BUCKET}/compilegate/workloads/topics/models/job/model/model.tar.gz",
            ),
            (
                "s3:PutObject",
                f"{NEIGHBOURS_BUCKET}/compilegate/workloads/topics/verdicts/abc/verdict.json",
            ),
            ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/neighbour-x", TO_SAGEMAKER),
        ],
    ),
    "a pipeline whose models people approve": (
        "neighbour-workload-topics",
        "PipelineRole",
        [("sagemaker:CreateModelPackage", NEIGHBOURS, WAITING)],
        [
            ("sagemaker:CreateModelPackage", NEIGHBOURS, APPROVED),
            ("sagemaker:CreateModelPackage", NEIGHBOURS),
            ("sagemaker:UpdateModelPackage", NEIGHBOURS, APPROVED),
        ],
    ),
}
"""Stack, beginning of the role's logical id, what it may and what it may not."""
