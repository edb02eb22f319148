"""Evidence read back from folders and archives that may come from anywhere, damaged or not.

Whatever is read, nothing crashes, nothing escapes its folder, and no damage passes unseen.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
import shutil
import tarfile
import xml.etree.ElementTree as ET
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compilegate.gate.evidence import read_evidence, read_records, read_replicate
from compilegate.gate.findings import Code, Outcome
from compilegate.gate.judge import judge
from compilegate.gate.observations import Observations, observe
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import (
    EvidenceError,
    EvidenceRecord,
    Examples,
    examples_digest,
    write_evidence,
)
from compilegate.job.evidence.digests import OWN_DIGEST, document_digest
from compilegate.job.evidence.trained_on import MOST_HASHES, hashed, trained_on
from compilegate.report import render_html, render_junit, render_markdown

damage_settings = settings(max_examples=40, deadline=None)


def read_and_judged(execution: Any, folder: Path) -> Verdict:
    records = read_records(folder / "evidence", execution.experiment.replicates)
    return judge(execution.experiment, records)


def reported(execution: Any, folder: Path) -> Verdict:
    """What the job does, in this process; anything that is raised fails the test."""
    records = read_records(folder / "evidence", execution.experiment.replicates)
    verdict, observed = judge(execution.experiment, records), observe(execution.experiment, records)
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert Observations.from_json(observed.to_json()) == observed
    render_html(verdict, observed).encode()
    render_markdown(verdict, observed).encode()
    ET.fromstring(render_junit(verdict).encode())  # noqa: S314 - written here
    return verdict


# Archives and folders.


def add(archive: tarfile.TarFile, name: str, content: bytes = b"", **fields: Any) -> None:
    member = tarfile.TarInfo(name)
    vars_ = {"size": len(content), **fields}
    for key, value in vars_.items():
        setattr(member, key, value)
    archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("evidence/../../escaped", tarfile.REGTYPE, "not a plain file"),
        ("evidence/steps.npz", tarfile.SYMTYPE, "not a plain file"),
        ("evidence/steps.npz", tarfile.LNKTYPE, "not a plain file"),
        ("evidence/steps.npz", tarfile.CHRTYPE, "not a plain file"),
        ("/evidence/evidence.json", tarfile.REGTYPE, "holds no evidence/ folder"),
        ("../evidence/evidence.json", tarfile.REGTYPE, "holds no evidence/ folder"),
    ],
)
def test_an_archive_cannot_write_outside_its_folder(tmp_path, name, kind, told) -> None:
    replicate = tmp_path / "fast--1"
    replicate.mkdir()
    with tarfile.open(replicate / "output.tar.gz", "w:gz") as archive:
        content = b"x" if kind == tarfile.REGTYPE else b""
        add(archive, name, content, type=kind, linkname="/etc/passwd")
    with pytest.raises(EvidenceError, match=told):
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


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("MOST_MEMBERS", 2),
        ("MOST_ARCHIVE_BYTES", 5_000),
        ("MOST_ARCHIVE_BYTES", 60_000),
        ("MOST_UNPACKED_BYTES", 5_000),
    ],
)
def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path, monkeypatch, limit, value
) -> None:
    """Of many members, of a large one beside the evidence, or with much after its end."""
    monkeypatch.setattr(f"compilegate.gate.evidence.{limit}", value)
    with gzip.open(tmp_path / "output.tar.gz", "wb") as stream:
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name in ("evidence/a", "evidence/b", "checkpoint"):
                add(archive, name, b"\0" * 4_000)
        stream.write(b"\0" * 2_000_000)
    with pytest.raises(EvidenceError, match=f"more than {value} "):
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
    """Of this experiment's arms, and of names as they are written."""
    execution.write(tmp_path, archives=True)
    evidence = tmp_path / "evidence"
    for name in ("fast--04", "other--4"):
        shutil.copytree(evidence / "fast--1", evidence / "more" / name)
    assert set(read_records(evidence, execution.experiment.replicates)) == set(execution.records)
    shutil.copytree(evidence / "fast--1", evidence / "more" / "fast--4")
    (candidate,) = read_and_judged(execution, tmp_path).candidates
    assert candidate.outcome is Outcome.PASS
    assert Code.EVIDENCE_UNDECLARED in {it.code for it in candidate.notes}


