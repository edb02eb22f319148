"""`compilegate run`: execute a workload on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from compilegate.cli.checks import (
    cannot_run_here,
    check_data,
    check_functions,
    refuse_all_at_once,
)
from compilegate.cli.definitions import compiled_here, image_sources, object_store
from compilegate.cli.options import (
    EXISTING_FOLDER,
    FOLDER,
    Project,
    completing,
    image_option,
    name_value_pairs,
    open_option,
    optional_workload_argument,
    parameter_option,
    parameter_pairs,
    pass_project,
    repeatable,
    with_options,
)
from compilegate.cli.posture import posture_functions, posture_lines, settle_failed
from compilegate.cli.terminal.errors import RefusalError, disk_error, refusing_os_errors
from compilegate.cli.terminal.origin import note_origin, resume_command
from compilegate.cli.terminal.progress import progress_shown
from compilegate.datasets import cache_folder
from compilegate.execution.result import ExecutionResult
from compilegate.job.names import BASELINE_ARM
from compilegate.local import (
    FunctionSources,
    LocalExecutor,
    Selection,
    execution_named,
    latest_unfinished,
    parse_handler,
    place_data,
    read_model,
)
from compilegate.workload import Workload

LATER = "later"
"""What --data says instead of a folder where a program fills the place while it runs."""
NEWEST = "newest"
"""What --resume stands for without an ID."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of `run` and `pipeline run` as they were given; those of `pipeline explain`, too,
    which has some of them. See their help."""

    resume: str | None = None
    parameters: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    no_cache: bool = False
    cores_per_job: int | None = None
    max_parallel: int | None = None
    output: Path | None = None
    open_page: bool = False
    functions: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    shared: tuple[Path, ...] = ()

    def executor(
        self, project: Project, definition: str | None = None, *, explaining: bool = False
    ) -> LocalExecutor:
        """What carries the execution out. Data that stand for places in S3 are put there, unless
        the definition is only explained."""
        # A key may hold `=`; what stands after the last one is a path here.
        form, pattern = "s3://BUCKET[/KEY]=WHERE", r"(s3://.*)=(.+)"
        data = name_value_pairs("--data", self.data, form, pattern)
        if not explaining:
            _put_data(data, project)
        given = name_value_pairs("--function", self.functions).items()
        functions = [(arn, parse_handler(file)) for arn, file in given]
        models = name_value_pairs("--model", self.models).items()
        return LocalExecutor(
            home=project.home,
            images=image_sources(project, self.images),
            functions=FunctionSources(
                patterns=(
                    *functions,
                    *posture_functions(project.home, fresh=self.no_cache).patterns,
                )
            ),
            given_models={name: read_model(name, Path(file)) for name, file in models},
            commands=name_value_pairs("--command", self.commands),
            variables=_job_variables(self.variables),
            shared=self.shared,
            later=[uri for uri, where in data.items() if explaining or where == LATER],
            definition=definition,
            selection=Selection(until=self.until, skip=self.skip),
            use_cache=not self.no_cache,
            cores_per_job=self.cores_per_job,
            max_parallel_steps=self.max_parallel,
        )


run_options = with_options(
    click.option(
        "--resume",
        metavar="[ID]",
        is_flag=False,
        flag_value=NEWEST,
        shell_complete=completing("execution"),
        help="Continue the newest unfinished execution, or the one whose ID begins so.",
    ),
    parameter_option,
    image_option,
    repeatable(
        "--env",
        "variables",
        metavar="NAME[=VALUE]",
        help="A variable for the environment of every job; without a value, the shell's own.",
    ),
    repeatable(
        "--share",
        "shared",
        metavar="FOLDER",
        type=EXISTING_FOLDER,
        help="A folder here that jobs may write to, such as a cache of downloads; all else outside "
        "their own folders is read-only to them.",
    ),
    click.option("--no-cache", is_flag=True, help="Run every step, ignoring the step cache."),
    click.option(
        "--cores-per-job",
        type=click.IntRange(min=1),
        help="Cores for each training job; by default divided among those that run in parallel.",
    ),
    click.option(
        "--max-parallel",
        type=click.IntRange(min=1),
        help="How many steps may run in parallel, like the service's ParallelismConfiguration.",
    ),
    click.option(
        "--output",
        type=FOLDER,
        help="Copy verdict.json and both reports to this folder, with the reasons as junit.xml.",
    ),
    open_option,
)
"""What `run` and `pipeline run` have in common."""


@click.command("run")
@optional_workload_argument
@run_options
@click.option(
    "--arms",
    metavar="NAME,NAME",
    help="Run only these arms, including the baseline; the report names those left out.",
)
@pass_project
def command(project: Project, workload: str | None, *, arms: str | None, **given: Any) -> None:
    """Execute a workload on this machine, without AWS and without Docker.

    \b
      compilegate run news-topics                                compile and execute a workload
      compilegate run news-topics --resume                       continue after a crash or Ctrl-C
      compilegate run --resume k3v                               continue this one
      compilegate run news-topics --arms baseline,larger-batch   run some of its arms
      compilegate run news-topics -p ModelApprovalStatus=Approved

    Each job is a process with the folders and the environment that SageMaker gives it. A training
    job has its own cores, since it measures time. What cannot run here is refused by name before
    anything starts. `s3://bucket/key` is the file HOME/s3/bucket/key.
    """
    options = RunOptions(**given)
    if workload is not None and workload.endswith(".json"):
        raise click.UsageError(f"a definition runs with: compilegate pipeline run {workload}")
    refuse_nothing_to_run(options, workload, "NAME is missing; name a workload")
    if options.resume and arms is not None:
        raise click.UsageError("--arms: a resumed execution keeps its own arms")
    declared, path = (None, Path()) if workload is None else project.load(workload)
    definition = None
    if declared is not None and options.resume is None:
        definition = _compiled(declared, path, project, arms)
    name = "" if declared is None else declared.name
    executor, reference = begun(options, project, name, definition)
    result, status = followed(executor, reference, options)
    state = None if declared is None else settle_failed(declared, project.home, result)
    if state is not None and state.rescue:
        rescue = "a candidate crashed and no model was registered: the baseline alone"
        click.echo(f"{rescue}, in the next execution" if options.resume else f"{rescue}, now")
        if not options.resume:
            again = executor.start(name, parameter_pairs(options.parameters))
            result, status = followed(executor, again, options)
    end(project, options, result, status)


def refuse_nothing_to_run(options: RunOptions, given: object, missing: str) -> None:
    """Refuse a command line that names neither what to run nor what to resume."""
    if given is None and options.resume in {None, NEWEST}:
        raise click.UsageError(f"{missing}, or give --resume ID")
    if sys.stdout.isatty():  # what comes next may take seconds
        click.echo(f"checking {given or options.resume}")


def begun(
    options: RunOptions, project: Project, name: str, definition: str | None
) -> tuple[LocalExecutor, str]:
    """Start an execution of a definition, and note where it comes from. Without a definition resume
    the one that `--resume` names, or the newest unfinished one of the pipeline `name`."""
    given = parameter_pairs(options.parameters)
    if definition is not None:
        executor = options.executor(project, definition)
        reference = executor.start(name, given)
        note_origin(executor.read(reference).folder)
        return executor, reference
    if options.until or options.skip or options.data:
        raise click.UsageError(
            "--until, --skip, --data: a resumed execution keeps those of its first start"
        )
    if options.resume != NEWEST:
        named = execution_named(project.home, str(options.resume))
    elif found := latest_unfinished(project.home, name):
        named = found.execution_id
    else:
        raise click.UsageError(
            f"--resume: {project.home} has no unfinished execution of {name}; "
            "run it without --resume"
        )
    executor = options.executor(project)
    return executor, executor.resume(named, given)


def followed(
    executor: LocalExecutor, reference: str, options: RunOptions
) -> tuple[ExecutionResult, int]:
    """Show the execution until it has ended, and its outcome; returns the exit status, too."""
    from compilegate.cli.terminal.outcome import show_outcome  # noqa: PLC0415  slow

    by_reason: dict[str, list[str]] = {}
    for name, why in executor.left_out(reference).items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        click.echo(f"left out: {', '.join(names)} ({why})")
    resume = resume_command(reference, click.get_current_context())
    try:
        with progress_shown() as listener:
            result = executor.follow(reference, listener)
    except OSError as error:
        raise disk_error(error, resume) or error from error
    status = show_outcome(executor, result, resume=resume, open_page=options.open_page)
    return result, status


def end(project: Project, options: RunOptions, result: ExecutionResult, status: int) -> NoReturn:
    """Say what became of a posture, copy the reports, and exit with the status."""
    for line in posture_lines(result.pipeline_name, result.execution_id, project.home):
        click.echo(line)
    if options.output is not None:
        from compilegate.cli.terminal.outcome import copy_reports  # noqa: PLC0415  slow

        copy_reports(result, options.output)
    raise SystemExit(status)


def _job_variables(given: tuple[str, ...]) -> dict[str, str]:
    """The variables by name; one without a value has the shell's."""
    variables: dict[str, str] = {}
    form, pattern = "NAME=VALUE, or NAME alone", r"([A-Za-z_][A-Za-z0-9_]*)((?:=.*)?)"
    for name, value in name_value_pairs("--env", given, form, pattern).items():
        if not value and name not in os.environ:
            raise click.UsageError(
                f"--env {name} has no value in this shell; give one with --env {name}=VALUE"
            )
        variables[name] = value[1:] if value else os.environ[name]
    return variables


