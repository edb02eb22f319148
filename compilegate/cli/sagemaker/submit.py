"""`compilegate submit`: start an execution of a deployed workload on SageMaker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from compilegate.access.layout import verdicts_prefix
from compilegate.account.deployed import DeployedPipeline, StackOutputs, read_outputs, read_pipeline
from compilegate.account.errors import asking
from compilegate.account.executions.calls import (
    execution_parameters,
    latest_executions,
    running_execution,
)
from compilegate.account.executions.executor import SageMakerExecutor
from compilegate.account.object_store import S3ObjectStore
from compilegate.account.plan.budget import (
    BudgetError,
    bound_of,
    budget_faults,
    spent_this_month,
)
from compilegate.account.plan.jobs import PlannedJob, job_faults, jobs_of
from compilegate.cli.options.account import Account, open_account, poll_option, settings_option
from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.home import home_option
from compilegate.cli.options.parameters import parameter_option, parameter_pairs
from compilegate.cli.options.project import load_workload, workloads_option
from compilegate.cli.sagemaker.stage import stage_data
from compilegate.cli.sagemaker.watch import watch_execution
from compilegate.cli.terminal.errors import RefusalError, refusing_os_errors
from compilegate.cli.terminal.origin import note_origin
from compilegate.cli.workload.checks import refuse_infeasible
from compilegate.document.parameters import parameter_values
from compilegate.document.reading import read_definition
from compilegate.execution.looking import POLL_SECONDS
from compilegate.job.names import NOTICE_FILE
from compilegate.workload import Workload
from compilegate.workload.parameters import ATTEMPT, INSTANCE_TYPE

DATA = "Data"
"""The pipeline parameter for the raw data's URI."""


@click.command("submit")
@click.argument("workload", metavar="NAME|FILE", shell_complete=complete_workload)
@click.option("--wait", is_flag=True, help="Follow the execution, as `compilegate watch` does.")
@parameter_option
@click.option(
    "--token",
    metavar="TEXT",
    help="Two submits with the same token start one execution; in CI, use the run's number.",
)
@poll_option(POLL_SECONDS)
@home_option
@settings_option
@workloads_option
def command(  # noqa: PLR0917  one argument for each option
    workload: str,
    wait: bool,
    parameters: tuple[str, ...],
    token: str | None,
    poll_seconds: float,
    home: Path,
    settings: Path,
    workloads: Path,
) -> None:
    """Start an execution of a deployed workload on SageMaker.

    \b
      compilegate submit news-topics              start it
      compilegate submit news-topics --wait       start it, and follow it to its verdict
      compilegate submit news-topics -p ModelApprovalStatus=Approved

    The definition is the deployed one (`compilegate plan` shows what this checkout would change).
    The raw data is uploaded first unless it is already there. With --wait the exit status is that
    of a local run. Ctrl-C stops the watching, not the execution.
    """
    declared, path = load_workload(workload, workloads)
    name = declared.name
    given = parameter_pairs(parameters)
    if INSTANCE_TYPE in given:
        refuse_infeasible(declared, path, instance_type=given[INSTANCE_TYPE])
    _check_arguments(given, token)
    if wait:
        with refusing_os_errors():
            home.mkdir(parents=True, exist_ok=True)
    account = open_account(settings)
    stack, pipeline = _deployed(account, name)
    if token is None:
        _refuse_overlap(account, pipeline)
    jobs = _check_parameters(pipeline.definition, given)
    _refuse_above_budget(account, declared, pipeline.name, jobs)
    if DATA not in given:
        data = stage_data(account, workload, workloads)
        if data != stack["DataUri"]:
            click.echo(f"the raw data has changed since the deployment; {DATA}={data}", err=True)
            given[DATA] = data
    given |= _attempt(account, name, pipeline, given)
    executor = SageMakerExecutor(
        session=account.session, home=home, token=token, poll_seconds=poll_seconds
    )
    arn = executor.start(pipeline.name, given)
    if wait:
        from compilegate.cli.workload.advise import expectations  # noqa: PLC0415  reads tables

        note_origin(executor.read(arn).folder, expectations(path, workloads, home))
        raise SystemExit(watch_execution(executor, arn))
    click.echo(arn)
    click.echo(f"started; watch it with: compilegate watch {arn}", err=True)


