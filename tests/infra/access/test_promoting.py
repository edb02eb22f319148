"""What the role that promotes may do in both accounts, by all policies that have a say: its own,
its boundary, and those of the account before, which let in named roles or an organisation."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from compilegate.access import Arns
from compilegate.access.bootstrap import boundary_policy
from compilegate.access.sharing import group_policy, of_bucket, of_key, of_repository
from compilegate.account.settings.declaration import Source
from compilegate.infra.ci import CiPermissions
from tests.infra.access.policy_engine import PROGRAM, names_of
from tests.infra.assembly import ACCOUNT, REGION

pytestmark = pytest.mark.slow

DEV, PROD, THIRD = "111111111111", "222222222222", "333333333333"
PROJECT, ORGANISATION = "news", "o-abcdefghij"
ROLE = f"arn:aws:iam::{PROD}:role/{PROJECT}-ci-deploy"
READER = f"arn:*:iam::{PROD}:role/{PROJECT}-ci-deploy"
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


def package(account: str, project: str = PROJECT) -> str:
    return arns(account).sagemaker(f"model-package/{project}-topics/3")


IMAGE, OWN_IMAGE = (arns(each).repository(f"{PROJECT}/training") for each in (DEV, PROD))


@dataclass(frozen=True)
class Question:
    """May the role do this to that?"""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)
    owner: str = DEV


MAY = [
    Question("sagemaker:DescribeModelPackage", package(DEV)),
    Question("s3:GetObject", f"{bucket(DEV)}/{MODEL}"),
    Question("s3:GetObject", f"{bucket(DEV)}/{VERDICT}"),
    Question("kms:Decrypt", KEY, BY_S3),
    # What CreateModelPackage looks up with the caller's permissions, on both sides.
    *(
        Question(f"ecr:{action}", image, owner=owner)
        for action in ("BatchGetImage", "DescribeImages")
        for image, owner in ((IMAGE, DEV), (OWN_IMAGE, PROD))
    ),
    Question("s3:PutObject", f"{bucket(PROD)}/{MODEL}", owner=PROD),
    Question("s3:PutObject", f"{bucket(PROD)}/{VERDICT}", owner=PROD),
    Question("s3:GetObject", f"{bucket(PROD)}/{MODEL}", owner=PROD),
    Question("kms:GenerateDataKey", OWN_KEY, BY_S3, owner=PROD),
    Question("sagemaker:CreateModelPackage", package(PROD), WAITING, owner=PROD),
]
MAY_NOT = [
    Question("s3:GetObject", f"{bucket(DEV)}/{ROWS}"),
    Question("s3:PutObject", f"{bucket(DEV)}/{MODEL}"),
    Question("s3:DeleteObject", f"{bucket(DEV)}/{MODEL}"),
    Question("kms:Decrypt", KEY),
    Question("ecr:PutImage", IMAGE),
    Question("sagemaker:DescribeModelPackage", package(DEV, "others")),
    Question("sagemaker:UpdateModelPackage", package(DEV), APPROVED),
    Question("sagemaker:CreateModelPackage", package(PROD), APPROVED, owner=PROD),
    Question("sagemaker:UpdateModelPackage", package(PROD), APPROVED, owner=PROD),
    Question("s3:DeleteObject", f"{bucket(PROD)}/{MODEL}", owner=PROD),
    Question("s3:PutObject", f"{bucket(PROD)}/{ROWS}", owner=PROD),
]


def ask(
    questions: Sequence[Question],
    *,
    readers: Sequence[str] = (READER,),
    boundary: bool = True,
    context: Mapping[str, str] | None = None,
) -> list[str]:
    """The engine's answers; `readers` are whom the account before has let in."""
    statements = CiPermissions(
        arns=arns(PROD),
        project=PROJECT,
        qualifier="abc",
        bucket_arn=bucket(PROD),
        key_arn=OWN_KEY,
        repository_arns=[OWN_IMAGE],
        base_repository_arns=[],
        serving_arns=[OWN_IMAGE],
        source=Source(account=DEV, region=REGION, project=PROJECT),
        source_bucket=bucket(DEV).rpartition(":")[2],
    ).deploy()
    names = replace(
        names_of(PROJECT),
        bucket=bucket(PROD).rpartition(":")[2],
        source=(arns(DEV), PROJECT, bucket(DEV).rpartition(":")[2]),
    )
    requests = [
        {
            "principal": ROLE,
            "policies": [_document([each.document() for each in statements])],
            "boundary": boundary_policy(arns(PROD), names) if boundary else None,
            "action": question.action,
            "resource": question.resource,
            "account": question.owner,
            "context": {"aws:PrincipalArn": ROLE, **question.context, **(context or {})},
            "resourcePolicy": _shared(question, readers),
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


def _shared(question: Question, readers: Sequence[str]) -> dict[str, Any] | None:
    """The policy of what is asked for, as a deployment with these readers makes it."""
    if question.owner == PROD:
        # A key obeys its own policy first, which leaves the decision to its account's roles.
        root = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{PROD}:root"}}
        everything = {**root, "Action": "kms:*", "Resource": "*"}
        return _document([everything]) if question.resource == OWN_KEY else None
    if question.resource == IMAGE:
        return _document(of_repository(readers, "aws"))
    if question.resource.startswith("arn:aws:sagemaker:"):
        return group_policy(arns(DEV), f"{PROJECT}-topics", readers)
    if question.resource == KEY:
        return _document(of_key(readers, "aws"))
    return _document(of_bucket(bucket(DEV), readers, "aws"))


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


@pytest.mark.parametrize(
    ("reader", "context", "answer"),
    [
        (f"arn:aws:iam::{THIRD}:role/{PROJECT}-ci-deploy", {}, "ImplicitlyDenied"),
        (f"arn:aws:iam::{PROD}:role/somebody", {}, "ImplicitlyDenied"),
        (ORGANISATION, {"aws:PrincipalOrgID": "o-0000000000"}, "ImplicitlyDenied"),
        (ORGANISATION, {"aws:PrincipalOrgID": ORGANISATION}, "Allowed"),
    ],
    ids=["another account", "another role", "another organisation", "its organisation"],
)
def test_what_the_role_does_there_ends_with_whom_the_account_before_lets_in(
    reader: str, context: Mapping[str, str], answer: str
) -> None:
    there = [question for question in MAY if question.owner == DEV]
    assert set(ask(there, readers=[reader], context=context)) == {answer}


def test_what_is_refused_is_refused_by_the_roles_own_policy_and_not_only_by_its_boundary() -> None:
    assert "Allowed" not in ask(MAY_NOT, boundary=False)


def test_what_serves_a_model_later_may_pull_its_image_and_read_nothing() -> None:
    (statement,) = of_repository([READER], "aws")
    named = {"aws:PrincipalArn": [f"arn:*:iam::{PROD}:role/{PROJECT}-*"]}
    assert statement["Condition"] == {"ArnLike": named}
    (statement,) = of_bucket(bucket(DEV), [READER], "aws")
    assert statement["Condition"] == {"ArnLike": {"aws:PrincipalArn": [READER]}}


@pytest.mark.parametrize("readers", [[READER, ORGANISATION], []], ids=["readers", "nobody"])
def test_a_reader_is_let_into_bucket_key_and_repositories(readers: list[str]) -> None:
    from aws_cdk import App, Environment  # noqa: PLC0415
    from aws_cdk.assertions import Template  # noqa: PLC0415

    from compilegate.account.settings import Settings  # noqa: PLC0415
    from compilegate.infra.foundation import FoundationStack  # noqa: PLC0415
    from compilegate.infra.project import read_project  # noqa: PLC0415

    project = read_project(Path(__file__).parents[1] / "project")
    project = replace(project, settings=Settings.model_validate({"readers": readers}))
    env = Environment(account=ACCOUNT, region=REGION)
    stack = FoundationStack(App(), "compilegate-foundation", project=project, env=env)
    resources = Template.from_stack(stack).to_json()["Resources"]
    said = json.dumps(resources)
    for sid, count in (("ShareModels", 2), ("ShareImages", 2)):
        for suffix in ('"', 'Within"'):
            assert said.count(f'"{sid}{suffix}') == (count if readers else 0), sid
