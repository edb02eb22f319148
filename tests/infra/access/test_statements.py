"""Statements and roles say why, fit into IAM, and are the same whoever makes the roles."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compilegate.access import Statement
from compilegate.account.roles import OfflineAccount, offline_roles
from compilegate.account.settings import Names
from compilegate.infra.project import read_project
from tests.infra.assembly import ACCOUNT, PROJECT, REGION, Assembly

pytestmark = pytest.mark.slow


def statement(**parts: Any) -> Statement:
    return Statement(
        **{"sid": "Read", "actions": ["s3:GetObject"], "resources": ["arn:aws:s3:::b/k"], **parts}
    )


def test_a_resource_with_a_wildcard_needs_its_reason_and_an_action_has_none() -> None:
    everything = {"resources": ["arn:aws:s3:::b/*"]}
    assert statement(**everything, because="Keys are digests").because
    with pytest.raises(ValueError, match=r"Read: resource arn:aws:s3:::b/\* without a reason"):
        statement(**everything)
    with pytest.raises(ValueError, match=r"Read: action s3:Get\*"):
        statement(actions=["s3:Get*"], because="It is shorter")


def test_a_policy_that_is_too_large_for_iam_is_refused_with_its_role() -> None:
    from aws_cdk import App, Stack  # noqa: PLC0415
    from aws_cdk import aws_iam as iam  # noqa: PLC0415

    from compilegate.infra.parts import PolicySizeError, scoped_role  # noqa: PLC0415

    def role(number: int) -> None:
        keys = [f"arn:aws:s3:::bucket/incoming/of-workload-{index:04}" for index in range(number)]
        scoped_role(
            Stack(App(), "Foundation"),
            "ProcessingRole",
            trusted=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description="Jobs",
            statements=[statement(resources=keys)],
        )

    role(200)
    with pytest.raises(PolicySizeError, match=r"^Foundation: the policy of ProcessingRole has 1\d"):
        role(250)


def test_the_roles_that_are_printed_are_those_that_a_deployment_makes(assembly: Assembly) -> None:
    project = read_project(PROJECT / "tests" / "infra" / "project")
    key, names = (
        assembly.one("compilegate-foundation", "AWS::KMS::Key").arn,
        Names(project.settings),
    )
    place = OfflineAccount(names=names, account=ACCOUNT, region=REGION, key_arn=key)
    (workload,) = [each.workload for each in project.workloads if each.workload.name == "topics"]
    printed = offline_roles(place, workload, project.images)
    deployed = {
        kind: assembly.one("compilegate-workload-topics", "AWS::IAM::Role", f"{kind.title()}Role")
        for kind in ("training", "processing", "pipeline")
    }
    assets = f"arn:aws:s3:::cdk-{names.qualifier}-assets-{ACCOUNT}-{REGION}/compilegate/compilegate"
    for kind, role in deployed.items():
        (policy,) = role.properties["Policies"]
        text = json.dumps(policy["PolicyDocument"])
        text = text.replace(f"{assets}/topics/", f"arn:aws:s3:::{place.bucket}/compilegate/source/")
        for other, made in deployed.items():
            text = text.replace(made.arn, place.role_arn("topics", other))
        assert statements(printed[kind].policy) == statements(json.loads(text))
        assert printed[kind].trust == role.properties["AssumeRolePolicyDocument"]


def statements(document: Any) -> dict[str, Any]:
    """By Sid, but for two about the bucket that code lies in, which is another one, and for the
    deliveries, which start nothing where there is no function for them. The CDK writes one action,
    resource or value as itself, and several as a list."""

    def several(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: several(item) for key, item in value.items()}
        values = value if isinstance(value, list | tuple) else [value]
        return sorted(one for one in values if "incoming/topics/" not in one)

    return {
        each["Sid"]: several({"Condition": {}, **each})
        for each in document["Statement"]
        if each["Sid"] not in ("ListCode", "FindBuckets")
    }
