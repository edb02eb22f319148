"""The words of each message. Pure: what was found goes in, a subject and a text come out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from compilegate.posture.records import Decision
from compilegate.posture.state import Posture

MOST_SUBJECT = 100
MOST_QUOTED = 1500
"""How much of a step's reason is quoted: the end, where a program says what stopped it."""
NEEDED = "[action needed]"
INFO = "[info]"
FAIL_STEP = "Fail"
_JOBS = {
    "TrainingJob": ("jobs", "/aws/sagemaker/TrainingJobs"),
    "ProcessingJob": ("processing-jobs", "/aws/sagemaker/ProcessingJobs"),
}
"""By the kind of job, its pages in SageMaker's console and the log group of its output."""
_CONSOLES = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}


class NoticeError(Exception):
    """A notice.json that cannot be read. The message says what is wrong with it."""


@dataclass(frozen=True)
class Message:
    """What is published. SNS allows a subject of 100 ASCII characters on one line."""

    subject: str
    text: str


def message(severity: str, subject: str, lines: Iterable[str]) -> Message:
    """A message whose subject SNS accepts."""
    flat = " ".join(f"{severity} {subject}".split()).encode("ascii", "replace").decode("ascii")
    fitting = flat if len(flat) <= MOST_SUBJECT else f"{flat[: MOST_SUBJECT - 3]}..."
    return Message(fitting, "\n".join(lines) + "\n")


def short_name(arn: str) -> str:
    """The last part of an ARN: an execution's id, a job's name."""
    return arn.rpartition("/")[2]


# Executions


def overlap_message(workload: str, stopped: str, oldest: str, since: datetime) -> Message:
    """An execution was stopped because an older one is still running."""
    return message(
        INFO,
        f"{workload}: execution {short_name(stopped)} stopped, an older one is still running",
        [
            f"Execution {short_name(stopped)} of {workload} was stopped when it started, because "
            f"execution {short_name(oldest)} has been running since {since:%Y-%m-%d %H:%M} UTC. "
            "Executions of one workload do not overlap.",
            "",
            "What to do:",
            "  - Nothing, if the next start is soon enough.",
            "  - To run this one: wait for the older execution to end, then start again with",
            f"      compilegate aws submit {workload}",
            "  - If this happens at every start, an execution takes longer than the schedule "
            "allows: start less often ([schedule] in the workload's file).",
            "",
            f"Still running:  {_watch(oldest)}",
            f"Stopped:        {stopped}",
        ],
    )


def budget_message(
    workload: str, arn: str, *, most: float, spent: float, allowed: float
) -> Message:
    """An execution was stopped because of what it could cost."""
    return message(
        NEEDED,
        f"{workload}: execution {short_name(arn)} stopped, the month's budget does not allow it",
        [
            f"Execution {short_name(arn)} of {workload} was stopped when it started. It could cost "
            f"{most:,.2f} USD, this month's executions have cost {spent:,.2f} USD, and "
            f"budget.month_usd allows {allowed:,.2f} USD.",
            "",
            "What to do:",
            "  - Nothing: the schedule starts again next month.",
            "  - To allow more: raise budget.month_usd in the workload's file, and deploy.",
            "  - To need less: lower max_runtime_seconds in [compute], or declare fewer arms.",
        ],
    )


def overdue_message(workload: str, arn: str, *, taken: float, allowed: float) -> Message:
    """An execution runs for longer than it should; both times in hours."""
    return message(
        NEEDED,
        f"{workload}: execution {short_name(arn)} has run for {taken:.0f} hours",
        [
            f"Execution {short_name(arn)} of {workload} has run for {taken:.0f} hours, more than "
            f"budget.hours allows ({allowed:g}). It was not stopped.",
            "",
            "What to do:",
            f"  - See what it waits for:  {_watch(arn)}",
            f"  - Stop it:                compilegate aws stop {arn}",
            "  - If it may take so long: raise budget.hours in the workload's file, and deploy.",
        ],
    )


def unstarted_message(workload: str, since: datetime) -> Message:
    """The schedule should have started an execution and did not."""
    return message(
        NEEDED,
        f"{workload}: the schedule has started nothing since {since:%Y-%m-%d %H:%M} UTC",
        [
            f"No execution of {workload} has started since {since:%Y-%m-%d %H:%M} UTC, though its "
            "schedule should have started one.",
            "",
            "What to do:",
            "  - Look whether somebody disabled or deleted the schedule: compare with make diff.",
            "  - Look into the dead-letter queue: a start that was refused is there, with the "
            "reason.",
            f"  - Start one by hand:  compilegate aws submit {workload}",
        ],
    )


