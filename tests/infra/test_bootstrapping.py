"""`make deploy` bootstraps an account that was never bootstrapped, and says when its policies are
not those that the settings need; `make bootstrap` makes them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from compilegate.account.settings import Names, Settings
from tests.aws_server.client import ACCOUNT, AwsServer

pytestmark = pytest.mark.slow

VERSION = f"/cdk-bootstrap/{Names(Settings()).qualifier}/version"
POLICIES = [
    f"arn:aws:iam::{ACCOUNT}:policy/compilegate-{name}"
    for name in ("deployment", "deployment-access", "bootstrap", "boundary")
]
TAG = {"Key": "compilegate:project", "Value": "compilegate"}
NOTHING = json.dumps(
    {"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "*", "Resource": "*"}}
)
NETWORK = "[network]\ncreate = true\n"
READY, NEVER, FAILED, OUTDATED = 0, 1, 2, 3

Program = Callable[..., Any]


@pytest.fixture
def program(tmp_path: Path, aws: AwsServer) -> Program:
    """The program, in the folder of a project with some settings."""
    (tmp_path / "infra").mkdir()

    def run(*arguments: str, settings: str = "", **environment: str) -> Any:
        (tmp_path / "infra" / "settings.toml").write_text(settings)
        ran = subprocess.run(
            [sys.executable, "-m", "compilegate.infra.bootstrap", *arguments],
            cwd=tmp_path,
            env={**aws.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in ran.stderr
        return ran

    return run


def bootstrapped(aws: AwsServer) -> None:
    aws.client("ssm").put_parameter(Name=VERSION, Value="30", Type="String")


def test_settings_that_need_other_policies_are_named_before_a_deployment_fails(
    program: Program, aws: AwsServer
) -> None:
    assert program("--check").returncode == NEVER
    bootstrapped(aws)
    assert program("--check").returncode == OUTDATED
    assert program().returncode == READY
    assert program("--check").returncode == READY
    answer = program("--check", settings=NETWORK)
    assert answer.returncode == OUTDATED
    named = [arn.rpartition("/")[2] for arn in POLICIES[1:3]]
    assert [line.split()[2] for line in answer.stderr.splitlines()] == named
    assert "make bootstrap" in answer.stderr
    assert program(settings=NETWORK).returncode == READY
    assert program("--check", settings=NETWORK).returncode == READY


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "Unable to locate credentials"),
        ({"AWS_REGION": ""}, "no AWS region is set; set AWS_REGION, or region in infra/settings"),
    ],
)
def test_without_an_answer_of_aws_nothing_is_assumed(
    program: Program, environment: dict[str, str], reason: str
) -> None:
    answer = program("--check", **environment)
    assert answer.returncode == FAILED
    assert reason in answer.stderr


@pytest.mark.parametrize(
    ("action", "code"), [("GetParameter", "AccessDeniedException"), ("GetPolicy", "AccessDenied")]
)
def test_a_role_that_may_not_look_deploys_without_bootstrapping(
    program: Program, aws: AwsServer, action: str, code: str
) -> None:
    bootstrapped(aws)
    aws.fail(action, code)
    assert program("--check").returncode == READY


def test_the_policies_are_made_once_and_changed_when_they_differ(
    program: Program, aws: AwsServer
) -> None:
    first, again = program(), program()
    assert first.returncode == READY, first.stderr
    assert first.stdout == again.stdout
    arguments = first.stdout.split()
    assert arguments[0].startswith(f"aws://{ACCOUNT}/")
    given = dict(pairwise(arguments))
    assert given["--cloudformation-execution-policies"] == ",".join(POLICIES[:2])
    assert given["--custom-permissions-boundary"] == "compilegate-bootstrap"
    iam = aws.client("iam")
    for arn in POLICIES:
        assert len(iam.list_policy_versions(PolicyArn=arn)["Versions"]) == 1
        assert iam.get_policy(PolicyArn=arn)["Policy"]["Tags"] == [TAG]
        # As many versions as IAM keeps of a policy.
        for _ in range(4):
            iam.create_policy_version(PolicyArn=arn, PolicyDocument=NOTHING, SetAsDefault=True)
    assert program().returncode == READY
    for arn in POLICIES:
        default = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        version = iam.get_policy_version(PolicyArn=arn, VersionId=default)["PolicyVersion"]
        assert version["Document"] != json.loads(NOTHING)


@pytest.mark.parametrize("tags", [[], [{**TAG, "Value": "another"}]])
def test_a_policy_that_the_project_did_not_make_is_left_alone(
    program: Program, aws: AwsServer, tags: list[dict[str, str]]
) -> None:
    iam = aws.client("iam")
    iam.create_policy(PolicyName="compilegate-boundary", PolicyDocument=NOTHING, Tags=tags)
    answer = program()
    assert answer.returncode == FAILED
    assert "the policy compilegate-boundary has the tag compilegate:project" in answer.stderr
    assert len(iam.list_policy_versions(PolicyArn=POLICIES[3])["Versions"]) == 1


@pytest.mark.parametrize(
    ("settings", "refused", "reason"),
    [
        ("", "CreatePolicy", "AccessDenied"),
        ('[bootstrap]\nqualifier = "org"\n', "nothing", "bootstrap.qualifier"),
        # Else the organisation's own policy of that name would get a new version.
        ('[bootstrap]\nboundary = "org"\n', "nothing", "boundary is 'org' without qualifier"),
    ],
)
def test_policies_that_cannot_be_made_are_named_with_the_reason(
    program: Program, aws: AwsServer, settings: str, refused: str, reason: str
) -> None:
    aws.fail(refused, "AccessDenied")
    answer = program(settings=settings)
    assert (answer.returncode, answer.stdout) == (FAILED, "")
    assert reason in answer.stderr
    assert aws.client("iam").list_policies(Scope="Local")["Policies"] == []


def test_a_damaged_lock_of_images_is_named(program: Program, tmp_path: Path) -> None:
    (tmp_path / "infra" / "images.lock.toml").write_text("not toml")
    refused = program("--check")
    assert refused.returncode == FAILED
    assert "images.lock.toml" in refused.stderr
