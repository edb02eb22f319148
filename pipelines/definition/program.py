"""What the project's own training program needs of an image. Pure.

`training/` is PyTorch, for Python 3.9 and PyTorch 1.13 and newer, beside Hugging Face Transformers.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.catalog import Finding
from pipelines.catalog.compilers import Stack
from pipelines.catalog.findings import refusal

OLDEST_PYTHON = (3, 9)
OLDEST_TORCH = (1, 13)


def program_findings(stack: Stack, *, as_it_is: bool) -> Iterator[Finding]:
    """Why the program cannot run in the image of a stack; `as_it_is` with nothing added to it."""
    python = stack.image.python
    if stack.framework != "pytorch":
        yield refusal(
            "version",
            f"the project's own training program is written for PyTorch, not {stack.label}",
            "take a PyTorch stack, or bring a training program of your own",
        )
    elif _numbers(stack.version) < OLDEST_TORCH or (
        python is not None and _numbers(python) < OLDEST_PYTHON
    ):
        yield refusal(
            "version",
            f"the project's own training program needs Python {_dotted(OLDEST_PYTHON)} and PyTorch "
            f"{_dotted(OLDEST_TORCH)} or newer, and the image of {stack.label} has Python {python}",
            "take a newer stack, or bring a training program of your own",
        )
    elif as_it_is:
        yield refusal(
            "extends_image",
            f"the project's own training program needs packages that AWS's image of {stack.label} "
            "does not bring",
            "leave image out, so that the image of containers/ that extends it is taken",
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor: `1.13.1` as (1, 13)."""
    return tuple(int(part) for part in version.split(".")[:2])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)
