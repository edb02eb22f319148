"""`[gate]` and `[posture]`: when a candidate passes, and which arms train."""

from __future__ import annotations

import sys
from pathlib import PurePosixPath

from pydantic import (
    Field,
    field_validator,
)

from compilegate.gate.settings import GateSettings
from compilegate.posture.contract import Policy
from compilegate.workload.declaration.values import (
    Folder,
    Table,
    distinct,
)

TAKEN_MODULES = frozenset(
    {"compilegate", "numpy", "scipy", "pydantic", "pydantic_core", "jinja2", "markupsafe"}
)
"""What the gate itself imports: your code may not have such a name."""


class Gate(GateSettings):
    """`[gate]`, with the code of your own that the gate needs."""

    code: list[Folder] = Field(default=[], max_length=50)
    """Python files and packages (folders) for `function` metrics, relative to this file. Each is
    importable by its last name."""

    @field_validator("code")
    @classmethod
    def _can_be_imported_and_hides_nothing(cls, code: list[str]) -> list[str]:
        names = [PurePosixPath(place).name.removesuffix(".py") for place in code]
        for place, name in zip(code, names, strict=True):
            if not name.isidentifier():
                raise ValueError(f"holds {place!r}, expected a Python file or package")
            if name in sys.stdlib_module_names or name in TAKEN_MODULES:
                raise ValueError(
                    f"holds {place!r}, which would hide the module {name} from the gate, expected "
                    "another name"
                )
        distinct(names)
        return code


_DEFAULT = Policy()


class Posture(Table):
    """`[posture]`: which arms train is decided at each execution's start. Without it all do."""

    passes: int = Field(default=_DEFAULT.passes, ge=1, le=100)
    """Passes of the gate in a row that promote a candidate, the benchmark's included; what its
    executions show together may promote it earlier."""
    shadow_days: float = Field(default=_DEFAULT.shadow_days, gt=0, le=366, allow_inf_nan=False)
    """Fewest days in shadow before a promotion."""
    watch_days: float = Field(default=_DEFAULT.watch_days, gt=0, le=366, allow_inf_nan=False)
    """Days after a promotion in which models are tagged as watched."""
    audit_every: int = Field(default=_DEFAULT.audit_every, ge=2, le=1000)
    """When a candidate trains alone, one execution in so many trains all arms."""
    patience: int = Field(default=_DEFAULT.patience, ge=3, le=50)
    """Trying ends after so many executions without a promotion."""
    reference_days: float = Field(
        default=_DEFAULT.reference_days, gt=0, le=3660, allow_inf_nan=False
    )
    """Metrics that are older are not compared with; an audit renews them."""

    @property
    def policy(self) -> Policy:
        """The same in the standard library, for what runs without pydantic."""
        return Policy(**self.model_dump())
