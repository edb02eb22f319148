"""What is read of files, folders and notebooks, and what is said of the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from compilegate.check.checking import check_paths
from tests.check.folders import SLOW_STEP, check, notebook, places, written


def sentences(path: Path) -> list[str]:
    return [each.sentence for each in check_paths([path]).unread]


@pytest.mark.parametrize(
    "cell",
    ["%%bash\nls *.py | head\n", "%%writefile x.sh\nthis is (no Python\n",
     "files = !ls\nprint(files)\n", "model?\n", "%matplotlib inline\nx = 7 \\\n% 3\n",
     "await train()\n", "!pip install a \\\n  b \\\n  c\nx = 1\n"],
)  # fmt: skip
def test_what_only_a_notebook_knows_is_no_fault(cell: str, tmp_path: Path) -> None:
    checked = check_paths([notebook(tmp_path / "a.ipynb", cell, SLOW_STEP)])
    found = [(each.cell, each.line) for each in checked.findings if each.rule == "sync-in-step"]
    assert (found, checked.unread) == ([(2, 11)], ())


def test_the_other_cells_are_read_and_scripts_that_a_cell_writes(tmp_path: Path) -> None:
    path = notebook(tmp_path / "a.ipynb", "for x in\n", SLOW_STEP)
    assert sentences(path) == [f"{path}: cell 1 was not read: line 1: invalid syntax"]
    assert places(check_paths([path])) == [("a.ipynb", 11)]
    path = notebook(path, f"%%writefile -a 'code/train.py'\n{SLOW_STEP}")
    assert places(check_paths([path])) == [("a.ipynb", 12)]


R = json.dumps({"cells": [], "metadata": {"kernelspec": {"language": "R"}}}).encode()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        *(("a.ipynb", each, "not checked: not a notebook") for each in (
            b"", b"[]", b"{}", b'{"cells": 3}', b"nonsense", b"[" * 100_000
        )),
        ("a.ipynb", R, "not checked: not a notebook of Python: its language is 'R'"),
        ("a.py", b"def f(:\n", "not checked: line 1: invalid syntax"),
        ("a.py", b"print 'old'\n", "not checked: line 1: Missing parentheses"),
        ("a.py", b"x = '\xff'\n", "not checked: not utf-8 text at byte 5"),
        ("a.py", b"# coding: nonsense\n", "not checked: its encoding is unknown"),
        ("a.py", b"x\0 = 1\n", "not checked: no Python script: it holds null bytes"),
        ("a.py", b"(" * 5000, "not checked: "),
        ("a.py", b"-" * 200_000 + b"1", "not checked: "),
        ("a.py", b"x = 1\n" * 333_334, "not checked: 2,000,004 bytes are more than"),
        ("a.toml", b"x = 1\n", "not checked: no Python script: its name does not end"),
        ("a.py", None, "there is no such file or folder"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_one_sentence(
    name: str, content: bytes | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    (sentence,) = sentences(path)
    assert sentence.startswith(f"{path}: {said}")
    assert "\n" not in sentence


def test_the_others_are_still_checked_each_once_and_those_of_tools_are_not(tmp_path: Path) -> None:
    folders = {f"{each}__train": SLOW_STEP for each in ("venv", "node_modules", ".git", "src")}
    written(tmp_path, broken="def f(:\n", **folders)
    (tmp_path / "data.bin").write_bytes(b"\0\1")
    os.mkfifo(tmp_path / "pipe.py")
    checked = check_paths([tmp_path / "src" / "train.py", tmp_path])
    assert (places(checked), checked.files) == ([("train.py", 11)], 1)
    assert [each.path.name for each in checked.unread] == ["broken.py", "pipe.py"]


def test_long_expressions_and_declared_encodings_are_no_fault(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes("# coding: latin-1\nname = 'é'\n".encode("latin-1"))
    (tmp_path / "b.py").write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r")
    assert check(tmp_path, table="x = " + " + ".join(["1"] * 2_000) + "\n").unread == ()


def test_what_is_checked_is_never_run(tmp_path: Path) -> None:
    check(tmp_path, train=f"open({str(tmp_path / 'ran')!r}, 'w').close()\nimport no_such_package\n")
    assert not (tmp_path / "ran").exists()
