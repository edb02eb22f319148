"""Parity's part in a verdict: apart from the outcome, and with a veto."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from compilegate.evidence import read_records
from compilegate.gate.judge import judge
from compilegate.gate.judgements import ParityAnswer
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import ParitySettings
from compilegate.gate.verdict import Verdict

WRONG = np.full((2, 3), 1e-3)
OBSTACLE = "the step cannot be computed in float64 here"


def reasons_about_parity(verdict: Verdict) -> list[tuple[Code, Outcome]]:
    reasons = verdict.candidates[0].reasons
    return [(each.code, each.outcome) for each in reasons if each.code.startswith("parity.")]


def notes_about_parity(verdict: Verdict) -> list[str]:
    notes = verdict.candidates[0].notes
    return [each.sentence for each in notes if each.code is Code.PARITY_CANNOT_TELL]


def test_the_same_arithmetic_is_a_reason_to_pass(execution):
    (candidate,) = execution.judge().candidates
    assert candidate.outcome is Outcome.PASS
    assert candidate.parity.answer is ParityAnswer.PASS
    assert candidate.parity.worst.ratio < 1.2
    (reason,) = [each for each in candidate.reasons if each.code is Code.PARITY_ALIKE]
    assert reason.sentence.startswith(f"Seed {candidate.parity.seed} (of 3 measured): The ")
    assert set(reason.numbers) == {"seed", "tensor", "step", "ratio", "limit"}


def test_other_arithmetic_fails_a_candidate_whose_models_are_as_good(execution):
    execution.change_parity("fast", 2, compiled=WRONG)
    verdict = execution.judge()
    (candidate,) = verdict.candidates
    assert candidate.outcome is Outcome.FAIL
    assert {metric.outcome for metric in candidate.metrics} == {Outcome.PASS}
    assert (candidate.parity.answer, candidate.parity.seed) == (ParityAnswer.FAIL, 2)
    assert candidate.reasons[0].code is Code.PARITY_DIFFERS
    assert verdict.decision.arm == "baseline"


@pytest.mark.slow
def test_a_candidate_with_other_arithmetic_is_not_among_those_that_pass(new_execution):
    """For Holm's procedure: each that passes makes the confidence asked of the rest milder."""
    execution = new_execution(candidates=("one", "other"))
    assert [each.confidence for each in execution.judge().candidates] == [0.975, 0.975]
    execution.change_parity("one", 1, compiled=WRONG)
    verdict = execution.judge()
    assert reasons_about_parity(verdict) == [(Code.PARITY_DIFFERS, Outcome.FAIL)]
    assert [each.confidence for each in verdict.candidates] == [0.95, 0.975]
    assert verdict.decision.arm == "other"


def test_what_parity_cannot_tell_is_said_and_fails_nothing(execution):
    for seed in (1, 2, 3):
        execution.without_parity("fast", seed, OBSTACLE)
    verdict = execution.judge()
    assert verdict.candidates[0].outcome is Outcome.PASS
    assert verdict.candidates[0].parity.answer is ParityAnswer.CANNOT_TELL
    assert reasons_about_parity(verdict) == []
    assert notes_about_parity(verdict) == [
        f"Seed 1 (of 3 measured): Parity cannot tell: {OBSTACLE}."
    ]


def test_a_training_program_without_a_probe_is_told_so(execution):
    for seed in (1, 2, 3):
        execution.without_parity("fast", seed)
    verdict = execution.judge()
    assert verdict.candidates[0].outcome is Outcome.PASS
    (note,) = notes_about_parity(verdict)
    assert note.endswith("the job did not compare its steps with eager ones.")


def test_one_replicate_that_can_tell_is_enough(new_execution):
    execution = new_execution(parity=ParitySettings(required=True))
    execution.without_parity("fast", 1)
    execution.without_parity("fast", 2, OBSTACLE)
    verdict = execution.judge()
    assert verdict.candidates[0].outcome is Outcome.PASS
    assert verdict.candidates[0].parity.seed == 3
    (reason,) = [each for each in verdict.candidates[0].reasons if each.code is Code.PARITY_ALIKE]
    assert reason.sentence.endswith(" Parity cannot tell for seed 1, 2.")


def test_where_parity_is_required_silence_fails(new_execution):
    execution = new_execution(parity=ParitySettings(required=True))
    for seed in (1, 2, 3):
        execution.without_parity("fast", seed)
    verdict = execution.judge()
    assert verdict.candidates[0].outcome is Outcome.FAIL
    assert reasons_about_parity(verdict) == [(Code.PARITY_CANNOT_TELL, Outcome.FAIL)]
    assert verdict.candidates[0].reasons[0].sentence.endswith("The workload requires parity.")


