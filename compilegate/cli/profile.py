"""`compilegate profile`: where the time of a training step goes; the largest batch that fits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from compilegate.cli.options import (
    BYTES,
    Project,
    completing,
    image_option,
    job_file_option,
    json_option,
    pass_project,
    refuse_given,
)
from compilegate.cli.terminal.errors import RefusalError, refusing_os_errors
from compilegate.diagnose.batch_size import (
    Bracket,
    KeptTrials,
    Shapes,
    advised,
    largest_fitting,
    try_batch,
)
from compilegate.execution import exit_codes
from compilegate.job.names import (
    BASELINE_ARM,
    PROFILE_FILE,
    PROFILE_FOLDER,
    PROFILE_VARIABLE,
    TRACE_FILE,
)
from compilegate.workload import Arm, Workload

DEFAULT_STEPS, FEWEST_STEPS, MOST_STEPS = 36, 12, 1000
_IMMEDIATE = ("eager", "inductor", "torch-compile")
"""Compilers whose steps run while the script does. What traces whole steps shows no phases."""
BATCH_STEPS = 3
"""The optimizer has its state after the first step; a compiler is done after the second."""
LARGEST_BATCH = 65536
TOLERANCE = 1 / 32
FEW_TOKENS = 256
"""A pretrained model's vocabulary does not matter: tokens take no memory."""
_OF_SCRIPTS = {"--processes"}
_OF_WORKLOADS = {"--arm", "--output", "--image", "--aws", "--largest-batch", "--memory-limit"}
_NOT_OF_BATCHES = {"--steps", "--json", "--output", "--image", "--aws"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options as they were given; see their help."""

    arm: str
    steps: int
    processes: int
    as_json: bool
    output: Path | None
    images: tuple[str, ...]
    largest_batch: bool
    memory_limit: int | None


@click.command("profile")
@click.argument(
    "what", metavar="NAME|FILE|SCRIPT.py|PROFILE", shell_complete=completing("workload")
)
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS]")
@click.option(
    "--arm",
    metavar="NAME",
    default=BASELINE_ARM,
    help="With a workload: the arm (default: the baseline).",
)
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
    help="With a script: the number of processes that torchrun starts.",
)
@json_option
@job_file_option
@image_option
@click.option(
    "--largest-batch",
    is_flag=True,
    help="Find the largest batch of the arm that fits into this machine's memory instead.",
)
@click.option(
    "--memory-limit",
    type=BYTES,
    help="With --largest-batch: memory that a trial may use, such as 2GB: the process's on a CPU, "
    "the device's on a GPU. By default all there is.",
)
@pass_project
def command(project: Project, what: str, arguments: tuple[str, ...], **given: Any) -> None:
    """Say where the time of a training step goes, and what each compiler could save of it.

    \b
      compilegate profile news-topics --arm compiled   an arm of a workload, as a job here
      compilegate profile train.py -- --epochs 1       any script that trains with torch, as it is
      compilegate profile train.py --processes 2       the same, as torchrun starts it
      compilegate profile news-topics --aws -o profile.json    the job, for SageMaker
      compilegate profile output.tar.gz                what such a job left
      compilegate profile news-topics --largest-batch --memory-limit 2GB

    A few dozen steps are taken, then the training ends; nothing is judged or registered. The report
    names the bottleneck, divides a step among waiting for data, copies, forward and backward,
    update, communication and what is outside of torch, and gives the most that each compiler could
    save. The profile is kept in HOME/profiles, its trace for https://ui.perfetto.dev.

    A script needs torch's optimizers; it is run by this Python.

    --largest-batch bisects to within 3% and prints a batch_size to declare. Each trial is a process
    that takes three training steps with the arm's model, compiler and precision. Trials are kept
    in HOME: after Ctrl-C the same command continues. Without a GPU and a limit the search fills
    this machine's memory, which takes long: give --memory-limit.
    """
    options, source = Options(**given), Path(what)
    script, kept = source.suffix == ".py", source if _holds_a_profile(source) else None
    if script or kept:
        refuse_given(_OF_WORKLOADS, f"is for workloads, and {what} is not one")
    if not script:
        refuse_given(_OF_SCRIPTS, f"is for scripts, and {what} is not one")
    if options.largest_batch:
        refuse_given(_NOT_OF_BATCHES, "does not go with --largest-batch")
    else:
        refuse_given({"--memory-limit"}, "needs --largest-batch")
    if arguments and not script:
        raise click.UsageError(
            f"the argument {arguments[0]!r} is for a script alone, as in "
            "`compilegate profile train.py -- --epochs 1`"
        )
    if script:
        kept = project.home / "profiles" / source.stem
        _profile_script(source, arguments, options, kept)
    elif options.largest_batch:
        _find_largest_batch(project, what, options.arm, options.memory_limit)
    elif kept is None:
        kept = _profile_workload(project, what, options)
    if kept is not None:
        _show(kept, as_json=options.as_json)


def _holds_a_profile(path: Path) -> bool:
    if path.is_dir():
        return (path / PROFILE_FILE).is_file() or (path / PROFILE_FOLDER / PROFILE_FILE).is_file()
    return path.is_file() and (path.suffix == ".json" or path.name.endswith(".tar.gz"))


def _show(path: Path, *, as_json: bool) -> None:
    from compilegate.diagnose.profile import analysis_of, read_profile, text_of  # noqa: PLC0415  numpy

    found = analysis_of(read_profile(path))
    inner = path / PROFILE_FOLDER
    folder = inner if inner.is_dir() else path if path.is_dir() else None
    click.echo(json.dumps(found.document, indent=2) if as_json else text_of(found, folder))


def _profile_script(script: Path, arguments: tuple[str, ...], options: Options, kept: Path) -> None:
    """Run the script in processes of its own, in this folder and with this Python."""
    from compilegate.built_in import import_path  # noqa: PLC0415
    from compilegate.job.launch.torchrun import torchrun_command  # noqa: PLC0415

    if not script.is_file():
        raise RefusalError(f"there is no script {script}")
    with refusing_os_errors():
        kept.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(kept / PROFILE_FOLDER, ignore_errors=True)
    environment = {
        **os.environ,
        "PYTHONPATH": import_path(os.environ),
        PROFILE_VARIABLE: f"{options.steps}:{kept.resolve()}",
    }
    program = ["-m", "compilegate.job.profiling.script", str(script), *arguments]
    runner = [sys.executable, *program]
    if options.processes > 1:
        runner = torchrun_command(options.processes, program, {})
    # What the script prints is no part of what this command prints, which may be read as JSON.
    ended = subprocess.run(runner, env=environment, stdout=sys.stderr, check=False)
    if not (kept / PROFILE_FOLDER / PROFILE_FILE).is_file():
        said = "see what it printed" if ended.returncode else "it took no training step with torch"
        click.echo(
            f"{script} wrote no profile and exited with status {ended.returncode}; {said}",
            err=True,
        )
        raise SystemExit(exit_codes.STEP_FAILED)


def _profile_workload(project: Project, name: str, options: Options) -> Path | None:
    """Run the arm's profiling job here, and keep its profile; or write the job down, and return
    None."""
    from compilegate.cli.definitions import run_jobs  # noqa: PLC0415  the pipelines take time
    from compilegate.diagnose.jobs import profile_definition  # noqa: PLC0415

    declared = project.load(name)
    _refuse_without_phases(*declared, options.arm)
    archives = run_jobs(
        project,
        declared,
        "profile",
        lambda whole: profile_definition(whole, options.arm, options.steps),
        output=options.output,
        images=options.images,
    )
    if not archives:
        return None
    (archive,) = archives.values()
    kept = project.home / "profiles" / f"{declared[0].name}-{options.arm}"
    _unpack(archive, kept)
    return kept


def _refuse_without_phases(declared: Workload, path: Path, arm: str) -> None:
    """Refuse a program that imports another framework, and not torch: it takes no step that could
    be seen. Refuse a compiler that traces whole steps."""
    from compilegate.advice.facts import BESIDE_OTHERS, facts_of  # noqa: PLC0415
    from compilegate.pipelines.staging.requirements import imported_libraries  # noqa: PLC0415

    framework = facts_of(declared, libraries=imported_libraries(declared, path)).framework
    if framework.known and framework.value not in ("pytorch", BESIDE_OTHERS):
        raise RefusalError(
            f"{declared.name} trains with {framework.value} ({framework.source}); a "
            "profile needs a program that trains with torch"
        )
    compiler = _declared_arm(declared, path, arm).compiler
    if compiler not in _IMMEDIATE:
        raise RefusalError(
            f"--arm {arm} compiles with {compiler}, which traces whole steps and "
            f"shows no phases; name an arm with {', '.join(_IMMEDIATE)}"
        )


def _unpack(archive: Path, kept: Path) -> None:
    """The profile and its trace, out of what the job left."""
    wanted = {f"{PROFILE_FOLDER}/{name}" for name in (PROFILE_FILE, TRACE_FILE)}
    with refusing_os_errors(), tarfile.open(archive) as packed:
        members = [each for each in packed if each.name.removeprefix("./") in wanted]
        packed.extractall(kept, members, filter="data")


def _find_largest_batch(
    project: Project, workload: str, name: str, memory_limit: int | None
) -> None:
    """Search by bisection, a line for each trial, and print what to declare."""
    from compilegate.cli.checks import cannot_run_here  # noqa: PLC0415  the pipelines take time

    declared, path = project.load(workload)
    arm = _declared_arm(declared, path, name)
    if refused := cannot_run_here(declared).get(name):
        raise RefusalError(*refused).within(path)
    shapes = _shapes(declared, path, name, memory_limit)
    kept = KeptTrials(project.home / "batch-size", shapes)

    def fits(batch_size: int) -> bool:
        click.echo(f"batch {batch_size}: ", nl=False)  # a trial may take minutes
        trial = kept.get(batch_size)
        if trial is not None:
            click.echo(f"{trial.found}, from an earlier trial")
            return trial.outcome == "fits"
        trial = try_batch(shapes, batch_size)
        click.echo(trial.found)
        if trial.outcome == "failed":  # only a lack of memory says anything about a smaller batch
            raise RefusalError(
                f"a batch of {batch_size} failed for a reason other than memory: {trial.reason}"
            )
        with refusing_os_errors():
            kept.add(trial)
        return trial.outcome == "fits"

    try:
        bracket = largest_fitting(
            fits, first=min(arm.batch_size, LARGEST_BATCH), most=LARGEST_BATCH, tolerance=TOLERANCE
        )
    except KeyboardInterrupt:
        click.echo("\ninterrupted; the same command continues after the trials above", err=True)
        raise SystemExit(exit_codes.INTERRUPTED) from None
    for line in _conclusion(arm, name, bracket):
        click.echo(line)


def _declared_arm(declared: Workload, path: Path, name: str) -> Arm:
    if name not in declared.arms:
        arms = ", ".join(declared.arms)
        raise RefusalError(f"--arm is {name!r}, expected {arms}").within(path)
    return declared.arms[name]


def _shapes(declared: Workload, path: Path, name: str, memory_limit: int | None) -> Shapes:
    documents = declared.kind.document_shapes
    if documents is None:
        raise RefusalError(
            f"{path}: program is not the built-in one, whose steps alone can be "
            "tried; --largest-batch needs a workload with [model] and [recipe]"
        )
    job = declared.kind.training_program(declared, name, declared.seeds[0]).hyperparameters
    return Shapes(
        hyperparameters={
            key: value for key, value in job.items() if key not in ("distribution", "processes")
        },
        sequence_length=documents.sequence_length,
        vocabulary=documents.vocabulary or FEW_TOKENS,
        steps=BATCH_STEPS,
        memory_limit=memory_limit,
    )


def _conclusion(arm: Arm, name: str, bracket: Bracket) -> Iterator[str]:
    """What the user can do with the result."""
    fitting = bracket.fitting
    if not fitting:
        raise RefusalError(
            f"arms.{name}: a batch of 1 does not fit; use a smaller model or a lower precision"
        )
    if bracket.too_large is None:
        yield f"batch {fitting} fits, and no larger one is tried"
    else:
        yield f"largest batch that fits: {fitting} ({bracket.too_large} does not)"
    yield (
        f"advice: batch_size = {advised(fitting)}, which leaves a tenth for fragmentation, "
        "evaluation and the parity probe"
    )
    if arm.world_size > 1:
        yield (
            "one process was tried; averaging gradients over several takes as much "
            "memory again as the gradients"
        )
    if advised(fitting) > arm.batch_size and arm.scale_learning_rate == "none":
        yield 'a larger batch needs another learning rate: scale_learning_rate = "linear"'
