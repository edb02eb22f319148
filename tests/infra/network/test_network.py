"""The network that a project makes for its jobs: what leads where, and who uses it."""

from __future__ import annotations

import ipaddress
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.infra.assembly import ACCOUNT, REGION, Assembly
from tests.infra.test_templates import normalised

NETWORK, WORKLOAD = "walled-network", "walled-workload-topics"
HERE = Path(__file__).parents[1]
GOLDEN = HERE / "golden"


@pytest.mark.slow
def test_the_template_of_the_network_is_the_golden_one(assembly: Assembly) -> None:
    """`UPDATE_GOLDEN=1` writes it anew; read the difference."""
    text = normalised(assembly.templates[NETWORK])
    golden = GOLDEN / "network.template.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.slow
def test_without_being_asked_for_there_is_none(assembly: Assembly) -> None:
    assert [stack for stack in assembly.templates if stack.endswith("-network")] == [NETWORK]


@pytest.mark.slow
def test_subnets_lie_apart_in_two_zones(assembly: Assembly) -> None:
    subnets = assembly.resources(NETWORK, "AWS::EC2::Subnet")
    zones = {subnet.properties["AvailabilityZone"] for subnet in subnets}
    assert len(zones) == len(subnets) == 2
    vpc = assembly.one(NETWORK, "AWS::EC2::VPC").properties
    whole = ipaddress.IPv4Network(vpc["CidrBlock"])
    one, other = (ipaddress.IPv4Network(subnet.properties["CidrBlock"]) for subnet in subnets)
    assert all(block.subnet_of(whole) for block in (one, other))
    assert not one.overlaps(other)
    # Private names need both.
    assert (vpc["EnableDnsSupport"], vpc["EnableDnsHostnames"]) == (True, True)


@pytest.mark.slow
def test_what_goes_out_is_https_alone(assembly: Assembly) -> None:
    jobs = assembly.one(NETWORK, "AWS::EC2::SecurityGroup", "Jobs").properties
    assert [(rule["FromPort"], rule["ToPort"]) for rule in jobs["SecurityGroupEgress"]] == [
        (443, 443)
    ]
    assert "SecurityGroupIngress" not in jobs
    endpoints = assembly.one(NETWORK, "AWS::EC2::SecurityGroup", "Endpoints").properties
    (rule,) = endpoints["SecurityGroupIngress"]
    assert (rule["FromPort"], rule["ToPort"], rule["SourceSecurityGroupId"]) == (443, 443, "Jobs")


@pytest.mark.slow
def test_every_job_runs_in_it(assembly: Assembly) -> None:
    steps = _steps(assembly)
    training = [step["Arguments"] for step in steps if step["Type"] == "Training"]
    processing = [
        step["Arguments"]["NetworkConfig"] for step in steps if step["Type"] == "Processing"
    ]
    assert len(training) == 4
    assert len(processing) >= 3
    for members in (*training, *processing):
        assert members["VpcConfig"] == {
            "SecurityGroupIds": ["Jobs"],
            "Subnets": ["Subnet1", "Subnet2"],
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


@pytest.mark.slow
def test_the_definition_is_what_a_client_compiles_with_the_stack_s_outputs(
    assembly: Assembly,
) -> None:
    """So that `compilegate aws plan` finds it unchanged."""
    from compilegate.account.deployed import StackOutputs  # noqa: PLC0415
    from compilegate.account.plan.target import target_deployment  # noqa: PLC0415
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


@pytest.mark.slow
def test_hosts_of_one_job_reach_each_other_only_where_a_job_has_several(
    assembly: Assembly,
) -> None:
    alone = {resource.type for resource in assembly.resources(NETWORK)}
    assert "AWS::EC2::SecurityGroupIngress" not in alone
    several = _template(instances=2)
    (let_in,) = _of_type(several, "AWS::EC2::SecurityGroupIngress")
    assert let_in["GroupId"] == let_in["SourceSecurityGroupId"]
    (let_out,) = _of_type(several, "AWS::EC2::SecurityGroupEgress")
    assert let_out["GroupId"] == let_out["DestinationSecurityGroupId"]


@pytest.mark.slow
def test_the_settings_choose_zones_addresses_and_endpoints() -> None:
    made = _template(
        cidr="172.20.0.0/20",
        zones=["us-east-1b", "us-east-1c", "us-east-1f"],
        endpoints=["secretsmanager", "dynamodb"],
    )
    subnets = _of_type(made, "AWS::EC2::Subnet")
    assert [(one["AvailabilityZone"], one["CidrBlock"]) for one in subnets] == [
        ("us-east-1b", "172.20.0.0/23"),
        ("us-east-1c", "172.20.2.0/23"),
        ("us-east-1f", "172.20.4.0/23"),
    ]
    assert _endpoints(made) == {
        "s3": "Gateway",
        "dynamodb": "Gateway",
        "secretsmanager": "Interface",
    }


@pytest.mark.slow
def test_isolated_containers_have_the_gateway_of_s3_alone() -> None:
    made = _template(isolation=True)
    assert _endpoints(made) == {"s3": "Gateway"}
    assert len(_of_type(made, "AWS::EC2::SecurityGroup")) == 1


def _endpoints(template: dict[str, Any]) -> dict[str, str]:
    return {
        endpoint["ServiceName"].removeprefix(f"com.amazonaws.{REGION}."): endpoint[
            "VpcEndpointType"
        ]
        for endpoint in _of_type(template, "AWS::EC2::VPCEndpoint")
    }


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
