"""The evidence record: what is written is read back, whole or not at all."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
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
FILES = ["evidence.json", "examples.npz", "paired.npz", "parity.npz", "steps.npz"]


def write(folder: Path, evidence: Evidence = EVIDENCE, **tables: Any) -> Path:
    """All tables, but for those that are given."""
    found = {"steps": STEPS, "examples": EXAMPLES, "parity": PARITY, "paired": PAIRED, **tables}
    return write_evidence(folder, evidence, **found)


def tables(record: EvidenceRecord) -> dict[str, Any]:
    """Each column by name, as something that can be compared."""
    parts = (record.steps, record.examples, record.parity, record.paired)
    found = {name: it for part in parts if part is not None for name, it in vars(part).items()}
    return {name: it.tolist() for name, it in found.items() if isinstance(it, np.ndarray)}


WRITTEN = tables(EvidenceRecord(EVIDENCE, STEPS, EXAMPLES, PARITY, PAIRED))


@pytest.mark.parametrize("texts", [np.str_, object])  # as pandas has them
def test_what_was_written_is_read_back_with_the_digests_of_its_columns(
    texts: Any, tmp_path: Path
) -> None:
    examples = replace(EXAMPLES, ids=EXAMPLES.ids.astype(texts))
    folder = write(tmp_path, replace(EVIDENCE, digests={"model": "0" * 64}), examples=examples)
    found = read_evidence(folder)
    assert (found.evidence, found.as_written) == (EVIDENCE, True)
    assert tables(found) == WRITTEN
    # The gate may run as another user than the training job did.
    files = list(folder.iterdir())
    assert sorted(file.name for file in files) == FILES
    assert len({file.stat().st_mode for file in files}) == 1


def test_a_failed_job_needs_neither_steps_nor_examples(tmp_path: Path) -> None:
    """Nothing stays of what it wrote before it failed."""
    write(tmp_path)
    failed = replace(EVIDENCE, speed=None, metrics={}, parity=None, digests={}, failure="no memory")
    folder = write_evidence(tmp_path, failed)
    assert read_evidence(folder) == EvidenceRecord(failed, None, None)
    assert [file.name for file in folder.iterdir()] == ["evidence.json"]


def test_a_job_with_metrics_needs_no_examples(tmp_path: Path) -> None:
    found = read_evidence(write(tmp_path, replace(EVIDENCE, digests={}), examples=None))
    assert found.examples is None
    assert set(found.evidence.digests) == {"steps", "parity", "paired"}


NO_FLOAT64 = ParityRecord("fp32", steps=0, seconds=0.1, obstacle="it has no float64")
NO_TIME = PairedSpeedRecord(0.0, "eager", 32, 64, 0, obstacle="there was no time")


@pytest.mark.parametrize(
    ("changes", "tables"),
    [
        ({}, {"steps": None}),
        ({"speed": None}, {}),
        ({"metrics": {}}, {"examples": None}),
        ({"parity": None}, {}),
        ({"parity": NO_FLOAT64}, {}),
        ({}, {"parity": None}),
        ({"paired_speed": None}, {}),
        ({"paired_speed": NO_TIME}, {}),
        ({}, {"paired": None}),
        ({}, {"examples": replace(EXAMPLES, ids=np.array(["a", "\ud800", "c"]))}),
    ],
)
def test_what_does_not_belong_together_is_not_written(
    tmp_path: Path, changes: Mapping[str, Any], tables: Mapping[str, Any]
) -> None:
    with pytest.raises(EvidenceError):
        write(tmp_path, replace(EVIDENCE, **changes), **tables)
    assert not (tmp_path / "evidence").exists()


def test_an_obstacle_stands_in_place_of_a_probe_s_columns(tmp_path: Path) -> None:
    evidence = replace(EVIDENCE, parity=NO_FLOAT64, paired_speed=NO_TIME)
    found = read_evidence(write(tmp_path, evidence, parity=None, paired=None))
    assert (found.evidence.parity, found.parity) == (NO_FLOAT64, None)
    assert (found.evidence.paired_speed, found.paired) == (NO_TIME, None)


@settings(max_examples=40, deadline=None)
@given(share=st.floats(0, 1), replaces=st.booleans())
def test_evidence_of_a_job_that_is_killed_at_any_time_is_whole_or_absent(
    tmp_path_factory: pytest.TempPathFactory, share: float, replaces: bool
) -> None:
    """Also where it writes over what it wrote before."""
    place = tmp_path_factory.mktemp("killed")
    old = replace(EVIDENCE, job="before", digests={})
    if replaces:
        write(place, old, steps=replace(STEPS, loss=STEPS.loss + 1))
    child = os.fork()
    if child == 0:  # it ends here, however that may be
        kill_at_line(int(share * lines_to_write()))
        write(place)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        found = read_evidence(place / "evidence")
    except EvidenceError:
        assert not (place / "evidence" / "evidence.json").exists()
        return
    if found.evidence.job == "before":
        assert tables(found) == {**WRITTEN, "loss": (STEPS.loss + 1).tolist()}
    else:
        assert (found.evidence, tables(found)) == (EVIDENCE, WRITTEN)
    assert found.as_written
    digests = column_digests(found.steps, found.examples, found.parity, found.paired)
    assert digests.items() <= found.evidence.digests.items()


def kill_at_line(number: int) -> None:
    """End this process when it has run so many lines of Python from now on, in whatever file."""
    lines = iter(range(number))
    trace_lines(lambda: os.kill(os.getpid(), signal.SIGKILL) if next(lines, -1) < 0 else None)


@cache
def lines_to_write() -> int:
    """How many lines it takes to write all tables."""
    lines = itertools.count()
    before = sys.gettrace()
    with tempfile.TemporaryDirectory() as folder:
        trace_lines(lambda: next(lines))
        try:
            write(Path(folder))
        finally:
            sys.settrace(before)
    return next(lines)


def trace_lines(on_line: Callable[[], object]) -> None:
    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            on_line()
        return trace

    sys.settrace(trace)


@given(row=st.integers(0, 1), column=st.integers(0, 2), factor=st.floats(1.001, 1e6))
def test_each_number_of_steps_outputs_and_probes_is_in_their_digests(
    row: int, column: int, factor: float
) -> None:
    def scaled(values: np.ndarray, *place: int) -> np.ndarray:
        changed = values.copy()
        changed[place] *= factor
        return changed

    before = column_digests(STEPS, EXAMPLES, PARITY, PAIRED)
    after = column_digests(
        replace(STEPS, seconds=scaled(STEPS.seconds, row)),
        replace(EXAMPLES, losses=scaled(EXAMPLES.losses, column)),
        replace(PARITY, eager=scaled(PARITY.eager, row, column)),
        replace(PAIRED, candidate_seconds=scaled(PAIRED.candidate_seconds, column)),
    )
    # Which examples they are does not depend on the model's outputs, but on ids and labels.
    assert {name for name in before if before[name] == after[name]} == {"examples"}
    for changes in ({"labels": np.array([0, 1, 0])}, {"ids": EXAMPLES.ids[::-1]}):
        assert examples_digest(replace(EXAMPLES, **changes)) != before["examples"]
