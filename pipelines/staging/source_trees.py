"""The code of a workload's jobs: files with one digest, packed without anything of the machine.

The training code, the gate's and the serving code are trees of their own, so that a changed rule
of the gate trains nothing again.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from compilegate.built_in import PACKAGE_FOLDER, PROGRAM_FOLDER
from compilegate.errors import CompilegateError
from compilegate.workload import Kind, Workload

LARGEST_GATE_CODE = 10_000_000
"""Metric functions are small; what is larger is data, and belongs in the gate's image."""
LARGEST_PROGRAM = 20_000_000
"""A program is text; what is larger is data, or belongs in the image."""
_LARGER_FILES = "declare larger files as data, or put them in the image"
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_SUFFIXES = {".py", ".html", ".css", ".md", ".jinja", ".j2", ".txt"}
_BUILT_IN_HANDLER = "compilegate/serving/handlers/text_classification.py"
_GATE_CODE = (
    "compilegate/__init__.py",
    "compilegate/declaration_errors.py",
    "compilegate/errors.py",
    "compilegate/gate",
    "compilegate/job/__init__.py",
    "compilegate/job/endings.py",
    "compilegate/job/errors.py",
    "compilegate/job/evidence",
    "compilegate/job/files.py",
    "compilegate/job/contract.py",
    "compilegate/pipelines/__init__.py",
    "compilegate/pipelines/programs",
    "compilegate/posture",
    "compilegate/report",
)
_BELONGS_ELSEWHERE = {
    "requirements.txt": "containers/{image}/requirements.txt, so that a job installs nothing when "
    "it starts; then requirements_in_image = true in [program]",
    "setup.py": "the image, if it is a package",
}
"""Files that the training toolkit would act upon, and where each belongs instead."""


class OwnCodeError(CompilegateError):
    """The code cannot be taken. One sentence that names the key, what was found and what to do."""


@dataclass(frozen=True)
class SourceTree:
    """Files by their path in the tree. The same files have the same digest, on any machine."""

    files: Mapping[str, bytes]

    @cached_property
    def digest(self) -> str:
        """sha256 over names and contents, in hexadecimal."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            digest.update(f"{len(name)}:{name}:{len(content)}:".encode())
            digest.update(content)
        return digest.hexdigest()

    def archive(self) -> bytes:
        """A gzipped tar without times, owners or anything else that differs between machines."""
        packed = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name, content in sorted(self.files.items()):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                member.mode = 0o644
                archive.addfile(member, io.BytesIO(content))
        return packed.getvalue()

    def module_zip(self) -> bytes:
        """A zip that Python imports from. Stored, not deflated: the same bytes with any zlib."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for name, content in sorted(self.files.items()):
                member = zipfile.ZipInfo(name, date_time=_ZIP_EPOCH)
                member.create_system = 3  # Unix, whatever this machine is
                member.external_attr = (stat.S_IFREG | 0o644) << 16
                archive.writestr(member, content)
        return packed.getvalue()


def training_tree() -> SourceTree:
    """The built-in training program, and the package that it is made of."""
    return SourceTree(_package_files(PROGRAM_FOLDER, ["training"]) | _files_beside_a_program())


def training_code(kind: Kind, folder: Path) -> SourceTree:
    """What runs in the workload's training container: the built-in program, or all files of the
    program's folder, with compilegate.job beside them.

    `folder` is that of the workload's file. Raises OwnCodeError for a script that is not there, and
    for what cannot go along.
    """
    if kind.source_folder is None:
        return training_tree()
    root, files = _folder_files(folder, kind.source_folder, "program.folder")
    if kind.requirements_in_image:
        files.pop("requirements.txt", None)
    for key, script in kind.scripts.items():
        if script not in files:
            raise OwnCodeError(
                f"{key}: {root} has no file {script!r}, allowed: one of its Python files"
            )
    for name, home in _BELONGS_ELSEWHERE.items():
        if name in files:
            raise OwnCodeError(
                f"program.folder holds a {name}, allowed: none; what it asks for belongs in "
                + home.format(image=kind.processing_image[1])
            )
    if any(name.split("/")[0] in {"compilegate", "compilegate.py"} for name in files):
        raise OwnCodeError(
            "program.folder holds 'compilegate', which would hide the module that comes with it, "
            "allowed: another name"
        )
    _check_size("program.folder", files, LARGEST_PROGRAM, _LARGER_FILES)
    return SourceTree(files | _files_beside_a_program())


