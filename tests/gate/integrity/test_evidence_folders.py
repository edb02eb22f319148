"""Reading evidence from folders and archives that may come from anywhere."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from compilegate.evidence import read_records, read_replicate
from compilegate.job.evidence import EvidenceError, EvidenceRecord


def add(archive: tarfile.TarFile, member: tarfile.TarInfo, content: bytes = b"") -> None:
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def archive_with(path: Path, *members: tuple[str, bytes]) -> None:
    """An archive with the given types of members, each named as given."""
    with tarfile.open(path, "w:gz") as archive:
        for name, kind in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            member.linkname = "/etc/passwd"
            add(archive, member, b"x" if kind == tarfile.REGTYPE else b"")


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
def test_an_archive_cannot_write_outside_its_folder(tmp_path, name, kind, told):
    replicate = tmp_path / "fast--1"
    replicate.mkdir()
    archive_with(replicate / "output.tar.gz", (name, kind))
    with pytest.raises(EvidenceError, match=told):
        read_replicate(replicate)
    assert [file.name for file in tmp_path.rglob("*")] == ["fast--1", "output.tar.gz"]


def test_what_is_not_evidence_in_an_archive_is_left_alone(execution, tmp_path):
    execution.write(tmp_path, archives=True)
    path = tmp_path / "evidence" / "fast--1" / "output.tar.gz"
    with tarfile.open(path) as stored:
        files = {member.name: stored.extractfile(member) for member in stored if member.isfile()}
        contents = {name: file.read() for name, file in files.items() if file}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {**contents, "checkpoints/last.pt": b"weights"}.items():
            add(archive, tarfile.TarInfo(f"./{name}"), content)
    record = read_replicate(path.parent)
    assert isinstance(record, EvidenceRecord)
    assert record.evidence.arm == "fast"


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("compilegate.evidence.folders.MOST_UNPACKED_BYTES", 10_000)
    with tarfile.open(tmp_path / "output.tar.gz", "w:gz") as archive:
        add(archive, tarfile.TarInfo("evidence/steps.npz"), b"\0" * 20_000)
    with pytest.raises(EvidenceError, match="larger than 10000 bytes"):
        read_replicate(tmp_path)


@pytest.mark.parametrize("named", ["evidence/steps.npz", "checkpoints/last.pt"])
def test_an_archive_s_times_and_owners_are_not_taken_over(execution, tmp_path, named):
    """A time that no system has would end the gate."""
    execution.write(tmp_path, archives=True)
    path = tmp_path / "evidence" / "fast--1" / "output.tar.gz"
    with tarfile.open(path) as stored:
        contents = {member.name: stored.extractfile(member) for member in stored if member.isfile()}
        files = {name: file.read() for name, file in contents.items()}
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in {**files, "checkpoints/last.pt": b"weights"}.items():
            member = tarfile.TarInfo(name)
            member.pax_headers = {"mtime": "1e300"} if name == named else {}
            add(archive, member, content)
    assert read_replicate(path.parent).evidence.arm == "fast"


def npz(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def zeros(count: int) -> bytes:
    column = io.BytesIO()
    np.save(column, np.zeros(count))
    return column.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda file: (file.unlink(), os.mkfifo(file)), "steps.npz is not a plain file"),
        (lambda file: (file.unlink(), file.symlink_to("/dev/zero")), "steps.npz is not a plain"),
        (lambda file: (file.unlink(), file.mkdir()), "steps.npz is not a plain file"),
        (lambda file: (file.unlink(), file.symlink_to(file)), "steps.npz cannot be read"),
        (lambda file: file.write_bytes(b"\x80"), "steps.npz cannot be read: File is not a zip"),
        (lambda file: npz(file, loss=b"x", seconds=b"y"), "column loss is not an array"),
        (
            lambda file: npz(file, **{"loss.npy": zeros(9999), "seconds.npy": zeros(9999)}),
            "steps.npz unpacks to more than 100000 bytes",
        ),
    ],
)
def test_what_stands_in_the_place_of_a_file_is_told(execution, tmp_path, monkeypatch, damage, told):
    """A pipe or a device would be read for ever, and a small file may unpack to a huge one."""
    monkeypatch.setattr("compilegate.evidence.columns.MOST_COLUMN_BYTES", 100_000)
    execution.write(tmp_path)
    replicate = tmp_path / "evidence" / "fast--1"
    damage(replicate / "evidence" / "steps.npz")
    with pytest.raises(EvidenceError, match=told):
        read_replicate(replicate)


def test_code_points_that_do_not_exist_are_no_text(execution, tmp_path):
    execution.write(tmp_path)
    replicate = tmp_path / "evidence" / "fast--1"
    with np.load(replicate / "evidence" / "parity.npz") as stored:
        columns = {name: stored[name] for name in stored.files}
    columns["tensors"].view(np.uint32)[0] = 0xFFFFFFF0
    np.savez(replicate / "evidence" / "parity.npz", **columns)
    with pytest.raises(EvidenceError, match="column tensors holds something other than text"):
        read_replicate(replicate)


def test_a_seed_that_was_trained_and_is_not_declared_is_told(execution, tmp_path):
    """Else one could train ten and declare the three that suit."""
    execution.write(tmp_path, archives=True)
    evidence = tmp_path / "evidence"
    shutil.copytree(evidence / "fast--1", evidence / "more" / "fast--04")
    shutil.copytree(evidence / "fast--1", evidence / "more" / "other--4")
    assert set(read_records(evidence, execution.experiment.replicates)) == set(execution.records)
    shutil.copytree(evidence / "fast--1", evidence / "more" / "fast--4")
    error = read_records(evidence, execution.experiment.replicates)["fast", 4]
    assert str(error).startswith("fast--4 is there, and the experiment does not declare that seed")


@pytest.mark.parametrize(
    ("limit", "value", "told"),
    [
        ("MOST_MEMBERS", 2, "more than 2 members"),
        ("MOST_ARCHIVE_BYTES", 5_000, "unpacks to more than 5000 bytes"),
        ("MOST_ARCHIVE_BYTES", 60_000, "unpacks to more than 60000 bytes"),
    ],
)
def test_an_archive_that_is_never_read_to_its_end_is_refused(
    tmp_path, monkeypatch, limit, value, told
):
    """Of many members, of a large one beside the evidence, or with much after its end."""
    monkeypatch.setattr(f"compilegate.evidence.folders.{limit}", value)
    with gzip.open(tmp_path / "output.tar.gz", "wb") as stream:
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name in ("evidence/a", "evidence/b", "checkpoint"):
                add(archive, tarfile.TarInfo(name), b"\0" * 4_000)
        stream.write(b"\0" * 2_000_000)
    with pytest.raises(EvidenceError, match=told):
        read_replicate(tmp_path)


def test_gathered_evidence_lies_one_level_deeper(execution, tmp_path):
    execution.write(tmp_path, archives=True)
    evidence = tmp_path / "evidence"
    gathered = sorted(evidence.iterdir())
    for number, folder in enumerate(gathered):
        (evidence / str(number)).mkdir()
        folder.rename(evidence / str(number) / folder.name)
    records = read_records(evidence, execution.experiment.replicates)
    assert all(isinstance(record, EvidenceRecord) for record in records.values())
    assert len(records) == len(gathered)


def test_evidence_that_is_there_twice_is_not_read(execution, tmp_path):
    execution.write(tmp_path, archives=True)
    evidence = tmp_path / "evidence"
    shutil.copytree(evidence / "fast--1", evidence / "again" / "fast--1")
    error = read_records(evidence, execution.experiment.replicates)["fast", 1]
    assert isinstance(error, EvidenceError)
    assert str(error) == "the evidence is there more than once: fast--1 and again/fast--1"
    (evidence / "fast--2" / "evidence").mkdir()
    with pytest.raises(EvidenceError, match=r"fast--2 holds evidence/ and output\.tar\.gz"):
        read_replicate(evidence / "fast--2")


def test_what_all_replicates_were_scored_on_is_in_memory_once(execution, tmp_path):
    others = np.roll(execution.record("fast", 2).examples.labels, 1)
    execution.change_examples("fast", 2, labels=others)
    execution.write(tmp_path)
    records = read_records(tmp_path / "evidence", execution.experiment.replicates)
    first, *rest = (record.examples for record in records.values())
    assert all(examples.ids is first.ids for examples in rest)
    assert records["fast", 1].examples.labels is first.labels
    assert records["fast", 2].examples.labels.tolist() == others.tolist()
