"""The prepare job: fixed shapes, the same bytes each time, and clear words for bad data."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from compilegate.job.errors import InputError
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

Prepare = Callable[..., Manifest]
PrepareProcess = Callable[..., subprocess.CompletedProcess[str]]


def write_jsonl(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with two small, valid splits."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_jsonl(folder / "train.jsonl", ROWS)
    write_jsonl(folder / "validation.jsonl", ROWS[:2])
    return folder


@pytest.fixture
def run(data: Path, tmp_path: Path) -> Prepare:
    """Prepares `data` into `tmp_path / "prepared"`; options are keyword arguments."""

    def call(
        output: str = "prepared",
        identifier: str | None = None,
        columns: Columns | None = None,
        **options: object,
    ) -> Manifest:
        settings = {"sequence_length": 8, "vocabulary": 64, **options}
        return prepare(
            data_dir=data,
            output_dir=tmp_path / output,
            columns=columns or Columns("text", "label", identifier),
            **settings,
        )

    return call


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def prepared_by(run: Prepare, tmp_path: Path, output: str = "prepared") -> PreparedData:
    run(output)
    return read_prepared(tmp_path / output)


def test_equal_texts_give_equal_tokenizers_in_any_order() -> None:
    # Almost every merge of these words is a tie.
    texts = ["abcd bcda cdab dabc", "acbd cbda bdac dacb", "abdc", "dcba"]
    tokenizers = [
        train_wordpiece(order, vocabulary=24, sequence_length=8).serialized()
        for order in itertools.permutations(texts)
    ]
    assert len(set(tokenizers)) == 1


@pytest.mark.slow
def test_two_processes_write_the_same_bytes(
    raw_data: Path, prepared: Path, prepare_process: PrepareProcess, tmp_path: Path
) -> None:
    again = prepare_process(raw_data, tmp_path / "again")
    assert again.returncode == 0, again.stderr
    assert contents(tmp_path / "again") == contents(prepared)
    assert set(contents(prepared)) == {
        "manifest.json",
        "train.npz",
        "validation.npz",
        "tokenizer/tokenizer.json",
        "tokenizer/tokenizer_config.json",
    }


@pytest.mark.slow
def test_the_manifest_describes_the_splits(prepared: Path) -> None:
    data = read_prepared(prepared)
    assert data.manifest.labels == ("finance", "harvest", "shipping")
    assert data.manifest.counts == {"train": 320, "validation": 90}
    assert data.train.input_ids.shape == (320, data.manifest.sequence_length)
    assert data.train.input_ids.dtype == np.int32
    assert data.train.attention_mask.dtype == np.int8
    assert data.train.input_ids.max() < data.manifest.vocabulary_size
    assert len(set(data.train.ids)) == 320


def test_padding_is_masked_and_long_texts_are_cut(run: Prepare, tmp_path: Path) -> None:
    rows = prepared_by(run, tmp_path).train
    padding = rows.attention_mask == 0
    assert padding.any()
    assert not rows.input_ids[padding].any()  # [PAD] has id 0
    assert rows.attention_mask[2].all()  # the third text has more than eight tokens


def test_identifiers_do_not_depend_on_the_order_of_the_rows(
    data: Path, run: Prepare, tmp_path: Path
) -> None:
    doubled = [*ROWS, ROWS[0]]
    write_jsonl(data / "train.jsonl", doubled)
    first = prepared_by(run, tmp_path, "first").train
    write_jsonl(data / "train.jsonl", doubled[::-1])
    second = prepared_by(run, tmp_path, "second").train
    assert set(first.ids) == set(second.ids)
    assert len(set(first.ids)) == 5
    tokens = {name: row.tolist() for name, row in zip(first.ids, first.input_ids, strict=True)}
    for name, row in zip(second.ids, second.input_ids, strict=True):
        assert tokens[name] == row.tolist()


def test_identifiers_come_from_the_id_column(data: Path, run: Prepare, tmp_path: Path) -> None:
    write_jsonl(data / "train.jsonl", [{**row, "key": f"t{n}"} for n, row in enumerate(ROWS)])
    write_jsonl(data / "validation.jsonl", [{**row, "key": f"v{n}"} for n, row in enumerate(ROWS)])
    run(identifier="key")
    assert read_prepared(tmp_path / "prepared").validation.ids.tolist() == ["v0", "v1", "v2", "v3"]


def with_categories(data: Path, *categories: object) -> Columns:
    rows = [{**row, "language": each} for row, each in zip(ROWS, categories, strict=False)]
    write_jsonl(data / "validation.jsonl", rows)
    return Columns("text", "label", slices=("language",))


def test_columns_of_categories_go_with_the_validation_documents(
    data: Path, run: Prepare, tmp_path: Path
) -> None:
    run(columns=with_categories(data, "de", 7, True))  # the training split needs no such column
    prepared = read_prepared(tmp_path / "prepared")
    assert prepared.train.slices == {}
    assert {name: column.tolist() for name, column in prepared.validation.slices.items()} == {
        "language": ["de", "7", "true"]
    }


def test_the_training_split_s_categories_go_along_as_far_as_it_has_them(
    data: Path, run: Prepare, tmp_path: Path
) -> None:
    columns = with_categories(data, "de", "en")
    rows = [{**ROWS[0], "language": "de"}, {**ROWS[1], "language": None}, *ROWS[2:]]
    write_jsonl(data / "train.jsonl", rows)
    run(columns=columns)
    (column,) = read_prepared(tmp_path / "prepared").train.slices.values()
    assert column.tolist() == ["de", *[""] * (len(rows) - 1)]


@pytest.mark.parametrize("category", [None, "", 0.5])
def test_what_is_no_category_is_named_with_its_line(
    data: Path, run: Prepare, category: object
) -> None:
    columns = with_categories(data, "de", category)
    with pytest.raises(InputError, match=r"validation\.jsonl line 2: column 'language' holds"):
        run(columns=columns)


@pytest.mark.slow
def test_a_missing_column_of_categories_is_one_sentence(
    data: Path, prepare_process: PrepareProcess, tmp_path: Path
) -> None:
    result = prepare_process(data, tmp_path / "prepared", "--slice-column", "language")
    assert result.returncode == 1
    assert result.stderr == (
        "error: validation.jsonl line 1: no column 'language'; there are: text, label; data.slices "
        "of the workload says which it is\n"
    )


def test_csv_jsonl_and_parquet_give_the_same_data(data: Path, run: Prepare, tmp_path: Path) -> None:
    from_jsonl = run("jsonl")
    (data / "train.jsonl").unlink()
    header = "text,label\n"
    lines = [f'"{row["text"]}",{row["label"]}\n' for row in ROWS]
    (data / "train.csv").write_text(header + "".join(lines) + "\n")  # and an empty line
    assert run("csv") == from_jsonl
    (data / "train.csv").unlink()
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), data / "train.parquet")
    assert run("parquet") == from_jsonl


def test_whole_number_labels_sort_as_numbers(data: Path, run: Prepare) -> None:
    for split in ("train", "validation"):
        rows = [{"text": f"text {n}", "label": n} for n in (10, 9, 2)]
        write_jsonl(data / f"{split}.jsonl", rows)
    assert run().labels == ("2", "9", "10")


def test_max_train_keeps_the_same_documents_in_any_order(
    data: Path, run: Prepare, tmp_path: Path
) -> None:
    run("forward", max_train=3)
    write_jsonl(data / "train.jsonl", ROWS[::-1])
    run("backward", max_train=3)
    forward = read_prepared(tmp_path / "forward").train
    backward = read_prepared(tmp_path / "backward").train
    assert len(forward.ids) == 3
    assert forward.ids.tolist() == backward.ids.tolist()[::-1]


def test_preparing_again_replaces_what_was_there(data: Path, run: Prepare, tmp_path: Path) -> None:
    run()
    write_jsonl(data / "train.jsonl", ROWS[:3])
    run()
    assert read_prepared(tmp_path / "prepared").manifest.counts["train"] == 3


def test_the_tokenizer_of_a_model_can_be_used(prepared: Path, run: Prepare, tmp_path: Path) -> None:
    manifest = run(model_id=str(prepared / "tokenizer"))
    assert manifest.vocabulary_size == read_prepared(prepared).manifest.vocabulary_size
    own = json.loads((prepared / "tokenizer" / "tokenizer.json").read_text())
    taken = json.loads((tmp_path / "prepared" / "tokenizer" / "tokenizer.json").read_text())
    assert taken["model"]["vocab"] == own["model"]["vocab"]


def test_a_changed_file_is_told_from_the_manifest(prepared: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(prepared, tmp_path / "copy")
    content = bytearray((copy / "train.npz").read_bytes())
    content[-1] ^= 1
    (copy / "train.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"train\.npz has sha256 .* changed after"):
        read_prepared(copy)


def test_a_missing_split_says_what_was_found(data: Path, run: Prepare) -> None:
    (data / "validation.jsonl").rename(data / "test.jsonl")
    with pytest.raises(InputError, match=r"validation\.parquet; found test\.jsonl, train\.jsonl"):
        run()


def test_two_files_of_one_split_are_refused(data: Path, run: Prepare) -> None:
    (data / "train.csv").write_text("text,label\na,b\n")
    with pytest.raises(InputError, match=r"holds train\.csv and train\.jsonl; keep exactly one"):
        run()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"text": "a", "topic": "b"}',
            "train.jsonl line 5: no column 'label'; there are: text, topic",
        ),
        ('{"text": "a", "label"', "train.jsonl line 5 is not a JSON object"),
        ("[1, 2]", "train.jsonl line 5 holds [1, 2], expected a JSON object"),
        ('{"text": null, "label": "sea"}', "train.jsonl line 5: column 'text' holds None"),
        ('{"text": "a", "label": true}', "train.jsonl line 5: column 'label' holds True"),
        ('{"text": " ", "label": "sea"}', "1 of 5 texts are empty, the first in line 5"),
    ],
)
def test_a_bad_row_is_named_with_its_line(
    data: Path, run: Prepare, line: str, message: str
) -> None:
    with (data / "train.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError) as caught:
        run()
    assert message in str(caught.value)


def test_a_csv_row_of_another_width_is_named_with_its_line(data: Path, run: Prepare) -> None:
    (data / "train.jsonl").unlink()
    (data / "train.csv").write_text("text,label\nships,sea\ncars, and more,land\n")
    with pytest.raises(InputError, match="line 3: 3 cells where the header has 2"):
        run()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "train.csv holds no rows; the train split needs at least one"),
        (b"text,label\n", "train.csv holds no rows; the train split needs at least one"),
        (
            b"Text,label\nx,y\n",
            "train.csv line 2: no column 'text' (did you mean 'Text'?)",
        ),
        (
            b"text, label\nx,y\n",
            "train.csv line 2: no column 'label' (did you mean ' label'?)",
        ),
        (b"text,label\nx,\n", "train.csv line 2: column 'label' holds '', expected a string that"),
        (b"text;label\nx;y\n", "train.csv line 1: the columns are separated by ';', expected ','"),
        (b"text,label,text\nx,y,z\n", "train.csv line 1: the header holds 'text' more than once"),
        (
            "text,label\nM\u00e4rz,y\n".encode("cp1252"),
            "train.csv is not UTF-8 text (its byte 13 is 0xe4); save it as UTF-8, which spread",
        ),
        ("text,label\nx,y\n".encode("utf-16"), "train.csv is not UTF-8 text (its byte 1 is 0xff)"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_said_with_what_to_do(
    data: Path, run: Prepare, content: bytes, sentence: str
) -> None:
    (data / "train.jsonl").unlink()
    (data / "train.csv").write_bytes(content)
    with pytest.raises(InputError) as caught:
        run()
    assert str(caught.value).startswith(sentence)


def test_a_validation_label_that_was_never_trained_is_refused(data: Path, run: Prepare) -> None:
    write_jsonl(data / "validation.jsonl", [{"text": "planes", "label": "air"}])
    with pytest.raises(InputError, match=r"label 'air' \(line 1\).* its labels are: land, sea"):
        run()


def test_a_single_label_is_refused(data: Path, run: Prepare) -> None:
    write_jsonl(data / "train.jsonl", ROWS[:1])
    with pytest.raises(InputError, match="one label only, 'sea'"):
        run()


def test_an_empty_split_is_refused(data: Path, run: Prepare) -> None:
    (data / "validation.jsonl").write_text("")
    with pytest.raises(InputError, match=r"validation\.jsonl holds no rows"):
        run()


def test_repeated_identifiers_are_refused(data: Path, run: Prepare) -> None:
    write_jsonl(data / "train.jsonl", [{**row, "key": "same"} for row in ROWS])
    write_jsonl(data / "validation.jsonl", [{**ROWS[0], "key": "v"}, {**ROWS[1], "key": "w"}])
    with pytest.raises(InputError, match="repeats 1 values, one of them 'same'"):
        run(identifier="key")


@pytest.mark.slow
def test_bad_data_end_the_process_with_one_sentence(
    prepare_process: PrepareProcess, tmp_path: Path
) -> None:
    result = prepare_process(tmp_path / "nowhere", tmp_path / "prepared")
    assert result.returncode == 1
    assert result.stderr == f"error: the data folder {tmp_path / 'nowhere'} does not exist\n"


@pytest.mark.slow
def test_an_option_out_of_range_is_told(
    data: Path, prepare_process: PrepareProcess, tmp_path: Path
) -> None:
    result = prepare_process(data, tmp_path / "prepared", "--max-train", "0")
    assert result.returncode == 1
    assert "argument --max-train: 0 is below 1" in result.stderr
