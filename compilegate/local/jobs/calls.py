"""Calls that stand for a step: a Lambda function's handler, or a command of the user's.

HOME/executions/ID/functions/STEP/      request.json, result.json, log.txt
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar

from compilegate.document.model import OutputParameter, matches
from compilegate.document.reading import refuse_constant
from compilegate.execution.result import StepFailure
from compilegate.local.aws.variables import NO_VARIABLES, JobVariables
from compilegate.local.errors import StepRequestError
from compilegate.local.jobs.attempt import AttemptResult
from compilegate.local.jobs.launcher import JobCommand, JobEnd, RunningJob, short_name

_PROGRAM = Path(__file__).with_name("invoke.py")
DEFAULT_HANDLER = "lambda_handler"


@dataclass(frozen=True)
class Handler:
    """A Python function in a file, and environment variables for it."""

    file: Path
    function: str = DEFAULT_HANDLER
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FunctionSources:
    """Which handler stands for the functions whose ARN matches a pattern; the first that does."""

    patterns: Sequence[tuple[str, Handler]] = ()


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


def find_handler(arn: str, sources: FunctionSources) -> Handler:
    """The handler that stands for a function. Raises StepRequestError where none does."""
    for pattern, handler in sources.patterns:
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
class Call(ABC):
    """One call: a process of its own, on any core, with a folder for what it reads and writes."""

    kind: ClassVar[str]
    seconds: ClassVar[int]
    """After so many it is stopped."""

    request: Mapping[str, Any]
    """What it reads, a function's event for one."""
    outputs: Sequence[OutputParameter]
    folder: Path
    grace_seconds: float

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.folder / "log.txt"

    @property
    def request_file(self) -> Path:
        """The file of its request, as JSON."""
        return self.folder / "request.json"

    @property
    def result(self) -> Path:
        """The file of what it returns, as JSON."""
        return self.folder / "result.json"

    def run(self, running: RunningJob, on_line: Callable[[str], None]) -> AttemptResult:
        """Call it. A failure of any kind is a result, not an exception."""
        end: JobEnd | None = None
        try:
            end = running.run(self._command(), self.log, on_line)
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

    @abstractmethod
    def _program(self) -> tuple[list[str], Path, dict[str, str]]:
        """The program with its arguments, where it starts, and its variables."""

    def _command(self) -> JobCommand:
        """Write what the call reads into its folder, which is emptied; how to start it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "tmp").mkdir(parents=True)
        text = json.dumps(dict(self.request), allow_nan=False)
        self.request_file.write_text(text, encoding="utf-8")
        alias = short_name(self.folder / "tmp")
        argv, working_directory, variables = self._program()
        return JobCommand(
            argv=argv,
            working_directory=str(working_directory),
            environment={"PYTHONUNBUFFERED": "1", "TMPDIR": str(alias.name), **variables},
            cpus=(),
            max_seconds=self.seconds,
            grace_seconds=self.grace_seconds,
            alias=alias,
        )

    def _properties(self) -> dict[str, Any]:
        """What later steps read of it: what it gave, and a command's request for the rest. Raises
        StepRequestError."""
        found: Any = {}
        try:
            if self.result.is_file():
                found = json.loads(self.result.read_bytes(), parse_constant=refuse_constant)
        except (OSError, ValueError, RecursionError) as error:
            raise StepRequestError(
                f"the result of the {self.kind}, {self.result}, cannot be read: {error}"
            ) from error
        if not isinstance(found, dict):
            raise StepRequestError(
                f"the {self.kind} wrote {found!r:.60} to {self.result}, expected an object"
            )
        if self.outputs or "OutputParameters" in found:
            found["OutputParameters"] = _checked(
                found.get("OutputParameters"), self.outputs, self.kind
            )
        return {**(self.request if self.kind == "command" else {}), **found}

    def _why(self, end: JobEnd) -> str:
        reasons = {
            "not started": f"could not be started: {end.error}",
            "timeout": f"ran longer than {self.seconds} seconds",
            "stopped": "was stopped",
        }
        return reasons.get(end.reason, f"ended with code {end.code}")


def _shell_variables(*names: str) -> dict[str, str]:
    """Harmless variables of this shell: no credentials, no settings."""
    passed_on = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", *names)
    return {name: os.environ[name] for name in passed_on if name in os.environ}


@dataclass(frozen=True, kw_only=True)
class FunctionCall(Call):
    """One call of a Lambda step's handler."""

    kind = "function"
    seconds = 600  # what SageMaker Pipelines gives a function

    arn: str
    handler: Handler
    variables: JobVariables = NO_VARIABLES
    """What the execution adds to the function's environment."""

    def _program(self) -> tuple[list[str], Path, dict[str, str]]:
        handler = [str(self.handler.file.resolve()), self.handler.function]
        files = [str(self.request_file), str(self.result)]
        argv = [sys.executable, str(_PROGRAM), *handler, self.arn, *files, str(self.seconds)]
        variables = self.variables.merged(_shell_variables(), {})
        return argv, self.folder, {**variables, **self.handler.environment}

    def _why(self, end: JobEnd) -> str:
        printed = next((line for line in reversed(end.last_lines) if line.strip()), "")
        return f"failed: {printed}" if end.reason == "exited" and printed else super()._why(end)


@dataclass(frozen=True, kw_only=True)
class CommandCall(Call):
    """One run of a step's command, by /bin/sh in the folder that `compilegate run` was started in.

    It reads the step's request from $COMPILEGATE_REQUEST, finds objects below $COMPILEGATE_S3, and
    may write what the step gives, a JSON object, to $COMPILEGATE_RESULT.
    """

    kind = "command"
    seconds = 432_000  # five days, the service's own limit of a processing job

    step: str
    command: str
    objects: Path

    def _program(self) -> tuple[list[str], Path, dict[str, str]]:
        own = {
            "COMPILEGATE_STEP": self.step,
            "COMPILEGATE_REQUEST": str(self.request_file),
            "COMPILEGATE_RESULT": str(self.result),
            "COMPILEGATE_S3": str(self.objects),
        }
        variables = {**_shell_variables("VIRTUAL_ENV"), **own}
        return ["/bin/sh", "-c", self.command], Path.cwd(), variables


def _checked(returned: Any, declared: Sequence[OutputParameter], kind: str) -> dict[str, Any]:
    """The declared outputs of what a call returned. Raises StepRequestError."""
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
