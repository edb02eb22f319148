"""What runs in the training container of a workload that brings its own program."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from compilegate.pipelines.staging.own_code import OwnCodeError, files_below
from compilegate.pipelines.staging.source_tree import (
    SourceTree,
    files_beside_a_program,
    training_tree,
)
from compilegate.workload import Kind

MOST_BYTES = 20_000_000
"""A program is text; what is larger is data, or belongs in the image."""

_AT_HOME_ELSEWHERE = {
    "requirements.txt": "containers/{image}/requirements.txt, so that a job installs nothing when "
    "it starts",
    "setup.py": "the image, if it is a package",
}
"""What the training toolkit would act upon, and where it belongs instead."""


def program_tree(kind: Kind, folder: Path) -> SourceTree:
    """All files of the program's folder, which lies in `folder`, with compilegate.job beside.

    Raises OwnCodeError for a script that is not there, and for what cannot go along.
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
    if size > MOST_BYTES:
        raise OwnCodeError(
            f"program.folder holds {size:,} bytes, allowed: {MOST_BYTES:,} at most; declare what "
            "is larger as data, or put it in the image"
        )
