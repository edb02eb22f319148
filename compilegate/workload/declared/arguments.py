"""`[program.arguments]`: what a script calls the arguments that a workload declares.

A name, where the script calls it otherwise; words of its command line in which `{}` is the value;
or a table of such words for each value, empty where the script gets nothing for it.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

Argument = str | dict[str, str]

_NAME = re.compile(r"-{0,2}[A-Za-z_][A-Za-z0-9_.-]*")
_VALUE = "{}"
_ALLOWED = (
    "the script's own name for it ('batch-size'), words in which {} is the value "
    "('--batch-size={}'), or a table of words for each value ({ bf16 = '--bf16', fp32 = '' })"
)


def check_arguments(raw: object) -> None:
    """Raises ValueError with one sentence for what is no table of arguments."""
    if not isinstance(raw, dict):
        raise ValueError(f"found {raw!r}, allowed: a table, [program.arguments]")
    for name, argument in raw.items():
        tables = argument.values() if isinstance(argument, dict) else [argument]
        if not all(isinstance(each, str) for each in tables) or argument in ("", {}):
            raise ValueError(f"{name} is {argument!r}, allowed: {_ALLOWED}")
        if isinstance(argument, str) and not _is_name(argument) and _VALUE not in argument:
            raise ValueError(f"{name} is {argument!r}, allowed: {_ALLOWED}")
        for words in tables:
            try:
                shlex.split(words)
            except ValueError as error:
                raise ValueError(
                    f"{name} holds {words!r}, which is no part of a command line ({error}), "
                    "allowed: words, with quotes in pairs"
                ) from error


def unknown_arguments(names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """A sentence for each name that no argument has."""
    known = list(known)
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            yield (
                f"program.arguments.{name} is not an argument{hint}, allowed: "
                f"{', '.join(known)}; names of [program.hyperparameters] are allowed as well"
            )


def renamed_to(argument: Argument) -> str | None:
    """The script's own name, without dashes; None where words replace name and value."""
    return argument.lstrip("-") if isinstance(argument, str) and _is_name(argument) else None


def told_as(argument: Argument, value: str) -> str | list[str]:
    """What stands for this value: another name, or words. Raises KeyError for a value that a table
    has no words for."""
    name = renamed_to(argument)
    if name is not None:
        return name
    words = argument if isinstance(argument, str) else argument[value]
    return [word.replace(_VALUE, value) for word in shlex.split(words)]


def names_twice(arguments: Mapping[str, Argument], hyperparameters: Iterable[str]) -> Iterator[str]:
    """A sentence for each of the script's names that would be passed more than once."""
    taken = {name: f"program.hyperparameters.{name}" for name in hyperparameters}
    taken = {name: key for name, key in taken.items() if name not in arguments}
    for name, argument in arguments.items():
        own = renamed_to(argument)
        if own is None:
            continue
        if own in taken:
            yield (
                f"program.arguments.{name} is {argument!r}, which {taken[own]} is passed as, "
                "allowed: each of the script's arguments once"
            )
        taken[own] = f"program.arguments.{name}"


def _is_name(argument: str) -> bool:
    return _NAME.fullmatch(argument) is not None
