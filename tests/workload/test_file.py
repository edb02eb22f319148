"""What a workload's file becomes, which arms of it train, and what is said of a damaged one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compilegate.pipelines.staging.placement import experiment_of
from compilegate.workload import (
    FolderData,
    OwnProgram,
    TextClassification,
    WorkloadError,
    find_workload,
    read_workload,
)
from tests.workload.settled import TOPICS, workload_with

WORKLOADS = Path(__file__).parents[2] / "workloads"
OWN, PRINTED = (Path(__file__).with_name(name) for name in ("own.toml", "printed.toml"))
NEWS = read_workload(WORKLOADS / "news-topics.toml")
TEXT = TOPICS.read_text(encoding="utf-8")


def problems(folder: Path, content: bytes) -> list[str]:
    path = folder / "topics.toml"
    path.write_bytes(content)
    with pytest.raises(WorkloadError) as caught:
        read_workload(path)
    assert all(problem.startswith(f"{path}: ") for problem in caught.value.problems)
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]


@pytest.mark.parametrize("path", sorted(WORKLOADS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_workload_of_the_repository_is_valid(path: Path) -> None:
    workload = read_workload(path)
    assert workload.name == path.stem
    own = "[program]" in path.read_text(encoding="utf-8")
    assert type(workload.kind) is (OwnProgram if own else TextClassification)


def test_what_a_file_leaves_out_has_the_documented_default() -> None:
    workload = workload_with(TOPICS, registry={"group": None})
    assert list(workload.candidates) == ["compiled"]
    assert workload.arms["baseline"].precision == "fp32"
    assert workload.gate.min_speedup == 1.2
    assert workload.model_package_group == "topics"


def test_a_model_of_the_hub_takes_the_place_of_the_random_one() -> None:
    hub = {"source": "hub", "id": "google-bert/bert-base-uncased"}
    sizes = dict.fromkeys(("layers", "hidden_size", "attention_heads", "intermediate_size"))
    workload = workload_with(TOPICS, model={**hub, **sizes, "dropout": None})
    assert workload.kind.hub_model == "google-bert/bert-base-uncased"


@pytest.mark.parametrize("path", [OWN, PRINTED])
def test_a_program_takes_the_place_of_model_and_recipe(path: Path) -> None:
    workload = read_workload(path)
    assert workload.kind.scripts["program.entry"] == "train.py"
    assert repr(workload) == repr(read_workload(path))


@pytest.mark.parametrize(
    "data",
    [
        {"source": "folder", "folder": "photos"},
        {"source": "wheel", "wheel": "a-1-py3-none-any.whl", "sha256": "0" * 64, "files": ["b"]},
    ],
    ids=str,
)
def test_data_of_a_program_of_ones_own_may_be_a_folder_or_files_of_a_wheel(data: Any) -> None:
    workload = workload_with(OWN, data={**data, "train": None, "validation": None})
    assert isinstance(workload.data, FolderData) == ("folder" in data)


def test_a_baseline_may_be_alone() -> None:
    guard = {"margin": None, "drop": 0.01}
    workload = workload_with(OWN, arms={"compiled": None}, gate__metrics__accuracy=guard)
    assert (list(workload.arms), workload.candidates) == (["baseline"], {})
    alone = NEWS.with_arms(["baseline"])
    assert (list(alone.arms), alone.left_out) == (["baseline"], ("compiler-only", "larger-batch"))


def test_the_chosen_arms_stay_in_their_order_and_the_others_are_named() -> None:
    chosen = NEWS.with_arms(["compiler-only", "baseline"])
    assert list(chosen.arms) == ["baseline", "compiler-only"]
    assert chosen.left_out == ("larger-batch",)
    assert experiment_of(chosen).left_out == ["larger-batch"]
    assert NEWS.with_arms(list(NEWS.arms)) == NEWS
    for names in (["baseline", "compiler_only"], ["compiler-only"]):
        with pytest.raises(WorkloadError, match=r"^arms: .*expected baseline"):
            NEWS.with_arms(names)


def test_an_unknown_name_is_refused_with_the_closest_that_there_is() -> None:
    with pytest.raises(WorkloadError, match=r"did you mean 'news-topics'\?"):
        find_workload("news-topic", WORKLOADS)


@pytest.mark.parametrize(
    ("content", "sentences"),
    [
        (TEXT.replace('name = "topics"', 'name = "other"'), ["name is 'other', expected 'topics'"]),
        (TEXT.replace("[arms.compiled]", "[arms.baseline]"), ["two arms have one name, "]),
        (TEXT + "\nseeds [1]\n", ["not valid TOML: "]),
        (b"name = '\xff'", ["not UTF-8 text at byte 8"]),
        (
            TEXT.replace("epochs = 2", "epochs = 0").replace("batch_size = 8", "batch_size = 8.5"),
            ["recipe.epochs is 0", "arms.baseline.batch_size is 8.5"],
        ),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_all_problems_of_a_file_are_reported_at_once(
    tmp_path: Path, content: str | bytes, sentences: list[str]
) -> None:
    found = problems(tmp_path, content if isinstance(content, bytes) else content.encode())
    assert len(found) >= len(sentences)
    for sentence in sentences:
        assert any(each.startswith(sentence) for each in found), found


@pytest.mark.slow
@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_damaged_file_is_refused_in_sentences_or_still_valid(
    tmp_path: Path, data: st.DataObject
) -> None:
    """Whatever happens to one line of the file, reading it never ends in another exception."""
    lines = TEXT.splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = data.draw(
        st.one_of(
            st.just(""),
            st.text(max_size=30),
            st.sampled_from(lines),
            st.builds(
                "{} = {}".format,
                st.sampled_from(["name", "seeds", "arms", "source", "margin", "epochs"]),
                st.sampled_from(["1", "-1", "nan", "inf", "[]", "{}", '""', "true", "1e999"]),
            ),
        )
    )
    path = tmp_path / "topics.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        read_workload(path)
    except WorkloadError as error:
        assert error.problems
        assert all(problem.startswith(f"{path}: ") for problem in error.problems)


def test_intervals_reach_the_jobs_only_where_they_are_declared() -> None:
    """A default that is spelled out would train every arm anew."""
    settings = {"log_every_steps": "500", "evaluate_every_epochs": "10"}
    silent = workload_with(TOPICS, recipe={"log_every_steps": 0})
    program = silent.kind.training_program(silent, "baseline", 1)
    assert settings.keys().isdisjoint(program.hyperparameters)
    spoken = workload_with(TOPICS, recipe={name: int(value) for name, value in settings.items()})
    program = spoken.kind.training_program(spoken, "baseline", 1)
    assert settings.items() <= program.hyperparameters.items()
