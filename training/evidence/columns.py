"""Reads the columns of an .npz file that may be damaged, or come from anyone."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, Mapping, Tuple

import numpy as np
import numpy.typing as npt

from training.evidence.record import EvidenceError


def read_columns(
    path: Path,
    columns: Mapping[str, Tuple[str, int]],
    optional: Mapping[str, Tuple[str, int]] = MappingProxyType({}),
) -> Dict[str, npt.NDArray[Any]]:
    """Read the named columns; each has a numpy kind ("f", "i", "U") and a number of dimensions.

    `optional` holds columns that need not be there, by how their names begin.
    """
    kinds = dict(columns)
    try:
        # allow_pickle=False: an evidence folder may come from anywhere.
        with np.load(path, allow_pickle=False) as stored:
            for start, expected in optional.items():
                kinds.update({name: expected for name in stored.files if name.startswith(start)})
            arrays = {name: stored[name] for name in kinds if name in stored.files}
    except FileNotFoundError as error:
        raise EvidenceError(f"{path.name} is missing") from error
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, MemoryError) as error:
        raise EvidenceError(f"{path.name} cannot be read: {error}") from error
    except Exception as error:  # zlib.error, NotImplementedError, SyntaxError: a damaged archive
        raise EvidenceError(
            f"{path.name} cannot be read: {type(error).__name__}: {error}"
        ) from error
    for name in columns:
        if name not in arrays:
            raise EvidenceError(f"{path.name}: column {name} is missing")
    for name, found in arrays.items():
        kind, dimensions = kinds[name]
        if found.dtype.kind != kind or found.ndim != dimensions:
            raise EvidenceError(
                f"{path.name}: column {name} has type {found.dtype} and {found.ndim} dimensions, "
                f"expected kind {kind!r} and {dimensions}"
            )
    return arrays
