"""Decisions that move a posture, from DynamoDB's stream. Pure.

Each record of the stream is one item of the posture's table: what was decided, when, by whom and
why. It comes at least once, in order, whoever decided: a gate's verdict, a crash or a person.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from notifier.messages import Message, message

_NEXT = {
    "off": "The baseline trains alone until a person changes that.",
    "benchmark": "The next execution trains all arms; the baseline is registered.",
    "shadow": "All arms train; the gate decides what is registered.",
    "on": "From the next execution on the candidate trains alone, with audits of all arms.",
    "reverted": "The baseline trains alone and is registered, until a person resets the posture or "
    "an image changes.",
}
_REMEDIES = {
    "off": ["posture {0} reset --aws --reason WHY     begin with a benchmark"],
    "benchmark": ["posture {0} off --aws --reason WHY   train the baseline alone instead"],
    "shadow": ["posture {0} off --aws --reason WHY   train the baseline alone instead"],
    "on": ["posture {0} shadow --aws --reason WHY  let all arms train on"],
    "reverted": [
        "aws watch EXECUTION                  see the verdict and its report",
        "posture {0} reset --aws --reason WHY  begin again, once the cause is fixed",
    ],
}


class DecisionError(Exception):
    """A record of the stream that is no decision. The message says what it lacks."""


@dataclass(frozen=True)
class Decision:
    """One decision that moved the posture."""

    workload: str
    part: str
    """Which record and which of its decisions: the same for every delivery."""
    when: str
    who: str
    before: str
    after: str
    reason: str
    registered: str
    """The arm that the execution registered; empty where no execution made the decision."""


def read_decisions(event: Mapping[str, Any]) -> Iterator[Decision]:
    """Those in one batch that moved the posture."""
    for record in event["Records"]:
        image = (record.get("dynamodb") or {}).get("NewImage") or {}
        if record.get("eventName") == "INSERT" and _text(image, "moved", "no") == "yes":
            yield _decision(image)


def _decision(image: Mapping[str, Any]) -> Decision:
    try:
        registered = json.loads(_text(image, "decision"))["event"].get("registered", "")
    except (ValueError, KeyError, AttributeError) as error:
        raise DecisionError(f"a decision cannot be read: {error!r}") from error
    return Decision(
        workload=_text(image, "workload"),
        part=_text(image, "part"),
        when=_text(image, "when"),
        who=_text(image, "who"),
        before=_text(image, "before"),
        after=_text(image, "after"),
        reason=_text(image, "reason"),
        registered=str(registered),
    )


def _text(image: Mapping[str, Any], name: str, otherwise: str | None = None) -> str:
    value = (image.get(name) or {}).get("S", otherwise)
    if not isinstance(value, str):
        raise DecisionError(f"a decision has no {name}")
    return value


def decision_message(decision: Decision) -> Message:
    """What happened, what was registered instead, and what people can do."""
    name = decision.workload
    lines = [
        f"The posture of {name} went from {decision.before} to {decision.after} on "
        f"{decision.when[:16].replace('T', ' ')}, decided by {decision.who}.",
        "",
        f"Why: {decision.reason}",
        f"Registered: {_registered(decision)}",
        f"Next: {_NEXT.get(decision.after, 'see the posture')}",
        "",
        "What to do:",
        "  - Nothing, if that is what you want.",
        "  - To see where it stands, with every decision:",
        f"      compilegate posture {name} --aws",
    ]
    lines += ["  - Otherwise:"]
    for remedy in _REMEDIES.get(decision.after, []):
        lines.append(f"      compilegate {remedy.format(name)}")
    return message(f"{name}: posture {decision.before} -> {decision.after}", lines)


def _registered(decision: Decision) -> str:
    if decision.registered == "none":
        return "nothing; the baseline is trained in another execution at once"
    if not decision.registered:
        return "nothing by this decision; the model that was approved last stays"
    return f"the model of {decision.registered}"
