"""`compilegate profile`: where the time of a training step goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compilegate.cli.options.account import open_account, settings_option
from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.elsewhere import written_job_options
from compilegate.cli.options.home import home_option
from compilegate.cli.options.parameters import name_value_pairs
from compilegate.cli.options.project import Project, load_workload, project_options
from compilegate.cli.terminal.errors import RefusalError, refusing_os_errors, writing
from compilegate.execution import exit_codes
from compilegate.job.files import write_bytes, write_text
from compilegate.job.names import (
    BASELINE_ARM,
    OUTPUT_ARCHIVE,
    PROFILE_FILE,
    PROFILE_FOLDER,
    PROFILE_VARIABLE,
    TRACE_FILE,
)
from compilegate.workload import Workload

if TYPE_CHECKING:
    from compilegate.pipelines.staging import Placement

DEFAULT_STEPS, FEWEST_STEPS, MOST_STEPS = 36, 12, 1000
_IMMEDIATE = ("eager", "inductor", "torch-compile")
"""Compilers whose steps run while the script does. What traces whole steps shows no phases."""


@click.command("profile", context_settings={"ignore_unknown_options": False})
@click.argument("what", metavar="NAME|FILE|SCRIPT.py|PROFILE", shell_complete=complete_workload)
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS]")
@click.option("--arm", metavar="NAME", help="Of a workload: the arm, by default the baseline.")
@click.option(
    "--steps",
    type=click.IntRange(FEWEST_STEPS, MOST_STEPS),
    default=DEFAULT_STEPS,
    show_default=True,
    help="Training steps to take.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Of a script: start it as so many processes on this machine, by torchrun. A workload's "
    "arm says itself how many it has.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the profile and its trace are put, by default HOME/profiles/NAME.",
)
@written_job_options("Of a workload", "the profiling job")
@home_option
@settings_option
@project_options
def command(  # noqa: PLR0917  one argument for each option
    what: str,
    arguments: tuple[str, ...],
    arm: str | None,
    steps: int,
    processes: int,
    as_json: bool,
    folder: Path | None,
    output: Path | None,
    deployed: bool,
    images: tuple[str, ...],
    home: Path,
    settings: Path,
    workloads: Path,
    containers: Path,
) -> None:
    """Say where the time of a training step goes, and what each compiler could save of it.

    \b
      compilegate profile news-topics                  the baseline of a workload, as a job here
      compilegate profile news-topics --arm compiled   another arm
      compilegate profile train.py -- --epochs 1       any script that trains with torch, as it is
      compilegate profile train.py --processes 2       the same, as torchrun starts it
      compilegate profile news-topics --deployed -o profile.json    the job, for SageMaker
      compilegate profile output.tar.gz                what such a job left

    A few dozen steps are taken: some to warm up, some that are only timed, some under
    torch.profiler. Then the training ends; nothing is judged or registered. The report names the
    bottleneck, divides a step among waiting for data, copies, forward and backward, update,
    communication and what is outside of torch, and gives the most that each compiler could save.
    The trace is kept for https://ui.perfetto.dev.

    A script may train any way it likes, as long as it uses torch's optimizers; a DataLoader is
    recognised. It is run by this Python.
    """
    script = Path(what)
    for_workloads = {"--arm": arm, "--output": output, "--image": images, "--deployed": deployed}
    if script.suffix == ".py" or _holds_a_profile(script):
        given = next((option for option, value in for_workloads.items() if value), None)
        if given is not None:
            raise click.UsageError(f"{given}: {what} is no workload, which the option is for")
    elif processes > 1:
        raise click.UsageError(f"--processes: {what} is no script, which the option is for")
    elif arguments:
        raise click.UsageError(
            f"ARGUMENTS: found {arguments[0]!r}, allowed: only with a script, as in "
            "`compilegate profile train.py -- --epochs 1`"
        )
    if script.suffix == ".py":
        kept = folder or home / "profiles" / script.stem
        _profile_script(script, arguments, steps, processes, kept)
        _show(kept, as_json=as_json)
        return
    if _holds_a_profile(script):
        _show(script, as_json=as_json)
        return
    asked = _Asked(workload=what, arm=arm or BASELINE_ARM, steps=steps)
    project = Project(workloads=workloads, containers=containers)
    if deployed:
        if output is None:
            raise click.UsageError("--deployed: found no --output, allowed: with one")
        _write_deployed(asked, workloads, settings, output)
    elif output is not None:
        _, definition, _ = _here(asked, project)
        with writing(f"--output: {output}", output.parent):
            write_text(output, definition)
    else:
        kept = folder or home / "profiles" / f"{Path(what).stem}-{asked.arm}"
        _run_here(asked, project, home, images, kept)
        _show(kept, as_json=as_json)


@dataclass(frozen=True)
class _Asked:
    """Which arm of which workload, and how long."""

    workload: str
    arm: str
    steps: int


def _holds_a_profile(path: Path) -> bool:
    if path.is_dir():
        return (path / PROFILE_FILE).is_file() or (path / PROFILE_FOLDER / PROFILE_FILE).is_file()
    return path.is_file() and (path.suffix == ".json" or path.name.endswith(".tar.gz"))


def _show(path: Path, *, as_json: bool) -> None:
    from compilegate.profile import analysis_of, read_profile, text_of  # noqa: PLC0415  numpy

    found = analysis_of(read_profile(path))
    inner = path / PROFILE_FOLDER
    folder = inner if inner.is_dir() else path if path.is_dir() else None
    text = json.dumps(found.document, indent=2) if as_json else text_of(found, folder)
    click.echo(text)


def _profile_script(
    script: Path, arguments: tuple[str, ...], steps: int, processes: int, kept: Path
) -> None:
    """Run the script in processes of its own, in this folder and with this Python."""
    from compilegate.built_in import import_path  # noqa: PLC0415
    from compilegate.job.launch.torchrun import torchrun_command  # noqa: PLC0415

    if not script.is_file():
        raise RefusalError(f"{script}: there is no such file, allowed: a script that trains")
    with refusing_os_errors():
        kept.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(kept / PROFILE_FOLDER, ignore_errors=True)
    environment = {
        **os.environ,
        "PYTHONPATH": import_path(os.environ),
        PROFILE_VARIABLE: f"{steps}:{kept.resolve()}",
    }
    program = ["-m", "compilegate.job.profiling.script", str(script), *arguments]
    runner = [sys.executable, *program]
    if processes > 1:
        runner = torchrun_command(processes, program, {})
    # What the script prints is no part of what this command prints, which may be read as JSON.
    ended = subprocess.run(runner, env=environment, stdout=sys.stderr, check=False)
    if not (kept / PROFILE_FOLDER / PROFILE_FILE).is_file():
        said = "see what it printed" if ended.returncode else "it took no training step of torch's"
        click.echo(
            f"{script} left no profile and ended with exit status {ended.returncode}; {said}",
            err=True,
        )
        raise SystemExit(exit_codes.STEP_FAILED)


def _here(asked: _Asked, project: Project) -> tuple[Placement, str, str]:
    """Where the workload's files are, the definition of its profiling job for this machine, and the
    name of that step."""
    from compilegate.cli.workload.definition import compiled, place_locally  # noqa: PLC0415
    from compilegate.document.reading import read_definition  # noqa: PLC0415
    from compilegate.document.writing import write_definition  # noqa: PLC0415
    from compilegate.profile.definition import profile_definition  # noqa: PLC0415

    declared, path = load_workload(asked.workload, project.workloads)
    _require_torch(declared, path)
    _require_immediate(declared, asked.arm)
    deployment, placement = place_locally(declared, path, project)
    whole, _ = read_definition(compiled(declared, deployment, placement.sources))
    definition, step = profile_definition(whole, asked.arm, asked.steps)
    return placement, write_definition(definition), step


def _run_here(
    asked: _Asked, project: Project, home: Path, images: tuple[str, ...], kept: Path
) -> None:
    """Run the arm's job, and keep its profile."""
    from compilegate.datasets import cache_folder  # noqa: PLC0415
    from compilegate.execution.status import StepStatus  # noqa: PLC0415
    from compilegate.local import ImageSources, LocalExecutor, ObjectStore  # noqa: PLC0415

    placement, definition, step_name = _here(asked, project)
    with refusing_os_errors():
        home.mkdir(parents=True, exist_ok=True)
        store = ObjectStore(home.resolve() / "s3")
        placement.put(store, cache_folder(), lambda line: click.echo(line, err=True))
    executor = LocalExecutor(
        home=home,
        images=ImageSources(
            root=project.containers if project.containers.is_dir() else None,
            patterns=tuple(name_value_pairs("--image", images).items()),
        ),
        definition=definition,
    )
    name = Path(asked.workload).stem
    click.echo(f"profiling {asked.steps} steps of arm {asked.arm} of {name}", err=True)
    result = executor.follow(executor.start(f"{name}-profile", {}))
    for step in result.steps.values():
        if step.status is not StepStatus.SUCCEEDED and step.failure is not None:
            click.echo(f"{step.name} did not succeed: {step.failure.headline}", err=True)
            for line in step.failure.lines[1:]:
                click.echo(line, err=True)
            raise SystemExit(exit_codes.STEP_FAILED)
    trained = result.steps[step_name]
    place = trained.properties["OutputDataConfig"]["S3OutputPath"]
    job = trained.properties["TrainingJobName"]
    _unpack(store.path(f"{place}/{job}/output/{OUTPUT_ARCHIVE}"), kept)


