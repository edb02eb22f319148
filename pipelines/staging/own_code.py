"""Your own code: the training program of `[program]`, and what `gate.code` adds to the gate's."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from compilegate.errors import CompilegateError
from compilegate.pipelines.staging.source_tree import (
    SourceTree,
    files_beside_a_program,
    training_tree,
)
from compilegate.workload import Kind

LARGEST_GATE_CODE = 10_000_000
"""Metric functions are small; what is larger is data, and belongs in the gate's image."""
LARGEST_PROGRAM = 20_000_000
"""A program is text; what is larger is data, or belongs in the image."""

_AT_HOME_ELSEWHERE = {
    "requirements.txt": "containers/{image}/requirements.txt, so that a job installs nothing when "
    "it starts; then requirements_in_image = true in [program]",
    "setup.py": "the image, if it is a package",
}
"""What the training toolkit would act upon, and where it belongs instead."""


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
    if size > LARGEST_GATE_CODE:
        raise OwnCodeError(
            f"gate.code holds {size:,} bytes, allowed: {LARGEST_GATE_CODE:,} at most; put what is "
            "larger in the gate's image"
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


def training_code(kind: Kind, folder: Path) -> SourceTree:
    """What runs in the workload's training container: the built-in program, or all files of the
    program's folder, with compilegate.job beside them.

    `folder` is that of the workload's file. Raises OwnCodeError for a script that is not there, and
    for what cannot go along.
    """
    if kind.source_folder is None:
        return training_tree()
    root = folder / PurePosixPath(kind.source_folder)
    if not root.is_dir():
        raise OwnCodeError(
            f"program.folder: {root} is not a folder, allowed: one with a path relative to the "
            "workload's file"
        )
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in files_below(root)}
    if kind.requirements_in_image:
        files.pop("requirements.txt", None)
    for key, script in kind.scripts.items():
        if script not in files:
            raise OwnCodeError(
                f"{key}: {root} has no file {script!r}, allowed: one of its Python files"
            )
    _check_nothing_hides(kind, files)
    return SourceTree(files | files_beside_a_program())


def _check_nothing_hides(kind: Kind, files: dict[str, bytes]) -> None:
    for name, home in _AT_HOME_ELSEWHERE.items():
        if name in files:
            raise OwnCodeError(
                f"program.folder holds a {name}, allowed: none; what it asks for belongs in "
                + home.format(image=kind.processing_image[1])
            )
    if any(name.split("/")[0] in {"compilegate", "compilegate.py"} for name in files):
        raise OwnCodeError(
            "program.folder holds 'compilegate', which would hide the module that comes with it, "
            "allowed: another name"
        )
    size = sum(map(len, files.values()))
    if size > LARGEST_PROGRAM:
        raise OwnCodeError(
            f"program.folder holds {size:,} bytes, allowed: {LARGEST_PROGRAM:,} at most; declare "
            "what is larger as data, or put it in the image"
        )
