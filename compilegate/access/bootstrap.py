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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from compilegate.access.policy import Arns

Document = dict[str, Any]

PROJECT_TAG = "compilegate:project"
"""The tag on every resource of a project."""
UNTAGGED = {"Null": {f"aws:ResourceTag/{PROJECT_TAG}": "true"}}
LARGEST_MANAGED_POLICY = 6_144
"""Characters that IAM takes, white space not counted."""
GITHUB = "oidc-provider/token.actions.githubusercontent.com"
PASSED_TO = ("codebuild", "lambda", "sagemaker", "scheduler", "vpc-flow-logs")
"""The services that roles of a project are made for."""
USE_KEY = "CreateGrant Decrypt DescribeKey Encrypt GenerateDataKey ReEncrypt*"
SEE_NETWORK = {
    "logs": "CreateLogDelivery DeleteLogDelivery",
    "route53": "AssociateVPCWithHostedZone",
}


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
    """The path of roles and policies, as in `teams/news/`."""
    given_roles: tuple[str, ...] = ()
    """ARNs of roles that somebody else made for jobs, pipelines and functions."""
    key_arn: str | None = None
    """The key, where it is not the project that makes it."""
    network: bool = False
    source: tuple[Arns, str, str] | None = None
    """The stage that models come from: its place, its project and its bucket."""

    @property
    def deployment(self) -> tuple[str, str]:
        """Policies: what CloudFormation may do."""
        return f"{self.project}-deployment", f"{self.project}-deployment-access"

    @property
    def bound(self) -> str:
        """A policy: what bounds the CDK's own roles."""
        return f"{self.project}-bootstrap"


class _Scope:
    """What the policies of one project are about, in one account and region."""

    def __init__(self, arns: Arns, names: ProjectNames) -> None:
        of, ours, bucket = arns.of_service, f"{names.project}-*", arns.bucket(names.bucket)
        here, place = f"arn:{arns.partition}", f"{arns.account}-{arns.region}"
        assets = arns.bucket(f"cdk-{names.qualifier}-assets-{place}")
        kinds = ("endpoint", "endpoint-config", "model", "model-package", "model-package-group")
        log_groups = ("codebuild", "lambda", "sagemaker/Endpoints")
        self.keys = of("kms", "key/*")
        self.roles = arns.role(f"{names.path}{ours}")
        self.provider = f"{here}:iam::{arns.account}:{GITHUB}"
        self.models = [arns.sagemaker(f"{kind}/{ours}") for kind in (*kinds, "pipeline")]
        self.assets = [assets, f"{assets}/*"]
        """The bucket that the CDK uploads to, and its objects."""
        self.request_tag = {"StringEquals": {f"aws:RequestTag/{PROJECT_TAG}": names.project}}
        """The request puts the project's tag on what it makes."""
        self.resource_tag = {"StringEquals": {f"aws:ResourceTag/{PROJECT_TAG}": names.project}}
        """The resource has the project's tag."""
        self.ours = {
            "s3": [bucket, f"{bucket}/*"],
            "ecr": [arns.repository(f"{names.repository_prefix}/*")],
            "sagemaker": self.models,
            "lambda": [arns.function(ours)],
            "cloudwatch": [
                of("cloudwatch", f"alarm:{ours}"),
                f"{here}:cloudwatch::{arns.account}:dashboard/{ours}",
            ],
            "codebuild": [of("codebuild", f"project/{ours}")],
            "dynamodb": [of("dynamodb", f"table/{ours}")],
            "events": [of("events", f"rule/{ours}")],
            "logs": [arns.log_group(f"/aws/{kind}/{ours}") for kind in log_groups],
            "scheduler": [
                of("scheduler", f"schedule-group/{names.schedule_group}"),
                of("scheduler", f"schedule/{names.schedule_group}/*"),
            ],
            "sns": [of("sns", f"{names.topic}*")],
            "sqs": [of("sqs", ours)],
            "budgets": [f"{here}:budgets::{arns.account}:budget/{ours}"],
        }
        """The project's resources, by the service whose actions they are for."""


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
    scope = _Scope(arns, names)
    return _document(
        _all_of(scope.ours),
        _allow("Assets", scope.assets, s3="GetBucket* GetObject* ListBucket"),
        _allow("NoResource", ["*"], cloudwatch="DescribeAlarms", logs="DescribeLogGroups"),
        _read_version(arns, names),
    )


