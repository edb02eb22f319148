"""Stacks that are deployed and no longer declared are named, and only these are removed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.account.deployed import create_stack
from tests.aws_server.client import PROJECT, AwsServer

pytestmark = pytest.mark.slow
TOPICS = PROJECT / "tests" / "pipelines" / "topics.toml"
DECLARED = ["compilegate-workload-topics", "neighbour-workload-older"]
LEFT = [
    "compilegate-endpoint-older",
    "compilegate-endpoint-topics",
    "compilegate-network",
    "compilegate-workload-older",
]


@pytest.fixture
def checkout(tmp_path: Path, aws: AwsServer) -> Path:
    """It declares a workload without an endpoint; `older` and a network are deployed, too."""
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "topics.toml").write_text(TOPICS.read_text())
    for name in [*DECLARED, *LEFT]:
        create_stack(aws, name, {"Name": name})
    aws.client("sagemaker").create_pipeline(
        PipelineName="compilegate-older",
        PipelineDefinition="{}",
        RoleArn="arn:aws:iam::123456789012:role/pipeline",
    )
    return tmp_path


def look(aws: AwsServer, checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "compilegate.infra.leftovers", *arguments],
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


def test_leftovers_are_named_and_only_they_are_removed_once_nothing_runs(
    aws: AwsServer, checkout: Path
) -> None:
    named = look(aws, checkout)
    assert named.returncode == 0, named.stderr
    *lines, hint = named.stderr.splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == LEFT
    assert hint.endswith("make prune")
    aws.fail("DescribeStacks", "AccessDenied", times=2)
    assert look(aws, checkout).returncode == 0, "CI's roles may not look"
    assert look(aws, checkout, "--remove", "--force").returncode == 2
    unasked = look(aws, checkout, "--remove")
    assert unasked.returncode == 2
    assert "make prune FLAGS=--force" in unasked.stderr

    sagemaker = aws.client("sagemaker")
    started = sagemaker.start_pipeline_execution(PipelineName="compilegate-older")
    arn = started["PipelineExecutionArn"]
    running = look(aws, checkout, "--remove", "--force")
    assert running.returncode == 2
    assert f"compilegate aws stop {arn}" in running.stderr
    assert "compilegate-workload-older" in stacks(aws)
    sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken="s" * 32)
    removed = look(aws, checkout, "--remove", "--force")
    assert removed.returncode == 0, removed.stderr
    assert stacks(aws) == DECLARED
    assert look(aws, checkout).stderr == ""
