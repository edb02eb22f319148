"""What the callbacks share: whether a framework trains as the arm declares, and its metrics."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional

from compilegate.job.errors import InputError
from compilegate.job.script import Job


class Setting(NamedTuple):
    """One that the arm declares, and the framework has."""

    name: str
    """In the workload, and of the job's attribute."""
    called: str
    """What the framework calls it."""
    value: Any
    """What it is there; None where that is not known."""
    remedy: str
    """How the script takes it from the job."""


def require_agreement(job: Job, *settings: Setting) -> None:
    """Raises InputError for the first setting that is not the arm's: evidence of an arm that was
    not trained as declared would be worse than none."""
    for name, called, value, remedy in settings:
        if name in ("precision", "seed") and job.told.alone:
            continue  # of a script that is started by hand, they are the script's own
        declared = job.precision if name == "precision" else getattr(job.told, name)
        if declared is None or value is None or declared == value:
            continue
        if isinstance(declared, float) and abs(declared - value) <= 1e-9 * abs(declared):
            continue
        change = f"say {remedy}"
        if name == "precision":
            change += f', or set precision = "{value}" in [arms.{job.arm}]'
        raise InputError(f"the job's {name} is {declared}, and {called} is {value}; {change}")


def scalars(values: Optional[Mapping[str, Any]]) -> Mapping[str, float]:
    """Those that are finite numbers."""
    found = {}
    for name, value in (values or {}).items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if abs(number) < float("inf"):
            found[name] = number
    return found
