"""The JUnit document: one case for each reason, and nothing that XML cannot hold."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from compilegate.gate.findings import Code, Outcome, Reason, failure
from compilegate.gate.verdict import Verdict
from compilegate.report import render_junit


def suites(verdict: Verdict, *reasons: Reason) -> list[ET.Element]:
    """By arm; the first candidate has these reasons, if any are given."""
    first, *others = verdict.candidates
    changed = replace(first, reasons=reasons or first.reasons)
    other = replace(verdict, candidates=(changed, *others))
    return ET.fromstring(render_junit(other).encode()).findall("testsuite")  # noqa: S314 - our own


def test_a_fail_is_a_failure_and_what_is_inconclusive_is_skipped(verdict):
    keys = ("tests", "failures", "skipped")
    found = [[it.get(key) for key in keys] for it in suites(verdict)]
    assert found == [["1", "0", "0"], ["2", "0", "1"], ["1", "1", "0"]]
    _, larger, broken = suites(verdict)
    first = verdict.candidates[0]
    assert larger.find("testcase/skipped").get("message") == first.reasons[0].sentence
    assert larger.findtext("system-out") == first.notes[0].sentence
    assert broken.find("testcase/failure").get("type") == "arm.failed"


def test_text_from_outside_is_escaped_and_made_printable(verdict):
    _, suite, _ = suites(verdict, failure(Code.ARM_FAILED, 'a "<b>&\x00\x1b]]> c'))
    found = suite.find("testcase/failure")
    assert found.get("message") == found.text == 'a "<b>&  ]]> c'


def test_a_case_is_named_after_what_was_judged_whatever_came_of_it(verdict):
    """So that CI systems, which know cases by their names, see one fail that passed before."""
    german = {"metric": "accuracy", "part": "language = de"}
    reasons = [
        Reason(Code.QUALITY_WORSE, Outcome.FAIL, "Found.", {"metric": "accuracy", "part": None}),
        Reason(Code.QUALITY_NOT_WORSE, Outcome.PASS, "Found.", german),
        *[Reason(Code.EVIDENCE_UNREADABLE, Outcome.FAIL, "Found.", {"seed": 1})] * 2,
    ]
    _, suite, _ = suites(verdict, *reasons)
    assert [case.get("name") for case in suite.findall("testcase")] == [
        "quality accuracy",
        "quality accuracy language = de",
        "evidence.unreadable seed 1",
        "evidence.unreadable seed 1 (2)",
    ]
