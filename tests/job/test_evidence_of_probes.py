"""What probes leave in the evidence: their columns go with their records, and fit together."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import (
    EvidenceError,
    PairedSpeedRecord,
    ParityRecord,
    write_evidence,
)
from tests.job.test_evidence_record import EVIDENCE, EXAMPLES, PAIRED, PARITY, STEPS


def test_an_obstacle_stands_in_place_of_parity_errors(tmp_path: Path) -> None:
    obstacle = ParityRecord("fp32", steps=0, seconds=0.1, obstacle="it has no float64")
    folder = write_evidence(
        tmp_path, dataclasses.replace(EVIDENCE, parity=obstacle), STEPS, EXAMPLES, paired=PAIRED
    )
    found = read_evidence(folder)
    assert (found.evidence.parity, found.parity) == (obstacle, None)
    assert not (folder / "parity.npz").exists()


@pytest.mark.parametrize("record", [None, ParityRecord("fp32", 0, 0.1, "it has no float64")])
def test_parity_errors_without_their_record_are_not_written(
    tmp_path: Path, record: ParityRecord | None
) -> None:
    with pytest.raises(EvidenceError, match="parity errors go with a parity record"):
        write_evidence(
            tmp_path,
            dataclasses.replace(EVIDENCE, parity=record),
            STEPS,
            EXAMPLES,
            PARITY,
            paired=PAIRED,
        )
    assert not (tmp_path / "evidence").exists()


def test_an_obstacle_stands_in_place_of_pairs_of_blocks(tmp_path: Path) -> None:
    obstacle = PairedSpeedRecord(0.0, "eager", 32, 64, 0, obstacle="one process cannot run both")
    evidence = dataclasses.replace(EVIDENCE, paired_speed=obstacle)
    folder = write_evidence(tmp_path, evidence, STEPS, EXAMPLES, PARITY)
    found = read_evidence(folder)
    assert (found.evidence.paired_speed, found.paired) == (obstacle, None)
    assert not (folder / "paired.npz").exists()


@pytest.mark.parametrize(
    "record", [None, PairedSpeedRecord(0.0, "eager", 32, 64, 0, obstacle="there was no time")]
)
def test_pairs_of_blocks_without_their_record_are_not_written(
    tmp_path: Path, record: PairedSpeedRecord | None
) -> None:
    evidence = dataclasses.replace(EVIDENCE, paired_speed=record)
    with pytest.raises(EvidenceError, match="pairs of blocks go with a paired speed record"):
        write_evidence(tmp_path, evidence, STEPS, EXAMPLES, PARITY, paired=PAIRED)
    assert not (tmp_path / "evidence").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"baseline_first": np.array([True])}, "columns of different lengths"),
        (dict.fromkeys(("baseline_seconds", "candidate_seconds"), np.ones(2)), "lengths"),
        ({"baseline_seconds": np.array([1, 2, 3])}, "baseline_seconds has type int64"),
    ],
)
def test_pairs_of_blocks_that_do_not_fit_together_are_told(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    damaged = dataclasses.replace(PAIRED, **changed)
    folder = write_evidence(tmp_path, EVIDENCE, STEPS, EXAMPLES, PARITY, paired=damaged)
    with pytest.raises(EvidenceError, match=rf"paired\.npz: .*{message}"):
        read_evidence(folder)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"compiled": PARITY.compiled[:1]}, r"column compiled has shape \(1, 3\)"),
        ({"eager": PARITY.eager[:, :2]}, r"column eager has shape \(2, 2\)"),
        ({"repeated": PARITY.repeated - 1}, "column repeated holds a negative error"),
        (
            {"compiled": PARITY.compiled * np.array([1.0, -1.0, 1.0])},
            "column compiled holds a negative error",
        ),
        ({"tensors": np.array(["loss", "loss", "logits"])}, "names a tensor twice"),
    ],
)
def test_parity_errors_that_do_not_fit_together_are_told(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    damaged = dataclasses.replace(PARITY, **changed)
    folder = write_evidence(tmp_path, EVIDENCE, STEPS, EXAMPLES, damaged, paired=PAIRED)
    with pytest.raises(EvidenceError, match=rf"parity\.npz: .*{message}"):
        read_evidence(folder)
