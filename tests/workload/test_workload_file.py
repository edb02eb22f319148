"""What a workload file may say, and what is said of one that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compilegate.workload import FilesData, WorkloadError, find_workload, read_workload
from tests.workload.settled import TOPICS, workload_with

WORKLOADS = Path(__file__).parents[2] / "workloads"
VALID = """
name = "topics"
description = "A small one"
seeds = [1, 2]

[data]
source = "files"
train = "train.csv"
validation = "validation.csv"

[model]
source = "random"

[recipe]
epochs = 1

[arms.baseline]
compiler = "eager"
batch_size = 8
learning_rate = 1e-3

[arms.compiled]
compiler = "inductor"
batch_size = 8
learning_rate = 1e-3

[gate.metrics.accuracy]
direction = "higher"
margin = 0.01
"""


def write(folder: Path, text: str, name: str = "topics") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(folder: Path, text: str) -> tuple[str, ...]:
    path = write(folder, text)
    with pytest.raises(WorkloadError) as caught:
        read_workload(path)
    assert all(problem.startswith(f"{path}: ") for problem in caught.value.problems)
    return tuple(problem.removeprefix(f"{path}: ") for problem in caught.value.problems)


def changed(old: str, new: str) -> str:
    assert old in VALID
    return VALID.replace(old, new)


@pytest.mark.parametrize("path", sorted(WORKLOADS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_workload_of_the_repository_is_valid(path: Path) -> None:
    assert read_workload(path).name == path.stem


def test_a_valid_file_becomes_typed_values_with_the_documented_defaults(tmp_path: Path) -> None:
    workload = read_workload(write(tmp_path, VALID))
    assert isinstance(workload.data, FilesData)
    assert workload.data.sequence_length == 64
    assert list(workload.candidates) == ["compiled"]
    assert workload.arms["compiled"].precision == "fp32"
    assert workload.gate.min_speedup == 1.2
    assert workload.model_package_group == "topics"


def test_a_model_of_the_hub_takes_the_place_of_the_random_one(tmp_path: Path) -> None:
    text = changed('source = "random"', 'source = "hub"\nid = "google-bert/bert-base-uncased"')
    kind = read_workload(write(tmp_path, text)).kind
    assert kind.hub_model == "google-bert/bert-base-uncased"


SLICE = """
[[gate.slices]]
column = "language"
metric = "accuracy"
margin = 0.02
"""


def test_a_name_other_than_the_file_s_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, changed('name = "topics"', 'name = "other"')) == (
        "name is 'other', expected 'topics', as the file is called",
    )


def test_a_slice_of_a_column_that_the_data_carry_is_valid(tmp_path: Path) -> None:
    text = changed('train = "train.csv"', 'slices = ["language"]\ntrain = "train.csv"') + SLICE
    workload = read_workload(write(tmp_path, text))
    assert workload.gate.slices[0].column == "language"


def test_two_arms_of_one_name_are_refused_with_their_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, changed("[arms.compiled]", "[arms.baseline]"))
    assert problem.startswith("two arms have one name, expected each arm once: ")
    assert "(at line 22" in problem


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = changed("epochs = 1", "epochs = 0").replace("batch_size = 8", "batch_size = 8.5")
    assert len(problems(tmp_path, text)) == 3


def test_a_file_that_is_not_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, VALID + "\nseeds [1]\n")
    assert problem.startswith("not valid TOML: ")
    assert "line" in problem


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "topics.toml"
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(WorkloadError, match="not UTF-8 text at byte 8"):
        read_workload(path)


def test_an_unknown_name_is_refused_with_the_closest_that_there_is(tmp_path: Path) -> None:
    write(tmp_path, VALID)
    with pytest.raises(WorkloadError, match=r"did you mean 'topics'\?.*holds topics"):
        find_workload("topic", tmp_path)


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
    lines = VALID.splitlines()
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
    path = write(tmp_path, "\n".join(lines))
    try:
        read_workload(path)
    except WorkloadError as error:
        assert error.problems
        assert all(problem.startswith(f"{path}: ") for problem in error.problems)


def test_intervals_reach_the_jobs_only_where_they_are_declared() -> None:
    """A default that is spelled out would train every arm anew."""
    told = {"log_every_steps": "500", "evaluate_every_epochs": "10"}
    silent = workload_with(TOPICS, recipe={"log_every_steps": 0})
    program = silent.kind.training_program(silent, "baseline", 1)
    assert told.keys().isdisjoint(program.hyperparameters)
    spoken = workload_with(TOPICS, recipe={name: int(value) for name, value in told.items()})
    program = spoken.kind.training_program(spoken, "baseline", 1)
    assert told.items() <= program.hyperparameters.items()
