"""How often seeds fail: what the trained ones leave open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.statistics.failures import (
    failed_in_any,
    failed_seeds,
    highest_rate,
    judge_failures,
    lowest_rate,
    seeds_to_show,
)


@pytest.mark.parametrize(("seeds", "rate"), [(3, 0.632), (10, 0.259), (29, 0.0982)])
def test_seeds_without_a_failure_leave_a_rate_open(seeds, rate):
    assert highest_rate(seeds, 0, 0.95) == pytest.approx(rate, abs=5e-4)
    assert f"{rate * 100:.0f}%" in judge_failures(seeds, 0, None, 0.95).sentence or rate < 0.1


@given(seeds=st.integers(1, 60), failed=st.integers(0, 60))
def test_the_rate_lies_between_its_bounds(seeds, failed):
    failed = min(failed, seeds)
    assert lowest_rate(seeds, failed, 0.95) <= failed / seeds <= highest_rate(seeds, failed, 0.95)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3])
def test_the_seeds_that_are_asked_for_are_the_fewest_that_show_it(rate):
    needed = seeds_to_show(rate, 0.95)
    assert highest_rate(needed, 0, 0.95) <= rate < highest_rate(needed - 1, 0, 0.95)


def test_a_rate_that_was_asked_for_decides():
    outcomes = [
        judge_failures(seeds, failed, 0.1, 0.95) for seeds, failed in ((29, 0), (3, 0), (5, 4))
    ]
    assert [it.outcome for it in outcomes] == [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]
    assert "29 seeds without a failure would show it" in outcomes[1].sentence


def test_a_seed_fails_beyond_the_margin_and_what_chance_explains():
    baseline = np.array([0.90, 0.91, 0.92])
    assert failed_seeds(np.array([0.0, 0.035, 0.06]), baseline, 0.01) == (False, False, True)
    assert failed_in_any([(True, False, False), (True, False, True)]) == 2


def test_the_verdict_says_what_three_seeds_leave_open(new_execution):
    candidate = new_execution().judge().candidates[0]
    note = next(note for note in candidate.notes if note.code is Code.SEEDS_OPEN)
    assert note.sentence == "None of 3 seeds failed, which leaves open that up to 63% of seeds do."
    assert candidate.outcome is Outcome.PASS


def test_fewer_failures_than_three_seeds_can_show_are_asked_for(new_execution):
    candidate = new_execution(max_failure_rate=0.1).judge().candidates[0]
    assert candidate.outcome is Outcome.INCONCLUSIVE
    assert Code.SEEDS_FAILURE_RATE in {reason.code for reason in candidate.reasons}
