"""Reads the experiment, `gate.json`, as JSON or as TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from pydantic import ValidationError

from compilegate.declaration_errors import sentences
from compilegate.errors import CompilegateError
from compilegate.gate.quality.metrics import MetricFunctionError, load_function
from compilegate.gate.settings import Experiment, GateSettings


class ExperimentError(CompilegateError):
    """The experiment cannot be used. A sentence for each problem names the file and the key."""


def read_experiment(path: Path) -> Experiment:
    """Read the experiment from a file that ends in .toml, or else holds JSON.

    The metric functions that it names are imported, so that a missing one is told now. Raises
    ExperimentError.
    """
    experiment = _read(path)
    _check_functions(path, experiment.settings)
    return experiment


def _read(path: Path) -> Experiment:
    try:
        text = path.read_bytes().decode("utf-8")
        raw = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        # Through JSON, so that both forms are checked alike: numbers as JSON has them.
        return Experiment.model_validate_json(json.dumps(raw, default=str))
    except OSError as error:
        raise ExperimentError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ExperimentError(*sentences(path, error, Experiment)) from error
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
