"""`[program]`: a training script of your own."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from compilegate.declaration_errors import matching
from compilegate.workload.declaration.values import (
    Folder,
    ImageFolder,
    Table,
)

Argument = str | dict[str, str]
"""A name, where the script calls the argument otherwise; words of its command line in which `{}` is
the value; or a table of such words for each value, empty where the script gets nothing for it."""


def own_name(argument: Argument) -> str | None:
    """The script's own name, without dashes; None where words replace name and value."""
    if isinstance(argument, str) and re.fullmatch(r"-{0,2}[A-Za-z_][A-Za-z0-9_.-]*", argument):
        return argument.lstrip("-")
    return None


def _passed_arguments(raw: object) -> object:
    if raw is None or not isinstance(raw, dict):
        raise ValueError(f"is {raw!r}, expected a table, [program.arguments]")
    for name, argument in raw.items():
        words = list(argument.values()) if isinstance(argument, dict) else [argument]
        if (
            not all(isinstance(each, str) for each in words)
            or argument in ("", {})
            or (isinstance(argument, str) and not own_name(argument) and "{}" not in argument)
        ):
            raise ValueError(
                f"{name} is {argument!r}, expected the script's own name for it ('batch-size'), "
                "words in which {} is the value ('--batch-size={}'), or a table of words for each "
                "value ({ bf16 = '--bf16', fp32 = '' })"
            )
        for each in words:
            try:
                shlex.split(each)
            except ValueError as error:
                raise ValueError(
                    f"{name} holds {each!r}, which cannot be split into arguments ({error}), "
                    "expected words, with quotes in pairs"
                ) from error
    return raw


Script = Annotated[
    str,
    matching(
        r"^([A-Za-z_][A-Za-z0-9_]*/)*[A-Za-z_][A-Za-z0-9_]*\.py$",
        "a Python file such as train.py or steps/train.py",
    ),
]
Hyperparameter = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_.-]*$",
        "a name of letters, digits and _.-, such as weight_decay",
        max_length=100,
    ),
]
Expression = Annotated[str, StringConstraints(max_length=500)]
PrintedName = Annotated[
    str, matching(r"^[A-Za-z0-9_:./-]+$", "a metric's name such as validation:loss", max_length=255)
]


class Program(Table):
    """`[program]`: a training program of your own, in a folder beside the workload's file."""

    folder: Folder
    """Relative to the workload's file. All that it holds goes with the program."""
    entry: Script = "train.py"
    """The training script, relative to the folder."""
    prepare: Script | None = None
    """A script that makes the training data from the raw data, once for all jobs. Without one the
    raw data is the training data."""
    image: ImageFolder = "training"
    """Folder in `containers/` whose image `prepare` runs in. A training job runs in the image of
    its arm, which is by default that of the arm's compiler."""
    requirements_in_image: bool = False
    """Whether the images of the workload hold what the folder's `requirements.txt` asks for, so
    that it stays out of the jobs."""
    hyperparameters: dict[Hyperparameter, str | int | float | bool] = Field(default={})
    """Passed to the training script as `--NAME VALUE`, beside those of the arm."""
    arguments: Annotated[dict[str, Argument] | None, BeforeValidator(_passed_arguments)] = None
    """What the script calls its arguments: those of its arm that are named here are passed, under
    these names, and no others; beside them its hyperparameters, which may be named as well.
    Without the table all are passed by the names that the workload declares."""
    argument_style: Literal["--name value", "--name=value", "name=value"] = "--name value"
    """How arguments are written."""
    metrics: dict[PrintedName, Expression] = Field(default={}, max_length=40)
    """Regular expressions by metric: what the first group catches in the job's output is its
    value."""
    percent: list[PrintedName] = Field(default=[], max_length=40)
    """Metrics that are printed in per cent, with `evidence = "printed"`."""
    evidence: Literal["written", "printed"] = "written"
    """`written`: the script uses compilegate.job. `printed`: it only prints its metrics, and the
    gate judges those over seeds."""
    speed_metric: PrintedName | None = None
    """Metric of training samples per second, with `evidence = "printed"`."""

    @field_validator("metrics")
    @classmethod
    def _expressions_are_read(cls, metrics: dict[str, str]) -> dict[str, str]:
        for name, expression in metrics.items():
            try:
                groups = re.compile(expression).groups
            except re.error as error:
                raise ValueError(f"{name} is not a regular expression: {error}") from error
            if not groups:
                raise ValueError(f"{name} has no group, expected one that catches the number")
        return metrics

    @model_validator(mode="after")
    def _printed_metrics_have_expressions(self) -> Self:
        for name in (*self.percent, *([self.speed_metric] if self.speed_metric else [])):
            if self.evidence != "printed" or name not in self.metrics:
                raise ValueError(
                    f"{name!r} is named as a printed metric, expected evidence = 'printed' and one "
                    f"of metrics ({', '.join(self.metrics) or 'there is none'})"
                )
        return self
