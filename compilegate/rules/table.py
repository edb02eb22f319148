"""`rules.toml` as types. Pure but for that file, which is read once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.resources import files

COMPILERS = ("torch-compile", "xla", "training-compiler", "neuron")
"""The compilers that scripts can be checked for; each rule concerns one of them or more."""


class Severity(IntEnum):
    """How grave a finding is. `ERROR` is kept for what is wrong whatever else the script does."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """The word people read and write."""
        return self.name.lower()


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What may be wrong in a script: `compilegate check` finds it, and `advise` weighs it."""

    name: str
    severity: Severity
    compilers: tuple[str, ...]
    consideration: str  # the question of `compilegate advise` on which it bears
    why: str  # one sentence: what it costs, or breaks
    fix: str  # one sentence: what to write instead
    page: str  # the address of the page that says so


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a profile finds in the time of a step."""

    kind: str
    remedy: str
    compiled_remedy: str  # the same for steps that a compiler made already
    rules: tuple[str, ...]  # the rules that find its usual causes in the source


@dataclass(frozen=True)
class Table:
    """The whole of it."""

    rules: Mapping[str, Rule]
    measured: Mapping[str, Measured]

    def bearing_on(self, consideration: str) -> tuple[str, ...]:
        """The rules that bear on a question of `compilegate advise`."""
        return tuple(x.name for x in self.rules.values() if x.consideration == consideration)


@cache
def table() -> Table:
    """The table, read once."""
    text = files("compilegate.rules").joinpath("rules.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    rules, measured = raw["rules"], raw["measured"]
    for each in rules.values():
        every = each["compilers"] == "all"
        each["compilers"] = COMPILERS if every else tuple(each["compilers"])
        each["severity"] = Severity[each["severity"].upper()]
    for each in measured.values():
        each.setdefault("compiled_remedy", each["remedy"])
        each["rules"] = tuple(each.get("rules", ()))
    return Table(
        rules={name: Rule(name=name, **each) for name, each in rules.items()},
        measured={kind: Measured(kind=kind, **each) for kind, each in measured.items()},
    )
