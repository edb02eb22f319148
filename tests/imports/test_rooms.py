"""What may import what: the rules of CONTRIBUTING.md, held against the code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
GATE_IMAGE = {"jinja2", "markupsafe", "numpy", "pydantic", "pydantic_core", "scipy"}

ROOMS = {
    "training": {"numpy", "pyarrow", "safetensors", "tokenizers", "torch", "transformers"},
    "pipelines/declaration_errors.py": {"pydantic", "pydantic_core"},
    "pipelines/gate": {"pipelines.declaration_errors", "training.evidence", *GATE_IMAGE},
    "pipelines/report": {"pipelines.gate", "training.evidence", *GATE_IMAGE},
    "pipelines/gate_job.py": {"pipelines.gate", "pipelines.report", *GATE_IMAGE},
    "pipelines/gather_job.py": set(),
    "pipelines/printed_gate_job.py": {
        "pipelines.gate",
        "pipelines.gate_job",
        "pipelines.report",
        *GATE_IMAGE,
    },
    "pipelines/succession_job.py": {
        "pipelines.gate",
        "pipelines.gate_job",
        "pipelines.report",
        "training.evidence",
        *GATE_IMAGE,
    },
    "infra": {"aws_cdk", "boto3", "botocore", "constructs", "notifier", "pipelines"},
    "infra/starter": {"boto3", "botocore"},
    "infra/notifier": {"boto3", "botocore", "notifier"},
    "pipelines/catalog": set(),
    "pipelines/local": {"packaging", "pipelines.semantics"},
    "pipelines/semantics": set(),
    "pipelines/workload": {
        "pipelines.catalog",
        "pipelines.declaration_errors",
        "pipelines.gate.config",
        "pydantic",
    },
    "pipelines/settings": {
        "pipelines.declaration_errors",
        "pipelines.definition.deployment",
        "pipelines.workload",
        "pydantic",
    },
    "pipelines/aws": {
        "pipelines.catalog",
        "pipelines.datasets",
        "pipelines.definition.deployment",
        "pipelines.semantics",
        "pipelines.settings",
        "pipelines.staging",
        "pipelines.workload",
        "boto3",
        "botocore",
    },
    "pipelines/batch_size": {"pipelines.local.atomic_files"},
    "pipelines/datasets": {"pipelines.workload", "datasets"},
    "pipelines/definition": {
        "pipelines.catalog",
        "pipelines.semantics",
        "pipelines.workload",
        "boto3",
        "botocore",
        "regex",
        "sagemaker",
    },
    "pipelines/staging": {
        "pipelines.catalog",
        "pipelines.datasets",
        "pipelines.definition.deployment",
        "pipelines.gate.config",
        "pipelines.gate.succession_file",
        "pipelines.workload",
        "packaging",
        "pydantic",
    },
}
"""By room, what its modules may import beside the standard library and the room itself."""


def modules(room: str) -> list[Path]:
    place = PROJECT / room
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}: imports are absolute here"
            yield node.module


def allowed(name: str, room: str) -> bool:
    own = room.removesuffix(".py").replace("/", ".")
    return name.split(".", maxsplit=1)[0] in sys.stdlib_module_names or any(
        name == known or name.startswith(f"{known}.") for known in {own, *ROOMS[room]}
    )


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    assert modules(room)
    wrong = [
        f"{path.relative_to(PROJECT)} imports {name}"
        for path in modules(room)
        for name in imported(path)
        if not allowed(name, room)
    ]
    assert wrong == []


def test_nothing_imports_the_cdk_app() -> None:
    users = [
        path.relative_to(PROJECT).as_posix()
        for room in ("pipelines", "training", "infra/notifier", "infra/starter")
        for path in modules(room)
        if any(name == "infra" or name.startswith("infra.") for name in imported(path))
    ]
    assert users == []


def test_nothing_imports_the_command_line() -> None:
    users = [
        path.relative_to(PROJECT).as_posix()
        for path in [*modules("pipelines"), *modules("training")]
        if "pipelines/cli" not in path.as_posix()
        and any(name.startswith("pipelines.cli") for name in imported(path))
    ]
    assert users == []
