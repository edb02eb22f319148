"""The two kinds of tar archives around a job: its source, unpacked; its results, packed."""

from __future__ import annotations

import errno
import tarfile
from pathlib import Path

from pipelines.local.errors import CapacityError, SourceArchiveError

# Results are mostly weights, which hardly compress: the fastest level is as good as the best.
_COMPRESSION_LEVEL = 1


def unpack_source(archive: Path, folder: Path) -> None:
    """Unpack a .tar.gz that nobody vouches for into `folder`.

    Absolute paths, `..`, links that lead outside and device files are refused, with the member's
    name, by raising SourceArchiveError; so is a damaged archive.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extractall(folder, filter="data")
    except tarfile.FilterError as error:
        raise SourceArchiveError(f"{archive.name} is refused: {error}") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SourceArchiveError(f"{archive.name} cannot be unpacked: {error}") from error


def pack_folder(folder: Path, archive: Path) -> None:
    """Pack what `folder` holds into a .tar.gz, names relative to the folder; it may be empty."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive, "w:gz", compresslevel=_COMPRESSION_LEVEL) as tar:
            for path in sorted(folder.iterdir()):
                tar.add(path, arcname=path.name)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise CapacityError(f"no space left for {archive}") from error
        raise
