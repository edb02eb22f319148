"""`compilegate doctor NAME --aws`: its jobs have the account's own names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.account.command import compilegate
from tests.account.deployed import PIPELINE, ROLE, deploy
from tests.aws_server.client import PROJECT, AwsServer

pytestmark = pytest.mark.slow


def test_the_jobs_are_those_of_the_deployed_definition(aws: AwsServer, project: Path) -> None:
    golden = (PROJECT / "tests" / "pipelines" / "golden" / "topics.json").read_text()
    account = deploy(aws, golden.replace("000000000000", "123456789012"))
    done = compilegate(aws, project, "doctor", "topics", "--aws", "-o", "doctor.json")
    assert done.returncode == 0, done.stderr
    definition = (project / "doctor.json").read_text()
    steps = json.loads(definition)["Steps"]
    assert steps[0]["Name"] == "Doctor-baseline"
    assert all(
        "123456789012" in each["Arguments"]["AlgorithmSpecification"]["TrainingImage"]
        for each in steps
    )
    assert f"--role-arn {ROLE}-pipeline" in done.stdout
    # The service takes what was written, and no pipeline of the project's was touched.
    sagemaker = account.server.client("sagemaker")
    sagemaker.create_pipeline(
        PipelineName="topics-doctor", PipelineDefinition=definition, RoleArn=f"{ROLE}-pipeline"
    )
    kept = sagemaker.describe_pipeline(PipelineName=PIPELINE)["PipelineDefinition"]
    assert "Doctor-" not in kept


def test_without_a_deployment_or_a_file_it_is_refused(aws: AwsServer, project: Path) -> None:
    fileless = compilegate(aws, project, "doctor", "topics", "--aws")
    assert fileless.returncode == 2
    assert "--aws needs --output FILE" in fileless.stderr
    absent = compilegate(aws, project, "doctor", "topics", "--aws", "-o", "doctor.json")
    assert absent.returncode != 0
    assert "there is no stack compilegate-workload-topics" in absent.stderr
    assert not (project / "doctor.json").exists()