def npz(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def zeros(count: int) -> bytes:
    column = io.BytesIO()
    np.save(column, np.zeros(count))
    return column.getvalue()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda file: (file.unlink(), os.mkfifo(file)), "is not a plain file"),
        (lambda file: (file.unlink(), file.symlink_to("/dev/zero")), "is not a plain file"),
        (lambda file: (file.unlink(), file.mkdir()), "is not a plain file"),
        (lambda file: (file.unlink(), file.symlink_to(file)), "cannot be read"),
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_bytes(b"\x80"), "cannot be read"),
        (lambda file: npz(file, loss=b"x", seconds=b"y"), "column loss is not an array"),
        (
            lambda file: npz(file, **{"loss.npy": zeros(9999), "seconds.npy": zeros(9999)}),
            "unpacks to more than 100000 bytes",
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
def test_what_stands_in_the_place_of_a_file_is_told(
    execution, tmp_path, monkeypatch, damage, told
) -> None:
    """A pipe or a device would be read for ever, and a small file may unpack to a huge one."""
    monkeypatch.setattr("compilegate.gate.evidence.MOST_COLUMN_BYTES", 100_000)
    execution.write(tmp_path)
    replicate = tmp_path / "evidence" / "fast--1"
    damage(replicate / "evidence" / "steps.npz")
    with pytest.raises(EvidenceError, match=rf"steps\.npz.*{told}"):
        read_replicate(replicate)


# Columns and keys.


def numbers() -> Examples:
    return Examples(
        ids=np.arange(5).astype(str),
        labels=np.zeros(5, dtype=np.int64),
        scores=np.empty((5, 0)),
        losses=np.linspace(0.0, 1.0, 5),
        targets=np.linspace(1.0, 2.0, 5),
        predictions=np.linspace(1.1, 2.1, 5),
        slices={"region": np.array(["north"] * 5), "größe": np.array(["klein"] * 5)},
    )


@pytest.fixture
def folder(execution, tmp_path) -> Path:
    """An evidence folder with examples of predicted numbers."""
    record = execution.record("baseline", 1)
    return write_evidence(tmp_path, record.evidence, record.steps, numbers())


def changed_columns(file: Path, **changes: Any) -> None:
    with np.load(file) as stored:
        columns = {**{name: stored[name] for name in stored.files}, **changes}
    np.savez_compressed(file, **{name: it for name, it in columns.items() if it is not None})


def test_optional_columns_are_read_back_as_they_were_written(folder, execution, tmp_path) -> None:
    found = read_evidence(folder).examples
    for name in ("targets", "predictions"):
        assert np.array_equal(getattr(found, name), getattr(numbers(), name))
    assert {name: it.tolist() for name, it in found.slices.items()} == {
        "region": ["north"] * 5,
        "größe": ["klein"] * 5,
    }
    for key in list(execution.records):
        execution.train_on(*key, ["a", "b"], np.array([[1, 2], [3, 4]]))
    (tmp_path / "more").mkdir()
    execution.write(tmp_path / "more")
    records = read_records(tmp_path / "more" / "evidence", execution.experiment.replicates)
    seen = records["fast", 1].trained_on
    assert np.isin(hashed([np.array([3, 4], np.int32)]), seen.inputs).all()
    assert len(trained_on(range(MOST_HASHES + 9)).ids) == MOST_HASHES


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"predictions": None}, "targets and predictions"),
        ({"slice:region": np.arange(5)}, "column slice:region has type int64"),
        ({"targets": np.array(["1"] * 5)}, "column targets has type <U1"),
        ({"slice:region": np.array(["north"])}, "columns of different lengths"),
        ({"ids": np.arange(5)}, "column ids has type int64"),
    ],
)
def test_columns_that_cannot_be_used_are_told_by_name(folder, changes, told) -> None:
    changed_columns(folder / "examples.npz", **changes)
    with pytest.raises(EvidenceError, match=told):
        read_evidence(folder)


def test_the_digest_covers_the_targets() -> None:
    changed = dataclasses.replace(numbers(), targets=numbers().targets + 1e-9)
    without = dataclasses.replace(numbers(), targets=None, predictions=None)
    assert len({examples_digest(it) for it in (numbers(), changed, without)}) == 3


def test_code_points_that_do_not_exist_are_no_text(execution, tmp_path) -> None:
    execution.write(tmp_path)
    file = tmp_path / "evidence" / "fast--1" / "evidence" / "parity.npz"
    with np.load(file) as stored:
        tensors = stored["tensors"].copy()
    tensors.view(np.uint32)[0] = 0xFFFFFFF0
    changed_columns(file, tensors=tensors)
    with pytest.raises(EvidenceError, match="something other than text"):
        read_replicate(file.parents[1])


