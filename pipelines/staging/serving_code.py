"""What goes into `code/` of a registered model's archive: the handler, and what it imports."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from compilegate.built_in import PACKAGE_FOLDER
from compilegate.pipelines.staging.own_code import (
    LARGEST_PROGRAM,
    OwnCodeError,
    files_below,
    training_code,
)
from compilegate.pipelines.staging.source_tree import SourceTree
from compilegate.workload import Workload

BUILT_IN = "compilegate/serving/handlers/text_classification.py"
"""The handler of the built-in program's models, in this package."""


def serving_code(workload: Workload, folder: Path) -> SourceTree | None:
    """The files by their path in `code/`; None where the image does without a handler.

    A program's own files go along, since a model's weights belong to its class. `folder` is that
    of the workload's file. Raises OwnCodeError for what is not there, or too large.
    """
    serving = workload.serving
    if serving is None or serving.handler is None:
        return None
    if serving.built_in:
        return SourceTree({serving.handler: (PACKAGE_FOLDER / BUILT_IN).read_bytes()})
    files: dict[str, bytes] = {}
    if workload.kind.source_folder is not None:
        files |= training_code(workload.kind, folder).files
    place, key = workload.kind.source_folder, "program.folder"
    if serving.folder is not None:
        place, key = serving.folder, "serving.folder"
        root = folder / PurePosixPath(place)
        if not root.is_dir():
            raise OwnCodeError(
                f"serving.folder: {root} is not a folder, allowed: one with a path relative to "
                "the workload's file"
            )
        for path in files_below(root):
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    if serving.handler not in files:
        raise OwnCodeError(
            f"serving.handler: {folder / str(place)} has no file {serving.handler!r}, allowed: one "
            f"of the Python files of {key}"
        )
    size = sum(map(len, files.values()))
    if size > LARGEST_PROGRAM:
        raise OwnCodeError(
            f"{key} holds {size:,} bytes, allowed: {LARGEST_PROGRAM:,} at most; what is larger "
            "belongs in the model's own files or in the image"
        )
    return SourceTree(files)
