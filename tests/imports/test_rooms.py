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
    "compilegate/declaration_errors.py": {"pydantic", "pydantic_core"},
    "compilegate/gate": {"compilegate.declaration_errors", "compilegate.job.evidence", *GATE_IMAGE},
    "compilegate/report": {"compilegate.gate", "compilegate.job.evidence", *GATE_IMAGE},
    "pipelines/programs/gate.py": {"compilegate.gate", "compilegate.report", *GATE_IMAGE},
    "pipelines/programs/gather.py": set(),
    "pipelines/programs/printed_gate.py": {
        "compilegate.gate",
        "compilegate.pipelines.programs.gate",
        "compilegate.report",
        *GATE_IMAGE,
    },
    "pipelines/programs/champion.py": {
        "compilegate.gate",
        "compilegate.pipelines.programs.gate",
        "compilegate.report",
        "compilegate.job.evidence",
        *GATE_IMAGE,
    },
    "infra": {"aws_cdk", "boto3", "botocore", "constructs", "notifier", "pipelines"},
    "infra/starter": {"boto3", "botocore"},
    "infra/notifier": {"boto3", "botocore", "notifier"},
    "compilegate/catalog": set(),
    "compilegate/local": {"packaging", "compilegate.document"},
    "compilegate/document": set(),
    "compilegate/workload": {
        "compilegate.catalog",
        "compilegate.declaration_errors",
        "compilegate.gate.settings",
        "pydantic",
    },
    "compilegate/account/settings": {
        "compilegate.declaration_errors",
        "compilegate.pipelines.deployment",
        "compilegate.workload",
        "pydantic",
    },
    "compilegate/account": {
        "compilegate.catalog",
        "compilegate.datasets",
        "compilegate.pipelines.deployment",
        "compilegate.document",
        "compilegate.account.settings",
        "compilegate.pipelines.staging",
        "compilegate.workload",
        "boto3",
        "botocore",
    },
    "compilegate/batch_size": {"compilegate.local.atomic_files"},
    "compilegate/datasets": {"compilegate.workload", "datasets"},
    "pipelines": {
        "compilegate.catalog",
        "compilegate.document",
        "compilegate.workload",
        "boto3",
        "botocore",
        "regex",
        "sagemaker",
    },
    "pipelines/staging": {
        "compilegate.catalog",
        "compilegate.datasets",
        "compilegate.pipelines.deployment",
        "compilegate.gate.settings",
        "compilegate.gate.experiment",
        "compilegate.workload",
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
        if "compilegate/cli" not in path.as_posix()
        and any(name.startswith("compilegate.cli") for name in imported(path))
    ]
    assert users == []
