"""Your own code that goes with the gate's: the files that `gate.code` names."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from compilegate.errors import CompilegateError

MOST_BYTES = 10_000_000
"""Metric functions are small; what is larger is data, and belongs in the gate's image."""


class OwnCodeError(CompilegateError):
    """The code cannot be taken. One sentence that names the key, what was found and what to do."""


def own_code(places: list[str], folder: Path) -> dict[str, bytes]:
    """The files by their path on the module path: what `places` name below `folder`.

    Each place is there by its last name, as a module (`metrics.py`) or a package with all that its
    folder holds. Raises OwnCodeError for what is not there, or too large.
    """
    found: dict[str, bytes] = {}
    for index, place in enumerate(places):
        root = folder / PurePosixPath(place)
        if not root.exists():
            raise OwnCodeError(
                f"gate.code[{index}]: {root} does not exist, allowed: a file or a folder, with a "
                "path relative to the workload's file"
            )
        for path in files_below(root):
            name = PurePosixPath(root.name, path.relative_to(root).as_posix())
            found[name.as_posix()] = path.read_bytes()
    size = sum(len(content) for content in found.values())
    if size > MOST_BYTES:
        raise OwnCodeError(
            f"gate.code holds {size:,} bytes, allowed: {MOST_BYTES:,} at most; put what is larger "
            "in the gate's image"
        )
    return found


def files_below(root: Path) -> list[Path]:
    """The files of a folder, or the file itself; neither hidden ones nor what Python compiled."""
    if root.is_file():
        return [root]
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not any(
            part == "__pycache__" or part.startswith(".") for part in path.relative_to(root).parts
        )
    ]
