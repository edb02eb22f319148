"""The largest batch of an arm that fits here: for `profile --largest-batch`."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.batch_size.bisection import Bracket, advised, largest_fitting
from compilegate.batch_size.trials import KeptTrials, Shapes, Trial, try_batch
from compilegate.cli.options import Project
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


def find_largest_batch(
    project: Project, workload: str, name: str, memory_limit: int | None, most: int
) -> None:
    """Search by bisection, a line for each trial, and print what to declare."""
    declared, path = project.load(workload)
    documents = _documents(declared, path)
    arm = _arm(declared, path, name)
    shapes = _shapes(declared, documents, name, memory_limit)
    kept = KeptTrials(project.home / "batch-size", shapes)
    try:
        bracket = largest_fitting(
            lambda batch_size: _fits(kept, shapes, batch_size),
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


def _fits(kept: KeptTrials, shapes: Shapes, batch_size: int) -> bool:
    click.echo(f"batch {batch_size}: ", nl=False)  # a trial may take minutes
    trial = kept.get(batch_size)
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
