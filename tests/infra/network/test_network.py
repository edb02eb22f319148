"""The network that a project makes for its jobs: what leads where, and who uses it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.infra.assembly import ACCOUNT, REGION, Assembly
from tests.infra.test_templates import normalised

pytestmark = pytest.mark.slow

NETWORK, WORKLOAD = "walled-network", "walled-workload-topics"
HERE = Path(__file__).parents[1]
GOLDEN = HERE / "golden"


def test_the_template_of_the_network_is_the_golden_one(assembly: Assembly) -> None:
    """`UPDATE_GOLDEN=1` writes it anew; read the difference."""
    text = normalised(assembly.templates[NETWORK])
    golden = GOLDEN / "network.template.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_without_being_asked_for_there_is_none(assembly: Assembly) -> None:
    assert [stack for stack in assembly.templates if stack.endswith("-network")] == [NETWORK]


def test_what_goes_out_is_https_alone(assembly: Assembly) -> None:
    jobs = assembly.one(NETWORK, "AWS::EC2::SecurityGroup", "Jobs")
    (out,) = jobs.properties["SecurityGroupEgress"]
    assert (out["FromPort"], out["ToPort"]) == (443, 443)
    assert "SecurityGroupIngress" not in jobs.properties
    (let_in,) = assembly.resources(NETWORK, "AWS::EC2::SecurityGroupIngress")
    entrance = assembly.one(NETWORK, "AWS::EC2::SecurityGroup", "Endpoints")
    for key, value in {
        "GroupId": entrance.logical_id,
        "SourceSecurityGroupId": jobs.logical_id,
        "FromPort": 443,
        "ToPort": 443,
    }.items():
        assert let_in.properties[key] == value


def test_every_job_runs_in_it(assembly: Assembly) -> None:
    steps = _steps(assembly)
    training = [step["Arguments"] for step in steps if step["Type"] == "Training"]
    processing = [
        step["Arguments"]["NetworkConfig"] for step in steps if step["Type"] == "Processing"
    ]
    assert len(training) == 4
    assert len(processing) >= 3
    outputs = assembly.outputs(NETWORK)
    for members in (*training, *processing):
        assert members["VpcConfig"] == {
            "SecurityGroupIds": [outputs["SecurityGroupId"]],
            "Subnets": outputs["SubnetIds"].split(","),
        }
    assert not [each for each in training if "EnableNetworkIsolation" in each], "declared apart"


def _steps(assembly: Assembly) -> list[dict[str, Any]]:
    body = assembly.one(WORKLOAD, "AWS::SageMaker::Pipeline").properties["PipelineDefinition"]
    found: list[dict[str, Any]] = []
    left = json.loads(body["PipelineDefinitionBody"])["Steps"]
    while left:
        step = left.pop()
        found.append(step)
        for branch in ("IfSteps", "ElseSteps"):
            left += step["Arguments"].get(branch, [])
    return found


def test_the_definition_is_what_a_client_compiles_with_the_stack_s_outputs(
    assembly: Assembly,
) -> None:
    """So that `compilegate aws plan` finds it unchanged."""
    from compilegate.account.deployed import StackOutputs  # noqa: PLC0415
    from compilegate.account.plan.planning import target_deployment  # noqa: PLC0415
    from compilegate.account.settings import Names, Settings  # noqa: PLC0415
    from compilegate.pipelines.requests.keys_network_tags import (  # noqa: PLC0415
        training_network,
    )

    def outputs(stack: str) -> StackOutputs:
        return StackOutputs(stack, assembly.outputs(stack))

    settings = Settings.model_validate({"project": "walled", "network": {"create": True}})
    deployment = target_deployment(
        outputs("walled-foundation"),
        outputs(WORKLOAD),
        Names(settings),
        {"training": "1", "gate": "1"},
        REGION,
        network=outputs(NETWORK),
    )
    train = next(step for step in _steps(assembly) if step["Type"] == "Training")["Arguments"]
    assert training_network(deployment) == {"VpcConfig": train["VpcConfig"]}


INTERFACES = dict.fromkeys(["ecr.api", "ecr.dkr", "kms", "logs", "monitoring"], "Interface")
ZONES = ["us-east-1b", "us-east-1c", "us-east-1f"]
SUBNETS = ["10.64.0.0/19", "10.64.32.0/19"]
GATEWAY = {"s3": "Gateway"}


@pytest.mark.parametrize(
    ("settings", "zones", "blocks", "endpoints", "groups_and_hosts"),
    [
        ({}, None, SUBNETS, {**GATEWAY, **INTERFACES}, (2, 0)),
        ({"instances": 2}, None, SUBNETS, {**GATEWAY, **INTERFACES}, (2, 1)),
        ({"isolation": True}, None, SUBNETS, GATEWAY, (1, 0)),
        (
            {
                "cidr": "172.20.0.0/20",
                "zones": ZONES,
                "endpoints": ["secretsmanager", "dynamodb"],
            },
            ZONES,
            ["172.20.0.0/23", "172.20.2.0/23", "172.20.4.0/23"],
            {**GATEWAY, "dynamodb": "Gateway", "secretsmanager": "Interface"},
            (2, 0),
        ),
    ],
    ids=["by itself", "several hosts", "isolated", "with everything said"],
)
def test_the_settings_choose_what_is_made(
    settings: dict[str, Any],
    zones: list[str] | None,
    blocks: list[str],
    endpoints: dict[str, str],
    groups_and_hosts: tuple[int, int],
) -> None:
    made = _template(**settings)
    subnets = _of_type(made, "AWS::EC2::Subnet")
    assert [one["CidrBlock"] for one in subnets] == blocks
    first_zones = [{"Fn::Select": [n, {"Fn::GetAZs": ""}]} for n in range(len(blocks))]
    assert [one["AvailabilityZone"] for one in subnets] == (zones or first_zones)
    there = {
        _service(each["ServiceName"]): each["VpcEndpointType"]
        for each in _of_type(made, "AWS::EC2::VPCEndpoint")
    }
    assert there == endpoints
    # Hosts of one job reach each other on every port, only where a job has several.
    within = [
        rule
        for rule in _of_type(made, "AWS::EC2::SecurityGroupIngress")
        if rule["GroupId"] == rule["SourceSecurityGroupId"]
    ]
    assert len(within) == len(_of_type(made, "AWS::EC2::SecurityGroupEgress"))
    assert (len(_of_type(made, "AWS::EC2::SecurityGroup")), len(within)) == groups_and_hosts


def _service(name: Any) -> str:
    text = name if isinstance(name, str) else "".join(map(str, name["Fn::Join"][1]))
    return text.removeprefix(f"com.amazonaws.{REGION}.").rpartition("}.")[2]


def _of_type(template: dict[str, Any], type: str) -> list[dict[str, Any]]:
    return [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == type
    ]


def _template(instances: int = 1, **network: Any) -> dict[str, Any]:
    """The network of `tests/infra/project`, with these settings."""
    from aws_cdk import App, Environment  # noqa: PLC0415
    from aws_cdk.assertions import Template  # noqa: PLC0415

    from compilegate.account.settings import Settings  # noqa: PLC0415
    from compilegate.infra.foundation import FoundationStack  # noqa: PLC0415
    from compilegate.infra.network import NetworkStack  # noqa: PLC0415
    from compilegate.infra.project import read_project  # noqa: PLC0415

    project = read_project(HERE / "project")
    (first, *others) = project.workloads
    arms = {
        name: arm.model_copy(update={"instance_count": instances})
        for name, arm in first.workload.arms.items()
    }
    project = replace(
        project,
        settings=Settings.model_validate({"network": {"create": True, **network}}),
        workloads=[replace(first, workload=replace(first.workload, arms=arms)), *others],
    )
    app, env = App(), Environment(account=ACCOUNT, region=REGION)
    foundation = FoundationStack(app, "compilegate-foundation", project=project, env=env)
    stack = NetworkStack(
        app, "compilegate-network", project=project, foundation=foundation, env=env
    )
    template: dict[str, Any] = Template.from_stack(stack).to_json()
    return template
