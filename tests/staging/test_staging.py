"""What a definition names lies where its content's digest says, and runs from there alone."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.datasets import LocalFiles, raw_data
from compilegate.gate.settings import Experiment
from compilegate.local.home.object_store import ObjectStore
from compilegate.pipelines.deployment import local_deployment
from compilegate.pipelines.staging.placement import (
    Placement,
    experiment_file,
    experiment_of,
    placement_of,
)
from compilegate.pipelines.staging.source_trees import (
    OwnCodeError,
    SourceTree,
    gate_tree,
    own_code,
    training_code,
    training_tree,
)
from compilegate.workload import FolderData, OwnProgram, Workload, read_workload
from compilegate.workload.declaration.program import Program
from tests.workload.settled import TOPICS, workload_with
from training.data.prepared import read_prepared

WORKLOAD = read_workload(TOPICS)
DEPLOYMENT = local_deployment({"training": "1", "gate": "2"})
FILES = st.dictionaries(
    st.from_regex(r"[ab]{1,2}(/[ab]{1,2})?\.py", fullmatch=True), st.binary(max_size=8), max_size=4
)
WITHOUT_CHECKOUT = """
import os, runpy, sys
sys.argv.pop(0)
sys.path[:] = [place for place in sys.path if not os.path.isdir(place + "/compilegate")]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""As `python -m`, in an environment where no checkout is installed."""


@pytest.fixture
def data(tmp_path: Path) -> LocalFiles:
    for split in ("train", "validation"):
        text = "text,label\nships at sea,sea\ncars on land,land\n"
        (tmp_path / f"{split}.csv").write_text(text)
    return LocalFiles(train=tmp_path / "train.csv", validation=tmp_path / "validation.csv")


def placed(data: Any, workload: Workload = WORKLOAD) -> Placement:
    return placement_of(workload, DEPLOYMENT, data, TOPICS.parent)


@pytest.mark.slow
@given(first=FILES, second=FILES)
def test_trees_have_one_digest_and_one_zip_exactly_when_they_have_the_same_files(
    first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    assert (SourceTree(first).digest == SourceTree(second).digest) == (first == second)
    packed = SourceTree(first).module_zip()
    assert packed == SourceTree(dict(reversed(first.items()))).module_zip()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == first
        assert all(member.date_time[0] == 1980 for member in archive.infolist())


def test_no_reader_of_evidence_gate_or_report_is_training_code() -> None:
    """Else each change of them would train every workload again."""
    packed = training_tree().archive()
    assert packed == training_tree().archive()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = archive.getnames()
        assert {(member.mtime, member.uid) for member in archive} == {(0, 0)}
    assert "training/train.py" in names
    places = ("compilegate/__init__.py", "compilegate/job/", "training/")
    assert [name for name in names if not name.startswith(places)] == []


def test_a_changed_margin_moves_the_experiment_and_no_program(data: LocalFiles) -> None:
    """Otherwise every margin that is tried would train everything again."""
    changed = workload_with(TOPICS, gate__metrics__accuracy={"margin": 0.02})
    before, after = placed(data).sources, placed(data, changed).sources
    assert after.experiment != before.experiment
    assert dataclasses.replace(after, experiment=before.experiment) == before


def test_everything_is_put_once_where_the_sources_say(tmp_path: Path, data: LocalFiles) -> None:
    store = ObjectStore(tmp_path / "home")
    placement = placed(data)
    placement.put(store, tmp_path / "cache", print)
    sources = placement.sources
    assert store.exists(sources.training_archive)
    assert store.read(sources.training_code) == placement.training.module_zip()
    assert store.read(sources.gate_code) == placement.gate.module_zip()
    assert store.exists(f"{sources.data}/train.csv")
    experiment = Experiment.model_validate_json(store.read(sources.experiment))
    assert experiment.seeds == [7, 8]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "home").rglob("*")}
    placement.put(store, tmp_path / "cache", print)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "home").rglob("*")} == before
    (tmp_path / "train.csv").write_text("text,label\nz,1\n")
    assert placed(data).sources.data != sources.data


def test_a_folder_keeps_its_shape_where_it_is_put(tmp_path: Path) -> None:
    photo = tmp_path / "photos" / "cats" / "old" / "1.png"
    photo.parent.mkdir(parents=True)
    photo.write_bytes(b"cat")
    store = ObjectStore(tmp_path / "home")
    placement = placed(raw_data(FolderData(source="folder", folder="photos"), tmp_path))
    placement.put(store, tmp_path / "cache", print)
    (copied,) = store.download(placement.sources.data, tmp_path / "job")
    assert (copied, copied.read_bytes()) == (tmp_path / "job" / "cats" / "old" / "1.png", b"cat")
    assert photo.exists()


def test_the_gate_gets_the_price_of_each_arm_s_instance_or_why_there_is_none() -> None:
    changed = workload_with(
        TOPICS,
        arms__compiled={"instance_type": "ml.z9.huge", "compiler": "training-compiler"},
        compute={"instance_type": "ml.g5.2xlarge"},
    )
    arms = experiment_of(changed).arms
    found = {name: (arm.instance_type, arm.usd_per_hour, arm.image) for name, arm in arms.items()}
    assert found == {
        "baseline": ("ml.g5.2xlarge", 1.515, "training"),
        "compiled": ("ml.z9.huge", None, "training-compiler"),
    }
    assert "2026-08" in str(arms["baseline"].price_note)
    assert arms["compiled"].price_note == "the catalog has no price for ml.z9.huge"
    # Images are of interest only where arms differ in them.
    assert {arm.image for arm in experiment_of(WORKLOAD).arms.values()} == {None}


def run_from_zip(tree: SourceTree, folder: Path, module: str, *arguments: str) -> str:
    """The errors of a job's program that runs from its zip and nothing else of this project."""
    code, work = folder / "code.zip", folder / "work"
    code.write_bytes(tree.module_zip())
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CHECKOUT, module, *arguments],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""


