"""Reads the experiment, `gate.json`, as JSON or as TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from pipelines.declaration_errors import sentences
from pipelines.gate.config import Experiment, GateSettings
from pipelines.gate.metrics import MetricFunctionError, load_function
from pipelines.gate.succession_file import SuccessionExperiment

Told = TypeVar("Told", Experiment, SuccessionExperiment)


class ExperimentError(Exception):
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
        raise ExperimentError("\n".join(sentences(path, error, kind))) from error
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
