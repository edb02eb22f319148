"""Names that both sides of a border use stand once, in `compilegate/job/contract.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from compilegate.job import contract
from tests.imports.project import PROJECT, modules

KINDS = ("_VARIABLE", "_FILE", "_FOLDER", "_ARCHIVE", "_ARM", "_HYPERPARAMETER")
ORDINARY = {"none", "baseline", "evidence"}
"""Words that mean other things as well: a distribution of none, a reason's group."""
SHARED = {
    value: name
    for name, value in vars(contract).items()
    if name.endswith(KINDS) and value not in ORDINARY
}


def spelled_out(source: str) -> Iterator[str]:
    """Shared names that a module writes as a text of its own, by line; not in its docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings and node.value in SHARED:
            yield f"line {node.lineno} has {node.value!r}: use contract.{SHARED[node.value]}"


@pytest.mark.slow
def test_no_module_spells_out_a_shared_name() -> None:
    found = [
        f"{path.relative_to(PROJECT).as_posix()}: {each}"
        for path in modules().values()
        if path != Path(contract.__file__)
        for each in spelled_out(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_name_that_is_spelled_out_is_found_with_its_line() -> None:
    source = '"""Reads verdict.json."""\n\nWHERE = {"verdict.json": "COMPILEGATE_ARM"}\n'
    assert list(spelled_out(source)) == [
        "line 3 has 'verdict.json': use contract.VERDICT_FILE",
        "line 3 has 'COMPILEGATE_ARM': use contract.ARM_VARIABLE",
    ]
