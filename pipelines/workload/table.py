"""What every table of a workload file has in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Table(BaseModel):
    """A table of the file. Unknown keys and wrong types are errors, never guesses."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
