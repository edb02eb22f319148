"""The local stand-in for S3: `s3://bucket/key` is the file `s3/bucket/key` in the home.

A prefix is a folder or one object. Large objects are hard-linked between the store and the jobs'
folders instead of copied, and are read-only, because a write would change both.

Folders and files of this machine can stand for what lies in S3 (`place_data`): each file gets a
symbolic link in the store. A job's input is a copy of what the link leads to, and an object that is
stored takes the link's place: nothing is ever written through one.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compilegate.job.files import NO_SPACE, whole_file
from compilegate.local.errors import ExecutionError, ObjectStoreError

# Below this a copy costs less than the surprise of a read-only, shared file.
_LINK_FROM_BYTES = 1 << 20

Fingerprint = tuple[str, int, int]
"""URI, size in bytes and time of last change in nanoseconds of one object."""


@dataclass(frozen=True)
class ObjectStore:
    """All buckets, as folders under `root`."""

    root: Path

    def path(self, uri: str) -> Path:
        """The file or folder a URI stands for, existing or not. Raises ObjectStoreError for
        anything but s3://BUCKET[/KEY] without `.` and `..` parts."""
        scheme, separator, rest = uri.partition("://")
        parts = rest.rstrip("/").split("/")
        if scheme != "s3" or not separator or not all(parts) or {".", ".."} & set(parts):
            raise ObjectStoreError(f"{uri!r} is not of the form s3://bucket/key")
        if "\0" in rest:
            raise ObjectStoreError(f"{uri!r} holds a NUL character")
        return self.root.joinpath(*parts)

    def exists(self, uri: str) -> bool:
        """Whether there is an object at the URI, or at least one below it."""
        path = self.path(uri)
        return path.is_file() or any(True for _ in _files_below(path))

    def read(self, uri: str) -> bytes:
        """The bytes of one object. Raises ObjectStoreError when there is none."""
        path = self.path(uri)
        try:
            return path.read_bytes()
        except OSError as error:
            raise ObjectStoreError(f"{uri} cannot be read: put its files at {path}") from error

    def download(self, uri: str, folder: Path) -> list[Path]:
        """Place all objects that the URI stands for into `folder`; return the files. Raises
        ObjectStoreError when there is nothing at the URI."""
        return [_place(file, folder / name) for file, name in self.objects(uri)]

    def objects(self, uri: str) -> list[tuple[Path, str]]:
        """The files at and below an input's URI, in order, with the names that a job gives them.

        As on the service, the URI is the beginning of a key: unless it ends in a slash,
        `s3://bucket/pre` is also `pre.csv` and what is below `prefix`. Raises ObjectStoreError when
        there is nothing.
        """
        found = sorted(self._matching(uri), key=lambda item: item[1])
        if not found:
            raise ObjectStoreError(f"{uri} has no objects: put its files at {self.path(uri)}")
        return found

    def has_objects(self, uri: str) -> bool:
        return any(True for _ in self._matching(uri))

    def _matching(self, uri: str) -> Iterator[tuple[Path, str]]:
        path = self.path(uri)
        for file in _files_below(path):
            yield file, str(file.relative_to(path))
        if uri.endswith("/") or path.parent == self.root or not path.parent.is_dir():
            return
        for entry in sorted(path.parent.iterdir()):
            if not entry.name.startswith(path.name) or is_upload(entry.name):
                continue
            if entry.is_file():
                yield entry, entry.name
            elif entry != path:
                for file in _files_below(entry):
                    yield file, str(file.relative_to(path.parent))

    def upload(self, source: Path, uri: str) -> None:
        """Store one file under `uri`; readers see the old object or the whole new one."""
        _place(source, self.path(uri), protect=True)

    def upload_folder(self, folder: Path, uri: str) -> None:
        """Store every file below `folder` under the prefix `uri`."""
        for path in _files_below(folder):
            self.upload(path, f"{uri.rstrip('/')}/{path.relative_to(folder)}")

    def remove(self, uri: str) -> None:
        self.path(uri).unlink(missing_ok=True)

    def fingerprints(self, uri: str) -> list[Fingerprint]:
        """What identifies the objects at and below `uri`, in order; empty when there are none."""
        path = self.path(uri)
        files = [path] if path.is_file() else sorted(_files_below(path))
        found = []
        for file in files:
            status = file.stat()
            key = file.relative_to(self.root).as_posix()
            found.append((f"s3://{key}", status.st_size, status.st_mtime_ns))
        return found


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder, followlinks=True):
        for name in names:
            if not is_upload(name):
                yield Path(parent) / name


def is_upload(name: str) -> bool:
    """Hidden `.part` files are uploads in flight, or what is left of one."""
    return name.startswith(".") and name.endswith(".part")


def _place(source: Path, target: Path, *, protect: bool = False) -> Path:
    """Link or copy `source` to `target` in one atomic move; `protect` makes it read-only."""
    try:
        with whole_file(target) as part:
            if not _link(source, part, may_protect=protect):
                shutil.copyfile(source, part)
                part.chmod(0o444 if protect else 0o644 | (source.stat().st_mode & 0o111))
    except OSError as error:
        if error.errno in NO_SPACE:
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise ObjectStoreError(f"{source} cannot be stored as {target}: {error}") from error
    return target


def _link(source: Path, target: Path, *, may_protect: bool) -> bool:
    """Hard-link a large read-only file; False when it has to be copied instead."""
    status = source.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size < _LINK_FROM_BYTES:
        return False
    if status.st_mode & 0o222:
        # Somebody put this file into the store by hand and may still write to it.
        if not may_protect:
            return False
        source.chmod(0o444)
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}:
            return False
        raise
    return True


def place_data(store: ObjectStore, uri: str, where: Path) -> int:
    """Let `where`, a file or a folder, stand for what lies at `uri`; returns how many files it has.
    Raises ExecutionError when it has none, or when the store holds an object of its own there."""
    try:
        target = store.path(uri)
    except ObjectStoreError as error:
        raise ExecutionError(f"--data: {error}") from error
    source = where.expanduser().absolute()
    wanted = dict(_links(source, target))
    if not wanted:
        found = "no files" if source.is_dir() else "nothing"
        raise ExecutionError(f"--data: {where} holds {found}, expected a file or a folder of files")
    for link, file in wanted.items():
        if _occupied(link):
            raise ExecutionError(
                f"--data: {link} was stored by a job; remove it, or place {file} at another URI"
            )
    # What an earlier folder or file at the same place has left.
    below = [] if target.is_symlink() else [*target.rglob("*")]
    above = [parent for parent in target.parents if not parent.is_dir()]
    for path in (target, *below, *above):
        if path.is_symlink() and path.readlink() != wanted.get(path):
            path.unlink()
    for link, file in wanted.items():
        if not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
    return len(wanted)


def _links(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Each link that is wanted, and the file that it leads to."""
    if source.is_file():
        yield target, source
    for file in sorted(_files_below(source)):
        if file.is_file():
            yield target / file.relative_to(source), file


def _occupied(link: Path) -> bool:
    """Whether something is in the way that is no link; also a file where a folder must be."""
    if link.exists() and not link.is_symlink():
        return True
    return any(parent.is_file() and not parent.is_symlink() for parent in link.parents)
