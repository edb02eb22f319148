"""A definition is compiled once for what decides it, and never taken for anything else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import compilegate
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.kept import definition_of
from compilegate.workload import read_workload
from tests.pipelines.test_compilation import DEPLOYMENT, SOURCES, WORKLOAD

pytestmark = pytest.mark.slow

PACKAGE = Path(compilegate.__file__).parent
COMMAND = """
import json, sys
from pathlib import Path
from compilegate.pipelines.kept import definition_of
from compilegate.workload import read_workload
from tests.pipelines.test_compilation import DEPLOYMENT, SOURCES, WORKLOAD
told = []
text = definition_of(
    read_workload(WORKLOAD), DEPLOYMENT, SOURCES, folder=Path(sys.argv[1]), told=told.append
)
print(json.dumps({"text": text, "told": told, "sdk": "sagemaker" in sys.modules}))
"""


def in_another_process(folder: Path, seed: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(folder)],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(WORKLOAD.parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def kept(folder: Path, **changed: Any) -> tuple[str, list[str]]:
    told: list[str] = []
    parts = {
        "workload": read_workload(WORKLOAD),
        "deployment": DEPLOYMENT,
        "sources": SOURCES,
        **changed,
    }
    return definition_of(**parts, folder=folder, told=told.append), told


def test_the_second_process_imports_no_sdk_and_gets_the_same_bytes(tmp_path: Path) -> None:
    first, second = (in_another_process(tmp_path, seed) for seed in ("1", "2"))
    assert (first["sdk"], first["told"]) == (True, ["compiling topics"])
    assert (second["sdk"], second["told"]) == (False, [])
    golden = compile_definition(read_workload(WORKLOAD), DEPLOYMENT, SOURCES)
    assert first["text"] == second["text"] == golden


@pytest.mark.parametrize("damage", [lambda text: text[:-1], lambda text: text.replace("7", "9")])
def test_what_is_damaged_is_compiled_again(tmp_path: Path, damage: Any) -> None:
    text, _ = kept(tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_text(encoding="utf-8")
    file.write_text(damage(whole), encoding="utf-8")
    assert kept(tmp_path) == (text, ["compiling topics"])
    assert file.read_text(encoding="utf-8") == whole
    assert kept(tmp_path) == (text, [])


def test_another_workload_deployment_or_source_is_another_definition(tmp_path: Path) -> None:
    declared = read_workload(WORKLOAD)
    before, _ = kept(tmp_path)
    for changed in (
        {"workload": replace(declared, seeds=(7, 8, 9))},
        {"deployment": replace(DEPLOYMENT, name_prefix="neighbour-", kms_key="arn:aws:kms:k")},
        {"sources": replace(SOURCES, gate_code=DEPLOYMENT.uri("source", "ffff.zip"))},
    ):
        text, told = kept(tmp_path, **changed)
        assert told == ["compiling topics"]
        assert text != before
    assert kept(tmp_path) == (before, [])


def test_a_folder_that_cannot_be_written_is_said_and_costs_nothing_else(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    text, told = kept(occupied / "definitions")
    assert text == compile_definition(read_workload(WORKLOAD), DEPLOYMENT, SOURCES)
    assert told[0] == "compiling topics"
    assert told[1].endswith("topics will be compiled again next time")


def test_other_code_or_facts_have_another_digest(tmp_path: Path) -> None:
    copy = tmp_path / "compilegate"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "built_in"))

    def digest() -> str:
        program = "from compilegate.pipelines.kept import code_digest; print(code_digest())"
        return subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def append(name: str) -> None:
        with (copy / name).open("a", encoding="utf-8") as file:
            file.write("\n")

    before = digest()
    assert digest() == before
    append("catalog/facts/prices.csv")
    changed = digest()
    assert changed != before
    append("pipelines/steps/gate.py")
    assert digest() not in {before, changed}
