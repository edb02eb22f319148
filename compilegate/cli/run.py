"""`compilegate run`: execute a workload on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from compilegate.cli.checks import (
    check_data,
    check_functions,
    refuse_all_at_once,
    refuse_infeasible,
)
from compilegate.cli.definitions import compiled, place_locally
from compilegate.cli.options import (
    FOLDER,
    Project,
    completing,
    image_option,
    name_value_pairs,
    open_option,
    parameter_option,
    parameter_pairs,
    pass_project,
)
from compilegate.cli.posture_here import posture_functions, posture_lines, settle_failed
from compilegate.cli.terminal.errors import RefusalError, disk_error, refusing_os_errors
from compilegate.cli.terminal.origin import note_origin, resume_command
from compilegate.cli.terminal.progress import progress_shown
from compilegate.datasets import cache_folder
from compilegate.execution.result import ExecutionResult
from compilegate.execution.target import Target
from compilegate.job.names import BASELINE_ARM
from compilegate.local import (
    FunctionSources,
    ImageSources,
    LocalExecutor,
    ObjectStore,
    Selection,
    execution_named,
    latest_unfinished,
    parse_handler,
    place_data,
    read_model,
)
from compilegate.workload import InfeasibleError, Workload
from compilegate.workload.feasibility import NO_DAY, findings

LATER = "later"
"""What --data says instead of a folder where a program fills the place while it runs."""
NEWEST = "newest"
"""What --resume stands for without an ID."""
Command = TypeVar("Command", bound=Callable[..., Any])


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
    arms: str | None = None
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
        data = data_pairs(self.data)
        later = list(data)
        if not explaining:
            with refusing_os_errors():
                project.home.mkdir(parents=True, exist_ok=True)
                later = _placed(data, ObjectStore(project.home.resolve() / "s3"))
        models = name_value_pairs("--model", self.models)
        return LocalExecutor(
            home=project.home,
            images=image_sources(project, self.images),
            functions=self._functions(project.home),
            given_models={name: read_model(name, Path(file)) for name, file in models.items()},
            commands=name_value_pairs("--command", self.commands),
            variables=job_variables(self.variables),
            shared=self.shared,
            later=later,
            definition=definition,
            selection=Selection(until=self.until, skip=self.skip),
            use_cache=not self.no_cache,
            cores_per_job=self.cores_per_job,
            max_parallel_steps=self.max_parallel,
        )

    def _functions(self, home: Path) -> FunctionSources:
        """Where Lambda functions come from: the command line first, then the posture's own."""
        given = name_value_pairs("--function", self.functions).items()
        own = tuple((pattern, parse_handler(file)) for pattern, file in given)
        return FunctionSources(patterns=(*own, *posture_functions(home).patterns))


def run_options(command: Command) -> Command:
    """Add what `run` and `pipeline run` have in common."""
    for option in reversed(
        (
            click.option(
                "--resume",
                metavar="[ID]",
                is_flag=False,
                flag_value=NEWEST,
                shell_complete=completing("execution"),
                help="Continue the newest unfinished execution, or that with this ID, of which the "
                "beginning is enough.",
            ),
            parameter_option,
            image_option,
            click.option(
                "--env",
                "variables",
                metavar="NAME[=VALUE]",
                multiple=True,
                help="A variable for the environment of every job; without a value, the shell's "
                "own. May be given several times.",
            ),
            click.option(
                "--share",
                "shared",
                metavar="FOLDER",
                multiple=True,
                type=click.Path(exists=True, file_okay=False, path_type=Path),
                help="A folder of this machine that jobs may write to, such as a cache of "
                "downloads; all else outside their own folders is read-only to them. May be given "
                "several times.",
            ),
            click.option(
                "--no-cache", is_flag=True, help="Run every step, ignoring the step cache."
            ),
            click.option(
                "--cores-per-job",
                type=click.IntRange(min=1),
                help="Cores for each training job. By default they are divided among those that "
                "can run in parallel.",
            ),
            click.option(
                "--max-parallel",
                type=click.IntRange(min=1),
                help="How many steps may run in parallel, like the service's "
                "ParallelismConfiguration.",
            ),
            click.option(
                "--output",
                type=FOLDER,
                help="Copy verdict.json and both reports to this folder, with the reasons as "
                "junit.xml.",
            ),
            open_option,
        )
    ):
        command = option(command)
    return command


@click.command("run")
@click.argument(
    "workload", metavar="[NAME|FILE]", required=False, shell_complete=completing("workload")
)
@run_options
@click.option(
    "--arms",
    metavar="NAME,NAME",
    help="Run only these arms, including the baseline; the report names those left out.",
)
@pass_project
def command(project: Project, workload: str | None, **given: Any) -> None:
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
    if workload is None and options.resume in {None, NEWEST}:
        raise click.UsageError("NAME is missing, allowed: a workload, or --resume ID")
    if options.resume and options.arms is not None:
        raise click.UsageError("--arms: a resumed execution keeps its own arms")
    if sys.stdout.isatty():  # what comes next may take seconds
        click.echo(f"checking {workload or options.resume}")
    name = ""
    if options.resume is None:
        name, text = _compiled(str(workload), project, options.arms)
        executor = options.executor(project, text)
        reference = _started(executor, name, options)
        note_origin(executor.read(reference).folder, _expected(str(workload), project))
    else:
        pipeline = project.load(workload)[0].name if workload is not None else ""
        executor, reference = resumed(options, project, pipeline)
    result, status = followed(executor, reference, options)
    if workload is not None and _must_run_again(workload, project, result):
        rescue = "a candidate crashed and no model was registered: the baseline alone"
        click.echo(f"{rescue}, in the next execution" if options.resume else f"{rescue}, now")
        if not options.resume:
            result, status = followed(executor, _started(executor, name, options), options)
    end(project, options, result, status)


