"""The notice that a verdict gives to people who did not wait for it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from compilegate.gate.findings import Code, Outcome, Reason, failure
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Decision, Verdict
from compilegate.report import notice_of
from compilegate.report.notice import MOST_BYTES, MOST_SUBJECT


def candidate(arm: str, outcome: Outcome, *reasons: Reason) -> CandidateVerdict:
    return CandidateVerdict(arm, outcome, reasons, (), None, (), 0.95)


def verdict_of(*candidates: CandidateVerdict, released: str = "baseline") -> Verdict:
    return Verdict(
        workload="topics",
        seeds=(1, 2),
        confidence=0.95,
        decision=Decision(released, 1, f"Release {released}, seed 1."),
        baseline=BaselineVerdict("baseline", True, (), ()),
        candidates=candidates,
    )


def advice(message: str) -> list[str]:
    _, _, after = message.partition("  What to do:\n")
    return [line.removeprefix("  - ") for line in after.splitlines() if line.startswith("  - ")]


FAST, SLOW = candidate("fast", Outcome.PASS), candidate("slow", Outcome.FAIL)
UNDECIDED = candidate("open", Outcome.INCONCLUSIVE)
MANY = verdict_of(*[SLOW] * 24, UNDECIDED)


@pytest.mark.parametrize(
    ("verdict", "sent", "subject"),
    [
        (verdict_of(FAST, released="fast"), False, "fast released"),
        (verdict_of(SLOW, UNDECIDED), True, "baseline released, slow refused, open inconclusive"),
        (MANY, True, "baseline released, 24 refused, 1 inconclusive"),
        (verdict_of(released="none"), True, "nothing released"),
    ],
)
def test_nobody_is_disturbed_unless_something_was_refused_or_is_open(verdict, sent, subject):
    """Where nothing is released, also when no candidate is to blame."""
    notice = notice_of(verdict)
    assert (notice.send, notice.subject) == (sent, f"topics: {subject}")
    assert json.loads(notice.to_json()) == asdict(notice)


def test_each_arm_that_did_not_pass_has_why_and_what_to_do(verdict):
    diverged = failure(Code.ARM_FAILED, "Diverged.")
    unsound = replace(verdict.baseline, sound=False, reasons=(diverged,))
    message = notice_of(replace(verdict, baseline=unsound)).message
    undecided, passed = verdict.candidates[0].reasons
    for reason in (diverged, undecided, *verdict.candidates[1].reasons):
        assert f"\n  Why:\n  - {reason.sentence}\n  What to do:\n  - " in message
    assert "[gate.metrics.log_loss]" in message
    assert "[arms.broken]" in message
    assert passed.sentence not in message, "it decides nothing here"


@pytest.mark.parametrize("code", Code)
def test_every_kind_of_finding_has_something_to_do_and_a_way_to_do_without(code):
    failed = candidate("a", Outcome.FAIL, failure(code, "Found."))
    first, *_, last = advice(notice_of(verdict_of(failed)).message)
    assert first.endswith(".")
    assert "`enabled = false`" in last


def test_all_reasons_are_whole_and_advice_that_seeds_share_is_given_once():
    sentences = [f"Seed {seed}: {'because ' * 300}of that." for seed in range(1, 13)]
    reasons = (failure(Code.ARM_FAILED, sentence) for sentence in sentences)
    message = notice_of(verdict_of(candidate("fast", Outcome.FAIL, *reasons))).message
    assert [sentence for sentence in sentences if sentence not in message] == []
    assert len(advice(message)) == 2


@pytest.mark.parametrize("length", [10, 5_000, 50_000])
@pytest.mark.parametrize("name", ["x", "\N{EURO SIGN}\r\n\x00" * 30])
def test_subject_and_message_are_what_sns_takes(name, length):
    long = failure(Code.QUALITY_WORSE, "\N{EURO SIGN}" * length)
    verdict = verdict_of(*[candidate(name, Outcome.FAIL, long)] * 25)
    notice = notice_of(replace(verdict, workload=name))
    assert 1 <= len(notice.subject) <= MOST_SUBJECT
    assert notice.subject.isascii()
    assert notice.subject.isprintable()
    assert len(notice.message.encode()) <= MOST_BYTES + 100
