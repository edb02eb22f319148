"""Why an execution failed, in one sentence, and what to do about it. Pure.

A job's end is told by a chain of programs, each in its own words: an exit code, a path, a
traceback. People need the line that says what went wrong, and what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b")
_SAID = re.compile(r"^(?:error|fatal|usage error): ", re.IGNORECASE)
_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"out of memory|OutOfMemory|MemoryError|std::bad_alloc|SIGKILL|killed by signal 9"
        r"|exit code 137|Cannot allocate",
        "It needs more memory than there is: give the arm a smaller `batch_size` (`compilegate "
        "profile NAME --largest-batch` finds the largest that fits), run fewer jobs at once with "
        "`--max-parallel`, or choose a larger `instance_type`.",
    ),
    (
        r"ModuleNotFoundError|No module named|ImportError",
        "The image lacks a library: add it to the program's requirements.txt, or choose an image "
        "that has it.",
    ),
    (
        r"No space left|ENOSPC|disk quota",
        "The disk is full: free some of it, or raise `volume_gb` in [compute].",
    ),
    (
        r"FileNotFoundError|No such file or directory",
        "A file is not where the program looks for it: SM_CHANNEL_NAME says where a channel is, "
        "and of the program's own files those in its folder come along.",
    ),
    (
        r"MaxRuntimeInSeconds",
        "It was not done in time: raise `max_runtime_seconds` in [compute], or train for less.",
    ),
    (
        r"\bnan\b|not finite|non-finite|infinite",
        "Its numbers left the finite ones: lower the arm's `learning_rate`, clip gradients, or use "
        "a wider `precision`.",
    ),
    (
        r"without evidence|compilegate\.job",
        "The script lacks a call of compilegate.job: docs/programs.md shows the five lines.",
    ),
    (
        r"AccessDenied|not authorized|is not authorised|UnauthorizedOperation",
        "A role lacks a permission: the message names the action, and docs/aws.md the roles.",
    ),
    (
        r"CapacityError|CAPACITY_ERROR|InsufficientCapacity|ResourceLimitExceeded",
        "The account has no such machine at the moment, or no quota for it: try again later, ask "
        "for a higher quota, or choose another `instance_type`.",
    ),
    (
        r"InductorError|torch\._dynamo|torch\._inductor|BackendCompilerFailed|CppCompileError",
        'The compiler failed, and not the model: train with `compiler = "eager"` to make sure, '
        "or update the framework.",
    ),
    (
        r"CUDA error|no kernel image|CUDA driver",
        "The GPU, its driver or its libraries failed the job: `nvidia-smi` on the machine shows "
        "whether the driver fits the image.",
    ),
    (
        r"could not be started",
        "Its process could not be started: make sure that the image's environment still exists.",
    ),
)
"""(what a reason holds, what to do). The first that fits stands."""
_READ_ON = "Read the job's last lines below: what is named there is what to fix."


def reason_of(sentence: str, last_lines: Sequence[str]) -> str:
    """The line that says what went wrong: the last exception that was printed, else the last error
    message, else what is known from outside."""
    lines = [line.strip() for line in last_lines]
    for found in (_EXCEPTION, _SAID):
        told = next((line for line in reversed(lines) if found.match(line)), None)
        if told is not None:
            return _SAID.sub("", told)
    return sentence


def remedy_of(texts: Iterable[str]) -> str:
    """What to do, by what the reason and the last lines say."""
    for text in texts:
        for pattern, remedy in _REMEDIES:
            if re.search(pattern, text):
                return remedy
    return _READ_ON
