"""`compilegate aws submit`, `watch` and `stop`: executions of a deployed workload on SageMaker."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import click

from compilegate.access.layout import verdicts_prefix
from compilegate.account.deployed import DeployedPipeline, StackOutputs, read_outputs, read_pipeline
from compilegate.account.errors import asking
from compilegate.account.executions.calls import (
    execution_parameters,
    latest_executions,
    running_execution,
    stop_execution,
)
from compilegate.account.executions.executor import SageMakerExecutor
from compilegate.account.executions.state import is_execution_arn, region_of
from compilegate.account.object_store import S3ObjectStore
from compilegate.account.plan.budget import (
    BudgetError,
    bound_of,
    budget_faults,
    spent_this_month,
)
from compilegate.account.plan.jobs import PlannedJob, job_faults, jobs_of
from compilegate.account.session import AwsSession, open_session
from compilegate.cli.aws.upload import stage_data
from compilegate.cli.checks import refuse_infeasible
from compilegate.cli.options import (
    Project,
    parameter_option,
    parameter_pairs,
    pass_project,
    workload_argument,
)
from compilegate.cli.places import Account, open_account
from compilegate.cli.terminal.errors import RefusalError, refusing_os_errors
from compilegate.cli.terminal.origin import note_origin
from compilegate.cli.terminal.progress import progress_shown
from compilegate.document.parameters import parameter_values
from compilegate.document.reading import read_definition
from compilegate.execution import exit_codes
from compilegate.execution.looking import POLL_SECONDS
from compilegate.job.names import NOTICE_FILE
from compilegate.workload import Workload
from compilegate.workload.parameters import ATTEMPT, INSTANCE_TYPE

DATA = "Data"
"""The pipeline parameter for the raw data's URI."""
POLL_VARIABLE = "COMPILEGATE_POLL_SECONDS"
"""How long to wait between two looks, in seconds."""


def poll_seconds(usually: float = POLL_SECONDS) -> float:
    """The interval between two looks."""
    return float(os.environ.get(POLL_VARIABLE) or usually)


@click.command("submit")
@workload_argument
@click.option("--wait", is_flag=True, help="Follow the execution, as `compilegate aws watch` does.")
@parameter_option
@click.option(
    "--token",
    metavar="TEXT",
    help="Two submits with the same token start one execution; in CI, use the run's number.",
)
@pass_project
def submit_command(
    project: Project, workload: str, *, wait: bool, parameters: tuple[str, ...], token: str | None
) -> None:
    """Start an execution of a deployed workload on SageMaker.

    \b
      compilegate aws submit news-topics              start it
      compilegate aws submit news-topics --wait       start it, and follow it to its verdict
      compilegate aws submit news-topics -p ModelApprovalStatus=Approved

    The definition is the deployed one (`compilegate aws plan` shows what this checkout would
    change). The raw data is uploaded first unless it is already there. With --wait the exit status
    is that of a local run. Ctrl-C stops the watching, not the execution.
    """
    declared, path = project.load(workload)
    name = declared.name
    given = parameter_pairs(parameters)
    if INSTANCE_TYPE in given:
        refuse_infeasible(declared, path, instance_type=given[INSTANCE_TYPE])
    _check_arguments(given, token)
    if wait:
        with refusing_os_errors():
            project.home.mkdir(parents=True, exist_ok=True)
    account = open_account(project)
    stack, pipeline = _deployed(account, name)
    if token is None:
        _refuse_overlap(account, pipeline)
    jobs = _check_parameters(pipeline.definition, given)
    _refuse_above_budget(account, declared, pipeline.name, jobs)
    if DATA not in given:
        data = stage_data(account, declared, path)
        if data != stack["DataUri"]:
            click.echo(f"the raw data has changed since the deployment; {DATA}={data}", err=True)
            given[DATA] = data
    given |= _attempt(account, name, pipeline, given)
    executor = SageMakerExecutor(
        session=account.session, home=project.home, token=token, poll_seconds=poll_seconds()
    )
    arn = executor.start(pipeline.name, given)
    if wait:
        from compilegate.cli.measured import expectations  # noqa: PLC0415  reads tables

        note_origin(executor.read(arn).folder, expectations(project, path))
        raise SystemExit(_watch(executor, arn))
    click.echo(arn)
    click.echo(f"started; watch it with: compilegate aws watch {arn}", err=True)


