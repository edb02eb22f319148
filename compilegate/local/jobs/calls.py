"""Calls that stand for a step: a Lambda function's handler, or a command of the user's.

HOME/executions/ID/functions/STEP/      request.json, result.json, log.txt
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from compilegate.document.model import OutputParameter, Step, matches
from compilegate.document.reading import refuse_constant
from compilegate.execution.result import StepFailure
from compilegate.local.errors import StepRequestError
from compilegate.local.jobs.attempt import AttemptResult
from compilegate.local.jobs.environment import JobVariables
from compilegate.local.jobs.launcher import JobCommand, JobEnd, RunningJob, short_name

_PROGRAM = Path(__file__).with_name("invoke.py")
_REQUEST, _RESULT, _LOG = "request.json", "result.json", "log.txt"
DEFAULT_HANDLER = "lambda_handler"


@dataclass(frozen=True)
class Handler:
    file: Path
    function: str = DEFAULT_HANDLER
    environment: Mapping[str, str] = field(default_factory=dict)


def parse_handler(text: str) -> Handler:
    """`FILE.py` or `FILE.py:FUNCTION`."""
    file, colon, function = text.rpartition(":")
    if not colon or "/" in function or function.endswith(".py"):
        file, function = text, DEFAULT_HANDLER
    if not function.isidentifier():
        raise StepRequestError(
            f"handler {text!r:.80} names the function {function!r:.40}, expected "
            "FILE.py or FILE.py:FUNCTION"
        )
    return Handler(Path(file), function)


def find_handler(arn: str, sources: Sequence[tuple[str, Handler]]) -> Handler:
    """The handler that stands for a function. Raises StepRequestError where none does."""
    for pattern, handler in sources:
        if fnmatchcase(arn, pattern):
            if not handler.file.is_file():
                raise StepRequestError(
                    f"the function {arn} stands for {handler.file}, which is not a file"
                )
            return handler
    raise StepRequestError(
        f"no file is named for the function {arn}; name its handler's: "
        "--function 'PATTERN=FILE.py' or 'PATTERN=FILE.py:FUNCTION'"
    )


@dataclass(frozen=True, kw_only=True)
class Call:
    """A process of its own, on any core, with a folder for what it reads and writes."""

    kind: str
    argv: Sequence[str]
    working_directory: Path
    variables: Mapping[str, str]
    seconds: int
    """After so many it is stopped."""
    request: Mapping[str, Any]
    """What it reads, a function's event for one."""
    outputs: Sequence[OutputParameter]
    folder: Path
    grace_seconds: float

    @property
    def log(self) -> Path:
        return self.folder / _LOG

    def run(self, running: RunningJob, on_line: Callable[[str], None]) -> AttemptResult:
        """Call it. A failure of any kind is a result, not an exception."""
        end: JobEnd | None = None
        try:
            end = running.run(self._prepare(), self.log, on_line)
            if end.succeeded:
                return AttemptResult("Completed", None, None, self._properties())
            why = f"the {self.kind} {self._why(end)}"
        except StepRequestError as error:
            why = str(error)
        except OSError as error:
            why = f"the {self.kind} could not be run: {error}"
        is_stopped = end is not None and end.reason == "stopped"
        failure = StepFailure(why, self.log, () if end is None else end.last_lines)
        return AttemptResult("Stopped" if is_stopped else "Failed", None, failure, {})

    def _prepare(self) -> JobCommand:
        """Write what the call reads into its folder, which is emptied; how to start it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "tmp").mkdir(parents=True)
        text = json.dumps(dict(self.request), allow_nan=False)
        (self.folder / _REQUEST).write_text(text, encoding="utf-8")
        alias = short_name(self.folder / "tmp")
        return JobCommand(
            argv=self.argv,
            working_directory=str(self.working_directory),
            environment={"PYTHONUNBUFFERED": "1", "TMPDIR": str(alias.name), **self.variables},
            cpus=(),
            max_seconds=self.seconds,
            grace_seconds=self.grace_seconds,
            alias=alias,
        )

    def _properties(self) -> dict[str, Any]:
        """What later steps read of it: what it gave, and a command's request for the rest. Raises
        StepRequestError."""
        found: Any = {}
        result = self.folder / _RESULT
        try:
            if result.is_file():
                found = json.loads(result.read_bytes(), parse_constant=refuse_constant)
        except (OSError, ValueError, RecursionError) as error:
            raise StepRequestError(
                f"the result of the {self.kind}, {result}, cannot be read: {error}"
            ) from error
        if not isinstance(found, dict):
            raise StepRequestError(
                f"the {self.kind} wrote {found!r:.60} to {result}, expected an object"
            )
        if self.outputs or "OutputParameters" in found:
            given = found.get("OutputParameters")
            found["OutputParameters"] = _checked(given, self.outputs, self.kind)
        return {**(self.request if self.kind == "command" else {}), **found}

    def _why(self, end: JobEnd) -> str:
        printed = next((line for line in reversed(end.last_lines) if line.strip()), "")
        reasons = {
            "not started": f"could not be started: {end.error}",
            "timeout": f"ran longer than {self.seconds} seconds",
            "stopped": "was stopped",
            "exited": f"failed: {printed}" if self.kind == "function" and printed else None,
        }
        return reasons[end.reason] or f"ended with code {end.code}"


def function_call(
    step: Step,
    arn: str,
    handler: Handler,
    *,
    request: Mapping[str, Any],
    folder: Path,
    grace_seconds: float,
    variables: JobVariables,
) -> Call:
    """The call of a Lambda step's handler; the execution's `variables` lead it to the store."""
    seconds = 600  # what SageMaker Pipelines gives a function
    code = [str(handler.file.resolve()), handler.function, arn]
    files = [str(folder / _REQUEST), str(folder / _RESULT), str(seconds)]
    return Call(
        kind="function",
        argv=[sys.executable, str(_PROGRAM), *code, *files],
        working_directory=folder,
        variables={**variables.merged(_shell_variables(), {}), **handler.environment},
        seconds=seconds,
        request=request,
        outputs=step.output_parameters,
        folder=folder,
        grace_seconds=grace_seconds,
    )


def command_call(
    step: Step,
    command: str,
    *,
    request: Mapping[str, Any],
    objects: Path,
    folder: Path,
    grace_seconds: float,
) -> Call:
    """The run of a step's command, by /bin/sh in the folder that `compilegate run` was started in.

    It reads the step's request from $COMPILEGATE_REQUEST, finds objects below $COMPILEGATE_S3, and
    may write what the step gives, a JSON object, to $COMPILEGATE_RESULT.
    """
    own = {
        "COMPILEGATE_STEP": step.name,
        "COMPILEGATE_REQUEST": str(folder / _REQUEST),
        "COMPILEGATE_RESULT": str(folder / _RESULT),
        "COMPILEGATE_S3": str(objects),
    }
    return Call(
        kind="command",
        argv=["/bin/sh", "-c", command],
        working_directory=Path.cwd(),
        variables={**_shell_variables("VIRTUAL_ENV"), **own},
        seconds=432_000,  # five days, the service's own limit of a processing job
        request=request,
        outputs=step.output_parameters,
        folder=folder,
        grace_seconds=grace_seconds,
    )


def _shell_variables(*names: str) -> dict[str, str]:
    """Harmless variables of this shell: no credentials, no settings."""
    passed_on = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", *names)
    return {name: os.environ[name] for name in passed_on if name in os.environ}


def _checked(returned: Any, declared: Sequence[OutputParameter], kind: str) -> dict[str, Any]:
    names = [output.name for output in declared]
    if declared and not isinstance(returned, dict):
        raise StepRequestError(
            f"the {kind} returned {returned!r:.60}, expected an object with {', '.join(names)}"
        )
    for output in declared:
        if output.name not in returned:
            there = ", ".join(map(str, returned)) or "nothing"
            raise StepRequestError(f"the {kind} returned no {output.name}, but {there:.200}")
        if not matches(returned[output.name], output.type):
            raise StepRequestError(
                f"the {kind} returned {output.name} = {returned[output.name]!r:.60}, declared "
                f"as {output.type}"
            )
    return {name: returned[name] for name in names}
