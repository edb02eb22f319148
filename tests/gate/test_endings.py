"""Jobs that left no model: what the gate makes of each ending (`compilegate.job.endings`)."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.gate.findings import Code, Outcome
from compilegate.job.endings import ARM, ENDINGS, MACHINE, NEED, Ending
from compilegate.job.evidence import EvidenceRecord

SEEDS = (1, 2, 3)


def ends(execution, ending, *seeds, arm="fast"):
    """Jobs of an arm that ended so."""
    for seed in seeds:
        execution.fail(arm, seed, f"what happened: {ending.name}", ending.name)


def judged(execution):
    """The candidate's outcome, and the codes that decided it; the baseline is always released."""
    verdict = execution.judge()
    assert verdict.baseline.sound
    assert verdict.decision.arm == "baseline"
    (candidate,) = verdict.candidates
    return candidate.outcome, {
        reason.code for reason in candidate.reasons if reason.outcome is candidate.outcome
    }


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_one_job_that_ended_so(execution, ending: Ending) -> None:
    ends(execution, ending, 2)
    outcome, codes = judged(execution)
    if ending.about == ARM:
        assert (outcome, codes) == (Outcome.FAIL, {Code.ARM_FAILED})
    else:
        assert outcome is Outcome.INCONCLUSIVE
        assert Code.EVIDENCE_LOST in codes


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_all_jobs_of_an_arm_that_ended_so(execution, ending: Ending) -> None:
    """What the machine did to all of them is still not the arm's doing; a need that is met by none
    of its jobs is."""
    ends(execution, ending, *SEEDS)
    lost = ending.about == MACHINE
    expected = (
        (Outcome.INCONCLUSIVE, Code.EVIDENCE_LOST) if lost else (Outcome.FAIL, Code.ARM_FAILED)
    )
    outcome, codes = judged(execution)
    assert (outcome, expected[1] in codes) == (expected[0], True)


@pytest.mark.parametrize(
    "ending", [each for each in ENDINGS.values() if each.about == NEED], ids=lambda it: it.name
)
def test_what_ran_out_for_the_baseline_too_is_the_machine_s(execution, ending: Ending) -> None:
    ends(execution, ending, *SEEDS)
    execution.change_evidence("baseline", 3, attempts=(ending.name,))
    outcome, codes = judged(execution)
    assert outcome is Outcome.INCONCLUSIVE
    assert Code.EVIDENCE_LOST in codes


def test_a_failure_of_a_version_without_endings_is_the_arm_s(execution) -> None:
    ends(execution, ENDINGS["killed"], 2)
    record = execution.record("fast", 2)
    before = dataclasses.replace(record.evidence, ending=None)
    execution.records["fast", 2] = EvidenceRecord(before, None, None)
    assert judged(execution) == (Outcome.FAIL, {Code.ARM_FAILED})
