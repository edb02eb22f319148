"""Evidence read back from folders and archives that may come from anywhere, damaged or not.

Whatever is read, nothing crashes, nothing escapes its folder, and no damage passes unseen.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.gate.evidence import read_evidence, read_records, read_replicate
from compilegate.gate.findings import Code, Outcome
from compilegate.gate.judge import judge
from compilegate.gate.observations import Observations, observe
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import (
    EvidenceError,
    EvidenceRecord,
)
from compilegate.job.evidence.writing import (
    MOST_HASHES,
    OWN_DIGEST,
    TrainedRows,
    document_digest,
    hashed,
)
from compilegate.report import render_html, render_junit, render_markdown
from tests.gate.conftest import build_execution
from tests.gate.test_speed import WASTEFUL


def read_and_judged(execution: Any, folder: Path) -> Verdict:
    records = read_records(folder / "evidence", execution.experiment.replicates)
    return judge(execution.experiment, records)


def reported(execution: Any, folder: Path) -> Verdict:
    """What the job does, in this process; anything that is raised fails the test."""
    records = read_records(folder / "evidence", execution.experiment.replicates)
    verdict, observed = judge(execution.experiment, records), observe(execution.experiment, records)
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert Observations.from_json(observed.to_json()) == observed
    for rendered in (render_html(verdict, observed), render_markdown(verdict, observed)):
        assert rendered.encode()
    ET.fromstring(render_junit(verdict).encode())  # noqa: S314 - written here
    return verdict


# Archives and folders.


def add(archive: tarfile.TarFile, name: str, content: bytes = b"", **fields: Any) -> None:
    member = tarfile.TarInfo(name)
    for key, value in {"size": len(content), **fields}.items():
        setattr(member, key, value)
    archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("evidence/../../escaped", tarfile.REGTYPE, "not a plain file"),
        ("evidence/steps.npz", tarfile.SYMTYPE, "not a plain file"),
        ("/evidence/evidence.json", tarfile.REGTYPE, "holds no evidence/ folder"),
        ("../evidence/evidence.json", tarfile.REGTYPE, "holds no evidence/ folder"),
    ],
)
def test_an_archive_cannot_write_outside_its_folder(tmp_path, name, kind, expected) -> None:
    replicate = tmp_path / "fast--1"
    replicate.mkdir()
    with tarfile.open(replicate / "output.tar.gz", "w:gz") as archive:
        content = b"x" if kind == tarfile.REGTYPE else b""
        add(archive, name, content, type=kind, linkname="/etc/passwd")
    with pytest.raises(EvidenceError, match=expected):
        read_replicate(replicate)
    assert [file.name for file in tmp_path.rglob("*")] == ["fast--1", "output.tar.gz"]


@pytest.mark.parametrize("named", [None, "evidence/steps.npz", "checkpoints/last.pt"])
def test_what_is_not_evidence_and_times_that_no_system_has_are_left_alone(
    execution, tmp_path, named
) -> None:
    execution.write(tmp_path, archives=True)
    path = tmp_path / "evidence" / "fast--1" / "output.tar.gz"
    with tarfile.open(path) as stored:
        contents = {it.name: stored.extractfile(it) for it in stored if it.isfile()}
        files = {name: file.read() for name, file in contents.items() if file}
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in {**files, "checkpoints/last.pt": b"weights"}.items():
            headers = {"mtime": "1e300"} if name == named else {}
            add(archive, name if named else f"./{name}", content, pax_headers=headers)
    assert read_replicate(path.parent).evidence.arm == "fast"


def test_evidence_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch) -> None:
    """What lies beside it may be as large as it likes."""
    for limit, expected in ((5_000, "more than 5000 bytes"), (9_000, "evidence.json is missing")):
        monkeypatch.setattr("compilegate.gate.evidence.MOST_UNPACKED_BYTES", limit)
        with tarfile.open(tmp_path / "output.tar.gz", "w:gz") as archive:
            for name in ("evidence/a", "evidence/b", "checkpoint"):
                add(archive, name, b"\0" * 4_000)
        with pytest.raises(EvidenceError, match=expected):
            read_replicate(tmp_path)


def test_evidence_may_be_gathered_one_level_deeper_and_never_twice(execution, tmp_path) -> None:
    execution.write(tmp_path, archives=True)
    evidence = tmp_path / "evidence"
    for number, folder in enumerate(sorted(evidence.iterdir())):
        (evidence / str(number)).mkdir()
        folder.rename(evidence / str(number) / folder.name)
    records = read_records(evidence, execution.experiment.replicates)
    assert all(isinstance(it, EvidenceRecord) for it in records.values())
    (place,) = evidence.glob("*/fast--1")
    shutil.copytree(place, evidence / "again" / "fast--1")
    found = read_records(evidence, execution.experiment.replicates)["fast", 1]
    assert isinstance(found, EvidenceError)
    (place / "evidence").mkdir()
    with pytest.raises(EvidenceError, match="more than once"):
        read_replicate(place)


def test_a_seed_that_was_trained_and_is_not_declared_is_a_note(execution, tmp_path) -> None:
    """Only of this experiment's arms, under names as the jobs write them."""
    execution.write(tmp_path, archives=True)
    evidence = tmp_path / "evidence"
    for name in ("fast--04", "other--4", "fast--4"):
        shutil.copytree(evidence / "fast--1", evidence / "more" / name)
    records = read_records(evidence, execution.experiment.replicates)
    assert set(records) - set(execution.records) == {("fast", 4)}
    (candidate,) = read_and_judged(execution, tmp_path).candidates
    assert candidate.outcome is Outcome.PASS
    assert Code.EVIDENCE_UNDECLARED in {it.code for it in candidate.notes}


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda file: (file.unlink(), os.mkfifo(file)), "is not a plain file"),
        (lambda file: (file.unlink(), file.symlink_to("/dev/zero")), "is not a plain file"),
        (lambda file: (file.unlink(), file.symlink_to(file)), "cannot be read"),
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_bytes(b"\x80"), "cannot be read"),
        (
            lambda file: np.savez_compressed(file, loss=np.zeros(10**6), seconds=np.ones(1)),
            "unpacks to more than 1000000 bytes",
        ),
        (
            lambda file: np.savez(file, loss=np.array([print], dtype=object), seconds=np.ones(1)),
            "cannot be read",  # a pickle is never loaded
        ),
        (lambda file: np.savez(file, loss=np.ones(60)), "column seconds is missing"),
        (lambda file: np.savez(file, loss=np.ones(60), seconds=np.ones(3)), "different lengths"),
        (lambda file: np.savez(file, loss=np.ones((6, 2)), seconds=np.ones(6)), "2 dimensions"),
        (lambda file: np.savez(file, loss=np.arange(6), seconds=np.ones(6)), "type int64"),
    ],
)
def test_what_stands_in_the_place_of_a_file_is_named(
    execution, tmp_path, monkeypatch, damage, expected
) -> None:
    """A pipe or a device would be read for ever, and a small file may unpack to a huge one."""
    monkeypatch.setattr("compilegate.gate.evidence.MOST_COLUMN_BYTES", 1_000_000)
    execution.write(tmp_path)
    replicate = tmp_path / "evidence" / "fast--1"
    damage(replicate / "evidence" / "steps.npz")
    with pytest.raises(EvidenceError, match=rf"steps\.npz.*{expected}"):
        read_replicate(replicate)


