"""Workloads that bring a program of their own: what they may say, and what kind that makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.workload import (
    OwnProgram,
    TextClassification,
    WorkloadError,
    read_workload,
)

WORKLOADS = Path(__file__).parents[2] / "workloads"
ARMS = """
[arms.baseline]
compiler = "eager"
batch_size = 8
learning_rate = 1e-3

[arms.compiled]
compiler = "inductor"
batch_size = 8
learning_rate = 1e-3
"""
ALONE = """
[arms.baseline]
compiler = "eager"
batch_size = 8
learning_rate = 1e-3
"""
GATE = """
[gate.metrics.accuracy]
direction = "higher"
margin = 0.01
"""
HEAD = """
name = "mine"
description = "Mine"
seeds = [1, 2]

[data]
source = "files"
train = "train.csv"
validation = "validation.csv"

[program]
folder = "mine"
"""
COMPARED = HEAD + ARMS + GATE
BASELINE_ALONE = HEAD + ALONE + GATE.replace("margin", "drop")
PRINTED = (
    HEAD
    + """
evidence = "printed"
speed_metric = "speed"
[program.metrics]
accuracy = 'accuracy=([0-9.]+)'
speed = '([0-9.]+) rows/s'
"""
    + ARMS
    + GATE.replace("margin", "reported = true\nmargin")
)


def read(folder: Path, text: str):
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return read_workload(path)


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


@pytest.mark.parametrize("text", [COMPARED, BASELINE_ALONE, PRINTED])
def test_a_program_takes_the_place_of_model_and_recipe(tmp_path: Path, text: str) -> None:
    workload = read(tmp_path, text)
    assert workload.kind.scripts["program.entry"] == "train.py"
    assert repr(workload) == repr(read(tmp_path, text))


def test_a_baseline_may_be_alone(tmp_path: Path) -> None:
    workload = read(tmp_path, BASELINE_ALONE)
    assert (list(workload.arms), workload.candidates) == (["baseline"], {})
    guard = workload.gate.metrics["accuracy"]
    assert (guard.margin, guard.drop) == (None, 0.01)


@pytest.mark.parametrize(
    ("text", "old", "new", "sentence"),
    [
        (COMPARED, '[program]\nfolder = "mine"', "", "model is missing, and must be given (or a"),
        (COMPARED, 'folder = "mine"', 'folder = "../x"', "program.folder: found '../x', allowed"),
        (COMPARED, 'folder = "mine"', 'folder = "a"\nentry = "x.sh"', "program.entry: found 'x.sh"),
        (
            COMPARED,
            "[arms.baseline]",
            "[recipe]\nepochs = 1\n[arms.baseline]",
            "recipe is given beside program, allowed: one of them",
        ),
        (COMPARED, "train =", "text = 'a'\ntrain =", "data.text is given beside program, allowed"),
        (
            COMPARED,
            "[arms.baseline]",
            "[program.hyperparameters]\nseed = 1\n[arms.baseline]",
            "program.hyperparameters.seed is taken, allowed: names other than compiler, ",
        ),
        (
            COMPARED,
            "[arms.baseline]",
            "[program.hyperparameters]\nsagemaker_program = 'x'\n[arms.baseline]",
            "program: hyperparameters.sagemaker_program is the training toolkit's, allowed",
        ),
        (
            COMPARED,
            "[arms.baseline]",
            "[program.metrics]\nloss = '[0-9]+'\n[arms.baseline]",
            "program.metrics: loss has no group, allowed: one that catches the number",
        ),
        (
            COMPARED,
            "[arms.baseline]",
            "[program.metrics]\nloss = '([0-9'\n[arms.baseline]",
            "program.metrics: loss is not a regular expression: ",
        ),
        (
            COMPARED,
            "[arms.baseline]",
            f"[program.metrics]\nloss = '({'x' * 499})'\n[arms.baseline]",
            "program.metrics.loss: found '(xxx",
        ),
        (
            COMPARED,
            "[arms.baseline]",
            "[program.hyperparameters]\n"
            + "".join(f"h{number} = 1\n" for number in range(89))
            + "[arms.baseline]",
            "program: hyperparameters holds 89, allowed: 88 at most, since a job takes 100",
        ),
        (
            COMPARED,
            "[arms.baseline]",
            f"[program.hyperparameters]\nlong = '{'x' * 2501}'\n[arms.baseline]",
            "program: hyperparameters.long has 2501 characters, allowed: 2500; put longer text",
        ),
        (
            PRINTED,
            'compiler = "inductor"',
            'compiler = "inductor"\nregional = true',
            "arms.compiled.regional is given and program.evidence is 'printed', allowed: with",
        ),
        (COMPARED, ARMS, "", "arms holds no arm at all, allowed: a table [arms.baseline], and any"),
        (COMPARED, "margin", "drop", "gate.metrics have no margin, allowed: one or more with a"),
        (
            BASELINE_ALONE,
            "[arms.baseline]",
            "[posture]\n[arms.baseline]",
            "posture is given and arms holds only baseline, allowed: one or more candidates",
        ),
        (
            PRINTED,
            "reported = true",
            "",
            "gate.metrics.accuracy is computed from examples, and program.evidence is 'printed'",
        ),
        (PRINTED, "accuracy = 'acc", "other = 'acc", "gate.metrics.accuracy is reported, but prog"),
        (PRINTED, "seeds = [1, 2]", "seeds = [1]", "seeds holds one seed and program.evidence is"),
        (
            PRINTED,
            'speed_metric = "speed"',
            'speed_metric = "other"',
            "program: speed_metric is 'other', allowed: with evidence = 'printed', one of metrics",
        ),
        (
            PRINTED,
            'speed_metric = "speed"',
            'speed_metric = "speed"\npercent = ["speed"]',
            "program: percent holds 'speed', allowed: with evidence = 'printed', metrics other tha",
        ),
        (
            COMPARED,
            'older = "mine"',
            'older = "mine"\npercent = ["a"]',
            "program: percent holds 'a'",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    tmp_path: Path, text: str, old: str, new: str, sentence: str
) -> None:
    assert old in text
    with pytest.raises(WorkloadError) as caught:
        read(tmp_path, text.replace(old, new))
    (problem,) = caught.value.problems
    assert problem.removeprefix(f"{tmp_path / 'mine.toml'}: ").startswith(sentence)


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (True, "new_data is given with data.source 'folder', allowed: a source of one training"),
        (False, "data.source is 'folder', allowed: with a [program] of your own, since the"),
    ],
)
def test_a_folder_is_for_a_program_of_your_own(
    tmp_path: Path, program: bool, sentence: str
) -> None:
    files = 'source = "files"\ntrain = "train.csv"\nvalidation = "validation.csv"\n'
    text = COMPARED.replace(files, 'source = "folder"\nfolder = "photos"\n')
    assert read(tmp_path, text).data.folder == "photos"
    if program:
        text += '\n[new_data]\nprefix = "in/"\n'
    else:
        built_in = '[model]\nsource = "random"\n[recipe]\nepochs = 1\n'
        text = text.replace('[program]\nfolder = "mine"\n', built_in)
    with pytest.raises(WorkloadError) as caught:
        read(tmp_path, text)
    assert caught.value.problems[0].partition(": ")[2].startswith(sentence)


def test_sagemaker_s_own_launchers_leave_no_one_to_catch_what_is_printed(tmp_path: Path) -> None:
    text = PRINTED.replace(
        'compiler = "inductor"', 'compiler = "training-compiler"\ndistribution = "pytorchxla"'
    )
    assert text != PRINTED
    with pytest.raises(WorkloadError, match=r"distribution is 'pytorchxla' and program\.evidence"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            'files = ["a/b.csv"]',
            'files = ["a/b.csv", "c/b.csv"]',
            "data: files holds 'b.csv' twice",
        ),
        ('files = ["a/b.csv"]', 'files = ["../b.csv", "/b"]', "data.files[1]: found '/b', allowed"),
        (
            '.whl"',
            '.zip"',
            "data.wheel: found 'a-1-py3-none-any.zip', allowed: a string that match",
        ),
    ],
)
def test_files_of_a_wheel_are_named_one_by_one(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    wheel = f"""source = "wheel"
wheel = "a-1-py3-none-any.whl"
sha256 = "{"0" * 64}"
files = ["a/b.csv"]
"""
    files = 'source = "files"\ntrain = "train.csv"\nvalidation = "validation.csv"\n'
    text = COMPARED.replace(files, wheel)
    assert read(tmp_path, text).data.files == ["a/b.csv"]
    with pytest.raises(WorkloadError) as caught:
        read(tmp_path, text.replace(old, new))
    assert caught.value.problems[0].partition(": ")[2].startswith(sentence)
