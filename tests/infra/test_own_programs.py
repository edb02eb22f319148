"""What the account grants for programs of one's own, of the repository's own workloads."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow  # imports the CDK


def test_processing_jobs_may_use_the_images_that_programs_run_in() -> None:
    from compilegate.infra.foundation.stack import processing_images  # noqa: PLC0415
    from compilegate.infra.project import read_project  # noqa: PLC0415

    assert processing_images(read_project()) == ["training", "gate", "xgboost"]


def test_a_registered_model_is_kept_by_the_workloads_that_have_a_champion_and_no_other() -> None:
    from compilegate.infra.access import Arns  # noqa: PLC0415
    from compilegate.infra.foundation.permissions import Place, processing_statements  # noqa: PLC0415

    place = Place(
        arns=Arns(partition="aws", region="us-east-1", account="123456789012"),
        bucket_arn="arn:aws:s3:::bucket",
        assets_arn="arn:aws:s3:::assets",
        key_arn="arn:aws:kms:us-east-1:123456789012:key/a",
        repository_arns=["arn:aws:ecr:us-east-1:123456789012:repository/a"],
        in_vpc=False,
    )
    (written,) = (
        statement.resources
        for statement in processing_statements(place, deliveries=[], champions=["trees"])
        if "s3:PutObject" in statement.actions
    )
    assert list(written) == [
        "arn:aws:s3:::bucket/compilegate/workloads/*/executions/*",
        "arn:aws:s3:::bucket/compilegate/workloads/trees/registered/*",
    ]
