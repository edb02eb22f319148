"""The most that a deployment may do, and any role that it makes, as policies.

    cdk bootstrap $(python -m compilegate.infra.bootstrap)
    python -m compilegate.infra.bootstrap --check

The first makes them and prints the arguments of the CDK's own command; the second says by its exit
status whether they are as the settings and this version need them.

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

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.access import Arns
from compilegate.access.jobs import PROJECT_TAG
from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import SETTINGS_FILE, Names, SettingsError, read_settings
from compilegate.errors import CompilegateError

READY, NEVER, FAILED, OUTDATED = 0, 1, 2, 3
"""All is there, or these credentials may not look, as CI's, which never bootstrap; the account was
never bootstrapped; AWS refuses; other policies are there, which are named."""
NOT_ALLOWED = ("AccessDenied", "AccessDeniedException")
MOST_VERSIONS = 5
"""Versions that IAM keeps of a policy."""

Document = dict[str, Any]

UNTAGGED = {"Null": {f"aws:ResourceTag/{PROJECT_TAG}": "true"}}
LARGEST_MANAGED_POLICY = 6_144
"""Characters that IAM takes, white space not counted."""
GITHUB = "oidc-provider/token.actions.githubusercontent.com"
PASSED_TO = ("codebuild", "lambda", "sagemaker", "scheduler", "vpc-flow-logs")
"""The services that roles of a project are made for."""
CALLED = ("codebuild", "dynamodb", "lambda", "sns", "sqs")
"""The services whose resources of the project its roles use."""
USE_KEY = "CreateGrant Decrypt DescribeKey Encrypt GenerateDataKey ReEncrypt*"
SEE_NETWORK = {
    "logs": "CreateLogDelivery DeleteLogDelivery",
    "route53": "AssociateVPCWithHostedZone",
}


class _Scope:
    """What the policies of one project are about, in one account and region."""

    def __init__(self, arns: Arns, names: Names) -> None:
        self.arns, self.names, self.project = arns, names, names.settings.project
        of, ours = arns.of_service, f"{self.project}-*"
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
        self.request_tag = {"StringEquals": {f"aws:RequestTag/{PROJECT_TAG}": self.project}}
        """The request puts the project's tag on what it makes."""
        self.resource_tag = {"StringEquals": {f"aws:ResourceTag/{PROJECT_TAG}": self.project}}
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
    scope = _Scope(arns, names)
    services, access = names.deployment_policies
    return {
        services: _services_policy(scope),
        access: _access_policy(scope),
        names.bootstrap_policy: _bootstrap_policy(scope),
        str(names.boundary): _boundary_policy(scope),
    }


def execution_role(arns: Arns, qualifier: str) -> str:
    """The role that CloudFormation deploys with. A new key's policy names it, since KMS counts the
    tags and aliases of a key minutes after they are set, and grants are asked for within seconds:
    https://docs.aws.amazon.com/kms/latest/developerguide/abac.html
    """
    return arns.role(f"cdk-{qualifier}-cfn-exec-role-{arns.account}-{arns.region}")


def _services_policy(scope: _Scope) -> Document:
    """What CloudFormation may do with everything but keys, roles and the network."""
    return _document(
        _all_of(scope.ours),
        _allow("Assets", scope.assets, s3="GetBucket* GetObject* ListBucket"),
        _allow("NoResource", ["*"], cloudwatch="DescribeAlarms", logs="DescribeLogGroups"),
        _read_version(scope),
    )


def _access_policy(scope: _Scope) -> Document:
    """What CloudFormation may do with keys, roles and the network."""
    arns, names = scope.arns, scope.names
    boundary = arns.policy(f"{scope.path}{names.boundary}")
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
        _pass_roles(scope, *PASSED_TO),
        _allow("TrustGitHub", [scope.provider], iam="*OpenIDConnectProvider*"),
        *(_network(scope) if names.settings.network.create else []),
    )


