"""Callbacks for frameworks whose loop is not the script's own; what they have in common is here."""

from __future__ import annotations

import math
from typing import Any, Mapping

from compilegate.job.errors import InputError
from compilegate.job.script import Job


def require_agreement(job: Job, name: str, value: Any, called: str, remedy: str) -> None:
    """Raise InputError where a setting of the framework differs from the arm's: such evidence would
    be worse than none. `value` is None where unknown, `called` the framework's name for it."""
    if name in ("precision", "seed") and job.config.alone:
        return  # in a script that is started by hand, they are the script's own
    declared = job.precision if name == "precision" else getattr(job.config, name)
    if declared is None or value is None or declared == value:
        return
    if isinstance(declared, float) and math.isclose(declared, value):
        return
    if name == "precision":
        remedy += f', or set precision = "{value}" in [arms.{job.arm}]'
    raise InputError(f"the job's {name} is {declared}, and {called} is {value}; use {remedy}")


def scalars(values: Mapping[str, Any] | None) -> dict[str, float]:
    found = {}
    for name, value in (values or {}).items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            found[name] = number
    return found
