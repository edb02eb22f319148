"""The notice that a verdict gives to people who did not wait for it."""

from __future__ import annotations

import dataclasses
import json
import string
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.gate.findings import Code, Outcome, Reason
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Decision, Verdict
from compilegate.report import notice_of
from compilegate.report.notice import MOST_SUBJECT


def candidate(arm: str, code: Code, outcome: Outcome, sentence: str = "Found.") -> CandidateVerdict:
    return CandidateVerdict(arm, outcome, (Reason(code, outcome, sentence),), (), None, (), 0.95)


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


def test_a_refused_and_an_inconclusive_candidate_are_told_with_why_and_what_to_do(verdict):
    notice = notice_of(verdict)
    assert notice.send
    assert notice.subject == (
        "news-topics: baseline released, larger-batch inconclusive, broken refused"
    )
    assert "log_loss: +0.0222 nats against the baseline" in notice.message
    assert "To settle it, add about 4,300 validation examples (2.0 times as many)" in notice.message
    assert "Seed 2: the arm could not be trained: a | b <loss> is nan." in notice.message
    assert "remove [arms.broken] from the workload's file" in notice.message
    assert "Speed-up 1.37 times" not in notice.message, "what speaks for it decides nothing here"


def test_nobody_is_disturbed_when_every_candidate_passed():
    passed = candidate("fast", Code.SPEED_FASTER, Outcome.PASS)
    notice = notice_of(verdict_of(passed, released="fast"))
    assert not notice.send
    assert notice.subject == "topics: fast released"


def test_a_release_of_nothing_is_told_even_when_no_candidate_is_to_blame(verdict):
    unsound = BaselineVerdict(
        "baseline", False, (Reason(Code.ARM_FAILED, Outcome.FAIL, "Seed 1: diverged."),), ()
    )
    nothing = dataclasses.replace(
        verdict, baseline=unsound, candidates=(), decision=Decision("none", 1, "Release nothing.")
    )
    notice = notice_of(nothing)
    assert notice.send
    assert notice.subject == "news-topics: nothing released"
    assert "baseline, the baseline, is not valid.\n  Why:\n  - Seed 1: diverged." in notice.message


@pytest.mark.parametrize(
    ("code", "outcome", "told"),
    [
        (Code.SPEED_UNDECIDED, Outcome.INCONCLUSIVE, "Benchmark longer: raise `epochs`"),
        (Code.SPEED_UNMEASURED, Outcome.INCONCLUSIVE, "Benchmark longer: raise `epochs`"),
        (Code.QUALITY_UNDECIDED, Outcome.INCONCLUSIVE, "More seeds alone would not settle this"),
        (Code.QUALITY_SINGLE_SEED, Outcome.INCONCLUSIVE, "Declare two or more `seeds`"),
        (Code.QUALITY_WORSE, Outcome.FAIL, "another `batch_size` or `learning_rate`"),
        (Code.SPEED_BELOW_MINIMUM, Outcome.FAIL, "larger `batch_size` or another backend"),
        (Code.PARITY_DIFFERS, Outcome.FAIL, "compiled arithmetic differs"),
        (Code.EVIDENCE_UNREADABLE, Outcome.FAIL, "Its evidence cannot be trusted"),
        (Code.EVIDENCE_CHANGED, Outcome.FAIL, "Its evidence cannot be trusted"),
    ],
)
def test_what_to_do_follows_from_what_was_found(code, outcome, told):
    message = notice_of(verdict_of(candidate("fast", code, outcome))).message
    assert told in advice(message)[0]


@pytest.mark.parametrize("code", Code)
def test_every_kind_of_finding_has_something_to_do_and_a_way_to_do_without(code):
    first, *_, last = advice(notice_of(verdict_of(candidate("a", code, Outcome.FAIL))).message)
    assert first.endswith(".")
    assert last == (
        "Or stop trying it: `enabled = false` in [schedule]. "
        "Meanwhile the baseline's model is released."
    )


def test_a_finding_that_several_seeds_share_is_advised_on_once():
    reason = Reason(Code.ARM_FAILED, Outcome.FAIL, "Seed 1: diverged.")
    failed = dataclasses.replace(
        candidate("fast", Code.ARM_FAILED, Outcome.FAIL), reasons=(reason,) * 12
    )
    message = notice_of(verdict_of(failed)).message
    assert message.count("Read the log of the failed job") == 1
    assert message.count("Seed 1: diverged.") == 8
    assert "and 4 more reasons, in the report" in message


@pytest.mark.slow
@settings(max_examples=20)
@given(
    arms=st.lists(st.text(min_size=1, max_size=60), max_size=25),
    workload=st.text(min_size=1, max_size=150),
    outcome=st.sampled_from([Outcome.FAIL, Outcome.INCONCLUSIVE]),
)
def test_the_subject_is_one_that_sns_takes_and_the_text_a_mail(
    arms: Sequence[str], workload: str, outcome: Outcome
):
    candidates = [candidate(arm, Code.QUALITY_WORSE, outcome, "x" * 5000) for arm in arms]
    notice = notice_of(dataclasses.replace(verdict_of(*candidates), workload=workload))
    assert 1 <= len(notice.subject) <= MOST_SUBJECT
    assert set(notice.subject) <= set(string.printable) - set("\t\n\r\x0b\x0c")
    assert len(notice.message.encode()) < 64_000
    assert json.loads(notice.to_json()) == dataclasses.asdict(notice)


def test_many_candidates_are_counted_in_the_subject_and_only_some_are_told_in_full():
    worse = [candidate(f"arm-{i:02}", Code.QUALITY_WORSE, Outcome.FAIL) for i in range(24)]
    notice = notice_of(
        verdict_of(*worse, candidate("x", Code.SPEED_UNDECIDED, Outcome.INCONCLUSIVE))
    )
    assert notice.subject == "topics: baseline released, 24 refused, 1 inconclusive"
    assert "The report has 5 more candidates." in notice.message
