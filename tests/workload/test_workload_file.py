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


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "epochs = 1",
            "epochs = 1\nwarmup = 0.1",
            "recipe.warmup is not a known key, allowed here: averaging, epochs, "
            "evaluate_every_epochs, gradient_clip, log_every_steps, warmup_fraction, weight_decay",
        ),
        (
            "epochs = 1",
            "epochs = 1\nweight_decy = 0",
            "recipe.weight_decy is not a known key (did you mean 'weight_decay'?), allowed here: "
            "averaging, epochs, evaluate_every_epochs, gradient_clip, log_every_steps, "
            "warmup_fraction, weight_decay",
        ),
        ("epochs = 1", 'epochs = "1"', "recipe.epochs: found '1', allowed: a whole number"),
        ("epochs = 1", "epochs = 0", "recipe.epochs: found 0, allowed: a number of 1 or more"),
        ("epochs = 1", "", "recipe.epochs is missing, and must be given"),
        (
            'compiler = "inductor"',
            'compiler = "tvm"',
            "arms.compiled.compiler: found 'tvm', allowed: 'eager', 'inductor', 'neuron', "
            "'torch-compile', 'training-compiler' or 'xla'",
        ),
        (
            "[arms.baseline]",
            "[arms.first]",
            "arms holds first, compiled, allowed: a table [arms.baseline], and any "
            "candidates beside it",
        ),
        (
            'compiler = "eager"',
            'compiler = "inductor"',
            "arms.baseline.compiler is 'inductor', allowed: 'eager', since candidates are compared "
            "with training without a compiler",
        ),
        (
            "[arms.compiled]",
            "[arms.none]",
            "arms.none is not allowed: a verdict says 'none' where it names no arm",
        ),
        (
            "seeds = [1, 2]",
            "seeds = [1, 1]",
            "seeds holds 1 more than once, allowed: distinct seeds",
        ),
        ("seeds = [1, 2]", "seeds = []", "seeds: found [], allowed: 1 or more entries"),
        (
            "seeds = [1, 2]",
            f"seeds = {list(range(40))}",
            "arms x seeds is 2 x 40 = 80 training jobs, allowed: 63 at most in one execution",
        ),
        (
            'source = "files"',
            'source = "file"',
            "data.source: found 'file', allowed: 'reuters-r8' or 'files' or 'folder' or 'hub' or "
            "'wheel'",
        ),
        (
            'source = "files"\n',
            "",
            "data.source is missing, allowed: 'reuters-r8' or 'files' or 'folder' or 'hub' or "
            "'wheel'",
        ),
        (
            'train = "train.csv"',
            'train = "train.xml"',
            "data: train is 'train.xml', allowed: a file ending in .csv, .jsonl or .parquet",
        ),
        (
            "margin = 0.01",
            "margin = -0.01",
            "gate.metrics.accuracy.margin: found -0.01, allowed: a number greater than 0.0",
        ),
        (
            'train = "train.csv"',
            'slices = ["language", "language"]\ntrain = "train.csv"',
            "data: slices holds 'language' more than once, allowed: each column once",
        ),
        (
            'train = "train.csv"',
            'slices = ["text"]\ntrain = "train.csv"',
            "data: slices holds 'text', which is the column of texts, allowed: columns of "
            "categories",
        ),
        (
            "[gate.metrics.accuracy]",
            '[gate]\ncode = ["../metrics.py"]\n[gate.metrics.accuracy]',
            "gate: code holds '../metrics.py', allowed: the relative path of a Python file or of a "
            "folder that can be imported",
        ),
        (
            "[gate.metrics.accuracy]",
            '[gate]\ncode = ["my-metrics"]\n[gate.metrics.accuracy]',
            "gate: code holds 'my-metrics', allowed: the relative path of a Python file or of a "
            "folder that can be imported",
        ),
        (
            "[gate.metrics.accuracy]",
            '[gate]\ncode = ["lib/numpy"]\n[gate.metrics.accuracy]',
            "gate: code holds 'lib/numpy', which would hide the module numpy from the gate, "
            "allowed: another name",
        ),
        (
            "[gate.metrics.accuracy]",
            '[gate]\ncode = ["a/own.py", "b/own.py"]\n[gate.metrics.accuracy]',
            "gate: code holds the module own more than once, allowed: distinct names",
        ),
        ('name = "topics"', 'name = "other"', "name: found 'other', allowed: 'topics', as the file "
         "is called"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_sentence_with_key_finding_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    assert problems(tmp_path, changed(old, new)) == (expected,)


SLICE = """
[[gate.slices]]
column = "language"
metric = "accuracy"
margin = 0.02
"""


@pytest.mark.parametrize(("declared", "there"), [("", "none"), ('slices = ["region"]', "'region'")])
def test_a_slice_of_a_column_that_the_data_do_not_carry_is_refused(
    tmp_path: Path, declared: str, there: str
) -> None:
    text = changed('train = "train.csv"', f'{declared}\ntrain = "train.csv"') + SLICE
    assert problems(tmp_path, text) == (
        "gate.slices[0].column is 'language', allowed: a column that data.slices names "
        f"(now: {there}), since only those reach the evidence",
    )


def test_a_slice_of_a_column_that_the_data_carry_is_valid(tmp_path: Path) -> None:
    text = changed('train = "train.csv"', 'slices = ["language"]\ntrain = "train.csv"') + SLICE
    workload = read_workload(write(tmp_path, text))
    assert workload.gate.slices[0].column == "language"


def test_reuters_has_no_column_to_slice_by(tmp_path: Path) -> None:
    text = changed('train = "train.csv"\nvalidation = "validation.csv"', 'slices = ["language"]')
    (problem,) = problems(tmp_path, text.replace('"files"', '"reuters-r8"'))
    assert problem.startswith("data.slices is not a known key")


def test_two_arms_of_one_name_are_refused_with_their_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, changed("[arms.compiled]", "[arms.baseline]"))
    assert problem.startswith("two arms of one name, allowed: each arm once: ")
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
