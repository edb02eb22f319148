"""Whether a framework trains as the job was told. Its settings are the script's, and evidence of
an arm that was not trained as declared would be worse than none."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional

from compilegate.job.errors import InputError
from compilegate.job.script import Job


class Setting(NamedTuple):
    """One that the arm declares, and the framework has."""

    told: str
    """Its name in the workload, and of the job's attribute."""
    called: str
    """What the framework calls it."""
    value: Any
    """What it is there; None where that is not known."""
    remedy: str
    """How the script takes it from the job."""


def require_agreement(job: Job, *settings: Setting) -> None:
    """Raises InputError for the first setting that is not what the job was told."""
    for each in settings:
        told = _told(job, each.told)
        if told is None or each.value is None or _same(told, each.value):
            continue
        change = f"say {each.remedy}"
        if each.told == "precision":
            change += f', or set precision = "{each.value}" in [arms.{job.arm}]'
        raise InputError(
            f"the job's {each.told} is {told}, and {each.called} is {each.value}; {change}"
        )


def _told(job: Job, name: str) -> Optional[Any]:
    if name in ("precision", "seed") and job.told.alone:
        return None  # of a script that is started by hand, they are the script's own
    return job.precision if name == "precision" else getattr(job.told, name)


def _same(told: Any, value: Any) -> bool:
    if isinstance(told, float):
        return bool(abs(told - value) <= 1e-9 * abs(told))
    return bool(told == value)


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
