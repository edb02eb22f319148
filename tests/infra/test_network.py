"""The network that a project makes for its jobs: what leads where, and who uses it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import pytest

from compilegate.access.endpoints import DEFAULT, SERVICES_OF, STORAGE
from tests.infra.access.engine import Question, endpoint, refused
from tests.infra.access.test_definition_and_roles import all_steps
from tests.infra.assembly import ACCOUNT, REGION, Assembly
from tests.infra.test_templates import GOLDEN, PROJECT, normalised, synthesized

pytestmark = pytest.mark.slow

NETWORK, WORKLOAD = "walled-network", "walled-workload-topics"
JOB_ROLES = ("TrainingRole", "ProcessingRole")
OF_STREAMS = ("logs:CreateLogStream", "logs:PutLogEvents")
"""The engine takes no group for these."""


def test_the_template_of_the_network_is_the_golden_one(assembly: Assembly) -> None:
    """`UPDATE_GOLDEN=1` writes it anew; read the difference."""
    text = normalised(assembly.templates[NETWORK])
    golden = GOLDEN / "network.template.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_every_job_runs_in_it(assembly: Assembly) -> None:
    network = assembly.outputs(NETWORK)
    pipeline = assembly.one(WORKLOAD, "AWS::SageMaker::Pipeline").properties
    body = pipeline["PipelineDefinition"]["PipelineDefinitionBody"]
    jobs = [
        step["Arguments"]
        for step in all_steps(json.loads(body)["Steps"])
        if step["Type"] in ("Training", "Processing")
    ]
    assert len(jobs) >= 7
    for arguments in jobs:
        members = arguments.get("NetworkConfig", arguments)
        assert members["VpcConfig"] == {
            "SecurityGroupIds": [network["SecurityGroupId"]],
            "Subnets": network["SubnetIds"].split(","),
        }
        assert not arguments.get("EnableNetworkIsolation"), "declared apart"


def test_endpoints_lead_to_what_jobs_may_call_and_let_them(assembly: Assembly) -> None:
    """What leads nowhere else, the table of permissions asks."""
    allowed = {
        (action, resource)
        for starting in JOB_ROLES
        for policy in assembly.one(WORKLOAD, "AWS::IAM::Role", starting).properties["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        for action in _listed(statement["Action"])
        for resource in _listed(statement["Resource"])
    }
    endpoints = {
        each.properties["ServiceName"].removeprefix(f"com.amazonaws.{REGION}."): each
        for each in assembly.resources(NETWORK, "AWS::EC2::VPCEndpoint")
    }
    called = {action.partition(":")[0] for action, _ in allowed}
    services = {service for prefix in called for service in SERVICES_OF[prefix]}
    assert services == endpoints.keys() == {STORAGE, *DEFAULT}
    questions = [
        Question(
            endpoint(assembly, service),
            action,
            resource if resource == "*" else resource.replace("*", "x"),
            {"aws:PrincipalAccount": ACCOUNT},
        )
        for action, resource in sorted(allowed)
        for service in SERVICES_OF[action.partition(":")[0]]
        if action not in OF_STREAMS or ":log-stream:" in resource
    ]
    assert len(questions) > 20
    assert refused(assembly, questions) == []


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else value


ZONES = ["us-east-1b", "us-east-1c", "us-east-1f"]
GATEWAY = {"s3": "Gateway"}
INTERFACES = {**GATEWAY, **dict.fromkeys(DEFAULT, "Interface")}


@pytest.mark.parametrize(
    ("network", "instances", "blocks", "endpoints", "groups"),
    [
        ({}, 2, ["10.64.0.0/19", "10.64.32.0/19"], INTERFACES, 2),
        ({"isolation": True}, 1, ["10.64.0.0/19", "10.64.32.0/19"], GATEWAY, 1),
        (
            {"cidr": "172.20.0.0/20", "zones": ZONES, "endpoints": ["secretsmanager", "dynamodb"]},
            1,
            ["172.20.0.0/23", "172.20.2.0/23", "172.20.4.0/23"],
            {**GATEWAY, "dynamodb": "Gateway", "secretsmanager": "Interface"},
            2,
        ),
    ],
    ids=["several hosts", "isolated", "with everything said"],
)
def test_the_settings_choose_what_is_made(
    network: dict[str, Any],
    instances: int,
    blocks: list[str],
    endpoints: dict[str, str],
    groups: int,
) -> None:
    made = synthesized(
        "network", {"network": {"create": True, **network}}, workloads=_on_hosts(instances)
    )

    def all_of(type: str) -> list[dict[str, Any]]:
        found = made["Resources"].values()
        return [each["Properties"] for each in found if each["Type"] == f"AWS::EC2::{type}"]

    first_zones = [{"Fn::Select": [n, {"Fn::GetAZs": ""}]} for n in range(len(blocks))]
    subnets = [(one["CidrBlock"], one["AvailabilityZone"]) for one in all_of("Subnet")]
    assert subnets == [*zip(blocks, network.get("zones", first_zones), strict=True)]
    made_endpoints = {
        _service(each["ServiceName"]): each["VpcEndpointType"] for each in all_of("VPCEndpoint")
    }
    assert made_endpoints == endpoints
    # Hosts of one job reach each other on every port, only where a job has several.
    inward = [
        rule
        for rule in all_of("SecurityGroupIngress")
        if rule["GroupId"] == rule["SourceSecurityGroupId"]
    ]
    assert len(inward) == len(all_of("SecurityGroupEgress")) == instances - 1
    assert len(all_of("SecurityGroup")) == groups


def _service(name: Any) -> str:
    text = name if isinstance(name, str) else "".join(map(str, name["Fn::Join"][1]))
    return text.removeprefix(f"com.amazonaws.{REGION}.").rpartition("}.")[2]


def _on_hosts(instances: int) -> list[Any]:
    """The project's first workload, with jobs of so many hosts."""
    from compilegate.infra.project import read_project  # noqa: PLC0415

    (declared, *_) = read_project(PROJECT).workloads
    arms = {
        name: arm.model_copy(update={"instance_count": instances})
        for name, arm in declared.workload.arms.items()
    }
    return [
        replace(
            declared, workload=declared.workload.model_copy(update={"arms": arms, "budget": None})
        )
    ]
