"""Workloads that are deployed and no longer declared are named with what they cost, and removed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.account.deployed import create_stack
from tests.aws_server.client import PROJECT, AwsServer

pytestmark = pytest.mark.slow
TOPICS = PROJECT / "tests" / "pipelines" / "topics.toml"
DEFINITION = json.dumps(
    {
        "Version": "2020-12-01",
        "Steps": [
            {
                "Name": "Train-baseline-7",
                "Type": "Training",
                "Arguments": {
                    "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
                    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
                },
            }
        ],
    }
)


@pytest.fixture
def checkout(tmp_path: Path, aws: AwsServer) -> Path:
    """Declares `topics`; deployed are `topics`, `older`, and another project's `older`."""
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "topics.toml").write_text(TOPICS.read_text())
    for name in ("compilegate-workload-topics", "neighbour-workload-older"):
        create_stack(aws, name, {"PipelineName": name})
    aws.client("sagemaker").create_pipeline(
        PipelineName="compilegate-older",
        PipelineDefinition=DEFINITION,
        RoleArn="arn:aws:iam::123456789012:role/pipeline",
    )
    scheduler = aws.client("scheduler")
    scheduler.create_schedule_group(Name="compilegate")
    scheduler.create_schedule(
        GroupName="compilegate",
        Name="compilegate-older",
        ScheduleExpression="rate(7 days)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": "arn:aws:sagemaker:x", "RoleArn": "arn:aws:iam::123456789012:role/clock"},
    )
    create_stack(
        aws,
        "compilegate-workload-older",
        {"PipelineName": "compilegate-older", "ScheduleName": "compilegate-older"},
    )
    return tmp_path


def look(aws: AwsServer, checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "compilegate.infra.orphans", *arguments],
        cwd=checkout,
        env=aws.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def stacks(aws: AwsServer) -> list[str]:
    found = aws.client("cloudformation").describe_stacks()["Stacks"]
    return sorted(stack["StackName"] for stack in found)


def test_an_orphan_is_named_with_its_schedule_and_its_cost_and_only_it_is_removed(
    aws: AwsServer, checkout: Path
) -> None:
    named = look(aws, checkout)
    assert named.returncode == 0, named.stderr
    assert named.stderr.splitlines() == [
        "compilegate-workload-older: deployed and no longer declared; it trains on rate(7 days), "
        "and its executions have cost 0.00 USD this month",
        "remove what is no longer declared with: make prune",
    ]
    before = stacks(aws)

    aws.fail("DescribeStacks", "AccessDenied", times=1)
    blind = look(aws, checkout)
    assert blind.returncode == 0
    assert blind.stderr.startswith("not looked for what is no longer declared: cannot list the")

    unasked = look(aws, checkout, "--remove")
    assert unasked.returncode == 2
    assert "allowed: make prune FLAGS=--force" in unasked.stderr
    assert stacks(aws) == before

    execution = aws.client("sagemaker").start_pipeline_execution(PipelineName="compilegate-older")[
        "PipelineExecutionArn"
    ]
    running = look(aws, checkout, "--remove", "--force")
    assert running.returncode == 2
    assert f"stop it with: compilegate aws stop {execution}" in running.stderr
    assert stacks(aws) == before

    aws.client("sagemaker").stop_pipeline_execution(
        PipelineExecutionArn=execution, ClientRequestToken="s" * 32
    )
    removed = look(aws, checkout, "--remove", "--force")
    assert removed.returncode == 0, removed.stderr
    assert set(before) - set(stacks(aws)) == {"compilegate-workload-older"}
    assert look(aws, checkout).stderr == ""


def test_an_endpoint_whose_workload_is_gone_is_named_until_it_is_deleted(
    aws: AwsServer, checkout: Path
) -> None:
    sagemaker = aws.client("sagemaker")
    for name in ("compilegate-older", "neighbour-older"):
        sagemaker.create_model(ModelName=name, ExecutionRoleArn="arn:aws:iam::123456789012:role/r")
        variant = {"VariantName": "AllTraffic", "ModelName": name, "InstanceType": "ml.m5.large"}
        sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[{**variant, "InitialInstanceCount": 1}]
        )
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert "delete-endpoint" not in look(aws, checkout).stderr, "its stack is there"
    said = (
        "compilegate-older: the endpoint answers and may cost, and the workload that deployed it "
        "is gone; end it with: aws sagemaker delete-endpoint --endpoint-name compilegate-older"
    )
    assert look(aws, checkout, "--remove", "--force").stderr.splitlines()[-1] == said
    assert look(aws, checkout).stderr.splitlines() == [said]
    sagemaker.delete_endpoint(EndpointName="compilegate-older")
    assert look(aws, checkout).stderr == ""


def test_a_network_that_is_no_longer_made_is_named_and_removed(
    aws: AwsServer, tmp_path: Path
) -> None:
    create_stack(aws, "compilegate-network", {"VpcId": "vpc-1"})
    settings = tmp_path / "infra" / "settings.toml"
    settings.parent.mkdir()
    settings.write_text("[network]\ncreate = true\n")
    assert look(aws, tmp_path).stderr == ""

    settings.write_text("")
    assert look(aws, tmp_path).stderr.splitlines() == [
        "compilegate-network: deployed and no longer declared; its interface endpoints cost by the "
        "hour, whether or not anything trains",
        "remove what is no longer declared with: make prune",
    ]
    assert look(aws, tmp_path, "--remove", "--force").returncode == 0
    assert stacks(aws) == []
