"""The builder as Lambda runs it, with AWS over HTTP: what is built, what waits, who is told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.aws_server.client import AwsServer

CODE = Path(__file__).parents[2] / "infra" / "builder"
IMAGES = ("gate", "training", "xgboost")
RULE = "project-images-waiting"
QUOTA = "Concurrently running builds for Linux/Medium environment"
DEPLOYED = {"source": "aws.cloudformation", "detail": {}}
ASKED_AGAIN = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Account:
    """An account with three builds, none of which has run."""

    aws: AwsServer
    builder: Any

    def deploy(self) -> dict[str, list[str]]:
        return self._handle(DEPLOYED)

    def ask_again(self) -> dict[str, list[str]]:
        return self._handle(ASKED_AGAIN)

    def look_at_bases(self) -> dict[str, list[str]]:
        return self._handle({"act": "bases"})

    def end(self, build: str, status: str) -> dict[str, list[str]]:
        """CodeBuild says that a build has ended."""
        arn = f"arn:aws:codebuild:us-east-1:123456789012:build/{build}"
        detail = {"build-status": status, "build-id": arn}
        return self._handle({"source": "aws.codebuild", "detail": detail})

    def pass_time(self) -> None:
        """Every build that goes on gets to the next frame of its script."""
        codebuild = self.aws.client("codebuild")
        for image in IMAGES:
            ids = codebuild.list_builds_for_project(projectName=f"project-{image}")["ids"]
            if ids:
                codebuild.batch_get_builds(ids=ids)

    @property
    def asks_again(self) -> bool:
        return bool(self.aws.client("events").describe_rule(Name=RULE)["State"] == "ENABLED")

    def messages(self) -> list[tuple[str, str]]:
        """Subject and text of what was told since the last look."""
        queue = self.aws.client("sqs").get_queue_url(QueueName="reader")["QueueUrl"]
        found = self.aws.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        bodies = [json.loads(item["Body"]) for item in found.get("Messages", [])]
        return [(body["Subject"], body["Message"]) for body in bodies]

    def _handle(self, event: dict[str, Any]) -> dict[str, list[str]]:
        said: dict[str, list[str]] = self.builder.handler(event, None)
        return said


def make_build(aws: AwsServer, image: str, **base: str) -> None:
    variables = {"REPOSITORY": f"project/{image}", "TAG": f"{image}-1", **base}
    aws.client("codebuild").create_project(
        name=f"project-{image}",
        source={"type": "S3", "location": "assets/context.zip"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER",
            "image": "aws/codebuild/amazonlinux-x86_64-standard:5.0",
            "computeType": "BUILD_GENERAL1_MEDIUM",
            "environmentVariables": [
                {"name": name, "value": value} for name, value in variables.items()
            ],
        },
        serviceRole="arn:aws:iam::123456789012:role/build",
    )


@pytest.fixture
def account(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.syspath_prepend(str(CODE))
    import builder  # noqa: PLC0415  on the path only in these tests

    builder.entry.connect.cache_clear()
    topic = aws.client("sns").create_topic(Name="notifications")["TopicArn"]
    aws.client("sqs").create_queue(QueueName="reader")
    aws.client("sns").subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:123456789012:reader"
    )
    aws.client("events").put_rule(Name=RULE, ScheduleExpression="rate(5 minutes)", State="DISABLED")
    for image in IMAGES:
        aws.client("ecr").create_repository(repositoryName=f"project/{image}")
        make_build(aws, image)
    for name, value in {
        **aws.environment,
        "AWS_DEFAULT_REGION": aws.environment["AWS_REGION"],  # Lambda sets both
        "BUILD_PROJECTS": " ".join(f"project-{image}" for image in IMAGES),
        "WAITING_RULE": RULE,
        "TOPIC_ARN": topic,
    }.items():
        monkeypatch.setenv(name, value)
    return Account(aws, builder)


def test_a_deployment_starts_what_is_missing_and_no_build_twice(account: Account) -> None:
    assert account.deploy() == {"started": list(IMAGES)}
    assert account.deploy() == {"building": list(IMAGES)}
    account.pass_time()
    account.pass_time()
    assert account.deploy() == {"built": list(IMAGES)}
    assert len(account.aws.calls("StartBuild")) == len(IMAGES)
    assert not account.asks_again
    assert account.messages() == []


def test_in_a_new_account_builds_wait_until_its_quota_is_raised(account: Account) -> None:
    """Its quota is none, and so is its queue: every start is refused."""
    account.aws.set_quotas({QUOTA: 0})
    assert account.deploy() == {"waiting": list(IMAGES)}
    assert account.asks_again
    ((subject, text),) = account.messages()
    assert subject == "3 image builds wait for the account's quota"
    assert "Cannot have more than 0 builds in queue for the account" in text
    assert "Service Quotas console" in text

    assert account.ask_again() == {"waiting": list(IMAGES)}
    assert account.messages() == [], "it was said once"

    account.aws.set_quotas({QUOTA: 1})
    assert account.ask_again() == {"started": list(IMAGES)}, "one runs, the others are queued"
    assert not account.asks_again
    account.pass_time()
    account.pass_time()
    assert account.ask_again() == {"built": list(IMAGES)}
    assert account.messages() == []


def test_what_the_queue_has_no_room_for_starts_when_a_build_ends(account: Account) -> None:
    """Builds of others fill the account's queue, but for one place."""
    account.aws.set_quotas({QUOTA: 1})
    others = account.aws.client("codebuild")
    account.aws.script_builds("project-gate", {"status": "IN_PROGRESS", "phase": "BUILD"})
    ids = [others.start_build(projectName="project-gate")["build"]["id"] for _ in range(5)]
    said = account.deploy()
    assert (said["building"], said["started"], said["waiting"]) == (
        ["gate"],
        ["training"],
        ["xgboost"],
    )
    assert account.asks_again
    assert len(account.messages()) == 1
    others.stop_build(id=ids[0])
    assert account.end(ids[0], "STOPPED")["started"] == ["xgboost"]
    assert not account.asks_again
    assert account.messages() == [], "who stopped it knows"


