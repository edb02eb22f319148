"""`compilegate profile`: where the time of a training step goes; the largest batch that fits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from compilegate.cli import options
from compilegate.cli.options import BYTES, Project, completing, pass_project, refuse_given
from compilegate.cli.printing import RefusalError, announce
from compilegate.diagnose.batch_size import (
    Bracket,
    Shapes,
    StoredTrials,
    advised,
    largest_fitting,
    try_batch,
)
from compilegate.execution import exit_codes
from compilegate.job.contract import (
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
_OF_WORKLOADS = {"--arm", "--output", "--image", "--aws", "--largest-batch", "--memory-limit"}
_NOT_OF_BATCHES = {"--steps", "--json", "--output", "--image", "--aws"}


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """The options of the command; see their help."""

    arm: str
    steps: int
    processes: int
    as_json: bool
    output: Path | None
    images: Mapping[str, str]
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
@options.as_json
@options.job_file
@options.images
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

    The training ends after --steps. The report names the bottleneck, divides a step among waiting
    for data, copies, forward and backward, update, communication and what is outside of torch, and
    gives the most that each compiler could save. HOME/profiles has the profile, and its trace for
    https://ui.perfetto.dev. A script needs torch's optimizers; it is run by this Python.

    --largest-batch bisects to within 3%. Each trial is a process that takes three training steps
    with the arm's model, compiler and precision; after Ctrl-C the same command continues. Without
    a GPU the search fills this machine's memory, which takes long: give --memory-limit.
    """
    request, source = ProfileOptions(**given), Path(what)
    script, saved = source.suffix == ".py", _holds_a_profile(source)
    if script or saved:
        refuse_given(_OF_WORKLOADS, f"is for workloads, and {what} is not one")
    if not script:
        refuse_given({"--processes"}, f"is for scripts, and {what} is not one")
    if request.largest_batch:
        refuse_given(_NOT_OF_BATCHES, "does not go with --largest-batch")
    else:
        refuse_given({"--memory-limit"}, "needs --largest-batch")
    if arguments and not script:
        raise click.UsageError(
            f"the argument {arguments[0]!r} is for a script alone, as in "
            "`compilegate profile train.py -- --epochs 1`"
        )
    if request.largest_batch:
        _find_largest_batch(project, what, request)
        return
    profiles = project.home / "profiles"
    if script:
        path: Path | None = _profile_script(source, arguments, request, profiles / source.stem)
    else:
        path = source if saved else _profile_workload(project, what, request, profiles)
    if path is not None:
        from compilegate.diagnose.profile import analysis_of, read_profile, text_of  # noqa: PLC0415  numpy

        found, inner = analysis_of(read_profile(path)), path / PROFILE_FOLDER
        folder = inner if inner.is_dir() else path if path.is_dir() else None
        text = json.dumps(found.document, indent=2) if request.as_json else text_of(found, folder)
        click.echo(text)


def _holds_a_profile(path: Path) -> bool:
    if path.is_dir():
        return (path / PROFILE_FILE).is_file() or (path / PROFILE_FOLDER / PROFILE_FILE).is_file()
    return path.is_file() and (path.suffix == ".json" or path.name.endswith(".tar.gz"))


def _profile_script(
    script: Path, arguments: tuple[str, ...], request: ProfileOptions, folder: Path
) -> Path:
    """Run the script in processes of its own, in this folder and with this Python; returns the
    folder with its profile."""
    from compilegate.built_in import import_path  # noqa: PLC0415
    from compilegate.job.launch.torchrun import torchrun_command  # noqa: PLC0415

    if not script.is_file():
        raise RefusalError(f"there is no script {script}")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / PROFILE_FOLDER, ignore_errors=True)
    environment = {
        **os.environ,
        "PYTHONPATH": import_path(os.environ),
        PROFILE_VARIABLE: f"{request.steps}:{folder.resolve()}",
    }
    program = ["-m", "compilegate.job.profiling.script", str(script), *arguments]
    runner = [sys.executable, *program]
    if request.processes > 1:
        runner = torchrun_command(request.processes, program, {})
    # What the script prints is no part of what this command prints, which may be read as JSON.
    ended = subprocess.run(runner, env=environment, stdout=sys.stderr, check=False)
    if not (folder / PROFILE_FOLDER / PROFILE_FILE).is_file():
        why = "see what it printed" if ended.returncode else "it took no training step with torch"
        announce(f"{script} wrote no profile and exited with status {ended.returncode}; {why}")
        raise SystemExit(exit_codes.STEP_FAILED)
    return folder


