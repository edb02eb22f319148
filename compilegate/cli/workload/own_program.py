"""What the check finds in a workload's own program; nothing is imported for it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from compilegate.advice import Obstacle
from compilegate.pipelines.staging import source_folder_of
from compilegate.workload import Workload


def obstacles(workload: Workload, path: Path) -> tuple[Obstacle, ...]:
    """What `compilegate check` finds in the program's folder, the gravest first; nothing where the
    program cannot be read. Compilegate's own program has none."""
    root = source_folder_of(workload, path)
    return () if root is None or not root.is_dir() else _found_in(root)


@lru_cache(maxsize=512)
def _found_in(root: Path) -> tuple[Obstacle, ...]:
    """Once for each folder, which workloads may share."""
    from compilegate.check.checking import check_paths  # noqa: PLC0415  the rules take time

    found = sorted(check_paths([root]).findings, key=lambda each: -each.severity)
    return tuple(
        Obstacle(
            rule=each.rule,
            severity=each.severity.word,
            place=each.place.removeprefix(f"{root.parent}/"),
            message=each.message,
            fix=each.fix,
            compilers=each.compilers,
        )
        for each in found
    )
