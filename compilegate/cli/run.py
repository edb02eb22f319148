"""`compilegate run`: execute a workload or a definition on this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from compilegate.cli.options.completing import complete_execution, complete_workload
from compilegate.cli.options.home import home_option
from compilegate.cli.options.jobs import LATER, data_pairs, job_options, job_variables
from compilegate.cli.options.parameters import name_value_pairs, parameter_option, parameter_pairs
from compilegate.cli.options.project import Project, load_workload, project_options
from compilegate.cli.pipeline.selecting import left_out_lines, selection_options
from compilegate.cli.pipeline.sources import (
    definition_name,
    definition_text,
    function_sources,
    given_models,
    image_sources,
    source_options,
)
from compilegate.cli.terminal.browser import open_option
from compilegate.cli.terminal.errors import RefusalError, disk_error, refusing_os_errors
from compilegate.cli.terminal.origin import note_origin
from compilegate.cli.terminal.outcome import show_outcome
from compilegate.cli.terminal.pages import copy_reports
from compilegate.cli.terminal.progress import progress_shown
from compilegate.cli.terminal.resuming import resume_command
from compilegate.cli.workload.checks import (
    check_data,
    check_functions,
    refuse_all_at_once,
    refuse_infeasible,
)
from compilegate.cli.workload.definition import compiled, place_locally
from compilegate.cli.workload.posture_record import (
    posture_lines,
    settle_failed,
)
from compilegate.datasets import cache_folder
from compilegate.execution.result import ExecutionResult
from compilegate.execution.target import Target
from compilegate.job.names import BASELINE_ARM
from compilegate.local import (
    LocalExecutor,
    ObjectStore,
    Selection,
    execution_named,
    latest_unfinished,
    place_data,
)
from compilegate.workload import InfeasibleError, Workload
from compilegate.workload.feasibility import NO_DAY, findings


@click.command("run")
@click.argument("workload", metavar="[NAME|FILE]", required=False, shell_complete=complete_workload)
@click.option(
    "--definition",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Execute this definition JSON instead of compiling a workload; `-` reads standard input.",
)
@click.option("--resume", is_flag=True, help="Continue the latest unfinished execution.")
@click.option(
    "--execution",
    metavar="ID",
    shell_complete=complete_execution,
    help="With --resume: continue this one; the beginning of its ID is enough.",
)
@parameter_option
@source_options
@selection_options
@job_options
@click.option(
    "--arms",
    metavar="NAME,NAME",
    help="Run only these arms, including the baseline; the report names those left out.",
)
@click.option("--no-cache", is_flag=True, help="Run every step, ignoring the step cache.")
@click.option(
    "--cores-per-job",
    type=click.IntRange(min=1),
    help="Cores for each training job. By default they are divided among those that can run in "
    "parallel.",
)
@click.option(
    "--max-parallel",
    type=click.IntRange(min=1),
    help="How many steps may run in parallel, like the service's ParallelismConfiguration.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Copy verdict.json and both reports to this folder, with the reasons as junit.xml.",
)
@open_option
@home_option
@project_options
@click.pass_context
def command(  # noqa: PLR0917  one argument for each option
    context: click.Context,
    workload: str | None,
    definition: Path | None,
    resume: bool,
    execution: str | None,
    parameters: tuple[str, ...],
    images: tuple[str, ...],
    functions: tuple[str, ...],
    models: tuple[str, ...],
    variables: tuple[str, ...],
    shared: tuple[Path, ...],
    data: tuple[str, ...],
    until: tuple[str, ...],
    skip: tuple[str, ...],
    commands: tuple[str, ...],
    arms: str | None,
    no_cache: bool,
    cores_per_job: int | None,
    max_parallel: int | None,
    output: Path | None,
    open_page: bool,
    home: Path,
    workloads: Path,
    containers: Path,
) -> None:
    """Execute a workload or a definition on this machine, without AWS and without Docker.

    \b
      compilegate run news-topics                                compile and execute a workload
      compilegate run news-topics --resume                       continue after a crash or Ctrl-C
      compilegate run --resume --execution k3v                   continue this one
      compilegate run news-topics --arms baseline,larger-batch   run some of its arms
      compilegate run --definition pipeline.json                 execute a definition from elsewhere
      compilegate run --definition pipeline.json --until train    and no further
      compilegate run --definition pipeline.json --skip deploy    without a step
      compilegate run news-topics -p ModelApprovalStatus=Approved

    Each job is a process with the folders and the environment that SageMaker gives it. A training
    job has its own cores, since it measures time. What cannot run here is refused by name before
    anything starts. `s3://bucket/key` is the file HOME/s3/bucket/key.
    """
    project = Project(workloads=workloads, containers=containers)
    _check_options(resume, execution, arms, chosen=bool(until or skip or data))
    if sys.stdout.isatty():  # what comes next may take seconds
        click.echo(f"checking {workload or definition or execution or 'what to run'}")
    name, text, execution_id = "", None, None
    if resume:
        execution_id = _unfinished(execution, workload, definition, project, home)
    else:
        name, text = _pipeline(workload, definition, project, home, arms)
    with refusing_os_errors():
        home.mkdir(parents=True, exist_ok=True)
        later = _placed(data_pairs(data), ObjectStore(home.resolve() / "s3"))
    executor = LocalExecutor(
        home=home,
        images=image_sources(images, containers),
        functions=function_sources(functions, home),
        given_models=given_models(models),
        commands=name_value_pairs("--command", commands),
        variables=job_variables(variables),
        shared=shared,
        later=later,
        definition=text,
        selection=Selection(until, skip),
        use_cache=not no_cache,
        cores_per_job=cores_per_job,
        max_parallel_steps=max_parallel,
    )
    given = parameter_pairs(parameters)
    if execution_id is None:
        reference = executor.start(name, given)
        note_origin(executor.read(reference).folder, _expected(workload, project, home))
    else:
        reference = executor.resume(execution_id, given)
    for line in left_out_lines(executor.left_out(reference)):
        click.echo(line)
    result, status = _followed(executor, reference, context, open_page)
    if workload is not None and _must_run_again(workload, project, home, result):
        rescue = "a candidate crashed and no model was registered: the baseline alone"
        click.echo(f"{rescue}, in the next execution" if resume else f"{rescue}, now")
        if not resume:
            result, status = _followed(executor, executor.start(name, given), context, open_page)
    for line in posture_lines(result.pipeline_name, result.execution_id, home):
        click.echo(line)
    if output is not None:
        copy_reports(result, output)
    raise SystemExit(status)


def _placed(data: Mapping[str, str], store: ObjectStore) -> list[str]:
    """Let folders stand for what lies in S3; returns the places that are filled later."""
    for uri, where in data.items():
        if where != LATER:
            count = place_data(store, uri, Path(where))
            click.echo(f"{uri}: {count} {'file' if count == 1 else 'files'} of {where}")
    return [uri for uri, where in data.items() if where == LATER]


def _followed(
    executor: LocalExecutor, reference: str, context: click.Context, open_page: bool
) -> tuple[ExecutionResult, int]:
    resume = resume_command(reference, context)
    try:
        with progress_shown() as listener:
            result = executor.follow(reference, listener)
    except OSError as error:
        raise disk_error(error, resume) or error from error
    status = show_outcome(executor, result, resume=resume, open_page=open_page)
    return result, status


def _expected(workload: str | None, project: Project, home: Path) -> list[dict[str, Any]]:
    """What advice expects, taken down before anything is measured."""
    if workload is None:
        return []
    from compilegate.cli.workload.advise import expectations  # noqa: PLC0415  reads tables

    _, path = load_workload(workload, project.workloads)
    return expectations(path, project.workloads, home)


def _must_run_again(workload: str, project: Project, home: Path, result: ExecutionResult) -> bool:
    """Whether a crashed candidate has left the workload without a model, and without a baseline
    that the posture's record would now train alone."""
    declared, _ = load_workload(workload, project.workloads)
    if declared.posture is None:
        return False
    state = settle_failed(declared, home, result)
    return state is not None and bool(state.rescue)


