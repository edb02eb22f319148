"""The tables of facts/: rows as dataclasses, and the sentences of findings. Pure."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

Row = TypeVar("Row")


def fact_text(name: str) -> str:
    return files("compilegate.catalog").joinpath("facts", name).read_text(encoding="utf-8")


def fact_lines(name: str) -> list[dict[str, str]]:
    """The lines of a table by column, without empty cells."""
    lines = csv.DictReader(fact_text(name).splitlines())
    return [{column: value for column, value in line.items() if value} for line in lines]


def fact_rows(name: str, row: type[Row]) -> tuple[Row, ...]:
    """A table as objects of that dataclass; an empty cell has its field's default."""
    return TypeAdapter(tuple[row, ...]).validate_python(fact_lines(name))  # type: ignore[valid-type]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, or that the workload's owner should know."""

    code: str
    """Its table in `facts/findings.toml`."""
    severity: Literal["refusal", "warning"]
    """A refusal keeps the job from starting."""
    about: str
    """The field of `ArmSettings` that it concerns."""
    reason: str
    remedy: str
    page: str = ""
    """The address of the page that requires it; empty where the reason names its source."""

    @property
    def sentence(self) -> str:
        page = f" ({self.page})" if self.page else ""
        return f"{self.reason}; {self.remedy}{page}"


def finding(code: str, *, about: str | None = None, **values: object) -> Finding:
    """The finding of that code, its braces filled; `about` where the code leaves that open."""
    table = _findings()[code]
    refused = table.get("refuses")
    return Finding(
        code=code,
        severity="warning" if refused is None else "refusal",
        about=about or refused or table["warns"],
        reason=table["reason"].format(**values),
        remedy=table["remedy"].format(**values),
        page=table.get("page", ""),
    )


@cache
def _findings() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(fact_text("findings.toml"))


@cache
def landscape() -> Mapping[str, Any]:
    """Facts without a table of their own."""
    return tomllib.loads(fact_text("landscape.toml"))
