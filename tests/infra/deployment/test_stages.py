"""From dev to prod to an endpoint: two stages in two accounts, deployed by the CDK's own CLI.

Whoever works in prod has assumed a role there, and sees of dev what dev's policies share: the
stand-in asks them. The model is registered as the pipeline would do it; from there on all is as
deployed: the command, the rules, the functions.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compilegate.account.settings import STAGE_VARIABLE
from tests.account.command import COMMAND, compilegate, environment
from tests.aws_server.client import ACCOUNT, REGION, AwsServer, running_server
from tests.infra.deployment.cdk_cli import Cdk
from tests.infra.deployment.deployed import Deployment
from tests.infra.deployment.functions import deliver
from tests.infra.deployment.project import Project

pytestmark = [pytest.mark.slow, pytest.mark.long]

PROD = "210987654321"
SETTINGS = f"""
workloads = ["tiny"]

[stages.dev]
account = "{ACCOUNT}"
region = "{REGION}"
project = "trialdev"

[stages.prod]
account = "{PROD}"
region = "{REGION}"
project = "trialprod"
from = "dev"
approval.trusted = ["arn:aws:iam::{PROD}:role/model-owners"]
"""
ARCHIVE = "compilegate/workloads/tiny/models/pipelines-abc-Train-baseline-1/model/model.tar.gz"
VERDICT = "compilegate/workloads/tiny/verdicts/abc/verdict.json"
DATA = "compilegate/workloads/tiny/executions/abc/prepared/rows"


@dataclass
class Stages:
    """Two deployments, and a person who goes from one to the other."""

    deployments: dict[str, Deployment]
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    stage: str = "dev"

    @property
    def deployment(self) -> Deployment:
        return self.deployments[self.stage]

    @property
    def aws(self) -> AwsServer:
        return self.deployment.aws

    @property
    def project(self) -> str:
        return f"trial{self.stage}"

    @property
    def bucket(self) -> str:
        return f"{self.project}-{self.aws.account}-{REGION}"

    def choose(self, stage: str) -> None:
        self.stage = stage
        self.monkeypatch.setenv(STAGE_VARIABLE, stage)

    def ask(self, *arguments: str, status: int = 0) -> str:
        done = compilegate(self.aws, self.deployment.project.path, *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def register(self) -> None:
        """What the last steps of an execution leave."""
        for key, body in ((ARCHIVE, b"the model"), (VERDICT, b"{}"), (DATA, b"secret")):
            self.aws.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)
        self.aws.client("sagemaker").create_model_package(
            ModelPackageGroupName=f"{self.project}-tiny",
            ModelApprovalStatus="PendingManualApproval",
            InferenceSpecification={
                "Containers": [{"Image": "image", "ModelDataUrl": f"s3://{self.bucket}/{ARCHIVE}"}],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            CustomerMetadataProperties={
                "workload": "tiny",
                "arm": "baseline",
                "verdict": f"s3://{self.bucket}/{VERDICT}",
            },
        )

    def hear_of_the_decision(self, status: str, version: int = 1) -> None:
        self._deliver(
            "SageMaker Model Package State Change",
            {
                "ModelPackageGroupName": f"{self.project}-tiny",
                "ModelPackageVersion": version,
                "ModelApprovalStatus": status,
                "UpdatedModelPackageFields": ["ModelApprovalStatus"],
            },
        )

    def deployment_ends(self) -> None:
        endpoint = f"{self.project}-tiny"
        self.aws.end_deployment(endpoint)
        self._deliver("SageMaker Endpoint State Change", {"EndpointName": endpoint})

    def _deliver(self, kind: str, detail: dict[str, Any]) -> None:
        event = {
            "source": "aws.sagemaker",
            "detail-type": kind,
            "time": "2999-11-23T10:00:00Z",
            "detail": detail,
        }
        deliver(self.deployment, event, self.folder)

    def endpoint(self) -> dict[str, Any]:
        found: dict[str, Any] = self.aws.client("sagemaker").describe_endpoint(
            EndpointName=f"{self.project}-tiny"
        )
        return found


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stages]:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")  # nothing answers there
    with running_server() as aws:
        folder = tmp_path / "project"
        folder.mkdir()
        project = Project.make(folder)
        (folder / "infra" / "settings.toml").write_text(SETTINGS)
        # In prod models are only registered as waiting, so nothing else may ask for more.
        project.change(
            'ModelApprovalStatus = "Approved"', 'ModelApprovalStatus = "PendingManualApproval"'
        )
        project.change("[new_data]", '[serving]\ndeploy = "real-time"\n\n[new_data]')
        accounts = {"dev": aws, "prod": aws.in_account(PROD)}
        yield Stages(
            {
                stage: Deployment(project, each, Cdk(folder, each))
                for stage, each in accounts.items()
            },
            tmp_path / "functions",
            monkeypatch,
        )


def test_a_model_goes_from_dev_to_prod_to_an_endpoint(stages: Stages) -> None:
    for stage in ("dev", "prod"):
        stages.choose(stage)
        stages.deployment.cdk.bootstrap()
        shutil.rmtree(stages.deployment.project.path / "cdk.out", ignore_errors=True)
        stages.deployment.cdk.synth()
        stages.deployment.cdk.deploy()
        account = {"dev": ACCOUNT, "prod": PROD}[stage]
        listed = stages.aws.client("sagemaker").list_pipelines()["PipelineSummaries"]
        assert [f":{account}:" in item["PipelineArn"] for item in listed] == [True]
    stages.choose("dev")
    stages.register()
    stages.choose("prod")
    refused = stages.ask("aws", "promote", "tiny/1", status=2)
    assert "trialdev-tiny/1 of account 123456789012 is PendingManualApproval, allowed: a" in refused

    stages.choose("dev")
    stages.ask("models", "approve", "tiny/1", "--aws", "--reason", "as good")
    stages.hear_of_the_decision("Approved")
    stages.deployment_ends()
    assert stages.endpoint()["EndpointStatus"] == "InService"
    two_decide_at_once(stages)

    from_dev = stages.bucket
    stages.choose("prod")
    s3 = stages.aws.client("s3")
    assert s3.get_object(Bucket=from_dev, Key=ARCHIVE)["Body"].read() == b"the model"
    with pytest.raises(s3.exceptions.ClientError, match="Access Denied"):
        s3.get_object(Bucket=from_dev, Key=DATA)
    assert "is trialprod-tiny/1 here; approve it with" in stages.ask("aws", "promote", "tiny/1")
    assert "is trialprod-tiny/1 here already" in stages.ask("aws", "promote", "tiny/1")
    shown = stages.ask("models", "show", "tiny/1", "--aws")
    assert "PendingManualApproval" in shown
    assert f":{ACCOUNT}:model-package/trialdev-tiny/1" in shown, "where it was promoted from"
    for key, body in ((ARCHIVE, b"the model"), (VERDICT, b"{}")):
        assert s3.get_object(Bucket=stages.bucket, Key=key)["Body"].read() == body

    stages.ask("models", "approve", "tiny/1", "--aws", "--reason", "tried in dev")
    stages.hear_of_the_decision("Approved")
    stages.deployment_ends()
    endpoint = stages.endpoint()
    assert endpoint["EndpointStatus"] == "InService"
    sagemaker = stages.aws.client("sagemaker")
    (variant,) = sagemaker.describe_endpoint_config(
        EndpointConfigName=endpoint["EndpointConfigName"]
    )["ProductionVariants"]
    model = sagemaker.describe_model(ModelName=variant["ModelName"])
    (container,) = model["Containers"]
    assert container["ModelPackageName"].endswith(f":{PROD}:model-package/trialprod-tiny/1")
    assert model["ExecutionRoleArn"].startswith(f"arn:aws:iam::{PROD}:role/trialprod-")


def two_decide_at_once(stages: Stages) -> None:
    """One approves the second version while another rejects it. Whoever wins, the endpoint ends
    with what the registry says, in whichever order the events come."""
    stages.register()
    decisions = ("approve", "reject")
    started = [
        subprocess.Popen(
            [*COMMAND, "models", decision, "tiny/2", "--aws", "--reason", "mine"],
            cwd=stages.deployment.project.path,
            env={**environment(stages.aws), STAGE_VARIABLE: stages.stage},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for decision in decisions
    ]
    said = [(process.communicate(), process.returncode) for process in started]
    for (_, error), code in said:
        assert code == 0 or (code == 2 and "somebody else decided" in error), error
    assert 0 in {code for _, code in said}

    sagemaker = stages.aws.client("sagemaker")
    listed = sagemaker.list_model_packages(ModelPackageGroupName="trialdev-tiny")
    (second,) = [
        item for item in listed["ModelPackageSummaryList"] if item["ModelPackageVersion"] == 2
    ]
    holds = second["ModelApprovalStatus"]
    assert holds in {"Approved", "Rejected"}
    for status in ("Rejected", "Approved"):
        stages.hear_of_the_decision(status, version=2)
    if stages.endpoint()["EndpointStatus"] == "Updating":
        stages.deployment_ends()
    endpoint = stages.endpoint()
    assert endpoint["EndpointStatus"] == "InService"
    answers = 2 if holds == "Approved" else 1
    assert endpoint["EndpointConfigName"].startswith(f"trialdev-tiny--{answers}-")
    # Their successor finds a registry that says one thing.
    stages.ask("models", "reject", "tiny/2", "--aws", "--reason", "neither")
    stages.hear_of_the_decision("Rejected", version=2)
    if stages.endpoint()["EndpointStatus"] == "Updating":
        stages.deployment_ends()
    assert stages.endpoint()["EndpointConfigName"].startswith("trialdev-tiny--1-")
