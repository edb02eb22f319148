"""A job's folder: what would be the root of its container.

The two kinds of tar archives around a job: its source, unpacked; its results, packed.
"""

from __future__ import annotations

import errno
import re
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from compilegate.local.errors import CapacityError, SourceArchiveError, StepRequestError

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


ML = PurePosixPath("/opt/ml")


class Sandbox:
    """Maps container paths into a folder: `/opt/ml/model` is `FOLDER/opt/ml/model`.

    Only paths at or below /opt/ml and the declared LocalPaths are mapped. Everything else, such
    as /bin/sh, is this machine's.
    """

    def __init__(self, folder: Path, local_paths: Iterable[str] = ()) -> None:
        self.folder = folder
        roots = {str(ML), *(str(container_path(path)) for path in local_paths)}
        longest_first = sorted(roots, key=len, reverse=True)
        # A path starts where no path character stands before it, so `s3://bucket/opt/ml` and
        # `/data/opt/ml` are left alone, while `--in=/opt/ml/x` and `/opt/ml/a:/opt/ml/b` are not.
        self._mapped = re.compile(
            r"(?<![\w./\-])(?:" + "|".join(map(re.escape, longest_first)) + r")(?![\w.\-])"
        )

    @property
    def log(self) -> Path:
        """Where the job's output is kept."""
        return self.folder / "log.txt"

    @property
    def scratch(self) -> Path:
        """Home, temporary files and compile caches: gone when the job ends."""
        return self.folder / "scratch"

    def path(self, where: str | PurePosixPath) -> Path:
        """The folder or file here that a container path stands for.

        Raises StepRequestError for a path that is relative or climbs with `..`.
        """
        return self.folder.joinpath(*container_path(where).parts[1:])

    def make(self, where: str | PurePosixPath) -> Path:
        """The folder for a container path, created."""
        folder = self.path(where)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def rewrite(self, text: str) -> str:
        """`text` with every mapped container path in it replaced by the path here."""
        return self._mapped.sub(lambda match: f"{self.folder}{match[0]}", text)

    def clear(self) -> None:
        """Remove what an earlier, interrupted start of this very job left."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def drop_scratch(self) -> None:
        """Remove what ends with a container."""
        shutil.rmtree(self.scratch, ignore_errors=True)


def container_path(text: str | PurePosixPath) -> PurePosixPath:
    """A path in a container. Raises StepRequestError unless it is absolute and without `..`."""
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or path == PurePosixPath("/"):
        raise StepRequestError(
            f"the container path {str(text)!r} must be absolute and without '..'"
        )
    return path
