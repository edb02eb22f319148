"""How printed metrics reach the gate: in the arguments of its job, which the service limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SPEED = "samples_per_second"
"""What the gate calls a program's `speed_metric`."""
MOST_CHARACTERS = 256
"""Of one argument, with what stands for its variables filled in."""
MOST_ARGUMENTS = 100
JOB_NAME = 63
"""Characters that the service's names of jobs have at most."""
NUMBER = 24
"""Characters of the longest floating-point number, as `-1.7976931348623157e+308`."""

OTHER_ARGUMENTS = 4
"""`--experiment FILE --output FOLDER`."""


def reported_metrics(guarded: Iterable[str], speed: str | None) -> Mapping[str, str]:
    """By the gate's name for it, the program's name of each metric that the gate is told."""
    names = {name: name for name in guarded}
    return names if speed is None else {**names, SPEED: speed}


def printed_head(arm: str, seed: int) -> str:
    """What an argument begins with, before the job's name."""
    return f"--printed={arm}:{seed}:"


def printed_batches(arm: str, seed: int, names: Iterable[str]) -> list[list[str]]:
    """The metrics of a job, by the argument that they go with:
    `--printed=ARM:SEED:JOB:NAME=VALUE,NAME=VALUE`."""
    empty = len(printed_head(arm, seed)) + JOB_NAME
    batches: list[list[str]] = []
    length = MOST_CHARACTERS
    for name in names:
        own = len(f":{name}=") + NUMBER
        if not batches or length + own > MOST_CHARACTERS:
            batches.append([])
            length = empty
        batches[-1].append(name)
        length += own
    return batches
