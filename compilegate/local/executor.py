"""The target "here": starts, follows, resumes and stops executions on this machine."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import string
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compilegate.document.model import Scalar, parameter_values
from compilegate.document.reading import read_definition
from compilegate.document.step_types import REGISTER_MODEL
from compilegate.execution.executor import GATE_FILES
from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import ExecutionStatus
from compilegate.job.contract import REPROS_FOLDER, VERDICT_FILE
from compilegate.job.files import whole_file
from compilegate.local.checks import Checked
from compilegate.local.errors import ExecutionError, ObjectStoreError
from compilegate.local.home.executions import uris_in
from compilegate.local.home.journal import (
    check_writable,
    journal_of,
    new_execution,
    resumable_steps,
)
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import list_groups, list_packages
from compilegate.local.loop import Listener, carry_out
from compilegate.local.options import Options
from compilegate.local.run import LocalRun
from compilegate.local.selection import choose

_PIPELINE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")
_ALPHABET = string.ascii_lowercase + string.digits
_ENDED_WELL = {ExecutionStatus.SUCCEEDED, ExecutionStatus.COMPLETED_WITH_FAILURES}


@dataclass(frozen=True, kw_only=True)
class LocalExecutor(Options):
    """Executes SageMaker pipeline definitions (JSON, version 2020-12-01) without AWS and Docker.

    An execution is referred to by its id. A job that fails is no exception: it is in the result,
    with the reason.
    """

    home: Path
    """The folder of all state: executions, objects (`s3://`), registry, cache."""
    definition: bytes | str | None = None
    """What `start` executes."""

    def start(self, pipeline: str, parameters: Mapping[str, Scalar]) -> str:
        """Check everything, and write down an execution that `follow` carries out.

        Results are cached under the pipeline's name; text is read as the parameter's type. Raises
        RefusedDefinitionError with every reason why the definition cannot run here.
        """
        run = self._new(pipeline, parameters)
        if not _PIPELINE_NAME.fullmatch(pipeline):
            raise ExecutionError(
                f"the pipeline's name is {pipeline!r}, expected 1 to 256 letters, "
                "digits and single '-'"
            )
        check_writable(self._home)
        run.check()
        run.begin()
        return run.execution.execution_id

    def resume(self, reference: str, parameters: Mapping[str, Scalar]) -> str:
        """Reopen a stopped or failed execution: what had succeeded is kept.

        Raises ExecutionError when it does not exist, is running, has ended well, or was started
        with another definition, other parameters or other options than those that are given.
        """
        journal = journal_of(self._home, reference)
        with journal.alive():
            self.as_started(journal.folder)
            result, stored = journal.read_files(), journal.definition.read_bytes()
            if self.definition is not None and not _same_json(self.definition, stored):
                raise ExecutionError(
                    f"the definition is not the one that execution {reference} started with; start "
                    "a new execution, which takes finished steps with a CacheConfig from the cache"
                )
            declared, _ = read_definition(stored)
            given, _ = parameter_values(declared.parameters, parameters or result.parameters)
            if given != dict(result.parameters):
                raise ExecutionError(
                    f"the parameters are not those that execution {reference} started with: "
                    f"{dict(result.parameters)}"
                )
            if result.status in _ENDED_WELL:
                raise ExecutionError(
                    f"execution {reference} has ended ({result.status}): nothing to resume"
                )
            again = new_execution(
                journal.folder, result.pipeline_name, result.parameters, result.started
            )
            journal.write_execution(replace(again, steps=resumable_steps(result)))
        return reference

    def follow(self, reference: str, listener: Listener = lambda _event: None) -> ExecutionResult:
        """Carry the execution out in this process; the listener is called on the calling thread.

        Raises RefusedDefinitionError, ImageEnvironmentError when an environment cannot be built,
        and ExecutionError when another process carries it out, or with other options than these.
        """
        check_writable(self._home)
        journal = journal_of(self._home, reference)
        options = self.as_started(journal.folder)
        with journal.alive():
            result = journal.read_files()  # where nobody else can change it
            if result.status.ended:
                return result
            text = journal.definition.read_bytes()
            run = LocalRun(execution=result, text=text, home=self._home, options=options)
            return carry_out(run, listener)

    def left_out(self, reference: str) -> Mapping[str, str]:
        """The steps that an execution does not carry out by choice, and why."""
        journal = journal_of(self._home, reference)
        whole, _ = read_definition(journal.definition.read_bytes())
        options = self.as_started(journal.folder)
        return choose(whole, options.until, options.skip)[0]

    def explain(self, pipeline: str, parameters: Mapping[str, Scalar]) -> Checked:
        """What each step of the definition would do here; nothing is started or written."""
        return self._new(pipeline, parameters).checked

    def read(self, reference: str) -> ExecutionResult:
        """What became of an execution so far. Raises ExecutionError when there is none."""
        return journal_of(self._home, reference).read()

    def stop(self, reference: str) -> None:
        """Stop the process that carries an execution out, as Ctrl-C would."""
        journal_of(self._home, reference).stop()

    def fetch_verdict(self, result: ExecutionResult) -> bool:
        """Copy the gate's files beside the execution's other files, where one looks first."""
        store = ObjectStore(self._home / "s3")
        outputs = [step.properties.get("ProcessingOutputConfig") for step in result.steps.values()]
        for uri in uris_in(outputs):
            try:
                folder = store.path(uri)
            except ObjectStoreError:
                continue
            if (folder / VERDICT_FILE).is_file():
                files = [folder / name for name in GATE_FILES]
                files += folder.glob(f"{REPROS_FOLDER}/**/*")
                for file in filter(Path.is_file, files):
                    with whole_file(result.folder / file.relative_to(folder)) as part:
                        shutil.copyfile(file, part)
                return True
        return False

    def models(self, result: ExecutionResult) -> Sequence[str]:
        """The model packages that the execution registered, or found registered."""
        arns = {
            step.properties.get("ModelPackageArn")
            for step in result.steps.values()
            if step.type == REGISTER_MODEL
        }
        return [
            f"{package.group}/{package.version}, {package.approval_status}"
            for group in list_groups(self._home)
            for package in list_packages(self._home, group)
            if package.arn in arns
        ]

    def when_stopped(self, result: ExecutionResult) -> str:
        return f"stopped ({result.failure}); the steps that have succeeded are kept"

    @property
    def _home(self) -> Path:
        return self.home.resolve()

    def _new(self, pipeline: str, parameters: Mapping[str, Scalar]) -> LocalRun:
        text = self.definition
        if text is None:
            raise ExecutionError("a new execution needs a definition")
        text = text.encode() if isinstance(text, str) else text
        identifier = "".join(secrets.choice(_ALPHABET) for _ in range(12))  # as SageMaker's
        folder = self._home / "executions" / identifier
        execution = new_execution(folder, pipeline, parameters, time.time())
        return LocalRun(execution=execution, text=text, home=self._home, options=self)


def _same_json(left: bytes | str, right: bytes | str) -> bool:
    try:
        return bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False
