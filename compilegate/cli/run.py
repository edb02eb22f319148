"""`compilegate run`, and `compilegate pipeline run` and `explain`: executions on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import click

from compilegate.cli import options
from compilegate.cli.definitions import (
    cannot_run_here,
    check_data,
    check_functions,
    compiled_here,
    image_sources,
    object_store,
    refuse_all_at_once,
)
from compilegate.cli.options import (
    EXISTING_FOLDER,
    FILE,
    FOLDER,
    Project,
    completing,
    pairs,
    pass_project,
    repeatable,
    together,
)
from compilegate.cli.posture import posture_function, posture_lines, settle_failed
from compilegate.cli.printing import RefusalError, exit_for
from compilegate.cli.progress import progress_shown
from compilegate.cli.provenance import record_provenance, resume_command
from compilegate.datasets import cache_folder
from compilegate.execution import exit_codes
from compilegate.execution.result import ExecutionResult
from compilegate.job.contract import BASELINE_ARM
from compilegate.local import (
    LocalExecutor,
    execution_named,
    explanation_lines,
    latest_unfinished,
    parse_handler,
    place_data,
    read_model,
)
from compilegate.workload import Workload

LATER = "later"
"""What --data names instead of a folder where a program fills the place while it runs."""
NEWEST = "newest"
"""What --resume stands for without an ID."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of `run`, `pipeline run` and `pipeline explain`; see their help."""

    resume: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    no_cache: bool = False
    cores_per_job: int | None = None
    max_parallel: int | None = None
    output: Path | None = None
    open_page: bool = False
    functions: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    until: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    shared: tuple[Path, ...] = ()

    def executor(
        self, project: Project, definition: str | None = None, *, explaining: bool = False
    ) -> LocalExecutor:
        """What carries the execution out. Data that stand for places in S3 are put there, unless
        the definition is only explained."""
        if not explaining:
            _put_data(self.data, project)
        functions = [(arn, parse_handler(file)) for arn, file in self.functions.items()]
        return LocalExecutor(
            home=project.home,
            images=image_sources(project, self.images),
            functions=(*functions, posture_function(project.home, fresh=self.no_cache)),
            given_models={name: read_model(name, Path(file)) for name, file in self.models.items()},
            commands=self.commands,
            variables=_job_variables(self.variables),
            shared=self.shared,
            later=[uri for uri, where in self.data.items() if explaining or where == LATER],
            definition=definition,
            until=self.until,
            skip=self.skip,
            use_cache=not self.no_cache,
            cores_per_job=self.cores_per_job,
            max_parallel_steps=self.max_parallel,
        )


