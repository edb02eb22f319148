"""What a definition names lies where its content's digest says."""

from __future__ import annotations

import dataclasses
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.datasets import LocalFiles, raw_data
from compilegate.gate.settings import Experiment
from compilegate.local.home.object_store import ObjectStore
from compilegate.pipelines.deployment import local_deployment
from compilegate.pipelines.staging import SourceTree, image_tags, placement_of
from compilegate.pipelines.staging.experiment import experiment_of
from compilegate.workload import FolderData, read_workload
from tests.workload.settled import workload_with

WORKLOAD = Path(__file__).parents[1] / "pipelines" / "topics.toml"
DEPLOYMENT = local_deployment({"training": "1", "gate": "2"})
FILES = st.dictionaries(st.text("abc/", min_size=1, max_size=5), st.binary(max_size=8), max_size=4)


def data_files(folder: Path) -> LocalFiles:
    (folder / "train.csv").write_text("body,topic\nx,1\n")
    (folder / "validation.csv").write_text("body,topic\ny,1\n")
    return LocalFiles(train=folder / "train.csv", validation=folder / "validation.csv")


@pytest.mark.slow
@given(first=FILES, second=FILES)
def test_trees_have_one_digest_exactly_when_they_have_the_same_files(
    first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    assert (SourceTree(first).digest == SourceTree(second).digest) == (first == second)


@pytest.mark.slow
def test_the_archive_is_the_same_bytes_each_time_and_holds_the_training_package() -> None:
    placement = placement_of(read_workload(WORKLOAD), DEPLOYMENT, _NoData(), WORKLOAD.parent)
    packed = placement.training.archive()
    assert packed == placement.training.archive()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = archive.getnames()
        assert {(member.mtime, member.uid) for member in archive} == {(0, 0)}
    assert "training/train.py" in names
    assert all(name.startswith(("training/", "compilegate/")) for name in names)


def test_a_changed_margin_moves_the_experiment_and_no_program() -> None:
    """Otherwise every margin that is tried would train everything again."""
    workload = read_workload(WORKLOAD)
    changed = workload_with(WORKLOAD, gate__metrics__accuracy={"margin": 0.02})
    before = placement_of(workload, DEPLOYMENT, _NoData(), WORKLOAD.parent).sources
    after = placement_of(changed, DEPLOYMENT, _NoData(), WORKLOAD.parent).sources
    assert after.experiment != before.experiment
    assert dataclasses.replace(after, experiment=before.experiment) == before


def test_other_data_have_another_place(tmp_path: Path) -> None:
    def place() -> str:
        files = LocalFiles(train=tmp_path / "train.csv", validation=tmp_path / "validation.csv")
        placement = placement_of(read_workload(WORKLOAD), DEPLOYMENT, files, WORKLOAD.parent)
        return placement.sources.data

    data_files(tmp_path)
    before = place()
    assert place() == before
    (tmp_path / "train.csv").write_text("body,topic\nz,1\n")
    assert place() != before


def test_everything_is_put_where_the_sources_say(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "home")
    placement = placement_of(
        read_workload(WORKLOAD), DEPLOYMENT, data_files(tmp_path), WORKLOAD.parent
    )
    placement.put(store, tmp_path / "cache", print)
    assert store.exists(placement.sources.training_archive)
    assert store.read(placement.sources.training_code) == placement.training.module_zip()
    assert store.read(placement.sources.gate_code) == placement.gate.module_zip()
    assert store.exists(f"{placement.sources.data}/train.csv")
    experiment = Experiment.model_validate_json(store.read(placement.sources.experiment))
    assert experiment.seeds == [7, 8]
    assert experiment.arms["compiled"].precision == "bf16"


def test_a_folder_keeps_its_shape_where_it_is_put(tmp_path: Path) -> None:
    photo = tmp_path / "photos" / "cats" / "old" / "1.png"
    photo.parent.mkdir(parents=True)
    photo.write_bytes(b"cat")
    store = ObjectStore(tmp_path / "home")
    data = raw_data(FolderData(source="folder", folder="photos"), tmp_path)
    placement = placement_of(read_workload(WORKLOAD), DEPLOYMENT, data, WORKLOAD.parent)
    placement.put(store, tmp_path / "cache", print)
    (placed,) = store.download(placement.sources.data, tmp_path / "job")
    assert (placed, placed.read_bytes()) == (tmp_path / "job" / "cats" / "old" / "1.png", b"cat")
    assert photo.exists()


def test_the_gate_is_told_the_price_of_each_arm_s_instance_or_why_there_is_none() -> None:
    changed = workload_with(
        WORKLOAD,
        arms__compiled={"instance_type": "ml.z9.huge"},
        compute={"instance_type": "ml.g5.2xlarge"},
    )
    arms = experiment_of(changed).arms
    assert (arms["baseline"].instance_type, arms["baseline"].usd_per_hour) == (
        "ml.g5.2xlarge",
        1.515,
    )
    assert "2026-08" in str(arms["baseline"].price_note)
    assert (arms["compiled"].instance_type, arms["compiled"].usd_per_hour) == ("ml.z9.huge", None)
    assert arms["compiled"].price_note == "the catalog has no price for ml.z9.huge"


def test_the_gate_is_told_of_images_only_where_arms_have_different_ones() -> None:
    workload = read_workload(WORKLOAD)
    assert {arm.image for arm in experiment_of(workload).arms.values()} == {None}
    changed = workload_with(WORKLOAD, arms__compiled={"compiler": "training-compiler"})
    assert {name: arm.image for name, arm in experiment_of(changed).arms.items()} == {
        "baseline": "training",
        "compiled": "training-compiler",
    }


@pytest.mark.slow
def test_staging_twice_writes_nothing_the_second_time(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "home")
    placement = placement_of(
        read_workload(WORKLOAD), DEPLOYMENT, data_files(tmp_path), WORKLOAD.parent
    )
    placement.put(store, tmp_path / "cache", print)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "home").rglob("*")}
    placement.put(store, tmp_path / "cache", print)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "home").rglob("*")} == before


def test_an_image_has_another_tag_when_a_file_of_its_folder_changes(tmp_path: Path) -> None:
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "requirements.txt").write_text("torch\n")
    (tmp_path / "not-an-image").mkdir()
    before = image_tags(tmp_path)
    (folder / "requirements.txt").write_text("torch==2\n")
    after = image_tags(tmp_path)
    assert list(before) == list(after) == ["training"]
    assert before != after


class _NoData:
    """A placement names the data by its identity, and never asks for more."""

    identity = "0" * 64

    def fetch(self, cache: Path, announce: object) -> dict[str, Path]:
        raise AssertionError("planning must not fetch")
