"""Reads the experiment, `gate.json`, as JSON or as TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from compilegate.declaration_errors import sentences
from compilegate.errors import CompilegateError
from compilegate.gate.quality.metrics import MetricFunctionError, load_function
from compilegate.gate.settings import Experiment, GateSettings, Seed


class SuccessionExperiment(BaseModel):
    """Everything the gate needs beside the evidence of the two models."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: Literal[1] = 1
    workload: str
    seeds: Annotated[list[Seed], Field(min_length=2)]
    """The replicates of the new model; the first is the one that may be registered."""
    settings: GateSettings


Told = TypeVar("Told", Experiment, SuccessionExperiment)


class ExperimentError(CompilegateError):
    """The experiment cannot be used. A sentence for each problem names the file and the key."""


def read_experiment(path: Path) -> Experiment:
    """Read the experiment from a file that ends in .toml, or else holds JSON.

    The metric functions that it names are imported, so that a missing one is told now. Raises
    ExperimentError.
    """
    experiment = _read(path, Experiment)
    _check_functions(path, experiment.settings)
    return experiment


def read_succession(path: Path) -> SuccessionExperiment:
    """The same of a workload that has a champion."""
    experiment = _read(path, SuccessionExperiment)
    _check_functions(path, experiment.settings)
    return experiment


def _read(path: Path, kind: type[Told]) -> Told:
    try:
        text = path.read_bytes().decode("utf-8")
        raw = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        # Through JSON, so that both forms are checked alike: numbers as JSON has them.
        return kind.model_validate_json(json.dumps(raw, default=str))
    except OSError as error:
        raise ExperimentError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ExperimentError(*sentences(path, error, kind)) from error
    except (ValueError, RecursionError) as error:  # of UTF-8, TOML or JSON
        form = "TOML" if path.suffix == ".toml" else "JSON"
        raise ExperimentError(f"{path} is not readable {form}: {error}") from error


def _check_functions(path: Path, settings: GateSettings) -> None:
    for name, guard in settings.metrics.items():
        if guard.function is None:
            continue
        try:
            load_function(guard.function)
        except MetricFunctionError as error:
            raise ExperimentError(f"{path}: settings.metrics.{name}.function: {error}") from error
