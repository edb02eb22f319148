"""`compilegate aws images --pin`: what a base's tag stands for is looked up, kept, built from."""

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

from compilegate.account.base_digests import base_digest
from compilegate.account.errors import AwsError
from compilegate.account.session import open_session
from compilegate.account.settings import SETTINGS_FILE, read_settings
from compilegate.account.settings.pins import LockError, read_pins
from compilegate.cli import main
from compilegate.pipelines.staging import ImageFolder, image_folders
from tests.account.command import environment
from tests.aws_server.client import PROJECT, AwsServer

pytestmark = pytest.mark.slow

WORKLOAD = PROJECT / "tests" / "pipelines" / "topics.toml"
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
FIRST = f"sha256:{'1' * 64}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a workload that uses two images, both on a base that moves."""
    shutil.copytree(PROJECT / "containers", tmp_path / "containers")
    for folder in ("workloads", "infra"):
        (tmp_path / folder).mkdir()
    shutil.copy(WORKLOAD, tmp_path / "workloads" / "topics.toml")
    base = f"{REGISTRY}/bases/python:3.12"
    (tmp_path / SETTINGS_FILE).write_text(
        f'[images.base]\ntraining = "{base}"\ngate = "{base}"\n', encoding="utf-8"
    )
    return tmp_path


def push(aws: AwsServer, content: str) -> str:
    """A patched image under the same tag; returns its digest."""
    manifest = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "content": content}
    pushed = aws.client("ecr").put_image(
        repositoryName="bases/python", imageManifest=json.dumps(manifest), imageTag="3.12"
    )
    return str(pushed["image"]["imageId"]["imageDigest"])


def pin(aws: AwsServer, checkout: Path, *arguments: str) -> Result:
    with chdir(checkout):
        return CliRunner().invoke(
            main, ["aws", "images", "--pin", *arguments], env=environment(aws)
        )


def training(checkout: Path) -> ImageFolder:
    images = read_settings(checkout / SETTINGS_FILE).images
    return image_folders(checkout / "containers", images.base, images.pinned)["training"]


@pytest.mark.slow
def test_a_patched_base_is_another_image_once_it_is_taken_up(
    aws: AwsServer, checkout: Path
) -> None:
    aws.client("ecr").create_repository(repositoryName="bases/python")
    first = push(aws, "as released")
    by_tag = training(checkout)
    assert by_tag.base_uri("us-east-1").endswith("/bases/python:3.12")

    pinned = pin(aws, checkout)
    assert pinned.exit_code == 0, pinned.stderr
    assert pinned.stdout == f"{REGISTRY}/bases/python:3.12 is {first} (new)\n"
    assert "infra/images.lock.toml is written; commit it" in pinned.stderr
    before = training(checkout)
    assert before.base_uri("us-east-1") == f"{REGISTRY}/bases/python@{first}"
    assert before.tag != by_tag.tag

    second = push(aws, "with patches")
    assert training(checkout).tag == before.tag, "the tag moved, and the image did not"
    assert pin(aws, checkout, "--missing").stdout == ""
    assert pin(aws, checkout).stdout == (
        f"{REGISTRY}/bases/python:3.12 is {second} (was {first})\n"
    )
    after = training(checkout)
    assert after.base_uri("us-east-1") == f"{REGISTRY}/bases/python@{second}"
    assert after.tag != before.tag, "a new image: the step cache, the gate and the posture see it"
    again = pin(aws, checkout)
    assert "(unchanged)" in again.stdout
    assert again.stderr == ""


@pytest.mark.slow
def test_a_base_that_is_not_there_is_one_sentence(aws: AwsServer, checkout: Path) -> None:
    aws.client("ecr").create_repository(repositoryName="bases/python")
    refused = pin(aws, checkout)
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"error: {REGISTRY}/bases/python has no image 3.12; where it can be asked, compilegate "
        "aws images --pin writes infra/images.lock.toml, which is to be committed\n"
    )
    assert not (checkout / "infra" / "images.lock.toml").exists()


def test_a_lock_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "images.lock.toml"
    lock.write_text('["a/b:1"]\ndigest = "sha256:12"\n', encoding="utf-8")
    with pytest.raises(LockError, match=r"images\.lock\.toml: .*digest"):
        read_pins(tmp_path / "settings.toml")


@contextmanager
def registry(digest: str | None) -> Iterator[int]:
    """A registry that gives anybody a token, as public ones do; yields its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if self.headers.get("Authorization") != "Bearer for-anybody":
                self.send_response(401)
                host = self.headers["Host"]
                challenge = f'Bearer realm="http://{host}/token",service="s",scope="pull"'
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
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def test_a_public_registry_is_asked_with_a_token_for_anybody() -> None:
    session = open_session("us-east-1")
    with registry(FIRST) as port:
        assert base_digest(session, f"localhost:{port}/library/python:3.12") == FIRST
    with registry(None) as port, pytest.raises(AwsError, match="does not say what localhost"):
        base_digest(session, f"localhost:{port}/library/python:3.12")
