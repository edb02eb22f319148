"""The program of a job: files with one digest, as the toolkit's archive and as a zip that Python
imports from."""

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
from pathlib import Path
from types import MappingProxyType

from compilegate.built_in import PACKAGE_FOLDER, PROGRAM_FOLDER

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_SUFFIXES = {".py", ".html", ".css", ".md", ".jinja", ".j2", ".txt"}


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
        """A zip for the module path. Stored, not deflated: the same bytes whatever zlib is here."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for name, content in sorted(self.files.items()):
                member = zipfile.ZipInfo(name, date_time=_ZIP_EPOCH)
                member.create_system = 3  # Unix, whatever this machine is
                member.external_attr = (stat.S_IFREG | 0o644) << 16
                archive.writestr(member, content)
        return packed.getvalue()


def training_tree() -> SourceTree:
    """What runs in a training container: the built-in program, and the package that it is made of.

    No rule of the gate, no reader of evidence and no report is part of it, so that a change there
    trains nothing again.
    """
    return SourceTree(_files(PROGRAM_FOLDER, ["training"]) | files_beside_a_program())


def files_beside_a_program() -> dict[str, bytes]:
    """What goes with every training program: `compilegate.job`, which it may import, and what
    starts it."""
    return _files(PACKAGE_FOLDER, ["compilegate/__init__.py", "compilegate/job"])


def gate_tree(own_code: Mapping[str, bytes] = MappingProxyType({})) -> SourceTree:
    """What runs in the gate's container: the same for every workload, but for code of its own.

    It is a tree of its own, so that a changed rule of the gate does not train anything again.
    """
    own = _files(
        PACKAGE_FOLDER,
        [
            "compilegate/__init__.py",
            "compilegate/declaration_errors.py",
            "compilegate/gate",
            "compilegate/job/__init__.py",
            "compilegate/errors.py",
            "compilegate/job/endings.py",
            "compilegate/job/errors.py",
            "compilegate/job/evidence",
            "compilegate/job/files.py",
            "compilegate/job/names.py",
            "compilegate/pipelines/__init__.py",
            "compilegate/pipelines/programs",
            "compilegate/posture",
            "compilegate/report",
        ],
    )
    return SourceTree(own | dict(own_code))


def _files(root: Path, places: Iterable[str]) -> dict[str, bytes]:
    """The files at these places below `root`, by their path from there."""
    found: dict[str, bytes] = {}
    for place in places:
        at = root / place
        for path in [at] if at.is_file() else sorted(at.rglob("*")):
            if path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found
