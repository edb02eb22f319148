"""Validation examples among the training data, and validation inputs that repeat each other."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest

from compilegate.evidence import read_records
from compilegate.gate.reasons import Code, Outcome
from compilegate.job.evidence.trained_on import MOST_HASHES, hashed, trained_on
from tests.gate.conftest import with_digests

ARMS = ("baseline", "fast")
SEEDS = (1, 2, 3)


def train_on(execution, ids=None, inputs=None):
    told = trained_on(ids, inputs)
    for replicate, record in execution.records.items():
        execution.records[replicate] = with_digests(dataclasses.replace(record, trained_on=told))


def ids_of(execution):
    return execution.record("baseline", 1).examples.ids.tolist()


def give_inputs(execution, texts):
    for arm in ARMS:
        for seed in SEEDS:
            execution.change_examples(arm, seed, inputs=hashed(texts))


def test_other_training_examples_pass(execution):
    train_on(execution, [f"train-{index}" for index in range(5000)])
    assert execution.judge().candidates[0].outcome is Outcome.PASS


@pytest.mark.parametrize("share", [0.001, 0.5])
def test_validation_examples_that_were_trained_on_fail(execution, share):
    known = ids_of(execution)
    few = known[: int(len(known) * share)]
    train_on(execution, [*few, *(f"train-{index}" for index in range(5000))])
    (candidate,) = execution.judge().candidates
    reason = next(each for each in candidate.reasons if each.code is Code.DATA_TRAINED_ON)
    assert reason.outcome is Outcome.FAIL
    assert reason.numbers["examples"] == len(few)


@pytest.mark.slow
def test_of_very_many_training_examples_a_sample_shows_it(execution):
    known = ids_of(execution)
    told = trained_on([*known, *(f"train-{index}" for index in range(MOST_HASHES + 60_000))])
    assert len(told.ids) == MOST_HASHES
    record = dataclasses.replace(execution.record("fast", 1), trained_on=told)
    execution.records["fast", 1] = with_digests(record)
    (candidate,) = execution.judge().candidates
    assert Code.DATA_TRAINED_ON in {each.code for each in candidate.reasons}


def test_row_numbers_are_no_names(execution):
    for arm in ARMS:
        for seed in SEEDS:
            rows = np.arange(len(ids_of(execution))).astype(np.str_)
            execution.change_examples(arm, seed, ids=rows)
    train_on(execution, list(range(5000)))
    assert execution.judge().candidates[0].outcome is Outcome.PASS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "outcome", "code"),
    [
        (0.05, Outcome.PASS, Code.DATA_INPUTS_TRAINED_ON),
        (0.45, Outcome.PASS, Code.DATA_INPUTS_TRAINED_ON),
        (0.5, Outcome.FAIL, Code.DATA_TRAINED_ON),
        (1.0, Outcome.FAIL, Code.DATA_TRAINED_ON),
    ],
)
def test_the_same_inputs_under_other_ids_are_found(execution, share, outcome, code):
    texts = [f"text {index}" for index in range(2000)]
    give_inputs(execution, texts)
    train_on(execution, inputs=[*texts[: int(2000 * share)], "another"])
    (candidate,) = execution.judge().candidates
    assert candidate.outcome is outcome
    assert code in {each.code for each in (*candidate.reasons, *candidate.notes)}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [30, 1500, 6000, 12_000])
def test_rows_of_a_small_table_repeat_by_nature(execution, kinds):
    """Where a table has few different rows, most validation rows are in the training data, too."""
    random = np.random.default_rng(3)
    give_inputs(execution, [f"row {each}" for each in random.integers(0, kinds, 2000)])
    train_on(execution, inputs=[f"row {each}" for each in random.integers(0, kinds, 10_000)])
    (candidate,) = execution.judge().candidates
    assert Code.DATA_TRAINED_ON not in {each.code for each in candidate.reasons}
    assert Code.DATA_INPUTS_TRAINED_ON in {each.code for each in candidate.notes}


@pytest.mark.slow
@pytest.mark.parametrize(("share", "passes"), [(0.002, True), (0.3, True), (0.6, False)])
def test_ids_that_are_digests_of_the_content_are_inputs(execution, share, passes):
    """Of data without ids, equal texts have equal ids in both parts."""
    digests = [hashlib.sha256(f"{index}".encode()).hexdigest()[:16] for index in range(2000)]
    for arm in ARMS:
        for seed in SEEDS:
            execution.change_examples(arm, seed, ids=np.array(digests))
    train_on(execution, [*digests[: int(2000 * share)], "0123456789abcdef-2"])
    (candidate,) = execution.judge().candidates
    found = {each.code for each in (*candidate.reasons, *candidate.notes)}
    assert (Code.DATA_INPUTS_TRAINED_ON in found) is True
    assert (Code.DATA_TRAINED_ON in found) is not passes


@pytest.mark.slow
def test_what_one_arm_alone_trained_on_is_no_fact_of_the_data(execution):
    texts = [f"text {index}" for index in range(2000)]
    give_inputs(execution, texts)
    train_on(execution, inputs=texts[:200])
    for seed in SEEDS:
        told = dataclasses.replace(
            execution.record("fast", seed), trained_on=trained_on(None, texts[:500])
        )
        execution.records["fast", seed] = with_digests(told)
    (candidate,) = execution.judge().candidates
    reason = next(each for each in candidate.reasons if each.code is Code.DATA_TRAINED_ON)
    assert reason.numbers == {"seed": 1, "share": 0.25, "baseline_share": 0.1}


def test_rows_with_one_input_count_once(execution):
    give_inputs(execution, [f"text {index // 4}" for index in range(2000)])
    (candidate,) = execution.judge().candidates
    note = next(each for each in candidate.notes if each.code is Code.GROUPS_INPUTS)
    assert note.numbers == {"examples": 2000, "effective": 500}


def test_it_is_written_and_read_back(execution, tmp_path):
    train_on(execution, ["a", "b"], np.array([[1, 2], [3, 4]]))
    execution.write(tmp_path)
    read = read_records(tmp_path / "evidence", execution.experiment.replicates)
    told = read["fast", 1].trained_on
    assert (len(told.ids), len(told.inputs)) == (2, 2)
    assert np.isin(hashed([np.array([3, 4], np.int32)]), told.inputs).all()