def test_evidence_from_before_later_keys_is_read_and_passes(execution, tmp_path) -> None:
    execution.write(tmp_path)
    for file in tmp_path.glob("evidence/*/evidence/evidence.json"):
        document = json.loads(file.read_text())
        for key in ("ending", "attempts", "memory_of", "padding", "hindrances", "printed"):
            del document[key]
        for key in ("checkup", "notes", "checkpoints", "paired_speed", "origin"):
            del document[key]
        document[OWN_DIGEST] = document_digest(document)
        file.write_text(json.dumps(document))
    (candidate,) = read_and_judged(execution, tmp_path).candidates
    assert candidate.outcome is Outcome.PASS


def test_what_all_replicates_were_scored_on_is_in_memory_once(execution, tmp_path) -> None:
    others = np.roll(execution.examples("fast", 2).labels, 1)
    execution.change_examples("fast", 2, labels=others)
    execution.write(tmp_path)
    records = read_records(tmp_path / "evidence", execution.experiment.replicates)
    first, *rest = (record.examples for record in records.values())
    assert all(examples.ids is first.ids for examples in rest)
    assert records["fast", 1].examples.labels is first.labels
    assert records["fast", 2].examples.labels.tolist() == others.tolist()


# Damage.


@pytest.fixture(scope="module")
def archived(tmp_path_factory, new_execution) -> Any:
    """A small execution on disk, as archives."""
    execution = new_execution(examples=400, accuracy=0.99)
    return execution, execution.write(tmp_path_factory.mktemp("archives"), archives=True)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory, new_execution) -> Any:
    """The same, unpacked, with a column of categories and pairs."""
    slices = [{"column": "language", "metric": "accuracy", "watched": True}]
    execution = new_execution(examples=400, accuracy=0.99, slices=slices)
    for arm, seed in execution.records:
        execution.change_examples(arm, seed, slices={"language": np.array(["de", "en"] * 200)})
        if arm == "fast":
            execution.pair(arm, seed, 1.5)
    return execution, execution.write(tmp_path_factory.mktemp("unpacked"))


@pytest.mark.slow
@damage_settings
@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
def test_a_flipped_bit_or_a_cut_in_an_archive_fails_or_changes_nothing(
    archived, position, bit, cut
) -> None:
    execution, folder = archived
    path = folder / "evidence" / "fast--2" / "output.tar.gz"
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[int(position * len(damaged))] ^= 1 << bit
    if cut:
        damaged = damaged[: int(position * len(damaged))]
    try:
        path.write_bytes(damaged)
        verdict = reported(execution, folder)
        try:
            untouched = gzip.decompress(damaged) == gzip.decompress(whole)
        except (OSError, EOFError, zlib.error):  # damage that gzip notices
            untouched = False
    finally:
        path.write_bytes(whole)
    assert untouched or verdict.candidates[0].outcome is Outcome.FAIL
    if cut:
        assert verdict.candidates[0].reasons[0].code is Code.EVIDENCE_UNREADABLE


DECISIVE = [
    *(("schema_version",), ("job",), ("arm",), ("seed",), ("origin",), ("compiler", "name")),
    *(("recipe", it) for it in ("batch_size", "learning_rate", "precision", "steps", "epochs")),
    *(("digests", it) for it in ("data", "model", "examples", "outputs", "steps", "parity")),
    *(("compiler", "ran"), ("environment", "torch"), ("parity", "steps")),
]
"""Keys of evidence.json in which no other value may stand, even if the job wrote it."""
INDIFFERENT = [
    *(("metrics", "accuracy"), ("peak_memory_bytes",), ("memory_of",), ("notes",), ("padding",)),
    *(("compiler", it) for it in ("compile_seconds", "graphs", "graph_breaks", "proof")),
    *(("compiler", it) for it in ("options", "recompilations")),
    *(("speed", it) for it in ("samples_per_second", "steady_from", "train_seconds")),
    *(("paired_speed", it) for it in ("seconds", "steps_per_block", "candidate_batch_size")),
    *(("parity", it) for it in ("precision", "repro", "departs", "seconds", "obstacle")),
    *(("compile_cache", it) for it in ("state", "hits", "cold_compile_seconds")),
    *(("paired_speed",), ("failure",), ("parity",), ("compile_cache",), ("speed", "total_seconds")),
]
"""Keys whose other values may be honest, if the job wrote them."""
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
@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(DECISIVE + INDIFFERENT), value=odd_values, as_written=st.booleans())
def test_no_value_in_evidence_json_crashes_the_gate_or_passes_unseen(
    unpacked, path, value, as_written
) -> None:
    """Neither one that was changed later, nor one that the job itself wrote."""
    execution, folder = unpacked
    file = folder / "evidence" / "fast--2" / "evidence" / "evidence.json"
    whole = file.read_text()
    document = json.loads(whole)
    place = document
    for key in path[:-1]:
        place = place[key]
    before, place[path[-1]] = place[path[-1]], value
    if as_written:
        document[OWN_DIGEST] = document_digest(document)
    try:
        file.write_text(json.dumps(document))
        records = read_records(folder / "evidence", execution.experiment.replicates)
        verdict = reported(execution, folder)
        bound = judge(execution.experiment, records, execution.jobs())
    finally:
        file.write_text(whole)
    # A recipe key of one seed alone may be the program's own, and no difference of the arms.
    decisive = path in DECISIVE and path != ("recipe", "epochs")
    if value != before and (decisive or not as_written):
        assert bound.candidates[0].outcome is Outcome.FAIL
    assert verdict.baseline.sound