def _files_beside_a_program() -> dict[str, bytes]:
    """What goes with every training program: `compilegate.job`, which it may import, and what
    starts it. No rule of the gate, no reader of evidence and no report is part of it."""
    return _package_files(PACKAGE_FOLDER, ["compilegate/__init__.py", "compilegate/job"])


def gate_tree(own_code: Mapping[str, bytes] = MappingProxyType({})) -> SourceTree:
    """What runs in the gate's container: the same for every workload, but for its own code."""
    return SourceTree(_package_files(PACKAGE_FOLDER, _GATE_CODE) | dict(own_code))


def own_code(places: list[str], folder: Path) -> dict[str, bytes]:
    """The files of `gate.code` by their path on the module path.

    Each place below `folder` is there by its last name, as a module (`metrics.py`) or a package
    with all that its folder holds. Raises OwnCodeError for what is not there, or too large.
    """
    found: dict[str, bytes] = {}
    for index, place in enumerate(places):
        root = folder / place
        if not root.exists():
            raise OwnCodeError(
                f"gate.code[{index}]: {root} does not exist, allowed: a file or a folder, with a "
                "path relative to the workload's file"
            )
        for path in _files_below(root):
            name = PurePosixPath(root.name, path.relative_to(root).as_posix())
            found[name.as_posix()] = path.read_bytes()
    _check_size("gate.code", found, LARGEST_GATE_CODE, "put larger files in the gate's image")
    return found


def serving_code(workload: Workload, folder: Path) -> SourceTree | None:
    """What goes into `code/` of a registered model's archive: the handler, and what it imports.
    None where the image does without a handler.

    A program's own files go along, since a model's weights belong to its class. `folder` is that
    of the workload's file. Raises OwnCodeError for what is not there, or too large.
    """
    serving, source_folder = workload.serving, workload.kind.source_folder
    if serving is None or serving.handler is None:
        return None
    if serving.built_in:
        return SourceTree({serving.handler: (PACKAGE_FOLDER / _BUILT_IN_HANDLER).read_bytes()})
    files: dict[str, bytes] = {}
    root, key = folder / str(source_folder), "program.folder"
    if source_folder is not None:
        files |= training_code(workload.kind, folder).files
    if serving.folder is not None:
        key = "serving.folder"
        root, served = _folder_files(folder, serving.folder, key)
        files |= served
    if serving.handler not in files:
        raise OwnCodeError(
            f"serving.handler: {root} has no file {serving.handler!r}, allowed: one "
            f"of the Python files of {key}"
        )
    _check_size(key, files, LARGEST_PROGRAM, _LARGER_FILES)
    return SourceTree(files)


def _check_size(key: str, files: Mapping[str, bytes], limit: int, remedy: str) -> None:
    size = sum(map(len, files.values()))
    if size > limit:
        raise OwnCodeError(f"{key} holds {size:,} bytes, allowed: {limit:,} at most; {remedy}")


def _folder_files(folder: Path, place: str, key: str) -> tuple[Path, dict[str, bytes]]:
    """A declared folder, and its files by their path in it. Raises OwnCodeError."""
    root = folder / place
    if not root.is_dir():
        raise OwnCodeError(
            f"{key}: {root} is not a folder, allowed: one with a path relative to the "
            "workload's file"
        )
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in _files_below(root)}
    return root, files


def _files_below(root: Path) -> list[Path]:
    """The files of a folder, or the file itself; neither hidden ones nor what Python compiled."""
    if root.is_file():
        return [root]
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not any(
            part == "__pycache__" or part.startswith(".") for part in path.relative_to(root).parts
        )
    ]


def _package_files(root: Path, places: Iterable[str]) -> dict[str, bytes]:
    """The files at these places below `root`, by their path from there."""
    found: dict[str, bytes] = {}
    for place in places:
        at = root / place
        for path in [at] if at.is_file() else sorted(at.rglob("*")):
            if path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found
