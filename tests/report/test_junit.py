"""The JUnit document: one case for each reason, and nothing that XML cannot hold."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET

from compilegate.gate.findings import Code, Outcome, Reason
from compilegate.report import render_junit


def test_the_whole_counts_what_its_suites_count(verdict):
    root = ET.fromstring(render_junit(verdict).encode())  # noqa: S314 - written here
    assert root.attrib == {"name": "news-topics", "tests": "4", "failures": "1", "errors": "0"}


def parsed(verdict) -> dict[str, ET.Element]:
    root = ET.fromstring(render_junit(verdict).encode())  # noqa: S314 - written here
    return {suite.get("name"): suite for suite in root.findall("testsuite")}


def test_a_fail_is_a_failure_and_what_is_inconclusive_is_skipped(verdict):
    suites = parsed(verdict)
    larger, broken = suites["larger-batch"], suites["broken"]
    assert [larger.get(key) for key in ("tests", "failures", "skipped")] == ["2", "0", "1"]
    assert "about 5 seeds instead of 3" in larger.find("testcase/skipped").get("message")
    assert [broken.get(key) for key in ("tests", "failures", "skipped")] == ["1", "1", "0"]
    assert broken.find("testcase/failure").get("type") == "arm.failed"


def test_a_sound_baseline_is_one_case_that_passes_and_notes_are_output(verdict):
    suites = parsed(verdict)
    assert (
        suites["baseline"].get("tests") == str(len(suites["baseline"].findall("testcase"))) == "1"
    )
    assert suites["larger-batch"].findtext("system-out").startswith("Any of 2 candidates may win")


def test_text_from_outside_is_escaped_and_made_printable(verdict):
    hostile = Reason(Code.ARM_FAILED, Outcome.FAIL, 'a "<b>&\x00\x1b]]> c', {"seed": 2})
    candidate = dataclasses.replace(verdict.candidates[1], reasons=(hostile,))
    found = parsed(dataclasses.replace(verdict, candidates=(candidate,)))["broken"]
    assert found.find("testcase/failure").get("message") == 'a "<b>&  ]]> c'
    assert found.find("testcase").get("name") == "arm.failed seed 2"


def test_a_case_is_named_after_what_was_judged_whatever_came_of_it(verdict):
    """So that CI systems, which know cases by their names, see one fail that passed before."""
    reasons = [
        Reason(code, outcome, "Told.", {"metric": "accuracy", "part": part})
        for code, outcome, part in (
            (Code.QUALITY_WORSE, Outcome.FAIL, None),
            (Code.QUALITY_NOT_WORSE, Outcome.PASS, "language = de"),
        )
    ]
    reasons += [Reason(Code.EVIDENCE_UNREADABLE, Outcome.FAIL, "Told.", {"seed": 1})] * 2
    candidate = dataclasses.replace(verdict.candidates[0], reasons=tuple(reasons))
    suite = parsed(dataclasses.replace(verdict, candidates=(candidate,)))["larger-batch"]
    assert [case.get("name") for case in suite.findall("testcase")] == [
        "quality accuracy",
        "quality accuracy language = de",
        "evidence.unreadable seed 1",
        "evidence.unreadable seed 1 (2)",
    ]
    assert suite.find("testcase/failure").text == "Told."
