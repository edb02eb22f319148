"""Data that is a folder: anything, nested, known by its content; and what cannot be taken."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
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


def write(base: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = base / "photos" / name
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


def test_hidden_files_are_left_out_and_links_within_the_folder_followed(tmp_path: Path) -> None:
    plain = data_of(tmp_path, {"a.png": b"1", "b.png": b"1"})
    write(tmp_path, {".DS_Store": b"x", ".cache/b.png": b"y"})
    (tmp_path / "photos" / "b.png").unlink()
    (tmp_path / "photos" / "b.png").symlink_to("a.png")
    again = raw_data(DECLARED, tmp_path)
    assert again.identity == plain.identity
    assert fetched(again, tmp_path) == {"a.png": b"1", "b.png": b"1"}


def named(folder: Path, name: bytes) -> None:
    path = folder / os.fsdecode(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def swap(folder: Path, target: str) -> None:
    folder.rename(folder.with_name("other"))
    folder.symlink_to(target)


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda folder: (folder / "x").symlink_to(__file__), f"photos/x is a link to {__file__}"),
        (lambda folder: (folder / "x").symlink_to("nowhere"), "photos/x is a link to"),
        (lambda folder: (folder / "x").symlink_to("x"), "photos/x is a link to"),
        (lambda folder: (folder / "x").symlink_to("."), "photos/x is a link to"),
        # Reading a pipe would wait forever.
        (lambda folder: os.mkfifo(folder / "pipe"), "photos/pipe is not a plain file"),
        # Names that no object store takes alike.
        (lambda folder: named(folder, b"a\nb.png"), "holds 'a"),
        (lambda folder: named(folder, b"a\\b.png"), "holds 'a"),
        (lambda folder: named(folder, b"\xff.png"), "holds '"),
        (lambda folder: named(folder, b"/".join([b"x" * 250] * 3)), "holds 'xxx"),
        # No data of its own.
        (lambda folder: (folder / "a.png").unlink(), "photos holds no file"),
        (lambda folder: folder.rename(folder.with_name("other")), "photos is not a folder"),
        (lambda folder: swap(folder, "."), "holds the workload's own file"),
        (lambda folder: (folder / "a.png").write_bytes(b"12345"), "holds more than 2 files or 4 "),
        (lambda folder: [named(folder, name) for name in (b"b", b"c")], "holds more than 2 files"),
    ],
)
def test_what_cannot_be_taken_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object], found: str
) -> None:
    monkeypatch.setattr(limits, "MOST_FILES", 2)
    monkeypatch.setattr(limits, "MOST_BYTES", 4)
    write(tmp_path, {"a.png": b"1", ".hidden": b"2"})
    spoil(tmp_path / "photos")
    with pytest.raises(DatasetError, match=re.escape(found)):
        raw_data(DECLARED, tmp_path)


def test_a_folder_that_changes_after_it_was_read_is_refused(tmp_path: Path) -> None:
    """Else a digest would name content that is not there."""
    data = data_of(tmp_path, {"a.png": b"1"})
    assert data.identity
    write(tmp_path, {"b.png": b"2"})
    with pytest.raises(DatasetError, match="photos has changed"):
        data.fetch(tmp_path / "cache", print)
