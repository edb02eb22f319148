"""What a program of a workload's own imports, read from its files without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from compilegate.workload import Workload

MOST_FILES = 500
MOST_BYTES = 1 << 20
"""A larger file is no training script."""


def imported_libraries(workload: Workload, path: Path) -> frozenset[str]:
    """The top-level names that the training script and the files beside it import; none where the
    program cannot be read, which `validate` tells of."""
    root = source_folder_of(workload, path)
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


def source_folder_of(workload: Workload, path: Path) -> Path | None:
    """Where the program of the workload in the file `path` lies; None for Compilegate's own."""
    folder = workload.kind.source_folder
    return None if folder is None else path.parent / PurePosixPath(folder)


def imported_modules(files: Mapping[str, bytes], script: str) -> frozenset[str]:
    """The top-level names of what the script imports, and what the files beside it import for it.

    `files` are the program's, by path; `script` is one of them. A file that is no Python imports
    nothing: the job will say what is wrong with it.
    """
    found: set[str] = set()
    read: set[str] = set()
    ahead = [script]
    while ahead:
        path = ahead.pop()
        if path in read:
            continue
        read.add(path)
        for name in _imports(files[path]):
            own = [each for each in _own_files(name, path) if each in files]
            ahead += own
            if not own:
                found.add(name.partition(".")[0])
    return frozenset(found - {""})


def _imports(source: bytes) -> Iterator[str]:
    """Full names of modules; a relative one begins with a dot."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = f"{node.module}." if node.module else ""
            for each in node.names:  # each may be a module of the package, or a name in it
                yield ("." if node.level else "") + module + each.name


def _own_files(name: str, importer: str) -> Iterator[str]:
    """Where a module of the program may lie: beside the importing file, or at the root, from which
    scripts are started; also the packages on the way to it."""
    parts = [part for part in name.split(".") if part]
    roots = {PurePosixPath(importer).parent, PurePosixPath()}
    for root in roots:
        for length in range(1, len(parts) + 1):
            place = root.joinpath(*parts[:length])
            yield f"{place}.py"
            yield f"{place}/__init__.py"
