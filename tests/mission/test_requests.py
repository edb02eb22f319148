"""The training requests of ten stacks, as SageMaker gets them, and the definitions of what ships.

The stacks: AWS's images of Training Compiler for PyTorch, Hugging Face and TensorFlow, debug mode,
images of a team's own, Neuron; one GPU and many."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compilegate.cli import main
from tests.mission.golden import ACCOUNT, KEY, REGION, compare

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STACKS = Path(__file__).parent / "stacks"
SHIPPED = sorted(path.stem for path in (ROOT / "workloads").glob("*.toml"))


def definition_of(workload: Path, project: Path, output: Path) -> dict[str, Any]:
    """The definition of a workload, with an account's names in it."""
    place = ["--account", ACCOUNT, "--region", REGION, "--key", KEY, "--project", str(project)]
    command = ["compile", str(workload), *place, "--output", str(output)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    definition: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return definition


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with this one's settings and images, and two images that a team has added."""
    folder = tmp_path_factory.mktemp("project")
    containers = folder / "containers"
    shutil.copytree(ROOT / "containers", containers)
    shutil.copytree(ROOT / "containers" / "training", containers / "own-training")
    shutil.copytree(STACKS / "containers", containers, dirs_exist_ok=True)
    (folder / "infra").mkdir()
    shutil.copy(ROOT / "infra" / "settings.toml", folder / "infra")
    return folder


@pytest.mark.parametrize("stack", sorted(path.stem for path in STACKS.glob("*.toml")))
def test_the_training_requests_of_a_stack_are_as_they_were(
    stack: str, project: Path, tmp_path: Path
) -> None:
    found = definition_of(STACKS / f"{stack}.toml", project, tmp_path / "definition.json")
    requests = {
        step["Name"]: step["Arguments"] for step in found["Steps"] if step["Type"] == "Training"
    }
    assert len(requests) >= 2
    compare(f"requests/{stack}", requests)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_definition_of_a_shipped_workload_is_as_it_was(name: str, tmp_path: Path) -> None:
    workload = ROOT / "workloads" / f"{name}.toml"
    found = definition_of(workload, ROOT, tmp_path / "definition.json")
    compare(f"definitions/{name}", found)