def _bootstrap_policy(scope: _Scope) -> Document:
    """The most that the CDK's own roles can do: to deploy this project's stacks, publish files, and
    be what CloudFormation deploys with. The other policies say how."""
    arns, names, project = scope.arns, scope.names, scope.project
    ours = {
        **scope.ours,
        "cloudformation": [
            arns.of_service("cloudformation", f"stack/{name}/*")
            for name in (f"{project}-*", names.toolkit_stack)
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
        _read_version(scope),
    )


def _network(scope: _Scope) -> list[Document]:
    """Make a network and change it: only what is made with the project's tag, or has it. No gateway
    to the internet is among that, and no tag can be put on what is there.

    EC2 asks for what is new, which has the tags of the request, and for what it is made in, which
    has tags of its own and none of the request's.
    """
    request_tag, resource_tag = scope.request_tag, scope.resource_tag
    in_vpc = ("route-table", "security-group", "subnet")
    create_actions = "CreateFlowLogs CreateRouteTable CreateSecurityGroup CreateSubnet"

    def every(*types: str) -> list[str]:
        return [scope.arns.of_service("ec2", f"{type}/*") for type in types]

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
        _allow("Flows", [scope.arns.log_group(f"/aws/vpc/{scope.project}-*")], logs="*"),
    ]


def _boundary_policy(scope: _Scope) -> Document:
    """The most that a role of the project can do."""
    arns, names, project = scope.arns, scope.names, scope.project
    of, ours = arns.of_service, f"{project}-*"
    keys, by_service = scope.keys, {"StringLike": {"kms:ViaService": f"*.{arns.region}.*"}}
    jobs = ("processing-job/pipelines-*", "training-job/pipelines-*", f"transform-job/{ours}")
    logs = ["sagemaker/", *(f"{kind}/{project}-" for kind in ("codebuild", "lambda", "vpc"))]
    endpoint_stacks = [of("cloudformation", f"stack/{project}-endpoint-*/*")]
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
        _allow("NewKey", [keys], {**UNTAGGED, **by_service}, kms=USE_KEY),
        _allow(
            "Pull",
            ["*"],
            ecr="BatchCheckLayerAvailability BatchGetImage Describe* GetAuthorizationToken "
            "GetDownloadUrlForLayer",
        ),
        _allow(
            "Push",
            scope.ours["ecr"],
            ecr="CompleteLayerUpload InitiateLayerUpload PutImage UploadLayerPart",
        ),
        _allow("Jobs", [*scope.models, *map(arns.sagemaker, jobs)], sagemaker="*"),
        *_source_statements(scope),
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
                *chain(*(scope.ours[service] for service in CALLED)),
            ],
            cloudformation="Describe* Get* List*",
            codebuild="*",
            dynamodb="*Item Query",
            lambda_="InvokeFunction",
            sns="Publish",
            sqs="*",
        ),
        # The version of the model that an endpoint serves is a parameter of its stack.
        _allow("Serve", endpoint_stacks, cloudformation="UpdateStack"),
        _pass_roles(scope, "sagemaker"),
        _allow("Deploy", cdk_roles, sts="AssumeRole"),
        _read_version(scope),
    )


def _source_statements(scope: _Scope) -> list[Document]:
    """Where models come from, as far as that account lets them be read."""
    arns, source = scope.arns, scope.names.settings.source
    if source is None:
        return []
    there = Arns(partition=arns.partition, region=source.region, account=source.account)
    models = there.sagemaker(f"model-package/{source.project}-*")
    by_s3 = {"StringLike": {"kms:ViaService": f"s3.{there.region}.*"}}
    return [
        _allow("Source", [f"{there.bucket(str(scope.names.source_bucket))}/*"], s3="GetObject"),
        _allow("SourceModels", [models], sagemaker="DescribeModelPackage"),
        # Tags of another account's key cannot be asked for.
        _allow("SourceKey", [there.of_service("kms", "key/*")], by_s3, kms="Decrypt"),
    ]


def _pass_roles(scope: _Scope, *services: str) -> Document:
    """Give roles to these services. A single service is a text in its condition."""
    names = [f"{each}.amazonaws.com" for each in services]
    passed_to = {"StringEquals": {"iam:PassedToService": names if names[1:] else names[0]}}
    roles = [scope.roles, *scope.names.given_roles]
    return _allow("PassRoles", roles, passed_to, iam="PassRole")


def _read_version(scope: _Scope) -> Document:
    name = f"parameter/cdk-bootstrap/{scope.names.qualifier}/version"
    parameter = scope.arns.of_service("ssm", name)
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


def main(arguments: list[str]) -> int:
    try:
        settings = read_settings(SETTINGS_FILE)
        session = open_session(settings.region, settings.account)
        if arguments == ["--check"]:
            return check(session, Names(settings))
        print(*make(session, Names(settings)), sep="\n")
    except (BotoCoreError, ClientError, CompilegateError) as error:
        print(f"The policies of the bootstrap cannot be used: {error}", file=sys.stderr)
        return FAILED
    return READY


