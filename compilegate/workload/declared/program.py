"""`[program]`: training with your own program instead of the built-in one."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from compilegate.workload.declared.arguments import Argument, check_arguments
from compilegate.workload.declared.arm import ImageFolder
from compilegate.workload.declared.table import Table

Script = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z_][A-Za-z0-9_]*/)*[A-Za-z_][A-Za-z0-9_]*\.py$")
]
Hyperparameter = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=100)
]
MOST_HYPERPARAMETERS = 88
"""A training job takes 100, of which its arm, the toolkit and the compiler need up to twelve."""
LONGEST_HYPERPARAMETER = 2500
Expression = Annotated[str, StringConstraints(max_length=500)]
PrintedName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_:./-]+$", max_length=255)]


class Program(Table):
    """`[program]`: a training program of your own, in a folder beside the workload's file."""

    folder: Annotated[str, StringConstraints(min_length=1, max_length=250)]
    """Relative to the workload's file. All that it holds goes with the program."""
    entry: Script = "train.py"
    """The training script, relative to the folder."""
    prepare: Script | None = None
    """A script that makes the training data from the raw data, once for all jobs. Without one the
    raw data is the training data."""
    image: ImageFolder = "training"
    """Folder in `containers/` whose image the scripts run in; an arm may name another for itself,
    or has the one of its compiler."""
    requirements_in_image: bool = False
    """Whether the images of the workload hold what the folder's `requirements.txt` asks for, so
    that it stays out of the jobs."""
    hyperparameters: dict[Hyperparameter, str | int | float | bool] = Field(default={})
    """Passed to the training script as `--NAME VALUE`, beside those of the arm."""
    arguments: dict[str, Argument] | None = None
    """What the script calls its arguments: those of its arm that are named here are passed, under
    these names, and no others; beside them its hyperparameters, which may be named as well.
    Without the table all are passed by the names that the workload declares."""
    argument_style: Literal["--name value", "--name=value", "name=value"] = "--name value"
    """How arguments are written."""
    metrics: dict[PrintedName, Expression] = Field(default={}, max_length=40)
    """Regular expressions by metric: what the first group catches in the job's output is its
    value."""
    percent: list[PrintedName] = Field(default=[], max_length=40)
    """With `evidence = "printed"`: the metrics that are printed in per cent."""
    evidence: Literal["written", "printed"] = "written"
    """`written`: the script uses compilegate.job. `printed`: it only prints its metrics, and the
    gate judges those over seeds."""
    speed_metric: PrintedName | None = None
    """With `evidence = "printed"`: the metric that holds training samples per second."""

    @field_validator("folder")
    @classmethod
    def _lies_beside_the_file(cls, folder: str) -> str:
        if folder.startswith("/") or not PurePosixPath(folder).parts or ".." in folder.split("/"):
            raise ValueError(f"found {folder!r}, allowed: a folder beside the workload's file")
        return folder

    @field_validator("arguments", mode="before")
    @classmethod
    def _arguments_can_be_passed(cls, arguments: object) -> object:
        check_arguments(arguments)
        return arguments

    @field_validator("metrics")
    @classmethod
    def _expressions_are_read(cls, metrics: dict[str, str]) -> dict[str, str]:
        for name, expression in metrics.items():
            try:
                groups = re.compile(expression).groups
            except re.error as error:
                raise ValueError(f"{name} is not a regular expression: {error}") from error
            if not groups:
                raise ValueError(f"{name} has no group, allowed: one that catches the number")
        return metrics

    @model_validator(mode="after")
    def _no_name_is_taken(self) -> Self:
        for name in self.hyperparameters:
            if name.startswith("sagemaker_"):
                raise ValueError(
                    f"hyperparameters.{name} is the training toolkit's, allowed: names that do "
                    "not begin with 'sagemaker_'"
                )
        return self

    @model_validator(mode="after")
    def _hyperparameters_fit_a_training_job(self) -> Self:
        if len(self.hyperparameters) > MOST_HYPERPARAMETERS:
            raise ValueError(
                f"hyperparameters holds {len(self.hyperparameters)}, allowed: "
                f"{MOST_HYPERPARAMETERS} at most, since a job takes 100 and its arm needs some"
            )
        for name, value in self.hyperparameters.items():
            if len(str(value)) > LONGEST_HYPERPARAMETER:
                raise ValueError(
                    f"hyperparameters.{name} has {len(str(value))} characters, allowed: "
                    f"{LONGEST_HYPERPARAMETER}; put longer text in a file of the program's folder"
                )
        return self

    @model_validator(mode="after")
    def _percentages_are_metrics(self) -> Self:
        for name in self.percent:
            if self.evidence != "printed" or name not in self.metrics or name == self.speed_metric:
                others = [each for each in self.metrics if each != self.speed_metric]
                raise ValueError(
                    f"percent holds {name!r}, allowed: with evidence = 'printed', metrics other "
                    f"than the speed ({', '.join(others) or 'there is none'})"
                )
        return self

    @model_validator(mode="after")
    def _the_speed_is_a_metric(self) -> Self:
        if self.speed_metric is None:
            return self
        if self.evidence != "printed" or self.speed_metric not in self.metrics:
            raise ValueError(
                f"speed_metric is {self.speed_metric!r}, allowed: with evidence = 'printed', one "
                f"of metrics ({', '.join(self.metrics) or 'there is none'})"
            )
        return self
