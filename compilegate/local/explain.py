"""What each step of a definition would do here, as data and as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compilegate.document.graph import build_graph
from compilegate.document.model import Step
from compilegate.document.step_types import (
    CONDITION,
    FAIL,
    LAMBDA,
    MODEL,
    REGISTER_MODEL,
    STEP_TYPES,
)
from compilegate.local.checks import Checked, Image
from compilegate.local.home.images import Environment


@dataclass(frozen=True)
class ExplainedStep:
    """One step."""

    name: str
    type: str
    waits_for: tuple[str, ...]
    """The steps that must have ended before, its Condition step not among them."""
    condition: str | None
    taken_when: bool | None
    """The Condition step on whose branch it lies, and which branch that is."""
    where: str
    """What carries it out."""
    left_out: str | None
    """Why it is left out by choice."""
    refused: tuple[str, ...]
    """Why it cannot run here."""


@dataclass(frozen=True)
class Explanation:
    """A whole definition."""

    steps: tuple[ExplainedStep, ...]
    refused: tuple[str, ...]
    """What is wrong with the definition and with no single step of it."""

    @property
    def runs(self) -> bool:
        """Whether it can start."""
        return not self.refused and not any(step.refused for step in self.steps)


def explain(checked: Checked, commands: Mapping[str, str]) -> Explanation:
    """The explanation of a definition; `commands` says by step what stands for it."""
    graph = build_graph(checked.whole)
    by_step: dict[str, list[str]] = {name: [] for name in graph.steps}
    general = []
    for fault in checked.faults:
        name, colon, sentence = fault.partition(": ")
        if colon and name in by_step:
            by_step[name].append(sentence)
        else:
            general.append(fault)
    return Explanation(
        steps=tuple(
            ExplainedStep(
                name=name,
                type=step.type,
                waits_for=tuple(
                    each.step for each in graph.dependencies[name] if each.step in graph.steps
                ),
                condition=None if step.branch is None else step.branch.condition,
                taken_when=None if step.branch is None else step.branch.taken_when,
                where=_where(step, checked, commands),
                left_out=checked.left_out.get(name),
                refused=tuple(by_step[name]),
            )
            for name, step in graph.steps.items()
        ),
        refused=tuple(general),
    )


_INLINE = {
    CONDITION: "compared here",
    FAIL: "ends the execution as failed",
    MODEL: "kept with the execution, for Transform steps",
    REGISTER_MODEL: "the registry of the home folder",
    LAMBDA: "a function's file, which --function names",
}


def _where(step: Step, checked: Checked, commands: Mapping[str, str]) -> str:
    if step.name in commands:
        return f"the command {commands[step.name]}"
    handler, image = checked.handler_of.get(step.name), checked.image_of.get(step.name, "")
    if handler is not None:
        return f"{handler.function} of {handler.file}"
    if image in checked.images:
        return f"a process in {_image_text(checked.images[image], image)}"
    known = STEP_TYPES.get(step.type)
    if known is not None and known.job_name is not None:
        return "a process in its image's environment"
    return _INLINE.get(step.type, "nothing here")


def _image_text(found: Image, uri: str) -> str:
    if isinstance(found, Environment):
        return "this Python environment" if found.here else f"{found.python}"
    return f"an environment to be made of {found.requirements} for {uri}"


def explanation_lines(explanation: Explanation) -> list[str]:
    """Every step in definition order, those of a branch below its condition."""
    lines = []
    depth: dict[str, int] = {}
    for step in explanation.steps:  # a branch's steps follow their condition
        depth[step.name] = 0 if step.condition is None else depth.get(step.condition, 0) + 1
        lines += ["    " * depth[step.name] + line for line in _step_lines(step)]
    lines += [f"refused: {fault}" for fault in explanation.refused]
    return [*lines, "", _sum(explanation)]


def _step_lines(step: ExplainedStep) -> Iterator[str]:
    side = "" if step.taken_when is None else ("if: " if step.taken_when else "else: ")
    yield f"{side}{step.name} ({step.type})"
    if step.waits_for:
        yield f"    after   {', '.join(step.waits_for)}"
    if step.left_out is not None:
        yield f"    left out: {step.left_out}"
    elif step.refused:
        for fault in step.refused:
            yield f"    refused: {fault}"
    else:
        yield f"    by      {step.where}"


def _sum(explanation: Explanation) -> str:
    steps = explanation.steps
    refused = sum(bool(step.refused) for step in steps)
    left_out = sum(step.left_out is not None for step in steps)
    ready = len(steps) - refused - left_out
    parts = [f"{len(steps)} step{'' if len(steps) == 1 else 's'}: {ready} can run here"]
    parts += [f"{left_out} left out"] if left_out else []
    parts += [f"{refused} refused"] if refused else []
    return ", ".join(parts)
