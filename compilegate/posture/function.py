"""The function of a posture's Lambda steps: which arms train, what their verdict changes, and which
execution registered last.

    {"act": "start", "workload": ..., "execution": ..., "policy": JSON, "fingerprint": JSON,
     "candidates": "a,b"}                          -> arms, registers, posture, watched, reason
    {"act": "settle", "workload": ..., "execution": ..., "observed": JSON, "model--ARM": ...,
     "image--ARM": ..., ...}         -> arm, model, image, compiler, job, words, reason
    {"act": "registered", "workload": ..., "execution": ..., "arms": ..., "registers": ...}
                                                   -> reason

`inputs` goes to the first and to the last. Where they, and what trains, are those of the execution
that registered last, and the cache still holds, nothing trains: the same model would be registered
again. It is noted only after the registration, since a verdict is none.

All values are texts, as the steps of a definition pass them. Called again for the same execution,
as a resumed one does, it gives the same answer and decides nothing twice.

An execution that failed or was stopped before its gate ran is settled by `settle_ended`: on this
machine by `run`, in an account by the keeper (`infra/keeper/`). Where a candidate's job left no
model, the same caller starts an execution of the baseline alone at once.
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
from compilegate.posture.records import FileRecords, Record, Records, current, decide, decoded
from compilegate.posture.state import Plan, Registered, Seen, Settled, Started

_BY_ITS_PROGRAM = re.compile(r"AlgorithmError|exit code", re.IGNORECASE)
"""How the service, and the local target, report that a program ended its job."""
_BY_THE_MACHINE = re.compile(r"\b(?:137|143)\b|SIGKILL|SIGTERM|out of memory", re.IGNORECASE)
"""The programs among these that something outside of them killed."""


def lambda_handler(event: Mapping[str, Any], _context: object) -> dict[str, str]:
    """Answer one step on this machine, where records are files."""
    return act(event, FileRecords(Path(os.environ[contract.FOLDER_VARIABLE])))


def act(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    """Answer one step, wherever its records are kept."""
    acts = {contract.START: _start, contract.SETTLE: _settle, contract.REGISTERED: _registered}
    return acts[event[contract.ACT]](event, records)


def now() -> str:
    """The current time, in UTC."""
    today = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return os.environ.get(contract.DAY_VARIABLE) or today


def _start(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    workload, execution = event["workload"], event["execution"]
    record = current(records, workload, when=now(), who=execution)
    plan = record.state.open.get(execution)
    if plan is None:
        started = Started(
            execution=execution,
            when=now(),
            who=execution,
            policy=decoded(Policy, json.loads(event["policy"])),
            candidates=tuple(event["candidates"].split(",")),
            fingerprint=json.loads(event["fingerprint"]),
        )
        ahead = record.after(started).state.open[execution]
        if (why := _nothing_new(event, record, ahead)) and not record.state.rescue:
            # Nothing is written: no job runs, so nothing can be learned.
            plan = replace(ahead, arms=contract.NOTHING, reason=why)
        else:
            plan = decide(records, workload, started).state.open[execution]
    return {
        contract.ARMS: plan.arms,
        contract.REGISTERS: plan.registers,
        contract.POSTURE: str(plan.posture),
        contract.WATCHED: str(plan.watched).lower(),
        contract.REASON: plan.reason,
    }


def _nothing_new(event: Mapping[str, Any], record: Record, plan: Plan) -> str:
    """Why the execution would take all of its trainings from the cache and register the registered
    model again; empty where it would not."""
    newest = record.latest(Registered)
    if contract.INPUTS not in event or contract.FRESH_VARIABLE in os.environ or newest is None:
        return ""
    last, _ = newest
    then, today = map(datetime.datetime.fromisoformat, (last.when, now()))
    digest = _digest(event[contract.INPUTS], plan.arms, plan.registers)
    if (today - then).total_seconds() > float(event[contract.CACHE_SECONDS]) or last.made != digest:
        return ""
    return f"Nothing is new: {last.execution} registered the model of the same data and code"


def _digest(*what: str) -> str:
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def _registered(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    workload, execution = event["workload"], event["execution"]
    digest = _digest(
        *(event[name] for name in (contract.INPUTS, contract.ARMS, contract.REGISTERS))
    )
    registered = Registered(execution=execution, when=now(), who="pipeline", made=digest)
    last = current(records, workload, when=now(), who=execution).latest(Registered)
    if last is None or last[0].execution != execution:
        decide(records, workload, registered)
    return {contract.REASON: f"the model of {execution} is registered"}


def _settle(event: Mapping[str, Any], records: Records) -> dict[str, str]:
    workload, execution = event["workload"], event["execution"]
    found = {**json.loads(event["observed"]), "execution": execution, "when": now(), "who": "gate"}
    ended: Settled = decoded(Settled, found)
    record = current(records, workload, when=now(), who=execution)
    planned, settled = record.state.open.get(execution), record.latest(Settled, execution)
    arm, reason = ended.registered, f"{execution} is already settled"
    if planned is not None:
        # A gate that chooses a candidate has found the baseline valid.
        if planned.registers == "baseline" and arm != contract.NOTHING:
            arm = contract.BASELINE
        ended = replace(ended, registered=arm)
        reason = decide(records, workload, ended).decisions[-1].reason
    elif settled is not None:
        arm = settled[0].registered
    if arm == contract.NOTHING:
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
    """Settle an execution; None where it is not waiting for that. A candidate whose program failed
    its job is refused; any other end shows nothing.

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
        if (step := next(filter(training.fullmatch, failed), None)) is None:
            continue
        why = failed[step]
        reason = f"{step}: {why or 'its job failed'}"
        if _BY_ITS_PROGRAM.search(why) and not _BY_THE_MACHINE.search(why):
            seen.append(Seen(arm=arm, outcome="fail", crashed=True, broken=True, reason=reason))
        else:
            lost.append(reason)
    return tuple(seen), "; ".join(lost)
