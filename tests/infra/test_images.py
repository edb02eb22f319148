"""The images stack: what a build is given, what it may do, and what its commands do."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.infra.assembly import Assembly

pytestmark = pytest.mark.slow

STACK, NEIGHBOUR = "compilegate-images", "neighbour-images"
BUILD = "AWS::CodeBuild::Project"
MOST = 9
"""Resources of the stack with everything on, and this many at most."""
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


def build_of(assembly: Assembly, stack: str) -> Any:
    return assembly.one(stack, BUILD).properties


def test_an_image_is_where_its_build_pushes_it(assembly: Assembly) -> None:
    outputs = assembly.outputs(STACK)
    assert {name for name in outputs if name.startswith("Build")} == {"BuildGate", "BuildTraining"}
    given = json.loads(outputs["BuildTraining"])
    (registry,) = [
        each["Value"]
        for each in build_of(assembly, STACK)["Environment"]["EnvironmentVariables"]
        if each["Name"] == "REGISTRY"
    ]
    assert outputs["ImageUriTraining"] == f"{registry}/{given['REPOSITORY']}:{given['TAG']}"
    assert re.fullmatch(r"[0-9a-f]{16}", given["TAG"])
    assert given["BASE_IMAGE"].startswith(f"{given['BASE_REGISTRY']}/pytorch")
    assert given["BASE_REGISTRY"].endswith(".amazonaws.com")
    assert json.loads(outputs["BuildGate"])["BASE_REGISTRY"] == ""


def test_one_project_builds_every_image_as_the_settings_say(assembly: Assembly) -> None:
    assert {stack: build_of(assembly, stack)["Environment"]["ComputeType"][-6:]
            for stack in (STACK, NEIGHBOUR)} == {STACK: "MEDIUM", NEIGHBOUR: "_LARGE"}  # fmt: skip
    assert build_of(assembly, NEIGHBOUR)["VpcConfig"]["VpcId"] == "vpc-0123456789abcdef0"
    for stack in (STACK, NEIGHBOUR):
        assert len(assembly.resources(stack)) <= MOST


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
    specification = json.loads(build_of(assembly, STACK)["Source"]["BuildSpec"])
    (script,) = specification["phases"]["build"]["commands"]
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**GIVEN, **given, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == (1 if expected is None else 0), ended.stderr
    calls = (tmp_path / "calls").read_text() if (tmp_path / "calls").exists() else ""
    docker = [line.split() for line in calls.splitlines() if line.startswith("docker")]
    done = [f"login {words[-1]}" if words[1] == "login" else words[1] for words in docker]
    assert sorted(done[:-2]) + done[-2:] == (expected or [])
    if expected:
        built = docker[done.index("build")]
        assert "BASE_IMAGE=aws.example/python@sha256:0b" in built
        assert "org.opencontainers.image.base.digest=sha256:0b" in built
        assert docker[-1][-1] == "own.example/project/gate:0a"
        assert "s3://assets/gate.zip folder.zip" in calls
