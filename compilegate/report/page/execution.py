"""The page of an execution that came to no verdict: why it ended, what to do, what each step did.

A definition from elsewhere has no gate, and a failed training never reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compilegate.report import formats
from compilegate.report.about import About, Span, facts_of
from compilegate.report.charts import timeline_chart
from compilegate.report.page.causes import reason_of, remedy_of
from compilegate.report.page.rendering import environment


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
    failure: str | None = None
    """Why it failed, as it is known from outside the job: an exit code, a missing input."""
    last_lines: Sequence[str] = ()
    """What it printed last."""
    log: str | None = None
    """Where all is that it printed."""

    @property
    def reached(self) -> bool:
        """Whether it took its turn."""
        return bool(self.seconds or self.cached or self.failure)

    @property
    def reason(self) -> str | None:
        """What went wrong, in the words of whoever knew best."""
        return None if self.failure is None else reason_of(self.failure, self.last_lines)

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return remedy_of((self.reason or "", *reversed(self.last_lines), self.failure or ""))


@dataclass(frozen=True)
class ExecutionFacts:
    """One execution without a verdict."""

    pipeline: str
    status: str
    failure: str | None
    """Why it did not succeed, where no step says so; a Fail step's message may have several
    lines."""
    steps: Sequence[StepFacts]
    about: About = field(default_factory=About)
    resume: str | None = None
    """The command that continues it; None where it cannot be continued."""

    @property
    def failed(self) -> list[StepFacts]:
        """The steps that failed, in their order."""
        return [step for step in self.steps if step.failure is not None]

    @property
    def headline(self) -> str:
        """What became of it, in one sentence: the reason, where there is one."""
        if self.failed:
            first = self.failed[0]
            more = len(self.failed) - 1
            others = f" ({more} more step{'' if more == 1 else 's'} failed)" if more else ""
            return f"{first.name} failed: {first.reason}{others}"
        if self.failure:
            return self.failure.splitlines()[0]
        return f"{self.pipeline}: {self.status}"


def render_execution_html(facts: ExecutionFacts) -> str:
    """A page that needs nothing from anywhere, like that of a verdict."""
    return (
        environment()
        .get_template("execution.html.jinja")
        .render(
            execution=facts,
            took=took,
            about=facts.about,
            facts=facts_of(facts.about),
            timeline=timeline_chart(
                facts.about.spans,
                _colours(facts.about.spans),
                title="When each step ran",
                identity="timeline",
            ),
            ran=[step for step in facts.steps if step.reached],
            left=[step for step in facts.steps if not step.reached],
        )
    )


def render_execution_markdown(facts: ExecutionFacts) -> str:
    """The same facts as Markdown."""
    lines = [f"# {_flat(facts.headline)}", ""]
    lines += [f"Pipeline {facts.pipeline}, {facts.status}."]
    lines += [f"What to do: {facts.failed[0].remedy}"] if facts.failed else []
    lines += [f"Then continue it: `{facts.resume}`"] if facts.resume else []
    lines += [f"- {fact.name}: {_flat(fact.value)}" for fact in facts_of(facts.about)]
    lines += ["", "| Step | Type | Status | Took |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {step.name} | {step.type} | {step.status} | {took(step)} |" for step in facts.steps
    ]
    for step in facts.steps:
        if step.metrics:
            values = ", ".join(f"{name} {value:.6g}" for name, value in step.metrics.items())
            lines += ["", f"{step.name}: {values}"]
        if step.failure is not None:
            # Indented, a job's own output is shown as it is and can be no markup.
            lines += ["", f"{step.name} failed:", ""]
            lines += [f"    {line}" for line in step.failure.splitlines()]
            lines += [f"      {line}" for line in step.last_lines]
            lines += [f"    log: {step.log}"] if step.log else []
    return "\n".join(lines) + "\n"


def took(step: StepFacts) -> str:
    """How long, or that it took nothing because an earlier result stood in."""
    if step.cached:
        return "from the cache"
    return formats.seconds(step.seconds) if step.seconds else formats.NOTHING


def _colours(spans: Sequence[Span]) -> dict[str, str]:
    arms = dict.fromkeys(span.arm for span in spans if span.arm is not None)
    return {arm: f"arm-{index % 8}" for index, arm in enumerate(arms)}


def _flat(text: str) -> str:
    """On one line, with what Markdown or HTML would interpret escaped."""
    return "".join(
        f"\\{character}" if character in "\\`*_{}[]<>#|!~&$" else character
        for character in " ".join(text.split())
    )
