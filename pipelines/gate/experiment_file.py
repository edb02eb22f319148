"""Reads the experiment, `gate.json`, as JSON or as TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from pydantic import ValidationError

from pipelines.gate.config import Experiment
from pipelines.gate.metrics import MetricFunctionError, load_function


class ExperimentError(Exception):
    """The experiment cannot be used. One sentence names the file, the key and what is wrong."""


def read_experiment(path: Path) -> Experiment:
    """Read the experiment from a file that ends in .toml, or else holds JSON.

    The metric functions that it names are imported, so that a missing one is told now. Raises
    ExperimentError.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        raw = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        # Through JSON, so that both forms are checked alike: numbers as JSON has them.
        experiment = Experiment.model_validate_json(json.dumps(raw, default=str))
    except OSError as error:
        raise ExperimentError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the document"
        raise ExperimentError(f"{path}: {key}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:  # of UTF-8, TOML or JSON
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ExperimentError(f"{path} is not readable {kind}: {error}") from error
    _check_functions(path, experiment)
    return experiment


def _check_functions(path: Path, experiment: Experiment) -> None:
    for name, guard in experiment.settings.metrics.items():
        if guard.function is None:
            continue
        try:
            load_function(guard.function)
        except MetricFunctionError as error:
            raise ExperimentError(f"{path}: settings.metrics.{name}.function: {error}") from error
