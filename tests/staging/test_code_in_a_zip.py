"""The jobs' programs run from the zip that is staged, and from nothing else of this project."""

from __future__ import annotations

import html
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.pipelines.staging import SourceTree
from compilegate.pipelines.staging.experiment import experiment_file
from compilegate.pipelines.staging.source_tree import gate_tree, training_tree
from compilegate.workload import read_workload
from training.data.prepared import read_prepared

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WORKLOAD = ROOT / "tests" / "pipelines" / "topics.toml"
ELSEWHERE = (
    "import runpy, sys; sys.argv.pop(0); sys.path.remove(sys.argv.pop(0)); "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
"""As `python -m`, in an environment where this checkout is not installed."""


def run_from_zip(
    tree: SourceTree, folder: Path, module: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    code = folder / "code.zip"
    code.write_bytes(tree.module_zip())
    work = folder / "work"
    work.mkdir()
    return subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(ROOT), module, *arguments],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
        check=False,
    )


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,4}(/[a-z]{1,4})?\.py", fullmatch=True),
        st.binary(max_size=20),
        max_size=4,
    )
)
def test_a_zip_holds_its_files_and_nothing_of_the_machine(files: dict[str, bytes]) -> None:
    packed = SourceTree(files).module_zip()
    assert packed == SourceTree(dict(reversed(files.items()))).module_zip()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == files
        assert all(member.date_time[0] == 1980 for member in archive.infolist())


@pytest.mark.slow
def test_the_gate_judges_and_draws_its_page_from_the_zip(tmp_path: Path) -> None:
    (tmp_path / "abc.json").write_bytes(experiment_file(read_workload(WORKLOAD)))
    (tmp_path / "evidence").mkdir()
    done = run_from_zip(
        gate_tree(),
        tmp_path,
        "compilegate.pipelines.programs.gate",
        *("--experiment", str(tmp_path / "abc.json")),
        *("--evidence", str(tmp_path / "evidence"), "--output", str(tmp_path / "output")),
    )
    assert done.returncode == 0, done.stderr
    verdict = json.loads((tmp_path / "output" / "verdict.json").read_text())
    assert verdict["decision"]["arm"] == "none"
    page = (tmp_path / "output" / "report.html").read_text()
    assert "<style>" in page
    assert html.escape(verdict["decision"]["sentence"]).replace("&#x27;", "&#39;") in page


@pytest.mark.slow
def test_the_prepare_job_runs_from_the_zip(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "validation"):
        (data / f"{split}.csv").write_text("text,label\nships at sea,sea\ncars on land,land\n")
    done = run_from_zip(
        training_tree(),
        tmp_path,
        "training.prepare",
        *("--data-dir", str(data), "--output-dir", str(tmp_path / "prepared")),
        *("--sequence-length", "8", "--vocabulary", "64"),
    )
    assert done.returncode == 0, done.stderr
    assert read_prepared(tmp_path / "prepared").manifest.labels == ("land", "sea")


def test_a_change_of_the_reader_the_gate_or_the_report_changes_no_training_code() -> None:
    """Else each of them would train every workload again."""
    places = ("compilegate/__init__.py", "compilegate/job/", "training/")
    assert [name for name in training_tree().files if not name.startswith(places)] == []
    read_by_the_gate = ("compilegate/gate/", "compilegate/report/")
    for place in read_by_the_gate:
        assert any(name.startswith(place) for name in gate_tree().files)
