"""The arguments of a script, in its own words: what `[program.arguments]` and `argument_style` say.

SageMaker passes every hyperparameter on as `--name value`, by the name that a workload declares.
The request says what the script is to get instead.
"""

from __future__ import annotations

import json
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from compilegate.job.names import (
    ARGUMENT_STYLE_VARIABLE,
    ARGUMENT_STYLES,
    ARGUMENTS_VARIABLE,
    ARM_HYPERPARAMETERS,
)

Told = Union[str, List[str]]
"""The script's own name for an argument, or words that stand for name and value."""


def script_arguments(arguments: Sequence[str], environment: Mapping[str, str]) -> List[str]:
    """What the script is started with."""
    text = environment.get(ARGUMENTS_VARIABLE)
    told: Optional[Dict[str, Told]] = None if text is None else json.loads(text)
    style = environment.get(ARGUMENT_STYLE_VARIABLE, ARGUMENT_STYLES[0])
    return [word for given in named(arguments) for word in _words(*given, told, style)]


def named(arguments: Sequence[str]) -> Iterator[Tuple[str, str]]:
    """Each hyperparameter as (declared name, value). The toolkit writes `-n value` where the name
    is a single letter."""
    for name, value in zip(arguments[::2], arguments[1::2]):
        yield name.lstrip("-"), value


def argument(name: str, value: str, style: str) -> List[str]:
    """One argument in one of ARGUMENT_STYLES, as words of a command line."""
    dashes = "-" if len(name) == 1 else "--"
    if style == "name=value":
        return [f"{name}={value}"]
    if style == "--name=value":
        return [f"{dashes}{name}={value}"]
    return [f"{dashes}{name}", value]


def _words(name: str, value: str, told: Optional[Mapping[str, Told]], style: str) -> Sequence[str]:
    if told is None:
        return argument(name, value, style)
    if name not in told:
        return [] if name in ARM_HYPERPARAMETERS else argument(name, value, style)
    instead = told[name]
    return argument(instead, value, style) if isinstance(instead, str) else instead
