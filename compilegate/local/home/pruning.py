"""Makes room in a home: executions that are old or large go, and nothing registered or cached."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import ExecutionStatus
from compilegate.local.errors import ExecutionError
from compilegate.local.home.journal import Journal, list_executions
from compilegate.local.home.registry import list_groups, list_packages

_ID = re.compile(r"(?<![A-Za-z0-9])[a-z0-9]{12}(?![A-Za-z0-9])")


@dataclass(frozen=True)
class Pruned:
    """An execution that was removed, or would be."""

    result: ExecutionResult
    size: int
    """The bytes on disk that this frees."""


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
            yield from _uris(package.description)
    for path in (home / "cache").rglob("*.json"):
        try:
            yield from _uris(json.loads(path.read_bytes()))
        except ValueError:
            continue  # it serves no step
    for result in staying:
        yield from _uris(result.parameters)
        for step in result.steps.values():
            yield from _uris(step.properties)


def _uris(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("s3://"):
        yield value.rstrip("/")
    elif isinstance(value, dict):
        yield from _uris(list(value.values()))
    elif isinstance(value, list):
        for each in value:
            yield from _uris(each)


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
