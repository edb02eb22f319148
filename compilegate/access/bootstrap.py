"""The most that a deployment may do, and any role that it makes. Pure: ARNs in, policies out.

`cdk bootstrap` gives CloudFormation AdministratorAccess unless it is told otherwise, so whoever may
deploy may do anything. Two policies of the project's own take its place:

- the *deployment policy* is what CloudFormation may do for this project: its services, on resources
  whose names begin with the project's. It also bounds the CDK's own roles, since the one that
  deploys could otherwise update any stack of the account, with that stack's own rights. It makes
  roles only with
- the *boundary*, which is the most that any role of the project can do, whatever its own policy
  says. No role below it can change a role or a policy, so nobody can deploy himself more rights.

CloudFormation's handlers need more actions than AWS documents in one place, so that whole services
are allowed here, and the names of resources are the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.access.arns import Arns

Document = dict[str, Any]

PROJECT_TAG = "compilegate:project"
"""On every resource of a project."""
MAKING = "ec2:CreateAction"
"""There when a tag is put on what is only being made."""
LARGEST_MANAGED_POLICY = 6_144
"""Characters that IAM takes, white space not counted."""


@dataclass(frozen=True, kw_only=True)
class ProjectNames:
    """What the names of a project's resources are, or begin with."""

    project: str
    bucket: str
    repository_prefix: str
    key_alias: str
    topic: str
    schedule_group: str
    qualifier: str
    boundary: str
    """The name of the boundary."""
    network: bool = False
    """Whether a deployment makes a VPC for the jobs."""
    source: tuple[Arns, str, str] | None = None
    """The stage that models come from: its place, its project and its bucket."""
    provider_host: str = "token.actions.githubusercontent.com"


def deployment_policy(arns: Arns, names: ProjectNames) -> Document:
    """What CloudFormation may do when it deploys the project, and the CDK's roles at most."""
    of, ours = arns.of_service, f"{names.project}-*"
    role, boundary = arns.role(ours), arns.policy(names.boundary)
    return _document(
        _allow("Storage", ["s3:*"], [arns.bucket(names.bucket), f"{arns.bucket(names.bucket)}/*"]),
        _allow("Assets", ["s3:*"], [_assets(arns, names), f"{_assets(arns, names)}/*"]),
        _allow(
            "Stacks",
            ["cloudformation:*"],
            [
                of("cloudformation", f"stack/{name}/*")
                for name in (ours, f"CDKToolkit-{names.project}")
            ],
        ),
        _allow("Images", ["ecr:*"], [arns.repository(f"{names.repository_prefix}/*")]),
        _allow("MakeKey", ["kms:CreateKey", "kms:ListAliases"], ["*"]),
        # A key that is only being made has no tag yet that could be asked for.
        _allow(
            "TagNewKey",
            ["kms:TagResource"],
            [of("kms", "key/*")],
            {
                **_tagged("aws:RequestTag", names),
                "Null": {f"aws:ResourceTag/{PROJECT_TAG}": "true"},
            },
        ),
        _allow("Key", ["kms:*"], [of("kms", "key/*")], _tagged("aws:ResourceTag", names)),
        _allow("NameKey", ["kms:*Alias"], [of("kms", names.key_alias), of("kms", "key/*")]),
        _allow("Models", ["sagemaker:*"], _models(arns, names)),
        _allow(
            "Functions",
            ["lambda:*"],
            [of("lambda", f"function:{ours}"), of("lambda", "event-source-mapping:*")],
        ),
        _allow(
            "NoResource",
            [
                "dynamodb:ListStreams",
                "lambda:CreateEventSourceMapping",
                "lambda:ListEventSourceMappings",
                "logs:DescribeLogGroups",
                "cloudwatch:DescribeAlarms",
                "cloudformation:GetTemplateSummary",
                "cloudformation:ValidateTemplate",
            ],
            ["*"],
        ),
        _allow(
            "TheRest",
            [
                "cloudwatch:*",
                "codebuild:*",
                "dynamodb:*",
                "events:*",
                "logs:*",
                "scheduler:*",
                "sns:*",
                "sqs:*",
            ],
            [
                of("cloudwatch", f"alarm:{ours}"),
                f"arn:{arns.partition}:cloudwatch::{arns.account}:dashboard/{ours}",
                of("codebuild", f"project/{ours}"),
                of("dynamodb", f"table/{ours}"),
                of("dynamodb", f"table/{ours}/stream/*"),
                of("events", f"rule/{ours}"),
                arns.log_group(f"/aws/codebuild/{ours}"),
                arns.log_group(f"/aws/lambda/{ours}"),
                arns.log_group(f"/aws/sagemaker/Endpoints/{ours}"),
                of("scheduler", f"schedule-group/{names.schedule_group}"),
                of("scheduler", f"schedule/{names.schedule_group}/*"),
                of("sns", f"{names.topic}*"),
                of("sqs", ours),
            ],
        ),
        _allow(
            "Budgets",
            ["budgets:*"],
            [f"arn:{arns.partition}:budgets::{arns.account}:budget/{ours}"],
        ),
        _allow(
            "MakeRoles",
            [
                "iam:CreateRole",
                "iam:PutRolePolicy",
                "iam:DeleteRolePolicy",
                "iam:PutRolePermissionsBoundary",
            ],
            [role],
            {"StringEquals": {"iam:PermissionsBoundary": boundary}},
        ),
        _allow(
            "KeepRoles",
            [
                "iam:DeleteRole",
                "iam:Get*",
                "iam:List*",
                "iam:PassRole",
                "iam:TagRole",
                "iam:UntagRole",
                "iam:UpdateAssumeRolePolicy",
                "iam:UpdateRole",
                "iam:UpdateRoleDescription",
            ],
            [role],
        ),
        _allow("Deploy", ["iam:PassRole"], [arns.role(f"cdk-{names.qualifier}-cfn-exec-role-*")]),
        _allow(
            "TrustGitHub",
            ["iam:*OpenIDConnectProvider*"],
            [f"arn:{arns.partition}:iam::{arns.account}:oidc-provider/{names.provider_host}"],
        ),
        _allow(
            "ReadVersion",
            ["ssm:GetParameter", "ssm:GetParameters"],
            [of("ssm", f"parameter/cdk-bootstrap/{names.qualifier}/version")],
        ),
        *(_network(arns, names) if names.network else []),
    )


