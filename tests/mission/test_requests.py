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


def definition_of(workload: Path, containers: Path, output: Path) -> dict[str, Any]:
    """The definition of a workload, with an account's names in it."""
    place = ["--account", ACCOUNT, "--region", REGION, "--key", KEY]
    command = ["compile", str(workload), *place, "--output", str(output)]
    settings = ["--settings", str(ROOT / "infra" / "settings.toml")]
    done = CliRunner().invoke(main, [*command, *settings, "--containers", str(containers)])
    assert done.exit_code == 0, done.output
    definition: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return definition


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's images, and two that a team has added."""
    folder = tmp_path_factory.mktemp("containers") / "containers"
    shutil.copytree(ROOT / "containers", folder)
    shutil.copytree(ROOT / "containers" / "training", folder / "own-training")
    shutil.copytree(STACKS / "containers", folder, dirs_exist_ok=True)
    return folder


@pytest.mark.parametrize("stack", sorted(path.stem for path in STACKS.glob("*.toml")))
def test_the_training_requests_of_a_stack_are_as_they_were(
    stack: str, containers: Path, tmp_path: Path
) -> None:
    found = definition_of(STACKS / f"{stack}.toml", containers, tmp_path / "definition.json")
    requests = {
        step["Name"]: step["Arguments"] for step in found["Steps"] if step["Type"] == "Training"
    }
    assert len(requests) >= 2
    compare(f"requests/{stack}", requests)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_definition_of_a_shipped_workload_is_as_it_was(name: str, tmp_path: Path) -> None:
    workload = ROOT / "workloads" / f"{name}.toml"
    found = definition_of(workload, ROOT / "containers", tmp_path / "definition.json")
    compare(f"definitions/{name}", found)
