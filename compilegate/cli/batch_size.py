"""`compilegate batch-size`: the largest batch of an arm that fits here."""

from __future__ import annotations

import re
from pathlib import Path

import click

from compilegate.batch_size.bisection import Bracket, advised, largest_fitting
from compilegate.batch_size.trials import KeptTrials, Shapes, Trial, try_batch
from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.home import home_option
from compilegate.cli.options.project import load_workload, workloads_option
from compilegate.cli.terminal.errors import RefusalError, refusing_os_errors
from compilegate.execution import exit_codes
from compilegate.execution.target import Target
from compilegate.workload import Arm, DocumentShapes, Workload
from compilegate.workload.feasibility import NO_DAY, findings

STEPS = 3
"""The optimizer has its state after the first step; a compiler is done after the second."""
TOLERANCE = 1 / 32
FEW_TOKENS = 256
"""A pretrained model's vocabulary does not matter: tokens take no memory."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


class _Bytes(click.ParamType[int]):
    name = "SIZE"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)b?", value.strip().lower())
        if found is None:
            self.fail(f"{value!r} is not a size, allowed: a number with MB or GB", param, ctx)
        return int(float(found[1]) * _UNITS[found[2]])


@click.command("batch-size")
@click.argument("workload", metavar="NAME|FILE", shell_complete=complete_workload)
@click.option("--arm", "name", metavar="NAME", required=True, help="The arm to try.")
@click.option(
    "--memory-limit",
    type=_Bytes(),
    help="Memory that a trial may use, such as 2GB: the process's on a CPU, the device's on a GPU. "
    "By default all there is.",
)
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=65536,
    show_default=True,
    help="The largest batch to try.",
)
@click.option("--again", is_flag=True, help="Repeat trials that were made before.")
@home_option
@workloads_option
def command(  # noqa: PLR0917  one argument for each option
    workload: str,
    name: str,
    memory_limit: int | None,
    most: int,
    again: bool,
    home: Path,
    workloads: Path,
) -> None:
    """Find the largest batch of an arm that fits into this machine's memory.

    \b
      compilegate batch-size news-topics --arm larger-batch --memory-limit 2GB
      compilegate batch-size news-topics --arm larger-batch --most 512

    The search doubles or halves the arm's batch_size until the limit lies between two sizes, then
    bisects to within 3%, and prints a batch_size to declare. Each trial is a separate process that
    takes three real training steps with the arm's model, compiler and precision. A trial that runs
    out of memory is a result, even if the system kills it. A compiled arm compiles in every trial,
    and a search has about ten of them.

    Trials are kept in HOME: after Ctrl-C the same command continues. Without a GPU and a limit the
    search continues until this machine's memory is full, which takes long: give --memory-limit.
    """
    declared, path = load_workload(workload, workloads)
    documents = _documents(declared, path)
    arm = _arm(declared, path, name)
    shapes = _shapes(declared, documents, name, memory_limit)
    kept = KeptTrials(home / "batch-size", shapes)
    try:
        bracket = largest_fitting(
            lambda batch_size: _fits(kept, shapes, batch_size, again=again),
            first=min(arm.batch_size, most),
            most=most,
            tolerance=TOLERANCE,
        )
    except KeyboardInterrupt:
        click.echo("\ninterrupted; the same command continues after the trials above", err=True)
        raise SystemExit(exit_codes.INTERRUPTED) from None
    for line in conclusion(arm, name, bracket):
        click.echo(line)


def conclusion(arm: Arm, name: str, bracket: Bracket) -> list[str]:
    """What the user can do with the result."""
    if not bracket.fitting:
        raise RefusalError(
            f"arms.{name}: not even a batch of 1 fits; take a smaller model or precision"
        )
    if bracket.too_large is None:
        found = f"batch {bracket.fitting} fits, and --most allows no larger one"
    else:
        found = f"largest batch that fits: {bracket.fitting} ({bracket.too_large} does not)"
    lines = [
        found,
        f"advice: batch_size = {advised(bracket.fitting)}, which leaves a tenth for fragmentation, "
        "evaluation and the parity probe",
    ]
    if arm.world_size > 1:
        lines.append(
            "one process was tried; averaging gradients takes as much memory again as the gradients"
        )
    if advised(bracket.fitting) > arm.batch_size and arm.scale_learning_rate == "none":
        lines.append('a larger batch needs another learning rate: scale_learning_rate = "linear"')
    return lines


def _arm(declared: Workload, path: Path, name: str) -> Arm:
    if name not in declared.arms:
        raise RefusalError(f"{path}: arms.{name}: no such arm, allowed: {', '.join(declared.arms)}")
    refused = [
        each.sentence
        for each in findings(declared, today=NO_DAY, target=Target.HERE)
        if each.refused and each.arm == name
    ]
    if refused:
        raise RefusalError(*refused).within(path)
    return declared.arms[name]


def _documents(declared: Workload, path: Path) -> DocumentShapes:
    shapes = declared.kind.document_shapes
    if shapes is None:
        raise RefusalError(
            f"{path}: program: its steps are unknown here, allowed: a workload of the built-in "
            "training program ([model] and [recipe])"
        )
    return shapes


def _shapes(
    declared: Workload, documents: DocumentShapes, name: str, memory_limit: int | None
) -> Shapes:
    told = declared.kind.training_program(declared, name, declared.seeds[0]).hyperparameters
    return Shapes(
        hyperparameters={
            key: value for key, value in told.items() if key not in ("distribution", "processes")
        },
        sequence_length=documents.sequence_length,
        vocabulary=documents.vocabulary or FEW_TOKENS,
        steps=STEPS,
        memory_limit=memory_limit,
    )


def _fits(kept: KeptTrials, shapes: Shapes, batch_size: int, *, again: bool) -> bool:
    click.echo(f"batch {batch_size}: ", nl=False)  # a trial may take minutes
    trial = None if again else kept.get(batch_size)
    if trial is not None:
        click.echo(f"{trial.found}, from an earlier trial")
        return trial.outcome == "fits"
    trial = try_batch(shapes, batch_size)
    click.echo(trial.found)
    _refuse_other_failures(trial)
    with refusing_os_errors():
        kept.add(trial)
    return trial.outcome == "fits"


def _refuse_other_failures(trial: Trial) -> None:
    """Only a lack of memory says anything about a smaller batch."""
    if trial.outcome == "failed":
        raise RefusalError(
            f"a batch of {trial.batch_size} cannot be tried, for another reason than memory: "
            f"{trial.reason}"
        )
