"""What the account of the next stage may read here, to promote a model, and what it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compilegate.access import Arns
from compilegate.access.sharing import group_policy
from tests.infra.assembly import ACCOUNT, REGION

READER = "210987654321"
KINDS = {
    "AWS::S3::BucketPolicy": ("PolicyDocument", {"s3:GetObject"}),
    "AWS::KMS::Key": ("KeyPolicy", {"kms:Decrypt", "kms:DescribeKey"}),
    "AWS::ECR::Repository": (
        "RepositoryPolicyText",
        {"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("readers", [[READER], []], ids=["a reader", "nobody"])
def test_a_reader_is_let_into_bucket_key_and_repositories(readers: list[str]) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from aws_cdk import App, Environment  # noqa: PLC0415
    from aws_cdk.assertions import Template  # noqa: PLC0415

    from compilegate.account.settings import Settings  # noqa: PLC0415
    from compilegate.infra.foundation import FoundationStack  # noqa: PLC0415
    from compilegate.infra.project import read_project  # noqa: PLC0415

    project = replace(
        read_project(Path(__file__).parents[1] / "project"),
        settings=Settings.model_validate({"readers": readers}),
    )
    stack = FoundationStack(
        App(),
        "compilegate-foundation",
        project=project,
        env=Environment(account=ACCOUNT, region=REGION),
    )
    found = 0
    for resource in Template.from_stack(stack).to_json()["Resources"].values():
        if resource["Type"] not in KINDS:
            continue
        key, actions = KINDS[resource["Type"]]
        statements = resource["Properties"].get(key, {}).get("Statement", [])
        theirs = [each for each in statements if READER in json.dumps(each.get("Principal"))]
        for statement in theirs:
            found += 1
            assert set(_listed(statement["Action"])) == actions
            if resource["Type"] == "AWS::S3::BucketPolicy":
                shared = json.dumps(statement["Resource"])
                assert "/workloads/*/models/*" in shared
                assert "/workloads/*/verdicts/*" in shared
                assert "data" not in shared
    assert found == (4 if readers else 0), "bucket, key and two repositories"


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def test_a_group_lets_its_versions_be_looked_at_and_not_changed() -> None:
    arns = Arns(partition="aws", region=REGION, account=ACCOUNT)
    (statement,) = group_policy(arns, "news-topics", [READER])["Statement"]
    assert statement["Principal"] == {"AWS": [f"arn:aws:iam::{READER}:root"]}
    assert statement["Action"] == ["sagemaker:DescribeModelPackage", "sagemaker:ListModelPackages"]
    assert all("/news-topics" in each for each in statement["Resource"])
