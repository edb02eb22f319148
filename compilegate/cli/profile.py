"""`compilegate profile`: where the time of a training step goes; the largest batch that fits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from compilegate.cli.batch_size import find_largest_batch
from compilegate.cli.options import (
    Bytes,
    Project,
    completing,
    image_option,
    job_file_option,
    json_option,
    pass_project,
    print_or_write,
    refuse_given,
)
from compilegate.cli.terminal.errors import RefusalError, refusing_os_errors
from compilegate.execution import exit_codes
from compilegate.job.files import write_bytes
from compilegate.job.names import (
    BASELINE_ARM,
    PROFILE_FILE,
    PROFILE_FOLDER,
    PROFILE_VARIABLE,
    TRACE_FILE,
)
from compilegate.workload import Workload

DEFAULT_STEPS, FEWEST_STEPS, MOST_STEPS = 36, 12, 1000
_IMMEDIATE = ("eager", "inductor", "torch-compile")
"""Compilers whose steps run while the script does. What traces whole steps shows no phases."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options as they were given; None and empty where they were not."""

    arm: str | None
    steps: int | None
    processes: int | None
    as_json: bool
    output: Path | None
    images: tuple[str, ...]
    largest_batch: bool
    memory_limit: int | None
    most: int | None

    def refuse_what_does_not_go_together(self, project: Project, what: str, kind: str) -> None:
        """Refuse an option that `what`, a `kind` ("script", "profile" or "workload"), has not."""
        of_workloads = {
            "--arm": self.arm,
            "--output": self.output,
            "--image": self.images,
            "--aws": project.aws,
            "--largest-batch": self.largest_batch,
        }
        if kind != "workload":
            refuse_given(of_workloads, f"{what} is no workload, which the option is for")
        if kind != "script":
            refuse_given({"--processes": self.processes}, f"{what} is no script, which it is for")
        if self.largest_batch:
            others = {"--steps": self.steps, "--json": self.as_json, **of_workloads}
            del others["--arm"], others["--largest-batch"]
            refuse_given(others, "not with --largest-batch")
        else:
            limits = {"--memory-limit": self.memory_limit, "--most": self.most}
            refuse_given(limits, "allowed with --largest-batch")


