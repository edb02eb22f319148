"""The archive of a model: `model.tar.gz`, with the handler's code in `code/`."""

from __future__ import annotations

import tarfile
from pathlib import Path

from compilegate.serving.errors import ServingError


def unpack_model(archive: Path, folder: Path) -> None:
    """Unpack the archive into a folder, which becomes the handler's /opt/ml/model.

    Raises ServingError for what is no archive, and for one with members outside the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ServingError(f"{archive} cannot be unpacked as a model's archive: {error}") from error
