"""Which file here stands for a Lambda function, by its ARN; and what its process gets beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from compilegate.local.errors import StepRequestError

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
            f"handler {text!r:.80} names the function {function!r:.40}, allowed: FILE.py, or "
            "FILE.py:FUNCTION"
        )
    return Handler(Path(file), function)


def find_handler(arn: str, sources: FunctionSources) -> Handler:
    """The handler that stands for a function. Raises StepRequestError where none does."""
    for pattern, handler in sources.patterns:
        if fnmatchcase(arn, pattern):
            if not handler.file.is_file():
                raise StepRequestError(
                    f"the function {arn} is {handler.file} here, which is no file"
                )
            return handler
    raise StepRequestError(
        f"no file here stands for the function {arn}; name the file of its handler: "
        "--function 'PATTERN=FILE.py' or 'PATTERN=FILE.py:FUNCTION'"
    )
