"""What slowed a candidate is told beside its verdict, and decides nothing."""

from __future__ import annotations

import pytest

from compilegate.evidence import Hindrance
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.speed.hindrances import hindrance_told

LOADER = Hindrance("loader", 100.0, 0.62, rule="no-loader-workers")
ASKING = Hindrance("synchronisation", 2.0, None, ("train.py:42",), None, "item-in-step")


def test_a_candidates_hindrances_are_noted_once_and_decide_nothing(execution):
    for seed in execution.experiment.seeds:
        execution.change_evidence("fast", seed, hindrances=(ASKING, LOADER))
    candidate = execution.judge().candidates[0]
    notes = [each for each in candidate.notes if each.code is Code.SPEED_HINDERED]
    assert [each.numbers["count"] for each in notes] == [100.0, 2.0]
    assert notes[0].sentence.startswith("Its steps wait for data in 62% of their time")
    assert candidate.outcome is Outcome.PASS


def test_the_baselines_are_not(execution):
    execution.change_evidence("baseline", execution.experiment.seeds[0], hindrances=(LOADER,))
    notes = execution.judge().candidates[0].notes
    assert Code.SPEED_HINDERED not in {each.code for each in notes}


@pytest.mark.parametrize(
    ("hindrance", "told"),
    [
        (
            ASKING,
            "Each step asks 2 times for the value of a tensor at train.py:42: a device waits for "
            "its next work there, and XLA ends its graph. Rule item-in-step of `compilegate "
            "check` says more: docs/rules/item-in-step.md.",
        ),
        (
            Hindrance("breaks", 3.0, None, ("a.py:1", "b.py:2"), "Data-dependent branching"),
            "torch left its graph 3 times at a.py:1, b.py:2: Data-dependent branching.",
        ),
        (
            Hindrance("shapes", 17.0),
            "Its first steps had 17 different shapes: a compiler of static shapes compiles each.",
        ),
        (
            Hindrance("recompilations", 1.0, None, ("m.py:3 (forward)",), "tensor 'x' size"),
            "torch compiled a graph again once at m.py:3 (forward): tensor 'x' size.",
        ),
    ],
    ids=["asking", "breaks", "shapes", "recompilations"],
)
def test_each_kind_has_its_sentence(hindrance, told):
    assert hindrance_told(hindrance) == told


def test_a_long_reason_is_cut():
    told = hindrance_told(Hindrance("breaks", 1.0, None, ("x" * 5000,), "y" * 5000))
    assert len(told) < 600