def test_a_failed_build_is_told_and_started_again_by_the_next_deployment(account: Account) -> None:
    account.aws.script_builds(
        "project-training", {"status": "FAILED", "message": "docker build: exit status 1"}
    )
    account.deploy()
    account.pass_time()
    account.pass_time()
    assert account.end("project-training:build002", "FAILED") == {
        "built": ["gate", "xgboost"],
        "failed": ["training"],
    }
    ((subject, text),) = account.messages()
    assert subject == "The image build project-training failed"
    assert "build: docker build: exit status 1" in text
    assert "https://console.aws.amazon.com/cloudwatch/#project-training:build002" in text
    assert "compilegate aws images --build" in text
    assert account.ask_again()["failed"] == ["training"], "the same would fail again"
    assert account.deploy()["started"] == ["training"]


def test_a_build_that_the_queue_dropped_is_queued_again(account: Account) -> None:
    """CodeBuild drops from its queue what has not begun after eight hours."""
    account.aws.script_builds("project-gate", {"status": "TIMED_OUT", "phase": "QUEUED"})
    account.deploy()
    account.pass_time()
    assert account.end("project-gate:build001", "TIMED_OUT")["started"] == ["gate"]
    assert account.messages() == []


def test_patches_of_a_base_image_are_told(account: Account) -> None:
    """Looked for every week, of images whose base was pinned by its digest."""
    ecr = account.aws.client("ecr")
    ecr.create_repository(repositoryName="bases/python")

    def push(content: str) -> str:
        manifest = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "is": content}
        pushed = ecr.put_image(
            repositoryName="bases/python", imageManifest=json.dumps(manifest), imageTag="3.12"
        )
        return str(pushed["image"]["imageId"]["imageDigest"])

    digest = push("as released")
    uri = "123456789012.dkr.ecr.us-east-1.amazonaws.com/bases/python"
    account.aws.client("codebuild").delete_project(name="project-training")
    make_build(account.aws, "training", BASE_IMAGE=f"{uri}@{digest}", BASE_NAME=f"{uri}:3.12")
    assert account.look_at_bases() == {"moved": []}
    assert account.messages() == []
    push("with patches")
    assert account.look_at_bases() == {"moved": ["training"]}
    ((subject, text),) = account.messages()
    assert subject == "Base images with patches, of: training"
    assert text.startswith(f"training extends {uri}:3.12\n")
    assert "compilegate aws images --pin" in text
    assert account.aws.calls("StartBuild") == [], "people decide when a new image is trained in"


def test_an_environment_that_lacks_something_is_said(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOPIC_ARN")
    with pytest.raises(Exception, match="the environment lacks TOPIC_ARN"):
        account.deploy()
