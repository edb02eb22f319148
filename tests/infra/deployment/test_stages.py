"""From dev to prod: two stages in two accounts, deployed by the CDK's own CLI.

Whoever works in prod has assumed a role there, and sees of dev what dev's policies share: the
stand-in asks them. The model is registered as the pipeline would do it; from there on all is as
deployed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.account.settings import SETTINGS_FILE, STAGE_VARIABLE
from tests.aws_server.client import ACCOUNT, REGION, running_server
from tests.infra.deployment.deployed import COMMAND, Deployment

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
DEV, HERE = f"trialdev-{ACCOUNT}-{REGION}", f"trialprod-{PROD}-{REGION}"
ARCHIVE = "compilegate/workloads/tiny/models/pipelines-abc-Train-baseline-1/model/model.tar.gz"
VERDICT = "compilegate/workloads/tiny/verdicts/abc/verdict.json"
DATA = "compilegate/workloads/tiny/executions/abc/prepared/rows"
OBJECTS = {ARCHIVE: b"the model", VERDICT: b"{}", DATA: b"secret"}


def test_a_model_goes_from_dev_to_prod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*arguments: str, status: int = 0) -> str:
        done = stage.attempt(*COMMAND, *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    with running_server() as aws:
        dev = Deployment.make(tmp_path, aws)
        (tmp_path / SETTINGS_FILE).write_text(SETTINGS)
        prod = Deployment(tmp_path, aws.in_account(PROD))
        for name, stage in (("dev", dev), ("prod", prod)):
            monkeypatch.setenv(STAGE_VARIABLE, name)
            stage.bootstrap()
            stage.synth()
            stage.deploy()
            (listed,) = stage.aws.client("sagemaker").list_pipelines()["PipelineSummaries"]
            assert f":{stage.aws.account}:" in listed["PipelineArn"]
        for key, body in OBJECTS.items():
            dev.aws.client("s3").put_object(Bucket=DEV, Key=key, Body=body)
        dev.aws.client("sagemaker").create_model_package(
            ModelPackageGroupName="trialdev-tiny",
            ModelApprovalStatus="PendingManualApproval",
            InferenceSpecification={
                "Containers": [{"Image": "image", "ModelDataUrl": f"s3://{DEV}/{ARCHIVE}"}],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            CustomerMetadataProperties={"arm": "baseline", "verdict": f"s3://{DEV}/{VERDICT}"},
        )
        refused = ask("aws", "promote", "tiny/1", status=2)
        assert f"trialdev-tiny/1 of account {ACCOUNT} is PendingManualApproval" in refused

        stage = dev
        monkeypatch.setenv(STAGE_VARIABLE, "dev")
        ask("models", "approve", "tiny/1", "--aws", "--reason", "as good")
        stage, s3 = prod, prod.aws.client("s3")
        monkeypatch.setenv(STAGE_VARIABLE, "prod")
        with pytest.raises(s3.exceptions.ClientError, match="Access Denied"):
            s3.get_object(Bucket=DEV, Key=DATA)
        assert "is trialprod-tiny/1 here; approve it with" in ask("aws", "promote", "tiny/1")
        assert "is trialprod-tiny/1 here already" in ask("aws", "promote", "tiny/1")
        shown = ask("models", "show", "tiny/1", "--aws")
        assert "PendingManualApproval" in shown
        assert f":{ACCOUNT}:model-package/trialdev-tiny/1" in shown, "where it was promoted from"
        for key in (ARCHIVE, VERDICT):
            assert s3.get_object(Bucket=HERE, Key=key)["Body"].read() == OBJECTS[key]
        ask("models", "approve", "tiny/1", "--aws", "--reason", "tried in dev")
        (approved,) = prod.aws.client("sagemaker").list_model_packages(
            ModelPackageGroupName="trialprod-tiny", ModelApprovalStatus="Approved"
        )["ModelPackageSummaryList"]
        assert f":{PROD}:model-package/trialprod-tiny/1" in approved["ModelPackageArn"]
