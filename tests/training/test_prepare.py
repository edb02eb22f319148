"""The prepare job: fixed shapes, the same bytes each time, and errors that name bad data."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from tokenizers import Tokenizer

from compilegate.job.errors import InputError
from tests.training.conftest import PrepareProcess, write_jsonl
from training.data.prepared import Manifest, PreparedData, read_prepared
from training.data.tables import Columns
from training.data.tokenization import train_wordpiece
from training.prepare import prepare

ROWS = [
    {"text": "ships in the port", "label": "sea"},
    {"text": "cars on the road", "label": "land"},
    {"text": "ships at sea, far out", "label": "sea"},
    {"text": "a road through land", "label": "land"},
]


class Folder:
    """Two small, valid splits, and prepared data sets beside them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write(ROWS)
        self.write(ROWS[:2], "validation")

    def write(self, rows: Sequence[Mapping[str, object]], split: str = "train") -> None:
        write_jsonl(self.path / f"{split}.jsonl", rows)

    def replace(self, content: bytes, name: str = "train.csv") -> None:
        """One file in place of the training split's."""
        (self.path / "train.jsonl").unlink(missing_ok=True)
        (self.path / name).write_bytes(content)

    def prepare(
        self, *slices: str, identifier: str | None = None, output: str = "prepared", **options: Any
    ) -> Manifest:
        return prepare(
            data_dir=self.path,
            output_dir=self.path / output,
            columns=Columns("text", "label", identifier, slices),
            **{"sequence_length": 8, "vocabulary": 64, **options},
        )

    def read(self, output: str = "prepared") -> PreparedData:
        return read_prepared(self.path / output)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_equal_texts_give_equal_tokenizers_in_any_order(tmp_path: Path) -> None:
    # Almost every merge of these words is a tie.
    texts = ["abcd bcda cdab dabc", "acbd cbda bdac dacb", "abdc", "dcba"]
    found = set()
    for order in itertools.permutations(texts):
        train_wordpiece(order, vocabulary=24, sequence_length=8).save(tmp_path)
        found.add((tmp_path / "tokenizer.json").read_text())
    assert len(found) == 1
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).padding is None


@pytest.mark.slow
def test_two_processes_write_the_same_bytes_that_the_manifest_describes(
    raw_data: Path, prepared: Path, prepare_process: PrepareProcess, tmp_path: Path
) -> None:
    again = prepare_process(raw_data, tmp_path)
    assert again.returncode == 0, again.stderr
    assert contents(tmp_path) == contents(prepared)
    assert set(contents(prepared)) == {
        "manifest.json",
        *("train.npz", "validation.npz"),
        *("tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json"),
    }
    data = read_prepared(prepared)
    assert data.manifest.labels == ("finance", "harvest", "shipping")
    assert data.manifest.counts == {"train": 320, "validation": 90}
    assert data.train.input_ids.shape == (320, data.manifest.sequence_length)
    assert (data.train.input_ids.dtype, data.train.attention_mask.dtype) == (np.int32, np.int8)
    assert data.train.input_ids.max() < data.manifest.vocabulary_size
    assert len(set(data.train.ids)) == 320


def test_padding_is_masked_and_long_texts_are_cut(folder: Folder) -> None:
    folder.prepare()
    rows = folder.read().train
    padding = rows.attention_mask == 0
    assert padding.any()
    assert not rows.input_ids[padding].any()  # [PAD] has id 0
    assert rows.attention_mask[2].all()  # the third text has more than eight tokens


def test_neither_identifiers_nor_what_is_taken_depend_on_the_order_of_rows(folder: Folder) -> None:
    doubled = [*ROWS, ROWS[0]]
    found = []
    for name, rows in (("forward", doubled), ("backward", doubled[::-1])):
        folder.write(rows)
        folder.prepare(output=name)
        train = folder.read(name).train
        found.append(dict(zip(train.ids.tolist(), train.input_ids.tolist(), strict=True)))
        folder.prepare(output=f"{name}-3", max_train=3)
    assert found[0] == found[1]
    assert len(found[0]) == 5
    forward, backward = (folder.read(f"{name}-3").train.ids for name in ("forward", "backward"))
    assert (len(forward), set(forward)) == (3, set(backward))


def test_identifiers_come_from_the_id_column_and_are_unique(folder: Folder) -> None:
    for split in ("train", "validation"):
        folder.write([{**row, "key": n} for n, row in enumerate(ROWS)], split)
    folder.prepare(identifier="key")
    assert folder.read().validation.ids.tolist() == ["0", "1", "2", "3"]
    folder.write([{**row, "key": "same"} for row in ROWS])
    with pytest.raises(InputError, match="repeats 1 values, one of them 'same'"):
        folder.prepare(identifier="key")


def test_categories_are_needed_in_the_validation_split_alone(folder: Folder) -> None:
    def write(*categories: object, split: str = "validation") -> None:
        rows = zip(itertools.cycle(ROWS), categories)
        folder.write([{**row, "language": each} for row, each in rows], split)

    def slices(split: str) -> dict[str, list[str]]:
        found = getattr(folder.read(), split).slices
        return {name: column.tolist() for name, column in found.items()}

    write("de", 7, True)
    folder.prepare("language")
    assert slices("train") == {}
    assert slices("validation") == {"language": ["de", "7", "true"]}
    write("de", None, 0.5, True, split="train")
    folder.prepare("language")
    assert slices("train") == {"language": ["de", "", "", "true"]}
    for wrong in (None, "", 0.5):
        write("de", wrong)
        with pytest.raises(InputError, match=r"validation\.jsonl line 2: column 'language' holds"):
            folder.prepare("language")


