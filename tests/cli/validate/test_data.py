"""`validate` looks into the data, and says all that does not fit, with line and column, at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from compilegate.datasets import misfits
from compilegate.workload import FilesData, FolderData

PROJECT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]
GOOD = "text,label\n" + "a b,x\nc d,y\n" * 8


def found(
    folder: Path,
    train: str = GOOD,
    validation: str = GOOD,
    **keys: object,
) -> list[str]:
    """The sentences, without the folder."""
    (folder / "train.csv").write_text(train, encoding="utf-8", errors="surrogateescape")
    (folder / "validation.csv").write_text(validation, encoding="utf-8")
    declared = FilesData.model_validate(
        {"source": "files", "train": "train.csv", "validation": "validation.csv", **keys}
    )
    said = misfits(declared, folder, documents=True, largest_step=8)
    return [sentence.replace(f"{folder}/", "") for sentence in said]


def test_data_that_fit_need_no_word(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_everything_is_told_at_once_with_line_and_column(tmp_path: Path) -> None:
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
    said = found(tmp_path, validation=GOOD + "e,z\n" * 5)
    assert said[0] == (
        "validation.csv: line 18, column 'label' is 'z', expected a label that train.csv has"
    )
    assert said[3:] == ["validation.csv: line 21: the first of 2 more like these"]


def test_lines_of_json_and_parquet_are_read_alike(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": True}, {"text": 3}]
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "train.jsonl").write_text("\n".join([*lines, "[1]", "{"]) + "\n", encoding="utf-8")
    table = pyarrow.table({"text": ["a", None], "label": [1, 2]})
    parquet.write_table(table, tmp_path / "validation.parquet")
    declared = FilesData(source="files", train="train.jsonl", validation="validation.parquet")
    said = misfits(declared, tmp_path, documents=True, largest_step=1)
    assert [each.partition(": ")[2].partition(", expected")[0] for each in said] == [
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
    (said,) = misfits(declared, tmp_path, documents=False, largest_step=1)
    assert said.startswith(f"data.folder: {tmp_path}/no is not a folder")


def validate(folder: Path) -> list[str]:
    ended = subprocess.run(
        [*COMMAND, "validate", "topics.toml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert ended.returncode == 2, ended.stdout + ended.stderr
    return ended.stderr.splitlines()


@pytest.mark.slow
def test_the_file_and_its_data_are_refused_together(tmp_path: Path) -> None:
    declared = (PROJECT / "tests" / "pipelines" / "topics.toml").read_text(encoding="utf-8")
    text = declared.replace("epochs = 2", 'epochs = "2"')
    (tmp_path / "topics.toml").write_text(text, encoding="utf-8")
    (tmp_path / "train.csv").write_text("body,topic,number\nx,a,1\n", encoding="utf-8")
    assert validate(tmp_path) == [
        "error: topics.toml: recipe.epochs is '2', expected a whole number",
        "error: topics.toml: data.validation: validation.csv is not a file; paths are relative to "
        "the workload's file",
    ]


@pytest.mark.slow
def test_images_and_data_are_refused_together(tmp_path: Path) -> None:
    declared = (PROJECT / "tests" / "pipelines" / "topics.toml").read_text(encoding="utf-8")
    text = declared.replace("[arms.compiled]", '[arms.compiled]\nimage = "of-mine"')
    (tmp_path / "topics.toml").write_text(text, encoding="utf-8")
    for split in ("train", "validation"):
        (tmp_path / f"{split}.csv").write_text("body,topic\n", encoding="utf-8")
    said = "\n".join(validate(tmp_path))
    assert "of-mine" in said
    assert "train.csv: line 1: data.id is 'number', which is not a column" in said
