"""Reads the columns of an .npz file that may be damaged, or come from anyone."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence.record import EvidenceError

MOST_COLUMN_BYTES = 4 * 1024**3
"""How large one file's columns may be: a million examples with five hundred classes fit."""


def check_plain_file(path: Path, most_bytes: int) -> None:
    """Raises EvidenceError for what is missing, too large or no file: a pipe, a device, a folder.

    Reading one of those may never end.
    """
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise EvidenceError(f"{path.name} is missing") from error
    except OSError as error:
        raise EvidenceError(f"{path.name} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise EvidenceError(f"{path.name} is not a plain file")
    if found.st_size > most_bytes:
        raise EvidenceError(f"{path.name} is larger than {most_bytes} bytes")


def read_columns(
    path: Path,
    columns: Mapping[str, tuple[str, int]],
    optional: Mapping[str, tuple[str, int]] = MappingProxyType({}),
) -> dict[str, npt.NDArray[Any]]:
    """Read the named columns; each has a numpy kind and a number of dimensions.

    The kind is "f", "i", "b" or "U". `optional` holds columns that need not be there, by how their
    names begin. Numbers come back in double precision and as 64-bit integers. Raises EvidenceError.
    """
    check_plain_file(path, MOST_COLUMN_BYTES)
    kinds = dict(columns)
    try:
        _check_unpacked_size(path)
        # allow_pickle=False: an evidence folder may come from anywhere.
        with np.load(path, allow_pickle=False) as stored:
            for start, expected in optional.items():
                kinds.update({name: expected for name in stored.files if name.startswith(start)})
            arrays = {name: stored[name] for name in kinds if name in stored.files}
    except EvidenceError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, MemoryError) as error:
        raise EvidenceError(f"{path.name} cannot be read: {error}") from error
    except Exception as error:  # zlib.error, NotImplementedError, SyntaxError: a damaged archive
        raise EvidenceError(
            f"{path.name} cannot be read: {type(error).__name__}: {error}"
        ) from error
    for name in columns:
        if name not in arrays:
            raise EvidenceError(f"{path.name}: column {name} is missing")
    return {
        name: _checked(f"{path.name}: column {name}", found, *kinds[name])
        for name, found in arrays.items()
    }


def _check_unpacked_size(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > MOST_COLUMN_BYTES:
        raise EvidenceError(f"{path.name} unpacks to more than {MOST_COLUMN_BYTES} bytes")


def _checked(where: str, found: Any, kind: str, dimensions: int) -> npt.NDArray[Any]:
    """The column in the type that all code uses; `found` is bytes if it is not an array."""
    if not isinstance(found, np.ndarray):
        raise EvidenceError(f"{where} is not an array")
    if found.dtype.kind != kind or found.ndim != dimensions:
        raise EvidenceError(
            f"{where} has type {found.dtype} and {found.ndim} dimensions, "
            f"expected kind {kind!r} and {dimensions}"
        )
    if kind == "U":
        return _text(where, found)
    if kind == "b":
        return found
    with np.errstate(over="ignore"):  # of extended precision; infinity is told by who judges
        return found.astype(np.float64 if kind == "f" else np.int64, copy=False)


def _text(where: str, found: npt.NDArray[Any]) -> npt.NDArray[np.str_]:
    text = np.ascontiguousarray(found.astype(found.dtype.newbyteorder("="), copy=False))
    # Code points beyond the last one crash Python's own functions.
    if text.size and text.itemsize and text.view(np.uint32).max() > 0x10FFFF:
        raise EvidenceError(f"{where} holds something other than text")
    return text
