"""What the role that promotes may do in both accounts, by all policies that have a say: its own,
its boundary, and those of the account before."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from compilegate.infra.ci.permissions import deploy_statements
from compilegate.infra.ci.promoting import Place

from compilegate.access import Arns
from compilegate.access.bootstrap import boundary_policy
from compilegate.access.sharing import group_policy, of_bucket, of_key
from tests.infra.access.policy_engine import PROGRAM, names_of
from tests.infra.assembly import REGION

pytestmark = pytest.mark.slow

DEV, PROD, THIRD = "111111111111", "222222222222", "333333333333"
PROJECT = "news"
KEY = f"arn:aws:kms:{REGION}:{DEV}:key/1"
OWN_KEY = f"arn:aws:kms:{REGION}:{PROD}:key/2"
MODEL = "compilegate/workloads/topics/models/job/model.tar.gz"
VERDICT = "compilegate/workloads/topics/verdicts/abc/verdict.json"
ROWS = "compilegate/workloads/topics/executions/abc/rows"
WAITING = {"sagemaker:ModelApprovalStatus": "PendingManualApproval"}
APPROVED = {"sagemaker:ModelApprovalStatus": "Approved"}
BY_S3 = {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}


def arns(account: str) -> Arns:
    return Arns(partition="aws", region=REGION, account=account)


def bucket(account: str) -> str:
    return f"arn:aws:s3:::{PROJECT}-{account}-{REGION}"


@dataclass(frozen=True)
class Question:
    """May the role do this to that?"""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)
    owner: str = DEV


def package(account: str, project: str = PROJECT) -> str:
    return arns(account).sagemaker(f"model-package/{project}-topics/3")


MAY = [
    Question("sagemaker:DescribeModelPackage", package(DEV)),
    Question("s3:GetObject", f"{bucket(DEV)}/{MODEL}"),
    Question("s3:GetObject", f"{bucket(DEV)}/{VERDICT}"),
    Question("kms:Decrypt", KEY, BY_S3),
    Question("s3:PutObject", f"{bucket(PROD)}/{MODEL}", owner=PROD),
    Question("s3:PutObject", f"{bucket(PROD)}/{VERDICT}", owner=PROD),
    Question("kms:GenerateDataKey", OWN_KEY, BY_S3, owner=PROD),
    Question("sagemaker:CreateModelPackage", package(PROD), WAITING, owner=PROD),
]
MAY_NOT = [
    Question("s3:GetObject", f"{bucket(DEV)}/{ROWS}"),
    Question("s3:PutObject", f"{bucket(DEV)}/{MODEL}"),
    Question("s3:DeleteObject", f"{bucket(DEV)}/{MODEL}"),
    Question("kms:Decrypt", KEY),
    Question("sagemaker:DescribeModelPackage", package(DEV, "others")),
    Question("sagemaker:UpdateModelPackage", package(DEV), APPROVED),
    Question("sagemaker:CreateModelPackage", package(PROD), APPROVED, owner=PROD),
    Question("sagemaker:UpdateModelPackage", package(PROD), APPROVED, owner=PROD),
    Question("s3:DeleteObject", f"{bucket(PROD)}/{MODEL}", owner=PROD),
    Question("s3:PutObject", f"{bucket(PROD)}/{ROWS}", owner=PROD),
]


def ask(questions: Sequence[Question], *, reader: str = PROD, boundary: bool = True) -> list[str]:
    """The engine's answers; `reader` is whom the account before has let in."""
    source = Place(arns=arns(DEV), project=PROJECT, bucket_arn=bucket(DEV))
    statements = deploy_statements(
        arns=arns(PROD),
        project=PROJECT,
        qualifier="abc",
        bucket_arn=bucket(PROD),
        key_arn=OWN_KEY,
        repository_arns=[arns(PROD).repository(f"{PROJECT}/training")],
        base_repository_arns=[],
        source=source,
    )
    names = replace(
        names_of(PROJECT),
        bucket=bucket(PROD).rpartition(":")[2],
        source=(source.arns, source.project, bucket(DEV).rpartition(":")[2]),
    )
    requests = [
        {
            "principal": f"arn:aws:iam::{PROD}:role/{PROJECT}-ci-DeployRole",
            "policies": [_document([each.document() for each in statements])],
            "boundary": boundary_policy(arns(PROD), names) if boundary else None,
            "action": question.action,
            "resource": question.resource,
            "account": question.owner,
            "context": dict(question.context),
            "resourcePolicy": _shared(question, reader),
        }
        for question in questions
    ]
    answered = subprocess.run(
        ["node", str(PROGRAM)],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answered.returncode == 0, answered.stderr
    answers: list[str] = json.loads(answered.stdout)
    return answers


def _document(statements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _shared(question: Question, reader: str) -> dict[str, Any] | None:
    """The policy of what is asked for, as a deployment with that reader makes it."""
    if question.owner == PROD:
        # A key obeys its own policy first, which leaves the decision to its account's roles.
        if question.resource != OWN_KEY:
            return None
        everything = {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{PROD}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
        return _document([everything])
    if question.resource.startswith("arn:aws:sagemaker:"):
        return group_policy(arns(DEV), f"{PROJECT}-topics", [reader])
    shared = of_key() if question.resource == KEY else of_bucket(bucket(DEV))
    return _document(
        [
            {
                "Sid": shared.sid,
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{reader}:root"},
                "Action": list(shared.actions),
                "Resource": list(shared.resources),
            }
        ]
    )


def test_the_promoting_role_may_bring_an_approved_model_here_and_nothing_else() -> None:
    answers = ask([*MAY, *MAY_NOT])
    assert {str(each): answer for each, answer in zip(MAY, answers, strict=False)} == {
        str(each): "Allowed" for each in MAY
    }
    assert "Allowed" not in answers[len(MAY) :], [
        question
        for question, answer in zip(MAY_NOT, answers[len(MAY) :], strict=True)
        if answer == "Allowed"
    ]


def test_what_the_role_does_there_ends_with_what_the_account_before_shares() -> None:
    there = [question for question in MAY if question.owner == DEV]
    assert "Allowed" not in ask(there, reader=THIRD)


def test_what_is_refused_is_refused_by_the_roles_own_policy_and_not_only_by_its_boundary() -> None:
    assert "Allowed" not in ask(MAY_NOT, boundary=False)
