"""What the build of an image may do, and what starts it. Pure: ARNs in, statements out."""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.access import Arns, Statement
from compilegate.access.jobs import ANY, NO_RESOURCE, pull_images
from compilegate.infra.functions.permissions import function_statements


def build_statements(
    *,
    arns: Arns,
    log_group: str,
    assets_arn: str,
    source_key: str,
    repository_arn: str,
    base_repository_arn: str | None,
    key_arn: str,
    subnets: Sequence[str],
) -> list[Statement]:
    """Read one folder, pull one base image, push to one repository."""
    return [
        Statement(
            sid="ReadFolder",
            actions=["s3:GetObject", "s3:GetObjectVersion"],
            resources=[f"{assets_arn}/{source_key}"],
        ),
        Statement(
            sid="SeeWhoseBucketItIs",
            actions=["s3:GetBucketAcl", "s3:GetBucketLocation"],
            resources=[assets_arn],
        ),
        *pull_images([repository_arn, *([base_repository_arn] if base_repository_arn else [])]),
        Statement(
            sid="PushImage",
            actions=[
                "ecr:CompleteLayerUpload",
                "ecr:DescribeImages",
                "ecr:InitiateLayerUpload",
                "ecr:PutImage",
                "ecr:UploadLayerPart",
            ],
            resources=[repository_arn],
        ),
        Statement(
            sid="UseKey",
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"],
            resources=[key_arn],
        ),
        Statement(
            sid="WriteLogs",
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[arns.log_group(f"{log_group}:log-stream:*")],
            because="CodeBuild names the stream after the build",
        ),
        *(_join_vpc(arns, subnets) if subnets else []),
    ]


def _join_vpc(arns: Arns, subnets: Sequence[str]) -> list[Statement]:
    return [
        Statement(
            sid="JoinVpc",
            actions=[
                "ec2:CreateNetworkInterface",
                "ec2:DeleteNetworkInterface",
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            resources=[ANY],
            because=f"{NO_RESOURCE}, or its resource does not exist yet",
        ),
        Statement(
            sid="LendInterface",
            actions=["ec2:CreateNetworkInterfacePermission"],
            resources=[arns.of_service("ec2", "network-interface/*")],
            conditions={
                "StringEquals": {"ec2:AuthorizedService": "codebuild.amazonaws.com"},
                "ArnEquals": {
                    "ec2:Subnet": [arns.of_service("ec2", f"subnet/{subnet}") for subnet in subnets]
                },
            },
            because="CodeBuild makes the interface when a build starts",
        ),
    ]


def builder_statements(
    *,
    arns: Arns,
    build_arns: Sequence[str],
    repository_arns: Sequence[str],
    base_repository_arns: Sequence[str],
    rule_arn: str,
    topic_arn: str,
    key_arn: str,
    dead_letter_arn: str,
    log_group: str,
) -> list[Statement]:
    """The function that starts builds: see what is built, start what is not, tell people."""
    # A project whose workloads were all removed has no build; IAM takes no empty list.
    about_builds = [
        Statement(
            sid="StartBuilds",
            actions=[
                "codebuild:BatchGetBuilds",
                "codebuild:BatchGetProjects",
                "codebuild:ListBuildsForProject",
                "codebuild:StartBuild",
            ],
            resources=list(build_arns),
        ),
        Statement(
            sid="SeeWhatIsBuilt",
            actions=["ecr:DescribeImages"],
            resources=list(repository_arns),
        ),
    ]
    bases = Statement(
        sid="SeeWhatBasesAre",
        actions=["ecr:BatchGetImage"],
        resources=list(base_repository_arns),
    )
    return [
        *(about_builds if build_arns else []),
        *([bases] if base_repository_arns else []),
        Statement(
            sid="AskAgain",
            actions=["events:DescribeRule", "events:DisableRule", "events:EnableRule"],
            resources=[rule_arn],
        ),
        Statement(sid="TellPeople", actions=["sns:Publish"], resources=[topic_arn]),
        Statement(sid="KeepWhatFailed", actions=["sqs:SendMessage"], resources=[dead_letter_arn]),
        *function_statements(arns, key_arn, log_group),
    ]
