"""The function of a posture's Lambda steps: which arms train, what their verdict changes, and which
execution registered last.

    {"act": "start", "workload": ..., "execution": ..., "policy": JSON, "fingerprint": JSON,
     "candidates": "a,b"}                          -> arms, registers, posture, watched, reason
    {"act": "settle", "workload": ..., "execution": ..., "observed": JSON, "model--ARM": ...,
     "image--ARM": ..., ...}         -> arm, model, image, compiler, job, words, reason
    {"act": "registered", "workload": ..., "execution": ..., "arms": ..., "registers": ...}
                                                   -> reason

`inputs` goes to the first and to the last. Where they, and what trains, are those of the execution
that registered last, every training would come from the cache and the same model be registered
again: then nothing trains. It is only noted after the registration, since a verdict is none.

All values are texts, as the steps of a definition pass them. Called again for the same execution,
as a resumed one does, it gives the same answer and decides nothing twice.

An execution that failed or was stopped before its gate ran is settled as well: on this machine by
`run`, in an account by this function, which EventBridge calls. A candidate whose program failed its
job is refused; nothing is learned from any other end. Where a candidate's job left no model, the
same caller starts an execution of the baseline alone at once.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compilegate.posture import contract
from compilegate.posture.contract import Policy, PostureError
from compilegate.posture.records import (
    DynamoRecords,
    FileRecords,
    Record,
    Records,
    current,
    decide,
    decoded,
)
from compilegate.posture.state import Plan, Registered, Seen, Settled, Started

_NONE = "none"
_BY_ITS_PROGRAM = re.compile(r"AlgorithmError|exit code", re.IGNORECASE)
"""How the service, and the local target, report that a program ended its job."""
_BY_THE_MACHINE = re.compile(r"\b(?:137|143)\b|SIGKILL|SIGTERM|out of memory", re.IGNORECASE)
"""The programs among these that something outside of them killed."""


def lambda_handler(event: Mapping[str, Any], _context: object) -> dict[str, str]:
    """Answer one step, or an event about an execution's end."""
    records: Records
    if contract.TABLE_VARIABLE in os.environ:
        records = DynamoRecords(_client("dynamodb"), os.environ[contract.TABLE_VARIABLE])
    else:
        records = FileRecords(Path(os.environ[contract.FOLDER_VARIABLE]))
    if "detail-type" in event:
        return _ended(event["detail"], records)
    acts = {
        contract.START: _start,
        contract.SETTLE: _settle,
        contract.REGISTERED: _registered,
    }
    return acts[event[contract.ACT]](event, records)


def _client(service: str) -> Any:
    import boto3  # noqa: PLC0415  on this machine the function needs nothing but Python

    return boto3.client(service)


