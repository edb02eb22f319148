"""Executions that ended before their gate could say anything: settled, and made up for.

A candidate whose program failed its job is refused. Nothing is learned from any other failure, such
as a machine that was lost, nor from an execution that somebody stopped. Where a candidate's job
left the workload without a model, the next execution trains the baseline alone; `run` starts it at
once on this machine, the function in an account.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compilegate.posture.machine.events import Seen, Settled, Started
from compilegate.posture.policy import Policy
from compilegate.posture.records.keeping import Records, current, decide
from compilegate.posture.records.record import Record

_TRAINED = re.compile(r"Train-(?P<arm>.+)-(?:\d+|alone)")
_BY_ITS_PROGRAM = re.compile(r"AlgorithmError|exit code", re.IGNORECASE)
"""How the service, and the local target, say that a program ended its job."""
_BY_THE_MACHINE = re.compile(r"\b(?:137|143)\b|SIGKILL|SIGTERM|out of memory", re.IGNORECASE)
"""The programs among these that something outside of them killed."""


@dataclass(frozen=True)
class FailedStep:
    """A step that failed, and why."""

    name: str
    reason: str


def settle_ended(
    records: Records,
    workload: str,
    execution: str,
    *,
    failed: Iterable[FailedStep],
    otherwise: str,
    when: str,
    who: str,
) -> Record | None:
    """Settle an execution; None where it is not waiting for that.

    `otherwise` says why nothing was learned, where no candidate's job failed.
    """
    record, _ = current(records, workload, when=when, who=execution)
    planned = record.state.open.get(execution)
    if planned is None:
        return None
    seen, lost = crashed(planned.candidates, failed)
    return decide(
        records,
        workload,
        Settled(
            execution=execution,
            when=when,
            who=who,
            policy=_policy(record, execution),
            seen=seen,
            nothing_learned="" if seen or lost else otherwise,
            lost=lost or None,
        ),
    )


def crashed(
    candidates: Iterable[str], failed: Iterable[FailedStep]
) -> tuple[tuple[Seen, ...], str]:
    """The candidates whose program failed its training, each by its first step that did; and why
    other trainings of candidates are lost, which says nothing of them."""
    first: dict[str, FailedStep] = {}
    for step in failed:
        trained = _TRAINED.fullmatch(step.name)
        if trained is not None:
            first.setdefault(trained["arm"], step)
    seen, lost = [], []
    for arm in (each for each in candidates if each in first):
        step = first[arm]
        reason = f"{step.name}: {step.reason or 'its job failed'}"
        if _BY_ITS_PROGRAM.search(step.reason) and not _BY_THE_MACHINE.search(step.reason):
            seen.append(Seen(arm=arm, outcome="fail", crashed=True, broken=True, reason=reason))
        else:
            lost.append(reason)
    return tuple(seen), "; ".join(lost)


def _policy(record: Record, execution: str) -> Policy:
    """What the execution was started under."""
    found = (
        decision.event.policy
        for decision in reversed(record.decisions)
        if isinstance(decision.event, Started) and decision.event.execution == execution
    )
    return next(found, Policy())


def after_execution(
    event: Mapping[str, Any], records: Records, client: Any, *, workload: str, when: str
) -> dict[str, str]:
    """Act on an execution's end in an account, as EventBridge tells of it.

    `client` is boto3's of SageMaker. An event that comes twice does nothing the second time: the
    execution is settled, and another start with its token is the same execution.
    """
    detail = event["detail"]
    arn = detail["pipelineExecutionArn"]
    execution = arn.rpartition("/")[2]
    status = detail["currentPipelineExecutionStatus"]
    settled = settle_ended(
        records,
        workload,
        execution,
        failed=_failed_steps(client, arn) if status == "Failed" else (),
        otherwise=f"the execution ended as {status}",
        when=when,
        who="function",
    )
    record, _ = current(records, workload, when=when, who=execution)
    if settled is None and not _left_nothing(record, execution):
        return {"settled": "no"}
    answer = {"settled": "no" if settled is None else "yes"}
    if record.state.rescue:
        given = client.list_pipeline_parameters_for_execution(PipelineExecutionArn=arn)
        answer["started"] = client.start_pipeline_execution(
            PipelineName=arn.split("/")[1],
            PipelineParameters=given["PipelineParameters"],
            PipelineExecutionDescription=f"After {execution}: {record.state.rescue}"[:3072],
            ClientRequestToken=f"compilegate-rescue-after-{execution:>012}"[:128],
        )["PipelineExecutionArn"]
    return answer


def _left_nothing(record: Record, execution: str) -> bool:
    """Whether the newest decision settled this execution: then its rescue may still be missing."""
    newest = record.decisions[-1].event if record.decisions else None
    return isinstance(newest, Settled) and newest.execution == execution


def _failed_steps(client: Any, arn: str) -> list[FailedStep]:
    pages = client.get_paginator("list_pipeline_execution_steps").paginate(
        PipelineExecutionArn=arn, SortOrder="Ascending"
    )
    return [
        FailedStep(step["StepName"], _first_line(step.get("FailureReason") or ""))
        for page in pages
        for step in page["PipelineExecutionSteps"]
        if step.get("StepStatus") == "Failed"
    ]


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:200]
