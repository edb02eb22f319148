"""The notice: what a verdict tells people who did not wait for it, as a mail would. Pure.

Sent when a candidate was refused or is inconclusive, or when nothing may be released. The gate's
job writes it beside the verdict whether it is sent or not; what sends it is elsewhere, and adds
where the execution and its report are found.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Final

from compilegate.gate.findings import Code, Outcome, Reason, clipped
from compilegate.gate.verdict import CandidateVerdict, Verdict
from compilegate.job.names import NO_ARM, NOTHING_NEW
from compilegate.report import cost
from compilegate.report.remedies import baseline_remedy, remedies

SCHEMA_VERSION: Final = 1
MOST_SUBJECT = 100
"""What Amazon SNS takes as a subject: 100 characters of ASCII, on one line."""
MOST_CANDIDATES = 20
MOST_REMEDY = 600
"""Characters; it may name two ways, each with its cost."""
MOST_REASONS = 8
"""How many reasons of a candidate a mail names; the report has the rest."""

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
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """`notice.json`: keys are the field names."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"


def notice_of(verdict: Verdict) -> Notice:
    """The notice of a verdict; `send` is false when every candidate passed."""
    open_ones = [item for item in verdict.candidates if item.outcome is not Outcome.PASS]
    return Notice(
        workload=verdict.workload,
        send=bool(open_ones) or verdict.decision.arm == NO_ARM,
        subject=_subject(verdict, open_ones),
        message="\n".join(_message(verdict, open_ones)) + "\n",
        lost=any(
            reason.code is Code.EVIDENCE_LOST
            for item in (verdict.baseline, *open_ones)  # an arm that trained alone is the baseline
            for reason in item.reasons
        ),
    )


def _subject(verdict: Verdict, open_ones: list[CandidateVerdict]) -> str:
    """What happened, in full where it fits, else counted."""
    released = verdict.decision.arm
    outcome = "nothing released" if released == NO_ARM else f"{released} released"
    if verdict.decision.registers == NOTHING_NEW:
        outcome = "nothing new"
    in_full = [f"{item.arm} {_IN_WORDS[item.outcome]}" for item in open_ones]
    counted = [
        f"{count} {words}"
        for expected, words in _IN_WORDS.items()
        if (count := sum(item.outcome is expected for item in open_ones))
    ]
    for parts in (in_full, counted):
        subject = _ascii(", ".join([f"{verdict.workload}: {outcome}", *parts]))
        if len(subject) <= MOST_SUBJECT:
            return subject
    return subject[: MOST_SUBJECT - 3] + "..."


def _message(verdict: Verdict, open_ones: list[CandidateVerdict]) -> list[str]:
    lines = [clipped(verdict.decision.sentence)]
    if verdict.baseline.reasons:
        no_successor = "may not replace the registered model"
        found = no_successor if verdict.baseline.sound else "is not valid"
        lines += ["", f"{clipped(verdict.baseline.arm)}, the baseline, {found}."]
        lines += _why(verdict.baseline.reasons)
        lines += ["  What to do:", f"  - {clipped(baseline_remedy(verdict.baseline), MOST_REMEDY)}"]
    for candidate in open_ones[:MOST_CANDIDATES]:
        lines += ["", *_candidate(verdict, candidate)]
    if len(open_ones) > MOST_CANDIDATES:
        lines += ["", f"The report has {len(open_ones) - MOST_CANDIDATES} more candidates."]
    if verdict.cost is not None:
        lines += ["", clipped(cost.gate_sentence(verdict.cost))]
    return lines


def _candidate(verdict: Verdict, candidate: CandidateVerdict) -> list[str]:
    deciding = [item for item in candidate.reasons if item.outcome is candidate.outcome]
    verb = "was" if candidate.outcome is Outcome.FAIL else "is"
    return [
        f"{clipped(candidate.arm)} {verb} {_IN_WORDS[candidate.outcome]}.",
        *_why(deciding),
        "  What to do:",
        *(f"  - {clipped(remedy, MOST_REMEDY)}" for remedy in remedies(verdict, candidate)),
    ]


def _why(reasons: list[Reason] | tuple[Reason, ...]) -> list[str]:
    lines = [f"  - {clipped(reason.sentence)}" for reason in reasons[:MOST_REASONS]]
    if len(reasons) > MOST_REASONS:
        lines.append(f"  - and {len(reasons) - MOST_REASONS} more reasons, in the report")
    return ["  Why:", *lines] if lines else []


def _ascii(text: str) -> str:
    return clipped(text, len(text)).encode("ascii", "replace").decode("ascii")
