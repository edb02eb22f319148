"""`compilegate aws images` against ECR, CodeBuild and registries: what is there, built and said."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from compilegate.account.errors import AwsError
from compilegate.account.images import base_digest
from compilegate.account.session import open_session
from compilegate.account.settings import SETTINGS_FILE, read_settings
from compilegate.account.settings.names import output_suffix
from compilegate.account.settings.pins import LockError, read_pins
from compilegate.cli import main
from compilegate.pipelines.images import ImageFolder, image_folders
from tests.account.command import compilegate, environment
from tests.account.deployed import REGISTRY, create_stack
from tests.aws_server.client import PROJECT, AwsServer

pytestmark = pytest.mark.slow

QUOTA = "Concurrently running builds for Linux/Medium environment"
IMAGES = ("gate", "training")
HOST = REGISTRY.partition("/")[0]
BASE = f"{HOST}/bases/python:3.12"
FIRST = f"sha256:{'1' * 64}"
SETTINGS = f'[images.base]\ntraining = "{BASE}"\ngate = "{BASE}"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a workload that uses two images, both on a base that moves."""
    shutil.copytree(PROJECT / "containers", tmp_path / "containers")
    for folder in ("workloads", "infra"):
        (tmp_path / folder).mkdir()
    shutil.copy(PROJECT / "tests/pipelines/topics.toml", tmp_path / "workloads")
    (tmp_path / SETTINGS_FILE).write_text(SETTINGS, encoding="utf-8")
    return tmp_path


@pytest.fixture
def account(aws: AwsServer, checkout: Path) -> AwsServer:
    """An account in which the images of the checkout are pinned and deployed, and none is built."""
    aws.client("ecr").create_repository(repositoryName="bases/python")
    push(aws, "as released")
    assert images(aws, checkout, "--pin").exit_code == 0
    deploy(aws, checkout)
    return aws


def deploy(aws: AwsServer, checkout: Path) -> None:
    outputs = {}
    for name in IMAGES:
        image = folder(checkout, name)
        variables = {
            "SOURCE": f"assets/{name}.zip",
            "REPOSITORY": f"compilegate/{name}",
            "TAG": image.tag,
            "BASE_IMAGE": image.base_uri("us-east-1"),
            "BASE_REGISTRY": HOST,
        }
        aws.client("ecr").create_repository(repositoryName=f"compilegate/{name}")
        outputs[f"ImageUri{output_suffix(name)}"] = f"{REGISTRY}/{name}:{image.tag}"
        outputs[f"Build{output_suffix(name)}"] = json.dumps(variables)
    aws.client("codebuild").create_project(
        name="compilegate-images",
        source={"type": "NO_SOURCE", "buildspec": "{}", "location": "moto wants one"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER",
            "image": "aws/codebuild/amazonlinux-x86_64-standard:5.0",
            "computeType": "BUILD_GENERAL1_MEDIUM",
        },
        serviceRole="arn:aws:iam::123456789012:role/build",
    )
    create_stack(aws, "compilegate-images", outputs)


def run(aws: AwsServer, checkout: Path, *arguments: str) -> Result:
    """The command in this process, which spares the second that a new one takes to start."""
    with chdir(checkout):
        return CliRunner().invoke(main, arguments, env=environment(aws))


def images(aws: AwsServer, checkout: Path, *arguments: str) -> Result:
    return run(aws, checkout, "aws", "images", *arguments)


def folder(checkout: Path, name: str) -> ImageFolder:
    settings = read_settings(checkout / SETTINGS_FILE).images
    return image_folders(checkout / "containers", settings.base, settings.pinned)[name]


def push(aws: AwsServer, content: str) -> str:
    """A patched base under the same tag; returns its digest."""
    manifest = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "content": content}
    pushed = aws.client("ecr").put_image(
        repositoryName="bases/python", imageManifest=json.dumps(manifest), imageTag="3.12"
    )
    return str(pushed["image"]["imageId"]["imageDigest"])


def use(checkout: Path, image: str) -> None:
    """Let an arm of the workload train in that image."""
    declared = checkout / "workloads" / "topics.toml"
    arm = "[arms.baseline]\n"
    declared.write_text(declared.read_text().replace(arm, f'{arm}image = "{image}"\n'))


def states(listing: str) -> dict[str, str]:
    """State by image of those that are used, from the table that the command prints."""
    rows = [line.split() for line in listing.splitlines()]
    return {row[0]: row[2] for row in rows if row[0] in IMAGES}


