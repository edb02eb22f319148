"""`[gate]`: what the gate goes by, and metric functions of your own."""

from __future__ import annotations

import sys
from pathlib import PurePosixPath
from typing import Self

from pydantic import Field, model_validator

from compilegate.gate.settings import GateSettings
from compilegate.workload.declared.table import Text

TAKEN_MODULES = frozenset(
    {"compilegate", "numpy", "scipy", "pydantic", "pydantic_core", "jinja2", "markupsafe"}
)
"""What the gate itself imports: your code may not have such a name."""


class Gate(GateSettings):
    """`[gate]`, with the code of your own that the gate needs."""

    code: list[Text] = Field(default=[], max_length=50)
    """Python files and packages (folders) for `function` metrics, relative to this file. Each is
    importable by its last name."""

    @model_validator(mode="after")
    def _code_can_be_imported_and_hides_nothing(self) -> Self:
        names = [_module_name(place) for place in self.code]
        for place, name in zip(self.code, names, strict=True):
            parts = PurePosixPath(place).parts
            if place.startswith("/") or ".." in parts or name is None:
                raise ValueError(
                    f"code holds {place!r}, allowed: the relative path of a Python file or of a "
                    "folder that can be imported"
                )
            if name in sys.stdlib_module_names or name in TAKEN_MODULES:
                raise ValueError(
                    f"code holds {place!r}, which would hide the module {name} from the gate, "
                    "allowed: another name"
                )
            if names.count(name) > 1:
                raise ValueError(
                    f"code holds the module {name} more than once, allowed: distinct names"
                )
        return self


def _module_name(place: str) -> str | None:
    name = PurePosixPath(place).name.removesuffix(".py")
    return name if name.isidentifier() else None
