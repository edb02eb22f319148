"""What a workload's own program imports, read from its files; nothing is imported for it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from compilegate.pipelines.staging import imported_modules
from compilegate.workload import Workload

MOST_FILES = 500
MOST_BYTES = 1 << 20
"""A larger file is no training script."""


def imported_libraries(workload: Workload, path: Path) -> frozenset[str]:
    """The top-level names that the training script and the files beside it import; none where the
    program cannot be read, which `validate` tells of."""
    kind = workload.kind
    if kind.source_folder is None:
        return frozenset()
    root = path.parent / PurePosixPath(kind.source_folder)
    files: dict[str, bytes] = {}
    try:
        for each in sorted(root.rglob("*.py"))[:MOST_FILES]:
            if each.is_file() and each.stat().st_size <= MOST_BYTES:
                files[each.relative_to(root).as_posix()] = each.read_bytes()
    except OSError:
        return frozenset()
    entry = kind.scripts["program.entry"]
    return imported_modules(files, entry) if entry in files else frozenset()
