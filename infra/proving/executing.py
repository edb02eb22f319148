"""The proofs that start executions: by hand, by a delivery, by a schedule, and some too many."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

from compilegate.account.deployed import read_pipeline
from compilegate.account.errors import asking
from compilegate.account.executions.calls import (
    latest_executions,
    running_execution,
    stop_execution,
)
from compilegate.account.plan.budget import bound_of, spent_this_month
from compilegate.account.plan.jobs import jobs_of
from compilegate.document.model import parameter_values
from compilegate.document.reading import read_definition
from compilegate.infra.proving.account import Proving
from compilegate.infra.proving.commands import NotProvedError
from compilegate.infra.proving.folder import PREFIX, SECOND, WORKLOAD
from compilegate.workload import read_workload

SUCCEEDED, STOPPED, ENDED = "Succeeded", "Stopped", {"Succeeded", "Failed", "Stopped"}
LISTED = 20
CACHED = ("ProcessingJob", "TrainingJob")
"""The steps whose results the service keeps, by what their metadata call them."""
DUE_IN = timedelta(minutes=20)
"""Long enough for the deployment that sets the schedule."""


def jobs(proving: Proving) -> str:
    """An execution from its start to a registered model."""
    before = len(packages(proving))
    arn = _submitted(proving)
    ended = _ended(proving, arn, minutes=45)
    if ended["PipelineExecutionStatus"] != SUCCEEDED:
        raise NotProvedError(_why(proving, arn, ended))
    if len(packages(proving)) <= before:
        raise NotProvedError(f"{arn} succeeded and registered no model")
    return f"{arn.rpartition('/')[2]} succeeded in {len(_steps(proving, arn))} steps"


def cache(proving: Proving) -> str:
    """The same once more: no job may run."""
    arn = _submitted(proving)
    ended = _ended(proving, arn, minutes=20)
    if ended["PipelineExecutionStatus"] != SUCCEEDED:
        raise NotProvedError(_why(proving, arn, ended))
    steps = [step for step in _steps(proving, arn) if step.get("Metadata", {}).keys() & {*CACHED}]
    missed = [step["StepName"] for step in steps if "CacheHitResult" not in step]
    hits = [step for step in steps if step["StepName"] not in missed]
    # The gate judges evidence that this execution gathered, so it may run again.
    if not hits:
        raise NotProvedError(f"{arn} took no step from the cache; ran: {', '.join(missed)}")
    return f"{len(hits)} of {len(steps)} jobs were taken from the cache" + (
        f"; ran again: {', '.join(missed)}" if missed else ""
    )


def isolation(proving: Proving) -> str:
    """What IAM says of the second workload's roles and the first one's objects."""
    iam = proving.client("iam")
    objects = [
        f"arn:{proving.session.partition}:s3:::{proving.bucket}/compilegate/workloads/{name}/"
        "executions/x/data"
        for name in (WORKLOAD, SECOND)
    ]
    asked = 0
    for key, arn in proving.outputs(SECOND).items():
        if not key.endswith("RoleArn"):
            continue
        for action in ("s3:GetObject", "s3:PutObject"):
            with asking(f"simulate what {arn} may do"):
                answer = iam.simulate_principal_policy(
                    PolicySourceArn=arn, ActionNames=[action], ResourceArns=objects[:1]
                )
            (result,) = answer["EvaluationResults"]
            asked += 1
            if result["EvalDecision"] == "allowed":
                raise NotProvedError(f"{arn} may {action} on {objects[0]}")
    if not asked:
        raise NotProvedError(f"the stack of {SECOND} names no role")
    return f"{asked} questions, all denied"


def delivery(proving: Proving) -> str:
    """A delivery below the prefix, and the execution on it."""
    known = set(latest_executions(proving.session, proving.pipeline, LISTED))
    folder = f"{PREFIX}{proving.now():%Y-%m-%d-%H%M%S}/"
    s3 = proving.client("s3")
    for split in ("train", "validation"):
        body = (proving.folder.path / "workloads" / f"{split}.csv").read_bytes()
        with asking(f"deliver {split}.csv"):
            s3.put_object(Bucket=proving.bucket, Key=f"{folder}{split}.csv", Body=body)
    arn = proving.until("an execution on the delivery", 10, lambda: _new_execution(proving, known))
    with asking(f"read the parameters of {arn}"):
        given = proving.client("sagemaker").list_pipeline_parameters_for_execution(
            PipelineExecutionArn=arn
        )["PipelineParameters"]
    _stop(proving, arn)
    uri = f"s3://{proving.bucket}/{folder}"
    if {"Name": "Data", "Value": uri} not in given:
        raise NotProvedError(f"{arn} has the parameters {given}, allowed: Data={uri}")
    return f"started on {uri}"


def overlap(proving: Proving) -> str:
    """Two starts by the API in a row."""
    first, second = (_start(proving) for _ in range(2))
    try:
        ended = _ended(proving, second, minutes=10)
        status = ended["PipelineExecutionStatus"]
        going = _described(proving, first)["PipelineExecutionStatus"]
    finally:
        _stop(proving, first)
    if status != STOPPED or going == STOPPED:
        raise NotProvedError(f"the first start is {going}, the second {status}")
    return "the second start was stopped, the first went on"


def schedule(proving: Proving) -> str:
    """A schedule that is due once, in a while."""
    known = set(latest_executions(proving.session, proving.pipeline, LISTED))
    due = proving.now() + DUE_IN
    proving.folder.declare(expression=f"cron({due.minute} {due.hour} * * ? *)")
    proving.commands.deploy(proving.names.images_stack)
    arn = proving.until("an execution by the schedule", 40, lambda: _new_execution(proving, known))
    _stop(proving, arn)
    proving.folder.declare()
    return f"started for {due:%H:%M} UTC"


def month(proving: Proving) -> str:
    """A month that has room for one execution, and had one."""
    _, most, spent = _costs(proving)
    if spent <= 0:
        raise NotProvedError("no execution of this month had a job that took time")
    proving.folder.declare(month_usd=round(most + 0.005, 2))
    proving.commands.deploy(proving.names.images_stack)
    arn = _start(proving)
    ended = _ended(proving, arn, minutes=10)
    _stop(proving, arn)
    if ended["PipelineExecutionStatus"] != STOPPED:
        raise NotProvedError(f"{arn} ended as {ended['PipelineExecutionStatus']}")
    ran = [step for step in _steps(proving, arn) if step["StepStatus"] == SUCCEEDED]
    if any(step.get("Metadata", {}).keys() & {*CACHED} for step in ran):
        raise NotProvedError(f"{arn} was stopped after a job had run")
    return f"stopped: {spent:.2f} USD spent and {most:.2f} to come are above {most + 0.005:.2f}"


def packages(proving: Proving) -> list[Mapping[str, Any]]:
    """The versions that are registered, oldest first."""
    sagemaker = proving.client("sagemaker")
    group = proving.outputs()["ModelPackageGroupName"]
    with asking(f"list the models of {group}"):
        pages = sagemaker.get_paginator("list_model_packages").paginate(ModelPackageGroupName=group)
        found = [item for page in pages for item in page["ModelPackageSummaryList"]]
    return sorted(found, key=lambda item: int(item["ModelPackageVersion"]))


def _costs(proving: Proving) -> tuple[Mapping[str, float], float, float]:
    """Rates, the most that one execution may cost, and what the month has cost."""
    pipeline = read_pipeline(proving.session, proving.pipeline)
    definition, _ = read_definition(pipeline.definition)
    values, _ = parameter_values(definition.parameters, {})
    declared = read_workload(proving.folder.path / "workloads" / f"{WORKLOAD}.toml")
    if declared.budget is None:
        raise NotProvedError(f"{WORKLOAD} declares no budget")
    bound = bound_of(jobs_of(definition, values), declared.budget, proving.session.region)
    spent = spent_this_month(proving.session, proving.pipeline, bound.rates, proving.now())
    return bound.rates, bound.usd, spent


def _submitted(proving: Proving) -> str:
    printed = proving.commands.compilegate("aws", "submit", WORKLOAD)
    return next(line for line in printed.splitlines() if line.startswith("arn:"))


def _start(proving: Proving) -> str:
    with asking(f"start {proving.pipeline}"):
        answer = proving.client("sagemaker").start_pipeline_execution(
            PipelineName=proving.pipeline, ClientRequestToken=uuid4().hex
        )
    return str(answer["PipelineExecutionArn"])


def _described(proving: Proving, arn: str) -> Mapping[str, Any]:
    with asking(f"read {arn}"):
        found: Mapping[str, Any] = proving.client("sagemaker").describe_pipeline_execution(
            PipelineExecutionArn=arn
        )
    return found


def _ended(proving: Proving, arn: str, *, minutes: float) -> Mapping[str, Any]:
    def look() -> Mapping[str, Any] | None:
        found = _described(proving, arn)
        return found if found["PipelineExecutionStatus"] in ENDED else None

    return proving.until(f"the end of {arn}", minutes, look)


def _new_execution(proving: Proving, known: set[str]) -> str | None:
    latest = latest_executions(proving.session, proving.pipeline, LISTED)
    return next((arn for arn in latest if arn not in known), None)


def _stop(proving: Proving, arn: str) -> None:
    """Stop it unless it ended, and wait: the next proof starts one, too."""
    if running_execution(proving.session, proving.pipeline) == arn:
        stop_execution(proving.session, arn)
    _ended(proving, arn, minutes=20)


def _steps(proving: Proving, arn: str) -> list[Mapping[str, Any]]:
    with asking(f"list the steps of {arn}"):
        pages = (
            proving.client("sagemaker")
            .get_paginator("list_pipeline_execution_steps")
            .paginate(PipelineExecutionArn=arn)
        )
        return [step for page in pages for step in page["PipelineExecutionSteps"]]


def _why(proving: Proving, arn: str, ended: Mapping[str, Any]) -> str:
    failed = [
        f"{step['StepName']}: {step.get('FailureReason', 'no reason given')}"
        for step in _steps(proving, arn)
        if step["StepStatus"] == "Failed"
    ]
    said = "; ".join(failed) or ended.get("FailureReason", "no step says why")
    return f"{arn} ended as {ended['PipelineExecutionStatus']}: {said}"
