"""`make deploy` bootstraps an account that was never bootstrapped, and says when its policies are
not those that the settings need; `make bootstrap` makes them."""

from __future__ import annotations

import json
import subprocess
import sys
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


class Folder:
    """A project's folder, and the account that it goes to."""

    def __init__(self, path: Path, aws: AwsServer) -> None:
        self.path, self.aws = path, aws
        (path / "infra").mkdir()

    def run(self, *arguments: str, settings: str = "", **environment: str) -> Any:
        (self.path / "infra" / "settings.toml").write_text(settings)
        return subprocess.run(
            [sys.executable, "-m", "compilegate.infra.bootstrap", *arguments],
            cwd=self.path,
            env={**self.aws.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def check(self, **rest: str) -> Any:
        return self.run("--check", **rest)

    def bootstrapped(self) -> None:
        self.aws.client("ssm").put_parameter(Name=VERSION, Value="30", Type="String")


@pytest.fixture
def folder(tmp_path: Path, aws: AwsServer) -> Folder:
    return Folder(tmp_path, aws)


def test_an_account_is_bootstrapped_when_it_says_so_and_has_the_policies(folder: Folder) -> None:
    assert folder.check().returncode == 1
    folder.bootstrapped()
    assert folder.check().returncode == 3
    assert folder.run().returncode == 0
    assert folder.check().returncode == 0


def test_settings_that_need_other_policies_are_named_before_a_deployment_fails(
    folder: Folder,
) -> None:
    folder.bootstrapped()
    assert folder.run().returncode == 0
    answer = folder.check(settings=NETWORK)
    assert answer.returncode == 3
    named = [arn.rpartition("/")[2] for arn in POLICIES[1:3]]
    assert [line.split()[2] for line in answer.stderr.splitlines()] == named
    assert "make bootstrap" in answer.stderr
    assert folder.run(settings=NETWORK).returncode == 0
    assert folder.check(settings=NETWORK).returncode == 0


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            "Unable to locate credentials",
        ),
        ({"AWS_REGION": ""}, "no AWS region is set; set AWS_REGION, or region in infra/settings"),
    ],
)
def test_what_cannot_be_asked_is_not_assumed(
    folder: Folder, environment: dict[str, str], said: str
) -> None:
    answer = folder.check(**environment)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("action", "code"), [("GetParameter", "AccessDeniedException"), ("GetPolicy", "AccessDenied")]
)
def test_a_role_that_may_not_look_deploys_without_bootstrapping(
    folder: Folder, action: str, code: str
) -> None:
    folder.bootstrapped()
    folder.aws.fail(action, code)
    assert folder.check().returncode == 0


def test_the_policies_are_made_once_and_changed_when_they_say_something_else(
    folder: Folder,
) -> None:
    first, again = folder.run(), folder.run()
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    arguments = first.stdout.split()
    assert arguments[0].startswith(f"aws://{ACCOUNT}/")
    given = dict(pairwise(arguments))
    assert given["--cloudformation-execution-policies"] == ",".join(POLICIES[:2])
    assert given["--custom-permissions-boundary"] == "compilegate-bootstrap"
    iam = folder.aws.client("iam")
    for arn in POLICIES:
        assert len(iam.list_policy_versions(PolicyArn=arn)["Versions"]) == 1
        assert iam.get_policy(PolicyArn=arn)["Policy"]["Tags"] == [TAG]
        for _ in range(4):
            iam.create_policy_version(PolicyArn=arn, PolicyDocument=NOTHING, SetAsDefault=True)
    assert folder.run().returncode == 0
    for arn in POLICIES:
        default = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        version = iam.get_policy_version(PolicyArn=arn, VersionId=default)["PolicyVersion"]
        assert version["Document"] != json.loads(NOTHING)


@pytest.mark.parametrize("tags", [[], [{**TAG, "Value": "another"}]])
def test_a_policy_that_the_project_did_not_make_is_left_alone(
    folder: Folder, tags: list[dict[str, str]]
) -> None:
    iam = folder.aws.client("iam")
    iam.create_policy(PolicyName="compilegate-boundary", PolicyDocument=NOTHING, Tags=tags)
    answer = folder.run()
    assert answer.returncode == 2
    assert "the policy compilegate-boundary has the tag compilegate:project" in answer.stderr
    assert len(iam.list_policy_versions(PolicyArn=POLICIES[3])["Versions"]) == 1


@pytest.mark.parametrize(
    ("action", "settings"),
    [("CreatePolicy", ""), ("nothing", '[bootstrap]\nqualifier = "org"\n')],
    ids=["refused", "not the project's"],
)
def test_policies_that_cannot_be_made_are_said_to_be_that(
    folder: Folder, action: str, settings: str
) -> None:
    folder.aws.fail(action, "AccessDenied")
    answer = folder.run(settings=settings)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "Traceback" not in answer.stderr
