"""What is wrong with a workload."""

from __future__ import annotations

from compilegate.errors import CompilegateError


class WorkloadError(CompilegateError):
    """A workload cannot be used. Each problem is one sentence that names the file and the key."""