def _profile_workload(
    project: Project, name: str, request: ProfileOptions, profiles: Path
) -> Path | None:
    """Run the arm's profiling job here, and keep its profile; or write the job down, and return
    None."""
    from compilegate.cli.definitions import run_jobs  # noqa: PLC0415  the pipelines take time
    from compilegate.diagnose.jobs import profile_definition  # noqa: PLC0415

    declared = project.load(name)
    _refuse_without_phases(*declared, request.arm)
    archives = run_jobs(
        project,
        declared,
        "profile",
        lambda whole: profile_definition(whole, request.arm, request.steps),
        output=request.output,
        images=request.images,
    )
    if not archives:
        return None
    (archive,) = archives.values()
    folder = profiles / f"{declared[0].name}-{request.arm}"
    wanted = {f"{PROFILE_FOLDER}/{file}" for file in (PROFILE_FILE, TRACE_FILE)}
    with tarfile.open(archive) as packed:
        members = [each for each in packed if each.name.removeprefix("./") in wanted]
        packed.extractall(folder, members, filter="data")
    return folder


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


def _find_largest_batch(project: Project, workload: str, request: ProfileOptions) -> None:
    """Search by bisection, a line for each trial, and print what to declare."""
    from compilegate.cli.definitions import cannot_run_here  # noqa: PLC0415  the pipelines take time

    declared, path = project.load(workload)
    arm = _declared_arm(declared, path, request.arm)
    if refused := cannot_run_here(declared).get(request.arm):
        raise RefusalError(*refused).within(path)
    shapes = _shapes(declared, path, request)
    trials = StoredTrials(project.home / "batch-size", shapes)

    def fits(batch_size: int) -> bool:
        click.echo(f"batch {batch_size}: ", nl=False)  # a trial may take minutes
        trial = trials.get(batch_size)
        if trial is not None:
            click.echo(f"{trial.found}, from an earlier trial")
            return trial.outcome == "fits"
        trial = try_batch(shapes, batch_size)
        click.echo(trial.found)
        if trial.outcome == "failed":  # only a lack of memory says anything about a smaller batch
            raise RefusalError(
                f"a batch of {batch_size} failed for a reason other than memory: {trial.reason}"
            )
        trials.add(trial)
        return trial.outcome == "fits"

    try:
        bracket = largest_fitting(
            fits, first=min(arm.batch_size, LARGEST_BATCH), most=LARGEST_BATCH, tolerance=TOLERANCE
        )
    except KeyboardInterrupt:
        announce("\ninterrupted; the same command continues after the trials above")
        raise SystemExit(exit_codes.INTERRUPTED) from None
    for line in _conclusion(arm, request.arm, bracket):
        click.echo(line)


def _declared_arm(declared: Workload, path: Path, name: str) -> Arm:
    if name not in declared.arms:
        arms = ", ".join(declared.arms)
        raise RefusalError(f"--arm is {name!r}, expected {arms}").within(path)
    return declared.arms[name]


def _shapes(declared: Workload, path: Path, request: ProfileOptions) -> Shapes:
    documents = declared.kind.document_shapes
    if documents is None:
        raise RefusalError(
            f"{path}: program is not the built-in one, whose steps alone can be "
            "tried; --largest-batch needs a workload with [model] and [recipe]"
        )
    job = declared.kind.training_program(declared, request.arm, declared.seeds[0]).hyperparameters
    return Shapes(
        hyperparameters={
            key: value for key, value in job.items() if key not in ("distribution", "processes")
        },
        sequence_length=documents.sequence_length,
        vocabulary=documents.vocabulary or FEW_TOKENS,
        steps=BATCH_STEPS,
        memory_limit=request.memory_limit,
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
