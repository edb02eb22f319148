"""An execution as one shareable archive: evidence, verdict, report, logs; no model and no data."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from compilegate.document.step_types import TRAINING
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.job.files import whole_file
from compilegate.job.names import (
    EVIDENCE_FOLDER,
    OUTPUT_ARCHIVE,
    REPORT_FILE,
    REPORT_MARKDOWN_FILE,
    REPROS_FOLDER,
    VERDICT_FILE,
)
from compilegate.local.errors import ExecutionError
from compilegate.local.home.object_store import ObjectStore

_MOST_LOG_BYTES = 1 << 20
"""The end of a log is what tells why a job failed."""


def pack_execution(
    result: ExecutionResult, home: Path, target: Path, beside: Mapping[str, str]
) -> tuple[str, ...]:
    """Write the archive `target`, a zip file; returns the names of what is in it.

    `beside` are texts to put in as well, by name. Raises ExecutionError where the execution still
    runs, and OSError where the archive cannot be written.
    """
    if not result.status.ended:
        raise ExecutionError(
            f"execution {result.execution_id} has not ended; pack it when it has, or resume it"
        )
    store = ObjectStore(home.resolve() / "s3")
    with (
        whole_file(target) as part,
        zipfile.ZipFile(part, "w", compression=zipfile.ZIP_DEFLATED) as packed,
    ):
        for name, content in _contents(result, store):
            packed.writestr(f"{result.execution_id}/{name}", content)
        for name, text in beside.items():
            packed.writestr(f"{result.execution_id}/{name}", text)
        return tuple(packed.namelist())


def _contents(result: ExecutionResult, store: ObjectStore) -> Iterator[tuple[str, bytes]]:
    files = [result.folder / name for name in (VERDICT_FILE, REPORT_FILE, REPORT_MARKDOWN_FILE)]
    files += sorted((result.folder / REPROS_FOLDER).rglob("*"))
    for path in filter(Path.is_file, files):
        yield path.relative_to(result.folder).as_posix(), path.read_bytes()
    for step in result.steps.values():
        if step.type == TRAINING:
            yield from _evidence(step, store)
        if step.log is not None and step.log.is_file():
            yield f"jobs/{step.name}/log.txt", step.log.read_bytes()[-_MOST_LOG_BYTES:]


def _evidence(step: StepResult, store: ObjectStore) -> Iterator[tuple[str, bytes]]:
    """The files of a training job's evidence folder, from its output archive."""
    place = step.properties.get("OutputDataConfig", {}).get("S3OutputPath")
    if place is None or step.job_name is None:
        return
    archive = store.path(f"{place}/{step.job_name}/output/{OUTPUT_ARCHIVE}")
    if not archive.is_file():
        return
    with tarfile.open(archive, "r:gz") as output:
        for member in output:
            parts = PurePosixPath(member.name).parts
            if member.isreg() and parts[:1] == (EVIDENCE_FOLDER,) and ".." not in parts:
                file = output.extractfile(member)
                if file is not None:
                    yield f"jobs/{step.name}/{'/'.join(parts)}", file.read()
