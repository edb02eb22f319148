"""The Dockerfiles, built for real on a base that stands in for AWS's.

It takes a container engine that answers (DOCKER_HOST) and a package index. Where there is no
engine, no image is built, and the summary of the run says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compilegate.pipelines.staging.source_trees import gate_tree
from tests.containers.stand_in_base import make_base, with_torch
from tests.containers.test_image_folders import pinned, requirements

CONTAINERS = Path(__file__).parents[2] / "containers"
BASE = "compilegate-test/base"
TORCH = {
    "neuron": "2.9.0+standin",
    "training": "2.13.0+standin",
    "training-compiler": "1.13.1+standin",
    "xgboost": "2.13.0+standin",
}
"""Of the base of each image for training. Every image is here, or is the gate's."""


@pytest.fixture(scope="module")
def docker() -> list[str]:
    """The command of an engine that answers."""
    program = shutil.which("docker")
    if program is not None:
        asked = subprocess.run([program, "info"], capture_output=True, check=False)
        if asked.returncode == 0:
            return [program]
    pytest.skip("NO IMAGE WAS BUILT: no container engine answers; start one, or set DOCKER_HOST")


@pytest.fixture(scope="module")
def base(docker: list[str]) -> Iterator[str]:
    make_base(docker, BASE)
    yield BASE
    names = ("--format", "{{.Repository}}:{{.Tag}}", "--filter", "reference=compilegate-test/*")
    listing = [*docker, "image", "ls", *names]
    made = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
    subprocess.run([*docker, "image", "rm", "--force", *made], check=True, capture_output=True)


def build(docker: list[str], folder: str, base_image: str) -> str:
    """Build an image folder; returns the image's name."""
    image = f"compilegate-test/{folder}"
    index = os.environ.get("PIP_INDEX_URL")
    subprocess.run(
        [
            *docker,
            "build",
            # The index may only be reachable the way that this machine reaches it.
            *("--network", "host"),
            *("--build-arg", f"BASE_IMAGE={base_image}"),
            *(("--build-arg", f"PIP_INDEX_URL={index}") if index else ()),
            *("--tag", image),
            str(CONTAINERS / folder),
        ],
        check=True,
    )
    return image


def run(docker: list[str], image: str, *command: str, path: str = "") -> str:
    """What a command prints in a container of the image; `path` is Python's module path."""
    options = ("--rm", "--network", "none", "--env", f"PYTHONPATH={path}")
    done = subprocess.run(
        [*docker, "run", *options, image, *command],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.long
def test_the_gate_s_image_runs_the_gate_and_has_no_torch(
    docker: list[str], base: str, tmp_path: Path
) -> None:
    image = build(docker, "gate", base)
    (tmp_path / "gate.zip").write_bytes(gate_tree().module_zip())
    (tmp_path / "Dockerfile").write_text(f"FROM {image}\nCOPY gate.zip /gate.zip\n")
    with_code = f"{image}-with-code"
    subprocess.run([*docker, "build", "--quiet", "--tag", with_code, str(tmp_path)], check=True)
    job = ("python3", "-m", "compilegate.pipelines.programs.gate", "--help")
    assert "--evidence" in run(docker, with_code, *job, path="/gate.zip")
    packages = run(docker, image, "python", "-m", "pip", "list")
    assert "scipy" in packages
    assert "torch" not in packages


def test_every_image_is_built_here() -> None:
    assert {*TORCH, "gate"} == {path.parent.name for path in CONTAINERS.glob("*/Dockerfile")}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("folder", TORCH)
def test_a_training_image_adds_its_packages_and_keeps_the_base_s_torch(
    docker: list[str], base: str, folder: str
) -> None:
    image = build(docker, folder, with_torch(docker, base, TORCH[folder]))
    packages = dict(
        line.split("==")
        for line in run(docker, image, "python", "-m", "pip", "freeze").splitlines()
        if "==" in line
    )
    assert packages["torch"] == TORCH[folder]
    locked = pinned(CONTAINERS / folder / "requirements.lock")
    for name in requirements(CONTAINERS / folder / "requirements.txt").keys() - {"torch"}:
        assert packages.get(name, packages.get(name.replace("-", "_"))) == locked[name]
