"""Jobs that left no model: what the gate makes of each ending (`compilegate.job.endings`)."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.gate.findings import Code, Outcome
from compilegate.job.endings import ARM, ENDINGS, MACHINE, NEED, Ending
from compilegate.job.evidence import EvidenceRecord

SEEDS = (1, 2, 3)


LOST = Outcome.INCONCLUSIVE, Code.EVIDENCE_LOST
FAILED = Outcome.FAIL, Code.ARM_FAILED


def ends(execution, ending, *seeds):
    """Jobs of the candidate that ended so."""
    for seed in seeds:
        execution.fail("fast", seed, f"what happened; {ending.says}", ending.name)


def judged(execution):
    """The candidate's outcome, and the first code that decided it; the baseline is released."""
    verdict = execution.judge()
    assert verdict.baseline.sound
    assert verdict.decision.arm == "baseline"
    (candidate,) = verdict.candidates
    return candidate.outcome, candidate.reasons[0].code


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_what_an_ending_says_of_the_arm(execution, ending: Ending) -> None:
    """What the machine did to all of its jobs is still not the arm's doing; a need that is met by
    none of them is, unless the baseline met it too."""
    ends(execution, ending, 2)
    assert judged(execution) == (FAILED if ending.about == ARM else LOST)
    ends(execution, ending, *SEEDS)
    assert judged(execution) == (LOST if ending.about == MACHINE else FAILED)
    if ending.about == NEED:
        execution.alter("baseline", 3, attempts=(ending.name,))
        assert judged(execution) == LOST


def test_a_failure_of_a_version_without_endings_is_the_arm_s(execution) -> None:
    ends(execution, ENDINGS["killed"], 2)
    record = execution.record("fast", 2)
    before = dataclasses.replace(record.evidence, ending=None)
    execution.records["fast", 2] = EvidenceRecord(before, None, None)
    assert judged(execution) == FAILED
