"""`gate.json` of a workload that has a champion: what the gate is told of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.gate.config import GateSettings, Seed


class SuccessionExperiment(BaseModel):
    """Everything the gate needs beside the evidence of the two models."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: Literal[1] = 1
    workload: str
    seeds: Annotated[list[Seed], Field(min_length=2)]
    """The replicates of the new model; the first is the one that may be registered."""
    settings: GateSettings
