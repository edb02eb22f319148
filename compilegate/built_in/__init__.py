"""What ships with Compilegate and is not part of its code: the training program and the images.

`training/` and `containers/` lie at the root of the repository and are linked here, so that they
are installed below `compilegate` and beside no folder of a user's that has the same name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PROGRAM_FOLDER = Path(__file__).parent
"""The folder that holds `training/`."""
IMAGE_FOLDERS = PROGRAM_FOLDER / "containers"
"""One folder for each image, for those who have no `containers/` of their own."""
PACKAGE_FOLDER = PROGRAM_FOLDER.parents[1]
"""The folder that holds `compilegate/`."""


def import_path(environment: Mapping[str, str]) -> str:
    """A PYTHONPATH with which `training` and `compilegate` can be imported, before what is set."""
    inherited = environment.get("PYTHONPATH")
    folders = (str(PROGRAM_FOLDER), str(PACKAGE_FOLDER))
    return os.pathsep.join([*folders, *([inherited] if inherited else [])])