def _started(executor: LocalExecutor, name: str, options: RunOptions) -> str:
    return executor.start(name, parameter_pairs(options.parameters))


def resumed(options: RunOptions, project: Project, pipeline: str) -> tuple[LocalExecutor, str]:
    """The execution that `--resume` names, or the newest unfinished one of the pipeline."""
    if options.until or options.skip or options.data:
        raise click.UsageError(
            "--until, --skip, --data: a resumed execution keeps what it was started with"
        )
    if options.resume != NEWEST:
        named = execution_named(project.home, str(options.resume))
    else:
        found = latest_unfinished(project.home, pipeline)
        if found is None:
            raise click.UsageError(
                f"--resume: {project.home} has no unfinished execution of {pipeline}; "
                "run it without --resume"
            )
        named = found.execution_id
    executor = options.executor(project)
    return executor, executor.resume(named, parameter_pairs(options.parameters))


def followed(
    executor: LocalExecutor, reference: str, options: RunOptions
) -> tuple[ExecutionResult, int]:
    """Show the execution until it has ended, and its outcome; returns the exit status, too."""
    from compilegate.cli.terminal.outcome import show_outcome  # noqa: PLC0415  slow

    for line in left_out_lines(executor.left_out(reference)):
        click.echo(line)
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


def left_out_lines(left_out: Mapping[str, str]) -> list[str]:
    """A line for each reason to leave steps out, with their names."""
    by_reason: dict[str, list[str]] = {}
    for name, why in left_out.items():
        by_reason.setdefault(why, []).append(name)
    return [f"left out: {', '.join(names)} ({why})" for why, names in by_reason.items()]


def image_sources(project: Project, patterns: tuple[str, ...]) -> ImageSources:
    """Where images come from: the project's folders, and what the command line names."""
    return ImageSources(
        root=project.containers, patterns=tuple(name_value_pairs("--image", patterns).items())
    )


def job_variables(given: tuple[str, ...], shell: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables by name; refuses what is not NAME or NAME=VALUE."""
    variables: dict[str, str] = {}
    for item in given:
        name, separator, value = item.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise click.UsageError(f"--env: found {item!r}, allowed: NAME=VALUE, or NAME alone")
        if not separator and name not in shell:
            raise click.UsageError(
                f"--env: {name} has no value in this shell, allowed: {name}=VALUE"
            )
        variables[name] = value if separator else shell[name]
    return variables


def data_pairs(given: tuple[str, ...]) -> dict[str, str]:
    """What stands for each URI; refuses what is not s3://BUCKET[/KEY]=WHERE."""
    pairs: dict[str, str] = {}
    for item in given:
        # A key may hold `=`; what stands after the last one is a path here.
        uri, separator, where = item.rpartition("=")
        if not separator or not uri.startswith("s3://") or not where:
            raise click.UsageError(f"--data: found {item!r}, allowed: s3://BUCKET[/KEY]=WHERE")
        pairs[uri] = where
    return pairs


def _placed(data: Mapping[str, str], store: ObjectStore) -> list[str]:
    """Let folders stand for what lies in S3; returns the places that are filled later."""
    for uri, where in data.items():
        if where != LATER:
            count = place_data(store, uri, Path(where))
            click.echo(f"{uri}: {count} {'file' if count == 1 else 'files'} of {where}")
    return [uri for uri, where in data.items() if where == LATER]


def _expected(workload: str, project: Project) -> list[dict[str, Any]]:
    """What advice expects, taken down before anything is measured."""
    from compilegate.cli.measured import expectations  # noqa: PLC0415  reads tables

    return expectations(project, project.load(workload)[1])


def _must_run_again(workload: str, project: Project, result: ExecutionResult) -> bool:
    """Whether a crashed candidate has left the workload without a model, and without a baseline
    that the posture's record would now train alone."""
    declared, _ = project.load(workload)
    if declared.posture is None:
        return False
    state = settle_failed(declared, project.home, result)
    return state is not None and bool(state.rescue)


def _compiled(workload: str, project: Project, arms: str | None) -> tuple[str, str]:
    """The pipeline's name and its definition; what it reads is put into the home."""
    declared, path = project.load(workload)
    if arms is not None and declared.posture is not None:
        raise click.UsageError(
            f"--arms: {path} has a table [posture], which decides what trains, allowed: "
            f"`compilegate posture {declared.name} STATE`, or a workload without the table"
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
        placement.put(ObjectStore(project.home.resolve() / "s3"), cache_folder(), click.echo)
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