def access_policy(arns: Arns, names: ProjectNames) -> Document:
    """What CloudFormation may do with keys, roles and the network."""
    scope, boundary = _Scope(arns, names), arns.policy(f"{names.path}{names.boundary}")
    services = [f"{each}.amazonaws.com" for each in PASSED_TO]
    keys, role = scope.keys, scope.roles
    return _document(
        _allow("MakeKey", ["*"], kms="CreateKey ListAliases"),
        # A key that is being made has no tag yet that could be asked for.
        _allow("TagNewKey", [keys], {**scope.request_tag, **UNTAGGED}, kms="TagResource"),
        _allow("Key", [keys], scope.resource_tag, kms="*"),
        *([] if names.key_arn is None else [_allow("TheirKey", [names.key_arn], kms=USE_KEY)]),
        _allow("NameKey", [arns.of_service("kms", names.key_alias), keys], kms="*Alias"),
        _allow(
            "MakeRoles",
            [role],
            {"StringEquals": {"iam:PermissionsBoundary": boundary}},
            iam="CreateRole DeleteRole DeleteRolePolicy PutRolePermissionsBoundary PutRolePolicy "
            "UpdateAssumeRolePolicy UpdateRole UpdateRoleDescription",
        ),
        _allow("SeeRoles", [role], iam="Get* List* TagRole UntagRole"),
        _allow(
            "PassRoles",
            [role, *names.given_roles],
            {"StringEquals": {"iam:PassedToService": services}},
            iam="PassRole",
        ),
        _allow("TrustGitHub", [scope.provider], iam="*OpenIDConnectProvider*"),
        *(_network(arns, names, scope) if names.network else []),
    )


def bound_policy(arns: Arns, names: ProjectNames) -> Document:
    """The most that the CDK's own roles can do: to deploy this project's stacks, publish files, and
    be what CloudFormation deploys with. The other policies say how."""
    scope = _Scope(arns, names)
    ours = {
        **scope.ours,
        "cloudformation": [
            arns.of_service("cloudformation", f"stack/{name}/*")
            for name in (f"{names.project}-*", f"CDKToolkit-{names.project}")
        ],
        "iam": [scope.roles, scope.provider],
    }
    no_resource = {
        "cloudformation": "GetTemplateSummary ValidateTemplate",
        "cloudwatch": "DescribeAlarms",
        "kms": "*",
        "logs": "DescribeLogGroups",
    }
    return _document(
        _all_of(ours, *scope.assets),
        _allow("Deploy", [execution_role(arns, names.qualifier)], iam="PassRole"),
        _allow("NoResource", ["*"], **no_resource),
        *([_allow("Network", ["*"], ec2="*", **SEE_NETWORK)] if names.network else []),
        _read_version(arns, names),
    )


def _network(arns: Arns, names: ProjectNames, scope: _Scope) -> list[Document]:
    """Make a network and change it: only what is made with the project's tag, or has it. No gateway
    to the internet is among that, and no tag can be put on what is there.

    EC2 asks for what is new, which has the tags of the request, and for what it is made in, which
    has tags of its own and none of the request's.
    """
    request_tag, resource_tag = scope.request_tag, scope.resource_tag
    in_vpc = ("route-table", "security-group", "subnet")
    create_actions = "CreateFlowLogs CreateRouteTable CreateSecurityGroup CreateSubnet"

    def every(*types: str) -> list[str]:
        return [arns.of_service("ec2", f"{type}/*") for type in types]

    return [
        _allow("MakeVpc", every("vpc"), request_tag, ec2="CreateVpc"),
        _allow("MakeNetwork", every(*in_vpc, "vpc-flow-log"), request_tag, ec2=create_actions),
        _allow("MakeEndpoints", every("vpc-endpoint"), request_tag, ec2="CreateVpcEndpoint"),
        _allow(
            "MakeIn", every("vpc", *in_vpc), resource_tag, ec2=f"{create_actions} CreateVpcEndpoint"
        ),
        _allow(
            "TagNewNetwork",
            every("vpc", *in_vpc, "vpc-endpoint", "vpc-flow-log"),
            {**request_tag, "Null": {"ec2:CreateAction": "false"}},
            ec2="CreateTags",
        ),
        _allow(
            "ChangeNetwork",
            ["*"],
            resource_tag,
            ec2="AssociateRouteTable Authorize* CreateTags Delete* DisassociateRouteTable Modify* "
            "Revoke*",
        ),
        _allow("SeeNetwork", ["*"], ec2="Describe*", **SEE_NETWORK),
        _allow("Flows", [arns.log_group(f"/aws/vpc/{names.project}-*")], logs="*"),
    ]


