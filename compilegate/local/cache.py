"""Results of earlier executions that may stand in for a step, as SageMaker's step caching does.

A step's key holds the attributes that SageMaker documents for its type, and what stands for the
image here: an upgraded package in the environment is a different image. Entries are scoped to the
pipeline and the step; only successful runs leave one; the most recent one counts.

    HOME/cache/PIPELINE/STEP/KEY.json
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.model import CachePolicy
from compilegate.document.step_types import STEP_TYPES
from compilegate.job.files import settings_digest, write_json
from compilegate.local.errors import ObjectStoreError
from compilegate.local.home.object_store import ObjectStore


@dataclass(frozen=True)
class CachedResult:
    """A result that is still whole: the job that made it, and its Describe* response."""

    job_name: str
    execution_id: str
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class CacheSlot:
    """The place of a step's cached result for certain arguments."""

    path: Path
    store: ObjectStore

    def find(self, policy: CachePolicy) -> CachedResult | None:
        """The latest result, unless it is too old or its outputs are gone or changed. A file that
        cannot be read is none."""
        try:
            entry = json.loads(self.path.read_bytes())
            outputs = entry["outputs"]
            found = CachedResult(entry["job_name"], entry["execution_id"], entry["properties"])
            age = time.time() - float(entry["finished"])
            if policy.expire_after and age > policy.expire_after.total_seconds():
                return None
            return found if self._outputs_unchanged(outputs) else None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ObjectStoreError):
            return None

    def _outputs_unchanged(self, outputs: Mapping[str, Any]) -> bool:
        return all(
            [list(item) for item in self.store.fingerprints(uri)] == recorded
            for uri, recorded in outputs.items()
        )

    def record(self, result: CachedResult, output_uris: Sequence[str]) -> None:
        """Leave the result of a job that has just succeeded and stored its outputs."""
        entry = {
            "finished": time.time(),
            "job_name": result.job_name,
            "execution_id": result.execution_id,
            "properties": result.properties,
            "outputs": {uri: self.store.fingerprints(uri) for uri in output_uris},
        }
        write_json(self.path, entry)


def cache_slot(
    folder: Path, store: ObjectStore, step_type: str, request: Mapping[str, Any], environment: str
) -> CacheSlot:
    """The slot in a step's folder for its resolved request, in what stands for the image."""
    members = {key: request.get(key) for key in STEP_TYPES[step_type].cache_key}
    digest = settings_digest({"type": step_type, "request": members, "environment": environment})
    return CacheSlot(folder / f"{digest}.json", store)
