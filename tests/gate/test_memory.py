"""Memory: how much more a candidate takes, of the same kind, and whether that is too much."""

from __future__ import annotations

import pytest

from compilegate.gate.observations import observe
from compilegate.gate.reasons import Code, Outcome

SEEDS = (1, 2, 3)
GIGABYTE = 1_000_000_000


def measured(execution, arm, peaks, memory_of="device"):
    for seed, peak in zip(SEEDS, peaks, strict=True):
        execution.change_evidence(arm, seed, peak_memory_bytes=peak, memory_of=memory_of)


def judged(execution):
    (candidate,) = execution.judge().candidates
    reasons = {reason.code: reason for reason in candidate.reasons}
    return candidate, reasons


@pytest.fixture
def limited(new_execution):
    """An execution whose candidate may take a fifth more than the baseline."""
    execution = new_execution(max_memory_increase=0.2)
    measured(execution, "baseline", [GIGABYTE, 2 * GIGABYTE, GIGABYTE])
    return execution


def test_a_candidate_that_takes_too_much_fails_with_the_figures(limited):
    measured(limited, "fast", [GIGABYTE, GIGABYTE, 3 * GIGABYTE])
    candidate, reasons = judged(limited)
    assert candidate.outcome is Outcome.FAIL
    assert candidate.memory.increase == pytest.approx(0.5)
    assert reasons[Code.MEMORY_INCREASED].sentence == (
        "The candidate takes 3 GB of the device's memory, 50% more than the baseline's 2 GB; 20% "
        "more is allowed (max_memory_increase)."
    )


@pytest.mark.parametrize(
    ("peak", "told"), [(2.4 * GIGABYTE, "20% more"), (1.5 * GIGABYTE, "25% less")]
)
def test_a_candidate_that_stays_within_the_limit_passes(limited, peak, told):
    measured(limited, "fast", [GIGABYTE, int(peak), GIGABYTE])
    candidate, reasons = judged(limited)
    assert candidate.outcome is Outcome.PASS
    assert told in reasons[Code.MEMORY_WITHIN].sentence


@pytest.mark.parametrize(
    ("memory_of", "told"),
    [
        ("process", "measured the device's memory, and the candidate's the process's memory"),
        (None, "job train-fast-1 of the candidate did not measure its memory"),
    ],
)
def test_what_was_not_measured_alike_fails_where_a_limit_is_declared(limited, memory_of, told):
    measured(limited, "fast", [GIGABYTE] * 3, memory_of)
    candidate, reasons = judged(limited)
    assert candidate.outcome is Outcome.FAIL
    assert told in reasons[Code.MEMORY_NOT_COMPARED].sentence
    assert "or take the limit away" in reasons[Code.MEMORY_NOT_COMPARED].sentence
    assert candidate.memory.increase is None


def test_jobs_of_one_arm_that_measured_different_memories_are_not_compared(limited):
    measured(limited, "fast", [GIGABYTE] * 3)
    limited.change_evidence("fast", 2, memory_of="process")
    _, reasons = judged(limited)
    assert (
        "some jobs of the candidate measured a device's memory, and others a process's"
        in reasons[Code.MEMORY_NOT_COMPARED].sentence
    )


def test_without_a_limit_memory_is_shown_and_decides_nothing(execution):
    measured(execution, "baseline", [GIGABYTE] * 3)
    measured(execution, "fast", [5 * GIGABYTE] * 3)
    candidate, reasons = judged(execution)
    assert candidate.outcome is Outcome.PASS
    assert "memory" not in {code.subject for code in reasons}
    assert candidate.memory.increase == pytest.approx(4.0)


def test_memory_of_nobody_knows_what_is_not_measured(execution):
    """It may be the host's, beside a GPU's."""
    measured(execution, "fast", [GIGABYTE] * 3, None)
    candidate, _ = judged(execution)
    assert candidate.memory.candidate_bytes is None
    observed = observe(execution.experiment, execution.records)
    peaks = {item.arm: item.peak_memory_bytes for item in observed.replicates}
    assert peaks == {"baseline": 500_000_000, "fast": None}


def test_a_guard_that_fails_does_not_hide_the_memory(limited):
    measured(limited, "fast", [9 * GIGABYTE] * 3)
    limited.change_evidence("fast", 1, digests={})
    _, reasons = judged(limited)
    assert {Code.MEMORY_INCREASED, Code.DIGEST_MISSING} <= set(reasons)
