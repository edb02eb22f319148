"""What a workload's own code needs in its images is found before any training."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.gate.settings import MetricGuard
from compilegate.pipelines.staging.requirements import (
    MetricFunctionsError,
    check_metric_functions,
    imported_modules,
)
from compilegate.pipelines.staging.source_trees import gate_tree, own_code
from compilegate.workload import Workload, read_workload

ROOT = Path(__file__).parents[2]
TOPICS = read_workload(ROOT / "tests" / "pipelines" / "topics.toml")
REQUIREMENTS = ROOT / "containers" / "gate" / "requirements.txt"


def workload_with(function: str, *code: str) -> Workload:
    guard = MetricGuard(direction="higher", margin=0.1, function=function)
    gate = TOPICS.gate.model_copy(update={"metrics": {"own": guard}, "code": list(code)})
    return TOPICS.model_copy(update={"gate": gate})


def check(workload: Workload, folder: Path) -> None:
    check_metric_functions(workload, gate_tree(own_code(workload.gate.code, folder)), REQUIREMENTS)


def leaves_a_mark(folder: Path) -> str:
    """Code that shows that it was imported."""
    return f"import pathlib\npathlib.Path({str(folder / 'imported')!r}).touch()\n"


@pytest.mark.slow
def test_functions_of_packages_beside_the_workload_are_loaded(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "house"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"print('being imported')\n{leaves_a_mark(tmp_path)}")
    (package / "errors.py").write_text("def worst(examples):\n    return 0.0\n")
    check(workload_with("house.errors.worst", "lib/house"), tmp_path)
    assert (tmp_path / "imported").exists()


def test_without_functions_of_one_s_own_nothing_is_started(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(leaves_a_mark(tmp_path))
    gate = gate_tree(own_code(["mine.py"], tmp_path))
    check_metric_functions(TOPICS, gate, tmp_path / "no such file")
    assert not (tmp_path / "imported").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "code", "sentences"),
    [
        (
            "import no_such_module",
            "mine.py",
            ["own.function: ", "No module named 'no_such_module'; list"],
        ),
        ("def other(examples): ...", "mine.py", ["own.function: ", "no attribute 'metric'; list "]),
        ("metric = 3", "mine.py", ["mine.metric is int, not a function; list its file or package"]),
        (
            "def metric(): ...",
            "mine.py",
            ["mine.metric() cannot be called with the examples alone"],
        ),
        # It would be found here, and not where the gate runs.
        ("def metric(examples): ...", None, ["No module named 'mine'; list its file or package"]),
        (
            "import safetensors\n\ndef metric(examples): ...",
            "mine.py",
            [f"the gate's image does not have; add safetensors to {REQUIREMENTS}"],
        ),
        ("import os\nos._exit(3)", "mine.py", ["importing mine.metric ended the process"]),
    ],
)
def test_a_function_that_the_gate_could_not_load_is_refused_with_the_remedy(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    code: str | None,
    sentences: list[str],
) -> None:
    (tmp_path / "mine.py").write_text(source + "\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MetricFunctionsError) as caught:
        check(workload_with("mine.metric", *([code] if code else [])), tmp_path)
    (problem,) = caught.value.problems
    assert problem.startswith("gate.metrics")
    for sentence in sentences:
        assert sentence in problem


@pytest.mark.parametrize(
    ("script", "files", "libraries"),
    [
        (
            "train.py",
            {
                "train.py": b"import numpy as np\nfrom net import model\nfrom .settings import R\n",
                "net/__init__.py": b"",
                "net/model.py": b"def build():\n    import torch.nn as nn\n    return nn\n",
                "settings.py": b"import train, os.path\n",
                "prepare.py": b"import tensorflow\n",
            },
            {"numpy", "torch", "os"},
        ),
        (
            "src/train.py",
            {
                "src/train.py": b"import trees\nimport shared\n",
                "src/trees.py": b"from xgboost import XGBClassifier\n",
                "shared.py": b"import pandas.api\n",
            },
            {"xgboost", "pandas"},
        ),
        ("train.py", {"train.py": b"print 'old'\n"}, set()),
        ("train.py", {"train.py": b"\0"}, set()),
    ],
)
def test_files_beside_the_script_are_followed_and_others_are_not(
    script: str, files: dict[str, bytes], libraries: set[str]
) -> None:
    assert imported_modules(files, script) == libraries
