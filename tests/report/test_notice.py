"""The notice that a verdict gives to people who did not wait for it."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.gate.findings import Code, Outcome, Reason
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Decision, Verdict
from compilegate.report import notice_of
from compilegate.report.notice import MOST_BYTES, MOST_SUBJECT


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


def test_each_candidate_that_did_not_pass_has_why_and_what_to_do(verdict):
    notice = notice_of(verdict)
    assert notice.send
    assert notice.subject == (
        "news-topics: baseline released, larger-batch inconclusive, broken refused"
    )
    assert verdict.candidates[0].reasons[0].sentence in notice.message
    assert "  - To decide, judge on about 4,300 validation examples" in notice.message
    assert verdict.candidates[1].reasons[0].sentence in notice.message
    assert "[arms.broken]" in notice.message
    assert "Speed-up 1.37 times" not in notice.message, "what passed decides nothing here"


def test_nobody_is_disturbed_when_every_candidate_passed():
    passed = candidate("fast", Code.SPEED_FASTER, Outcome.PASS)
    notice = notice_of(verdict_of(passed, released="fast"))
    assert (notice.send, notice.subject) == (False, "topics: fast released")


def test_a_release_of_nothing_is_sent_even_when_no_candidate_is_to_blame(verdict):
    diverged = Reason(Code.ARM_FAILED, Outcome.FAIL, "Seed 1: diverged.")
    nothing = replace(
        verdict,
        baseline=BaselineVerdict("baseline", False, (diverged,), ()),
        candidates=(),
        decision=Decision("none", 1, "Release nothing."),
    )
    notice = notice_of(nothing)
    assert (notice.send, notice.subject) == (True, "news-topics: nothing released")
    assert "\n  Why:\n  - Seed 1: diverged.\n  What to do:\n" in notice.message


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (Code.SPEED_UNDECIDED, "`epochs`"),
        (Code.SPEED_UNMEASURED, "`epochs`"),
        (Code.QUALITY_UNDECIDED, "validation examples"),
        (Code.QUALITY_SINGLE_SEED, "`seeds`"),
        (Code.QUALITY_WORSE, "`learning_rate`"),
        (Code.SPEED_BELOW_MINIMUM, "`batch_size`"),
        (Code.PARITY_DIFFERS, "backend"),
        (Code.EVIDENCE_UNREADABLE, "logs"),
    ],
)
def test_what_to_do_follows_from_what_was_found(code, words):
    message = notice_of(verdict_of(candidate("fast", code, Outcome.FAIL))).message
    assert words in advice(message)[0]


@pytest.mark.parametrize("code", Code)
def test_every_kind_of_finding_has_something_to_do_and_a_way_to_do_without(code):
    first, *_, last = advice(notice_of(verdict_of(candidate("a", code, Outcome.FAIL))).message)
    assert first.endswith(".")
    assert "`enabled = false`" in last


def test_all_reasons_are_whole_and_advice_that_seeds_share_is_given_once():
    reasons = tuple(
        Reason(Code.ARM_FAILED, Outcome.FAIL, f"Seed {seed}: {'because ' * 300}of that.")
        for seed in range(1, 13)
    )
    failed = replace(candidate("fast", Code.ARM_FAILED, Outcome.FAIL), reasons=reasons)
    message = notice_of(verdict_of(failed)).message
    assert [reason for reason in reasons if reason.sentence not in message] == []
    assert len(advice(message)) == 2


@pytest.mark.slow
@settings(max_examples=20)
@given(
    arms=st.lists(st.text(min_size=1, max_size=60), max_size=25),
    workload=st.text(min_size=1, max_size=150),
    length=st.sampled_from([10, 5_000, 50_000]),
)
def test_subject_and_message_are_what_sns_takes(arms: Sequence[str], workload: str, length: int):
    candidates = [
        candidate(arm, Code.QUALITY_WORSE, Outcome.FAIL, "\N{EURO SIGN}" * length) for arm in arms
    ]
    notice = notice_of(replace(verdict_of(*candidates), workload=workload))
    assert 1 <= len(notice.subject) <= MOST_SUBJECT
    assert set(notice.subject) <= set(string.printable) - set("\t\n\r\x0b\x0c")
    assert len(notice.message.encode()) <= MOST_BYTES + 100
    assert json.loads(notice.to_json()) == asdict(notice)


def test_many_candidates_are_counted_in_the_subject():
    worse = [candidate(f"arm-{i:02}", Code.QUALITY_WORSE, Outcome.FAIL) for i in range(24)]
    open_one = candidate("x", Code.SPEED_UNDECIDED, Outcome.INCONCLUSIVE)
    notice = notice_of(verdict_of(*worse, open_one))
    assert notice.subject == "topics: baseline released, 24 refused, 1 inconclusive"
