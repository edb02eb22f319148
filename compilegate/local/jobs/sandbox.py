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

from compilegate.job.contract import MODEL_ARCHIVE, OUTPUT_ARCHIVE
from compilegate.job.files import NO_SPACE
from compilegate.local.errors import StepError, StepRequestError
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
_TEMPORARY, _MORE_TEMPORARY = "/tmp", "/var/tmp"  # noqa: S108 - what is there must not be seen
"""Each job has its own, as in a container; this machine's are hidden."""
_SCRATCH = "/compilegate"
"""Folder of a job's home, caches and Python environment, as the job sees it."""
_REQUIREMENTS = "requirements.txt"


@dataclass(frozen=True)
class Sandboxes:
    """Makes the sandboxes of an execution's jobs."""

    folder: Path
    own_root: bool
    """Whether a job gets a root of its own (a mount namespace); if not, paths are rewritten."""
    shared: Sequence[Path] = ()
    """Folders of this machine that a job with its own root may write to, too."""

    def make(self, name: str, local_paths: Iterable[str] = ()) -> Sandbox:
        """The sandbox of the job of that name, which uses these folders beside /opt/ml."""
        return Sandbox(self.folder / name, local_paths, own_root=self.own_root, shared=self.shared)


class Sandbox:
    """Maps container paths into a folder: `/opt/ml/model` is `FOLDER/opt/ml/model`.

    Only paths at or below /opt/ml and the declared LocalPaths are mapped. Everything else, such
    as /bin/sh, is this machine's. Without a root of its own, the paths in a job's request are
    rewritten to `alias`, a short name of FOLDER.

    `log` holds the job's output. `scratch`, with `temporary`, is gone when the job ends: home,
    temporary files, compile caches. `strays` is what a job with its own root wrote beside /opt/ml
    and the declared paths.
    """

    def __init__(
        self,
        folder: Path,
        local_paths: Iterable[str] = (),
        *,
        own_root: bool = False,
        shared: Sequence[Path] = (),
    ) -> None:
        self.folder, self.own_root, self.alias = folder, own_root, short_name(folder)
        self.log = folder / "log.txt"
        self.scratch = folder / "scratch"
        self.temporary = self.scratch / "tmp"
        self.strays = folder / "root"
        self._shared = shared
        self._roots = _outermost({str(ML), *(str(container_path(path)) for path in local_paths)})
        # A path starts where no path character stands before it, so `s3://bucket/opt/ml` and
        # `/data/opt/ml` are left alone, while `--in=/opt/ml/x` and `/opt/ml/a:/opt/ml/b` are not.
        any_root = "|".join(map(re.escape, self._roots))
        self._mapped = re.compile(rf"(?<![\w./\-])(?:{any_root})(?![\w.\-])")

    def path(self, where: str | PurePosixPath) -> Path:
        """The folder or file here that a container path stands for. Raises StepRequestError for a
        path that is relative or climbs with `..`."""
        return self.folder.joinpath(*container_path(where).parts[1:])

    def make(self, where: str | PurePosixPath) -> Path:
        folder = self.path(where)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write_json(self, where: PurePosixPath, content: Mapping[str, Any]) -> None:
        (self.make(where.parent) / where.name).write_text(json.dumps(content), encoding="utf-8")

    def inside(self, path: Path) -> str:
        """The path by which the job finds a file or folder of its sandbox."""
        if not self.own_root:
            return str(self.alias.name / path.relative_to(self.folder))
        places = {self.temporary: _TEMPORARY, self.scratch: _SCRATCH, self.folder: "/"}
        folder = next(each for each in places if path.is_relative_to(each))
        return str(Path(places[folder]) / path.relative_to(folder))

    def rewrite(self, text: str) -> str:
        """`text` with every mapped container path in it as the job finds it."""
        if self.own_root:
            return text
        return self._mapped.sub(lambda match: f"{self.alias.name}{match[0]}", text)

    def view(self, shown: Iterable[Path] = (), shared: Iterable[Path] = ()) -> View | None:
        """The job's own root, if it has one. `shown` are folders of this machine that it must find
        even where all around is hidden; `shared` are those that it may also write to."""
        if not self.own_root:
            return None
        hidden = {_TEMPORARY: self.temporary, _MORE_TEMPORARY: self.scratch / "more"}
        own = [Bind(self.path(root), root) for root in self._roots]
        own += [Bind(self.scratch, _SCRATCH), *(Bind(path, at) for at, path in hidden.items())]
        for folder in (*(bind.source for bind in own), self.strays):
            folder.mkdir(parents=True, exist_ok=True)
        own += [Bind(path, str(path)) for path in (*shared, *self._shared) if path.is_dir()]
        for path in shown:
            if any(path.is_relative_to(each) for each in hidden) and path.is_dir():
                own.append(Bind(path, str(path), may_write=False))
        first = {bind.target: bind for bind in reversed(own)}  # a declared path before all others
        binds = sorted(first.values(), key=lambda bind: bind.target.count("/"))
        return View(self.strays, binds, {_HOSTS_FILE: self._hosts_file()})

    def _hosts_file(self) -> Path:
        own, machine = self.scratch / "hosts", Path(_HOSTS_FILE)
        text = machine.read_text(encoding="utf-8", errors="replace") if machine.is_file() else ""
        own.write_text(f"{text.rstrip()}\n127.0.0.1 {HOST}\n", encoding="utf-8")
        return own

    def clear(self) -> None:
        """Remove what an earlier, interrupted start of this very job left."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def drop_scratch(self) -> None:
        """Remove what ends with a container, and the empty folders, empty files and links in which
        this machine's own were shown; keep what the job wrote beside its folders."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        for parent, folders, files in os.walk(self.strays, topdown=False):
            for path in (Path(parent, name) for name in (*files, *folders)):
                is_empty = path.is_symlink() or (path.is_file() and path.stat().st_size == 0)
                with contextlib.suppress(OSError):
                    path.unlink() if is_empty else path.rmdir()
        with contextlib.suppress(OSError):
            self.strays.rmdir()


