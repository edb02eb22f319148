"""`validate`: every problem of a workload's file, data and functions at once; what to do, if none;
and what `advise` foresees of the gate."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from compilegate.cli import main
from compilegate.datasets import misfits
from compilegate.errors import CompilegateError
from compilegate.workload import FilesData, FolderData
from tests.command import PROJECT, compilegate
from tests.gate.conftest import build_execution

NEWS = (PROJECT / "workloads" / "news-topics.toml").read_text(encoding="utf-8")
TOPICS = (PROJECT / "tests" / "pipelines" / "topics.toml").read_text(encoding="utf-8")
GOOD = "text,label\n" + "a b,x\nc d,y\n" * 8


def test_the_file_is_named_before_each_problem() -> None:
    found = CompilegateError("one", "two").within("there.toml")
    assert found.problems == ("there.toml: one", "there.toml: two")


def test_a_valid_workload_is_one_line_or_json_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    done = CliRunner().invoke(main, ["validate", "news-topics"])
    assert done.exit_code == 0
    assert done.stdout == (
        "workloads/news-topics.toml: valid: 3 arms, 3 seeds, 9 training jobs; nothing to do\n"
    )
    document = json.loads(CliRunner().invoke(main, ["validate", "news-topics", "--json"]).stdout)
    assert document == {
        "file": "workloads/news-topics.toml",
        "valid": True,
        "problems": [],
        "summary": "3 arms, 3 seeds, 9 training jobs",
        "to_do": [],
    }


def test_every_problem_is_a_line_of_its_own_and_in_json_for_programs(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('name = 3\ncolour = "red"\nseeds = "one"\n')
    done = CliRunner().invoke(main, ["validate", str(path)])
    assert (done.exit_code, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert all(line.startswith(f"error: {path}: ") for line in lines)
    printed = CliRunner().invoke(main, ["validate", str(path), "--json"])
    document = json.loads(printed.stdout)
    assert (printed.exit_code, document["valid"], printed.stderr) == (2, False, "")
    assert [f"error: {problem}" for problem in document["problems"]] == lines
    for key in ("name is 3", "colour", "seeds is 'one'"):
        assert any(key in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ('instance_type = "ml.p3.2xlarge"', "instance_type: AWS's image of PyTorch 2.13 has no"),
        ('image = "traning"', "image: the image 'traning' is not a folder in containers/"),
    ],
)
def test_what_an_arm_s_image_extends_is_looked_at(tmp_path: Path, keys: str, sentence: str) -> None:
    path = tmp_path / "news-topics.toml"
    path.write_text(NEWS.replace("[arms.compiler-only]\n", f"[arms.compiler-only]\n{keys}\n"))
    done = compilegate("validate", path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {path}: arms.compiler-only.{sentence}")


# Its data.


def found(folder: Path, train: str = GOOD, validation: str = GOOD, **keys: object) -> list[str]:
    """The sentences, without the folder."""
    (folder / "train.csv").write_text(train, encoding="utf-8", errors="surrogateescape")
    (folder / "validation.csv").write_text(validation, encoding="utf-8")
    declared = FilesData.model_validate(
        {"source": "files", "train": "train.csv", "validation": "validation.csv", **keys}
    )
    sentences = misfits(declared, folder, documents=True, largest_step=8)
    return [sentence.replace(f"{folder}/", "") for sentence in sentences]


def test_all_misfits_of_data_are_listed_with_line_and_column(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    train = 'text,label,n\nfine,x,1\n,x,2\nfine,,3\nfine,y\n" ",y,5\n'
    validation = "body,label,n\nfine,x,1\nfine,z,1\n"
    assert found(tmp_path, train, validation, id="n", slices=["land"]) == [
        "train.csv: line 5 has 2 cells, expected 3, as in the header; quote texts that hold commas "
        "or line breaks",
        "train.csv: line 3, column 'text' is '', expected a text that is not empty; remove such "
        "rows",
        "train.csv: line 6, column 'text' is ' ', expected a text that is not empty; remove such "
        "rows",
        "train.csv: line 4, column 'label' is '', expected a string that is not empty, or a whole "
        "number",
        "validation.csv: line 1: data.text is 'text', which is not a column, expected one of "
        "'body', 'label', 'n'",
        "validation.csv: line 1: data.slices is 'land', which is not a column, expected one of "
        "'body', 'label', 'n'",
        "validation.csv: line 3, column 'n' is '1', as in line 2, expected distinct identifiers",
    ]


@pytest.mark.parametrize(
    ("train", "place"),
    [
        ("", "line 1 is empty"),
        ("text,label\n", "no rows"),
        ("text;label\na;x\n", "line 1 has columns separated by ';'"),
        ("text,text,label\na,b,x\n", "line 1, column 2 is 'text' again"),
        ("Text ,label\na,x\n", "line 1: data.text is 'text', which is not a column (did you mean"),
        ('text,label\n"a,x\n', "line 2 is not valid csv"),
        ("text,label\n" + "a,x\n" * 9, "column 'label' is 'x' in every row"),
        ("text,label\na,x\nb,y\n", "2 rows, expected 8 or more"),
        ("text,label\nfin,x\nfin\udce9,x\n", "line 3, byte 4 is 0xe9"),
    ],
)
def test_each_kind_of_misfit_is_named_with_its_place(
    tmp_path: Path, train: str, place: str
) -> None:
    assert f"train.csv: {place}" in "\n".join(found(tmp_path, train))


def test_labels_that_training_never_saw_are_found_and_after_three_counted(tmp_path: Path) -> None:
    sentences = found(tmp_path, validation=GOOD + "e,z\n" * 5)
    assert sentences[0] == (
        "validation.csv: line 18, column 'label' is 'z', expected a label that train.csv has"
    )
    assert sentences[3:] == ["validation.csv: line 21: the first of 2 more like these"]


def test_lines_of_json_and_parquet_are_read_alike(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": True}, {"text": 3}]
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "train.jsonl").write_text("\n".join([*lines, "[1]", "{"]) + "\n", encoding="utf-8")
    table = pyarrow.table({"text": ["a", None], "label": [1, 2]})
    parquet.write_table(table, tmp_path / "validation.parquet")
    declared = FilesData(source="files", train="train.jsonl", validation="validation.parquet")
    sentences = misfits(declared, tmp_path, documents=True, largest_step=1)
    assert [each.partition(": ")[2].partition(", expected")[0] for each in sentences] == [
        "line 4 is [1]",
        "line 5 is not valid JSON (Expecting property name enclosed in double quotes at "
        "character 2)",
        "line 3, column 'text' is 3",
        "line 2, column 'label' is True",
        "line 3, column 'label' is missing",
        "row 2, column 'text' is None",
    ]


def test_a_folder_of_a_program_of_ones_own_must_be_there(tmp_path: Path) -> None:
    declared = FolderData(source="folder", folder="no")
    (sentence,) = misfits(declared, tmp_path, documents=False, largest_step=1)
    assert sentence.startswith(f"data.folder: {tmp_path}/no is not a folder")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "splits", "named"),
    [
        (
            *("epochs = 2", 'epochs = "2"', ["train"]),
            ["recipe.epochs is '2'", "data.validation: validation.csv is not a file"],
        ),
        (
            *("[arms.compiled]", '[arms.compiled]\nimage = "of-mine"', ["train", "validation"]),
            ["of-mine", "train.csv: line 1: data.id is 'number', which is not a column"],
        ),
    ],
)
def test_the_file_its_images_and_its_data_are_refused_together(
    tmp_path: Path, old: str, new: str, splits: list[str], named: list[str]
) -> None:
    (tmp_path / "topics.toml").write_text(TOPICS.replace(old, new), encoding="utf-8")
    for split in splits:
        (tmp_path / f"{split}.csv").write_text("body,topic\nx,a\n", encoding="utf-8")
    done = compilegate("validate", "topics.toml", cwd=tmp_path)
    assert done.returncode == 2
    for words in named:
        assert words in done.stderr


# Its own metric functions.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "function", "status"),
    [("validate", "half", 0), ("validate", "third", 2), ("run", "third", 2)],
)
def test_own_metric_functions_are_loaded_before_anything_starts(
    tmp_path: Path, command: str, function: str, status: int
) -> None:
    code = '[gate]\ncode = ["own_metrics.py"]\n\n[gate.metrics.accuracy]'
    own = '[gate.metrics.own]\ndirection = "higher"\nmargin = 0.1\nfunction = "own_metrics.half"\n'
    declared = TOPICS.replace("[gate.metrics.accuracy]", code)
    (tmp_path / "topics.toml").write_text(f"{declared}\n{own}")
    for split in ("train", "validation"):
        rows = "".join(f"x,{topic},{number},de\n" for number, topic in enumerate("ab" * 8))
        (tmp_path / f"{split}.csv").write_text(f"body,topic,number,language\n{rows}")
    (tmp_path / "own_metrics.py").write_text(f"def {function}(examples):\n    return 0.5\n")
    done = compilegate(command, "topics.toml", cwd=tmp_path)
    assert done.returncode == status, done.stderr
    if status:
        assert done.stderr.startswith("error: topics.toml: gate.metrics.own.function: ")
        assert "has no attribute 'half'" in done.stderr
    assert not (tmp_path / ".compilegate").exists()


# What the gate will make of it.


def declare(folder: Path, accuracy: str) -> Path:
    """The built-in workload with another table for accuracy."""
    start = NEWS.index("[gate.metrics.accuracy]")
    end = NEWS.index("[gate.metrics.log_loss]")
    path = folder / "news-topics.toml"
    path.write_text(f"{NEWS[:start]}[gate.metrics.accuracy]\n{accuracy}\n{NEWS[end:]}")
    return path


def forecast(folder: Path, accuracy: str) -> list[str]:
    """What `advise` foresees for that workload."""
    done = compilegate("advise", declare(folder, accuracy), "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines: list[str] = json.loads(done.stdout)["forecast"]
    return lines


@pytest.mark.slow
def test_the_chance_of_passing_follows_from_the_expected_noise(tmp_path: Path) -> None:
    guard = 'direction = "higher"\nmargin = 0.01'

    def chance(noise: float) -> int:
        lines = forecast(tmp_path, f"{guard}\nexpected_seed_sd = {noise}")
        (line,) = (line for line in lines if "metrics.accuracy" in line)
        percent = re.search(r"chance of (\d+)%", line)
        assert percent is not None, line
        return int(percent[1])

    assert chance(0.016) < 30
    assert chance(0.0005) > 90
    unknown = "metrics.accuracy: how likely an equal candidate"
    assert any(line.startswith(unknown) for line in forecast(tmp_path, guard))
    watched = forecast(tmp_path, 'direction = "higher"\nwatched = true')
    assert not any("metrics.accuracy" in line for line in watched)


@pytest.mark.slow
def test_the_newest_verdict_on_the_workload_is_the_pilot(tmp_path: Path) -> None:
    execution = build_execution(candidates=("larger-batch",), examples=800)
    execution.experiment = execution.experiment.model_copy(update={"workload": "news-topics"})
    folder = tmp_path / ".compilegate" / "executions" / "first"
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(execution.judge().to_json())
    (folder / "execution.json").write_text(json.dumps({"started": 1.0}))
    lines = forecast(tmp_path, 'direction = "higher"\nmargin = 0.01')
    assert [line.partition(":")[0] for line in lines if "chance of" in line] == [
        "metrics.accuracy, larger-batch",
        "metrics.log_loss, larger-batch",
        "min_speedup, larger-batch",
    ]


@pytest.mark.slow
def test_what_to_do_about_a_margin_that_can_never_be_shown_is_a_line(tmp_path: Path) -> None:
    path = declare(tmp_path, 'direction = "higher"\nmargin = 0.01')
    path.write_text(path.read_text(encoding="utf-8").replace("seeds = [1, 2, 3]", "seeds = [1]"))
    done = compilegate("validate", path.name, cwd=tmp_path)
    first, *others = done.stdout.splitlines()
    assert first.endswith("valid: 3 arms, 1 seed, 3 training jobs; to do: 1")
    assert others == [f"{path.name}: gate.seeds: one seed can never pass; declare two or more"]
