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
from itertools import chain
from typing import Any

from compilegate.access.jobs import PROJECT_TAG
from compilegate.access.policy import Arns
from compilegate.account.settings import Names

Document = dict[str, Any]

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


class _Scope:
    """What the policies of one project are about, in one account and region."""

    def __init__(self, arns: Arns, names: Names) -> None:
        of, ours = arns.of_service, f"{names.settings.project}-*"
        bucket = arns.bucket(names.bucket(arns.account, arns.region))
        here, place = f"arn:{arns.partition}", f"{arns.account}-{arns.region}"
        assets = arns.bucket(f"cdk-{names.qualifier}-assets-{place}")
        kinds = ("endpoint", "endpoint-config", "model", "model-package", "model-package-group")
        log_groups = ("codebuild", "lambda", "sagemaker/Endpoints")
        self.keys = of("kms", "key/*")
        self.their_key = names.settings.storage.key_arn
        """The key, where it is not the project that makes it."""
        self.path = names.path.removeprefix("/")
        self.roles = arns.role(f"{self.path}{ours}")
        self.provider = f"{here}:iam::{arns.account}:{GITHUB}"
        self.models = [arns.sagemaker(f"{kind}/{ours}") for kind in (*kinds, "pipeline")]
        self.assets = [assets, f"{assets}/*"]
        """The bucket that the CDK uploads to, and its objects."""
        project = names.settings.project
        self.request_tag = {"StringEquals": {f"aws:RequestTag/{PROJECT_TAG}": project}}
        """The request puts the project's tag on what it makes."""
        self.resource_tag = {"StringEquals": {f"aws:ResourceTag/{PROJECT_TAG}": project}}
        """The resource has the project's tag."""
        self.ours = {
            "s3": [bucket, f"{bucket}/*"],
            "ecr": [arns.repository(names.repository("*"))],
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


def policies(arns: Arns, names: Names) -> dict[str, Document]:
    """The four policies, by name."""
    services, access = names.deployment_policies
    return {
        services: services_policy(arns, names),
        access: access_policy(arns, names),
        names.bootstrap_policy: bound_policy(arns, names),
        str(names.boundary): boundary_policy(arns, names),
    }


def execution_role(arns: Arns, qualifier: str) -> str:
    """The role that CloudFormation deploys with.

    The policy of a new key has to name it: KMS counts a key's tags and aliases only minutes after
    they are set (https://docs.aws.amazon.com/kms/latest/developerguide/abac.html), and
    CloudFormation turns on rotation, and ECR and DynamoDB ask for grants, within seconds.
    """
    return arns.role(f"cdk-{qualifier}-cfn-exec-role-{arns.account}-{arns.region}")


def services_policy(arns: Arns, names: Names) -> Document:
    """What CloudFormation may do with everything but keys, roles and the network."""
    scope = _Scope(arns, names)
    return _document(
        _all_of(scope.ours),
        _allow("Assets", scope.assets, s3="GetBucket* GetObject* ListBucket"),
        _allow("NoResource", ["*"], cloudwatch="DescribeAlarms", logs="DescribeLogGroups"),
        _read_version(arns, names),
    )


def access_policy(arns: Arns, names: Names) -> Document:
    """What CloudFormation may do with keys, roles and the network."""
    scope = _Scope(arns, names)
    boundary = arns.policy(f"{scope.path}{names.boundary}")
    services = [f"{each}.amazonaws.com" for each in PASSED_TO]
    keys, role = scope.keys, scope.roles
    return _document(
        _allow("MakeKey", ["*"], kms="CreateKey ListAliases"),
        # A key that is being made has no tag yet that could be asked for.
        _allow("TagNewKey", [keys], {**scope.request_tag, **UNTAGGED}, kms="TagResource"),
        _allow("Key", [keys], scope.resource_tag, kms="*"),
        *([_allow("TheirKey", [scope.their_key], kms=USE_KEY)] if scope.their_key else []),
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
        *(_network(arns, names, scope) if names.settings.network.create else []),
    )


def bound_policy(arns: Arns, names: Names) -> Document:
    """The most that the CDK's own roles can do: to deploy this project's stacks, publish files, and
    be what CloudFormation deploys with. The other policies say how."""
    scope = _Scope(arns, names)
    ours = {
        **scope.ours,
        "cloudformation": [
            arns.of_service("cloudformation", f"stack/{name}/*")
            for name in (f"{names.settings.project}-*", f"CDKToolkit-{names.settings.project}")
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
        *(
            [_allow("Network", ["*"], ec2="*", **SEE_NETWORK)]
            if names.settings.network.create
            else []
        ),
        _read_version(arns, names),
    )


def _network(arns: Arns, names: Names, scope: _Scope) -> list[Document]:
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
        _allow("Flows", [arns.log_group(f"/aws/vpc/{names.settings.project}-*")], logs="*"),
    ]


def boundary_policy(arns: Arns, names: Names) -> Document:
    """The most that a role of the project can do."""
    scope, of, ours = _Scope(arns, names), arns.of_service, f"{names.settings.project}-*"
    keys = scope.keys
    jobs = ("processing-job/pipelines-*", "training-job/pipelines-*", f"transform-job/{ours}")
    logs = [
        "sagemaker/",
        *(f"{kind}/{names.settings.project}-" for kind in ("codebuild", "lambda", "vpc")),
    ]
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
        if scope.their_key is None
        else _allow("Key", [scope.their_key], kms=USE_KEY),
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
            [arns.repository(names.repository("*"))],
            ecr="CompleteLayerUpload InitiateLayerUpload PutImage UploadLayerPart",
        ),
        _allow("Jobs", [*scope.models, *map(arns.sagemaker, jobs)], sagemaker="*"),
        *_source_statements(arns, names),
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
            [of("cloudformation", f"stack/{names.settings.project}-endpoint-*/*")],
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


def _source_statements(arns: Arns, names: Names) -> list[Document]:
    """Where models come from, as far as that account lets them be read."""
    source = names.settings.source
    if source is None:
        return []
    there = Arns(partition=arns.partition, region=source.region, account=source.account)
    models = there.sagemaker(f"model-package/{source.project}-*")
    by_s3 = {"StringLike": {"kms:ViaService": f"s3.{there.region}.*"}}
    return [
        _allow("Source", [f"{there.bucket(str(names.source_bucket))}/*"], s3="GetObject"),
        _allow("SourceModels", [models], sagemaker="DescribeModelPackage"),
        # Tags of another account's key cannot be asked for.
        _allow("SourceKey", [there.of_service("kms", "key/*")], by_s3, kms="Decrypt"),
    ]


def _read_version(arns: Arns, names: Names) -> Document:
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