def _check_options(resume: bool, execution: str | None, arms: str | None, *, chosen: bool) -> None:
    if resume and chosen:
        raise click.UsageError(
            "--until, --skip, --data: a resumed execution keeps what it was started with"
        )
    if resume and arms is not None:
        raise click.UsageError("--arms: a resumed execution keeps its own arms")
    if execution is not None and not resume:
        raise click.UsageError("--execution: found it without --resume, allowed: with --resume")


def _pipeline(
    workload: str | None,
    definition: Path | None,
    project: Project,
    home: Path,
    arms: str | None,
) -> tuple[str, str]:
    """The pipeline's name and its definition."""
    name = _name(workload, definition, project)
    if workload is not None:
        return _compiled(workload, project, home, arms)
    if arms is not None:
        raise click.UsageError("--arms: found --definition as well, allowed: with a workload")
    return name, definition_text("--definition", str(definition))


def _name(workload: str | None, definition: Path | None, project: Project) -> str:
    """What the pipeline is called: the workload's name, or that of the definition's file."""
    if workload is not None and definition is None:
        return load_workload(workload, project.workloads)[0].name
    if definition is not None and workload is None:
        return definition_name(definition)
    raise click.UsageError("name either a workload or --definition FILE")


def _compiled(workload: str, project: Project, home: Path, arms: str | None) -> tuple[str, str]:
    declared, path = load_workload(workload, project.workloads)
    if arms is not None and declared.posture is not None:
        raise click.UsageError(
            f"--arms: {path} has a table [posture], which decides what trains, allowed: "
            "`compilegate posture set`, or a workload without the table"
        )
    if arms is not None:
        declared = declared.with_arms([name.strip() for name in arms.split(",")])
        if declared.left_out:
            click.echo(f"arms left out: {', '.join(declared.left_out)}")
    refuse_all_at_once(
        lambda: _refuse_what_cannot_run_here(declared, path), lambda: check_data(declared, path)
    )
    deployment, placement = place_locally(declared, path, project)
    check_functions(declared, path, project)
    with refusing_os_errors():
        placement.put(ObjectStore(home.resolve() / "s3"), cache_folder(), click.echo)
    return declared.name, compiled(declared, deployment, placement.sources)


def _refuse_what_cannot_run_here(workload: Workload, path: Path) -> None:
    """Refuse arms by name, and say how to run the others, if there are any."""
    try:
        refuse_infeasible(workload, path, target=Target.HERE)
    except InfeasibleError as error:
        elsewhere = {each.arm for each in findings(workload, today=NO_DAY, target=Target.HERE)}
        rest = [name for name in workload.arms if name not in elsewhere]
        if BASELINE_ARM not in rest or len(rest) == 1:
            raise
        advice = f"to run the others here: --arms {','.join(rest)}"
        raise RefusalError(*error.problems, advice) from error


def _unfinished(
    execution: str | None,
    workload: str | None,
    definition: Path | None,
    project: Project,
    home: Path,
) -> str:
    """The execution to continue: the one that was named, or the latest of its pipeline."""
    if execution is not None:
        return execution_named(home, execution)
    pipeline_name = _name(workload, definition, project)
    found = latest_unfinished(home, pipeline_name)
    if found is None:
        raise click.UsageError(
            f"--resume: {home} has no unfinished execution of {pipeline_name}; "
            "run it without --resume"
        )
    return found.execution_id