@pytest.mark.slow
def test_the_gate_judges_and_draws_its_page_from_the_zip(tmp_path: Path) -> None:
    (tmp_path / "abc.json").write_bytes(experiment_file(WORKLOAD))
    (tmp_path / "evidence").mkdir()
    places = {"experiment": "abc.json", "evidence": "evidence", "output": "output"}
    options = [f"--{name}={tmp_path / place}" for name, place in places.items()]
    module = "compilegate.pipelines.programs.gate"
    assert run_from_zip(gate_tree(), tmp_path, module, *options) == ""
    verdict = json.loads((tmp_path / "output" / "verdict.json").read_text())
    assert verdict["decision"]["arm"] == "none"
    assert "<style>" in (tmp_path / "output" / "report.html").read_text()


@pytest.mark.slow
def test_the_prepare_job_runs_from_the_zip(tmp_path: Path, data: LocalFiles) -> None:
    options = [f"--data-dir={tmp_path}", f"--output-dir={tmp_path / 'prepared'}"]
    shapes = ["--sequence-length=8", "--vocabulary=64"]
    assert run_from_zip(training_tree(), tmp_path, "training.prepare", *options, *shapes) == ""
    assert read_prepared(tmp_path / "prepared").manifest.labels == ("land", "sea")


def folder_with(path: Path, *files: str) -> Path:
    for file in ("train.py", *files):
        (path / "mine" / file).parent.mkdir(parents=True, exist_ok=True)
        (path / "mine" / file).write_text("pass\n")
    return path


def test_the_whole_folder_of_a_program_goes_along_with_what_it_may_import(tmp_path: Path) -> None:
    kind = OwnProgram.running(Program(folder="mine"))
    folder_with(tmp_path, "net/model.py", "settings.yaml", ".hidden", "__pycache__/x.pyc")
    tree = training_code(kind, tmp_path)
    own = {name for name in tree.files if not name.startswith("compilegate/")}
    assert own == {"train.py", "net/model.py", "settings.yaml"}
    beside = {"compilegate/job/evidence/writing.py", "compilegate/job/launch/sm_dist.py"}
    assert {"compilegate/job/__init__.py", *beside} <= tree.files.keys()
    (tmp_path / "mine" / "train.py").write_text("print()\n")
    assert training_code(kind, tmp_path).digest != tree.digest


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


def test_code_of_the_gate_is_taken_without_what_is_hidden_or_compiled(tmp_path: Path) -> None:
    folder_with(tmp_path, "table.csv", ".git/b.py", "__pycache__/a.pyc")
    assert own_code(["mine"], tmp_path).keys() == {"mine/train.py", "mine/table.csv"}
    with pytest.raises(OwnCodeError, match=r"gate\.code\[1\]: .*mine\.py does not exist"):
        own_code([".", "mine.py"], tmp_path)
    (tmp_path / "mine.py").write_bytes(b"#" * 10_000_001)
    with pytest.raises(OwnCodeError, match="holds 10,000,001 bytes, allowed: 10,000,000 at most"):
        own_code(["mine.py"], tmp_path)
