"""The files of an execution, from which it can be read, listed and resumed.

    HOME/executions/ID/execution.json    status, parameters, order of the steps
                       definition.json   the definition as it was given
                       options.json      what it runs with (`local/options.py`)
                       steps/NAME.json   one StepResult each, written at every change
                       jobs/JOB/         the jobs' sandboxes
                       alive.lock        locked as long as a runner works on the execution

Every write is atomic, so whatever kills the runner, the files hold what had been finished.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from compilegate.document.model import Scalar
from compilegate.execution.result import ExecutionResult, StepFailure, StepResult
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.job.files import try_lock, write_json
from compilegate.local.errors import ExecutionError

SCHEMA_VERSION = 1

_INTERRUPTED = "the runner was interrupted"
_FOLDERS = ("cache", "environments", "executions", "locks", "registry", "s3")
_STAYS_OF_A_JOB = (
    "log.txt",
    "root",
    "opt/ml/code",
    "opt/ml/config",
    "opt/ml/input/config",
    "opt/ml/output/failure",
    "opt/ml/output/message",
)
"""Files that stay of a job that ended; `root` is what it wrote outside its folders."""


@dataclass(frozen=True)
class Journal:
    folder: Path

    @property
    def jobs(self) -> Path:
        return self.folder / "jobs"

    @property
    def definition(self) -> Path:
        """The definition as it was given when the execution started."""
        return self.folder / "definition.json"

    def write_execution(self, result: ExecutionResult) -> None:
        """Keep everything but the steps' states."""
        types = {name: step.type for name, step in result.steps.items()}
        document = {"schema_version": SCHEMA_VERSION, **vars(result), "steps": types}
        del document["folder"]  # it may be moved
        write_json(self.folder / "execution.json", document)

    def write_step(self, step: StepResult) -> None:
        document = json.loads(json.dumps(asdict(step), default=str))  # paths become text
        write_json(self.folder / "steps" / f"{step.name}.json", document)

    def read(self) -> ExecutionResult:
        """The execution as it is: without a runner it is not executing. Raises ExecutionError."""
        result = self.read_files()
        if result.status is ExecutionStatus.EXECUTING and not self.is_alive():
            # Its runner died without a word.
            return replace(result, status=ExecutionStatus.STOPPED, failure=_INTERRUPTED)
        return result

    def read_files(self) -> ExecutionResult:
        path = self.folder / "execution.json"
        try:
            raw = json.loads(path.read_bytes())
            version = raw.pop("schema_version")
            if version != SCHEMA_VERSION:
                raise ExecutionError(
                    f"{path} has schema version {version!r}, expected {SCHEMA_VERSION}"
                )
            raw["steps"] = {
                name: self._read_step(name, kind) for name, kind in raw["steps"].items()
            }
            raw["status"] = ExecutionStatus(raw["status"])
            return ExecutionResult(**raw, folder=self.folder)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ExecutionError(f"{path} cannot be read: {error!r}") from error

    def _read_step(self, name: str, kind: str) -> StepResult:
        path = self.folder / "steps" / f"{name}.json"
        if not path.is_file():
            return StepResult(name, kind)
        raw: dict[str, Any] = json.loads(path.read_bytes())
        raw["status"] = StepStatus(raw["status"])
        raw["log"] = _path(raw["log"])
        raw["failure"] = _failure(raw["failure"])
        return StepResult(**raw)

    def drop_sandboxes(self) -> None:
        """Remove what ended jobs leave but for their logs, code and messages. Inputs, models and
        outputs lie in the object store, as far as the service would store them."""
        for sandbox in self.jobs.glob("*/"):
            _drop_others(sandbox, sandbox)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Work on the execution. Raises ExecutionError when another runner does."""
        file = try_lock(self._lock_file)
        if file is None:
            raise ExecutionError(f"execution {self.folder.name} is running in another process")
        with file:
            file.truncate(0)
            file.write(str(os.getpid()).encode())
            file.flush()
            yield

    def is_alive(self) -> bool:
        file = try_lock(self._lock_file, shared=True)
        if file is not None:
            file.close()
        return file is None

    def stop(self) -> None:
        """Interrupt the runner that works on the execution. Raises ExecutionError without one."""
        if not self.is_alive():
            raise ExecutionError(f"execution {self.folder.name} is not running")
        os.kill(int(self._lock_file.read_bytes()), signal.SIGTERM)

    @property
    def _lock_file(self) -> Path:
        return self.folder / "alive.lock"


def _drop_others(folder: Path, sandbox: Path) -> None:
    for path in folder.iterdir():
        name = path.relative_to(sandbox).as_posix()
        is_folder = path.is_dir() and not path.is_symlink()
        if is_folder and any(each.startswith(f"{name}/") for each in _STAYS_OF_A_JOB):
            _drop_others(path, sandbox)
        elif is_folder and name not in _STAYS_OF_A_JOB:
            shutil.rmtree(path, ignore_errors=True)
        elif name not in _STAYS_OF_A_JOB:
            path.unlink(missing_ok=True)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _failure(raw: Mapping[str, Any] | None) -> StepFailure | None:
    if not raw:
        return None
    log, lines = _path(raw["log"]), tuple(raw["last_lines"])
    return StepFailure(raw["sentence"], log, lines, raw["unread"])


def new_execution(
    folder: Path, pipeline_name: str, parameters: Mapping[str, Scalar], started: float
) -> ExecutionResult:
    """An execution whose folder is yet to be made, and none of whose steps has started."""
    return ExecutionResult(
        execution_id=folder.name,
        pipeline_name=pipeline_name,
        status=ExecutionStatus.EXECUTING,
        steps={},
        parameters=parameters,
        failed_by=None,
        failure=None,
        folder=folder,
        started=started,
        ended=None,
    )


def journal_of(home: Path, execution_id: str) -> Journal:
    folder = home / "executions" / execution_id
    if not re.fullmatch(r"[a-z0-9]+", execution_id) or not is_execution(folder):
        raise ExecutionError(f"there is no execution {execution_id!r} in {home}")
    return Journal(folder)


def check_writable(home: Path) -> None:
    """Raise ExecutionError where a folder of the home may not be written to. It is for the start: a
    step may take hours to get as far as the cache or the registry."""
    folders = [home, *(home / name for name in _FOLDERS), *(home / "registry").glob("*")]
    faults = [
        f"{folder} cannot be written to: this user has no permission"
        for folder in folders
        if folder.is_dir() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    ]
    if faults:
        raise ExecutionError(*faults)


def is_execution(folder: Path) -> bool:
    return (folder / "execution.json").is_file()


def resumable_steps(result: ExecutionResult) -> Mapping[str, StepResult]:
    """The steps as a resumed execution starts from them: finished ones kept, the others anew."""
    return {
        name: step
        if step.status is StepStatus.SUCCEEDED
        else StepResult(name, step.type, attempts=step.attempts)
        for name, step in result.steps.items()
    }
