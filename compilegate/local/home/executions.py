"""The executions of a home: found by name, listed, packed into an archive, pruned."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from compilegate.document.step_types import TRAINING
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.execution.status import ExecutionStatus
from compilegate.job.contract import (
    EVIDENCE_FOLDER,
    OUTPUT_ARCHIVE,
    REPORT_FILE,
    REPORT_MARKDOWN_FILE,
    REPROS_FOLDER,
    VERDICT_FILE,
)
from compilegate.job.files import whole_file
from compilegate.local.errors import ExecutionError
from compilegate.local.home.journal import Journal, is_execution
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import list_groups, list_packages

_ID = re.compile(r"(?<![A-Za-z0-9])[a-z0-9]{12}(?![A-Za-z0-9])")
_MOST_LOG_BYTES = 1 << 20
"""The end of a log is what tells why a job failed."""


def execution_named(home: Path, beginning: str) -> str:
    """The ID of the execution whose ID begins so. Raises ExecutionError for none or several."""
    known = [journal.folder.name for journal in _journals(home)]
    found = [each for each in known if beginning and each.startswith(beginning)]
    if not found:
        raise ExecutionError(f"there is no execution {beginning!r} in {home}")
    if len(found) > 1 and beginning not in found:
        raise ExecutionError(f"several executions begin with {beginning!r}: {', '.join(found)}")
    return beginning if beginning in found else found[0]


def _journals(home: Path) -> list[Journal]:
    folder = home / "executions"
    if not folder.is_dir():
        return []
    # glob would take a folder that may not be read for an empty one.
    return [Journal(path) for path in sorted(folder.iterdir()) if is_execution(path)]


def list_executions(home: Path) -> list[ExecutionResult]:
    found = [journal.read() for journal in _journals(home)]
    return sorted(found, key=lambda result: result.started, reverse=True)


def latest_unfinished(home: Path, pipeline_name: str) -> ExecutionResult | None:
    """The newest execution of a pipeline that can go on, whatever ran after it: it was stopped or
    interrupted, or one of its steps failed. What a Fail step ended would only end so again. A start
    in the future is a wrong clock's, and comes last."""
    now = time.time()
    unfinished = [
        result
        for result in list_executions(home)
        if result.pipeline_name == pipeline_name
        and (result.status is ExecutionStatus.STOPPED or result.failed_by == "job")
    ]
    return max(unfinished, key=lambda it: (it.started <= now, it.started), default=None)


# An archive to share


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


# Room in a home


@dataclass(frozen=True)
class Pruned:
    result: ExecutionResult
    size: int


def prune(
    home: Path,
    *,
    older_than: float | None = None,
    larger_than: int | None = None,
    dry_run: bool = False,
) -> list[Pruned]:
    """Remove the executions that ended over `older_than` seconds ago and take over `larger_than`
    bytes, with the objects whose keys hold their IDs; returns them, the latest first.

    One of the two limits must be given. Running executions stay, and so do objects that the model
    registry, the step cache or an execution that stays names. A stopped execution that is removed
    cannot be resumed. `dry_run` removes nothing. Raises ExecutionError.
    """
    if older_than is None and larger_than is None:
        raise ExecutionError("prune needs an age, a size or both")
    home = home.resolve()
    executions = list_executions(home)
    old = [it for it in executions if _is_old(it, older_than)]
    objects = _objects_by_execution(home, {it.execution_id for it in old})
    chosen = [it for it in old if larger_than is None or _freed(it, objects) > larger_than]
    going = {it.execution_id for it in chosen}
    named = set(_named(home, [it for it in executions if it.execution_id not in going]))
    pruned = []
    for result in chosen:
        own = objects[result.execution_id]
        own[:] = [path for path in own if not _is_named(home, path, result.execution_id, named)]
        pruned.append(Pruned(result, _freed(result, objects)))
        if not dry_run:
            _remove(result, own, home / "s3")
    return pruned


def _is_old(result: ExecutionResult, seconds: float | None) -> bool:
    if result.status is ExecutionStatus.EXECUTING:
        return False
    return seconds is None or time.time() - (result.ended or result.started) > seconds


def _objects_by_execution(home: Path, known: set[str]) -> dict[str, list[Path]]:
    """The files of the object store whose keys hold an execution's ID, alone or in a job's name."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in _below(home / "s3"):
        for identifier in known & set(_ID.findall(path.relative_to(home).as_posix())):
            found[identifier].append(path)
    return found


def _below(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent) / name for name in names)


def _freed(result: ExecutionResult, objects: dict[str, list[Path]]) -> int:
    """The bytes that removing an execution and its objects gives back: of a file with several
    links, only if all of them go."""
    links: Counter[tuple[int, int]] = Counter()
    size = 0
    for path in (*_below(result.folder), *objects[result.execution_id]):
        status = path.lstat()
        links[status.st_dev, status.st_ino] += 1
        if links[status.st_dev, status.st_ino] == status.st_nlink:
            size += status.st_blocks * 512
    return size


def _named(home: Path, staying: Iterable[ExecutionResult]) -> Iterator[str]:
    """The URIs that the registry, the step cache and the executions that stay hold."""
    for group in list_groups(home):
        for package in list_packages(home, group):
            yield from uris_in(package.description)
    for path in (home / "cache").rglob("*.json"):
        try:
            yield from uris_in(json.loads(path.read_bytes()))
        except ValueError:
            continue  # it serves no step
    for result in staying:
        yield from uris_in(result.parameters)
        for step in result.steps.values():
            yield from uris_in(step.properties)


def uris_in(value: Any) -> Iterator[str]:
    """Every URI in a JSON document."""
    if isinstance(value, str) and value.startswith("s3://"):
        yield value.rstrip("/")
    elif isinstance(value, dict):
        yield from uris_in(list(value.values()))
    elif isinstance(value, list):
        for each in value:
            yield from uris_in(each)


def _is_named(home: Path, path: Path, identifier: str, named: Collection[str]) -> bool:
    """Whether a URI leads to the object. A prefix counts that holds the execution's ID: where all
    jobs leave their results is named by each of them."""
    uri = f"s3://{path.relative_to(home / 's3').as_posix()}"
    while identifier in uri:
        if uri in named:
            return True
        uri = uri.rpartition("/")[0]
    return False


def _remove(result: ExecutionResult, objects: Iterable[Path], store: Path) -> None:
    with Journal(result.folder).alive():
        for path in objects:
            path.unlink(missing_ok=True)
            for folder in path.parents:
                if folder == store or any(folder.iterdir()):
                    break
                folder.rmdir()
        shutil.rmtree(result.folder)
