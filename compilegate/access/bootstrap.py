"""The most that a deployment may do, and any role that it makes. Pure: names in, policies out.

`cdk bootstrap` gives CloudFormation AdministratorAccess by default, so that whoever may deploy may
do anything. Four policies of the project's own take its place:

- `PROJECT-deployment` and `PROJECT-deployment-access` are what CloudFormation may do: the first for
  services, the second for keys, roles and the network. One would be larger than IAM takes.
- `PROJECT-bootstrap` bounds the CDK's own roles, because the one that deploys could otherwise
  update any stack of the account, with that stack's rights.
- The *boundary* is the most that any role of the project can do, whatever its own policy says. A
  role without it cannot be made, and no bounded role can change a role or a policy.

CloudFormation's handlers need more actions than AWS documents in one place: whole services are
allowed, and the names of resources are the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.access.arns import Arns

Document = dict[str, Any]

PROJECT_TAG = "compilegate:project"
"""On every resource of a project."""
LARGEST_MANAGED_POLICY = 6_144
"""Characters that IAM takes, white space not counted."""
PASSED_TO = ("codebuild", "lambda", "sagemaker", "scheduler", "vpc-flow-logs")
"""The services that roles of a project are made for."""
USE_KEY = (
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:ReEncrypt*",
)


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
    path: str = ""
    """Of roles and policies, as in `teams/news/`."""
    key_arn: str | None = None
    """The key, where it is not the project that makes it."""
    network: bool = False
    """Whether a deployment makes a VPC for the jobs."""
    source: tuple[Arns, str, str] | None = None
    """The stage that models come from: its place, its project and its bucket."""
    provider_host: str = "token.actions.githubusercontent.com"

    @property
    def deployment(self) -> tuple[str, str]:
        """The names of the policies of what CloudFormation may do."""
        return f"{self.project}-deployment", f"{self.project}-deployment-access"

    @property
    def bound(self) -> str:
        """The name of the policy that bounds the CDK's own roles."""
        return f"{self.project}-bootstrap"


def policies(arns: Arns, names: ProjectNames) -> dict[str, Document]:
    """The four policies, by name."""
    services, access = names.deployment
    return {
        services: services_policy(arns, names),
        access: access_policy(arns, names),
        names.bound: bound_policy(arns, names),
        names.boundary: boundary_policy(arns, names),
    }


def execution_role(arns: Arns, qualifier: str) -> str:
    """The role that CloudFormation deploys with.

    The policy of a new key has to name it: KMS counts a key's tags and aliases only minutes after
    they are set (https://docs.aws.amazon.com/kms/latest/developerguide/abac.html), and
    CloudFormation turns on rotation, and ECR and DynamoDB ask for grants, within seconds.
    """
    return arns.role(f"cdk-{qualifier}-cfn-exec-role-{arns.account}-{arns.region}")


def services_policy(arns: Arns, names: ProjectNames) -> Document:
    """What CloudFormation may do with everything but keys, roles and the network."""
    ours = _ours(arns, names)
    return _document(
        _allow(
            "Ours",
            [f"{service}:*" for service in ours],
            [arn for each in ours.values() for arn in each],
        ),
        _allow("Assets", ["s3:GetBucket*", "s3:GetObject*", "s3:ListBucket"], _assets(arns, names)),
        _allow("NoResource", ["cloudwatch:DescribeAlarms", "logs:DescribeLogGroups"], ["*"]),
        _read_version(arns, names),
    )


def access_policy(arns: Arns, names: ProjectNames) -> Document:
    """What CloudFormation may do with keys, roles and the network."""
    role = arns.role(f"{names.path}{names.project}-*")
    bounded = {
        "StringEquals": {"iam:PermissionsBoundary": arns.policy(f"{names.path}{names.boundary}")}
    }
    keys = arns.of_service("kms", "key/*")
    return _document(
        _allow("MakeKey", ["kms:CreateKey", "kms:ListAliases"], ["*"]),
        # A key that is being made has no tag yet that could be asked for.
        _allow(
            "TagNewKey",
            ["kms:TagResource"],
            [keys],
            {
                **_tagged("aws:RequestTag", names),
                "Null": {f"aws:ResourceTag/{PROJECT_TAG}": "true"},
            },
        ),
        _allow("Key", ["kms:*"], [keys], _tagged("aws:ResourceTag", names)),
        *([] if names.key_arn is None else [_allow("TheirKey", USE_KEY, [names.key_arn])]),
        _allow("NameKey", ["kms:*Alias"], [arns.of_service("kms", names.key_alias), keys]),
        _allow(
            "MakeRoles",
            [
                "iam:CreateRole",
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:PutRolePermissionsBoundary",
                "iam:PutRolePolicy",
                "iam:UpdateAssumeRolePolicy",
                "iam:UpdateRole",
                "iam:UpdateRoleDescription",
            ],
            [role],
            bounded,
        ),
        _allow("SeeRoles", ["iam:Get*", "iam:List*", "iam:TagRole", "iam:UntagRole"], [role]),
        _allow(
            "PassRoles",
            ["iam:PassRole"],
            [role],
            {
                "StringEquals": {
                    "iam:PassedToService": [f"{each}.amazonaws.com" for each in PASSED_TO]
                }
            },
        ),
        _allow("TrustGitHub", ["iam:*OpenIDConnectProvider*"], [_provider(arns, names)]),
        *(_network(arns, names) if names.network else []),
    )


