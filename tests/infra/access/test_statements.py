"""A statement that a reader could not justify is never made."""

from __future__ import annotations

from typing import Any

import pytest

from compilegate.access import Statement

pytestmark = pytest.mark.slow


def statement(**parts: Any) -> Statement:
    return Statement(
        **{"sid": "Read", "actions": ["s3:GetObject"], "resources": ["arn:aws:s3:::b/k"], **parts}
    )


def test_a_statement_becomes_what_iam_takes() -> None:
    assert statement(conditions={"Bool": {"aws:SecureTransport": "true"}}).document() == {
        "Sid": "Read",
        "Effect": "Allow",
        "Action": ["s3:GetObject"],
        "Resource": ["arn:aws:s3:::b/k"],
        "Condition": {"Bool": {"aws:SecureTransport": "true"}},
    }
    assert "Condition" not in statement().document()


def test_a_resource_with_a_wildcard_needs_its_reason_and_an_action_has_none() -> None:
    everything = {"resources": ["arn:aws:s3:::b/*"]}
    assert statement(**everything, because="Keys are digests").because
    with pytest.raises(ValueError, match=r"Read: resource arn:aws:s3:::b/\* without a reason"):
        statement(**everything)
    with pytest.raises(ValueError, match=r"Read: action s3:Get\*"):
        statement(actions=["s3:Get*"], because="It is shorter")


def test_a_role_that_would_say_more_than_iam_takes_is_refused_by_name() -> None:
    from aws_cdk import App, Stack  # noqa: PLC0415
    from aws_cdk import aws_iam as iam  # noqa: PLC0415

    from compilegate.infra.parts import PolicySizeError, scoped_role  # noqa: PLC0415

    def role(number: int) -> None:
        keys = [f"arn:aws:s3:::bucket/incoming/of-workload-{index:04}" for index in range(number)]
        scoped_role(
            Stack(App(), "Foundation"),
            "ProcessingRole",
            trusted=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description="Jobs",
            statements=[statement(resources=keys)],
        )

    role(200)
    with pytest.raises(
        PolicySizeError, match=r"^Foundation: the policy of ProcessingRole has 1\d,"
    ):
        role(250)
