"""A workload with some of its arms: what runs where not every arm can."""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.workload.declaration import BASELINE, Workload
from compilegate.workload.errors import WorkloadError


def select_arms(workload: Workload, names: Sequence[str]) -> Workload:
    """The workload with these arms only, in the order that it declares them.

    It knows which arms it leaves out, so that nobody takes the rest for the whole. Raises
    WorkloadError for an arm that is not declared, and when there is nothing left to compare.
    """
    if not workload.arms:
        raise WorkloadError("arms: there are none beside champion, allowed: to run the whole")
    unknown = [name for name in names if name not in workload.arms]
    if unknown:
        raise WorkloadError(
            f"arms: {unknown[0]!r} is not declared, allowed: {', '.join(workload.arms)}"
        )
    kept = {name: arm for name, arm in workload.arms.items() if name in names}
    if BASELINE not in kept or len(kept) == 1:
        raise WorkloadError(
            f"arms: found {', '.join(kept) or 'none'}, "
            f"allowed: {BASELINE} and one or more candidates beside it"
        )
    return workload.with_arms(kept)