# Columns and keys.


def changed_columns(file: Path, **changes: Any) -> None:
    with np.load(file) as stored:
        columns = {**{name: stored[name] for name in stored.files}, **changes}
    np.savez_compressed(file, **{name: it for name, it in columns.items() if it is not None})


@pytest.fixture
def folder(execution, tmp_path) -> Path:
    """An evidence folder with predicted numbers, categories, and what was trained on."""
    numbers = {"targets": np.linspace(1.0, 2.0, 2000), "predictions": np.linspace(1.1, 2.1, 2000)}
    slices = {"größe": np.array(["klein"] * 2000)}
    execution.put("baseline", 1, examples={"slices": slices, **numbers})
    execution.train_on("baseline", 1, ["a", "b"], np.array([[1, 2], [3, 4]]))
    return execution.write(tmp_path) / "evidence" / "baseline--1" / "evidence"


def test_optional_columns_are_read_back_as_they_were_written(folder, execution) -> None:
    found, written = read_evidence(folder), execution.record("baseline", 1)
    for name in ("targets", "predictions"):
        assert np.array_equal(getattr(found.examples, name), getattr(written.examples, name))
    assert found.examples.slices["größe"].tolist() == ["klein"] * 2000
    assert np.isin(hashed([np.array([3, 4], np.int32)]), found.trained_on.inputs).all()
    rows = TrainedRows()
    rows.add(range(MOST_HASHES + 9))
    trained_on = rows.trained_on()
    assert trained_on is not None
    assert len(trained_on.ids) == MOST_HASHES


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"predictions": None}, "targets and predictions"),
        ({"slice:größe": np.arange(2000)}, "column slice:größe has type int64"),
        ({"targets": np.array(["1"] * 2000)}, "column targets has type <U1"),
        ({"slice:größe": np.array(["klein"])}, "columns of different lengths"),
        ({"ids": np.arange(2000)}, "column ids has type int64"),
    ],
)
def test_columns_that_cannot_be_used_are_named(folder, changes, expected) -> None:
    changed_columns(folder / "examples.npz", **changes)
    with pytest.raises(EvidenceError, match=expected):
        read_evidence(folder)


def test_code_points_that_do_not_exist_are_no_text(folder) -> None:
    with np.load(folder / "examples.npz") as stored:
        ids = stored["ids"].copy()
    ids.view(np.uint32)[0] = 0xFFFFFFF0
    changed_columns(folder / "examples.npz", ids=ids)
    with pytest.raises(EvidenceError, match="something other than text"):
        read_evidence(folder)


