"""From dev to prod to an endpoint: two stages of one project, deployed by the CDK's own CLI.

Both are in the one account of the stand-in, as two projects; what another account may read is held
by the templates and the policy engine. The model is registered as the pipeline would do it; from
there on all is as deployed: the command, the rules, the functions.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compilegate.account.settings import STAGE_VARIABLE
from tests.account.command import compilegate
from tests.aws_server.client import ACCOUNT, REGION, AwsServer, running_server
from tests.infra.deployment.cdk_cli import Cdk
from tests.infra.deployment.deployed import Deployment
from tests.infra.deployment.functions import deliver
from tests.infra.deployment.project import Project

pytestmark = pytest.mark.slow

SETTINGS = f"""
workloads = ["tiny"]

[stages.dev]
account = "{ACCOUNT}"
region = "{REGION}"
project = "trialdev"

[stages.prod]
account = "{ACCOUNT}"
region = "{REGION}"
project = "trialprod"
from = "dev"
approval.trusted = ["arn:aws:iam::{ACCOUNT}:role/model-owners"]
"""
ARCHIVE = "compilegate/workloads/tiny/models/pipelines-abc-Train-baseline-1/model/model.tar.gz"
VERDICT = "compilegate/workloads/tiny/verdicts/abc/verdict.json"


@dataclass
class Stages:
    """Two deployments, and a person who goes from one to the other."""

    deployment: Deployment
    folder: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def aws(self) -> AwsServer:
        return self.deployment.aws

    def choose(self, stage: str) -> None:
        self.monkeypatch.setenv(STAGE_VARIABLE, stage)

    def ask(self, *arguments: str, status: int = 0) -> str:
        done = compilegate(self.aws, self.deployment.project.path, *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def register(self) -> None:
        """What the last steps of an execution in dev leave."""
        bucket = f"trialdev-{ACCOUNT}-{REGION}"
        for key, body in ((ARCHIVE, b"the model"), (VERDICT, b"{}")):
            self.aws.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
        self.aws.client("sagemaker").create_model_package(
            ModelPackageGroupName="trialdev-tiny",
            ModelApprovalStatus="PendingManualApproval",
            InferenceSpecification={
                "Containers": [{"Image": "image", "ModelDataUrl": f"s3://{bucket}/{ARCHIVE}"}],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            CustomerMetadataProperties={
                "workload": "tiny",
                "arm": "baseline",
                "verdict": f"s3://{bucket}/{VERDICT}",
            },
        )

    def hear_of_the_decision(self, group: str, status: str) -> None:
        self._deliver(
            "SageMaker Model Package State Change",
            {
                "ModelPackageGroupName": group,
                "ModelPackageVersion": 1,
                "ModelApprovalStatus": status,
                "UpdatedModelPackageFields": ["ModelApprovalStatus"],
            },
        )

    def deployment_ends(self, endpoint: str) -> None:
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

    def endpoint(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.aws.client("sagemaker").describe_endpoint(EndpointName=name)
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
        yield Stages(
            Deployment(project, aws, Cdk(folder, aws)), tmp_path / "functions", monkeypatch
        )


def test_a_model_goes_from_dev_to_prod_to_an_endpoint(stages: Stages) -> None:
    for stage in ("dev", "prod"):
        stages.choose(stage)
        stages.deployment.cdk.bootstrap()
        shutil.rmtree(stages.deployment.project.path / "cdk.out", ignore_errors=True)
        stages.deployment.cdk.synth()
        stages.deployment.cdk.deploy()
    stages.register()
    stages.choose("prod")
    refused = stages.ask("promote", "tiny/1", status=2)
    assert "trialdev-tiny/1 of account 123456789012 is PendingManualApproval, allowed: a" in refused

    stages.choose("dev")
    stages.ask("models", "approve", "tiny/1", "--deployed", "--reason", "as good")
    stages.hear_of_the_decision("trialdev-tiny", "Approved")
    stages.deployment_ends("trialdev-tiny")
    assert stages.endpoint("trialdev-tiny")["EndpointStatus"] == "InService"

    stages.choose("prod")
    assert "is trialprod-tiny/1 here; approve it with" in stages.ask("promote", "tiny/1")
    assert "is trialprod-tiny/1 here already" in stages.ask("promote", "tiny/1")
    shown = stages.ask("models", "show", "tiny/1", "--deployed")
    assert "PendingManualApproval" in shown
    assert "model-package/trialdev-tiny/1" in shown, "where it was promoted from"
    copied = stages.aws.client("s3").get_object(Bucket=f"trialprod-{ACCOUNT}-{REGION}", Key=ARCHIVE)
    assert copied["Body"].read() == b"the model"

    stages.ask("models", "approve", "tiny/1", "--deployed", "--reason", "tried in dev")
    stages.hear_of_the_decision("trialprod-tiny", "Approved")
    stages.deployment_ends("trialprod-tiny")
    endpoint = stages.endpoint("trialprod-tiny")
    assert endpoint["EndpointStatus"] == "InService"
    sagemaker = stages.aws.client("sagemaker")
    (variant,) = sagemaker.describe_endpoint_config(
        EndpointConfigName=endpoint["EndpointConfigName"]
    )["ProductionVariants"]
    model = sagemaker.describe_model(ModelName=variant["ModelName"])
    (container,) = model["Containers"]
    assert container["ModelPackageName"].endswith(":model-package/trialprod-tiny/1")
    assert model["ExecutionRoleArn"].startswith(f"arn:aws:iam::{ACCOUNT}:role/trialprod-")
