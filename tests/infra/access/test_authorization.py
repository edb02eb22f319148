"""Everything that a policy allows can be granted, and all that a request needs is allowed: held
against what AWS's reference says that each action authorizes."""

from __future__ import annotations

from typing import Any

import pytest

from compilegate.access.bootstrap import policies
from tests.infra.access.authorization import faults
from tests.infra.access.policy_engine import ARNS_HERE, names_of
from tests.infra.assembly import Assembly

pytestmark = pytest.mark.slow

OF_RESOURCES = {
    "AWS::S3::BucketPolicy": "PolicyDocument",
    "AWS::KMS::Key": "KeyPolicy",
    "AWS::ECR::Repository": "RepositoryPolicyText",
    "AWS::SNS::TopicPolicy": "PolicyDocument",
    "AWS::SQS::QueuePolicy": "PolicyDocument",
    "AWS::EC2::VPCEndpoint": "PolicyDocument",
    "AWS::SageMaker::ModelPackageGroup": "ModelPackageGroupPolicy",
}


def test_every_policy_of_a_template_grants_what_it_says(assembly: Assembly) -> None:
    found = []
    for resource in assembly.all_resources():
        key = OF_RESOURCES.get(resource.type)
        own = [resource.properties[key]] if key in resource.properties else []
        inline = [each["PolicyDocument"] for each in resource.properties.get("Policies", [])]
        for document in (*own, *inline):
            found += [
                f"{resource.stack}, {resource.logical_id}: {fault}"
                for fault in faults(document, of_resource=document in own)
            ]
    assert found == []


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("key", [None, f"arn:aws:kms:us-east-1:123456789012:key/{'0' * 32}"])
def test_the_policies_of_the_bootstrap_grant_what_they_say(network: bool, key: str | None) -> None:
    source = (ARNS_HERE, "before", "bucket-before")
    names = names_of("compilegate", network=network, key_arn=key, source=source)
    for document in policies(ARNS_HERE, names).values():
        assert list(faults(document)) == []


SUBNET, VPC = (f"arn:aws:ec2:us-east-1:123456789012:{each}/*" for each in ("subnet", "vpc"))
ASKED = {"StringEquals": {"aws:RequestTag/project": "x"}}
HAD = {"StringEquals": {"aws:ResourceTag/project": "x"}}


def allow(action: str, resources: Any = "*", condition: Any = None) -> dict[str, Any]:
    rest = {} if condition is None else {"Condition": condition}
    return {"Sid": "S", "Effect": "Allow", "Action": action, "Resource": resources, **rest}


NEVER = "S: {} is no action, or never granted on these resources"
READ, SEND, MAKE = "s3:GetObject", "sqs:SendMessage", "ec2:CreateSubnet"
SEEN: list[tuple[list[dict[str, Any]], list[str]]] = [
    ([allow(READ, "arn:aws:s3:::b/k")], []),
    ([allow("s3:FetchObject")], [NEVER.format("s3:FetchObject")]),
    (
        [allow(READ, "arn:aws:s3:::b")],
        [NEVER.format(READ), "S: no action is on arn:aws:s3:::b"],
    ),
    (
        [allow(SEND, "arn:aws:sqs:us-east-1:1:q", ASKED)],
        [NEVER.format(SEND), "sqs:sendmessage also needs a queue"],
    ),
    ([allow(MAKE, "*", ASKED)], ["ec2:createsubnet also needs a vpc"]),
    ([allow(MAKE, SUBNET, ASKED), allow(MAKE, VPC, HAD)], []),
]


@pytest.mark.parametrize(("statements", "said"), SEEN)
def test_what_cannot_be_granted_is_seen(statements: list[dict[str, Any]], said: list[str]) -> None:
    assert list(faults({"Statement": statements})) == said
