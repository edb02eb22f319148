"""What every table of a workload file has in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=250)]


class Table(BaseModel):
    """A table of the file. Unknown keys and wrong types are errors, never guesses."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
