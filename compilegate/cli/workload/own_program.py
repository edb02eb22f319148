"""What a workload's own program says of itself, read from its files; nothing is imported for it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path, PurePosixPath

from compilegate.advice import Obstacle
from compilegate.pipelines.staging import imported_modules
from compilegate.workload import Workload

MOST_FILES = 500
MOST_BYTES = 1 << 20
"""A larger file is no training script."""


def imported_libraries(workload: Workload, path: Path) -> frozenset[str]:
    """The top-level names that the training script and the files beside it import; none where the
    program cannot be read, which `validate` tells of."""
    root = _folder(workload, path)
    if root is None:
        return frozenset()
    files: dict[str, bytes] = {}
    try:
        for each in sorted(root.rglob("*.py"))[:MOST_FILES]:
            if each.is_file() and each.stat().st_size <= MOST_BYTES:
                files[each.relative_to(root).as_posix()] = each.read_bytes()
    except OSError:
        return frozenset()
    entry = workload.kind.scripts["program.entry"]
    return imported_modules(files, entry) if entry in files else frozenset()


def obstacles(workload: Workload, path: Path) -> tuple[Obstacle, ...]:
    """What `compilegate check` finds in the program's folder, the gravest first; nothing where the
    program cannot be read. Compilegate's own program has none."""
    root = _folder(workload, path)
    return () if root is None or not root.is_dir() else _found_in(root)


def _folder(workload: Workload, path: Path) -> Path | None:
    folder = workload.kind.source_folder
    return None if folder is None else path.parent / PurePosixPath(folder)


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
