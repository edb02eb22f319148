"""What a deployment can do with the project's own bootstrap, and what it cannot."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from compilegate.access import Arns
from compilegate.access.bootstrap import (
    LARGEST_MANAGED_POLICY,
    access_policy,
    bound_policy,
    boundary_policy,
    execution_role,
    policies,
    services_policy,
)
from compilegate.account.settings import Settings
from tests.infra.access.policy_engine import ARNS_HERE, ask_policies, names_of
from tests.infra.assembly import ACCOUNT, REGION, Assembly

pytestmark = pytest.mark.slow

NAMES = names_of("compilegate")
NETWORK = names_of("compilegate", network=True)
IAM = f"arn:aws:iam::{ACCOUNT}"
ROLE = f"{IAM}:role/compilegate-workload-topics-JobsTrainingRole1234-abc"
BOUNDED = {"iam:PermissionsBoundary": f"{IAM}:policy/compilegate-boundary"}
OTHERWISE = {"iam:PermissionsBoundary": f"{IAM}:policy/another"}
CLOUDFORMATION = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack"
EXECUTION_ROLE = execution_role(ARNS_HERE, NAMES.qualifier)
OURS = {"aws:ResourceTag/compilegate:project": "compilegate"}
THEIRS = {"aws:ResourceTag/compilegate:project": "another"}
TAGGED_OURS = {"aws:RequestTag/compilegate:project": "compilegate"}
BY_S3 = {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0f0f"
EC2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}"
VPC, GROUP, ROUTES, SUBNET = (
    f"{EC2}:vpc/vpc-1",
    f"{EC2}:security-group/sg-1",
    f"{EC2}:route-table/rtb-1",
    f"{EC2}:subnet/subnet-1",
)
Asked = list[tuple[Any, ...]]


def passed_to(service: str) -> dict[str, str]:
    return {"iam:PassedToService": f"{service}.amazonaws.com"}


MAY: Asked = [
    *(
        (f"iam:{action}", ROLE, BOUNDED)
        for action in ("CreateRole", "PutRolePolicy", "UpdateAssumeRolePolicy", "DeleteRole")
    ),
    *(
        ("iam:PassRole", ROLE, passed_to(service))
        for service in ("sagemaker", "lambda", "codebuild", "scheduler", "vpc-flow-logs")
    ),
    ("s3:PutBucketPolicy", f"arn:aws:s3:::compilegate-{ACCOUNT}-{REGION}"),
    ("sagemaker:CreatePipeline", f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:pipeline/compilegate-x"),
    ("sagemaker:CreateEndpoint", f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:endpoint/compilegate-x"),
    ("codebuild:CreateProject", f"arn:aws:codebuild:{REGION}:{ACCOUNT}:project/compilegate-images"),
    ("kms:CreateKey", "*", TAGGED_OURS),
    ("kms:TagResource", KEY, TAGGED_OURS),
    ("kms:PutKeyPolicy", KEY, OURS),
    ("kms:CreateGrant", KEY, OURS),
    ("scheduler:CreateSchedule", f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/compilegate/x"),
]
MAY_NOT: Asked = [
    ("iam:CreateRole", ROLE),
    ("iam:CreateRole", f"{IAM}:role/Admin", BOUNDED),
    *(
        (f"iam:{action}", ROLE, context)
        for action in ("PutRolePolicy", "UpdateAssumeRolePolicy", "DeleteRole")
        for context in ({}, OTHERWISE)
    ),
    ("iam:AttachRolePolicy", ROLE, BOUNDED),
    ("iam:DeleteRolePermissionsBoundary", ROLE, BOUNDED),
    *(("iam:CreatePolicyVersion", f"{IAM}:policy/{name}") for name in policies(ARNS_HERE, NAMES)),
    ("iam:CreateUser", f"{IAM}:user/me"),
    ("iam:PassRole", f"{IAM}:role/Admin", passed_to("lambda")),
    ("iam:PassRole", ROLE),
    ("iam:PassRole", ROLE, passed_to("ec2")),
    ("cloudformation:UpdateStack", f"{CLOUDFORMATION}/of-another-team/1"),
    ("s3:GetObject", "arn:aws:s3:::payroll/2026.csv"),
    ("kms:PutKeyPolicy", KEY, THEIRS),
    ("kms:Decrypt", KEY, THEIRS),
    ("kms:CreateGrant", KEY),
    ("kms:TagResource", KEY, {**TAGGED_OURS, **THEIRS}),
    ("kms:TagResource", KEY),
    ("sts:AssumeRole", f"{IAM}:role/Admin"),
    ("ec2:RunInstances", f"{EC2}:instance/*"),
    ("ec2:CreateVpc", VPC, TAGGED_OURS),
]


def allowed(asked: Asked, names: Any = NAMES, **rest: Any) -> Asked:
    """Those that CloudFormation may do: by its policies, below the bound of the CDK's roles."""
    its = [services_policy(ARNS_HERE, names), access_policy(ARNS_HERE, names)]
    bound = bound_policy(ARNS_HERE, names)
    return ask_policies(its, asked, bound, principal=EXECUTION_ROLE, **rest)