def _network(arns: Arns, names: ProjectNames) -> list[Document]:
    """Make a network and change it. Only what is made with the project's tag, or has it: no gateway
    to the internet is among that, and no tag can be put on what is there."""
    asked = _tagged("aws:RequestTag", names)
    return [
        _allow(
            "MakeNetwork",
            [
                "ec2:CreateFlowLogs",
                "ec2:CreateRouteTable",
                "ec2:CreateSecurityGroup",
                "ec2:CreateSubnet",
                "ec2:CreateVpc",
                "ec2:CreateVpcEndpoint",
            ],
            ["*"],
            asked,
        ),
        _allow("TagNewNetwork", ["ec2:CreateTags"], ["*"], {**asked, "Null": {MAKING: "false"}}),
        _allow(
            "Network",
            [
                "ec2:AssociateRouteTable",
                "ec2:Authorize*",
                "ec2:CreateTags",
                "ec2:Delete*",
                "ec2:DisassociateRouteTable",
                "ec2:Modify*",
                "ec2:Revoke*",
            ],
            ["*"],
            _tagged("aws:ResourceTag", names),
        ),
        _allow("SeeNetwork", ["ec2:Describe*", "route53:AssociateVPCWithHostedZone"], ["*"]),
        _allow("Flows", ["logs:*"], [arns.log_group(f"/aws/vpc/{names.project}-*")]),
    ]