def flip_a_bit(file: Path, position: float, amount: int) -> bytes:
    content = bytearray(file.read_bytes())
    content[int(position * len(content))] ^= 1 << (amount % 8)
    return bytes(content)


def truncate(file: Path, position: float, _amount: int) -> bytes:
    return file.read_bytes()[: int(position * file.stat().st_size)]


def change_column(file: Path, position: float, amount: int) -> bytes:
    """One change to the rows of a readable file: the archive stays whole."""
    if file.suffix == ".json":
        return flip_a_bit(file, position, amount)
    with np.load(file) as stored:
        columns = {name: stored[name] for name in stored.files}
    name = sorted(columns)[amount % len(columns)]
    row = int(position * len(columns[name]))
    changed = columns[name].copy()
    match amount % 4:
        case 0:
            columns = {
                key: np.delete(column, min(row, len(column) - 1), axis=0)
                for key, column in columns.items()
            }
        case 1:
            columns[name] = np.concatenate([changed[:row], changed[row + 1 :]])
        case 2:
            shuffled = "ids" if "ids" in columns else name
            columns[shuffled] = np.roll(columns[shuffled], 1 + row % 7, axis=0)
        case _:
            values = {"f": [np.nan, np.inf, 1e300, -1.0], "i": [-1, 2**62], "U": ["other"]}
            values["b"] = [True, False]
            changed[row] = values[changed.dtype.kind][amount % len(values[changed.dtype.kind])]
            columns[name] = changed
    packed = io.BytesIO()
    np.savez_compressed(packed, **columns)
    return packed.getvalue()


FILES = ("evidence.json", "examples.npz", "steps.npz", "parity.npz", "paired.npz")


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(FILES),
    damage=st.sampled_from([flip_a_bit, truncate, change_column]),
    position=st.floats(0, 1, exclude_max=True),
    amount=st.integers(0, 1000),
)
@example(name="examples.npz", damage=change_column, position=0.5, amount=3)
@example(name="examples.npz", damage=change_column, position=0.5, amount=7)
def test_a_single_corruption_of_a_file_never_passes(
    unpacked, name, damage, position, amount
) -> None:
    execution, folder = unpacked
    file = folder / "evidence" / "fast--2" / "evidence" / name
    whole = file.read_bytes()
    before = read_evidence(file.parent)
    try:
        file.write_bytes(damage(file, position, amount))
        verdict = reported(execution, folder)
        try:
            after = read_evidence(file.parent)
        except EvidenceError:
            after = None
    finally:
        file.write_bytes(whole)
    untouched = (
        after is not None
        and after.as_written
        and after.evidence == before.evidence
        and columns_of(after) == columns_of(before)
    )
    assert untouched or verdict.candidates[0].outcome is Outcome.FAIL
    assert verdict.baseline.sound


def columns_of(record: EvidenceRecord) -> dict[str, list[Any]]:
    """All columns of a record that has slices, as values that can be compared."""
    parts = (record.examples, record.steps, record.parity, record.paired)
    columns = {name: column for part in parts for name, column in vars(part).items()}
    columns.update(columns.pop("slices"))
    return {name: column.tolist() for name, column in columns.items() if column is not None}
