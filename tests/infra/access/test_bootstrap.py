"""What a deployment can do with the project's own bootstrap, and what it cannot."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from compilegate.access.bootstrap import (
    LARGEST_MANAGED_POLICY,
    boundary_policy,
    deployment_policy,
)
from tests.infra.access.policy_engine import ARNS_HERE, PROGRAM, names_of
from tests.infra.assembly import ACCOUNT, REGION

pytestmark = pytest.mark.slow

NAMES = names_of("compilegate")
IAM = f"arn:aws:iam::{ACCOUNT}"
ROLE = f"{IAM}:role/compilegate-workload-topics-JobsTrainingRole1234-abc"
BOUNDED = {"iam:PermissionsBoundary": f"{IAM}:policy/compilegate-boundary"}
CLOUDFORMATION = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack"
OURS = {"aws:ResourceTag/compilegate:project": "compilegate"}
TAGGED_OURS = {"aws:RequestTag/compilegate:project": "compilegate"}
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0f0f"
ACCOUNT_DECIDES = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"{IAM}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ],
}

MAY: tuple[tuple[Any, ...], ...] = (
    ("iam:CreateRole", ROLE, BOUNDED),
    ("iam:PutRolePolicy", ROLE, BOUNDED),
    ("iam:PassRole", ROLE),
    ("cloudformation:CreateChangeSet", f"{CLOUDFORMATION}/compilegate-foundation/1"),
    ("s3:PutBucketPolicy", f"arn:aws:s3:::compilegate-{ACCOUNT}-{REGION}"),
    ("sagemaker:CreatePipeline", f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:pipeline/compilegate-x"),
    ("kms:TagResource", KEY, TAGGED_OURS),
    ("kms:PutKeyPolicy", KEY, OURS),
    ("scheduler:CreateSchedule", f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/compilegate/x"),
)
MAY_NOT: tuple[tuple[Any, ...], ...] = (
    ("iam:CreateRole", ROLE),
    ("iam:CreateRole", f"{IAM}:role/Admin", BOUNDED),
    ("iam:PutRolePolicy", ROLE, {"iam:PermissionsBoundary": f"{IAM}:policy/another"}),
    ("iam:AttachRolePolicy", ROLE),
    ("iam:DeleteRolePermissionsBoundary", ROLE),
    ("iam:CreatePolicyVersion", f"{IAM}:policy/compilegate-boundary"),
    ("iam:CreatePolicyVersion", f"{IAM}:policy/compilegate-deployment"),
    ("iam:CreateUser", f"{IAM}:user/me"),
    ("iam:PassRole", f"{IAM}:role/Admin"),
    ("cloudformation:UpdateStack", f"{CLOUDFORMATION}/of-another-team/1"),
    ("cloudformation:DeleteStack", f"{CLOUDFORMATION}/of-another-team/1"),
    ("s3:GetObject", "arn:aws:s3:::payroll/2026.csv"),
    ("kms:PutKeyPolicy", KEY, {"aws:ResourceTag/compilegate:project": "another"}),
    ("kms:TagResource", KEY, {**TAGGED_OURS, "aws:ResourceTag/compilegate:project": "another"}),
    ("kms:TagResource", KEY),
    ("sts:AssumeRole", f"{IAM}:role/Admin"),
    ("ec2:RunInstances", f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/*"),
)


@pytest.mark.slow
def test_a_deployment_reaches_the_project_and_nothing_else() -> None:
    answers = _ask(deployment_policy(ARNS_HERE, NAMES), [*MAY, *MAY_NOT])
    assert [q for q, answer in zip(MAY, answers, strict=False) if answer != "Allowed"] == []
    refused = answers[len(MAY) :]
    assert [q for q, a in zip(MAY_NOT, refused, strict=True) if a == "Allowed"] == []


EC2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}"
VPC, GROUP = f"{EC2}:vpc/vpc-1", f"{EC2}:security-group/sg-1"
MAY_IN_A_NETWORK: tuple[tuple[Any, ...], ...] = (
    ("ec2:CreateVpc", VPC, TAGGED_OURS),
    ("ec2:CreateTags", VPC, {**TAGGED_OURS, "ec2:CreateAction": "CreateVpc"}),
    ("ec2:AuthorizeSecurityGroupIngress", GROUP, OURS),
    ("ec2:DeleteVpc", VPC, OURS),
    ("ec2:DescribeVpcs", "*"),
)
MAY_NOT_IN_A_NETWORK: tuple[tuple[Any, ...], ...] = (
    ("ec2:CreateVpc", VPC),
    ("ec2:CreateTags", VPC, TAGGED_OURS),
    ("ec2:DeleteVpc", VPC),
    ("ec2:AuthorizeSecurityGroupIngress", GROUP, {"aws:ResourceTag/compilegate:project": "other"}),
    ("ec2:CreateInternetGateway", f"{EC2}:internet-gateway/igw-1", TAGGED_OURS),
    ("ec2:AttachInternetGateway", VPC, OURS),
    ("ec2:CreateNatGateway", f"{EC2}:natgateway/nat-1", TAGGED_OURS),
    ("ec2:CreateRoute", f"{EC2}:route-table/rtb-1", OURS),
    ("ec2:RunInstances", f"{EC2}:instance/*", TAGGED_OURS),
)


@pytest.mark.slow
def test_a_deployment_makes_a_network_of_its_own_and_no_way_out_of_it() -> None:
    asked = [*MAY_IN_A_NETWORK, *MAY_NOT_IN_A_NETWORK]
    answers = _ask(deployment_policy(ARNS_HERE, names_of("compilegate", network=True)), asked)
    allowed = {"Allowed"}
    assert set(answers[: len(MAY_IN_A_NETWORK)]) == allowed
    refused = zip(MAY_NOT_IN_A_NETWORK, answers[len(MAY_IN_A_NETWORK) :], strict=True)
    assert [question for question, answer in refused if answer in allowed] == []
    without = _ask(deployment_policy(ARNS_HERE, NAMES), list(MAY_IN_A_NETWORK))
    assert set(without).isdisjoint(allowed), "where the settings ask for none"


@pytest.mark.slow
def test_no_role_of_the_project_can_make_or_change_a_role() -> None:
    """Whatever its own policy allows: here, everything."""
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    forbidden = [
        *(question for question in [*MAY, *MAY_NOT] if question[0].startswith("iam:")),
        ("iam:PassRole", ROLE, {"iam:PassedToService": "lambda.amazonaws.com"}),
        ("s3:GetObject", "arn:aws:s3:::payroll/2026.csv"),
        ("sts:AssumeRole", f"{IAM}:role/cdk-{NAMES.qualifier}-cfn-exec-role-{ACCOUNT}-{REGION}"),
    ]
    answers = _ask(
        {"Version": "2012-10-17", "Statement": [everything]},
        forbidden,
        boundary_policy(ARNS_HERE, NAMES),
    )
    assert [q for q, a in zip(forbidden, answers, strict=True) if a == "Allowed"] == []


def test_both_policies_fit_what_iam_takes() -> None:
    names = names_of("a" * 20, network=True)
    for policy in (deployment_policy(ARNS_HERE, names), boundary_policy(ARNS_HERE, names)):
        assert len(json.dumps(policy, separators=(",", ":"))) <= LARGEST_MANAGED_POLICY


def _ask(
    policy: dict[str, Any],
    questions: list[tuple[Any, ...]],
    boundary: dict[str, Any] | None = None,
) -> list[str]:
    requests = [
        {
            "principal": f"{IAM}:role/somebody",
            "policies": [policy],
            "action": action,
            "resource": resource,
            "account": ACCOUNT,
            "context": context[0] if context else {},
            "boundary": boundary,
            # A key obeys its own policy first, which lets the account's own decide.
            "resourcePolicy": ACCOUNT_DECIDES if action.startswith("kms:") else None,
        }
        for action, resource, *context in questions
    ]
    done = subprocess.run(
        ["node", str(PROGRAM)],
        input=json.dumps([{k: v for k, v in asked.items() if v is not None} for asked in requests]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[str] = json.loads(done.stdout)
    return answers
