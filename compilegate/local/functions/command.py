"""A command of the user's that stands for a step: a quality check, a callback, an EMR step.

HOME/executions/ID/functions/STEP/      request.json, result.json, log.txt
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.model import OutputParameter
from compilegate.document.reading import refuse_constant
from compilegate.local.errors import StepRequestError
from compilegate.local.functions.calling import checked, outcome_of
from compilegate.local.jobs.attempt import AttemptResult
from compilegate.local.jobs.launcher import JobCommand, JobEnd, RunningJob, short_name

_MOST_SECONDS = 432_000
"""Five days, the service's own limit of a processing job."""

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", "VIRTUAL_ENV")


@dataclass(frozen=True)
class CommandCall:
    """One run of a step's command, by /bin/sh in the folder that `compilegate run` was started in.

    It reads the step's request from $COMPILEGATE_REQUEST, finds objects below $COMPILEGATE_S3, and
    may write what the step gives, a JSON object, to $COMPILEGATE_RESULT.
    """

    step: str
    command: str
    request: Mapping[str, Any]
    outputs: Sequence[OutputParameter]
    objects: Path
    folder: Path
    grace_seconds: float

    @property
    def log(self) -> Path:
        """What the command prints."""
        return self.folder / "log.txt"

    def run(self, running: RunningJob, on_line: Callable[[str], None]) -> AttemptResult:
        """Run it. A failure of any kind is a result, not an exception."""
        return outcome_of(
            lambda: running.run(self._prepared(), self.log, on_line),
            given=self._given,
            why=_failure,
            log=self.log,
        )

    def _prepared(self) -> JobCommand:
        shutil.rmtree(self.folder, ignore_errors=True)
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True)
        request = self.folder / "request.json"
        request.write_text(json.dumps(dict(self.request), allow_nan=False), encoding="utf-8")
        alias = short_name(temporary)
        own = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return JobCommand(
            argv=["/bin/sh", "-c", self.command],
            working_directory=str(Path.cwd()),
            environment={
                **own,
                "PYTHONUNBUFFERED": "1",
                "TMPDIR": str(alias.name),
                "COMPILEGATE_STEP": self.step,
                "COMPILEGATE_REQUEST": str(request),
                "COMPILEGATE_RESULT": str(self.folder / "result.json"),
                "COMPILEGATE_S3": str(self.objects),
            },
            cpus=(),
            max_seconds=_MOST_SECONDS,
            grace_seconds=self.grace_seconds,
            alias=alias,
        )

    def _given(self) -> dict[str, Any]:
        """The request's members, and those that the command wrote."""
        result = self.folder / "result.json"
        found: Any = {}
        if result.is_file():
            try:
                found = json.loads(result.read_bytes(), parse_constant=refuse_constant)
            except (OSError, ValueError, RecursionError) as error:
                raise StepRequestError(
                    f"what the command wrote to $COMPILEGATE_RESULT cannot be read: {error}"
                ) from error
        if not isinstance(found, dict):
            raise StepRequestError(
                f"the command wrote {found!r:.60} to $COMPILEGATE_RESULT, expected an object"
            )
        if self.outputs:
            returned = checked(found.get("OutputParameters"), self.outputs)
            found = {**found, "OutputParameters": returned}
        return {**self.request, **found}


def _failure(end: JobEnd) -> str:
    if end.reason == "not started":
        return f"the command could not be started: {end.error}"
    if end.reason == "timeout":
        return f"the command ran longer than {_MOST_SECONDS} seconds"
    if end.reason == "stopped":
        return "the command was stopped"
    return f"the command ended with code {end.code}"