def test_what_is_missing_is_built_once_with_progress(account: AwsServer, checkout: Path) -> None:
    before = compilegate(account, checkout, "aws", "images")
    assert before.returncode == 0, before.stderr
    assert states(before.stdout) == dict.fromkeys(IMAGES, "missing")
    assert account.calls("StartBuild") == []

    built = compilegate(account, checkout, "aws", "images", "--build", "--wait")
    assert built.returncode == 0, built.stderr
    assert "training: build compilegate-images:build002 started" in built.stdout
    assert "training  succeeded after 90 s" in built.stdout
    for call, image in zip(account.calls("StartBuild"), IMAGES, strict=True):
        given = {each["name"]: each["value"] for each in call["environmentVariablesOverride"]}
        assert call["projectName"] == "compilegate-images"
        assert given["SOURCE"] == f"assets/{image}.zip"
        assert given["BASE_IMAGE"].startswith(f"{HOST}/bases/python@sha256:")

    again = compilegate(account, checkout, "aws", "images", "--build", "--wait")
    assert again.returncode == 0
    assert states(again.stdout) == dict.fromkeys(IMAGES, "built")
    assert "nothing to build" in again.stdout
    assert len(account.calls("StartBuild")) == len(IMAGES)


def test_a_build_that_goes_on_is_not_started_again(account: AwsServer, checkout: Path) -> None:
    going = {"status": "IN_PROGRESS", "phase": "BUILD"}
    account.script_builds("compilegate/gate", going, going, {"status": "SUCCEEDED"})
    assert images(account, checkout, "--build", "gate").exit_code == 0
    followed = images(account, checkout, "--build", "--wait", "gate")
    assert states(followed.stdout) == {"gate": "building"}
    assert "gate  succeeded" in followed.stdout
    assert len(account.calls("StartBuild")) == 1


def test_a_failed_build_says_why_and_can_be_started_again(
    account: AwsServer, checkout: Path
) -> None:
    account.script_builds(
        "compilegate/training",
        {"status": "IN_PROGRESS", "phase": "BUILD"},
        {"status": "FAILED", "message": "docker build: exit status 1"},
    )
    failed = images(account, checkout, "--build", "--wait")
    assert failed.exit_code == 3
    for part in ("training: ", "docker build: exit status 1", "https://console.aws.amazon.com/"):
        assert part in failed.stderr
    account.script_builds("compilegate/training", {"status": "SUCCEEDED"})
    again = images(account, checkout, "--build", "--wait")
    assert again.exit_code == 0, again.stderr
    assert states(again.stdout) == {"gate": "built", "training": "failed"}
    assert states(images(account, checkout).stdout)["training"] == "built"


@pytest.mark.parametrize("name", ["gate", "gather"])
def test_a_folder_that_is_not_deployed_as_it_is_has_to_be(
    account: AwsServer, checkout: Path, name: str
) -> None:
    """One that was changed, and a new one."""
    own = checkout / "containers" / name
    if not own.exists():
        shutil.copytree(checkout / "containers" / "gate", own)
        use(checkout, name)
    (own / "requirements.txt").write_text("numpy\n")
    (listed,) = json.loads(images(account, checkout, name, "--json").stdout)
    assert listed["state"] == "stale"
    refused = images(account, checkout, "--build", name)
    assert refused.exit_code == 2
    assert "make deploy" in refused.stderr
    assert account.calls("StartBuild") == []


def test_an_image_that_no_workload_uses_is_not_built(account: AwsServer, checkout: Path) -> None:
    listed = images(account, checkout, "--build")
    assert listed.exit_code == 0, listed.stderr
    assert len(account.calls("StartBuild")) == len(IMAGES)
    refused = images(account, checkout, "--build", "xgboost")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: xgboost: no workload uses it")


def test_nothing_is_built_on_a_base_that_is_named_by_a_tag(aws: AwsServer, checkout: Path) -> None:
    deploy(aws, checkout)
    refused = images(aws, checkout, "--build")
    assert refused.exit_code == 2
    assert refused.stderr.count("compilegate aws images --pin --missing") == len(IMAGES)
    assert aws.calls("StartBuild") == []