def boundary_policy(arns: Arns, names: ProjectNames) -> Document:
    """The most that a role of the project can do."""
    scope, of, ours = _Scope(arns, names), arns.of_service, f"{names.project}-*"
    keys = scope.keys
    jobs = ("processing-job/pipelines-*", "training-job/pipelines-*", f"transform-job/{ours}")
    logs = ["sagemaker/", *(f"{kind}/{names.project}-" for kind in ("codebuild", "lambda", "vpc"))]
    cdk_roles = [
        arns.role(f"cdk-{names.qualifier}-{purpose}-role-{arns.account}-{arns.region}")
        for purpose in ("deploy", "file-publishing")
    ]
    return _document(
        _allow(
            "Objects",
            [*scope.ours["s3"], *scope.assets],
            s3="*Object* AbortMultipartUpload GetBucket* ListBucket",
        ),
        _allow("Key", [keys], scope.resource_tag, kms=USE_KEY)
        if names.key_arn is None
        else _allow("Key", [names.key_arn], kms=USE_KEY),
        # The tag of a key counts only minutes after the key was made. Until then services may use
        # it for what they do here, and nobody may by himself.
        _allow(
            "NewKey",
            [keys],
            {**UNTAGGED, "StringLike": {"kms:ViaService": f"*.{arns.region}.*"}},
            kms=USE_KEY,
        ),
        _allow(
            "Pull",
            ["*"],
            ecr="BatchCheckLayerAvailability BatchGetImage Describe* GetAuthorizationToken "
            "GetDownloadUrlForLayer",
        ),
        _allow(
            "Push",
            [arns.repository(f"{names.repository_prefix}/*")],
            ecr="CompleteLayerUpload InitiateLayerUpload PutImage UploadLayerPart",
        ),
        _allow("Jobs", [*scope.models, *map(arns.sagemaker, jobs)], sagemaker="*"),
        *([] if names.source is None else _of_source(*names.source)),
        _allow(
            "Logs",
            [arns.log_group(f"/aws/{name}*") for name in logs],
            logs="CreateLogGroup CreateLogStream DescribeLogStreams GetLogEvents PutLogEvents",
        ),
        _allow(
            "NoResource",
            ["*"],
            cloudwatch="DescribeAlarms PutMetricData",
            logs="DescribeLogGroups",
            ec2="CreateNetworkInterface* DeleteNetworkInterface* Describe*",
            sagemaker="ListModelPackageGroups ListModelPackages",
            servicequotas="GetServiceQuota ListServiceQuotas",
        ),
        _allow(
            "Ours",
            [
                of("cloudformation", f"stack/{ours}/*"),
                of("codebuild", f"project/{ours}"),
                of("dynamodb", f"table/{ours}"),
                arns.function(ours),
                of("sns", f"{names.topic}*"),
                of("sqs", ours),
            ],
            cloudformation="Describe* Get* List*",
            codebuild="*",
            dynamodb="*Item Query",
            lambda_="InvokeFunction",
            sns="Publish",
            sqs="*",
        ),
        # The version of the model that an endpoint serves is a parameter of its stack.
        _allow(
            "Serve",
            [of("cloudformation", f"stack/{names.project}-endpoint-*/*")],
            cloudformation="UpdateStack",
        ),
        _allow(
            "PassRoles",
            [scope.roles, *names.given_roles],
            {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
            iam="PassRole",
        ),
        _allow("Deploy", cdk_roles, sts="AssumeRole"),
        _read_version(arns, names),
    )


def _of_source(there: Arns, project: str, bucket: str) -> list[Document]:
    """Grants to read another account's models, as far as that account allows it."""
    models = there.sagemaker(f"model-package/{project}-*")
    by_s3 = {"StringLike": {"kms:ViaService": f"s3.{there.region}.*"}}
    return [
        _allow("Source", [f"{there.bucket(bucket)}/*"], s3="GetObject"),
        _allow("SourceModels", [models], sagemaker="DescribeModelPackage"),
        # Tags of another account's key cannot be asked for.
        _allow("SourceKey", [there.of_service("kms", "key/*")], by_s3, kms="Decrypt"),
    ]


def _read_version(arns: Arns, names: ProjectNames) -> Document:
    parameter = arns.of_service("ssm", f"parameter/cdk-bootstrap/{names.qualifier}/version")
    return _allow("ReadVersion", [parameter], ssm="GetParameter GetParameters")


def _document(*statements: Document) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _all_of(ours: Mapping[str, list[str]], *more: str) -> Document:
    resources = [*chain.from_iterable(ours.values()), *more]
    return _allow("Ours", resources, None, **dict.fromkeys(ours, "*"))


def _allow(
    sid: str, resources: Sequence[str], conditions: Document | None = None, **actions: str
) -> Document:
    """A statement; `actions` are names by service. `lambda` is a word of Python's."""
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Action": [
            f"{service.removesuffix('_')}:{name}"
            for service, names in actions.items()
            for name in names.split()
        ],
        "Resource": list(resources),
        **({"Condition": conditions} if conditions else {}),
    }
