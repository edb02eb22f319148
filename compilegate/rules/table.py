"""`rules.toml` as types. Pure but for that file, which is read once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

COMPILERS = ("torch-compile", "xla", "training-compiler", "neuron")
"""What can be asked about; each rule concerns one of them or more."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What may be wrong in a script: `compilegate check` finds it, and `advise` weighs it."""

    name: str
    severity: Literal["error", "warning", "note"]
    compilers: tuple[str, ...]
    consideration: str
    """The question of `compilegate advise` on which it bears."""

    why: str
    """One sentence: what it costs, or breaks."""

    fix: str
    """One sentence: what to write instead."""

    page: str
    """The page that says so."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a profile finds in the time of a step."""

    kind: str
    remedy: str
    compiled_remedy: str
    """The same for steps that a compiler made already."""

    rules: tuple[str, ...]
    """The rules that find its usual causes in the source."""


@dataclass(frozen=True)
class Table:
    """The whole of it."""

    rules: Mapping[str, Rule]
    measured: Mapping[str, Measured]

    def bearing_on(self, consideration: str) -> tuple[str, ...]:
        """The rules that bear on a question of `compilegate advise`."""
        return tuple(
            each.name for each in self.rules.values() if each.consideration == consideration
        )


@cache
def table() -> Table:
    """The table, read once."""
    text = files("compilegate.rules").joinpath("rules.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    return Table(
        rules={
            name: Rule(
                name=name,
                severity=each["severity"],
                compilers=COMPILERS if each["compilers"] == "all" else tuple(each["compilers"]),
                consideration=each["consideration"],
                why=each["why"],
                fix=each["fix"],
                page=each["page"],
            )
            for name, each in raw["rules"].items()
        },
        measured={
            kind: Measured(
                kind=kind,
                remedy=each["remedy"],
                compiled_remedy=each.get("compiled_remedy", each["remedy"]),
                rules=tuple(each.get("rules", ())),
            )
            for kind, each in raw["measured"].items()
        },
    )