def test_a_deployment_reaches_the_project_and_nothing_else() -> None:
    assert allowed(MAY) == MAY
    assert allowed(MAY_NOT) == []


# EC2 authorizes a request on what it makes, which has the tags of the request alone, and on what it
# is made in, which has its own:
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
MADE_IN = {
    "CreateSubnet": (SUBNET, [VPC]),
    "CreateRouteTable": (ROUTES, [VPC]),
    "CreateSecurityGroup": (GROUP, [VPC]),
    "CreateVpcEndpoint": (f"{EC2}:vpc-endpoint/vpce-1", [VPC, ROUTES, SUBNET, GROUP]),
    "CreateFlowLogs": (f"{EC2}:vpc-flow-log/fl-1", [VPC]),
}
MAY_IN_A_NETWORK: Asked = [
    ("ec2:CreateVpc", VPC, TAGGED_OURS),
    *((f"ec2:{action}", new, TAGGED_OURS) for action, (new, _) in MADE_IN.items()),
    *(
        (f"ec2:{action}", parent, OURS)
        for action, (_, parents) in MADE_IN.items()
        for parent in parents
    ),
    ("ec2:CreateTags", VPC, {**TAGGED_OURS, "ec2:CreateAction": "CreateVpc"}),
    ("ec2:AssociateRouteTable", SUBNET, OURS),
    ("ec2:AuthorizeSecurityGroupIngress", GROUP, OURS),
    ("ec2:DeleteVpc", VPC, OURS),
    ("ec2:DescribeVpcs", "*"),
    ("iam:PassRole", ROLE, passed_to("vpc-flow-logs")),
]
MAY_NOT_IN_A_NETWORK: Asked = [
    ("ec2:CreateVpc", VPC),
    *((f"ec2:{action}", new) for action, (new, _) in MADE_IN.items()),
    *(
        (f"ec2:{action}", parent, {**TAGGED_OURS, **tags})
        for action, (_, parents) in MADE_IN.items()
        for parent in parents
        for tags in ({}, THEIRS)
        if not (parent in (GROUP, ROUTES, SUBNET) and tags == {})
    ),
    ("ec2:CreateTags", VPC, TAGGED_OURS),
    ("ec2:DeleteVpc", VPC),
    ("ec2:AuthorizeSecurityGroupIngress", GROUP, THEIRS),
    ("ec2:CreateInternetGateway", f"{EC2}:internet-gateway/igw-1", TAGGED_OURS),
    ("ec2:AttachInternetGateway", VPC, OURS),
    ("ec2:CreateNatGateway", f"{EC2}:natgateway/nat-1", TAGGED_OURS),
    ("ec2:CreateRoute", ROUTES, OURS),
    ("ec2:RunInstances", f"{EC2}:instance/*", TAGGED_OURS),
]


def test_a_deployment_makes_a_network_of_its_own_and_no_way_out_of_it() -> None:
    assert allowed(MAY_IN_A_NETWORK, NETWORK) == MAY_IN_A_NETWORK
    assert allowed(MAY_NOT_IN_A_NETWORK, NETWORK) == []
    assert allowed(MAY_IN_A_NETWORK[:-1]) == [], "where the settings ask for none"


FIRST_CALLS = (
    *("EnableKeyRotation", "GetKeyRotationStatus", "PutKeyPolicy", "DescribeKey", "CreateAlias"),
    *("ListResourceTags", "CreateGrant", "Decrypt", "GenerateDataKey", "ScheduleKeyDeletion"),
)
"""CloudFormation's, and those of what it makes with a new key, before the key's tag counts."""


def test_a_new_key_is_used_before_its_tag_counts_and_by_the_deployment_alone(
    assembly: Assembly,
) -> None:
    own = assembly.one("compilegate-foundation", "AWS::KMS::Key").properties["KeyPolicy"]
    asked: Asked = [(f"kms:{action}", KEY) for action in FIRST_CALLS]
    assert allowed(asked, own=own) == asked
    assert [action for action, _ in allowed(asked)] == ["kms:CreateAlias"], "of another key"
    elsewhere = assembly.one("neighbour-foundation", "AWS::KMS::Key").properties["KeyPolicy"]
    assert len(allowed(asked, own=elsewhere)) <= 1, "whose deployment is another role"


def test_a_key_of_theirs_is_used_and_not_changed() -> None:
    names = names_of("compilegate", key_arn=KEY)
    asked: Asked = [("kms:CreateGrant", KEY), ("kms:DescribeKey", KEY), ("kms:PutKeyPolicy", KEY)]
    assert allowed(asked, names) == asked[:2]


