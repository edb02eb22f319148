"""What a compiler declares about itself: its name, its image, its options. Needs no torch."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from compilegate.job.errors import InputError
from compilegate.job.machine.accelerators import CUDA

Setting = Union[bool, int, str]
Settings = Mapping[str, Any]
"""A compiler's settings: a value for each of its options, by name."""

TABLE_KEY = r"[A-Za-z_][A-Za-z0-9_.-]*"
"""A key of a table of options, such as `triton.cudagraphs`."""
LONGEST_TEXT = 1000
"""Characters of an option's text; SageMaker allows 2,500 in a hyperparameter."""


@dataclass(frozen=True)
class Option:
    """One option that an arm may set."""

    name: str
    """Its name as a hyperparameter and in the evidence."""
    key: str
    """Its key in a workload, under `[arms.NAME]`."""
    default: Optional[Setting]
    """Its type is the option's. None: a truth that the compiler decides unless the arm does."""
    description: str
    choices: Tuple[str, ...] = ()
    """The allowed texts."""
    pattern: str = ""
    """The allowed texts as a regular expression, where there are too many to list."""
    table: bool = False
    """Whether it is a table of plain values, by key. It travels as JSON, see `table_text`."""
    at_least: int = 0
    at_most: int = 0
    """Bounds of a whole number."""

    @property
    def truth(self) -> bool:
        """Whether its values are true and false."""
        return self.default is None or isinstance(self.default, bool)

    def parsed(self, text: str) -> Setting:
        """The value that a hyperparameter's text stands for. Raises ValueError."""
        if self.truth:
            # SageMaker's toolkit decodes `true` and writes it back as Python does.
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{text!r} is neither true nor false")
            return text.lower() == "true"
        if isinstance(self.default, int):
            number = int(text)
            if not self.at_least <= number <= self.at_most:
                raise ValueError(f"{number} is not from {self.at_least} to {self.at_most}")
            return number
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"it has {len(text)} characters, of at most {LONGEST_TEXT}")
        if self.table:
            return table_text(_read_table(text))
        if self.pattern:
            if not re.fullmatch(self.pattern, text):
                raise ValueError(f"{text!r} is not {self.description}")
        elif text not in self.choices:
            raise ValueError(f"{text!r} is not one of {', '.join(self.choices)}")
        return text


def hyperparameter_of(value: Setting) -> str:
    """A setting as the text of a hyperparameter, which `Option.parsed` reads.

    SageMaker's toolkit decodes JSON, and would write a table as `key=value,key=value`; so it gets a
    table as a JSON string, which it decodes to the table's own text.
    """
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return json.dumps(text) if text.startswith("{") else text


@dataclass(frozen=True)
class StackTable:
    """The table `[arms.NAME.COMPILER]` of a compiler that comes in images of AWS: it says which of
    them an arm takes. `facts.toml` has the images that there are."""

    description: str
    frameworks: Tuple[str, ...]
    """What a script may be written in; the first is the default."""
    version: str
    """The framework's, by default."""
    transformers: bool = False
    """Whether there are images with Hugging Face's Transformers."""
    options: Tuple[Option, ...] = ()
    """What else the table has: settings of its jobs, not of the compiler."""


@dataclass(frozen=True)
class Declaration:
    """One compiler."""

    name: str
    """Its name in workloads and in the evidence."""
    image: str
    """The folder in `containers/` that an arm's jobs run in by default."""
    proof: Tuple[str, ...]
    """What its record in the evidence shows at least, by name: that it ran, or for eager, that
    nothing did."""
    needs: Tuple[str, ...] = ()
    """What it needs of a machine, by the names of `compilegate.job.doctor.needs`."""
    options: Tuple[Option, ...] = ()
    output_can_be_kept: bool = False
    """Whether another job can use what it compiled; see `keeps_output`."""
    stack: Optional[StackTable] = None
    """Which of AWS's images an arm may take; None where the image's folder alone decides."""
    any_shape: Union[bool, Option] = False
    """Whether what it runs serves steps of any shape; otherwise each shape is compiled by itself.
    An option: it does unless that is false."""
    computes_on: Tuple[str, ...] = (CUDA,)
    """The kinds of accelerator that its steps can compute on; without one they compute on the host,
    if it can at all."""
    keeps_accelerator: bool = False
    """Whether torch itself can compute nothing there meanwhile."""

    def settings(self, given: Mapping[str, Any]) -> Dict[str, Any]:
        """A value for each option: the given one, or the default. Raises InputError."""
        names = [each.name for each in self.options]
        for name in given:
            if name not in names:
                raise InputError(
                    f"{name} is not an option of compiler {self.name!r}, which has "
                    f"{', '.join(names) or 'none'}"
                )
        settings = {each.name: given.get(each.name, each.default) for each in self.options}
        problem = self.problem(settings)
        if problem is not None:
            raise InputError(problem)
        return settings

    def problem(self, settings: Settings) -> Optional[str]:
        """Why these settings do not go together, with a remedy; None if they do."""
        return None

    def keeps_output(self, given: Settings) -> bool:
        """Whether another job can use what is compiled with these settings; missing ones have their
        defaults."""
        return self.output_can_be_kept

    def serves_any_shape(self, given: Settings) -> bool:
        """Whether it does with these settings; missing ones have their defaults."""
        if isinstance(self.any_shape, Option):
            return given.get(self.any_shape.name, self.any_shape.default) is not False
        return self.any_shape


def table_text(table: Mapping[str, Any]) -> str:
    """A table of plain values as JSON: equal tables have one text. Raises ValueError."""
    for key, value in table.items():
        if not re.fullmatch(TABLE_KEY, key):
            raise ValueError(f"options has {key!r}, which is no name of an option")
        plain = isinstance(value, (bool, int, float, str))
        if not plain or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"options.{key} is {value!r}, allowed: true, false, a number, a text")
    return json.dumps(table, sort_keys=True, separators=(",", ":"))


def _read_table(text: str) -> Dict[str, Any]:
    table = json.loads(text)
    if isinstance(table, str):  # nobody decoded it on the way, see `hyperparameter_of`
        table = json.loads(table)
    if not isinstance(table, dict):
        raise ValueError(f"{text!r} is no table of options in JSON")
    return table
