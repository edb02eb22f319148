"""What leads out of a project's network: as much as its jobs may do, and for nobody else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compilegate.access.endpoints import DEFAULT, SERVICES_OF, STORAGE
from tests.infra.access.policy_engine import ask_policies
from tests.infra.assembly import ACCOUNT, REGION, Assembly

pytestmark = pytest.mark.slow

NETWORK, WORKLOAD = "walled-network", "walled-workload-topics"
OURS = {"aws:PrincipalAccount": ACCOUNT}
OF_STREAMS = ("logs:CreateLogStream", "logs:PutLogEvents")
"""The engine takes no group for these."""
SIGNED = f"arn:aws:s3:::prod-{REGION}-starport-layer-bucket/layer"
"""Layers of images, at addresses that ECR has signed."""


def _allowed_to_jobs(assembly: Assembly) -> list[tuple[str, str]]:
    """Each action that a role of jobs may do, with each resource."""
    return sorted(
        {
            (action, resource)
            for starting in ("TrainingRole", "ProcessingRole")
            for policy in assembly.one(WORKLOAD, "AWS::IAM::Role", starting).properties["Policies"]
            for statement in policy["PolicyDocument"]["Statement"]
            for action in _listed(statement["Action"])
            for resource in _listed(statement["Resource"])
        }
    )


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else value


def _policies(assembly: Assembly) -> dict[str, dict[str, Any]]:
    """Of each endpoint, as a policy of whoever asks: the engine knows no other."""
    found = {}
    for endpoint in assembly.resources(NETWORK, "AWS::EC2::VPCEndpoint"):
        service = endpoint.properties["ServiceName"].removeprefix(f"com.amazonaws.{REGION}.")
        document = json.loads(json.dumps(endpoint.properties["PolicyDocument"]))
        for statement in document["Statement"]:
            assert statement.pop("Principal") == "*"
        found[service] = document
    return found


@pytest.mark.slow
def test_endpoints_lead_to_the_services_that_jobs_may_call_and_no_others(
    assembly: Assembly,
) -> None:
    called = {action.partition(":")[0] for action, _ in _allowed_to_jobs(assembly)}
    services = {service for prefix in called for service in SERVICES_OF[prefix]}
    assert services == _policies(assembly).keys() == {STORAGE, *DEFAULT}


@pytest.mark.slow
def test_what_a_job_may_do_it_may_do_through_an_endpoint(assembly: Assembly) -> None:
    policies = _policies(assembly)
    asked = [
        (service, action, resource if resource == "*" else resource.replace("*", "x"))
        for action, resource in _allowed_to_jobs(assembly)
        for service in SERVICES_OF[action.partition(":")[0]]
        if action not in OF_STREAMS or ":log-stream:" in resource
    ]
    assert len(asked) > 20
    for service, policy in policies.items():
        there = [(action, resource, OURS) for each, action, resource in asked if each == service]
        assert ask_policies([policy], there) == there


@pytest.mark.slow
def test_nothing_leads_to_what_is_not_the_project_s(assembly: Assembly) -> None:
    policies = _policies(assembly)
    key = next(resource for action, resource in _allowed_to_jobs(assembly) if "kms:" in action)
    bucket = f"arn:aws:s3:::walled-{ACCOUNT}-{REGION}/x"
    stranger = {"aws:PrincipalAccount": "999999999999"}
    refused = [
        ("s3", "s3:PutObject", "arn:aws:s3:::somebody-elses/x", OURS),
        ("s3", "s3:PutObject", bucket, stranger),
        ("s3", "s3:PutBucketPolicy", f"arn:aws:s3:::walled-{ACCOUNT}-{REGION}", OURS),
        ("s3", "s3:PutObject", SIGNED, OURS),
        ("kms", "kms:Decrypt", f"arn:aws:kms:{REGION}:{ACCOUNT}:key/another", OURS),
        ("kms", "kms:Decrypt", key, stranger),
        ("ecr.api", "ecr:PutImage", f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/walled/gate", OURS),
        (
            "ecr.api",
            "ecr:BatchGetImage",
            f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/another/gate",
            OURS,
        ),
        (
            "logs",
            "logs:GetLogEvents",
            f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/x:log-stream:y",
            OURS,
        ),
        ("monitoring", "cloudwatch:GetMetricData", "*", OURS),
    ]
    for service, policy in policies.items():
        there = [
            (action, resource, has) for each, action, resource, has in refused if each == service
        ]
        assert ask_policies([policy], there) == []
    layers = [("s3:GetObject", SIGNED)]
    assert ask_policies([policies["s3"]], layers) == layers