def bound_policy(arns: Arns, names: ProjectNames) -> Document:
    """The most that the CDK's own roles can do: to deploy this project's stacks, publish files, and
    be what CloudFormation deploys with. The other policies say how."""
    ours = _ours(arns, names)
    stacks = [
        arns.of_service("cloudformation", f"stack/{name}/*")
        for name in (f"{names.project}-*", f"CDKToolkit-{names.project}")
    ]
    return _document(
        _allow(
            "Ours",
            [*(f"{service}:*" for service in ours), "cloudformation:*", "iam:*"],
            [
                *(arn for each in ours.values() for arn in each),
                *_assets(arns, names),
                *stacks,
                arns.role(f"{names.path}{names.project}-*"),
                _provider(arns, names),
            ],
        ),
        _allow("Deploy", ["iam:PassRole"], [execution_role(arns, names.qualifier)]),
        _allow(
            "NoResource",
            [
                "cloudformation:GetTemplateSummary",
                "cloudformation:ValidateTemplate",
                "cloudwatch:DescribeAlarms",
                "kms:*",
                "logs:DescribeLogGroups",
                *(["ec2:*", *SEE_NETWORK] if names.network else []),
            ],
            ["*"],
        ),
        _read_version(arns, names),
    )


def _ours(arns: Arns, names: ProjectNames) -> dict[str, list[str]]:
    """The project's resources, by the service whose actions they are for."""
    of, ours, bucket = arns.of_service, f"{names.project}-*", arns.bucket(names.bucket)
    here = f"arn:{arns.partition}"
    return {
        "s3": [bucket, f"{bucket}/*"],
        "ecr": [arns.repository(f"{names.repository_prefix}/*")],
        "sagemaker": _models(arns, names),
        "lambda": [arns.function(ours)],
        "cloudwatch": [
            of("cloudwatch", f"alarm:{ours}"),
            f"{here}:cloudwatch::{arns.account}:dashboard/{ours}",
        ],
        "codebuild": [of("codebuild", f"project/{ours}")],
        "dynamodb": [of("dynamodb", f"table/{ours}")],
        "events": [of("events", f"rule/{ours}")],
        "logs": [
            arns.log_group(f"/aws/{kind}/{ours}")
            for kind in ("codebuild", "lambda", "sagemaker/Endpoints")
        ],
        "scheduler": [
            of("scheduler", f"schedule-group/{names.schedule_group}"),
            of("scheduler", f"schedule/{names.schedule_group}/*"),
        ],
        "sns": [of("sns", f"{names.topic}*")],
        "sqs": [of("sqs", ours)],
        "budgets": [f"{here}:budgets::{arns.account}:budget/{ours}"],
    }


SEE_NETWORK = (
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "route53:AssociateVPCWithHostedZone",
)


def _network(arns: Arns, names: ProjectNames) -> list[Document]:
    """Make a network and change it: only what is made with the project's tag, or has it. No gateway
    to the internet is among that, and no tag can be put on what is there.

    EC2 asks for what is new, which has the tags of the request, and for what it is made in, which
    has tags of its own and none of the request's.
    """
    asked, had = _tagged("aws:RequestTag", names), _tagged("aws:ResourceTag", names)
    in_vpc = ("route-table", "security-group", "subnet")
    made = {
        ("vpc",): ["ec2:CreateVpc"],
        ("vpc-endpoint",): ["ec2:CreateVpcEndpoint"],
        (*in_vpc, "vpc-flow-log"): [
            "ec2:CreateFlowLogs",
            "ec2:CreateRouteTable",
            "ec2:CreateSecurityGroup",
            "ec2:CreateSubnet",
        ],
    }

    def every(*types: str) -> list[str]:
        return [arns.of_service("ec2", f"{type}/*") for type in types]

    return [
        *(
            _allow(f"MakeNetwork{number}", actions, every(*types), asked)
            for number, (types, actions) in enumerate(made.items())
        ),
        _allow(
            "MakeInNetwork",
            [
                action
                for actions in made.values()
                for action in actions
                if action != "ec2:CreateVpc"
            ],
            every("vpc", *in_vpc),
            had,
        ),
        _allow(
            "TagNewNetwork",
            ["ec2:CreateTags"],
            every(*(type for types in made for type in types)),
            {**asked, "Null": {"ec2:CreateAction": "false"}},
        ),
        _allow(
            "ChangeNetwork",
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
            had,
        ),
        _allow("SeeNetwork", ["ec2:Describe*", *SEE_NETWORK], ["*"]),
        _allow("Flows", ["logs:*"], [arns.log_group(f"/aws/vpc/{names.project}-*")]),
    ]