def _require_torch(declared: Workload, path: Path) -> None:
    """A program that imports another framework, and not torch, takes no step that could be seen."""
    from compilegate.advice import facts_of  # noqa: PLC0415
    from compilegate.advice.known.gathering import BESIDE_OTHERS  # noqa: PLC0415
    from compilegate.pipelines.staging import imported_libraries  # noqa: PLC0415

    framework = facts_of(declared, libraries=imported_libraries(declared, path)).framework
    if framework.known and framework.value not in ("pytorch", BESIDE_OTHERS):
        raise RefusalError(
            f"{declared.name}: found a program of {framework.value} ({framework.source}), "
            "allowed: one that trains with torch, whose steps a profile divides"
        )


def _require_immediate(declared: Workload, arm: str) -> None:
    compiler = declared.arms[arm].compiler if arm in declared.arms else "eager"
    if compiler not in _IMMEDIATE:
        raise RefusalError(
            f"--arm: arm {arm} compiles with {compiler}, which traces whole steps and shows no "
            f"phases of them, allowed: an arm with {', '.join(_IMMEDIATE)}"
        )


def _unpack(archive: Path, kept: Path) -> None:
    """The profile and its trace, out of what the job left."""
    with refusing_os_errors():
        kept.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as packed:
            for name in (PROFILE_FILE, TRACE_FILE):
                try:
                    file = packed.extractfile(f"{PROFILE_FOLDER}/{name}")
                except KeyError:
                    file = None
                if file is not None:
                    (kept / PROFILE_FOLDER).mkdir(exist_ok=True)
                    write_bytes(kept / PROFILE_FOLDER / name, file.read())


