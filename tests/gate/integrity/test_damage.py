"""Damage to the files themselves: whatever is read, nothing crashes and nothing passes unseen."""

from __future__ import annotations

import gzip
import io
import json
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compilegate.evidence import read_evidence, read_records
from compilegate.gate.judge import judge
from compilegate.gate.observations import Observations, observe
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import EvidenceError, EvidenceRecord
from compilegate.job.evidence.digests import OWN_DIGEST, document_digest
from compilegate.report import render_html, render_junit, render_markdown

pytestmark = pytest.mark.slow

damage_settings = settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module")
def small_evidence(tmp_path_factory, new_execution):
    """A small execution on disk, as archives."""
    execution = new_execution(examples=120, accuracy=0.99)
    return execution, execution.write(tmp_path_factory.mktemp("archives"), archives=True)


@pytest.fixture(scope="module")
def unpacked_evidence(tmp_path_factory, new_execution):
    """The same, unpacked, with a column of categories."""
    slices = [{"column": "language", "metric": "accuracy", "watched": True}]
    execution = new_execution(examples=120, accuracy=0.99, slices=slices)
    for arm, seed in execution.records:
        execution.change_examples(arm, seed, slices={"language": np.array(["de", "en"] * 60)})
        if arm == "fast":
            execution.pair(arm, seed, 1.5)
    return execution, execution.write(tmp_path_factory.mktemp("unpacked"))


def judged_and_reported(execution, folder: Path) -> Verdict:
    """What the job does, in this process; anything that is raised fails the test."""
    records = read_records(folder / "evidence", execution.experiment.replicates)
    verdict = judge(execution.experiment, records)
    observations = observe(execution.experiment, records)
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert Observations.from_json(observations.to_json()) == observations
    render_html(verdict, observations).encode()
    render_markdown(verdict, observations).encode()
    ET.fromstring(render_junit(verdict).encode())  # noqa: S314 - written here
    return verdict


@pytest.mark.slow
@damage_settings
@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_in_an_archive_fails_or_changes_nothing(small_evidence, position, bit):
    execution, folder = small_evidence
    path = folder / "evidence" / "fast--2" / "output.tar.gz"
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[int(position * len(damaged))] ^= 1 << bit
    try:
        path.write_bytes(damaged)
        verdict = judged_and_reported(execution, folder)
        try:
            untouched = gzip.decompress(damaged) == gzip.decompress(whole)
        except (OSError, EOFError, zlib.error):  # damage that gzip notices
            untouched = False
    finally:
        path.write_bytes(whole)
    assert untouched or verdict.candidates[0].outcome is Outcome.FAIL


@pytest.mark.slow
@damage_settings
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_archive_fails(small_evidence, share):
    execution, folder = small_evidence
    path = folder / "evidence" / "fast--2" / "output.tar.gz"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[: int(share * len(whole))])
        verdict = judged_and_reported(execution, folder)
    finally:
        path.write_bytes(whole)
    assert verdict.candidates[0].outcome is Outcome.FAIL
    assert verdict.candidates[0].reasons[0].code is Code.EVIDENCE_TRUNCATED


