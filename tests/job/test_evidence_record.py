"""The evidence record: what is written is read back, and damage is always told as EvidenceError."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import (
    CheckpointRecord,
    CompileCacheRecord,
    CompilerRecord,
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Examples,
    PaddedPositions,
    PaddingRecord,
    PairedBlocks,
    PairedSpeedRecord,
    ParityErrors,
    ParityRecord,
    Resumption,
    SpeedRecord,
    Steps,
    column_digests,
    examples_digest,
    write_evidence,
)

EXAMPLES = Examples(
    ids=np.array(["a", "b", "c"]),
    labels=np.array([0, 1, 1], dtype=np.int64),
    scores=np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]),
    losses=np.array([0.105, 0.223, 0.916]),
)
PARITY = ParityErrors(
    tensors=np.array(["loss", "logits", "gradient of classifier.weight"]),
    eager=np.array([[1e-8, 2e-7, 3e-7], [2e-8, 1e-7, 4e-7]]),
    repeated=np.zeros((2, 3)),
    compiled=np.array([[1e-8, 3e-7, 3e-7], [3e-8, 2e-7, np.inf]]),
)
PAIRED = PairedBlocks(
    baseline_seconds=np.array([0.012, 0.011, 0.013]),
    candidate_seconds=np.array([0.008, 0.007, 0.009]),
    baseline_first=np.array([True, False, False]),
)
STEPS = Steps(loss=np.array([0.7, 0.6]), seconds=np.array([0.5, 0.01]))
EVIDENCE = Evidence(
    job="job-1",
    arm="compiler-only",
    seed=7,
    recipe={"batch_size": 32, "learning_rate": 1e-3, "precision": "fp32"},
    compiler=CompilerRecord(name="inductor", ran=True, proof={"graph_calls": 2}, graphs=1),
    speed=SpeedRecord(
        samples_per_second=3200.0, steady_from=1, train_seconds=0.51, total_seconds=4.0
    ),
    metrics={"accuracy": 0.67, "log_loss": 0.41},
    peak_memory_bytes=123,
    memory_of="process",
    environment={"torch": "2.13.0", "gpu": None},
    digests={"model": "0" * 64, **column_digests(STEPS, EXAMPLES, PARITY, PAIRED)},
    parity=ParityRecord(
        precision="fp32",
        steps=2,
        seconds=0.2,
        repro="repro/loss",
        departs="layers.0 departs first.",
    ),
    paired_speed=PairedSpeedRecord(1.5, "eager", 32, 64, steps_per_block=20),
    padding=PaddingRecord(
        *("buckets", (64, 128), (64, 128), 1_900, PaddedPositions(3_840, 2_560, 2_400)),
        *((64, 128), (20, 10)),
    ),
    notes=("The loader is slow: give it two workers.",),
    compile_cache=CompileCacheRecord("warm", "All were there.", "ab" * 32, 2, 0, 900, 0, 0.1, 25.0),
    checkpoints=CheckpointRecord(
        written=1, seconds=0.1, ignored=None, resumed=(Resumption(1, 2, 90.0),)
    ),
)
ARRAYS = ["steps.npz", "examples.npz", "parity.npz", "paired.npz"]
FILES = ["evidence.json", *ARRAYS]

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**400), max_value=10**400)
    | st.floats()
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def written() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    write_evidence(folder.name, EVIDENCE, STEPS, EXAMPLES, PARITY, paired=PAIRED)
    return folder


@pytest.fixture(scope="module")
def intact() -> dict[str, bytes]:
    """The bytes of a whole evidence folder, by file name."""
    with written() as folder:
        return {path.name: path.read_bytes() for path in Path(folder, "evidence").iterdir()}


def read_files(files: dict[str, bytes]) -> EvidenceRecord:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        return read_evidence(folder)


def assert_same_arrays(found: EvidenceRecord) -> None:
    pairs = (
        *((found.steps, STEPS), (found.examples, EXAMPLES)),
        *((found.parity, PARITY), (found.paired, PAIRED)),
    )
    for stored, original in pairs:
        assert stored is not None
        for field in dataclasses.fields(original):
            np.testing.assert_array_equal(
                getattr(stored, field.name), getattr(original, field.name)
            )


def test_what_was_written_is_read_back() -> None:
    with written() as folder:
        found = read_evidence(Path(folder, "evidence"))
    assert found.evidence == EVIDENCE
    assert_same_arrays(found)


def test_who_may_read_one_of_the_files_may_read_all_of_them() -> None:
    """The gate may run as another user than the training job did."""
    with written() as folder:
        files = list(Path(folder, "evidence").iterdir())
        assert sorted(file.name for file in files) == sorted(FILES)
        assert len({file.stat().st_mode for file in files}) == 1


def test_evidence_from_before_there_was_parity_is_read(intact: dict[str, bytes]) -> None:
    raw = json.loads(intact["evidence.json"])
    del raw["parity"]
    older = {name: content for name, content in intact.items() if name != "parity.npz"}
    found = read_files({**older, "evidence.json": json.dumps(raw).encode()})
    assert (found.evidence.parity, found.parity) == (None, None)


def test_evidence_from_before_the_paired_probe_notes_and_padding_is_read(
    intact: dict[str, bytes],
) -> None:
    raw = json.loads(intact["evidence.json"])
    for key in ("paired_speed", "padding", "notes", "memory_of"):
        del raw[key]
    for key in ("repro", "departs"):
        del raw["parity"][key]
    older = {name: content for name, content in intact.items() if name != "paired.npz"}
    found = read_files({**older, "evidence.json": json.dumps(raw).encode()})
    assert (found.evidence.paired_speed, found.paired) == (None, None)
    assert (found.evidence.notes, found.evidence.memory_of) == ((), None)
    assert found.evidence.peak_memory_bytes == 123


def test_evidence_without_a_compile_cache_is_read(intact: dict[str, bytes]) -> None:
    raw = json.loads(intact["evidence.json"])
    del raw["compile_cache"]
    older = {**intact, "evidence.json": json.dumps(raw).encode()}
    assert read_files(older).evidence.compile_cache is None


def test_evidence_without_checkpoints_is_read(intact: dict[str, bytes]) -> None:
    raw = json.loads(intact["evidence.json"])
    del raw["checkpoints"]
    older = {**intact, "evidence.json": json.dumps(raw).encode()}
    assert read_files(older).evidence.resumed == ()


@pytest.mark.parametrize(("step", "steady_from"), [(0, 1), (2, 1), (1, 99)])
def test_a_resumption_at_steps_that_are_not_there_is_told(
    intact: dict[str, bytes], step: int, steady_from: int
) -> None:
    """It says which steps do not count: it must not hide any others."""
    raw = json.loads(intact["evidence.json"])
    raw["checkpoints"]["resumed"][0] |= {"step": step, "steady_from": steady_from}
    with pytest.raises(EvidenceError, match="checkpoints: resumed names step"):
        read_files({**intact, "evidence.json": json.dumps(raw).encode()})


def test_a_number_that_json_cannot_hold_is_told(intact: dict[str, bytes]) -> None:
    """JSON has no infinity, but numbers that are read as one."""
    raw = json.loads(intact["evidence.json"])
    raw["speed"]["train_seconds"] = "much"
    endless = json.dumps(raw).replace('"much"', "1e999").encode()
    with pytest.raises(EvidenceError, match="train_seconds is inf, expected a finite number"):
        read_files({**intact, "evidence.json": endless})


def test_a_compile_cache_of_an_unknown_state_is_told(intact: dict[str, bytes]) -> None:
    raw = json.loads(intact["evidence.json"])
    raw["compile_cache"]["state"] = "lukewarm"
    odd = {**intact, "evidence.json": json.dumps(raw).encode()}
    with pytest.raises(EvidenceError, match=r"state is 'lukewarm', expected 'warm', 'cold', "):
        read_files(odd)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"memory_of": "host"}, "memory_of is 'host', expected 'device', 'process'"),
        ({"notes": [1]}, "notes: 0 is 1, expected a string"),
    ],
)
def test_what_is_wrong_with_memory_and_notes_is_told(
    intact: dict[str, bytes], changed: dict[str, Any], message: str
) -> None:
    raw = {**json.loads(intact["evidence.json"]), **changed}
    with pytest.raises(EvidenceError, match=message):
        read_files({**intact, "evidence.json": json.dumps(raw).encode()})


def test_a_failed_job_needs_neither_steps_nor_examples(tmp_path: Path) -> None:
    failed = dataclasses.replace(
        EVIDENCE, speed=None, metrics={}, parity=None, failure="it ran out of memory"
    )
    found = read_evidence(write_evidence(tmp_path, failed))
    assert found == EvidenceRecord(failed, None, None)


def test_a_job_that_did_not_fail_cannot_leave_its_measurements_out(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="needs steps and a speed record"):
        write_evidence(tmp_path, EVIDENCE, None, EXAMPLES)
    without = dataclasses.replace(EVIDENCE, metrics={})
    with pytest.raises(EvidenceError, match="needs examples, or metrics"):
        write_evidence(tmp_path, without, STEPS, None, PARITY, paired=PAIRED)
    assert not (tmp_path / "evidence").exists()


def test_a_job_with_metrics_needs_no_examples(tmp_path: Path) -> None:
    alone = dataclasses.replace(EVIDENCE, digests={"model": "0" * 64})
    found = read_evidence(write_evidence(tmp_path, alone, STEPS, None, PARITY, paired=PAIRED))
    assert found.examples is None
    assert found.steps is not None
    assert set(found.evidence.digests) == {"model", "steps", "parity", "paired"}


def test_digests_of_the_columns_are_added_by_the_writer(tmp_path: Path) -> None:
    without = dataclasses.replace(EVIDENCE, digests={"model": "0" * 64})
    folder = write_evidence(tmp_path, without, STEPS, EXAMPLES, PARITY, paired=PAIRED)
    assert read_evidence(folder).evidence == EVIDENCE


def test_ids_that_are_no_text_are_not_written(tmp_path: Path) -> None:
    broken = dataclasses.replace(EXAMPLES, ids=np.array(["a", "\ud800", "c"]))
    with pytest.raises(EvidenceError, match="an example id is not valid text"):
        write_evidence(tmp_path, EVIDENCE, STEPS, broken, PARITY, paired=PAIRED)
    assert not (tmp_path / "evidence").exists()


@given(row=st.integers(0, 1), column=st.integers(0, 2), factor=st.floats(1.001, 1e6))
def test_each_number_of_steps_outputs_and_parity_is_in_their_digests(
    row: int, column: int, factor: float
) -> None:
    losses = EXAMPLES.losses.copy()
    losses[column] *= factor
    seconds = STEPS.seconds.copy()
    seconds[row] *= factor
    eager = PARITY.eager.copy()
    eager[row, column] *= factor
    candidate_seconds = PAIRED.candidate_seconds.copy()
    candidate_seconds[column] *= factor
    before = column_digests(STEPS, EXAMPLES, PARITY, PAIRED)
    after = column_digests(
        dataclasses.replace(STEPS, seconds=seconds),
        dataclasses.replace(EXAMPLES, losses=losses),
        dataclasses.replace(PARITY, eager=eager),
        dataclasses.replace(PAIRED, candidate_seconds=candidate_seconds),
    )
    assert before["paired"] != after["paired"]
    assert before["steps"] != after["steps"]
    assert before["parity"] != after["parity"]
    assert before["outputs"] != after["outputs"]
    assert before["examples"] == after["examples"]


def test_the_examples_digest_depends_on_ids_and_labels_only() -> None:
    other_model = dataclasses.replace(
        EXAMPLES, scores=EXAMPLES.scores[::-1], losses=-EXAMPLES.losses
    )
    other_label = dataclasses.replace(EXAMPLES, labels=np.array([0, 1, 0]))
    other_order = dataclasses.replace(EXAMPLES, ids=EXAMPLES.ids[::-1])
    digest = examples_digest(EXAMPLES)
    assert examples_digest(other_model) == digest
    assert examples_digest(other_label) != digest
    assert examples_digest(other_order) != digest


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(intact: dict[str, bytes], name: str) -> None:
    with pytest.raises(EvidenceError, match=f"{name} is missing"):
        read_files({other: content for other, content in intact.items() if other != name})


def paths_into(value: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*prefix, key)
            yield from paths_into(inner, (*prefix, key))


ALL_PATHS = sorted(paths_into(dataclasses.asdict(EVIDENCE)))
OPEN_SECTIONS = [
    *(("recipe",), ("metrics",), ("environment",), ("digests",)),
    *(("compiler", "proof"), ("compiler", "options")),
]
"""Objects whose names are the writer's choice."""
REQUIRED_PATHS = [
    *((key,) for key in ("job", "arm", "seed", "recipe", "compiler", "speed")),
    *(("compiler", key) for key in ("name", "ran")),
    *(("speed", key) for key in ("samples_per_second", "steady_from", "train_seconds")),
    *(("parity", key) for key in ("precision", "steps", "seconds")),
    *(("compile_cache", key) for key in ("state", "key", "hits", "misses")),
    *(("paired_speed", key) for key in ("seconds", "baseline_compiler", "steps_per_block")),
    *(("checkpoints", key) for key in ("written", "seconds", "ignored")),
]


