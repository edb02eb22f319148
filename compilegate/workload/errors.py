"""What is wrong with a workload."""

from __future__ import annotations

from collections.abc import Sequence


class WorkloadError(Exception):
    """A workload cannot be used. Each problem is one sentence that names the file and the key."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
