"""A workload's own metric functions are loaded as the gate will load them, before any training."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from compilegate.gate.settings import MetricGuard
from compilegate.pipelines.staging import (
    MetricFunctionsError,
    OwnCodeError,
    check_metric_functions,
    gate_tree,
    own_code,
)
from compilegate.workload import Workload, read_workload

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TOPICS = read_workload(ROOT / "tests" / "pipelines" / "topics.toml")
REQUIREMENTS = ROOT / "containers" / "gate" / "requirements.txt"


def workload_with(function: str, *code: str) -> Workload:
    guard = MetricGuard(direction="higher", margin=0.1, function=function)
    gate = TOPICS.gate.model_copy(update={"metrics": {"own": guard}, "code": list(code)})
    return dataclasses.replace(TOPICS, gate=gate)


def check(workload: Workload, folder: Path) -> None:
    check_metric_functions(workload, gate_tree(own_code(workload.gate.code, folder)), REQUIREMENTS)


def leaves_a_mark(folder: Path) -> str:
    """Code that shows that it was imported."""
    return f"import pathlib\npathlib.Path({str(folder / 'imported')!r}).touch()\n"


def refused(workload: Workload, folder: Path) -> str:
    with pytest.raises(MetricFunctionsError) as caught:
        check(workload, folder)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.slow
def test_functions_of_modules_and_packages_beside_the_workload_are_loaded(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "house"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"print('being imported')\n{leaves_a_mark(tmp_path)}")
    (package / "errors.py").write_text("def worst(examples):\n    return 0.0\n")
    check(workload_with("house.errors.worst", "lib/house"), tmp_path)
    assert (tmp_path / "imported").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def other(examples): ...", "AttributeError: module 'mine' has no attribute 'metric'"),
        ("metric = 3", "mine.metric is int, not a function"),
        ("def metric(): ...", "mine.metric() cannot be called with the examples alone"),
    ],
)
def test_what_cannot_be_loaded_is_told_with_its_key_and_the_remedy(
    tmp_path: Path, source: str, told: str
) -> None:
    (tmp_path / "mine.py").write_text(source + "\n")
    problem = refused(workload_with("mine.metric", "mine.py"), tmp_path)
    assert problem.startswith("gate.metrics.own.function: ")
    assert told in problem
    assert "list its file or package in gate.code" in problem


@pytest.mark.slow
def test_a_module_that_lies_here_but_is_not_listed_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be found here, and not where the gate runs."""
    (tmp_path / "mine.py").write_text("def metric(examples): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert "No module named 'mine'" in refused(workload_with("mine.metric"), tmp_path)


@pytest.mark.slow
def test_a_package_that_the_gate_s_image_lacks_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import safetensors\n\ndef metric(examples): ...\n")
    assert refused(workload_with("mine.metric", "mine.py"), tmp_path) == (
        "gate.metrics: the functions import safetensors, which the gate's image does not have; "
        f"add safetensors to {REQUIREMENTS}"
    )


@pytest.mark.slow
def test_a_module_that_ends_the_process_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os\nos._exit(3)\n")
    problem = refused(workload_with("mine.metric", "mine.py"), tmp_path)
    assert problem == "gate.metrics: importing mine.metric ended the process: it said nothing"


def test_without_functions_of_one_s_own_nothing_is_started(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(leaves_a_mark(tmp_path))
    gate = gate_tree(own_code(["mine.py"], tmp_path))
    check_metric_functions(TOPICS, gate, tmp_path / "no such file")
    assert not (tmp_path / "imported").exists()


def test_a_folder_is_taken_without_what_is_hidden_or_compiled(tmp_path: Path) -> None:
    for name in ("mine/a.py", "mine/table.csv", "mine/.git/b.py", "mine/__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert own_code(["mine"], tmp_path) == {
        "mine/a.py": b"mine/a.py",
        "mine/table.csv": b"mine/table.csv",
    }


def test_code_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OwnCodeError, match=r"gate\.code\[1\]: .*mine\.py does not exist"):
        own_code([".", "mine.py"], tmp_path)
    (tmp_path / "mine.py").write_bytes(b"#" * 10_000_001)
    with pytest.raises(OwnCodeError, match="holds 10,000,001 bytes, allowed: 10,000,000 at most"):
        own_code(["mine.py"], tmp_path)
