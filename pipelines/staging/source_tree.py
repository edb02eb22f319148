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

PROJECT = Path(__file__).resolve().parents[2]
"""The folder that holds `pipelines/` and `training/`."""

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
    """What runs in a training container: the package `training`, and nothing else."""
    return SourceTree(_files(["training"]))


def files_beside_a_program() -> dict[str, bytes]:
    """What goes beside a program of one's own: `training.evidence`, which it may import, and what
    starts it."""
    return _files(
        [
            "training/__init__.py",
            "training/champion.py",
            "training/digests.py",
            "training/evidence",
            "training/failure.py",
            "training/script_launcher.py",
            "training/sm_dist_launcher.py",
            "training/torchrun.py",
            "training/world.py",
        ]
    )


def gate_tree(own_code: Mapping[str, bytes] = MappingProxyType({})) -> SourceTree:
    """What runs in the gate's container: the same for every workload, but for code of its own.

    It is a tree of its own, so that a changed rule of the gate does not train anything again.
    """
    return SourceTree(
        _files(
            [
                "pipelines/__init__.py",
                "pipelines/declaration_errors.py",
                "pipelines/gate_job.py",
                "pipelines/gather_job.py",
                "pipelines/printed_gate_job.py",
                "pipelines/succession_job.py",
                "pipelines/gate",
                "pipelines/report",
                "training/__init__.py",
                "training/evidence",
            ]
        )
        | dict(own_code)
    )


def _files(places: Iterable[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for place in places:
        root = PROJECT / place
        paths = [root] if root.is_file() else sorted(root.rglob("*"))
        for path in paths:
            if path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
                found[path.relative_to(PROJECT).as_posix()] = path.read_bytes()
    return found