def _outermost(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in sorted(paths):
        if not any(path.startswith(f"{other}/") for other in found):
            found.append(path)
    return found


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


def choose_root(home: Path, own_root: bool | None = None) -> tuple[bool, str]:
    """Whether jobs get a root of their own, and a sentence that says so: as requested, or else
    where a trial in this home succeeds."""
    why_not = "as requested" if own_root is False else None
    if own_root is None:
        why_not = _why_not(home)
    if why_not is None:
        own = "each job has its own root with /opt/ml; the rest of this machine is read-only to it"
        return True, own
    return False, (
        f"jobs share this machine's root, {why_not}: /opt/ml is replaced in "
        "requests, and a program that names /opt/ml itself fails"
    )


def _why_not(home: Path) -> str | None:
    """Why jobs have no root of their own here, if they have none."""
    if os.environ.get(OWN_ROOT_VARIABLE) == "0":
        return f"because {OWN_ROOT_VARIABLE} is 0"
    if sys.platform != "linux":
        return f"because {sys.platform} has no mount namespaces"
    home.mkdir(parents=True, exist_ok=True)
    where = tempfile.TemporaryDirectory(prefix="try-", dir=home, ignore_cleanup_errors=True)
    try:
        with where as folder:
            why_not = _trial(Sandbox(Path(folder), own_root=True))
    except OSError as error:
        why_not = str(error)
    return why_not and f"because it does not allow them one of their own ({why_not})"


def _trial(sandbox: Sandbox) -> str | None:
    """Why a job cannot have a root of its own here, if it cannot."""
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
        return None
    return end.error or " ".join(end.last_lines) or f"exit code {end.code}"


def unpack_source(archive: Path, folder: Path) -> None:
    """Unpack a .tar.gz that nobody vouches for into `folder`.

    Absolute paths, `..`, links that lead outside and device files are refused, with the member's
    name, by raising StepError; so is a damaged archive.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extractall(folder, filter="data")
    except tarfile.FilterError as error:
        raise StepError(f"{archive.name} is refused: {error}") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise OSError(error.errno, error.strerror, str(folder)) from error
        raise StepError(f"{archive.name} cannot be unpacked: {error}") from error


def own_requirements(uris: Iterable[str], store: ObjectStore) -> list[str]:
    """The text of the requirements.txt in each archive of code among a job's inputs."""
    texts = []
    for file in (store.path(uri) for uri in uris):
        # There is none in the others; what is damaged is refused where it is unpacked.
        errors = (KeyError, OSError, EOFError, tarfile.TarError, zipfile.BadZipFile)
        with contextlib.suppress(*errors):
            if file.suffix == ".zip":
                with zipfile.ZipFile(file) as archive:
                    texts.append(archive.read(_REQUIREMENTS).decode(errors="replace"))
            elif file.name.endswith(".tar.gz") and file.name not in (MODEL_ARCHIVE, OUTPUT_ARCHIVE):
                with tarfile.open(file, "r:gz") as tar:
                    if (found := tar.extractfile(_REQUIREMENTS)) is not None:
                        texts.append(found.read().decode(errors="replace"))
    return texts


def pack_folder(folder: Path, archive: Path) -> None:
    """Pack what `folder` holds into a .tar.gz, names relative to the folder; it may be empty."""
    # Mostly weights, which hardly compress: the fastest level is as good as the best.
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, arcname=path.name)
