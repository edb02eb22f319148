"""A job's folder: what would be the root of its container, and whether it is the job's own root.

A job with a root of its own finds its folders where the container has them. Without one, the paths
in its request are rewritten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from compilegate.job.names import MODEL_ARCHIVE, OUTPUT_ARCHIVE
from compilegate.local.errors import (
    NO_SPACE,
    CapacityError,
    SourceArchiveError,
    StepError,
    StepRequestError,
)
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.launcher import Bind, JobCommand, RunningJob, View, short_name

OWN_ROOT_VARIABLE = "COMPILEGATE_OWN_ROOT"
"""`0` in the runner's environment lets jobs share this machine's root even where they need not."""
SHARED_VARIABLE = "COMPILEGATE_SHARE"
"""Folders of this machine that jobs may write to, separated as in PATH."""
_TRIAL_SECONDS = 20.0

ML = PurePosixPath("/opt/ml")
HOST = "algo-1"
"""What the one host of a job is called."""
_HOSTS_FILE = "/etc/hosts"
_PRIVATE_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - what is there must not be seen
"""Each job has its own, as in a container; this machine's are hidden."""
_SCRATCH = "/compilegate"
"""Where a job finds its home, its caches and its Python environment."""

# Results are mostly weights, which hardly compress: the fastest level is as good as the best.
_COMPRESSION_LEVEL = 1
_REQUIREMENTS = "requirements.txt"


@dataclass(frozen=True)
class Root:
    """How jobs find /opt/ml."""

    own: bool
    """Whether a job gets a root of its own (a mount namespace); if not, paths are rewritten."""
    sentence: str
    """For the person at the terminal."""


OWN_ROOT = Root(
    own=True,
    sentence="each job has a root of its own, with /opt/ml in it; the rest of this machine is "
    "read-only to it",
)


@dataclass(frozen=True)
class Sandboxes:
    """Makes the sandboxes of an execution's jobs."""

    folder: Path
    root: Root
    shared: Sequence[Path] = ()
    """Folders of this machine that a job with its own root may write to, too."""

    def make(self, name: str, local_paths: Iterable[str] = ()) -> Sandbox:
        """The sandbox of the job of that name, which uses these folders beside /opt/ml."""
        return Sandbox(self.folder / name, local_paths, own_root=self.root.own, shared=self.shared)


class Sandbox:
    """Maps container paths into a folder: `/opt/ml/model` is `FOLDER/opt/ml/model`.

    Only paths at or below /opt/ml and the declared LocalPaths are mapped. Everything else, such
    as /bin/sh, is this machine's. Without a root of its own, the paths in a job's request are
    rewritten to `alias`, a short name of FOLDER.
    """

    def __init__(
        self,
        folder: Path,
        local_paths: Iterable[str] = (),
        *,
        own_root: bool = False,
        shared: Sequence[Path] = (),
    ) -> None:
        self.folder = folder
        self.own_root = own_root
        self.alias = short_name(folder)
        self._shared = shared
        self._roots = _outermost({str(ML), *(str(container_path(path)) for path in local_paths)})
        longest_first = sorted(self._roots, key=len, reverse=True)
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

    @property
    def temporary(self) -> Path:
        """The job's temporary files."""
        return self.scratch / "tmp"

    @property
    def strays(self) -> Path:
        """What a job with its own root wrote outside /opt/ml and the declared paths."""
        return self.folder / "root"

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

    def write_json(self, where: PurePosixPath, content: Mapping[str, Any]) -> None:
        """Write a file at a container path."""
        self.make(where.parent)
        self.path(where).write_text(json.dumps(content), encoding="utf-8")

    def inside(self, path: Path) -> str:
        """The path by which the job finds a file or folder of its sandbox."""
        if not self.own_root:
            return str(self.alias.name / path.relative_to(self.folder))
        if path.is_relative_to(self.temporary):
            return str(Path(_PRIVATE_FOLDERS[0]) / path.relative_to(self.temporary))
        if path.is_relative_to(self.scratch):
            return str(Path(_SCRATCH) / path.relative_to(self.scratch))
        return f"/{path.relative_to(self.folder)}"

    def rewrite(self, text: str) -> str:
        """`text` with every mapped container path in it as the job finds it."""
        if self.own_root:
            return text
        return self._mapped.sub(lambda match: f"{self.alias.name}{match[0]}", text)

    def view(self, shown: Iterable[Path] = (), shared: Iterable[Path] = ()) -> View | None:
        """The job's own root, if it has one.

        `shown` are folders of this machine that it must find even where all around is hidden;
        `shared` are those that it may also write to.
        """
        if not self.own_root:
            return None
        private = [self.temporary, *(self.scratch / "more" / p[1:] for p in _PRIVATE_FOLDERS[1:])]
        own = [Bind(self.make(root), root) for root in self._roots]
        own += [Bind(self.scratch, _SCRATCH), *map(Bind, private, _PRIVATE_FOLDERS)]
        for bind in own:
            bind.source.mkdir(parents=True, exist_ok=True)
        self.strays.mkdir(parents=True, exist_ok=True)
        own += [Bind(path, str(path)) for path in (*shared, *self._shared) if path.is_dir()]
        own += [Bind(p, str(p), may_write=False) for p in shown if _is_hidden(p) and p.is_dir()]
        first = {bind.target: bind for bind in reversed(own)}  # a declared path before all others
        return View(self.strays, tuple(first.values()), {_HOSTS_FILE: self._hosts_file()})

    def _hosts_file(self) -> Path:
        try:
            machine = Path(_HOSTS_FILE).read_text(encoding="utf-8", errors="replace")
        except OSError:
            machine = ""
        own = self.scratch / "hosts"
        own.write_text(f"{machine.rstrip()}\n127.0.0.1 {HOST}\n", encoding="utf-8")
        return own

    def clear(self) -> None:
        """Remove what an earlier, interrupted start of this very job left."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def drop_scratch(self) -> None:
        """Remove what ends with a container; keep what the job wrote beside its folders."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        _drop_mount_points(self.strays)


