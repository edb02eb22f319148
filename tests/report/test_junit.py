"""The JUnit document: one case for each reason, and nothing that XML cannot hold."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET

from compilegate.gate.findings import Code, Outcome, Reason
from compilegate.gate.verdict import Verdict
from compilegate.report import render_junit


def parsed(verdict: Verdict) -> ET.Element:
    return ET.fromstring(render_junit(verdict).encode())  # noqa: S314 - written here


def cases(verdict: Verdict, reasons: list[Reason]) -> list[ET.Element]:
    """Of a candidate with these reasons."""
    candidate = dataclasses.replace(verdict.candidates[0], reasons=tuple(reasons))
    root = parsed(dataclasses.replace(verdict, candidates=(candidate,)))
    return root.findall("testsuite")[1].findall("testcase")


def test_a_fail_is_a_failure_and_what_is_inconclusive_is_skipped(verdict):
    root = parsed(verdict)
    assert root.attrib == {"name": "news-topics", "tests": "4", "failures": "1", "errors": "0"}
    baseline, larger, broken = root.findall("testsuite")
    assert (baseline.get("tests"), len(baseline.findall("testcase"))) == ("1", 1)
    assert [larger.get(key) for key in ("tests", "failures", "skipped")] == ["2", "0", "1"]
    sentence = verdict.candidates[0].reasons[0].sentence
    assert larger.find("testcase/skipped").get("message") == sentence
    assert larger.findtext("system-out") == verdict.candidates[0].notes[0].sentence
    assert [broken.get(key) for key in ("tests", "failures", "skipped")] == ["1", "1", "0"]
    assert broken.find("testcase/failure").get("type") == "arm.failed"


def test_text_from_outside_is_escaped_and_made_printable(verdict):
    hostile = Reason(Code.ARM_FAILED, Outcome.FAIL, 'a "<b>&\x00\x1b]]> c', {"seed": 2})
    (case,) = cases(verdict, [hostile])
    assert case.find("failure").get("message") == case.find("failure").text == 'a "<b>&  ]]> c'


def test_a_case_is_named_after_what_was_judged_whatever_came_of_it(verdict):
    """So that CI systems, which know cases by their names, see one fail that passed before."""
    german = {"metric": "accuracy", "part": "language = de"}
    reasons = [
        Reason(Code.QUALITY_WORSE, Outcome.FAIL, "Found.", {"metric": "accuracy", "part": None}),
        Reason(Code.QUALITY_NOT_WORSE, Outcome.PASS, "Found.", german),
        *[Reason(Code.EVIDENCE_UNREADABLE, Outcome.FAIL, "Found.", {"seed": 1})] * 2,
    ]
    assert [case.get("name") for case in cases(verdict, reasons)] == [
        "quality accuracy",
        "quality accuracy language = de",
        "evidence.unreadable seed 1",
        "evidence.unreadable seed 1 (2)",
    ]
