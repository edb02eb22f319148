"""What a registered model's archive holds, by the program that makes it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.pipelines.programs.package import main

NAMES = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8})?", fullmatch=True)


def archive(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as packed:
        return {
            member.name: packed.extractfile(member).read()  # pyrefly: ignore[missing-attribute]
            for member in packed
            if member.isfile()
        }


@pytest.mark.slow
@given(
    model=st.dictionaries(NAMES, st.binary(max_size=50), max_size=4),
    code=st.dictionaries(NAMES, st.binary(max_size=50), max_size=4),
)
def test_the_code_lies_beside_the_model_which_stays_as_it_was(
    tmp_path_factory, model: dict[str, bytes], code: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("package")
    archive(folder / "in" / "model.tar.gz", model)
    handler = archive(folder / "code.tgz", code)
    assert main([str(folder / "in"), str(folder / "out"), f"--code={handler}"]) == 0
    kept = {name: each for name, each in model.items() if not f"{name}/".startswith("code/")}
    beside = {f"code/{name}": each for name, each in code.items()}
    assert contents(folder / "out" / "model.tar.gz") == kept | beside


def test_without_code_the_archive_is_the_same_bytes(tmp_path: Path) -> None:
    made = archive(tmp_path / "in" / "model.tar.gz", {"model.safetensors": b"weights"})
    assert main([str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "model.tar.gz").read_bytes() == made.read_bytes()


def test_a_model_that_is_not_there_is_one_line_and_a_status(tmp_path: Path, capsys) -> None:
    assert main([str(tmp_path), str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
