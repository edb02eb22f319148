"""The report of an execution that came to no verdict: what each step did, and why it ended.

A definition from elsewhere has no gate, and a failed training never reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined


@dataclass(frozen=True)
class StepFacts:
    """One step, in words and numbers."""

    name: str
    type: str
    status: str
    seconds: float
    cached: bool
    metrics: Mapping[str, float]
    """Last values of the job's metrics, by name."""
    failure: Sequence[str]
    """Why it failed, line by line; nothing if it did not."""


@dataclass(frozen=True)
class ExecutionFacts:
    """One execution without a verdict."""

    execution_id: str
    pipeline: str
    status: str
    failure: str | None
    """A Fail step's message may have several lines."""
    steps: Sequence[StepFacts]

    @property
    def sentence(self) -> str:
        """What became of it."""
        why = f": {self.failure.splitlines()[0]}" if self.failure else ""
        return f"Execution {self.execution_id} of {self.pipeline}: {self.status}{why}"


def render_execution_html(facts: ExecutionFacts) -> str:
    """A page that needs nothing from anywhere, like that of a verdict."""
    environment = Environment(
        loader=PackageLoader("compilegate.report"), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("execution.html.jinja").render(facts=facts)


def render_execution_markdown(facts: ExecutionFacts) -> str:
    """The same facts as Markdown."""
    lines = [
        f"# {facts.sentence}",
        "",
        "| Step | Type | Status | Took |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {step.name} | {step.type} | {step.status} | {took(step)} |" for step in facts.steps
    ]
    for step in facts.steps:
        if step.metrics:
            values = ", ".join(f"{name} {value:.6g}" for name, value in step.metrics.items())
            lines += ["", f"{step.name}: {values}"]
        if step.failure:
            # Indented, a job's own output is shown as it is and can be no markup.
            lines += ["", f"{step.name} failed:", ""]
            lines += [f"    {line}" for line in step.failure]
    return "\n".join(lines) + "\n"


def took(step: StepFacts) -> str:
    """How long, or that it took nothing because an earlier result stood in."""
    return "from the cache" if step.cached else f"{step.seconds:.1f} s"
