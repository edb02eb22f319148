"""The page of an execution that came to no verdict: why it ended, what to do, what each step did.

A definition from elsewhere has no gate, and a failed training never reaches it. Several programs
report a job's end, each in its own words: an exit code, a path, a traceback. People need the line
that says what went wrong, and what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compilegate.gate.findings import counted
from compilegate.report import formats
from compilegate.report.markdown import escaped, table
from compilegate.report.page import rendered
from compilegate.report.summary import About, facts_of

_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b")
_ERROR = re.compile(r"^(?:error|fatal|usage error): ", re.IGNORECASE)
_REMEDIES: Mapping[str, str] = {
    r"(?i:out ?of ?memory)|MemoryError|bad_alloc|SIGKILL|by signal 9|code 137|Cannot allocate": (
        "The job ran out of memory: give the arm a smaller `batch_size` (`compilegate profile NAME "
        "--largest-batch` finds the largest that fits), run fewer jobs at once with "
        "`--max-parallel`, or choose a larger `instance_type`."
    ),
    r"ModuleNotFoundError|No module named|ImportError": (
        "The image lacks a library: add it to requirements.txt, or choose an image that has it."
    ),
    r"No space left|ENOSPC|disk quota": (
        "The disk is full: free some space, or raise `volume_gb` in [compute]."
    ),
    r"FileNotFoundError|No such file or directory": (
        "The program looked for a file in the wrong place: read data from the folder in "
        "SM_CHANNEL_NAME, and keep the program's own files in its folder."
    ),
    r"MaxRuntimeInSeconds": (
        "The job took too long: raise `max_runtime_seconds` in [compute], or train for fewer steps."
    ),
    r"\bnan\b|not finite|non-finite|infinite": (
        "The loss became NaN or infinite: lower the arm's `learning_rate`, clip gradients, or use "
        "a wider `precision`."
    ),
    r"without evidence|compilegate\.job": (
        "The script does not call compilegate.job: add the five lines in docs/own-script.md."
    ),
    r"AccessDenied|not authorized|is not authorised|UnauthorizedOperation": (
        "A role lacks a permission: grant the action that the message names (roles: docs/aws.md)."
    ),
    r"CapacityError|CAPACITY_ERROR|InsufficientCapacity|ResourceLimitExceeded": (
        "The account has no such machine at the moment, or no quota for it: try again later, "
        "request a higher quota, or choose another `instance_type`."
    ),
    r"InductorError|torch\._dynamo|torch\._inductor|BackendCompilerFailed|CppCompileError": (
        'The compiler failed: train with `compiler = "eager"` to check that the model works '
        "without it, or update the framework."
    ),
    r"CUDA error|no kernel image|CUDA driver": (
        "The GPU, its driver or its libraries failed: check with `nvidia-smi` on the machine that "
        "the driver fits the image."
    ),
    r"could not be started": (
        "The job's process could not be started: check that the image's environment still exists."
    ),
}
"""Remedies by pattern of the reason; the first match is shown."""
_READ_ON = "Read the job's last lines below, and fix what they name."


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
    """The log of all that it printed."""

    @property
    def reached(self) -> bool:
        """Whether it took its turn."""
        return bool(self.seconds or self.cached or self.failure)

    @property
    def took(self) -> str:
        """How long it took, or that an earlier result was used."""
        if self.cached:
            return "from the cache"
        return formats.seconds(self.seconds) if self.seconds else formats.NOTHING

    @property
    def reason(self) -> str | None:
        """What went wrong: the last exception that was printed, else the last error message, else
        what is known from outside."""
        lines = [line.strip() for line in reversed(self.last_lines)]
        errors = (line for kind in (_EXCEPTION, _ERROR) for line in lines if kind.match(line))
        return self.failure and _ERROR.sub("", next(errors, self.failure))

    @property
    def remedy(self) -> str:
        """What to do about it, by the reason, else by what was printed."""
        texts = (self.reason or "", *reversed(self.last_lines), self.failure or "")
        found = (_REMEDIES[it] for text in texts for it in _REMEDIES if re.search(it, text))
        return next(found, _READ_ON)


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
            others = f" ({counted(more, 'more step')} failed)" if more else ""
            return f"{first.name} failed: {first.reason}{others}"
        if self.failure:
            return self.failure.splitlines()[0]
        return f"{self.pipeline}: {self.status}"


def render_execution_html(facts: ExecutionFacts) -> str:
    """A page that needs nothing from anywhere, like that of a verdict."""
    return rendered("execution.html.jinja", execution=facts, facts=facts_of(facts.about))


def render_execution_markdown(facts: ExecutionFacts) -> str:
    """The same facts as Markdown."""
    lines = [f"# {escaped(facts.headline)}", "", f"Pipeline {facts.pipeline}, {facts.status}."]
    lines += [f"What to do: {facts.failed[0].remedy}"] if facts.failed else []
    lines += [f"Then continue it: `{facts.resume}`"] if facts.resume else []
    lines += [f"- {name}: {escaped(value)}" for name, value in facts_of(facts.about)]
    rows = ((step.name, step.type, step.status, step.took) for step in facts.steps)
    lines += ["", table(("Step", "Type", "Status", "Took"), rows)]
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
