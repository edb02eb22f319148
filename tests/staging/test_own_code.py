"""What goes into the training archive of a program of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.pipelines.staging import OwnCodeError
from compilegate.pipelines.staging.own_code import training_code
from compilegate.workload import OwnProgram
from compilegate.workload.file import Program


def folder_with(path: Path, *files: str) -> Path:
    for file in ("train.py", *files):
        (path / "mine" / file).parent.mkdir(parents=True, exist_ok=True)
        (path / "mine" / file).write_text("pass\n")
    return path


def test_the_whole_folder_goes_along_and_may_import_the_evidence(tmp_path: Path) -> None:
    folder_with(tmp_path, "net/model.py", "settings.yaml", ".hidden", "__pycache__/x.pyc")
    tree = training_code(OwnProgram.running(Program(folder="mine")), tmp_path)
    own = {name for name in tree.files if not name.startswith("compilegate/")}
    assert own == {"train.py", "net/model.py", "settings.yaml"}
    beside = {"compilegate/job/evidence/writing.py", "compilegate/job/launch/sm_dist.py"}
    assert {"compilegate/job/__init__.py", *beside} <= tree.files.keys()
    assert "training/train.py" not in tree.files


@pytest.mark.parametrize(
    ("program", "files", "sentence"),
    [
        ({"folder": "other"}, [], r"program\.folder: .*/other is not a folder"),
        ({"entry": "main.py"}, [], r"program\.entry: .*/mine has no file 'main\.py'"),
        ({"prepare": "prepare.py"}, [], r"program\.prepare: .*/mine has no file 'prepare\.py'"),
        ({}, ["requirements.txt"], r"holds a requirements\.txt, .* containers/training/requirem"),
        ({}, ["setup.py"], r"holds a setup\.py, allowed: none"),
        ({}, ["compilegate/own.py"], "holds 'compilegate', which would hide the module"),
    ],
)
def test_what_cannot_go_along_is_refused_with_what_to_do(
    tmp_path: Path, program: dict[str, str], files: list[str], sentence: str
) -> None:
    kind = OwnProgram.running(Program(**{"folder": "mine", **program}))
    with pytest.raises(OwnCodeError, match=sentence):
        training_code(kind, folder_with(tmp_path, *files))


def test_another_program_has_another_digest(tmp_path: Path) -> None:
    kind = OwnProgram.running(Program(folder="mine"))
    before = training_code(kind, folder_with(tmp_path)).digest
    (tmp_path / "mine" / "train.py").write_text("print()\n")
    assert training_code(kind, tmp_path).digest != before