def _write_deployed(asked: _Asked, workloads: Path, settings: Path, output: Path) -> None:
    """The profiling job of a deployed workload, and how it is started."""
    from compilegate.account.deployed import read_outputs, read_pipeline  # noqa: PLC0415
    from compilegate.document.reading import read_definition  # noqa: PLC0415
    from compilegate.document.writing import write_definition  # noqa: PLC0415
    from compilegate.profile.definition import profile_definition  # noqa: PLC0415

    declared, path = load_workload(asked.workload, workloads)
    _require_torch(declared, path)
    _require_immediate(declared, asked.arm)
    name = declared.name
    account = open_account(settings)
    stack = read_outputs(account.session, account.names.workload_stack(name))
    pipeline = read_pipeline(account.session, stack["PipelineName"])
    whole = read_definition(pipeline.definition)[0]
    definition, _ = profile_definition(whole, asked.arm, asked.steps)
    with writing(f"--output: {output}", output.parent):
        write_text(output, write_definition(definition))
    call = f"aws sagemaker {{}} --region {account.session.region} --pipeline-name {name}-profile"
    role = stack["PipelineRoleArn"]
    click.echo(
        f"  {call.format('create-pipeline')} --role-arn {role} --pipeline-definition file://{output}"
    )
    click.echo(f"  {call.format('start-pipeline-execution')}")
    click.echo("  compilegate watch ARN                with the ARN that it prints")
    click.echo("  compilegate profile output.tar.gz    with what its job left")
