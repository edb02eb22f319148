"""Data that is a folder: anything, nested, known by its content; and what cannot be taken."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.datasets import DatasetError, RawData, raw_data
from compilegate.datasets import sources as limits
from compilegate.workload import FolderData

DECLARED = FolderData(source="folder", folder="photos")
TREES = st.dictionaries(
    st.sampled_from(["a.png", "b.npz", "cats/a.png", "cats/old/a.png", "dogs/\u00fc 1.jpg"]),
    st.binary(max_size=3),
    min_size=1,
)


def write(base: Path, files: dict[str, bytes], folder: str = "photos") -> None:
    for name, content in files.items():
        path = base / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def data_of(base: Path, files: dict[str, bytes]) -> RawData:
    write(base, files)
    return raw_data(DECLARED, base)


def fetched(data: RawData, base: Path) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in data.fetch(base / "cache", print).items()}


@pytest.mark.slow
@given(first=TREES, second=TREES)
def test_folders_are_one_data_set_exactly_when_they_hold_the_same(
    first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        mine, theirs = data_of(Path(one), first), data_of(Path(other), second)
        assert (mine.identity == theirs.identity) == (first == second)
        assert fetched(mine, Path(one)) == first
        assert mine.is_whole({*first, "more"})
        assert mine.is_whole(second.keys()) == (first.keys() <= second.keys())


def test_hidden_files_are_nobody_s_data(tmp_path: Path) -> None:
    plain = data_of(tmp_path, {"a.png": b"1"})
    write(tmp_path, {".DS_Store": b"x", ".cache/b.png": b"y"})
    again = raw_data(DECLARED, tmp_path)
    assert again.identity == plain.identity
    assert fetched(again, tmp_path) == {"a.png": b"1"}


def test_links_are_followed_within_the_folder_and_refused_where_they_lead_out(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"a.png": b"1"})
    (tmp_path / "photos" / "b.png").symlink_to("a.png")
    assert fetched(raw_data(DECLARED, tmp_path), tmp_path) == {"a.png": b"1", "b.png": b"1"}
    secret = tmp_path / "credentials"
    secret.write_text("secret")
    (tmp_path / "photos" / "c.png").symlink_to(secret)
    with pytest.raises(DatasetError, match=r"c\.png is a link to .*credentials"):
        raw_data(DECLARED, tmp_path)


@pytest.mark.parametrize("target", ["nowhere", "x", "."])
def test_a_link_that_leads_to_no_file_is_named(tmp_path: Path, target: str) -> None:
    write(tmp_path, {"a.png": b"1"})
    (tmp_path / "photos" / "x").symlink_to(target)
    with pytest.raises(DatasetError, match=r"photos/x is a link to"):
        raw_data(DECLARED, tmp_path)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """Reading a pipe would wait forever."""
    write(tmp_path, {"a.png": b"1"})
    os.mkfifo(tmp_path / "photos" / "pipe")
    with pytest.raises(DatasetError, match="pipe is not a plain file"):
        raw_data(DECLARED, tmp_path)


@pytest.mark.parametrize(
    "name", [b"a\nb.png", b"a\\b.png", b"\xff.png", b"/".join([b"x" * 250] * 3)]
)
def test_names_that_no_object_store_takes_alike_are_refused(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / "photos" / os.fsdecode(name)
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(DatasetError, match=r"holds .*, expected UTF-8 paths of"):
        raw_data(DECLARED, tmp_path)


def test_a_folder_that_changes_after_it_was_read_is_refused(tmp_path: Path) -> None:
    """Else a digest would name content that is not there."""
    data = data_of(tmp_path, {"a.png": b"1"})
    assert data.identity
    write(tmp_path, {"b.png": b"2"})
    with pytest.raises(DatasetError, match="photos has changed"):
        data.fetch(tmp_path / "cache", print)


@pytest.mark.parametrize(
    ("files", "folder", "sentence"),
    [
        ({}, "photos", r"data\.folder: .*photos is not a folder"),
        ({".hidden": b""}, "photos", r"photos holds no file"),
        ({"a.png": b""}, ".", r"holds the workload's own file"),
    ],
)
def test_a_folder_without_data_of_its_own_is_refused(
    tmp_path: Path, files: dict[str, bytes], folder: str, sentence: str
) -> None:
    write(tmp_path, files)
    with pytest.raises(DatasetError, match=sentence):
        raw_data(FolderData(source="folder", folder=folder), tmp_path)


@pytest.mark.parametrize(("name", "value"), [("MOST_FILES", 1), ("MOST_BYTES", 3)])
def test_what_is_too_large_belongs_into_the_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(limits, name, value)
    with pytest.raises(DatasetError, match=r"holds more than "):
        data_of(tmp_path, {"a.png": b"12", "b.png": b"34"})
