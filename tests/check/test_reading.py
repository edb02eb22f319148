"""What is read of files, folders and notebooks, and what is said of the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from compilegate.check.checking import check_paths
from compilegate.check.reading import discovery
from tests.check.writing import SLOW_STEP, places, written


def notebook(path: Path, *cells: str | dict[str, Any]) -> Path:
    """Write a notebook of code cells, or of cells as they are given."""
    made = [
        cell if isinstance(cell, dict) else {"cell_type": "code", "source": cell.splitlines(True)}
        for cell in cells
    ]
    path.write_text(json.dumps({"cells": made, "nbformat": 4}), encoding="utf-8")
    return path


def sentences(path: Path) -> list[str]:
    return [each.sentence for each in check_paths([path]).unread]


def test_a_finding_in_a_notebook_has_the_cell_and_its_line(tmp_path: Path) -> None:
    text = {"cell_type": "markdown", "source": ["# Training"]}
    magic = "%load_ext tensorboard\n!pip install torch\nimport torch\n"
    path = notebook(tmp_path / "train.ipynb", text, magic, SLOW_STEP)
    checked = check_paths([path])
    assert [(each.cell, each.line) for each in checked.findings if each.rule == "item-in-step"] == [
        (3, 11)
    ]
    assert checked.unread == ()


@pytest.mark.parametrize(
    "cell",
    ["%%bash\nls *.py | head\n", "%%writefile x.sh\nthis is (no Python\n",
     "files = !ls\nprint(files)\n", "model?\n", "%matplotlib inline\nx = 7 \\\n% 3\n",
     "await train()\n", "!pip install a \\\n  b \\\n  c\nx = 1\n"],
)  # fmt: skip
def test_what_only_a_notebook_knows_is_no_fault(cell: str, tmp_path: Path) -> None:
    assert sentences(notebook(tmp_path / "a.ipynb", cell)) == []


def test_a_cell_that_does_not_parse_is_one_sentence(tmp_path: Path) -> None:
    path = notebook(tmp_path / "a.ipynb", "for x in\n", SLOW_STEP)
    assert sentences(path) == [f"{path}: cell 1 was not read: line 1: invalid syntax"]
    assert places(check_paths([path]), "item-in-step") == [("a.ipynb", 11)]


def test_a_script_that_a_notebook_writes_is_checked_where_it_stands(tmp_path: Path) -> None:
    path = notebook(tmp_path / "a.ipynb", f"%%writefile -a 'code/train.py'\n{SLOW_STEP}")
    assert places(check_paths([path]), "item-in-step") == [("a.ipynb", 12)]


def test_a_notebook_of_another_language_is_one_sentence(tmp_path: Path) -> None:
    path = notebook(tmp_path / "a.ipynb", "x <- 1\n")
    document = json.loads(path.read_text(encoding="utf-8"))
    document["metadata"] = {"kernelspec": {"name": "ir", "language": "R"}}
    path.write_text(json.dumps(document), encoding="utf-8")
    assert sentences(path) == [
        f"{path}: not checked: not a notebook of Python: its language is 'R'"
    ]


def test_old_notebooks_keep_their_cells_in_worksheets(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    sheet = {"cells": [{"cell_type": "code", "input": SLOW_STEP.splitlines(True)}]}
    path.write_text(json.dumps({"worksheets": [{"cells": 3}, sheet]}), encoding="utf-8")
    assert places(check_paths([path]), "item-in-step") == [("a.ipynb", 11)]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cells": 3}', "nonsense", '{"worksheets": [3]}', "[" * 100_000]
)
def test_what_is_no_notebook_is_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text, encoding="utf-8")
    (said,) = sentences(path)
    assert said.startswith(f"{path}: not checked: not a notebook")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.py", b"def f(:\n", "not checked: line 1: invalid syntax"),
        ("a.py", b"print 'old'\n", "not checked: line 1: Missing parentheses"),
        ("a.py", b"x = '\xff'\n", "not checked: not utf-8 text at byte 5"),
        ("a.py", b"# coding: nonsense\n", "not checked: its encoding is unknown"),
        ("a.py", b"x\0 = 1\n", "not checked: no Python script: it holds null bytes"),
        ("a.py", b"(" * 5000, "not checked: "),
        ("a.py", b"-" * 200_000 + b"1", "not checked: "),
        ("a.toml", b"x = 1\n", "not checked: no Python script: its name does not end"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    (sentence,) = sentences(path)
    assert sentence.startswith(f"{path}: {said}")
    assert "\n" not in sentence


def test_the_others_are_still_checked(tmp_path: Path) -> None:
    written(tmp_path, train=SLOW_STEP, broken="def f(:\n")
    (tmp_path / "data.bin").write_bytes(b"\0\1")
    checked = check_paths([tmp_path])
    assert places(checked, "item-in-step") == [("train.py", 11)]
    assert [each.path.name for each in checked.unread] == ["broken.py"]


def test_a_huge_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "table.py"
    path.write_text("x = 1\n" * (discovery.MOST_BYTES // 6 + 1), encoding="utf-8")
    (said,) = sentences(path)
    assert "are more than the 2,000,000 that are read" in said


def test_long_expressions_are_no_fault(tmp_path: Path) -> None:
    written(tmp_path, table="x = " + " + ".join(["1"] * 2_000) + "\n")
    assert check_paths([tmp_path]).unread == ()


def test_encodings_are_those_that_a_script_declares(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes("# coding: latin-1\nname = 'é'\n".encode("latin-1"))
    (tmp_path / "b.py").write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r")
    assert check_paths([tmp_path]).unread == ()


def test_a_path_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.py"
    assert sentences(missing) == [f"{missing}: there is no such file or folder"]


def test_folders_of_others_are_passed_over(tmp_path: Path) -> None:
    folders = {f"{folder}__train": SLOW_STEP for folder in ("venv", "node_modules", ".git", "src")}
    checked = check_paths([written(tmp_path, **folders)])
    assert [each.path.relative_to(tmp_path).as_posix() for each in checked.findings][:1] == [
        "src/train.py"
    ]
    assert checked.files == 1


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    written(tmp_path, train=SLOW_STEP)
    checked = check_paths([tmp_path / "train.py", tmp_path])
    assert checked.files == 1


def test_a_pipe_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    os.mkfifo(path)
    assert sentences(path) == [f"{path}: not checked: not a file that can be read"]


def test_what_is_checked_is_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    written(tmp_path, train=f"open({str(marker)!r}, 'w').close()\nimport no_such_package\n")
    check_paths([tmp_path])
    assert not marker.exists()
