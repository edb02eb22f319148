"""The arguments of a program of your own: what its jobs are told, in the script's own words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from compilegate.catalog.instances import instance_of
from compilegate.job import names
from compilegate.workload.arms import Arm
from compilegate.workload.declared.arguments import (
    Argument,
    names_twice,
    renamed_to,
    told_as,
    unknown_arguments,
)
from compilegate.workload.declared.arm import ArmTable
from compilegate.workload.declared.program import Program

LAUNCHED = ("none", "torchrun")
"""Distributions that the launcher knows; SageMaker's own launchers import the script themselves."""

_NUMBERS = (names.GPUS, names.BATCH_SIZE, names.LEARNING_RATE, names.SEED)


def told_of_arm(arm: Arm, seed: int) -> dict[str, str]:
    """What a program gets to know about its arm."""
    return {
        names.COMPILER: arm.compiler,
        names.BATCH_SIZE: str(arm.batch_size),
        names.LEARNING_RATE: repr(arm.learning_rate),
        names.PRECISION: arm.precision,
        names.SEED: str(seed),
    }


def gpus_told(program: Program, instance_type: str) -> dict[str, str]:
    """The GPUs of the arm's instance, for a script that is declared to ask for them: one that does
    not know the argument would end with it."""
    if names.GPUS not in (program.arguments or {}):
        return {}
    instance = instance_of(instance_type)
    return {names.GPUS: str(0 if instance is None else instance.accelerators)}


def text_of(value: object) -> str:
    """As the toolkit hands it to the script: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def launcher_arguments(program: Program, told: Mapping[str, str]) -> dict[str, str]:
    """The variables that tell the launcher how the script wants its arguments."""
    variables = {}
    if program.arguments is not None:
        words = {name: told_as(each, told[name]) for name, each in program.arguments.items()}
        variables[names.ARGUMENTS_VARIABLE] = json.dumps(words, separators=(",", ":"))
    if program.argument_style != names.ARGUMENT_STYLES[0]:
        variables[names.ARGUMENT_STYLE_VARIABLE] = program.argument_style
    return variables


def renamed_hyperparameters(program: Program, told: Mapping[str, str]) -> dict[str, str]:
    """The hyperparameters of a job whose script SageMaker itself starts, by the script's names."""
    arguments = program.arguments
    if arguments is None:
        return dict(told)
    return {
        (renamed_to(arguments[name]) or name) if name in arguments else name: value
        for name, value in told.items()
        if name in arguments or name not in names.ARM_HYPERPARAMETERS
    }


def wrong_arguments(
    program: Program, arms: Mapping[str, ArmTable], told: tuple[str, ...]
) -> Iterator[str]:
    """What is wrong with `[program.arguments]`; `told` is what every job is told."""
    yield from _unlaunched(program, arms)
    arguments = program.arguments
    if arguments is None:
        return
    hyperparameters = program.hyperparameters
    yield from unknown_arguments([name for name in arguments if name not in hyperparameters], told)
    yield from names_twice(arguments, hyperparameters)
    for name, argument in arguments.items():
        if isinstance(argument, dict) and name in _NUMBERS and name not in hyperparameters:
            yield (
                f"program.arguments.{name} is a table, allowed: the script's own name for it, or "
                "words in which {} is the value, since it is a number"
            )
        for where, value in _values(name, program, arms):
            if isinstance(argument, dict) and value not in argument:
                yield (
                    f"program.arguments.{name} has no words for {value!r}, which {where} has, "
                    f"allowed: one entry for each value (now: {', '.join(argument)}); '' passes "
                    "nothing"
                )


def _values(name: str, program: Program, arms: Mapping[str, ArmTable]) -> Iterator[tuple[str, str]]:
    """Each value that is known by now, after where it stands."""
    if name in program.hyperparameters:
        yield f"program.hyperparameters.{name}", text_of(program.hyperparameters[name])
    elif name in (names.COMPILER, names.PRECISION):
        for arm, table in arms.items():
            yield f"arms.{arm}", getattr(table, name)


def _unlaunched(program: Program, arms: Mapping[str, ArmTable]) -> Iterator[str]:
    """SageMaker's own launchers can be given other names, and nothing else."""
    own = [name for name, arm in arms.items() if arm.distribution not in LAUNCHED]
    if not own:
        return
    allowed = (
        f"beside arms.{own[0]}.distribution = {arms[own[0]].distribution!r}, whose launcher passes "
        "every argument as '--name value'"
    )
    if program.argument_style != names.ARGUMENT_STYLES[0]:
        yield (
            f"program.argument_style is {program.argument_style!r} {allowed}, allowed: "
            f"{names.ARGUMENT_STYLES[0]!r}"
        )
    spelled: Mapping[str, Argument] = program.arguments or {}
    for name, argument in spelled.items():
        if renamed_to(argument) is None:
            yield (
                f"program.arguments.{name} is {argument!r} {allowed}, allowed: the script's own "
                "name for it"
            )
