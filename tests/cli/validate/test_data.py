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
from compilegate.datasets.inspection import read_sample
from compilegate.workload import FilesData, FolderData

PROJECT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]
GOOD = "text,label\n" + "a b,x\nc d,y\n" * 8


def found(
    folder: Path,
    train: str = GOOD,
    validation: str = GOOD,
    *,
    largest_step: int = 8,
    **keys: object,
) -> list[str]:
    """The sentences, without the folder."""
    (folder / "train.csv").write_text(train, encoding="utf-8")
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
        "train.csv: line 5: found 2 cells, allowed: 3, as in the header; quote texts that hold "
        "commas or line breaks",
        "train.csv: line 3, column 'text': found '', allowed: a text that is not empty; remove "
        "such rows",
        "train.csv: line 6, column 'text': found ' ', allowed: a text that is not empty; remove "
        "such rows",
        "train.csv: line 4, column 'label': found '', allowed: a string that is not empty, or a "
        "whole number",
        "validation.csv: line 1: found no column 'text', which data.text names, allowed: 'body', "
        "'label', 'n'",
        "validation.csv: line 1: found no column 'land', which data.slices names, allowed: 'body', "
        "'label', 'n'",
        "validation.csv: line 3, column 'n': found '1', which line 2 has too, allowed: identifiers "
        "that differ",
    ]


@pytest.mark.parametrize(
    ("train", "sentence"),
    [
        ("", "line 1: found no header, allowed: the names of the columns"),
        ("text,label\n", "found a header and no rows, allowed: one or more rows"),
        ("text;label\na;x\n", "line 1: found columns that are separated by ';', allowed: ','"),
        ("text,text,label\na,b,x\n", "line 1, column 2: found 'text' again, allowed: a name"),
        ("Text ,label\na,x\n", "found no column 'text', which data.text names (did you mean 'Text"),
        ('text,label\n"a,x\n', "line 2: found what is no csv (unexpected end of data), allowed:"),
        ("text,label\n" + "a,x\n" * 9, "column 'label': found 'x' in every row, allowed: two"),
        ("text,label\na,x\nb,y\n", "found 2 rows, allowed: 8 or more, which is what one training"),
    ],
)
def test_each_kind_of_misfit_has_its_sentence(tmp_path: Path, train: str, sentence: str) -> None:
    assert [each for each in found(tmp_path, train) if each.startswith("train.csv: ")] != []
    assert sentence in "\n".join(found(tmp_path, train))


def test_a_label_that_training_never_saw_is_found_in_the_validation_file(tmp_path: Path) -> None:
    validation = GOOD + "e,z\n" * 5
    said = found(tmp_path, validation=validation)
    assert said[0] == (
        "validation.csv: line 18, column 'label': found 'z', allowed: a label that train.csv has"
    )
    assert said[3:] == [
        "validation.csv: line 21, column 'label': and so in 2 more places from here on"
    ]


def test_bytes_that_are_no_utf8_have_a_line_and_a_place_in_it(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("text,label\nfin,x\nfin\xe9,x\n".encode("latin-1"))
    sample = read_sample(tmp_path / "latin.csv", 10)
    assert [record.cells["text"] for record in sample.records] == ["fin"]
    assert sample.faults[0].startswith("line 3, byte 4: found 0xe9, allowed: text in UTF-8")


def test_lines_of_json_and_parquet_are_read_alike(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": True}, {"text": 3}]
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "train.jsonl").write_text("\n".join([*lines, "[1]", "{"]) + "\n", encoding="utf-8")
    table = pyarrow.table({"text": ["a", None], "label": [1, 2]})
    parquet.write_table(table, tmp_path / "validation.parquet")
    declared = FilesData(source="files", train="train.jsonl", validation="validation.parquet")
    said = misfits(declared, tmp_path, documents=True, largest_step=1)
    assert [each.partition(": ")[2].partition(", allowed")[0] for each in said] == [
        "line 4: found [1]",
        "line 5: found what is no JSON (Expecting property name enclosed in double quotes at "
        "character 2)",
        "line 3, column 'text': found 3",
        "line 2, column 'label': found True",
        "line 3, column 'label': found nothing",
        "row 2, column 'text': found None",
    ]


def test_a_folder_of_a_program_of_ones_own_must_be_there(tmp_path: Path) -> None:
    said = misfits(
        FolderData(source="folder", folder="no"), tmp_path, documents=False, largest_step=1
    )
    assert said == [
        f"data.folder: {tmp_path}/no is not a folder, allowed: one with a path relative to the "
        "workload's file"
    ]


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
        "error: topics.toml: data.validation: validation.csv is not a file, allowed: a file, "
        "with a path relative to the workload's file",
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
    assert "train.csv: line 1: found no column 'number', which data.id names" in said
