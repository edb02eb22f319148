"""What a compiler declares about itself: its name, its image, and its options.

Needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Tuple, Union

from compilegate.job.errors import InputError

Setting = Union[bool, int, str]
Settings = Mapping[str, Any]
"""A compiler's settings: a value for each of its options, by name."""


@dataclass(frozen=True)
class Option:
    """One option that an arm may set."""

    name: str
    """Its name as a hyperparameter and in the evidence."""
    key: str
    """Its key in a workload, under `[arms.NAME]`."""
    default: Setting
    """Its type is the option's."""
    description: str
    choices: Tuple[str, ...] = ()
    """The allowed texts."""
    at_least: int = 0
    at_most: int = 0
    """Bounds of a whole number."""

    def parsed(self, text: str) -> Setting:
        """The value that a hyperparameter's text stands for. Raises ValueError."""
        if isinstance(self.default, bool):
            # SageMaker's toolkit decodes `true` and writes it back as Python does.
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{text!r} is neither true nor false")
            return text.lower() == "true"
        if isinstance(self.default, int):
            number = int(text)
            if not self.at_least <= number <= self.at_most:
                raise ValueError(f"{number} is not from {self.at_least} to {self.at_most}")
            return number
        if text not in self.choices:
            raise ValueError(f"{text!r} is not one of {', '.join(self.choices)}")
        return text


@dataclass(frozen=True)
class Declaration:
    """One compiler. `facts.toml` beside its declaration has dated facts about it."""

    name: str
    """Its name in workloads and in the evidence."""
    image: str
    """The folder in `containers/` that an arm's jobs run in by default."""
    proof: Tuple[str, ...]
    """What its record in the evidence shows at least, by name: that it ran, or for eager, that
    nothing did."""
    options: Tuple[Option, ...] = ()
    output_can_be_kept: bool = False
    """Whether another job can use what it compiled."""

    def settings(self, given: Mapping[str, Any]) -> Dict[str, Setting]:
        """A value for each option: the given one, or the default. Raises InputError."""
        names = [each.name for each in self.options]
        for name in given:
            if name not in names:
                raise InputError(
                    f"{name} is not an option of compiler {self.name!r}, which has "
                    f"{', '.join(names) or 'none'}"
                )
        return {each.name: given.get(each.name, each.default) for each in self.options}
