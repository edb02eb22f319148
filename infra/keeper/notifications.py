"""The words of each message. Pure: what was found goes in, a subject and a text come out."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.access.console import job_pages
from compilegate.posture.records import Decision
from compilegate.posture.state import Posture

ACTION, INFO = "action", "info"
SEVERITIES = {ACTION: "[action needed]", INFO: "[info]"}
"""What each subject begins with."""
MOST_SUBJECT = 100
MOST_QUOTED = 1500
"""How much of a step's reason is quoted: the end, where a program says what stopped it."""


class NoticeError(Exception):
    """A notice.json that cannot be read. The message says what is wrong with it."""


@dataclass(frozen=True)
class Message:
    """What is published. SNS allows a subject of 100 ASCII characters on one line."""

    subject: str
    text: str


TEXTS: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("notifications.toml").read_text(encoding="utf-8")
)
"""Severity, subject without the workload, and text by kind of message."""


def worded(kind: str, workload: str, **found: Any) -> Message:
    """The message of this kind about what was found."""
    words = TEXTS[kind]
    found = {"workload": workload, "execution": short_name(found.get("arn", "")), **found}
    severity = found.get("severity", words["severity"])
    subject = f"{workload}: {words['subject'].format(**found)}"
    return Message(fitting(severity, subject), words["text"].format(**found))


def fitting(severity: str, subject: str) -> str:
    """A subject that SNS accepts."""
    flat = " ".join(f"{SEVERITIES[severity]} {subject}".split()).encode("ascii", "replace").decode()
    return flat if len(flat) <= MOST_SUBJECT else f"{flat[: MOST_SUBJECT - 3]}..."


def short_name(arn: str) -> str:
    """The last part of an ARN: an execution's id, a job's name."""
    return arn.rpartition("/")[2]


# What an execution and its gate leave


def failure_found(failed: Sequence[Mapping[str, Any]], reason: str) -> dict[str, str]:
    """Which steps of the service's list failed, why, and what to do."""
    names = ", ".join(step["StepName"] for step in failed)
    remedy = "The gate registered no model; its report says why. Then:"
    if not is_rejection(failed):
        remedy = (
            "Fix what the last lines and the log name. Then start again: steps that succeeded and "
            "have not changed come from the cache."
        )
    return {
        "where": f" at {names}" if names else "",
        "found": "\n\n".join(map(_step, failed)) or f"The service says: {reason or 'nothing'}",
        "remedy": remedy,
    }


def is_rejection(failed: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an execution failed because its gate had nothing to register."""
    return [_kind(step) for step in failed] == ["Fail"]


@dataclass(frozen=True)
class Notice:
    """What the gate of an execution has to say to people."""

    message: Message | None
    """The message; None for a verdict that needs no mail."""
    lost: bool
    """Whether the machines lost candidates' jobs."""


def read_notice(content: bytes, uri: str, arn: str, severity: str) -> Notice:
    """The gate's notice, with where to find its report. Raises NoticeError."""
    try:
        found = json.loads(content)
        send, subject, text = found["send"], found["subject"], found["message"]
    except (ValueError, KeyError, TypeError) as error:
        raise NoticeError(f"{uri} is not a notice: {error!r}") from error
    if not (isinstance(send, bool) and isinstance(subject, str) and isinstance(text, str)):
        raise NoticeError(f"{uri} is not a notice: a value has the wrong type")
    text = (
        f"{text.rstrip()}\n\nThe report (the verdict lies beside it):\n"
        f"  aws s3 cp {uri.rpartition('/')[0]}/report.html .\n"
        f"The whole execution:\n  compilegate aws watch {arn}\n"
    )
    message = Message(fitting(severity, subject), text) if send else None
    return Notice(message, lost=bool(found.get("lost")))


def _kind(step: Mapping[str, Any]) -> str:
    """The step's type, which the service gives as the key of its metadata alone."""
    return next(iter(step.get("Metadata") or {}), "step")


def _step(step: Mapping[str, Any]) -> str:
    kind = _kind(step)
    metadata = (step.get("Metadata") or {}).get(kind, {})
    reason = (step.get("FailureReason") or metadata.get("ErrorMessage") or "").strip()
    if len(reason) > MOST_QUOTED:
        reason = f"... {reason[-MOST_QUOTED:]}"
    shown = "".join(each if each.isprintable() or each == "\n" else " " for each in reason)
    quoted = (shown or "(the service gives no reason)").splitlines()
    lines = [f"{step['StepName']} ({kind})", "  Last lines:", *(f"    {line}" for line in quoted)]
    if "Arn" in metadata:
        lines += [
            f"  {what.capitalize()}: {page}" for what, page in job_pages(metadata["Arn"]).items()
        ]
    return "\n".join(lines)


# The posture

_REGISTERED = {
    "none": "nothing; the baseline is trained in another execution at once",
    "": "nothing by this decision; the model that was approved last stays",
}


def decision_found(workload: str, decision: Decision) -> dict[str, Any]:
    """Why the posture changed, what was registered instead, and what people can do."""
    after, event = decision.after, decision.event
    registered = getattr(event, "registered", "")
    follows = TEXTS["next"][after]
    return {
        "severity": ACTION if after is Posture.REVERTED else INFO,
        "before": decision.before,
        "after": after,
        "when": event.when[:16].replace("T", " "),
        "who": event.who,
        "reason": decision.reason,
        "registered": _REGISTERED.get(registered, f"the model of {registered}"),
        "next": follows["text"],
        "remedy": f"posture {workload} {follows['instead']} --aws --reason WHY",
    }