def again_message(workload: str, arn: str, started: str) -> Message:
    """An execution lost jobs, and was started again."""
    return message(
        INFO,
        f"{workload}: execution {short_name(arn)} lost jobs, started again",
        [
            f"The machines ended jobs of candidates in execution {short_name(arn)} of {workload}, "
            f"which says nothing about the candidates. Execution {short_name(started)} trains them "
            "again; the rest comes from the cache.",
            "",
            "What to do:",
            "  - Nothing. If it loses jobs again, read their logs: a job may need more memory.",
            f"      {_watch(started)}",
        ],
    )


def failure_message(
    workload: str, arn: str, reason: str, failed: Sequence[Mapping[str, Any]]
) -> Message:
    """An execution failed: at which steps of the service's list, why, and what to do."""
    names = ", ".join(step["StepName"] for step in failed)
    where = f" at {names}" if names else ""
    lines = [f"Execution {short_name(arn)} of {workload} failed{where}."]
    for step in failed:
        lines += ["", *_step(step)]
    if not failed:
        lines += ["", f"The service says: {reason or 'nothing'}"]
    lines += ["", "What to do:"]
    if [_kind(step) for step in failed] == [FAIL_STEP]:
        lines.append("  - The gate registered no model; its report says why.")
    else:
        lines.append("  - Read the last lines above and the log, and fix what they name.")
        lines.append(
            "  - Then start again: steps that succeeded and have not changed come from the cache."
        )
    lines += [
        f"      compilegate aws submit {workload}",
        "  - To see all steps, and the verdict if there is one:",
        f"      {_watch(arn)}",
        "",
        arn,
    ]
    return message(NEEDED, f"{workload}: execution {short_name(arn)} failed{where}", lines)


