"""Every error of this project has one root, so that it reaches the terminal as a line."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from compilegate.errors import CompilegateError

PROJECT = Path(__file__).parents[2]
FOREIGN = {"compilegate.account.errors.WebPageError"}
"""What botocore has to take for one of its own."""
ALONE = {
    "compilegate.local.transform_program.FilterError",
    "compilegate.local.xgboost.JobError",
    "compilegate.serving.toolkit.HandlerError",
    "compilegate.serving.toolkit.UnsupportedTypeError",
}
"""Of programs that run without this package: in an image's environment, or before there is one."""


def exceptions(room: str) -> list[tuple[str, str]]:
    """The module and name of each exception class that is declared at the top of a module."""
    package = f"compilegate.{room}" if room == "pipelines" else room
    return [
        (".".join([package, *path.relative_to(PROJECT / room).with_suffix("").parts]), node.name)
        for path in sorted((PROJECT / room).rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error") and node.name[0] != "_"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("room", ["compilegate", "pipelines", "training"])
def test_all_errors_have_one_root(room: str) -> None:
    found = exceptions(room)
    assert found
    strangers = [
        f"{module}.{name}"
        for module, name in found
        if not issubclass(getattr(importlib.import_module(module), name), CompilegateError)
    ]
    assert set(strangers) <= FOREIGN | ALONE
