"""What the catalog can find, from `facts/findings.toml`: refusals and warnings by code. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from compilegate.catalog.reading import fact_text


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, or that the workload's owner should know."""

    code: str
    """Its table in `facts/findings.toml`."""
    severity: Literal["refusal", "warning"]
    """A refusal keeps the job from starting."""
    about: str
    """The field of `Asked` that it concerns."""
    reason: str
    remedy: str
    page: str = ""
    """The address of the page that asks for it; empty where the reason says who does."""

    @property
    def sentence(self) -> str:
        page = f" ({self.page})" if self.page else ""
        return f"{self.reason}; {self.remedy}{page}"


def finding(code: str, *, about: str | None = None, **values: object) -> Finding:
    """The finding of that code, its braces filled; `about` where the code leaves that open."""
    table = _table()[code]
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
def _table() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(fact_text("findings.toml"))
