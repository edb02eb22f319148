"""The errors of this project, and the reason in SageMaker's failure file. After an `InputError`
every arm would fail; an `ArmError` is evidence about this arm alone."""

from __future__ import annotations

import os
import signal
import sys
from typing import Mapping


class CompilegateError(Exception):
    """The root of all errors with which this project refuses its input or gives up, with a sentence
    for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(str(problem) for problem in self.args)

    def __str__(self) -> str:
        return "; ".join(self.problems)

    def within(self, place: object) -> CompilegateError:
        """The same error, each problem with the name of the file that it was found in."""
        return type(self)(*(f"{place}: {problem}" for problem in self.problems))


class InputError(CompilegateError):
    """What the job was given cannot be used. The message names it and says what is allowed."""


class ArmError(CompilegateError):
    """The arm could not be trained: its compiler, its precision, its learning rate."""


class NonFiniteLossError(ArmError):
    """The training loss became NaN or infinite. On a CPU the weights were not updated with it."""

    def __init__(self, *problems: str, step: int | None = None) -> None:
        """`step` is the number of the first step with such a loss, from 0."""
        super().__init__(*problems)
        self.step = step


class CompilerError(ArmError):
    """The compiler is not available here, or gave up."""


def one_sentence(error: BaseException) -> str:
    """The error as a single line: its first line of text, after its type unless it is ours."""
    text = first_line(error)
    if isinstance(error, (InputError, ArmError)):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def first_line(error: BaseException) -> str:
    """An error's first line, and the next one where the first only announces it
    ("backend='inductor' raised:")."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])


_CAUSES: Mapping[int, str] = {
    signal.SIGKILL: "the machine may have run out of memory",
    signal.SIGTERM: "something outside of it ended it",
    signal.SIGINT: "somebody interrupted it",
    **dict.fromkeys(
        (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT),
        "machine code was wrong, as of a compiler or a library",
    ),
    signal.SIGILL: "machine code was made for another processor",
}


def killed_by(number: int) -> str:
    """What to say about a process that this signal ended."""
    name = next((each.name for each in signal.Signals if each == number), f"signal {number}")
    cause = _CAUSES.get(number)
    return f"killed by {name}" if cause is None else f"killed by {name}; {cause}"


def report_failure(reason: str, environment: Mapping[str, str]) -> None:
    """Give the reason on stderr, and in SageMaker's file ``failure`` where ``SM_OUTPUT_DIR``
    (``/opt/ml/output``) exists."""
    print(f"error: {reason}", file=sys.stderr, flush=True)
    folder = environment.get("SM_OUTPUT_DIR", "/opt/ml/output")
    if os.path.isdir(folder):
        with open(os.path.join(folder, "failure"), "w", encoding="utf-8") as file:
            file.write(reason[:1024])  # SageMaker shows so many characters
