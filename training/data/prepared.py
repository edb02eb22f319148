"""The prepared data set on disk: the contract between the prepare job and the training jobs.

    prepared/
      train.npz, validation.npz   one row per document                     (PreparedSplit)
      tokenizer/                  loadable by AutoTokenizer
      manifest.json               counts, labels, shapes, sha256 of each file   (Manifest)

The bytes are a function of the content: the archives carry no time stamps and are not
compressed, so the same input gives the same digests on any machine.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

import numpy as np
import numpy.typing as npt

from compilegate.job import InputError, file_digest
from compilegate.job.files import write_text

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer"
SPLITS = ("train", "validation")
_COLUMNS = ("input_ids", "attention_mask", "labels", "ids")
"""The columns of every split's file, by the names of PreparedSplit's fields."""
_SLICE = "slice:"
"""Prefix of a split's columns that hold categories."""


@dataclass(frozen=True)
class PreparedSplit:
    """One split, one row per document."""

    input_ids: npt.NDArray[np.int32]  # (documents, sequence_length) token ids
    attention_mask: npt.NDArray[np.int8]  # the same shape, 1 where a token stands, 0 for padding
    labels: npt.NDArray[np.int64]  # (documents,) index into the manifest's labels
    ids: npt.NDArray[np.str_]  # (documents,) unique, and independent of the order of the rows
    slices: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)
    """By column name, (documents,) the category of each document."""


@dataclass(frozen=True)
class Manifest:
    """What the prepared data set holds."""

    labels: Tuple[str, ...]  # the classes, in the order of their indices
    counts: Mapping[str, int]  # documents per split
    sequence_length: int
    vocabulary_size: int
    pad_token_id: int
    digests: Mapping[str, str]  # sha256 of each file of the data set, by its path inside it
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class PreparedData:
    """A whole prepared data set, read back and verified."""

    manifest: Manifest
    train: PreparedSplit
    validation: PreparedSplit
    digest: str  # sha256 of manifest.json, and so of everything the data set holds
    tokenizer_folder: Path


def write_split(folder: Path, split: str, rows: PreparedSplit) -> None:
    """Write ``SPLIT.npz``."""
    columns = {name: getattr(rows, name) for name in _COLUMNS}
    columns.update({_SLICE + name: column for name, column in rows.slices.items()})
    with zipfile.ZipFile(folder / f"{split}.npz", "w", zipfile.ZIP_STORED) as archive:
        for name, array in columns.items():
            column = io.BytesIO()
            np.save(column, array, allow_pickle=False)
            # np.savez would write the time of day into the archive.
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, column.getvalue())


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``manifest.json``; it comes last, so a folder that has it is whole."""
    text = json.dumps(dataclasses.asdict(manifest), indent=2, sort_keys=True) + "\n"
    write_text(folder / MANIFEST, text)


def file_digests(folder: Path) -> Dict[str, str]:
    """sha256 of every file of a data set but the manifest, by its path inside the folder."""
    splits = [folder / f"{split}.npz" for split in SPLITS]
    files = [*(folder / TOKENIZER).iterdir(), *splits]
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in sorted(files)}


def read_prepared(folder: Path) -> PreparedData:
    """Read a prepared data set and check every file against the manifest's digests.

    Raises InputError for anything missing, changed or of another schema version.
    """
    manifest = _read_manifest(folder / MANIFEST)
    for name, expected in sorted(manifest.digests.items()):
        if not (folder / name).is_file():
            raise InputError(f"{name} is missing from the prepared data in {folder}")
        found = file_digest(folder / name)
        if found != expected:
            raise InputError(
                f"{name} has sha256 {found}, but {MANIFEST} says {expected}: the prepared data "
                "were changed after they were written; prepare them again"
            )
    train, validation = (_read_split(folder / f"{split}.npz") for split in SPLITS)
    return PreparedData(
        manifest=manifest,
        train=train,
        validation=validation,
        digest=file_digest(folder / MANIFEST),
        tokenizer_folder=folder / TOKENIZER,
    )


def _read_manifest(path: Path) -> Manifest:
    try:
        fields: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = fields.get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(f"{path}: schema_version is {version!r}, expected {SCHEMA_VERSION}")
        fields["labels"] = tuple(fields["labels"])
        return Manifest(**fields)
    except FileNotFoundError as error:
        raise InputError(
            f"{path} is missing; the channel must hold the output of training.prepare"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not the manifest of a prepared data set: {error}") from error


def _read_split(path: Path) -> PreparedSplit:
    with np.load(path, allow_pickle=False) as stored:
        slices = {
            name[len(_SLICE) :]: stored[name] for name in stored.files if name.startswith(_SLICE)
        }
        return PreparedSplit(**{name: stored[name] for name in _COLUMNS}, slices=slices)