DECISIVE = [
    ("schema_version",),
    ("job",),
    ("arm",),
    ("seed",),
    ("recipe", "batch_size"),
    ("recipe", "learning_rate"),
    ("recipe", "precision"),
    ("recipe", "steps"),
    ("recipe", "epochs"),
    ("compiler", "name"),
    ("compiler", "ran"),
    ("compiler", "recompilations"),
    ("metrics", "accuracy"),
    ("metrics", "log_loss"),
    ("environment", "torch"),
    ("digests", "data"),
    ("digests", "model"),
    ("digests", "examples"),
    ("digests", "outputs"),
    ("digests", "steps"),
    ("digests", "parity"),
    ("parity", "precision"),
    ("parity", "steps"),
    ("origin",),
]
"""Keys of evidence.json in which no other value may stand, even if the job wrote it."""
INDIFFERENT = [
    ("compiler", "compile_seconds"),
    ("compiler", "graphs"),
    ("compiler", "graph_breaks"),
    ("compiler", "proof"),
    ("compiler", "options"),
    ("speed", "samples_per_second"),
    ("speed", "steady_from"),
    ("speed", "train_seconds"),
    ("speed", "total_seconds"),
    ("peak_memory_bytes",),
    ("memory_of",),
    ("notes",),
    ("padding",),
    ("paired_speed",),
    ("paired_speed", "seconds"),
    ("paired_speed", "steps_per_block"),
    ("paired_speed", "candidate_batch_size"),
    ("paired_speed", "baseline_compiler"),
    ("parity", "repro"),
    ("parity", "departs"),
    ("failure",),
    ("parity",),
    ("compile_cache",),
    ("compile_cache", "state"),
    ("compile_cache", "hits"),
    ("compile_cache", "cold_compile_seconds"),
    ("parity", "seconds"),
    ("parity", "obstacle"),
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


def replace_value(document, path, value):
    for key in path[:-1]:
        document = document[key]
    before, document[path[-1]] = document[path[-1]], value
    return before


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(path=st.sampled_from(DECISIVE + INDIFFERENT), value=odd_values, as_written=st.booleans())
def test_no_value_in_evidence_json_crashes_the_gate_or_passes_unseen(
    unpacked_evidence, path, value, as_written
):
    """Neither one that was changed later, nor one that the job itself wrote."""
    execution, folder = unpacked_evidence
    file = folder / "evidence" / "fast--2" / "evidence" / "evidence.json"
    whole = file.read_text()
    document = json.loads(whole)
    before = replace_value(document, path, value)
    if as_written:
        document[OWN_DIGEST] = document_digest(document)
    try:
        file.write_text(json.dumps(document))
        records = read_records(folder / "evidence", execution.experiment.replicates)
        verdict = judged_and_reported(execution, folder)
        bound = judge(execution.experiment, records, execution.jobs())
    finally:
        file.write_text(whole)
    if value != before and (path in DECISIVE or not as_written):
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
    match amount % 5:
        case 0:
            columns = {
                key: np.delete(column, min(row, len(column) - 1), axis=0)
                for key, column in columns.items()
            }
        case 1:
            columns[name] = np.concatenate([changed[:row], changed[row + 1 :]])
        case 2:
            columns[name] = (
                changed.astype("datetime64[s]")
                if changed.dtype.kind == "i"
                else (
                    np.array(["text"] * len(changed))
                    if changed.dtype.kind == "f"
                    else np.arange(len(changed))
                )
            )
        case 3:
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
@example(name="examples.npz", damage=change_column, position=0.5, amount=4)
@example(name="examples.npz", damage=change_column, position=0.5, amount=9)
def test_a_single_corruption_of_a_file_never_passes(
    unpacked_evidence, name, damage, position, amount
):
    """Of the scalars, the examples, with slices, the steps, the parity errors and the pairs of
    blocks: whatever is changed, the candidate fails or nothing changed."""
    execution, folder = unpacked_evidence
    file = folder / "evidence" / "fast--2" / "evidence" / name
    whole = file.read_bytes()
    before = read_evidence(file.parent)
    try:
        file.write_bytes(damage(file, position, amount))
        verdict = judged_and_reported(execution, folder)
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


def columns_of(record: EvidenceRecord) -> dict[str, list]:
    """All columns of a record that has slices, as values that can be compared."""
    parts = (record.examples, record.steps, record.parity, record.paired)
    columns = {name: column for part in parts for name, column in vars(part).items()}
    columns.update(columns.pop("slices"))
    return {name: column.tolist() for name, column in columns.items() if column is not None}


@pytest.mark.parametrize("column", ["ids", "labels", "scores", "losses"])
def test_a_column_of_the_wrong_type_fails(execution, tmp_path, column):
    execution.write(tmp_path)
    file = tmp_path / "evidence" / "fast--3" / "evidence" / "examples.npz"
    with np.load(file) as stored:
        columns = {name: stored[name] for name in stored.files}
    columns[column] = np.array(["x"] * 2000) if column != "ids" else np.arange(2000)
    np.savez_compressed(file, **columns)
    verdict = judged_and_reported(execution, tmp_path)
    assert verdict.candidates[0].reasons[0].code is Code.EVIDENCE_UNREADABLE


def test_a_dropped_row_fails(execution, tmp_path):
    execution.write(tmp_path)
    file = tmp_path / "evidence" / "fast--3" / "evidence" / "examples.npz"
    with np.load(file) as stored:
        columns = {name: stored[name][1:] for name in stored.files}
    np.savez_compressed(file, **columns)
    verdict = judged_and_reported(execution, tmp_path)
    assert verdict.candidates[0].outcome is Outcome.FAIL


def test_a_pickle_is_never_loaded(execution, tmp_path):
    execution.write(tmp_path)
    file = tmp_path / "evidence" / "fast--3" / "evidence" / "steps.npz"
    np.savez(file, loss=np.array([print], dtype=object), seconds=np.ones(1))
    verdict = judged_and_reported(execution, tmp_path)
    assert verdict.candidates[0].reasons[0].code is Code.EVIDENCE_UNREADABLE
