"""Padding in the gate: declared where arms differ in it, with advice where it costs much."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.gate.findings import Outcome
from compilegate.gate.observations import Observations, observe
from compilegate.job.evidence import EvidenceError, write_evidence
from tests.gate.test_speed import WASTEFUL


def padded(execution: Any, arm: str, padding: str, order: str) -> None:
    """Declare how an arm pads, and let its jobs have done so."""
    execution.declare(arm, padding=padding)
    lengths = {"max": (64,), "buckets": (16, 64), "longest": ()}[padding]
    record = dataclasses.replace(WASTEFUL, padding=padding, lengths=lengths)
    changed = {"recipe__padding": padding, "recipe__data_order": order}
    execution.alter_all(arm, padding=record, **changed)


@pytest.mark.parametrize(
    ("before", "after", "orders", "outcome"),
    [
        ("max", "buckets", ("the seed's", "by length"), Outcome.PASS),
        ("max", "longest", ("the seed's", "by length"), Outcome.FAIL),
        ("buckets", "buckets", ("the seed's", "by length"), Outcome.FAIL),
        ("max", "max", ("the seed's", "the seed's"), Outcome.PASS),
    ],
)
def test_declared_padding_is_intended_and_an_order_follows_from_buckets_alone(
    execution, before, after, orders, outcome
) -> None:
    padded(execution, "baseline", before, orders[0])
    padded(execution, "fast", after, orders[1])
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is outcome
    found = {each.name: each.intended for each in candidate.confounds}
    assert found.get("padding", True)
    assert found.get("data_order", True) is (outcome is Outcome.PASS)
    observed = observe(execution.experiment, execution.records)
    assert {each.arm: each.padding.padding for each in observed.arms} == {
        "baseline": before,
        "fast": after,
    }
    assert Observations.from_json(observed.to_json()) == observed


POSITIONS = {"max": 1000, "buckets": 420, "longest": 700}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"padding": "short"}, "padding"),
        ({"lengths": [64, 32]}, "lengths"),
        ({"bucket_lengths": [64, 16]}, "bucket_lengths"),
        ({"histogram_upto": [64, 64]}, "histogram_upto"),
        ({"histogram_documents": [3, -1]}, "histogram_documents"),
        ({"tokens": 0}, "tokens"),
        ({"tokens": 421}, "tokens"),
        ({"positions": {**POSITIONS, "max": 10**400}}, "tokens"),
        ({"positions": {**POSITIONS, "max": -1}}, "positions"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_record_that_no_job_can_have_written_is_refused(execution, tmp_path, changes, key):
    record = execution.record("fast", 1)
    evidence = dataclasses.replace(record.evidence, padding=WASTEFUL)
    folder = write_evidence(tmp_path, evidence, record.steps, record.examples, record.parity)
    path = folder / "evidence.json"
    raw = json.loads(path.read_text())
    assert read_evidence(folder).evidence.padding == WASTEFUL
    raw["padding"].update(changes)
    path.write_text(json.dumps(raw))
    with pytest.raises(EvidenceError, match=rf"padding: {key}\b"):
        read_evidence(folder)