def section_of(raw: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for key in path[:-1]:
        raw = raw[key]
    return raw


@pytest.mark.parametrize("path", REQUIRED_PATHS, ids=".".join)
def test_every_required_key_is_missed(intact: dict[str, bytes], path: tuple[str, ...]) -> None:
    raw = json.loads(intact["evidence.json"])
    del section_of(raw, path)[path[-1]]
    with pytest.raises(EvidenceError, match=path[-1]):
        read_files({**intact, "evidence.json": json.dumps(raw).encode()})


@pytest.mark.slow
@given(path=st.sampled_from(ALL_PATHS), value=JSON_VALUES)
@example(path=("metrics", "accuracy"), value=10**400)
@example(path=("compiler", "compile_seconds"), value=10**400)
def test_any_value_in_place_of_another_is_accepted_or_an_evidence_error(
    intact: dict[str, bytes], path: tuple[str, ...], value: Any
) -> None:
    raw = json.loads(intact["evidence.json"])
    section_of(raw, path)[path[-1]] = value
    try:
        found = read_files({**intact, "evidence.json": json.dumps(raw).encode()})
    except EvidenceError as error:
        assert "evidence.json" in str(error)
    else:
        assert isinstance(found.evidence.seed, int)
        assert isinstance(found.evidence.compiler.graphs, int)


@pytest.mark.slow
@given(name=st.sampled_from(FILES), data=st.data())
def test_a_truncated_file_is_an_evidence_error(
    intact: dict[str, bytes], name: str, data: st.DataObject
) -> None:
    content = intact[name].rstrip(b"\n")
    kept = data.draw(st.integers(min_value=0, max_value=len(content) - 1))
    with pytest.raises(EvidenceError, match=name):
        read_files({**intact, name: content[:kept]})


@pytest.mark.slow
@given(name=st.sampled_from(ARRAYS), data=st.data())
def test_a_damaged_byte_never_changes_a_number_unnoticed(
    intact: dict[str, bytes], name: str, data: st.DataObject
) -> None:
    content = bytearray(intact[name])
    position = data.draw(st.integers(min_value=0, max_value=len(content) - 1))
    content[position] ^= data.draw(st.integers(min_value=1, max_value=255))
    try:
        found = read_files({**intact, name: bytes(content)})
    except EvidenceError as error:
        assert name in str(error)
    else:
        assert_same_arrays(found)


@pytest.mark.slow
@given(name=st.sampled_from(FILES), content=st.binary())
def test_arbitrary_bytes_are_an_evidence_error(
    intact: dict[str, bytes], name: str, content: bytes
) -> None:
    with pytest.raises(EvidenceError, match=name):
        read_files({**intact, name: content})


def test_columns_of_different_lengths_are_told(tmp_path: Path) -> None:
    short = dataclasses.replace(EXAMPLES, losses=EXAMPLES.losses[:2])
    folder = write_evidence(tmp_path, EVIDENCE, STEPS, short, PARITY, paired=PAIRED)
    with pytest.raises(EvidenceError, match="different lengths"):
        read_evidence(folder)


def test_pickled_columns_are_refused(tmp_path: Path) -> None:
    folder = write_evidence(tmp_path, EVIDENCE, STEPS, EXAMPLES, PARITY, paired=PAIRED)
    losses = np.array([print], dtype=object)
    np.savez(folder / "steps.npz", loss=losses, seconds=np.array([1.0]))
    with pytest.raises(EvidenceError, match=r"steps\.npz cannot be read"):
        read_evidence(folder)
