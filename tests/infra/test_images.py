"""The images stack: where an image is pushed, and what the commands of a build do."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.infra.assembly import Assembly

pytestmark = pytest.mark.slow

STACK, BUILD = "compilegate-images", "AWS::CodeBuild::Project"
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> calls
case "$*" in *describe-images*) exit {there} ;; esac
[ "$1" != login ] || cat > logins
"""
GIVEN = {
    "REGISTRY": "own.example",
    "REPOSITORY": "project/gate",
    "TAG": "0a",
    "SOURCE": "assets/gate.zip",
    "BASE_IMAGE": "aws.example/python@sha256:0b",
    "BASE_REGISTRY": "aws.example",
}


def test_an_image_is_where_its_build_pushes_it(assembly: Assembly) -> None:
    outputs, project = assembly.outputs(STACK), assembly.one(STACK, BUILD).properties
    variables = project["Environment"]["EnvironmentVariables"]
    (registry,) = [each["Value"] for each in variables if each["Name"] == "REGISTRY"]
    for name in ("Gate", "Training"):
        given = json.loads(outputs[f"Build{name}"])
        assert outputs[f"ImageUri{name}"] == f"{registry}/{given['REPOSITORY']}:{given['TAG']}"
    neighbours = assembly.one("neighbour-images", BUILD).properties
    assert neighbours["Environment"]["ComputeType"].endswith("LARGE")
    assert neighbours["VpcConfig"]["VpcId"] == "vpc-0123456789abcdef0"


@pytest.mark.parametrize(
    ("given", "there", "expected"),
    [
        ({}, True, []),
        ({}, False, ["login aws.example", "login own.example", "build", "push"]),
        ({"BASE_REGISTRY": ""}, False, ["login own.example", "build", "push"]),
        ({"BASE_IMAGE": "python:3.12"}, False, None),
    ],
)
def test_a_build_does_what_is_missing_on_a_base_that_is_pinned(
    assembly: Assembly,
    tmp_path: Path,
    given: dict[str, str],
    there: bool,
    expected: list[str] | None,
) -> None:
    for name in ("aws", "docker", "python3"):
        (tmp_path / name).write_text(PROGRAM.format(there=0 if there else 1))
        (tmp_path / name).chmod(0o755)
    calls = tmp_path / "calls"
    calls.touch()
    specification = json.loads(assembly.one(STACK, BUILD).properties["Source"]["BuildSpec"])
    (script,) = specification["phases"]["build"]["commands"]
    environment = {**GIVEN, **given, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, check=False)
    assert ended.returncode == (1 if expected is None else 0)
    docker = [line.split() for line in calls.read_text().splitlines() if line[:6] == "docker"]
    done = [f"login {words[-1]}" if words[1] == "login" else words[1] for words in docker]
    assert sorted(done[:-2]) + done[-2:] == (expected or [])
    if expected:
        built = docker[done.index("build")]
        assert "BASE_IMAGE=aws.example/python@sha256:0b" in built
        assert "org.opencontainers.image.base.digest=sha256:0b" in built
        assert docker[-1][-1] == "own.example/project/gate:0a"
        assert "s3://assets/gate.zip folder.zip" in calls.read_text()
