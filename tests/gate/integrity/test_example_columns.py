"""Columns that examples may have beside the four: targets, predictions, categories."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from compilegate.evidence import read_evidence
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import MetricGuard
from compilegate.job.evidence import EvidenceError, Examples, examples_digest, write_evidence


def numbers(count: int = 5) -> Examples:
    return Examples(
        ids=np.arange(count).astype(str),
        labels=np.zeros(count, dtype=np.int64),
        scores=np.empty((count, 0)),
        losses=np.linspace(0.0, 1.0, count),
        targets=np.linspace(1.0, 2.0, count),
        predictions=np.linspace(1.1, 2.1, count),
        slices={"region": np.array(["north"] * count), "größe": np.array(["klein"] * count)},
    )


@pytest.fixture
def folder(execution, tmp_path):
    """An evidence folder with examples of predicted numbers."""
    record = execution.record("baseline", 1)
    return write_evidence(tmp_path, record.evidence, record.steps, numbers())


def stored(folder):
    with np.load(folder / "examples.npz") as columns:
        return {name: columns[name] for name in columns.files}


def test_optional_columns_are_read_back_as_they_were_written(folder):
    examples = read_evidence(folder).examples
    assert np.array_equal(examples.targets, numbers().targets)
    assert np.array_equal(examples.predictions, numbers().predictions)
    assert {name: column.tolist() for name, column in examples.slices.items()} == {
        "region": ["north"] * 5,
        "größe": ["klein"] * 5,
    }


def test_without_them_there_are_none(execution, tmp_path):
    record = execution.record("baseline", 1)
    folder = write_evidence(tmp_path, record.evidence, record.steps, record.examples)
    assert set(stored(folder)) == {"ids", "labels", "scores", "losses"}
    examples = read_evidence(folder).examples
    assert (examples.targets, examples.predictions, examples.slices) == (None, None, {})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"predictions": None}, "of targets and predictions only one column is there"),
        ({"slice:region": np.arange(5)}, "column slice:region has type int64"),
        ({"targets": np.array(["1"] * 5)}, "column targets has type <U1"),
        ({"slice:region": np.array(["north"])}, "columns of different lengths"),
    ],
)
def test_columns_that_cannot_be_used_are_told_by_name(folder, changes, told):
    columns = {**stored(folder), **changes}
    columns = {name: value for name, value in columns.items() if value is not None}
    np.savez_compressed(folder / "examples.npz", **columns)
    with pytest.raises(EvidenceError, match=told):
        read_evidence(folder)


def test_the_digest_covers_the_targets(folder):
    examples = numbers()
    changed = dataclasses.replace(examples, targets=examples.targets + 1e-9)
    assert examples_digest(changed) != examples_digest(examples)
    without = dataclasses.replace(examples, targets=None, predictions=None)
    assert examples_digest(without) != examples_digest(examples)


def with_losses_alone(execution, *, harm=0.0):
    """The execution of a model that has a loss for each example and nothing else."""
    for replicate in list(execution.records):
        found = execution.record(*replicate).examples
        worse = harm if replicate[0] == "fast" else 0.0
        columns = {
            "labels": np.zeros_like(found.labels),
            "scores": np.empty((len(found.ids), 0)),
            "losses": found.losses + worse,
        }
        examples = dataclasses.replace(found, **columns)
        execution.put_examples(*replicate, examples, {"loss": float(examples.losses.mean())})
    return execution


@pytest.mark.parametrize(("harm", "outcome"), [(0.0, Outcome.PASS), (0.2, Outcome.FAIL)])
def test_losses_alone_can_be_judged(new_execution, harm, outcome):
    guards = {"loss": MetricGuard(direction="lower", margin=0.05)}
    verdict = with_losses_alone(new_execution(metrics=guards), harm=harm).judge()
    (candidate,) = verdict.candidates
    assert verdict.baseline.sound
    assert (candidate.outcome, candidate.metrics[0].metric) == (outcome, "loss")


def test_losses_alone_have_no_auroc(new_execution):
    guards = {"auroc": MetricGuard(direction="higher", margin=0.05)}
    verdict = with_losses_alone(new_execution(metrics=guards)).judge()
    assert {reason.code for reason in verdict.baseline.reasons} == {Code.METRIC_UNDEFINED}
