"""`compilegate models --aws`: what is registered in the account, and who decides about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compilegate.gate.findings import Outcome
from tests.account import scripted
from tests.account.command import compilegate
from tests.account.deployed import BUCKET, GROUP, Deployed

pytestmark = pytest.mark.slow

ARCHIVE = f"s3://{BUCKET}/compilegate/workloads/topics/models/job/model/model.tar.gz"
VERDICT = f"s3://{BUCKET}/compilegate/workloads/topics/verdicts/execution001/verdict.json"


@pytest.fixture
def registry(deployed: Deployed) -> Deployed:
    """Two versions, the first with a verdict; and a group of somebody else's."""
    sagemaker = deployed.server.client("sagemaker")
    sagemaker.create_model_package_group(ModelPackageGroupName="others-news")
    sagemaker.create_model_package(ModelPackageGroupName="others-news")
    scripted.gate_has_run(deployed, scripted.verdict("baseline", Outcome.FAIL))
    for _ in range(2):
        sagemaker.create_model_package(
            ModelPackageGroupName=GROUP,
            ModelApprovalStatus="PendingManualApproval",
            ModelPackageDescription="Topics of news",
            InferenceSpecification={
                "Containers": [{"Image": "image", "ModelDataUrl": ARCHIVE}],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            CustomerMetadataProperties={
                "workload": "topics",
                "arm": "baseline",
                "verdict": VERDICT,
                "execution": "execution001",
            },
        )
    return deployed


def test_the_models_of_the_project_are_listed_and_shown(registry: Deployed, project: Path) -> None:
    listed = compilegate(registry.server, project, "models", "list", "--aws")
    assert listed.returncode == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == [
        f"{GROUP}/1",
        f"{GROUP}/2",
    ]
    shown = compilegate(registry.server, project, "models", "--aws", "show", "news/1")
    assert shown.returncode == 0, shown.stderr
    for part in (f"{GROUP}/1", "PendingManualApproval", "Topics of news", ARCHIVE, "execution001"):
        assert part in shown.stdout
    printed = compilegate(
        registry.server, project, "models", "show", f"{GROUP}/1", "--aws", "--json"
    )
    assert json.loads(printed.stdout)["ModelApprovalStatus"] == "PendingManualApproval"


def test_a_decision_is_made_once_with_its_reason(registry: Deployed, project: Path) -> None:
    def decision(*arguments: str) -> str:
        done = compilegate(registry.server, project, "models", *arguments, "--aws")
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert decision("approve", "news/1", "--reason", "as good") == (
        "news/1: PendingManualApproval -> Approved\n"
    )
    assert decision("approve", "news/1") == "news/1: Approved\n"
    assert len(registry.server.calls("UpdateModelPackage")) == 1, "EventBridge hears of it once"
    found = registry.server.client("sagemaker").describe_model_package(
        ModelPackageName=registry.server.client("sagemaker").list_model_packages(
            ModelPackageGroupName=GROUP, ModelApprovalStatus="Approved"
        )["ModelPackageSummaryList"][0]["ModelPackageArn"]
    )
    assert found["ApprovalDescription"] == "as good"
    assert found["CustomerMetadataProperties"]["workload"] == "topics"
    assert decision("reject", "news/1", "--reason", "too slow") == "news/1: Approved -> Rejected\n"
    assert "Rejected, too slow" in decision("show", "news/1")


def test_an_impossible_decision_is_refused_in_a_sentence(registry: Deployed, project: Path) -> None:
    def refused(*arguments: str) -> str:
        done = compilegate(registry.server, project, "models", *arguments, "--aws")
        assert done.returncode == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "there is no model compilegate-news/7 in account" in refused("approve", "news/7")
    assert "'news' is neither GROUP/VERSION nor a model package's ARN" in refused("approve", "news")
    assert "--reason is missing" in refused("reject", "news/1")
    assert "there is no model package group compilegate-sports" in refused("list", "sports")
    registry.server.fail("UpdateModelPackage", "AccessDeniedException", times=1)
    assert "do not allow UpdateModelPackage" in refused("approve", "news/1")