def check(session: AwsSession, names: Names) -> int:
    """Whether a deployment would find what it needs; a bootstrap of others is their concern."""
    try:
        version = f"/cdk-bootstrap/{names.qualifier}/version"
        session.client("ssm").get_parameter(Name=version)
        if names.settings.bootstrap.qualifier is not None:
            return READY
        outdated = [
            name
            for name, document in policies(Arns.of(session), names).items()
            if _policy_there(session, names, name) != document
        ]
    except ClientError as error:
        if error.response["Error"]["Code"] in NOT_ALLOWED:
            return READY
        if error.response["Error"]["Code"] == "ParameterNotFound":
            return NEVER
        raise
    for name in outdated:
        print(
            f"The policy {name} is not what {SETTINGS_FILE} and this version need: run "
            "`make bootstrap` first",
            file=sys.stderr,
        )
    return OUTDATED if outdated else READY


def make(session: AwsSession, names: Names) -> list[str]:
    """Make the project's policies; returns the arguments of `cdk bootstrap`, one a line."""
    if names.settings.bootstrap.qualifier is not None:
        raise SettingsError(
            f"{SETTINGS_FILE}: bootstrap.qualifier names a bootstrap that exists, so this project "
            "makes none; leave the key out for one of the project's own"
        )
    for name, document in policies(Arns.of(session), names).items():
        _put_policy(session, names, name, document)
    deployment = [_policy_arn(session, names, name) for name in names.deployment_policies]
    return [
        f"aws://{session.account}/{session.region}",
        "--qualifier",
        names.qualifier,
        "--toolkit-stack-name",
        names.toolkit_stack,
        "--cloudformation-execution-policies",
        ",".join(deployment),
        "--custom-permissions-boundary",
        f"{names.path.removeprefix('/')}{names.bootstrap_policy}",
        "--apply-permissions-boundary-to-all-roles",
        "--tags",
        f"{PROJECT_TAG}={names.settings.project}",
    ]


def _put_policy(session: AwsSession, names: Names, name: str, document: Document) -> None:
    """Make a managed policy, or give it a new version if it says something else."""
    text = json.dumps(document, separators=(",", ":"))
    if len(text) > LARGEST_MANAGED_POLICY:
        raise SettingsError(
            f"the policy {name} is {len(text):,} characters, expected at most "
            f"{LARGEST_MANAGED_POLICY:,}: shorten the names in {SETTINGS_FILE}"
        )
    iam, arn = session.client("iam"), _policy_arn(session, names, name)
    there = _policy_there(session, names, name)
    if there is None:
        tags = [{"Key": PROJECT_TAG, "Value": names.settings.project}]
        iam.create_policy(PolicyName=name, Path=names.path, PolicyDocument=text, Tags=tags)
    elif there != document:
        versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
        if len(versions) == MOST_VERSIONS:
            old = [version for version in versions if not version["IsDefaultVersion"]]
            oldest = min(old, key=lambda version: version["CreateDate"])
            iam.delete_policy_version(PolicyArn=arn, VersionId=oldest["VersionId"])
        iam.create_policy_version(PolicyArn=arn, PolicyDocument=text, SetAsDefault=True)


def _policy_arn(session: AwsSession, names: Names, name: str) -> str:
    return Arns.of(session).policy(f"{names.path.removeprefix('/')}{name}")


def _policy_there(session: AwsSession, names: Names, name: str) -> Any:
    """The document of a policy of the project's, or None. Raises SettingsError for somebody else's:
    a new version of it would change what others may do."""
    iam, arn = session.client("iam"), _policy_arn(session, names, name)
    try:
        policy = iam.get_policy(PolicyArn=arn)["Policy"]
    except iam.exceptions.NoSuchEntityException:
        return None
    tags = {tag["Key"]: tag["Value"] for tag in policy.get("Tags", [])}
    if tags.get(PROJECT_TAG) != names.settings.project:
        raise SettingsError(
            f"the policy {name} has the tag {PROJECT_TAG} = {tags.get(PROJECT_TAG, 'none')}, "
            f"expected {names.settings.project}: this project did not make it, and leaves it as it "
            "is; delete it, or choose another project name"
        )
    version = iam.get_policy_version(PolicyArn=arn, VersionId=policy["DefaultVersionId"])
    return version["PolicyVersion"]["Document"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