def test_csv_jsonl_and_parquet_give_the_same_data(folder: Folder) -> None:
    from_jsonl = folder.prepare()
    lines = "".join(f'"{row["text"]}",{row["label"]}\n' for row in ROWS)
    folder.replace(f"\ufefftext,label\n{lines}\n".encode())  # a byte order mark, an empty line
    assert folder.prepare() == from_jsonl
    (folder.path / "train.csv").unlink()
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), folder.path / "train.parquet")
    assert folder.prepare() == from_jsonl


def test_whole_number_labels_sort_as_numbers(folder: Folder) -> None:
    for split in ("train", "validation"):
        folder.write([{"text": f"text {n}", "label": n} for n in (10, 9, 2)], split)
    assert folder.prepare().labels == ("2", "9", "10")


def test_preparing_again_replaces_what_was_there(folder: Folder) -> None:
    folder.prepare()
    folder.write(ROWS[:3])
    folder.prepare()
    assert folder.read().manifest.counts["train"] == 3


@pytest.mark.slow
def test_the_tokenizer_of_a_model_can_be_used(prepared: Path, folder: Folder) -> None:
    manifest = folder.prepare(model_id=str(prepared / "tokenizer"))
    assert manifest.vocabulary_size == read_prepared(prepared).manifest.vocabulary_size
    own, taken = (
        json.loads((place / "tokenizer" / "tokenizer.json").read_text())["model"]["vocab"]
        for place in (prepared, folder.path / "prepared")
    )
    assert taken == own


def test_a_changed_or_missing_file_is_found_by_the_manifest(folder: Folder) -> None:
    folder.prepare()
    with (folder.path / "prepared" / "train.npz").open("ab") as file:
        file.write(b" ")
    with pytest.raises(InputError, match=r"train\.npz has sha256 .* changed after"):
        folder.read()
    shutil.rmtree(folder.path / "prepared" / "tokenizer")
    with pytest.raises(InputError, match=r"tokenizer.* is missing"):
        folder.read()
    (folder.path / "prepared" / "manifest.json").write_text('{"schema_version": 1}')
    with pytest.raises(InputError, match="is not the manifest"):
        folder.read()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "train.jsonl",
            b'{"text": "a", "topic": "b"}',
            "train.jsonl line 1: no column 'label'; there are: text, topic; data.label of the",
        ),
        ("train.jsonl", b'{"text": "a", "label"', "train.jsonl line 1 is not a JSON object"),
        ("train.jsonl", b"\n[1, 2]", "train.jsonl line 2 is not a JSON object"),
        ("train.jsonl", b'{"text": null, "label": "a"}', "line 1: column 'text' holds None"),
        ("train.jsonl", b'{"text": " ", "label": "a"}', "line 1: column 'text' holds ' '"),
        ("train.jsonl", b'{"text": "a", "label": true}', "line 1: column 'label' holds True"),
        ("train.jsonl", b'{"text": "a", "label": "b"}', "one label only, 'b'"),
        ("train.csv", b"text,label\n", "train.csv holds no rows; the train split needs"),
        ("train.csv", b"text,label\nx,\n", "train.csv line 2: column 'label' holds ''"),
        ("train.csv", b"text;label\nx;y\n", "train.csv line 2: no column 'text'"),
        ("train.csv", b"text,label\na,b\nc,d,e\n", "line 3: 3 cells where the header has 2"),
        ("train.csv", b"text,label,text\nx,y,z\n", "line 1: the header holds a column more than"),
        ("train.csv", "text,label\nM\u00e4rz,y\n".encode("cp1252"), "(byte 13 is 0xe4); save it"),
        ("train.parquet", b"", "train.parquet is not readable parquet"),
        ("test.csv", b"text,label\n", "must hold one of train.csv, train.jsonl, train.parquet"),
    ],
)
def test_bad_data_are_named_with_file_and_place(
    folder: Folder, name: str, content: bytes, message: str
) -> None:
    folder.replace(content, name)
    with pytest.raises(InputError) as caught:
        folder.prepare()
    assert message in str(caught.value)


def test_two_files_of_a_split_and_labels_that_were_never_trained_are_refused(
    folder: Folder,
) -> None:
    folder.write([{"text": "planes", "label": "air"}], "validation")
    with pytest.raises(InputError, match=r"label 'air' \(line 1\).* its labels are: land, sea"):
        folder.prepare()
    (folder.path / "train.csv").write_text("text,label\na,b\n")
    with pytest.raises(InputError, match=r"it holds train\.csv, train\.jsonl"):
        folder.prepare()


@pytest.mark.slow
def test_the_process_ends_with_one_sentence(
    prepare_process: PrepareProcess, tmp_path: Path
) -> None:
    result = prepare_process(tmp_path / "nowhere", tmp_path)
    assert result.returncode == 1
    assert result.stderr == f"error: the data folder {tmp_path / 'nowhere'} does not exist\n"
    result = prepare_process(tmp_path, tmp_path, "--max-train", "0")
    assert result.returncode == 1
    assert "argument --max-train: 0 is not from 1 to" in result.stderr
