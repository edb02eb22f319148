"""The lines of an execution's progress, here and on SageMaker alike."""

from __future__ import annotations

import click


class StepLines:
    """`MINUTES:SECONDS  STEP  what happened`; the steps' column grows with the longest name."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, seconds: float, step: str, text: str) -> None:
        """Print one line; `seconds` is how long the execution had run."""
        minutes, rest = divmod(int(seconds), 60)
        self._width = max(self._width, len(step))
        click.echo(f"{minutes:4d}:{rest:02d}  {step:<{self._width}}  {text}")