def test_builds_wait_for_room_in_a_quota_and_not_for_a_quota_of_none(
    account: AwsServer, checkout: Path
) -> None:
    account.set_quotas({QUOTA: 0})
    refused = images(account, checkout, "--build", "--wait")
    assert refused.exit_code == 2
    assert (
        "us-east-1.console.aws.amazon.com/servicequotas/home/services/codebuild" in refused.stderr
    )

    account.set_quotas({QUOTA: 1})
    account.fail("StartBuild", "AccountLimitExceededException", message="no more than 5", times=3)
    built = images(account, checkout, "--build", "--wait")
    assert built.exit_code == 0, built.stderr
    assert built.stdout.count("waiting for room") == 1
    assert states(images(account, checkout).stdout) == dict.fromkeys(IMAGES, "built")


def test_what_a_scan_found_is_in_the_list(account: AwsServer, checkout: Path) -> None:
    images(account, checkout, "--build", "--wait", "gate")
    assert "built  not scanned" in images(account, checkout, "gate").stdout
    account.client("ecr").start_image_scan(
        repositoryName="compilegate/gate", imageId={"imageTag": folder(checkout, "gate").tag}
    )
    assert "built  1 high " in images(account, checkout, "gate").stdout
    (listed,) = json.loads(images(account, checkout, "gate", "--json").stdout)
    assert listed["vulnerabilities"] == {"HIGH": 1}


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["nothing"], "containers has no image folder 'nothing'; it has gate, neuron, training"),
        (["--json", "--build"], "--build does not go with --json"),
        (["--missing"], "--missing needs --pin"),
        ([], "there is no stack compilegate-images in account 123456789012, us-east-1"),
        (["--pin"], "cannot look up bases/python:3.12 in the registry of 123456789012"),
    ],
)
def test_impossible_options_are_refused(
    aws: AwsServer, checkout: Path, arguments: list[str], refusal: str
) -> None:
    refused = images(aws, checkout, *arguments)
    assert refused.exit_code == 2
    assert refusal in refused.stderr


def test_a_patched_base_is_another_image_once_it_is_taken_up(
    account: AwsServer, checkout: Path
) -> None:
    before = folder(checkout, "training")
    assert "has moved" not in images(account, checkout).stdout
    second = push(account, "with patches")
    assert images(account, checkout).stdout.count("has moved") == 1
    assert images(account, checkout, "--pin", "--missing").stdout == ""
    assert folder(checkout, "training") == before, "the tag moved, and the image did not"

    pinned = images(account, checkout, "--pin")
    assert pinned.stdout == f"{BASE} is {second} (was {before.digest})\n"
    assert "infra/images.lock.toml is written; commit it" in pinned.stderr
    assert folder(checkout, "training").tag != before.tag, "the step cache and the gate see it"
    assert set(states(images(account, checkout).stdout).values()) == {"stale"}
    assert "(unchanged)" in images(account, checkout, "--pin").stdout


def test_a_lock_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "images.lock.toml"
    lock.write_text('["a/b:1"]\ndigest = "sha256:12"\n', encoding="utf-8")
    with pytest.raises(LockError, match=r"images\.lock\.toml: .*digest"):
        read_pins(tmp_path / "settings.toml")


@contextmanager
def registry(digest: str | None) -> Iterator[ImageFolder]:
    """A registry that gives anybody a token, as public ones do; yields an image on a base there."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if self.headers.get("Authorization") != "Bearer for-anybody":
                self.send_response(401)
                realm = f"http://{self.headers['Host']}/token"
                challenge = f'Bearer realm="{realm}",service="s",scope="pull"'
                self.send_header("WWW-Authenticate", challenge)
            elif self.path == "/v2/library/python/manifests/3.12" and digest is not None:
                self.send_response(200)
                self.send_header("Docker-Content-Digest", digest)
            else:
                self.send_response(404)
            self.end_headers()

        def do_GET(self) -> None:
            assert self.path == "/token?service=s&scope=pull"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"token": "for-anybody"}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        base = f"localhost:{server.server_address[1]}/library/python:3.12"
        try:
            yield ImageFolder(name="mine", folder=Path("mine"), base=base, tag="0" * 16)
        finally:
            server.shutdown()
            thread.join()


def test_a_public_registry_gets_an_anonymous_token() -> None:
    session = open_session("us-east-1")
    with registry(FIRST) as image:
        assert base_digest(session, image) == FIRST
    with registry(None) as image, pytest.raises(AwsError, match="404"):
        base_digest(session, image)
