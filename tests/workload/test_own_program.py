"""Workloads that bring a program of their own: what kind that makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.workload import FolderData, OwnProgram, TextClassification, read_workload
from tests.workload.settled import workload_with

WORKLOADS = Path(__file__).parents[2] / "workloads"
OWN, PRINTED = (Path(__file__).with_name(name) for name in ("own.toml", "printed.toml"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("news-topics", TextClassification),
        ("images-diffusion", OwnProgram),
        ("tumours-xgboost", OwnProgram),
    ],
)
def test_the_tables_say_what_kind_a_workload_is(name: str, kind: type) -> None:
    assert isinstance(read_workload(WORKLOADS / f"{name}.toml").kind, kind)


@pytest.mark.parametrize("path", [OWN, PRINTED])
def test_a_program_takes_the_place_of_model_and_recipe(path: Path) -> None:
    workload = read_workload(path)
    assert workload.kind.scripts["program.entry"] == "train.py"
    assert repr(workload) == repr(read_workload(path))


def test_a_baseline_may_be_alone() -> None:
    arms = {"compiled": None}
    workload = workload_with(OWN, arms=arms, gate__metrics__accuracy={"margin": None, "drop": 0.01})
    assert (list(workload.arms), workload.candidates) == (["baseline"], {})
    guard = workload.gate.metrics["accuracy"]
    assert (guard.margin, guard.drop) == (None, 0.01)


@pytest.mark.parametrize(
    "data",
    [
        {"source": "folder", "folder": "photos"},
        {
            "source": "wheel",
            "wheel": "a-1-py3-none-any.whl",
            "sha256": "0" * 64,
            "files": ["a/b.csv"],
        },
    ],
)
def test_data_of_a_program_of_ones_own_may_be_a_folder_or_files_of_a_wheel(data: dict) -> None:
    workload = workload_with(OWN, data={**data, "train": None, "validation": None})
    assert workload.data.source == data["source"]
    assert isinstance(workload.data, FolderData) == ("folder" in data)
