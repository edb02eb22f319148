"""Everything that a policy allows can be granted, and all that a request needs is allowed: held
against what AWS's reference says that each action authorizes."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from compilegate.access import Arns
from compilegate.account.settings.declaration import Source, Storage
from compilegate.infra.bootstrap import LARGEST_MANAGED_POLICY, policies
from tests.infra.access.authorization import faults
from tests.infra.access.engine import OF_RESOURCES, names_of
from tests.infra.assembly import ACCOUNT, Assembly

pytestmark = pytest.mark.slow


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


LONGEST = {
    "bucket": "b" * 63,
    "repository_prefix": "r" * 200,
    "key_alias": f"alias/{'k' * 250}",
    "topic": "t" * 256,
    "schedule_group": "g" * 64,
}


@pytest.mark.parametrize("partition", boto3.Session().get_available_partitions())
@pytest.mark.parametrize("theirs", [False, True], ids=["own key", "their key"])
def test_the_policies_of_the_bootstrap_grant_what_they_say_and_fit_with_the_longest_names(
    theirs: bool, partition: str
) -> None:
    regions = boto3.Session().get_available_regions("s3", partition)
    arns = Arns(partition=partition, region=max(regions, key=len), account=ACCOUNT)
    key = arns.of_service("kms", f"key/mrk-{'0' * 32}") if theirs else None
    # Regions of some partitions have names that no settings have.
    source = Source.model_construct(
        account=ACCOUNT, region=arns.region, project="s" * 20, bucket="s" * 63
    )
    names = names_of(
        "p" * 20,
        names=LONGEST,
        network={"create": True},
        storage=Storage.model_construct(key_arn=key),
        source=source,
    )
    for name, document in policies(arns, names).items():
        assert len(json.dumps(document, separators=(",", ":"))) <= LARGEST_MANAGED_POLICY, name
        assert len(name) <= 128
        assert list(faults(document)) == []


SUBNET, VPC = (f"arn:aws:ec2:us-east-1:123456789012:{each}/*" for each in ("subnet", "vpc"))
ASKED = {"StringEquals": {"aws:RequestTag/project": "x"}}
HAD = {"StringEquals": {"aws:ResourceTag/project": "x"}}


def allow(action: str, resources: str = "*", condition: Any = None) -> dict[str, Any]:
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


@pytest.mark.parametrize(("statements", "sentences"), SEEN)
def test_what_cannot_be_granted_is_seen(
    statements: list[dict[str, Any]], sentences: list[str]
) -> None:
    assert list(faults({"Statement": statements})) == sentences