def _deployed(account: Account, workload: str) -> tuple[StackOutputs, DeployedPipeline]:
    stack = read_outputs(account.session, account.names.workload_stack(workload))
    return stack, read_pipeline(account.session, stack["PipelineName"])


def _refuse_overlap(account: Account, pipeline: DeployedPipeline) -> None:
    """Refuse a start that the notifier would stop, unless its token finds its execution."""
    running = running_execution(account.session, pipeline.name)
    if running is not None:
        raise RefusalError(
            f"{pipeline.name} is already executing, and executions do not overlap; follow it with: "
            f"compilegate watch {running}"
        )


def _attempt(
    account: Account, workload: str, pipeline: DeployedPipeline, given: Mapping[str, str]
) -> dict[str, str]:
    """The parameter by which candidates train again whose jobs the last execution lost: for the
    service their steps ended well, and lie in its cache. Empty where that is not needed."""
    declared, _ = read_definition(pipeline.definition)
    latest = latest_executions(account.session, pipeline.name, 1)
    if ATTEMPT in given or ATTEMPT not in {each.name for each in declared.parameters} or not latest:
        return {}
    (arn,) = latest
    before = int(execution_parameters(account.session, arn).get(ATTEMPT, "1"))
    lost = _lost_jobs(account, workload, arn.rpartition("/")[2])
    if lost:
        click.echo(
            f"the last execution lost jobs; their arms train again: {ATTEMPT}={before + 1}",
            err=True,
        )
    return {ATTEMPT: str(before + lost)} if before + lost > 1 else {}


def _lost_jobs(account: Account, workload: str, execution: str) -> bool:
    """Whether the gate of an execution says so."""
    bucket = read_outputs(account.session, account.names.foundation_stack)["BucketName"]
    key = f"{verdicts_prefix(workload)}{execution}/{NOTICE_FILE}"
    client = account.session.client("s3")
    if not S3ObjectStore(client).exists(f"s3://{bucket}/{key}"):
        return False
    with asking(f"read s3://{bucket}/{key}"):
        notice = json.loads(client.get_object(Bucket=bucket, Key=key)["Body"].read())
    return bool(notice.get("lost"))


def _check_arguments(given: Mapping[str, str], token: str | None) -> None:
    if token is not None and not token.strip():
        # A CI variable may be missing: every run would then find the first one's execution.
        raise click.UsageError(
            "--token: found an empty text, allowed: a text that differs for each run"
        )
    if DATA in given and not given[DATA].startswith("s3://"):
        raise click.UsageError(f"--parameter: {DATA} is {given[DATA]!r}, allowed: s3://BUCKET/KEY")


def _refuse_above_budget(
    account: Account, workload: Workload, pipeline: str, jobs: Sequence[PlannedJob]
) -> None:
    """Refuse a start that could cost more than the workload declares."""
    budget = workload.budget
    if budget is None:
        return
    bound = bound_of(jobs, budget, account.session.region)
    spent = None
    if budget.month_usd is not None:
        spent = spent_this_month(account.session, pipeline, bound.rates, datetime.now(UTC))
    if faults := budget_faults(workload.name, budget, bound, spent):
        raise BudgetError(*faults)


def _check_parameters(definition: str, given: Mapping[str, str]) -> list[PlannedJob]:
    """The jobs that would run; refuses parameters that the deployed definition does not declare or
    allow."""
    deployed, _ = read_definition(definition)
    values, faults = parameter_values(deployed.parameters, given)
    if faults:
        raise RefusalError(*faults)
    jobs = jobs_of(deployed, values)
    if unable := job_faults(jobs):
        raise RefusalError(*unable)
    return jobs
