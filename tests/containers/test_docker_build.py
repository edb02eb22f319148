"""The Dockerfiles, built for real on a base that stands in for AWS's.

It needs a container engine (DOCKER_HOST), the public registry of Python's images and a package
index. Where they are not there, no image is built, and the summary of the run says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compilegate.pipelines.staging.source_trees import gate_tree
from tests.containers.test_image_folders import pinned, requirements

CONTAINERS = Path(__file__).parents[2] / "containers"
PYTHON = "public.ecr.aws/docker/library/python:{}-slim-bookworm"
BASES = {
    "neuron": ("3.12", "2.9.0+standin"),
    "training": ("3.12", "2.13.0+standin"),
    "training-compiler": ("3.9", "1.13.1+standin"),
    "xgboost": ("3.12", "2.13.0+standin"),
}
"""The Python and the torch of the base of each image for training."""
WITH_TORCH = """FROM {python}
RUN python -c "import pathlib, sysconfig; \
folder = pathlib.Path(sysconfig.get_path('purelib'), 'torch-{torch}.dist-info'); \
folder.mkdir(); \
(folder / 'METADATA').write_text('Name: torch\\nVersion: {torch}\\n'); \
(folder / 'RECORD').write_text('')"
"""
"""A torch that has a name and a version and nothing else: a build shows whether it stays."""


@pytest.fixture(scope="module")
def docker() -> Iterator[list[str]]:
    """The command of an engine that answers and has a base; removes what was built."""
    program = shutil.which("docker") or "false"
    for command in (["info"], ["pull", "--quiet", PYTHON.format("3.12")]):
        if subprocess.run([program, *command], capture_output=True, check=False).returncode:
            pytest.skip(f"NO IMAGE WAS BUILT: `docker {command[0]}` fails; set DOCKER_HOST")
    yield [program]
    names = ("--format", "{{.Repository}}:{{.Tag}}", "--filter", "reference=compilegate-test/*")
    listing = [program, "image", "ls", *names]
    made = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
    subprocess.run([program, "image", "rm", "--force", *made], check=True, capture_output=True)


def build(docker: list[str], folder: str, base_image: str) -> str:
    """Build an image folder; returns the image's name."""
    image = f"compilegate-test/{folder}"
    index = os.environ.get("PIP_INDEX_URL")
    options = ["--build-arg", f"BASE_IMAGE={base_image}", "--tag", image]
    options += ["--build-arg", f"PIP_INDEX_URL={index}"] if index else []
    # The index may only be reachable the way that this machine reaches it.
    place = ["--network", "host", str(CONTAINERS / folder)]
    subprocess.run([*docker, "build", *options, *place], check=True)
    return image


def run(docker: list[str], image: str, *command: str, path: str = "") -> str:
    """What a command prints in a container of the image; `path` is Python's module path."""
    options = ("--rm", "--network", "none", "--env", f"PYTHONPATH={path}")
    line = [*docker, "run", *options, image, *command]
    return subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.long
def test_the_gate_s_image_runs_the_gate_and_has_no_torch(docker: list[str], tmp_path: Path) -> None:
    image = build(docker, "gate", PYTHON.format("3.12"))
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
    assert {*BASES, "gate"} == {path.parent.name for path in CONTAINERS.glob("*/Dockerfile")}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("folder", BASES)
def test_a_training_image_adds_its_packages_and_keeps_the_base_s_torch(
    docker: list[str], folder: str
) -> None:
    python, torch = BASES[folder]
    base = f"compilegate-test/base-{folder}"
    text = WITH_TORCH.format(python=PYTHON.format(python), torch=torch)
    command = [*docker, "build", "--quiet", "--tag", base, "-"]
    subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    image = build(docker, folder, base)
    listed = run(docker, image, "python", "-m", "pip", "freeze").splitlines()
    packages = dict(line.split("==") for line in listed if "==" in line)
    assert packages["torch"] == torch
    locked = pinned(CONTAINERS / folder / "requirements.lock")
    for name in requirements(CONTAINERS / folder / "requirements.txt").keys() - {"torch"}:
        assert packages.get(name, packages.get(name.replace("-", "_"))) == locked[name]