def boundary_policy(arns: Arns, names: ProjectNames) -> Document:
    """The most that a role of the project can do."""
    of, ours = arns.of_service, f"{names.project}-*"
    jobs = [
        *(arns.sagemaker(f"{kind}-job/pipelines-*") for kind in ("processing", "training")),
        arns.sagemaker(f"transform-job/{ours}"),
    ]
    return _document(
        _allow(
            "Objects",
            ["s3:*Object*", "s3:AbortMultipartUpload", "s3:GetBucket*", "s3:ListBucket"],
            [
                arns.bucket(names.bucket),
                f"{arns.bucket(names.bucket)}/*",
                _assets(arns, names),
                f"{_assets(arns, names)}/*",
            ],
        ),
        _allow(
            "Key",
            [
                "kms:CreateGrant",
                "kms:Decrypt",
                "kms:DescribeKey",
                "kms:Encrypt",
                "kms:GenerateDataKey",
                "kms:ReEncrypt*",
            ],
            [of("kms", "key/*")],
        ),
        _allow(
            "Pull",
            [
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:Describe*",
                "ecr:GetAuthorizationToken",
                "ecr:GetDownloadUrlForLayer",
            ],
            ["*"],
        ),
        _allow(
            "Push",
            [
                "ecr:CompleteLayerUpload",
                "ecr:InitiateLayerUpload",
                "ecr:PutImage",
                "ecr:UploadLayerPart",
            ],
            [arns.repository(f"{names.repository_prefix}/*")],
        ),
        _allow("Jobs", ["sagemaker:*"], [*_models(arns, names), *jobs]),
        *([] if names.source is None else _of_source(*names.source)),
        _allow(
            "Logs",
            [
                "logs:CreateLogGroup",
                "logs:CreateLogStream",
                "logs:DescribeLogStreams",
                "logs:GetLogEvents",
                "logs:PutLogEvents",
            ],
            [
                arns.log_group(f"/aws/{name}*")
                for name in (
                    "sagemaker/",
                    f"lambda/{names.project}-",
                    f"codebuild/{names.project}-",
                    *([f"vpc/{names.project}-"] if names.network else []),
                )
            ],
        ),
        _allow(
            "NoResource",
            [
                "cloudwatch:DescribeAlarms",
                "cloudwatch:PutMetricData",
                "dynamodb:ListStreams",
                *(["logs:DescribeLogGroups"] if names.network else []),
                "sagemaker:ListModelPackageGroups",
                "sagemaker:ListModelPackages",
                "servicequotas:ListServiceQuotas",
                "servicequotas:GetServiceQuota",
                "ec2:CreateNetworkInterface*",
                "ec2:DeleteNetworkInterface*",
                "ec2:Describe*",
            ],
            ["*"],
        ),
        _allow(
            "Ours",
            [
                "cloudformation:Describe*",
                "cloudformation:Get*",
                "cloudformation:List*",
                "codebuild:*",
                "dynamodb:*",
                "events:DescribeRule",
                "events:DisableRule",
                "events:EnableRule",
                "lambda:InvokeFunction",
                "sns:Publish",
                "sqs:*",
            ],
            [
                of("cloudformation", f"stack/{ours}/*"),
                of("codebuild", f"project/{ours}"),
                of("dynamodb", f"table/{ours}"),
                of("dynamodb", f"table/{ours}/stream/*"),
                of("events", f"rule/{ours}"),
                of("lambda", f"function:{ours}"),
                of("sns", f"{names.topic}*"),
                of("sqs", ours),
            ],
        ),
        _allow(
            "PassRoles",
            ["iam:PassRole"],
            [arns.role(ours)],
            {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        ),
        _allow(
            "Deploy",
            ["sts:AssumeRole"],
            [
                arns.role(f"cdk-{names.qualifier}-{purpose}-role-{arns.account}-{arns.region}")
                for purpose in ("deploy", "file-publishing")
            ],
        ),
        _allow(
            "ReadVersion",
            ["ssm:GetParameter"],
            [of("ssm", f"parameter/cdk-bootstrap/{names.qualifier}/version")],
        ),
    )


def _of_source(there: Arns, project: str, bucket: str) -> list[Document]:
    """Where models come from, as far as that account lets them be read."""
    return [
        _allow("Source", ["s3:GetObject"], [f"{there.bucket(bucket)}/*"]),
        _allow(
            "SourceModels",
            ["sagemaker:DescribeModelPackage", "kms:Decrypt"],
            [there.sagemaker(f"model-package/{project}-*"), there.of_service("kms", "key/*")],
        ),
    ]


def _document(*statements: Document) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(
    sid: str, actions: Sequence[str], resources: Sequence[str], conditions: Document | None = None
) -> Document:
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": list(resources),
        **({"Condition": conditions} if conditions else {}),
    }


def _tagged(key: str, names: ProjectNames) -> Document:
    return {"StringEquals": {f"{key}/{PROJECT_TAG}": names.project}}


def _models(arns: Arns, names: ProjectNames) -> list[str]:
    kinds = ("endpoint", "endpoint-config", "model", "model-package", "model-package-group")
    return [arns.sagemaker(f"{kind}/{names.project}-*") for kind in (*kinds, "pipeline")]


def _assets(arns: Arns, names: ProjectNames) -> str:
    return arns.bucket(f"cdk-{names.qualifier}-assets-{arns.account}-{arns.region}")
