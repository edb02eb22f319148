"""From dev to prod: two stages in two accounts, deployed by the CDK's own CLI.

Whoever works in prod has assumed a role there, and sees of dev what dev's policies share: the
stand-in asks them. The model is registered as the pipeline would do it; from there on all is as
deployed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compilegate.account.settings import STAGE_VARIABLE
from tests.account.command import compilegate
from tests.aws_server.client import ACCOUNT, REGION, AwsServer, running_server
from tests.infra.deployment.cdk_cli import Cdk
from tests.infra.deployment.deployed import Deployment
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
    monkeypatch: pytest.MonkeyPatch
    stage: str = "dev"

    @property
    def deployment(self) -> Deployment:
        return self.deployments[self.stage]

    @property
    def aws(self) -> AwsServer:
        return self.deployment.aws

    @property
    def bucket(self) -> str:
        return f"trial{self.stage}-{self.aws.account}-{REGION}"

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
            ModelPackageGroupName=f"trial{self.stage}-tiny",
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


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stages]:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")  # nothing answers there
    with running_server() as aws:
        project = Project.make(tmp_path)
        (tmp_path / "infra" / "settings.toml").write_text(SETTINGS)
        # Where people approve models, no workload may ask for more.
        project.change(
            'ModelApprovalStatus = "Approved"', 'ModelApprovalStatus = "PendingManualApproval"'
        )
        accounts = {"dev": aws, "prod": aws.in_account(PROD)}
        deployments = {
            stage: Deployment(project, each, Cdk(tmp_path, each))
            for stage, each in accounts.items()
        }
        yield Stages(deployments, monkeypatch)


def test_a_model_goes_from_dev_to_prod(stages: Stages) -> None:
    for stage, account in (("dev", ACCOUNT), ("prod", PROD)):
        stages.choose(stage)
        stages.deployment.cdk.bootstrap()
        shutil.rmtree(stages.deployment.project.path / "cdk.out", ignore_errors=True)
        stages.deployment.cdk.synth()
        stages.deployment.cdk.deploy()
        listed = stages.aws.client("sagemaker").list_pipelines()["PipelineSummaries"]
        assert [f":{account}:" in item["PipelineArn"] for item in listed] == [True]
    stages.choose("dev")
    stages.register()
    from_dev = stages.bucket
    stages.choose("prod")
    refused = stages.ask("aws", "promote", "tiny/1", status=2)
    assert "trialdev-tiny/1 of account 123456789012 is PendingManualApproval, allowed: a" in refused

    stages.choose("dev")
    stages.ask("models", "approve", "tiny/1", "--aws", "--reason", "as good")
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
    (approved,) = stages.aws.client("sagemaker").list_model_packages(
        ModelPackageGroupName="trialprod-tiny", ModelApprovalStatus="Approved"
    )["ModelPackageSummaryList"]
    assert approved["ModelPackageArn"].endswith(f":{PROD}:model-package/trialprod-tiny/1")