_run_options = together(
    click.option(
        "--resume",
        metavar="[ID]",
        is_flag=False,
        flag_value=NEWEST,
        shell_complete=completing("execution"),
        help="Continue the newest unfinished execution, or the one whose ID begins so.",
    ),
    options.parameters,
    options.images,
    pairs(
        "--env",
        "variables",
        metavar="NAME[=VALUE]",
        pattern=r"([A-Za-z_][A-Za-z0-9_]*)((?:=.*)?)",
        form="NAME=VALUE, or NAME alone",
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
    options.open_page,
)
"""What `run` and `pipeline run` have in common."""


_substitute_options = together(
    pairs(
        "--function",
        "functions",
        metavar="PATTERN=FILE",
        help="The file that stands for Lambda functions whose ARN matches PATTERN: FILE.py, whose "
        "handler is lambda_handler, or FILE.py:HANDLER.",
    ),
    pairs(
        "--model",
        "models",
        metavar="NAME=FILE",
        help="The model that Transform steps call NAME and no step makes: FILE is its "
        "description, JSON, as `aws sagemaker describe-model` prints it.",
    ),
    pairs(
        "--command",
        "commands",
        metavar="STEP=COMMAND",
        help="Run this shell command for the step: it reads the request from the file "
        "$COMPILEGATE_REQUEST, and writes what the step gives to $COMPILEGATE_RESULT, both JSON.",
    ),
    repeatable(
        "--until", metavar="STEP", help="Carry out this step and what it needs, and nothing else."
    ),
    repeatable(
        "--skip",
        metavar="STEP",
        help="Leave this step out, and those that read what it gives; not those that only wait.",
    ),
    pairs(
        "--data",
        metavar="s3://BUCKET[/KEY]=WHERE",
        pattern=r"(s3://.*)=(.+)",  # a key may hold `=`; what stands after the last is a path here
        help="A folder or file of this machine that stands for what lies there, or `later` where "
        "a program puts it there while it runs.",
    ),
)
"""What takes the place of steps, functions, models and data of a definition."""


@click.command("run")
@options.optional_workload
@_run_options
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
    request = RunOptions(**given)
    if workload is not None and workload.endswith(".json"):
        raise click.UsageError(f"a definition runs with: compilegate pipeline run {workload}")
    _refuse_nothing_to_run(request, workload, "NAME is missing; name a workload")
    if request.resume and arms is not None:
        raise click.UsageError("--arms: a resumed execution keeps its own arms")
    if workload is None:
        _end(project, request, *_follow(*_begin(request, project, "", None), request))
    declared, path = project.load(workload)
    definition = None if request.resume else _compile(declared, path, project, arms)
    executor, reference = _begin(request, project, declared.name, definition)
    result, status = _follow(executor, reference, request)
    state = settle_failed(declared, project.home, result)
    if state is not None and state.rescue:
        rescue = "a candidate crashed and no model was registered: the baseline alone"
        click.echo(f"{rescue}, in the next execution" if request.resume else f"{rescue}, now")
        if not request.resume:
            again = executor.start(declared.name, request.parameters)
            result, status = _follow(executor, again, request)
    _end(project, request, result, status)


@click.command("run")
@click.argument("definition", metavar="[FILE]", required=False, type=FILE)
@_run_options
@_substitute_options
@pass_project
def run_definition_command(project: Project, definition: Path | None, **given: Any) -> None:
    """Execute a definition from elsewhere on this machine, unchanged.

    \b
      compilegate pipeline run pipeline.json                  execute it
      compilegate pipeline run pipeline.json --until train    and no further
      compilegate pipeline run pipeline.json --skip deploy    without a step
      compilegate pipeline run pipeline.json --resume         continue after a crash or Ctrl-C

    `-` reads the definition from standard input. What cannot run here is refused by name before
    anything starts; `compilegate pipeline explain` says the same and starts nothing.
    """
    request = RunOptions(**given)
    _refuse_nothing_to_run(request, definition, "FILE is missing; name a definition's file")
    name = "" if definition is None else _pipeline_name(definition)
    text = None if definition is None or request.resume else _read_definition(definition)
    _end(project, request, *_follow(*_begin(request, project, name, text), request))


@click.command("explain")
@click.argument("definition", metavar="FILE", type=FILE)
@options.parameters
@options.images
@_substitute_options
@pass_project
def explain_command(project: Project, definition: Path, **given: Any) -> None:
    """Say what each step of a definition would do here, and start nothing.

    It takes what `compilegate pipeline run` takes, and ends with status 2 where that would refuse
    the definition: `compilegate pipeline explain pipeline.json --skip deploy`.
    """
    request = RunOptions(**given)
    executor = request.executor(project, _read_definition(definition), explaining=True)
    explanation = executor.explain(_pipeline_name(definition), request.parameters)
    click.echo("\n".join(explanation_lines(explanation)))
    if explanation.faults:
        raise SystemExit(exit_codes.REFUSED)


def _read_definition(path: Path) -> str:
    """What a definition's file holds, or standard input for `-`."""
    try:
        with click.open_file(str(path), encoding="utf-8") as file:
            return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"FILE: {path} cannot be read: {error}") from error