def boundary_policy(arns: Arns, names: ProjectNames) -> Document:
    """The most that a role of the project can do."""
    of, ours = arns.of_service, f"{names.project}-*"
    keys = of("kms", "key/*")
    jobs = [
        *(arns.sagemaker(f"{kind}-job/pipelines-*") for kind in ("processing", "training")),
        arns.sagemaker(f"transform-job/{ours}"),
    ]
    return _document(
        _allow(
            "Objects",
            ["s3:*Object*", "s3:AbortMultipartUpload", "s3:GetBucket*", "s3:ListBucket"],
            [arns.bucket(names.bucket), f"{arns.bucket(names.bucket)}/*", *_assets(arns, names)],
        ),
        _allow("Key", USE_KEY, [keys], _tagged("aws:ResourceTag", names))
        if names.key_arn is None
        else _allow("Key", USE_KEY, [names.key_arn]),
        # The tag of a key counts only minutes after the key was made. Until then services may use
        # it for what they do here, and nobody may by himself.
        _allow(
            "NewKey",
            USE_KEY,
            [keys],
            {
                "Null": {f"aws:ResourceTag/{PROJECT_TAG}": "true"},
                "StringLike": {"kms:ViaService": f"*.{arns.region}.*"},
            },
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
                *(["logs:DescribeLogGroups"] if names.network else []),
                "sagemaker:ListModelPackageGroups",
                "sagemaker:ListModelPackages",
                "servicequotas:GetServiceQuota",
                "servicequotas:ListServiceQuotas",
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
                "dynamodb:*Item",
                "dynamodb:Query",
                "lambda:InvokeFunction",
                "sns:Publish",
                "sqs:*",
            ],
            [
                of("cloudformation", f"stack/{ours}/*"),
                of("codebuild", f"project/{ours}"),
                of("dynamodb", f"table/{ours}"),
                arns.function(ours),
                of("sns", f"{names.topic}*"),
                of("sqs", ours),
            ],
        ),
        # The version of the model that an endpoint serves is a parameter of its stack.
        _allow(
            "Serve",
            ["cloudformation:UpdateStack"],
            [of("cloudformation", f"stack/{names.project}-endpoint-*/*")],
        ),
        _allow(
            "PassRoles",
            ["iam:PassRole"],
            [arns.role(f"{names.path}{ours}")],
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
        _read_version(arns, names),
    )


def _of_source(there: Arns, project: str, bucket: str) -> list[Document]:
    """Where models come from, as far as that account lets them be read."""
    return [
        _allow("Source", ["s3:GetObject"], [f"{there.bucket(bucket)}/*"]),
        _allow(
            "SourceModels",
            ["sagemaker:DescribeModelPackage"],
            [there.sagemaker(f"model-package/{project}-*")],
        ),
        # Tags of another account's key cannot be asked for.
        _allow(
            "SourceKey",
            ["kms:Decrypt"],
            [there.of_service("kms", "key/*")],
            {"StringLike": {"kms:ViaService": f"s3.{there.region}.*"}},
        ),
    ]


def _read_version(arns: Arns, names: ProjectNames) -> Document:
    parameter = f"parameter/cdk-bootstrap/{names.qualifier}/version"
    return _allow(
        "ReadVersion",
        ["ssm:GetParameter", "ssm:GetParameters"],
        [arns.of_service("ssm", parameter)],
    )


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


def _assets(arns: Arns, names: ProjectNames) -> list[str]:
    """The bucket that the CDK uploads to, and its objects."""
    bucket = arns.bucket(f"cdk-{names.qualifier}-assets-{arns.account}-{arns.region}")
    return [bucket, f"{bucket}/*"]


def _provider(arns: Arns, names: ProjectNames) -> str:
    return f"arn:{arns.partition}:iam::{arns.account}:oidc-provider/{names.provider_host}"
