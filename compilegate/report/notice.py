"""The notice: what a verdict says to people who did not wait for it, as a mail would. Pure.

Sent when a candidate was refused or is inconclusive, or when nothing may be released. The gate's
job writes it beside the verdict whether it is sent or not; what sends it is elsewhere, and adds
where the execution and its report are found.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from compilegate.gate.findings import Code, Outcome, clipped
from compilegate.gate.verdict import CandidateVerdict, Verdict
from compilegate.job.contract import NO_ARM, NOTHING_NEW
from compilegate.report.savings import gate_sentence
from compilegate.report.summary import arm_summaries

MOST_SUBJECT = 100
"""What Amazon SNS takes as a subject: 100 characters of ASCII, on one line."""
MOST_BYTES = 250_000
"""The longest message: SNS takes 262,144 bytes, and the sender adds where the report is."""
_IN_WORDS = {Outcome.FAIL: "refused", Outcome.INCONCLUSIVE: "inconclusive"}


@dataclass(frozen=True)
class Notice:
    """A subject and a text, and whether anybody has to hear of it."""

    workload: str
    send: bool
    subject: str
    """100 printable characters of ASCII at most."""
    message: str
    lost: bool = False
    """Whether the machines lost a candidate's job, so that it is worth another start."""
    schema_version: int = 1

    def to_json(self) -> str:
        """`notice.json`: keys are the field names."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"


def notice_of(verdict: Verdict) -> Notice:
    """The notice of a verdict; `send` is false when every candidate passed."""
    open_ones = [item for item in verdict.candidates if item.outcome is not Outcome.PASS]
    # An arm that trained alone is the baseline.
    reasons = [it for each in (verdict.baseline, *open_ones) for it in each.reasons]
    return Notice(
        workload=verdict.workload,
        send=bool(open_ones) or verdict.decision.arm == NO_ARM,
        subject=_subject(verdict, open_ones),
        message=_fitting(_message(verdict)),
        lost=any(reason.code is Code.EVIDENCE_LOST for reason in reasons),
    )


def _subject(verdict: Verdict, open_ones: Sequence[CandidateVerdict]) -> str:
    """What happened, in full where it fits, else counted."""
    released = verdict.decision.arm
    outcome = "nothing released" if released == NO_ARM else f"{released} released"
    if verdict.decision.registers == NOTHING_NEW:
        outcome = "nothing new"
    outcomes = [item.outcome for item in open_ones]
    in_full = [f"{item.arm} {_IN_WORDS[item.outcome]}" for item in open_ones]
    counted = [f"{outcomes.count(it)} {_IN_WORDS[it]}" for it in _IN_WORDS if it in outcomes]
    subject = ""
    for parts in (in_full, counted):
        subject = ", ".join([f"{verdict.workload}: {outcome}", *parts])
        subject = _printable(subject).encode("ascii", "replace").decode("ascii")
        if len(subject) <= MOST_SUBJECT:
            return subject
    return subject[: MOST_SUBJECT - 3] + "..."


def _message(verdict: Verdict) -> list[str]:
    lines = [verdict.decision.sentence]
    for each in arm_summaries(verdict):
        if each.outcome is not Outcome.PASS:
            lines += ["", f"{each.arm}: {each.found}.", "  Why:"]
            lines += [f"  - {sentence}" for sentence in each.reasons]
            lines += ["  What to do:", *(f"  - {remedy}" for remedy in each.remedies)]
    return lines if verdict.cost is None else [*lines, "", gate_sentence(verdict.cost)]


def _fitting(lines: Sequence[str]) -> str:
    """Whole lines, as many as one mail takes."""
    shown: list[str] = []
    size = 0
    for line in map(_printable, lines):
        size += len(line.encode()) + 1
        if size > MOST_BYTES:
            shown.append("The rest is in the report: it does not fit in one mail.")
            break
        shown.append(line)
    return "\n".join(shown) + "\n"


def _printable(text: str) -> str:
    return clipped(text, len(text))