@click.command("profile", context_settings={"ignore_unknown_options": False})
@click.argument(
    "what", metavar="NAME|FILE|SCRIPT.py|PROFILE", shell_complete=completing("workload")
)
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS]")
@click.option("--arm", metavar="NAME", help="Of a workload: the arm, by default the baseline.")
@click.option(
    "--steps",
    type=click.IntRange(FEWEST_STEPS, MOST_STEPS),
    help=f"Training steps to take, by default {DEFAULT_STEPS}.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    help="Of a script: start it as so many processes on this machine, by torchrun. A workload's "
    "arm says itself how many it has.",
)
@json_option
@job_file_option("Of a workload")
@image_option
@click.option(
    "--largest-batch",
    is_flag=True,
    help="Find the largest batch of the arm that fits into this machine's memory instead.",
)
@click.option(
    "--memory-limit",
    type=Bytes(),
    help="With --largest-batch: memory that a trial may use, such as 2GB: the process's on a CPU, "
    "the device's on a GPU. By default all there is.",
)
@click.option(
    "--most",
    type=click.IntRange(min=1),
    help="With --largest-batch: the largest to try, by default 65536.",
)
@pass_project
def command(project: Project, what: str, arguments: tuple[str, ...], **given: Any) -> None:
    """Say where the time of a training step goes, and what each compiler could save of it.

    \b
      compilegate profile news-topics                  the baseline of a workload, as a job here
      compilegate profile news-topics --arm compiled   another arm
      compilegate profile train.py -- --epochs 1       any script that trains with torch, as it is
      compilegate profile train.py --processes 2       the same, as torchrun starts it
      compilegate profile news-topics --aws -o profile.json    the job, for SageMaker
      compilegate profile output.tar.gz                what such a job left
      compilegate profile news-topics --largest-batch --memory-limit 2GB

    A few dozen steps are taken: some to warm up, some that are only timed, some under
    torch.profiler. Then the training ends; nothing is judged or registered. The report names the
    bottleneck, divides a step among waiting for data, copies, forward and backward, update,
    communication and what is outside of torch, and gives the most that each compiler could save.
    The profile is kept in HOME/profiles, its trace for https://ui.perfetto.dev.

    A script may train any way it likes, as long as it uses torch's optimizers; a DataLoader is
    recognised. It is run by this Python.

    --largest-batch doubles or halves the arm's batch_size until the limit lies between two sizes,
    then bisects to within 3%, and prints a batch_size to declare. Each trial is a process that
    takes three real training steps with the arm's model, compiler and precision. Trials are kept
    in HOME: after Ctrl-C the same command continues. Without a GPU and a limit the search continues
    until this machine's memory is full, which takes long: give --memory-limit.
    """
    options, source = Options(**given), Path(what)
    script, kept_before = source.suffix == ".py", _holds_a_profile(source)
    kind = "script" if script else "profile" if kept_before else "workload"
    options.refuse_what_does_not_go_together(project, what, kind)
    if arguments and not script:
        raise click.UsageError(
            f"ARGUMENTS: found {arguments[0]!r}, allowed: only with a script, as in "
            "`compilegate profile train.py -- --epochs 1`"
        )
    arm, steps = options.arm or BASELINE_ARM, options.steps or DEFAULT_STEPS
    if script:
        kept = project.home / "profiles" / source.stem
        _profile_script(source, arguments, steps, options.processes or 1, kept)
    elif kept_before:
        kept = source
    elif options.largest_batch:
        find_largest_batch(project, what, arm, options.memory_limit, options.most or 65536)
        return
    else:
        profiled = _profile_workload(project, what, arm, steps, options)
        if profiled is None:
            return
        kept = profiled
    _show(kept, as_json=options.as_json)


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


def _profile_workload(
    project: Project, name: str, arm: str, steps: int, options: Options
) -> Path | None:
    """Run the arm's profiling job here, and keep its profile; or write the job down, and return
    None."""
    from compilegate.cli.definitions import (  # noqa: PLC0415  the pipelines take time
        definition_here,
        output_of,
        run_jobs,
        write_deployed_jobs,
    )
    from compilegate.datasets import cache_folder  # noqa: PLC0415
    from compilegate.document.writing import write_definition  # noqa: PLC0415
    from compilegate.execution.status import StepStatus  # noqa: PLC0415
    from compilegate.local import ObjectStore  # noqa: PLC0415
    from compilegate.profile.definition import profile_definition  # noqa: PLC0415

    declared, path = project.load(name)
    _require_torch(declared, path)
    _require_immediate(declared, arm)
    if project.aws:
        write_deployed_jobs(
            project,
            declared,
            "profile",
            lambda whole: profile_definition(whole, arm, steps)[0],
            options.output,
        )
        return None
    whole, placement = definition_here(declared, path, project)
    definition, step_name = profile_definition(whole, arm, steps)
    if options.output is not None:
        print_or_write(write_definition(definition), options.output)
        return None
    with refusing_os_errors():
        project.home.mkdir(parents=True, exist_ok=True)
        store = ObjectStore(project.home.resolve() / "s3")
        placement.put(store, cache_folder(), lambda line: click.echo(line, err=True))
    click.echo(f"profiling {steps} steps of arm {arm} of {declared.name}", err=True)
    ran = run_jobs(project, f"{declared.name}-profile", definition, options.images)
    for step in ran.values():
        if step.status is not StepStatus.SUCCEEDED and step.failure is not None:
            click.echo(f"{step.name} did not succeed: {step.failure.headline}", err=True)
            for line in step.failure.lines[1:]:
                click.echo(line, err=True)
            raise SystemExit(exit_codes.STEP_FAILED)
    kept = project.home / "profiles" / f"{declared.name}-{arm}"
    _unpack(output_of(project, ran[step_name]), kept)
    return kept


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