@click.command("watch")
@click.argument("execution", metavar="ARN|NAME")
@pass_project
def watch_command(project: Project, execution: str) -> None:
    """Follow an execution on SageMaker, running or ended, to its verdict.

    \b
      compilegate aws watch news-topics                the latest of this workload
      compilegate aws watch arn:aws:sagemaker:...      this one, of any pipeline

    A workload's NAME stands for the latest execution of its pipeline. The exit status is that of a
    local run. Ctrl-C stops the watching, not the execution.
    """
    session, arn = _find_execution(project, execution)
    executor = SageMakerExecutor(session=session, home=project.home, poll_seconds=poll_seconds())
    raise SystemExit(_watch(executor, arn))


@click.command("stop")
@click.argument("execution", metavar="ARN|NAME")
@pass_project
def stop_command(project: Project, execution: str) -> None:
    """Stop an execution on SageMaker and its jobs.

    \b
      compilegate aws stop news-topics                 the latest of this workload
      compilegate aws stop arn:aws:sagemaker:...       this one, of any pipeline

    A workload's NAME stands for the latest execution of its pipeline. The results of steps
    that have succeeded stay in the step cache.
    """
    session, arn = _find_execution(project, execution)
    stop_execution(session, arn)
    click.echo(f"stopping {arn}; watch it end with: compilegate aws watch {arn}")


def _watch(executor: SageMakerExecutor, arn: str) -> int:
    """Print what happens until the execution ends, then its result; returns the exit status.

    Ctrl-C stops the watching, not the execution.
    """
    from compilegate.cli.terminal.outcome import show_outcome  # noqa: PLC0415  slow

    try:
        with _leaving_on_termination():
            with progress_shown() as listener:
                result = executor.follow(arn, listener)
            return show_outcome(executor, result)
    except KeyboardInterrupt:
        click.echo(
            f"\nno longer watching; the execution continues\n"
            f"  watch it again:  compilegate aws watch {arn}\n"
            f"  stop it:         compilegate aws stop {arn}",
            err=True,
        )
        return exit_codes.INTERRUPTED


@contextmanager
def _leaving_on_termination() -> Iterator[None]:
    """Treat a termination signal like Ctrl-C, as when CI cancels the job that waits."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _find_execution(project: Project, arn_or_workload: str) -> tuple[AwsSession, str]:
    """The execution that an argument names, and a session for its account."""
    if is_execution_arn(arn_or_workload):
        return open_session(region_of(arn_or_workload)), arn_or_workload
    if ":" in arn_or_workload or "/" in arn_or_workload:
        raise click.UsageError(
            f"found {arn_or_workload!r}, allowed: a workload's name, or the ARN of an execution "
            "(arn:aws:sagemaker:REGION:ACCOUNT:pipeline/PIPELINE/execution/ID)"
        )
    account = open_account(project)
    pipeline = account.names.pipeline(arn_or_workload)
    latest = latest_executions(account.session, pipeline, most=1)
    if not latest:
        raise click.UsageError(
            f"{pipeline} has no execution yet; start one with: "
            f"compilegate aws submit {arn_or_workload}"
        )
    return account.session, latest[0]


def _deployed(account: Account, workload: str) -> tuple[StackOutputs, DeployedPipeline]:
    stack = read_outputs(account.session, account.names.workload_stack(workload))
    return stack, read_pipeline(account.session, stack["PipelineName"])


def _refuse_overlap(account: Account, pipeline: DeployedPipeline) -> None:
    """Refuse a start that the notifier would stop, unless its token finds its execution."""
    running = running_execution(account.session, pipeline.name)
    if running is not None:
        raise RefusalError(
            f"{pipeline.name} is already executing, and executions do not overlap; follow it with: "
            f"compilegate aws watch {running}"
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
    bucket = account.bucket
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