def _put_data(data: Mapping[str, str], project: Project) -> None:
    """Let folders stand for what lies in S3."""
    with refusing_os_errors():
        store = object_store(project)
        for uri, where in data.items():
            if where != LATER:
                count = place_data(store, uri, Path(where))
                click.echo(f"{uri}: {count} {'file' if count == 1 else 'files'} of {where}")


def _compiled(declared: Workload, path: Path, project: Project, arms: str | None) -> str:
    """The workload's definition; what it reads is put into the home."""
    if arms is not None and declared.posture is not None:
        raise click.UsageError(
            f"--arms: {path} has a table [posture], which decides what trains; "
            f"change that with `compilegate posture {declared.name} STATE`"
        )
    if arms is not None:
        declared = declared.with_arms([name.strip() for name in arms.split(",")])
        if declared.left_out:
            click.echo(f"arms left out: {', '.join(declared.left_out)}")
    refuse_all_at_once(
        lambda: _refuse_what_cannot_run_here(declared, path), lambda: check_data(declared, path)
    )
    check_functions(declared, path, project)
    definition, placement = compiled_here(project, declared, path)
    with refusing_os_errors():
        placement.put(object_store(project), cache_folder(), click.echo)
    return definition


def _refuse_what_cannot_run_here(workload: Workload, path: Path) -> None:
    """Refuse arms by name, and say how to run the others, if there are any."""
    elsewhere = cannot_run_here(workload)
    if not elsewhere:
        return
    problems = [f"{path}: {each}" for sentences in elsewhere.values() for each in sentences]
    rest = [name for name in workload.arms if name not in elsewhere]
    if BASELINE_ARM in rest and len(rest) > 1:
        problems.append(f"to run the others here: --arms {','.join(rest)}")
    raise RefusalError(*problems)