def test_a_candidate_without_a_compiler_has_no_parity_to_show(new_execution):
    execution = new_execution(parity=ParitySettings(required=True))
    arms = dict(execution.experiment.arms)
    arms["fast"] = arms["fast"].model_copy(update={"compiler": "eager"})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    for seed in (1, 2, 3):
        compiler = execution.record("fast", seed).evidence.compiler
        eager = dataclasses.replace(compiler, name="eager", ran=False, graphs=0)
        execution.change_evidence("fast", seed, compiler=eager)
        execution.without_parity("fast", seed)
    (candidate,) = execution.judge().candidates
    assert (candidate.outcome, candidate.parity) == (Outcome.PASS, None)


def test_parity_can_be_left_out(new_execution):
    execution = new_execution(parity=ParitySettings(enabled=False))
    execution.change_parity("fast", 1, compiled=WRONG)
    verdict = execution.judge()
    assert verdict.candidates[0].outcome is Outcome.PASS
    assert verdict.candidates[0].parity is None


def test_the_declared_limit_is_the_one_that_is_judged_by(new_execution):
    execution = new_execution(parity=ParitySettings(fp32_limit=1.05))
    execution.change_parity("fast", 3, compiled=np.full((2, 3), 7e-7))
    assert execution.judge().candidates[0].outcome is Outcome.FAIL


def test_parity_errors_that_were_taken_away_or_changed_fail_the_replicate(execution):
    """Else whoever drops the record of a miscompile turns a fail into "cannot tell"."""
    execution.change_evidence("fast", 1, parity=None)
    execution.records["fast", 1] = dataclasses.replace(execution.record("fast", 1), parity=None)
    record = execution.record("fast", 2)
    changed = dataclasses.replace(record.parity, compiled=record.parity.eager)
    execution.records["fast", 2] = dataclasses.replace(record, parity=changed)
    reasons = execution.judge().candidates[0].reasons
    about_seeds = [each for each in reasons if "seed" in each.numbers]
    assert [(each.code, each.numbers["seed"]) for each in about_seeds] == [
        (Code.DIGEST_DIFFERS, 1),
        (Code.DIGEST_DIFFERS, 2),
        (Code.PARITY_NOT_MEASURED, 2),
        (Code.PARITY_ALIKE, 3),
    ]


DEPARTS = "In the backward pass, conv departs first"


def miscompiled(execution, seed, **found):
    """A compiled step whose last gradient is zero, and what the job found out about it."""
    zero = np.array([[4e-7, 4e-7, 1.0], [4e-7, 4e-7, 1.0]])
    parity = dataclasses.replace(execution.record("fast", seed).evidence.parity, **found)
    execution.change_evidence("fast", seed, parity=parity)
    execution.change_parity("fast", seed, compiled=zero)


def test_what_departs_first_and_its_script_are_named(execution):
    miscompiled(execution, 2, departs=f"{DEPARTS}.", repro="parity_repro")
    (candidate,) = execution.judge().candidates
    (told,) = (it.sentence for it in candidate.reasons if it.code is Code.PARITY_DIFFERS)
    assert f"{DEPARTS}. See it by itself: repros/fast--2/repro.py." in told
    assert (candidate.parity.departs, candidate.parity.repro) == (
        f"{DEPARTS}.",
        "repros/fast--2/repro.py",
    )


def test_without_a_script_there_is_nothing_to_link_to(execution):
    miscompiled(execution, 2, departs=f"{DEPARTS}. There is no repro: it took too long.")
    (candidate,) = execution.judge().candidates
    assert candidate.parity.repro is None
    (told,) = (it.sentence for it in candidate.reasons if it.code is Code.PARITY_DIFFERS)
    assert told.endswith("There is no repro: it took too long.")


def test_arithmetic_that_is_alike_has_no_script(execution):
    parity = dataclasses.replace(execution.record("fast", 1).evidence.parity, repro="parity_repro")
    execution.change_evidence("fast", 1, parity=parity)
    (candidate,) = execution.judge().candidates
    assert candidate.parity.repro is None


@pytest.mark.parametrize("silent", [{"steps": 0}, {"enabled": False}])
def test_what_is_not_measured_cannot_be_required(silent):
    with pytest.raises(ValueError, match="but required is true, allowed: one of them"):
        ParitySettings(required=True, **silent)


def test_the_verdict_on_parity_is_read_back(execution):
    execution.change_parity("fast", 2, compiled=np.full((2, 3), np.nan))
    verdict = execution.judge()
    assert verdict.candidates[0].parity.worst.ratio is None
    assert Verdict.from_json(verdict.to_json()) == verdict


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"not an archive"])
def test_parity_errors_that_cannot_be_read_fail_the_replicate(execution, tmp_path, content):
    execution.write(tmp_path)
    (tmp_path / "evidence" / "fast--2" / "evidence" / "parity.npz").write_bytes(content)
    records = read_records(tmp_path / "evidence", execution.experiment.replicates)
    (candidate,) = judge(execution.experiment, records).candidates
    assert candidate.reasons[0].code is Code.EVIDENCE_UNREADABLE
    assert "parity.npz cannot be read" in candidate.reasons[0].sentence
