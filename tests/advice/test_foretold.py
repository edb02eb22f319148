"""What advice expected is taken down before an execution, and stands beside what it measured."""

from __future__ import annotations

import pytest

from compilegate.advice import Range, advise
from compilegate.advice.told.foretold import Foretold, beside_outcome, foretold
from tests.advice.declared import experience

TOLD = Foretold(
    option="torch-compile",
    speedup=Range(1.0, 1.5),
    rests_on="published",
    machine="ml.g5.xlarge",
)


def test_every_option_with_an_expected_outcome_is_foretold(full):
    advice = advise(full())
    told = {each.option: each for each in foretold(advice)}
    assert told["torch-compile"].machine == advice.facts.instance_type
    assert {each.name for each in advice.options if each.outcome is not None} == set(told)


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (Range(1.35, 1.43), "as expected"),
        (Range(1.49, 1.70), "as expected"),
        (Range(1.51, 1.70), "not as expected"),
        (Range(0.80, 0.99), "not as expected"),
    ],
)
def test_what_overlaps_is_as_expected(measured, said):
    ((arm, sentence),) = beside_outcome([TOLD], [experience(speedup=measured)])
    assert arm == experience().arm
    assert sentence.endswith(f", {said}")
    assert "1.00 to 1.50 times as fast was expected for ml.g5.xlarge (published)" in sentence


def test_an_arm_that_is_no_option_is_not_mentioned():
    assert list(beside_outcome([TOLD], [experience(option="neuron")])) == []
    assert list(beside_outcome([], [experience()])) == []
