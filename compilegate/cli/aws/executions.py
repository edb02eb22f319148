"""`compilegate aws submit`, `watch`, `stop` and `upload`: executions of a deployed workload on
SageMaker, and the raw data that they train on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from compilegate.access.layout import verdicts_prefix
from compilegate.account.executions import (
    SageMakerExecutor,
    execution_parameters,
    is_execution_arn,
    latest_executions,
    read_pipeline,
    running_execution,
    stop_execution,
)
from compilegate.account.object_store import object_at, stage_raw_data
from compilegate.account.plan.budget import BudgetError, over_budget
from compilegate.account.plan.jobs import jobs_given
from compilegate.account.plan.quotas import ask_quotas, most_at_once
from compilegate.account.registry import WAITING
from compilegate.account.roles import approved_by_people
from compilegate.account.session import AwsSession, open_session, read_outputs
from compilegate.cli import options
from compilegate.cli.definitions import image_bases, refuse_infeasible
from compilegate.cli.options import Project, one_of, pass_project
from compilegate.cli.places import Account, open_account
from compilegate.cli.printing import RefusalError, announce
from compilegate.cli.progress import progress_shown
from compilegate.cli.provenance import record_provenance
from compilegate.datasets import cache_folder, raw_data
from compilegate.document.reading import read_definition
from compilegate.execution import exit_codes
from compilegate.execution.events import POLL_SECONDS
from compilegate.job.contract import NOTICE_FILE
from compilegate.pipelines.staging.placement import raw_data_uri
from compilegate.workload import Workload
from compilegate.workload.parameters import APPROVAL, ATTEMPT, DATA, INSTANCE_TYPE

POLL_VARIABLE = "COMPILEGATE_POLL_SECONDS"
"""How long to wait between two looks, in seconds."""


def poll_seconds(usually: float = POLL_SECONDS) -> float:
    """The interval between two looks."""
    return float(os.environ.get(POLL_VARIABLE) or usually)


@click.command("submit")
@options.workload
@click.option("--wait", is_flag=True, help="Follow the execution, as `compilegate aws watch` does.")
@options.parameters
@click.option(
    "--token",
    metavar="TEXT",
    help="Two submits with the same token start one execution; in CI, use the run's number.",
)
@pass_project
def submit_command(
    project: Project, workload: str, *, wait: bool, parameters: dict[str, str], token: str | None
) -> None:
    """Start an execution of a deployed workload on SageMaker.

    \b
      compilegate aws submit news-topics              start it
      compilegate aws submit news-topics --wait       start it, and follow it to its verdict
      compilegate aws submit news-topics -p TrainingInstanceType=ml.m5.2xlarge

    The definition is the deployed one (`compilegate aws plan` says whether it is this checkout's).
    The raw data is uploaded first unless it is already there. What the budget or the account's
    quotas forbid does not start; where a quota is low, fewer steps run in parallel. With --wait the
    exit status is that of a local run. Ctrl-C stops the watching, not the execution.
    """
    declared, path = project.load(workload)
    if INSTANCE_TYPE in parameters:
        bases = image_bases(project)
        refuse_infeasible(declared, path, bases, instance_type=parameters[INSTANCE_TYPE])
    if token is not None and not token.strip():
        # A CI variable may be missing: every run would then find the first one's execution.
        raise click.UsageError("--token is empty; give a text that differs for each run")
    if not parameters.get(DATA, "s3://").startswith("s3://"):
        found = repr(parameters[DATA])
        raise click.UsageError(f"--parameter {DATA} is {found}, expected s3://BUCKET/KEY")
    if wait:
        project.home.mkdir(parents=True, exist_ok=True)  # before anything starts
    account = open_account(project)
    pipeline, added, at_once = _prepared(
        account, declared, path, parameters, repeats=token is not None
    )
    executor = SageMakerExecutor(
        session=account.session,
        home=project.home,
        token=token,
        at_once=at_once,
        poll_seconds=poll_seconds(),
    )
    arn = executor.start(pipeline, {**parameters, **added})
    if wait:
        record_provenance(executor.read(arn).folder)
        raise SystemExit(_watch(executor, arn))
    click.echo(arn)
    announce(f"started; watch it with: compilegate aws watch {arn}")


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


@click.command("upload")
@options.optional_workload
@click.option(
    "--all", "everything", is_flag=True, help="Every workload that is deployed from here."
)
@pass_project
def upload_command(project: Project, workload: str | None, *, everything: bool) -> None:
    """Upload a workload's raw data to the project's bucket unless it is already there.

    \b
      compilegate aws upload news-topics     prints its URI, s3://BUCKET/...
      compilegate aws upload --all           as `make deploy` does before it changes a pipeline

    The key contains the data's digest, so changed data gets a new key and existing data is always
    the right one. `compilegate aws submit` does the same before it starts an execution.
    """
    one_of(workload, flag=everything, otherwise="--all")
    account = open_account(project)
    settings = account.names.settings
    declared = project.deployed_workloads(settings) if everything else [project.load(str(workload))]
    for each, path in declared:
        click.echo(_staged(account, each, path))


def _prepared(
    account: Account, workload: Workload, path: Path, given: Mapping[str, str], *, repeats: bool
) -> tuple[str, Mapping[str, str], int | None]:
    """Refuse a start that cannot succeed, and upload the raw data; returns the pipeline, parameters
    that only the account knows, and the most parallel steps where quotas limit that. A start that
    `repeats` a token may overlap: it finds its execution."""
    session = account.session
    if given.get(APPROVAL, WAITING) != WAITING and approved_by_people(workload):
        raise RefusalError(
            f"--parameter {APPROVAL} is {given[APPROVAL]!r}, expected {WAITING}: people approve "
            f"models of {workload.name}, whose file declares no other approval in [registry]"
        )
    stack = read_outputs(session, account.names.workload_stack(workload.name))
    pipeline = stack["PipelineName"]
    definition, _ = read_definition(read_pipeline(session, pipeline))
    if not repeats and (running := running_execution(session, pipeline)):
        raise RefusalError(
            f"{pipeline} is already executing, and executions do not overlap; follow it with: "
            f"compilegate aws watch {running}"
        )
    jobs = jobs_given(definition, given)
    if faults := over_budget(session, pipeline, workload, jobs, datetime.now(UTC)):
        raise BudgetError(*faults)
    answers, unknown = ask_quotas(session, definition, jobs, workload.compute.max_parallel_steps)
    if unknown is not None:
        announce(f"quotas were not checked: {unknown}")
    if (at_once := most_at_once(answers)) is not None:
        announce(f"the account's quotas let {at_once} steps run at a time")
    added = {}
    if DATA not in given and (data := _staged(account, workload, path)) != stack["DataUri"]:
        announce(f"the raw data has changed since the deployment: {DATA}={data}")
        added[DATA] = data
    if ATTEMPT not in given and ATTEMPT in {each.name for each in definition.parameters}:
        attempt = _attempt(account, workload.name, pipeline)
        if attempt > 1:
            added[ATTEMPT] = str(attempt)
    return pipeline, added, at_once


def _attempt(account: Account, workload: str, pipeline: str) -> int:
    """One more than the last execution's where it lost jobs, so that their arms train again: for
    the service their steps ended well, and lie in its cache."""
    latest = latest_executions(account.session, pipeline, most=1)
    if not latest:
        return 1
    before = int(execution_parameters(account.session, latest[0]).get(ATTEMPT, "1"))
    folder = f"{verdicts_prefix(workload)}{latest[0].rpartition('/')[2]}"
    notice = object_at(account.session, f"s3://{account.bucket}/{folder}/{NOTICE_FILE}")
    if notice is None or not json.loads(notice).get("lost"):
        return before
    announce(f"the last execution lost jobs, so their arms train again: {ATTEMPT}={before + 1}")
    return before + 1


def _staged(account: Account, workload: Workload, path: Path) -> str:
    """Upload the raw data of a workload, unless they are there; returns their URI."""
    data = raw_data(workload.data, path.parent)
    uri = raw_data_uri(workload, data, account.bucket)
    stage_raw_data(account.session, data, uri, cache_folder(), announce)
    return uri


def _watch(executor: SageMakerExecutor, arn: str) -> int:
    """Print what happens until the execution ends, then its result; returns the exit status.

    Ctrl-C and a termination signal, as when CI cancels the job that waits, stop the watching, not
    the execution.
    """
    from compilegate.cli.outcome import show_outcome  # noqa: PLC0415  slow

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with progress_shown() as listener:
            result = executor.follow(arn, listener)
        return show_outcome(executor, result)
    except KeyboardInterrupt:
        announce(
            f"\nstopped watching; the execution continues\n"
            f"  watch it again:  compilegate aws watch {arn}\n"
            f"  stop it:         compilegate aws stop {arn}"
        )
        return exit_codes.INTERRUPTED


def _find_execution(project: Project, arn_or_workload: str) -> tuple[AwsSession, str]:
    """The execution that an argument names, and a session for its account."""
    if is_execution_arn(arn_or_workload):
        return open_session(arn_or_workload.split(":")[3]), arn_or_workload
    if ":" in arn_or_workload or "/" in arn_or_workload:
        raise click.UsageError(
            f"{arn_or_workload!r} is neither a workload's name nor the ARN of an execution "
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
