"""A statement that a reader could not justify is never made."""

from __future__ import annotations

from typing import Any

import pytest

from compilegate.access import Statement


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


@pytest.mark.slow
def test_a_resource_with_a_wildcard_needs_its_reason() -> None:
    with pytest.raises(ValueError, match=r"Read: resource arn:aws:s3:::b/\* without a reason"):
        statement(resources=["arn:aws:s3:::b/*"])
    assert statement(resources=["arn:aws:s3:::b/*"], because="Keys are digests").because


@pytest.mark.slow
def test_an_action_with_a_wildcard_is_refused_with_or_without_a_reason() -> None:
    with pytest.raises(ValueError, match=r"action s3:Get\*, allowed: actions by their full name"):
        statement(actions=["s3:Get*"], because="It is shorter")


@pytest.mark.slow
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
    said = r"^Foundation: the policy of ProcessingRole has 1\d,\d{3} characters, allowed: 10,240; "
    with pytest.raises(PolicySizeError, match=said):
        role(250)
