"""The function of a posture's two Lambda steps: which arms train; and what their verdict changes.

    {"act": "start", "workload": ..., "execution": ..., "policy": JSON, "fingerprint": JSON,
     "candidates": "a,b"}                          -> arms, posture, watched, reason
    {"act": "settle", "workload": ..., "execution": ..., "policy": JSON, "observed": JSON,
     "model--ARM": ..., "image--ARM": ..., ...}
                                     -> arm, model, image, compiler, job, words, reason

All values are texts, as the steps of a definition hand them over. In an account EventBridge also
says when an execution failed or was stopped; `ended` settles it. On the first of a month it asks
what the month before came to:

    {"act": "month", "workload": ...}                -> month, told, text

Called again for the same execution, as a resumed one does, it gives the same answer and decides
nothing twice.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compilegate.posture import names
from compilegate.posture.errors import PostureError
from compilegate.posture.expected import read_noted
from compilegate.posture.function.ended import after_execution
from compilegate.posture.machine.events import Observed, Settled, Started
from compilegate.posture.machine.planning import BASELINE
from compilegate.posture.month import month_before, month_of, month_subject, month_text
from compilegate.posture.policy import Policy
from compilegate.posture.records.coding import decoded
from compilegate.posture.records.dynamodb import DynamoRecords
from compilegate.posture.records.files import FileRecords
from compilegate.posture.records.keeping import Records, current, decide
from compilegate.posture.records.record import Record
from compilegate.posture.state import Plan

_NONE = "none"


def lambda_handler(event: Mapping[str, Any], _context: object) -> dict[str, str]:
    """Answer one step."""
    records = records_here()
    if "detail-type" in event:
        return _ended(event, records)
    acts = {names.START: _start, names.SETTLE: _settle, names.MONTH: _month}
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
    known, _ = current(records, workload, when=now(), who=execution)
    plan = known.state.open.get(execution) or _opened(
        decide(
            records,
            workload,
            Started(
                execution=execution,
                when=now(),
                who=execution,
                policy=policy,
                candidates=tuple(event["candidates"].split(",")),
                fingerprint=json.loads(event["fingerprint"]),
            ),
        ),
        execution,
    )
    return {
        names.ARMS: plan.arms,
        names.POSTURE: str(plan.posture),
        names.WATCHED: str(plan.watched).lower(),
        names.REASON: plan.reason,
    }


def _opened(record: Record, execution: str) -> Plan:
    return record.state.open[execution]


def _settle(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    workload, execution = event["workload"], event["execution"]
    observed = decoded(Observed, json.loads(event["observed"]))
    known, _ = current(records, workload, when=now(), who=execution)
    reason = f"{execution} is settled"
    if execution in known.state.open:
        after = decide(
            records,
            workload,
            Settled(
                execution=execution,
                when=now(),
                who="gate",
                policy=Policy.read(json.loads(event["policy"])),
                seen=observed.seen,
                registered=_registered(observed, known.state.open[execution]),
                nothing_learned=observed.nothing_learned,
                lost=observed.lost,
                spent=observed.spent,
            ),
        )
        reason = after.decisions[-1].reason
        arm = _registered(observed, known.state.open[execution])
    else:
        arm = _settled_arm(known, execution) or observed.registered
    if arm == _NONE:
        raise PostureError(f"no model can be registered; {reason}")
    return {
        names.ARM: arm,
        names.REASON: reason,
        **{name: str(event[f"{name}--{arm}"]) for name in names.OF_ARM},
    }


def _month(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    """Sum up the month before this one; told once, by the table's stream."""
    workload, when = event["workload"], now()
    record, _ = current(records, workload, when=when, who="month")
    expected = read_noted(os.environ.get(names.EXPECTED_VARIABLE, "[]"))
    found = month_of(record, month_before(when), now=when, expected=expected)
    text = month_text(found)
    told = isinstance(records, DynamoRecords) and records.tell(
        workload, month=found.month, when=when, subject=month_subject(found), text=text
    )
    return {"month": found.month, "told": "yes" if told else "no", "text": text}


def _registered(observed: Observed, planned: Plan) -> str:
    """The gate's choice, but where only the baseline is to be shipped. A gate that chooses a
    candidate has found the baseline valid."""
    if planned.registers == "baseline" and observed.registered != _NONE:
        return BASELINE
    return observed.registered


def _settled_arm(record: Record, execution: str) -> str:
    """What was registered when the execution was settled before."""
    for decision in reversed(record.decisions):
        if isinstance(decision.event, Settled) and decision.event.execution == execution:
            return decision.event.registered
    return ""
