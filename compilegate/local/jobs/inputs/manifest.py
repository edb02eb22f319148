"""A ManifestFile: a JSON list, `{"prefix": "s3://bucket/folder/"}` first, then keys below it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from compilegate.local.errors import ObjectStoreError, StepRequestError
from compilegate.local.home.object_store import ObjectStore

MANIFEST = "ManifestFile"


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
