"""What names a channel's objects one by one.

A ManifestFile is a JSON list, `{"prefix": "s3://bucket/folder/"}` first, then keys below it. An
AugmentedManifestFile has a JSON object on each line: a record, whose attributes are values, or with
a name that ends in `-ref` the URIs of objects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compilegate.local.errors import ObjectStoreError, StepRequestError
from compilegate.local.home.object_store import ObjectStore

MANIFEST, AUGMENTED = "ManifestFile", "AugmentedManifestFile"
_REFERENCE = "-ref"


def manifest_entries(store: ObjectStore, uri: str) -> list[tuple[Path, str]]:
    """The files that a manifest names, each with its key below the prefix.

    Raises ObjectStoreError where one is absent, StepRequestError for what is no manifest.
    """
    prefix, keys = _read(store.read(uri), uri)
    found = []
    for key in keys:
        file = store.path(prefix + key)
        if not file.is_file():
            raise ObjectStoreError(f"{prefix}{key}, which the manifest {uri} names, is absent")
        found.append((file, key))
    if not found:
        raise ObjectStoreError(f"the manifest {uri} names no objects")
    return found


def augmented_records(
    store: ObjectStore, uri: str, attributes: Sequence[str]
) -> list[tuple[Path | bytes, ...]]:
    """What a job gets of each line: of each attribute in turn the file, or the value.

    Raises ObjectStoreError where an object is absent, StepRequestError for what is no such line.
    """
    text = store.read(uri).decode("utf-8", errors="replace")
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            where = f"line {number} of {uri}"
            record = _record(line, where)
            found.append(tuple(_attribute(store, name, record, where) for name in attributes))
    if not found:
        raise ObjectStoreError(f"the augmented manifest {uri} has no lines")
    return found


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        said: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StepRequestError(f"{where} is no JSON ({error}), expected an object") from error
    if not isinstance(said, dict):
        raise StepRequestError(f"{where} is {said!r:.80}, expected an object")
    return said


def _attribute(store: ObjectStore, name: str, record: dict[str, Any], where: str) -> Path | bytes:
    if name not in record:
        there = ", ".join(record) or "nothing"
        raise StepRequestError(f"{where} has no {name!r:.80} (AttributeNames), but {there:.200}")
    value = record[name]
    if not name.endswith(_REFERENCE):
        return (value if isinstance(value, str) else json.dumps(value)).encode()
    if not isinstance(value, str):
        raise StepRequestError(f"{where}: {name} is {value!r:.80}, expected the URI of an object")
    file = store.path(value)
    if not file.is_file():
        raise ObjectStoreError(f"{value}, which {where} names, is absent")
    return file


def _read(content: bytes, uri: str) -> tuple[str, list[str]]:
    expected = 'a list of {"prefix": "s3://..."} and keys below it'
    try:
        said: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        sentence = f"the manifest {uri} is no JSON ({error}), expected {expected}"
        raise StepRequestError(sentence) from error
    if not isinstance(said, list) or not said or not isinstance(said[0], dict):
        raise StepRequestError(f"the manifest {uri} is not {expected}")
    prefix, keys = said[0].get("prefix"), said[1:]
    if not isinstance(prefix, str) or not all(isinstance(key, str) for key in keys):
        raise StepRequestError(f"the manifest {uri} is not {expected}")
    return prefix, keys
