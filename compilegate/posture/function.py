"""The function of a posture's two Lambda steps: which arms train; and what their verdict changes.

    {"act": "start", "workload": ..., "execution": ..., "policy": JSON, "fingerprint": JSON,
     "candidates": "a,b"}                          -> arms, posture, watched, reason
    {"act": "settle", "workload": ..., "execution": ..., "observed": JSON, "model--ARM": ...,
     "image--ARM": ..., ...}         -> arm, model, image, compiler, job, words, reason

All values are texts, as the steps of a definition hand them over. Called again for the same
execution, as a resumed one does, it gives the same answer and decides nothing twice.

In an account EventBridge also says when an execution failed or was stopped before its gate could
say anything. It is settled then, and made up for. A candidate whose program failed its job is
refused. Nothing is learned from any other failure, such as a machine that was lost, nor from an
execution that somebody stopped. Where a candidate's job left the workload without a model, the next
execution trains the baseline alone; `run` starts it at once on this machine, the function in an
account.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from compilegate.posture import names
from compilegate.posture.dynamodb import DynamoRecords
from compilegate.posture.errors import PostureError
from compilegate.posture.events import Observed, Seen, Settled, Started
from compilegate.posture.policy import Policy
from compilegate.posture.records import FileRecords, Record, Records, current, decide, decoded

_NONE = "none"
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


def lambda_handler(event: Mapping[str, Any], _context: object) -> dict[str, str]:
    """Answer one step."""
    records = records_here()
    if "detail-type" in event:
        return _ended(event, records)
    acts = {names.START: _start, names.SETTLE: _settle}
    act = acts.get(event[names.ACT])
    if act is None:
        raise PostureError(f"act is {event[names.ACT]!r}, allowed: {', '.join(acts)}")
    return act(event, records)


def _ended(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    import boto3  # noqa: PLC0415  on this machine the function needs nothing but Python

    workload = os.environ[names.WORKLOAD_VARIABLE]
    client = boto3.client("sagemaker")
    return after_execution(event, records, client, workload=workload, when=now())


def records_here() -> Records:
    """A table in an account, or a folder on this machine."""
    table = os.environ.get(names.TABLE_VARIABLE)
    if table is None:
        return FileRecords(Path(os.environ[names.FOLDER_VARIABLE]))
    import boto3  # noqa: PLC0415  on this machine the function needs nothing but Python

    return DynamoRecords(boto3.client("dynamodb"), table)


def now() -> str:
    """The moment, in UTC."""
    given = os.environ.get(names.DAY_VARIABLE)
    return given or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _start(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    workload, execution = event["workload"], event["execution"]
    policy = Policy.read(json.loads(event["policy"]))
    record, _ = current(records, workload, when=now(), who=execution)
    if execution not in record.state.open:
        started = Started(
            execution=execution,
            when=now(),
            who=execution,
            policy=policy,
            candidates=tuple(event["candidates"].split(",")),
            fingerprint=json.loads(event["fingerprint"]),
        )
        record = decide(records, workload, started)
    plan = record.state.open[execution]
    return {
        names.ARMS: plan.arms,
        names.POSTURE: str(plan.posture),
        names.WATCHED: str(plan.watched).lower(),
        names.REASON: plan.reason,
    }


def _settle(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    workload, execution = event["workload"], event["execution"]
    observed = decoded(Observed, json.loads(event["observed"]))
    record, _ = current(records, workload, when=now(), who=execution)
    planned = record.state.open.get(execution)
    if planned is not None:
        found = {one.name: getattr(observed, one.name) for one in fields(observed)}
        # A gate that chooses a candidate has found the baseline valid.
        if planned.registers == "baseline" and observed.registered != _NONE:
            found["registered"] = names.BASELINE
        settled = Settled(
            **found,
            execution=execution,
            when=now(),
            who="gate",
        )
        reason, arm = decide(records, workload, settled).decisions[-1].reason, settled.registered
    else:
        before = (one.event for one in reversed(record.decisions))
        reason = f"{execution} is settled"
        arm = next(
            (
                one.registered
                for one in before
                if isinstance(one, Settled) and one.execution == execution
            ),
            observed.registered,
        )
    if arm == _NONE:
        raise PostureError(f"no model can be registered; {reason}")
    return {
        names.ARM: arm,
        names.REASON: reason,
        **{name: str(event[f"{name}--{arm}"]) for name in names.OF_ARM},
    }


# Executions that ended before their gate could say anything.


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
            seen=seen,
            nothing_learned="" if seen or lost else otherwise,
            lost=lost,
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