def is_rejected_by_the_gate(failed: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an execution failed because its gate had nothing to register."""
    return [_kind(step) for step in failed] == [FAIL_STEP]


def gate_message(severity: str, notice: bytes, arn: str, uri: str) -> Message | None:
    """The gate's notice, with where to find its report; None if it is not to be sent.

    Raises NoticeError for anything that is not a notice.
    """
    document = read_notice(notice, uri)
    if not document["send"]:
        return None
    return message(
        severity,
        document["subject"],
        [
            document["message"].rstrip(),
            "",
            "The report (the verdict lies beside it):",
            f"  aws s3 cp {uri.rpartition('/')[0]}/report.html .",
            "The whole execution:",
            f"  {_watch(arn)}",
        ],
    )


def read_notice(notice: bytes, uri: str) -> dict[str, Any]:
    """What the gate has to say. Raises NoticeError for anything that is not a notice."""
    expected = {"send": bool, "subject": str, "message": str}
    try:
        document: dict[str, Any] = json.loads(notice)
        wrong = [name for name, kind in expected.items() if not isinstance(document[name], kind)]
    except (ValueError, KeyError, TypeError) as error:
        raise NoticeError(f"{uri} is not a notice: {error!r}") from error
    if wrong:
        raise NoticeError(f"{uri} is not a notice: {', '.join(wrong)} has the wrong type")
    return document


# The posture

_NEXT = {
    Posture.OFF: "The baseline trains alone until a person changes that.",
    Posture.BENCHMARK: "The next execution trains all arms; the baseline is registered.",
    Posture.SHADOW: "All arms train; the gate decides what is registered.",
    Posture.ON: "From the next execution on the candidate trains alone, with audits of all arms.",
    Posture.REVERTED: "The baseline trains alone and is registered, until a person resets the "
    "posture or an image changes.",
}
_REMEDIES = {
    Posture.OFF: ["posture {0} reset --aws --reason WHY     begin with a benchmark"],
    Posture.BENCHMARK: ["posture {0} off --aws --reason WHY   train the baseline alone instead"],
    Posture.SHADOW: ["posture {0} off --aws --reason WHY   train the baseline alone instead"],
    Posture.ON: ["posture {0} shadow --aws --reason WHY  let all arms train on"],
    Posture.REVERTED: [
        "aws watch EXECUTION                  see the verdict and its report",
        "posture {0} reset --aws --reason WHY  begin again, once the cause is fixed",
    ],
}


def decision_message(workload: str, decision: Decision) -> Message:
    """The posture changed: why, what was registered instead, and what people can do."""
    before, after, event = decision.before, decision.after, decision.event
    registered = getattr(event, "registered", "")
    by_what = {
        "none": "nothing; the baseline is trained in another execution at once",
        "": "nothing by this decision; the model that was approved last stays",
    }
    return message(
        NEEDED if after is Posture.REVERTED else INFO,
        f"{workload}: posture {before} -> {after}",
        [
            f"The posture of {workload} went from {before} to {after} on "
            f"{event.when[:16].replace('T', ' ')}, decided by {event.who}.",
            "",
            f"Why: {decision.reason}",
            f"Registered: {by_what.get(registered, f'the model of {registered}')}",
            f"Next: {_NEXT[after]}",
            "",
            "What to do:",
            "  - Nothing, if that is what you want.",
            "  - To see where it stands, with every decision:",
            f"      compilegate posture {workload} --aws",
            "  - Otherwise:",
            *(f"      compilegate {remedy.format(workload)}" for remedy in _REMEDIES[after]),
        ],
    )


# Deliveries and releases


def same_data_message(workload: str, uri: str, first: str) -> Message:
    """A delivery holds the files of an earlier one."""
    return message(
        INFO,
        f"{workload}: the same data came twice",
        [
            f"{uri} holds the same files as {first}, so it is the same delivery and starts "
            "nothing. To train on it again, run:",
            f"  compilegate aws submit {workload} -p Data={uri}",
        ],
    )


def answers_message(workload: str, stack: str, version: int) -> Message:
    """The endpoint answers with another version."""
    return message(
        INFO,
        f"{workload}: version {version} answers",
        [f"The endpoint of {stack} answers with version {version}, the newest that is approved."],
    )


def refused_message(
    workload: str, stack: str, refused: int, answers: int, reason: str
) -> Message:
    """A version was rolled back, and rejected."""
    now = f"Version {answers} still answers." if answers else "The endpoint has no model yet."
    return message(
        NEEDED,
        f"{workload}: version {refused} was rolled back",
        [
            f"Version {refused} did not become what the endpoint of {stack} answers with: {reason}",
            f"{now} Version {refused} is now rejected in the registry.",
            "",
            "What to do:",
            "  - Find the cause in the stack's events and the endpoint's log, and fix it.",
            "  - To try the same version again, approve it again:",
            f"      compilegate models approve {workload}/{refused} --aws --reason WHY",
        ],
    )


def stuck_message(workload: str, stack: str, status: str, reason: str) -> Message:
    """The endpoint's stack cannot go on by itself."""
    return message(
        NEEDED,
        f"{workload}: the endpoint needs a person",
        [
            f"The stack {stack} is {status}: {reason}",
            "",
            "What to do:",
            "  - Fix what the stack's events name.",
            f"  - Then: aws cloudformation continue-update-rollback --stack-name {stack}",
            "The newest approved version is deployed after that.",
        ],
    )


def none_approved_message(workload: str, stack: str, answers: int) -> Message:
    """No version is approved, and the endpoint goes on answering."""
    return message(
        NEEDED,
        f"{workload}: no model is approved",
        [
            f"No version of {workload} is approved. The endpoint of {stack} goes on answering with "
            f"version {answers}.",
            "",
            "What to do:",
            "  - Approve a version, which then answers.",
            "  - To end the endpoint: remove deploy from [serving] in the workload's file, deploy, "
            f"and delete the stack {stack}.",
        ],
    )


def transform_message(workload: str, name: str, status: str, reason: str) -> Message:
    """A batch transform failed or was stopped."""
    return message(
        NEEDED,
        f"{workload}: the batch transform {name} ended as {status}",
        [
            f"The batch transform {name} ended as {status}: {reason}",
            "To start it again, reject and approve the model.",
        ],
    )


# Parts of them


def _watch(arn: str) -> str:
    """The command that shows the execution, its steps and its verdict in a terminal."""
    return f"compilegate aws watch {arn}"


def _kind(step: Mapping[str, Any]) -> str:
    """The step's type, which the service gives as the key of its metadata alone."""
    return next(iter(step.get("Metadata") or {}), "step")


def _step(step: Mapping[str, Any]) -> list[str]:
    kind = _kind(step)
    metadata = (step.get("Metadata") or {}).get(kind, {})
    reason = (step.get("FailureReason") or metadata.get("ErrorMessage") or "").strip()
    if len(reason) > MOST_QUOTED:
        reason = f"... {reason[-MOST_QUOTED:]}"
    printable = "".join(
        character if character.isprintable() or character == "\n" else " " for character in reason
    )
    quoted = (printable or "(the service gives no reason)").splitlines()
    lines = [f"{step['StepName']} ({kind})", "  Last lines:", *(f"    {line}" for line in quoted)]
    if kind in _JOBS and "Arn" in metadata:
        lines += _pages(kind, metadata["Arn"])
    return lines


def _pages(kind: str, job_arn: str) -> list[str]:
    """The pages of a job and of its log in the console."""
    _, partition, _, region, _, resource = job_arn.split(":", 5)
    name = resource.partition("/")[2]
    pages, group = _JOBS[kind]
    console = f"{region}.{_CONSOLES.get(partition, 'console.aws.amazon.com')}"
    streams = f"{_fragment(group)}$3FlogStreamNameFilter$3D{_fragment(f'{name}/')}"
    return [
        f"  Job: https://{console}/sagemaker/home?region={region}#/{pages}/{quote(name)}",
        f"  Log: https://{console}/cloudwatch/home?region={region}"
        f"#logsV2:log-groups/log-group/{streams}",
    ]


def _fragment(text: str) -> str:
    """Text as CloudWatch's console writes it after the `#`: encoded twice, with $ for %."""
    return quote(quote(text, safe=""), safe="").replace("%", "$")
