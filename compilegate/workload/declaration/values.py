"""The types of values that several tables have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
)

from compilegate.declaration_errors import matching

OWN_PREFIX = "compilegate/"
"""Prefix that executions and staging write to."""


def distinct(values: list[Any]) -> None:
    for at, each in enumerate(values):
        if each in values[:at]:
            raise ValueError(f"holds {each!r} more than once, expected each once")


def names_differ(files: list[str]) -> None:
    distinct([PurePosixPath(file).name for file in files])


def passing(check: Callable[[Any], object]) -> AfterValidator:
    """The value as it is, once `check` has raised nothing."""

    def checked(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(checked)


def _beside_the_file(folder: str) -> None:
    if folder.startswith("/") or not PurePosixPath(folder).parts or ".." in folder.split("/"):
        raise ValueError(f"is {folder!r}, expected a folder beside the workload's file")


def of_others(prefix: str) -> None:
    if prefix.startswith(OWN_PREFIX) or OWN_PREFIX.startswith(prefix):
        raise ValueError(
            f"is {prefix!r}, expected a prefix outside {OWN_PREFIX!r}, where every execution "
            "writes and so would start the next"
        )


Text = Annotated[str, StringConstraints(min_length=1, max_length=250)]
Folder = Annotated[Text, passing(_beside_the_file)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Dollars = Annotated[float, Field(gt=0, le=10_000_000, allow_inf_nan=False)]
Version = Annotated[
    str, matching(r"^\d+\.\d+(?:\.\d+)*$", "a version such as 2.4 or 1.13.1", max_length=20)
]
ImageFolder = Annotated[
    str,
    matching(r"^[a-z0-9]+(?:[._-][a-z0-9]+)*$", "a folder's name in lowercase, such as training"),
]
PREFIX_PATTERN = r"[A-Za-z0-9!_.'()-][A-Za-z0-9!_.'()/-]*"
Prefix = Annotated[
    str,
    matching(rf"^{PREFIX_PATTERN}$", "a prefix such as incoming/news", max_length=500),
    passing(of_others),
]


class Table(BaseModel):
    """A table of the file. Unknown keys and wrong types are errors, never guesses."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
