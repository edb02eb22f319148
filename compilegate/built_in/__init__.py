"""The built-in training program, `training/`: jobs run it, and nothing here imports it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PROGRAM_FOLDER = Path(__file__).parent
"""The folder that holds `training/`."""
PACKAGE_FOLDER = PROGRAM_FOLDER.parents[1]
"""The folder that holds `compilegate/`."""


def import_path(environment: Mapping[str, str]) -> str:
    """A PYTHONPATH with which `training` and `compilegate` can be imported, before what is set."""
    inherited = environment.get("PYTHONPATH")
    folders = (str(PROGRAM_FOLDER), str(PACKAGE_FOLDER))
    return os.pathsep.join([*folders, *([inherited] if inherited else [])])