STACKS = [f"{CLOUDFORMATION}/compilegate-foundation/1", f"{CLOUDFORMATION}/of-another-team/1"]


def test_the_roles_of_the_cdk_deploy_the_project_s_stacks_alone() -> None:
    """Whatever `cdk bootstrap` lets them do: here, everything."""
    asked: Asked = [
        *(("cloudformation:CreateChangeSet", stack) for stack in STACKS),
        *(("cloudformation:DeleteStack", stack) for stack in STACKS),
        ("iam:PassRole", EXECUTION_ROLE, passed_to("cloudformation")),
        ("iam:PassRole", f"{IAM}:role/Admin", passed_to("cloudformation")),
        ("s3:PutObject", f"arn:aws:s3:::cdk-{NAMES.qualifier}-assets-{ACCOUNT}-{REGION}/x"),
        ("s3:PutObject", "arn:aws:s3:::cdk-hnb659fds-assets/x"),
        ("iam:CreatePolicyVersion", f"{IAM}:policy/compilegate-boundary"),
        ("sts:AssumeRole", f"{IAM}:role/Admin"),
    ]
    for names in (NAMES, NETWORK):
        did = ask_policies([EVERYTHING], asked, bound_policy(ARNS_HERE, names))
        assert did == [asked[0], asked[2], asked[4], asked[6]]


EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}
ENDPOINT = f"{CLOUDFORMATION}/compilegate-endpoint-topics/1"
ROLES_MAY: Asked = [
    ("kms:Decrypt", KEY, OURS),
    ("kms:CreateGrant", KEY, OURS),
    ("kms:GenerateDataKey", KEY, BY_S3),
    ("cloudformation:UpdateStack", ENDPOINT),
    ("cloudformation:DescribeStackEvents", ENDPOINT),
    (
        "ssm:GetParameters",
        f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/cdk-bootstrap/{NAMES.qualifier}/version",
    ),
    ("dynamodb:PutItem", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/compilegate-foundation-x"),
]
ROLES_MAY_NOT: Asked = [
    *(question for question in [*MAY, *MAY_NOT] if question[0].startswith("iam:Cr")),
    ("iam:PutRolePolicy", ROLE, BOUNDED),
    ("iam:UpdateAssumeRolePolicy", ROLE, BOUNDED),
    ("iam:PassRole", ROLE, passed_to("lambda")),
    ("cloudformation:UpdateStack", f"{CLOUDFORMATION}/compilegate-workload-topics/1"),
    ("kms:Decrypt", KEY),
    ("kms:Decrypt", KEY, {**BY_S3, **THEIRS}),
    ("kms:PutKeyPolicy", KEY, OURS),
    ("s3:GetObject", "arn:aws:s3:::payroll/2026.csv"),
    ("sts:AssumeRole", EXECUTION_ROLE),
]


def test_no_role_of_the_project_gets_beyond_its_boundary() -> None:
    """Whatever its own policy allows: here, everything."""
    boundary = boundary_policy(ARNS_HERE, NAMES)
    assert ask_policies([EVERYTHING], ROLES_MAY, boundary) == ROLES_MAY
    assert ask_policies([EVERYTHING], ROLES_MAY_NOT, boundary) == []


LONGEST = {
    "project": "p" * 20,
    "bucket": "b" * 63,
    "repository_prefix": "r" * 200,
    "key_alias": f"alias/{'k' * 250}",
    "topic": "t" * 256,
    "schedule_group": "g" * 64,
    "qualifier": "q" * 10,
    "boundary": f"{'p' * 20}-boundary",
}


@pytest.mark.parametrize("partition", boto3.Session().get_available_partitions())
def test_every_policy_fits_what_iam_takes_with_the_longest_names_anywhere(partition: str) -> None:
    session = boto3.Session()
    regions = session.get_available_regions("s3", partition, allow_non_regional=False)
    arns = Arns(partition=partition, region=max(regions, key=len), account=ACCOUNT)
    key = arns.of_service("kms", f"key/mrk-{'0' * 32}")
    source = (arns, "s" * 20, "s" * 63)
    for key_arn in (None, key):
        names = names_of(**LONGEST, network=True, source=source, key_arn=key_arn)
        for name, document in policies(arns, names).items():
            size = len(json.dumps(document, separators=(",", ":")))
            assert size <= LARGEST_MANAGED_POLICY, name
            assert len(name) <= 128


def test_a_boundary_of_somebody_else_s_needs_their_bootstrap() -> None:
    """Else the organisation's own policy of that name would get a new version."""
    with pytest.raises(ValueError, match="boundary is 'org-boundary' without qualifier, expected"):
        Settings.model_validate({"bootstrap": {"boundary": "org-boundary"}})
    Settings.model_validate({"bootstrap": {"boundary": "org-boundary", "qualifier": "org"}})