def _pipeline_name(path: Path) -> str:
    """A pipeline's name from that of its file, which may not be valid for one."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", path.stem).strip("-") or "definition"


def _refuse_nothing_to_run(request: RunOptions, subject: object, missing: str) -> None:
    """Refuse a command line that names neither what to run nor what to resume."""
    if subject is None and request.resume in {None, NEWEST}:
        raise click.UsageError(f"{missing}, or give --resume ID")
    if sys.stdout.isatty():  # what comes next may take seconds
        click.echo(f"checking {subject or request.resume}")


def _begin(
    request: RunOptions, project: Project, name: str, definition: str | None
) -> tuple[LocalExecutor, str]:
    """Start an execution of a definition, and record what started it. Without a definition resume
    the one that `--resume` names, or the newest unfinished one of the pipeline `name`."""
    if definition is not None:
        executor = request.executor(project, definition)
        reference = executor.start(name, request.parameters)
        record_provenance(executor.read(reference).folder)
        return executor, reference
    if request.until or request.skip or request.data:
        raise click.UsageError(
            "--until, --skip, --data: a resumed execution keeps those of its first start"
        )
    if request.resume != NEWEST:
        execution = execution_named(project.home, str(request.resume))
    elif found := latest_unfinished(project.home, name):
        execution = found.execution_id
    else:
        raise click.UsageError(
            f"--resume: {project.home} has no unfinished execution of {name}; "
            "run it without --resume"
        )
    executor = request.executor(project)
    return executor, executor.resume(execution, request.parameters)


def _follow(
    executor: LocalExecutor, reference: str, request: RunOptions
) -> tuple[ExecutionResult, int]:
    """Show the execution until it has ended, and its outcome; returns the exit status, too."""
    from compilegate.cli.outcome import show_outcome  # noqa: PLC0415  slow

    by_reason: dict[str, list[str]] = {}
    for name, why in executor.left_out(reference).items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        click.echo(f"left out: {', '.join(names)} ({why})")
    resume = resume_command(reference)
    try:
        with progress_shown() as listener:
            result = executor.follow(reference, listener)
    except OSError as error:
        exit_for(error, resume)
        raise
    status = show_outcome(executor, result, resume=resume, open_page=request.open_page)
    return result, status


def _end(project: Project, request: RunOptions, result: ExecutionResult, status: int) -> NoReturn:
    """Say what became of a posture, copy the reports, and exit with the status."""
    for line in posture_lines(result.pipeline_name, result.execution_id, project.home):
        click.echo(line)
    if request.output is not None:
        from compilegate.cli.outcome import copy_reports  # noqa: PLC0415  slow

        copy_reports(result, request.output)
    raise SystemExit(status)


def _job_variables(given: Mapping[str, str]) -> dict[str, str]:
    """The variables by name; one without a value has the shell's."""
    for name, value in given.items():
        if not value and name not in os.environ:
            raise click.UsageError(
                f"--env {name} has no value in this shell; give one with --env {name}=VALUE"
            )
    return {name: value[1:] if value else os.environ[name] for name, value in given.items()}


def _put_data(data: Mapping[str, str], project: Project) -> None:
    """Let folders stand for what lies in S3."""
    store = object_store(project)
    for uri, where in data.items():
        if where != LATER:
            count = place_data(store, uri, Path(where))
            click.echo(f"{uri}: {count} {'file' if count == 1 else 'files'} of {where}")


def _compile(declared: Workload, path: Path, project: Project, arms: str | None) -> str:
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
    placement.put(object_store(project), cache_folder(), click.echo)
    return definition


def _refuse_what_cannot_run_here(workload: Workload, path: Path) -> None:
    """Refuse arms by name, and say how to run the others, if there are any."""
    refused = cannot_run_here(workload)
    if not refused:
        return
    problems = [f"{path}: {each}" for sentences in refused.values() for each in sentences]
    rest = [name for name in workload.arms if name not in refused]
    if BASELINE_ARM in rest and len(rest) > 1:
        problems.append(f"to run the others here: --arms {','.join(rest)}")
    raise RefusalError(*problems)
