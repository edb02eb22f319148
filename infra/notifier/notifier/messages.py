"""The words of each message. Pure: what was found goes in, a subject and a text come out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from notifier.links import job_page, log_page, short_name, watch_command
from notifier.overlap import Execution

MOST_SUBJECT = 100
MOST_QUOTED = 1500
"""How much of a step's reason is quoted: the end, where a program says what stopped it."""
FAIL_STEP = "Fail"


class NoticeError(Exception):
    """A notice.json that cannot be read. The message says what is wrong with it."""


@dataclass(frozen=True)
class Message:
    """What is published. SNS allows a subject of 100 ASCII characters on one line."""

    subject: str
    text: str


@dataclass(frozen=True)
class FailedStep:
    """A step that failed, and the reason that the service gives."""

    name: str
    type: str
    reason: str
    job_arn: str | None
    """Its training or processing job, if it has one."""


def message(subject: str, lines: Sequence[str]) -> Message:
    """A message whose subject SNS accepts."""
    flat = " ".join(subject.split()).encode("ascii", "replace").decode("ascii")
    fitting = flat if len(flat) <= MOST_SUBJECT else f"{flat[: MOST_SUBJECT - 3]}..."
    return Message(fitting, "\n".join(lines) + "\n")


def overlap_message(workload: str, stopped: Execution, oldest: Execution) -> Message:
    """The message that an execution was stopped because an older one is still running."""
    return message(
        f"{workload}: execution {short_name(stopped.arn)} stopped, an older one is still running",
        [
            f"Execution {short_name(stopped.arn)} of {workload} was stopped when it started, "
            f"because execution {short_name(oldest.arn)} has been running since "
            f"{oldest.started:%Y-%m-%d %H:%M} UTC. Executions of one workload do not overlap.",
            "",
            "What to do:",
            "  - Nothing, if the next start is soon enough.",
            "  - To run this one: wait for the older execution to end, then start again with",
            f"      compilegate aws submit {workload}",
            "  - If this happens at every start, an execution takes longer than the schedule "
            "allows: start less often ([schedule] in the workload's file).",
            "",
            f"Still running:  {watch_command(oldest.arn)}",
            f"Stopped:        {stopped.arn}",
        ],
    )


def again_message(workload: str, execution_arn: str, started: str) -> Message:
    """The message that an execution lost jobs, and was started again."""
    return message(
        f"{workload}: execution {short_name(execution_arn)} lost jobs, started again",
        [
            f"The machines ended jobs of candidates in execution {short_name(execution_arn)} of "
            f"{workload}, which says nothing about the candidates. Execution "
            f"{short_name(started)} trains them again; the rest comes from the cache.",
            "",
            "What to do:",
            "  - Nothing. If it loses jobs again, read their logs: a job may need more memory.",
            f"      {watch_command(started)}",
        ],
    )


def failure_message(
    workload: str, execution_arn: str, reason: str, failed: Sequence[FailedStep]
) -> Message:
    """The message that an execution failed: where, why, and what to do."""
    names = ", ".join(step.name for step in failed)
    where = f" at {names}" if names else ""
    lines = [f"Execution {short_name(execution_arn)} of {workload} failed{where}."]
    for step in failed:
        lines += ["", *_step(step)]
    if not failed:
        lines += ["", f"The service says: {reason or 'nothing'}"]
    lines += ["", "What to do:"]
    if [step.type for step in failed] == [FAIL_STEP]:
        lines.append("  - The gate registered no model; its report says why.")
    else:
        lines.append("  - Read the last lines above and the log, and fix what they name.")
        lines.append(
            "  - Then start again: steps that succeeded and have not changed come from the cache."
        )
    lines += [
        f"      compilegate aws submit {workload}",
        "  - To see all steps, and the verdict if there is one:",
        f"      {watch_command(execution_arn)}",
        "",
        execution_arn,
    ]
    return message(f"{workload}: execution {short_name(execution_arn)} failed{where}", lines)


def gate_message(notice: bytes, execution_arn: str, output_uri: str) -> Message | None:
    """The gate's notice, with where to find its report; None if it is not to be sent.

    Raises NoticeError for anything that is not a notice.
    """
    try:
        document = json.loads(notice)
        send, subject, text = document["send"], document["subject"], document["message"]
    except (ValueError, KeyError, TypeError) as error:
        raise NoticeError(f"{output_uri}/notice.json is not a notice: {error!r}") from error
    if not (isinstance(send, bool) and isinstance(subject, str) and isinstance(text, str)):
        raise NoticeError(f"{output_uri}/notice.json is not a notice: a value has the wrong type")
    if not send:
        return None
    return message(
        subject,
        [
            text.rstrip(),
            "",
            "The report (the verdict lies beside it):",
            f"  aws s3 cp {output_uri}/report.html .",
            "The whole execution:",
            f"  {watch_command(execution_arn)}",
        ],
    )


def _step(step: FailedStep) -> list[str]:
    lines = [f"{step.name} ({step.type})", "  Last lines:"]
    lines += [f"    {line}" for line in _last_lines(step.reason)]
    if step.job_arn is not None:
        pages = (("Job", job_page(step.job_arn)), ("Log", log_page(step.job_arn)))
        lines += [f"  {name}: {page}" for name, page in pages if page is not None]
    return lines


def _last_lines(reason: str) -> list[str]:
    text = reason.strip() or "(the service gives no reason)"
    if len(text) > MOST_QUOTED:
        text = f"... {text[-MOST_QUOTED:]}"
    printable = "".join(
        character if character.isprintable() or character == "\n" else " " for character in text
    )
    return printable.splitlines()