def _is_hidden(path: Path) -> bool:
    """Whether a job with its own root would not find this path of the machine."""
    return any(path.is_relative_to(folder) for folder in _PRIVATE_FOLDERS)


def _outermost(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in sorted(paths):
        if not any(path.startswith(f"{other}/") for other in found):
            found.append(path)
    return found


def _drop_mount_points(folder: Path) -> None:
    """Remove the empty folders, empty files and links in which this machine's own were shown."""
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            path = Path(parent) / name
            is_empty = path.is_symlink() or (path.is_file() and path.stat().st_size == 0)
            with contextlib.suppress(OSError):
                path.unlink() if is_empty else path.rmdir()
    with contextlib.suppress(OSError):
        folder.rmdir()


def container_path(text: str | PurePosixPath) -> PurePosixPath:
    """A path in a container. Raises StepRequestError unless it is absolute and without `..`."""
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or path == PurePosixPath("/"):
        raise StepRequestError(
            f"the container path {str(text)!r} must be absolute and without '..'"
        )
    return path


def shared_folders(given: Iterable[Path]) -> tuple[Path, ...]:
    """The folders that are given, and those that the variable names."""
    named = os.environ.get(SHARED_VARIABLE, "").split(os.pathsep)
    return tuple(folder.resolve() for folder in (*given, *(Path(name) for name in named if name)))


def choose_root(home: Path, own_root: bool | None = None) -> Root:
    """The root that is requested; otherwise one of its own where a trial in this home succeeds."""
    if own_root is not None:
        return OWN_ROOT if own_root else _rewriting("as requested")
    if os.environ.get(OWN_ROOT_VARIABLE) == "0":
        return _rewriting(f"because {OWN_ROOT_VARIABLE} is 0")
    if sys.platform != "linux":
        return _rewriting(f"because {sys.platform} has no mount namespaces")
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="try-", dir=home))
    try:
        return _trial(Sandbox(folder, own_root=True))
    except OSError as error:
        return _rewriting(f"because this machine gives them no other ({error})")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _trial(sandbox: Sandbox) -> Root:
    command = JobCommand(
        argv=["/bin/sh", "-c", ": > /opt/ml/here && test -d /tmp"],
        working_directory=str(ML),
        environment={},
        cpus=(),
        max_seconds=_TRIAL_SECONDS,
        grace_seconds=0,
        view=sandbox.view(),
    )
    end = RunningJob().run(command, sandbox.log, lambda _line: None)
    if end.succeeded and sandbox.path(ML / "here").is_file():
        return OWN_ROOT
    said = end.error or " ".join(end.last_lines) or f"exit code {end.code}"
    return _rewriting(f"because this machine gives them no other ({said})")


def _rewriting(reason: str) -> Root:
    return Root(
        own=False,
        sentence=f"jobs share this machine's root, {reason}: /opt/ml is rewritten in requests, and "
        "a program that itself names /opt/ml fails",
    )


class HostFolder:
    """This machine's own /opt/ml, as it was before a job without a root of its own."""

    def __init__(self, folder: Path = Path(ML)) -> None:
        self._folder = folder
        self._before = self._files()

    def check(self) -> None:
        """Raise StepError if something there is new or changed: it would be lost."""
        changed = sorted(set(self._files().items()) - set(self._before.items()))
        if changed:
            raise StepError(
                f"the program wrote to {changed[0][0]} of this machine, outside its sandbox, "
                "because it names /opt/ml itself and jobs here have no root of their own; nothing "
                "of that is stored. Take the folders from SM_* variables or the arguments, or run "
                "it on a machine whose kernel allows mount namespaces"
            )

    def _files(self) -> dict[str, tuple[int, int]]:
        found = {}
        for parent, folders, names in os.walk(self._folder):
            for name in (*folders, *names):
                path = os.path.join(parent, name)  # noqa: PTH118 - there may be many
                try:
                    status = os.lstat(path)
                except OSError:
                    continue
                found[path] = (status.st_mtime_ns, status.st_size)
        return found


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


def own_requirements(uris: Iterable[str], store: ObjectStore) -> list[str]:
    """The text of the requirements.txt in each archive of code among a job's inputs."""
    files = (store.path(uri) for uri in uris)
    return [text for file in files if file.is_file() and (text := _own_requirements(file))]


def _own_requirements(file: Path) -> str:
    try:
        if file.suffix == ".zip":
            with zipfile.ZipFile(file) as archive:
                return archive.read(_REQUIREMENTS).decode(errors="replace")
        if file.name.endswith(".tar.gz") and file.name not in (MODEL_ARCHIVE, OUTPUT_ARCHIVE):
            with tarfile.open(file, "r:gz") as tar:
                found = tar.extractfile(_REQUIREMENTS)
                return "" if found is None else found.read().decode(errors="replace")
    except (KeyError, OSError, EOFError, tarfile.TarError, zipfile.BadZipFile):
        pass  # there is none; what is damaged is refused where it is unpacked
    return ""


def pack_folder(folder: Path, archive: Path) -> None:
    """Pack what `folder` holds into a .tar.gz, names relative to the folder; it may be empty."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive, "w:gz", compresslevel=_COMPRESSION_LEVEL) as tar:
            for path in sorted(folder.iterdir()):
                tar.add(path, arcname=path.name)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise CapacityError(f"no space left for {archive}") from error
        raise