def now() -> str:
    """The current time, in UTC."""
    given = os.environ.get(contract.DAY_VARIABLE)
    return given or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _start(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    workload, execution = event["workload"], event["execution"]
    record = current(records, workload, when=now(), who=execution)
    if execution not in record.state.open:
        started = Started(
            execution=execution,
            when=now(),
            who=execution,
            policy=decoded(Policy, json.loads(event["policy"])),
            candidates=tuple(event["candidates"].split(",")),
            fingerprint=json.loads(event["fingerprint"]),
        )
        plan = record.after(started).state.open[execution]
        before = _registered_alike(event, record, plan)
        if before is not None and not record.state.rescue:
            # Nothing is written: no job runs, so nothing can be learned.
            why = f"Nothing is new: {before} registered the model of the same data and code"
            return _answer(replace(plan, arms=contract.NOTHING, reason=why))
        record = decide(records, workload, started)
    return _answer(record.state.open[execution])


def _answer(plan: Plan) -> dict[str, str]:
    return {
        contract.ARMS: plan.arms,
        contract.REGISTERS: plan.registers,
        contract.POSTURE: str(plan.posture),
        contract.WATCHED: str(plan.watched).lower(),
        contract.REASON: plan.reason,
    }


def _registered_alike(event: Mapping[str, Any], record: Record, plan: Plan) -> str | None:
    """The execution that registered last, where this one would take all of its trainings from the
    cache and register the same model again."""
    if contract.INPUTS not in event or contract.FRESH_VARIABLE in os.environ:
        return None
    last = _last_registered(record)
    if last is None or _seconds_since(last.when) > float(event[contract.CACHE_SECONDS]):
        return None
    now_asked = (plan.arms, plan.registers, _digest(event[contract.INPUTS]))
    return last.execution if (last.arms, last.registers, last.inputs) == now_asked else None


def _registered(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    workload, execution = event["workload"], event["execution"]
    registered = Registered(
        execution=execution,
        when=now(),
        who="pipeline",
        arms=event[contract.ARMS],
        registers=event[contract.REGISTERS],
        inputs=_digest(event[contract.INPUTS]),
    )
    last = _last_registered(current(records, workload, when=now(), who=execution))
    if last is None or last.execution != execution:
        decide(records, workload, registered)
    return {contract.REASON: f"the model of {execution} is registered"}


def _last_registered(record: Record) -> Registered | None:
    events = (decision.event for decision in reversed(record.decisions))
    return next((each for each in events if isinstance(each, Registered)), None)


def _digest(inputs: str) -> str:
    return hashlib.sha256(inputs.encode()).hexdigest()[:16]


def _seconds_since(when: str) -> float:
    then, today = map(datetime.datetime.fromisoformat, (when, now()))
    return (today - then).total_seconds()


def _settle(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    workload, execution = event["workload"], event["execution"]
    found = {**json.loads(event["observed"]), "execution": execution, "when": now(), "who": "gate"}
    ended: Settled = decoded(Settled, found)
    record = current(records, workload, when=now(), who=execution)
    planned, settled = record.state.open.get(execution), record.latest(Settled, execution)
    arm, reason = ended.registered, f"{execution} is already settled"
    if planned is not None:
        # A gate that chooses a candidate has found the baseline valid.
        if planned.registers == "baseline" and arm != _NONE:
            arm = contract.BASELINE
        ended = replace(ended, registered=arm)
        reason = decide(records, workload, ended).decisions[-1].reason
    elif settled is not None and isinstance(settled.event, Settled):
        arm = settled.event.registered
    if arm == _NONE:
        raise PostureError(f"no model can be registered: {reason}")
    return {
        contract.ARM: arm,
        contract.REASON: reason,
        **{name: str(event[f"{name}--{arm}"]) for name in contract.OF_ARM},
    }


# Executions that ended before their gate ran


def settle_ended(
    records: Records,
    workload: str,
    execution: str,
    *,
    failed: Mapping[str, str],
    otherwise: str,
    who: str,
) -> Record | None:
    """Settle an execution; None where it is not waiting for that.

    `failed` has why each step failed, the first one first; `otherwise` why nothing was learned,
    where no candidate's job failed.
    """
    planned = current(records, workload, when=now(), who=who).state.open.get(execution)
    if planned is None:
        return None
    seen, lost = crashed(planned.candidates, failed)
    settled = Settled(
        execution=execution,
        when=now(),
        who=who,
        seen=seen,
        nothing_learned="" if seen or lost else otherwise,
        lost=lost,
    )
    return decide(records, workload, settled)


def crashed(candidates: Iterable[str], failed: Mapping[str, str]) -> tuple[tuple[Seen, ...], str]:
    """The candidates whose program failed its training, each by its first step that did; and why
    other trainings of candidates are lost, which shows nothing about them."""
    seen, lost = [], []
    for arm in candidates:
        training = re.compile(rf"Train-{re.escape(arm)}-(?:\d+|alone)")
        step = next(filter(training.fullmatch, failed), None)
        if step is None:
            continue
        why = failed[step]
        reason = f"{step}: {why or 'its job failed'}"
        if _BY_ITS_PROGRAM.search(why) and not _BY_THE_MACHINE.search(why):
            seen.append(Seen(arm=arm, outcome="fail", crashed=True, broken=True, reason=reason))
        else:
            lost.append(reason)
    return tuple(seen), "; ".join(lost)


def _ended(detail: Mapping[str, Any], records: Records) -> dict[str, str]:
    """Act on an execution's end in an account, which EventBridge reports.

    An event that comes twice does nothing the second time: the execution is settled, and another
    start with its token is the same execution.
    """
    workload, client = os.environ[contract.WORKLOAD_VARIABLE], _client("sagemaker")
    arn, status = detail["pipelineExecutionArn"], detail["currentPipelineExecutionStatus"]
    execution, who = arn.rpartition("/")[2], "function"
    failed = _failed_steps(client, arn) if status == "Failed" else {}
    otherwise = f"the execution ended with status {status}"
    settled = settle_ended(
        records, workload, execution, failed=failed, otherwise=otherwise, who=who
    )
    answer = {"settled": "no" if settled is None else "yes"}
    record = settled or current(records, workload, when=now(), who=who)
    newest = record.decisions[-1].event if record.decisions else None
    # Where an earlier call settled it and failed after that, its rescue may still be missing.
    ended = isinstance(newest, Settled) and newest.execution == execution
    if ended and record.state.rescue:
        given = client.list_pipeline_parameters_for_execution(PipelineExecutionArn=arn)
        answer["started"] = client.start_pipeline_execution(
            PipelineName=arn.split("/")[1],
            PipelineParameters=given["PipelineParameters"],
            PipelineExecutionDescription=f"After {execution}: {record.state.rescue}"[:3072],
            ClientRequestToken=f"compilegate-rescue-after-{execution:>012}"[:128],
        )["PipelineExecutionArn"]
    return answer


def _failed_steps(client: Any, arn: str) -> dict[str, str]:
    """Each step that failed, and the first line of why."""
    pages = client.get_paginator("list_pipeline_execution_steps").paginate(
        PipelineExecutionArn=arn, SortOrder="Ascending"
    )
    steps = [step for page in pages for step in page["PipelineExecutionSteps"]]
    return {
        step["StepName"]: (step.get("FailureReason") or "").strip().partition("\n")[0][:200]
        for step in steps
        if step.get("StepStatus") == "Failed"
    }
