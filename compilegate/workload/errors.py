"""What can be wrong with a workload."""

from __future__ import annotations

from compilegate.errors import CompilegateError


class WorkloadError(CompilegateError):
    """A workload cannot be used. Each problem is one sentence that names the key."""


class InfeasibleError(CompilegateError):
    """An arm cannot run."""


class ScheduleError(CompilegateError, ValueError):
    """A schedule's expression or time zone cannot be used: what was found, and what is allowed."""