POSITIONS = {"max": 1000, "buckets": 420, "longest": 700}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("padding", "short"),
        ("lengths", [64, 32]),
        ("bucket_lengths", [64, 16]),
        ("histogram_upto", [64, 64]),
        ("histogram_documents", [3, -1]),
        ("tokens", 0),
        ("tokens", 421),
        ("positions", {**POSITIONS, "max": 10**400}),
        ("positions", {**POSITIONS, "max": -1}),
    ],
)
def test_padding_that_no_job_can_have_written_is_refused(execution, tmp_path, key, value) -> None:
    execution.alter("fast", 1, padding=WASTEFUL)
    file = execution.write(tmp_path) / "evidence" / "fast--1" / "evidence" / "evidence.json"
    assert read_evidence(file.parent).evidence.padding == WASTEFUL
    document = json.loads(file.read_text())
    document["padding"][key] = value
    file.write_text(json.dumps(document))
    with pytest.raises(EvidenceError, match=rf"padding: ({key}|tokens)\b"):
        read_evidence(file.parent)


def test_what_all_replicates_were_scored_on_is_in_memory_once(execution, tmp_path) -> None:
    others = np.roll(execution.examples("fast", 2).labels, 1)
    execution.alter("fast", 2, examples__labels=others)
    execution.write(tmp_path)
    records = read_records(tmp_path / "evidence", execution.experiment.replicates)
    first, *rest = (record.examples for record in records.values())
    assert all(examples.ids is first.ids for examples in rest)
    assert records["fast", 1].examples.labels is first.labels
    assert records["fast", 2].examples.labels.tolist() == others.tolist()


# Damage.


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Any:
    """A small execution on disk: all as folders, one of the candidate's jobs as an archive."""
    slices = [{"column": "language", "metric": "accuracy", "watched": True}]
    execution = build_execution(examples=400, accuracy=0.99, slices=slices)
    for arm, seed in execution.records:
        execution.alter(arm, seed, examples__slices={"language": np.array(["de", "en"] * 200)})
        if arm == "fast":
            execution.pair(arm, seed, 1.5)
    folder, packed = (tmp_path_factory.mktemp(name) for name in ("folders", "archives"))
    execution.write(folder)
    execution.write(packed, archives=True)
    shutil.rmtree(folder / "evidence" / "fast--3")
    shutil.copytree(packed / "evidence" / "fast--3", folder / "evidence" / "fast--3")
    return execution, folder


def as_read(execution: Any, folder: Path) -> list[Any]:
    """All that is judged of the candidate's records, as values that can be compared."""
    found: list[Any] = []
    for key, record in read_records(folder / "evidence", execution.experiment.replicates).items():
        if isinstance(record, EvidenceError):
            return [record]
        found += [key, record.evidence, record.as_written]
        parts = (record.examples, record.steps, record.parity, record.paired)
        columns = {name: it for part in parts if part for name, it in vars(part).items()}
        columns.update(columns.pop("slices"))
        found += [(name, it.tolist()) for name, it in columns.items() if it is not None]
    return found


FILES = ("evidence.json", "examples.npz", "steps.npz", "parity.npz", "paired.npz")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from([*(f"fast--2/evidence/{it}" for it in FILES), "fast--3/output.tar.gz"]),
    position=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
    cut=st.booleans(),
)
def test_a_flipped_bit_or_a_cut_fails_or_changes_nothing(written, name, position, bit, cut) -> None:
    execution, folder = written
    file = folder / "evidence" / name
    whole, before = file.read_bytes(), as_read(execution, folder)
    damaged = bytearray(whole)
    damaged[int(position * len(damaged))] ^= 1 << bit
    try:
        file.write_bytes(damaged[: int(position * len(damaged))] if cut else damaged)
        verdict, after = reported(execution, folder), as_read(execution, folder)
    finally:
        file.write_bytes(whole)
    assert after == before or verdict.candidates[0].outcome is Outcome.FAIL
    assert verdict.baseline.sound


def places(document: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Where values stand in a document."""
    for key, value in document.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from places(value, *path, key)


odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=20),
    st.just("\ud800"),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(data=st.data(), value=odd_values, as_written=st.booleans())
def test_no_value_in_evidence_json_crashes_the_gate_or_is_changed_unseen(
    written, data, value, as_written
) -> None:
    """Neither one that was changed later, nor one that the job itself wrote."""
    execution, folder = written
    file = folder / "evidence" / "fast--2" / "evidence" / "evidence.json"
    whole = file.read_text()
    document = json.loads(whole)
    path = data.draw(st.sampled_from(list(places(document))))
    place = document
    for key in path[:-1]:
        place = place[key]
    before, place[path[-1]] = place[path[-1]], value
    if as_written:
        document[OWN_DIGEST] = document_digest(document)
    try:
        file.write_text(json.dumps(document))
        verdict = reported(execution, folder)
    finally:
        file.write_text(whole)
    same = value == before and type(value) is type(before)
    if not same and (not as_written or path[0] in ("arm", "seed", "schema_version")):
        assert verdict.candidates[0].outcome is Outcome.FAIL
    assert verdict.baseline.sound
