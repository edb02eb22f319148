"""A verdict as JUnit XML, for the test view of a CI system.

One suite for the baseline and one for each candidate, one case for each reason. A fail is a
failure and what is inconclusive is skipped: CI systems then show it without failing the build,
which is the decision's business. Notes go to the suite's output.

CI systems know a case by its suite and name, from run to run: so a name says what was judged and
not how it came out, and no two cases of a suite share one.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence

from compilegate.gate.findings import Note, Outcome, Reason
from compilegate.gate.verdict import Verdict
from compilegate.report.summary import JUDGED_IN_CELLS


def render_junit(verdict: Verdict) -> str:
    """The whole document. Everything that comes from outside is escaped."""
    suites = ET.Element("testsuites", name=_text(verdict.workload))
    baseline = _suite(verdict.baseline.arm, verdict.baseline.reasons, ())
    if verdict.baseline.sound:
        baseline.set("tests", "1")
        name = _text(verdict.baseline.arm)
        ET.SubElement(baseline, "testcase", classname=name, name="evidence is valid")
    suites.append(baseline)
    suites.extend(_suite(it.arm, it.reasons, it.notes) for it in verdict.candidates)
    for count in ("tests", "failures", "errors"):  # Jenkins knows no others here
        suites.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _suite(arm: str, reasons: Sequence[Reason], notes: Sequence[Note]) -> ET.Element:
    outcomes = [reason.outcome for reason in reasons]
    suite = ET.Element(
        "testsuite",
        name=_text(arm),
        tests=str(len(reasons)),
        failures=str(outcomes.count(Outcome.FAIL)),
        skipped=str(outcomes.count(Outcome.INCONCLUSIVE)),
        errors="0",
    )
    taken: Counter[str] = Counter()
    for reason in reasons:
        name = _name(reason)
        taken[name] += 1
        unique = name if taken[name] == 1 else f"{name} ({taken[name]})"
        case = ET.SubElement(suite, "testcase", classname=_text(arm), name=unique)
        _add_outcome(case, reason)
    if notes:
        output = ET.SubElement(suite, "system-out")
        output.text = "\n".join(_text(note.sentence) for note in notes)
    return suite


def _name(reason: Reason) -> str:
    numbers = reason.numbers
    judged = reason.code.subject in JUDGED_IN_CELLS
    about = (numbers.get("metric"), numbers.get("part"), numbers.get("column"))
    words = [reason.code.subject if judged else str(reason.code)]
    words += [str(word) for word in about if word is not None]
    if not judged and numbers.get("seed") is not None:
        words.append(f"seed {numbers['seed']}")
    return _text(" ".join(words))


def _add_outcome(case: ET.Element, reason: Reason) -> None:
    sentence = _text(reason.sentence)
    if reason.outcome is Outcome.FAIL:
        found = ET.SubElement(case, "failure", message=sentence, type=str(reason.code))
        found.text = sentence  # some systems show the text, and others the message
    elif reason.outcome is Outcome.INCONCLUSIVE:
        ET.SubElement(case, "skipped", message=sentence)
    else:
        ET.SubElement(case, "system-out").text = sentence


def _text(content: str) -> str:
    """Without the characters that XML 1.0 cannot hold at all."""
    return "".join(character if character.isprintable() else " " for character in content)
