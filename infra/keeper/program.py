"""The program that Lambda runs: the keeper, and what of the package it imports. Without the CDK."""

from __future__ import annotations

import shutil
from pathlib import Path

from compilegate.posture import contract

HANDLER = "compilegate.infra.keeper.function.handler"
PROGRAM = (
    "__init__.py",
    "access/console.py",
    "access/layout.py",  # without the room's `__init__.py`, which imports what is not there
    "errors.py",
    "infra/__init__.py",
    "infra/keeper",
    "job/__init__.py",
    "job/errors.py",
    "job/files.py",
    "job/contract.py",
    "posture",
)
"""Files and folders of the package. Nothing else is imported there but boto3."""


def keeper_program(folder: Path) -> Path:
    """Lay the program out in a folder, which is emptied before."""
    package = Path(contract.__file__).parents[1]
    shutil.rmtree(folder, ignore_errors=True)
    for part in PROGRAM:
        source, target = package / part, folder / "compilegate" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    return folder
