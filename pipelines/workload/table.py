"""What every table of a workload file has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A table of the file. Unknown keys and wrong types are errors, never guesses."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
