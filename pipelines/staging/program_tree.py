"""What runs in the training container of a workload that brings its own program."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from compilegate.pipelines.staging.own_code import OwnCodeError, files_below
from compilegate.pipelines.staging.source_tree import SourceTree, files_beside_a_program
from compilegate.workload import Kind, OwnProgram, Program, Succession

MOST_BYTES = 20_000_000
"""A program is text; what is larger is data, or belongs into the image."""

_AT_HOME_ELSEWHERE = {
    "requirements.txt": "containers/{image}/requirements.txt, so that a job installs nothing when "
    "it starts",
    "setup.py": "the image, if it is a package",
}
"""What the training toolkit would act upon, and where it belongs instead."""


def program_tree(kind: OwnProgram | Succession, folder: Path) -> SourceTree:
    """All files of the program's folder, which lies in `folder`, with compilegate.job beside.

    Raises OwnCodeError for a script that is not there, and for what cannot go along.
    """
    program = kind.program
    root = folder / PurePosixPath(program.folder)
    if not root.is_dir():
        raise OwnCodeError(
            f"program.folder: {root} is not a folder, allowed: one with a path relative to the "
            "workload's own file"
        )
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in files_below(root)}
    for key, script in _scripts(kind):
        if script not in files:
            raise OwnCodeError(
                f"{key}: {root} has no file {script!r}, allowed: one of its Python files"
            )
    _check_nothing_hides(program, files)
    return SourceTree(files | files_beside_a_program())


def _scripts(kind: Kind) -> list[tuple[str, str]]:
    """Each script by the key that names it."""
    scripts: list[tuple[str, str]] = []
    if isinstance(kind, OwnProgram | Succession):
        scripts.append(("program.entry", kind.program.entry))
        if kind.program.prepare is not None:
            scripts.append(("program.prepare", kind.program.prepare))
    if isinstance(kind, Succession):
        scripts.append(("champion.evaluate", kind.champion.evaluate))
    return scripts


def _check_nothing_hides(program: Program, files: dict[str, bytes]) -> None:
    for name, home in _AT_HOME_ELSEWHERE.items():
        if name in files:
            raise OwnCodeError(
                f"program.folder holds a {name}, allowed: none; what it asks for belongs into "
                + home.format(image=program.image)
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
            "is larger as data, or put it into the image"
        )
