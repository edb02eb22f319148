"""A Lambda step's call: the request, a process for it, and its outputs, which are checked.

HOME/executions/ID/functions/STEP/      event.json, result.json, log.txt
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.model import OutputParameter, matches
from compilegate.document.reading import refuse_constant
from compilegate.execution.failure import StepFailure
from compilegate.local.aws.variables import NO_VARIABLES, JobVariables
from compilegate.local.errors import StepRequestError
from compilegate.local.home.functions import Handler
from compilegate.local.jobs.attempt import AttemptResult
from compilegate.local.jobs.launcher import JobCommand, JobEnd, RunningJob, short_name

MOST_SECONDS = 600
"""What SageMaker Pipelines gives a function."""

_PROGRAM = Path(__file__).with_name("invoke.py")
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")
"""No credentials and no settings of this shell: a function has those of its role."""


@dataclass(frozen=True)
class FunctionCall:
    """One call of a step's handler."""

    arn: str
    handler: Handler
    event: Mapping[str, Any]
    outputs: Sequence[OutputParameter]
    folder: Path
    grace_seconds: float
    variables: JobVariables = NO_VARIABLES
    """What the execution adds to the function's environment."""

    @property
    def log(self) -> Path:
        """What the handler prints."""
        return self.folder / "log.txt"

    def run(self, running: RunningJob, on_line: Callable[[str], None]) -> AttemptResult:
        """Call it. A failure of any kind is a result, not an exception."""
        return outcome_of(
            lambda: running.run(self._prepared(), self.log, on_line),
            given=lambda: {"OutputParameters": checked(self._returned(), self.outputs)},
            why=_failure,
            log=self.log,
        )

    def _prepared(self) -> JobCommand:
        shutil.rmtree(self.folder, ignore_errors=True)
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True)
        event, result = self.folder / "event.json", self.folder / "result.json"
        event.write_text(json.dumps(dict(self.event), allow_nan=False), encoding="utf-8")
        file = str(self.handler.file.resolve())
        alias = short_name(temporary)
        own = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return JobCommand(
            argv=[
                *(sys.executable, str(_PROGRAM), file, self.handler.function, self.arn),
                *(str(event), str(result), str(MOST_SECONDS)),
            ],
            working_directory=str(self.folder),
            environment={
                **self.variables.merged({**own, "PYTHONUNBUFFERED": "1"}, {}),
                "TMPDIR": str(alias.name),
                **self.handler.environment,
            },
            cpus=(),
            max_seconds=MOST_SECONDS,
            grace_seconds=self.grace_seconds,
            alias=alias,
        )

    def _returned(self) -> Any:
        try:
            text = (self.folder / "result.json").read_text(encoding="utf-8")
            return json.loads(text, parse_constant=refuse_constant)
        except (OSError, ValueError, RecursionError) as error:
            raise StepRequestError(f"what the function returned cannot be read: {error}") from error


def outcome_of(
    run: Callable[[], JobEnd],
    *,
    given: Callable[[], dict[str, Any]],
    why: Callable[[JobEnd], str],
    log: Path,
) -> AttemptResult:
    """What came of a call: what it has given, or, of one that did not succeed, why."""
    try:
        end = run()
        if end.succeeded:
            return AttemptResult("Completed", None, None, given())
    except StepRequestError as error:
        return AttemptResult("Failed", None, StepFailure(str(error), log), {})
    except OSError as error:
        return AttemptResult("Failed", None, StepFailure(f"it could not be run: {error}", log), {})
    status = "Stopped" if end.reason == "stopped" else "Failed"
    return AttemptResult(status, None, StepFailure(why(end), log, end.last_lines), {})


def checked(returned: Any, declared: Sequence[OutputParameter]) -> dict[str, Any]:
    """The declared outputs of what a handler returned. Raises StepRequestError."""
    if not declared:
        return {}
    if not isinstance(returned, dict):
        raise StepRequestError(
            f"the function returned {returned!r:.60}, expected an object with "
            f"{', '.join(output.name for output in declared)}"
        )
    for output in declared:
        if output.name not in returned:
            there = ", ".join(map(str, returned)) or "nothing"
            raise StepRequestError(f"the function returned no {output.name}, but {there:.200}")
        if not matches(returned[output.name], output.type):
            raise StepRequestError(
                f"the function returned {output.name} = {returned[output.name]!r:.60}, declared "
                f"as {output.type}"
            )
    return {output.name: returned[output.name] for output in declared}


def _failure(end: JobEnd) -> str:
    if end.reason == "not started":
        return f"the function could not be started: {end.error}"
    if end.reason == "timeout":
        return f"the function ran longer than {MOST_SECONDS // 60} minutes"
    if end.reason == "stopped":
        return "the function was stopped"
    said = next((line for line in reversed(end.last_lines) if line.strip()), "")
    return f"the function failed: {said}" if said else f"the function ended with code {end.code}"
