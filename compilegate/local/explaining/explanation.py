"""Each step of a definition as it would be carried out here. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compilegate.document.graph import StepGraph, build_graph
from compilegate.document.model import Definition, Step
from compilegate.document.step_types import (
    CONDITION,
    FAIL,
    LAMBDA,
    MODEL,
    REGISTER_MODEL,
    STEP_TYPES,
)
from compilegate.local.home.images import Environment, UnbuiltEnvironment
from compilegate.local.selection.choosing import Chosen


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

    @property
    def parents(self) -> tuple[str, ...]:
        """All that come before it."""
        return self.waits_for if self.condition is None else (*self.waits_for, self.condition)


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


def explain(
    definition: Definition,
    chosen: Chosen,
    faults: Sequence[str],
    *,
    places: Mapping[str, str],
    commands: Mapping[str, str],
) -> Explanation:
    """The explanation of a definition; `faults` are what the checks found, a sentence each.

    `places` says by step in which environment its job runs, or which file stands for its function;
    `commands` what stands for a step.
    """
    graph = build_graph(definition)
    by_step: dict[str, list[str]] = {name: [] for name in graph.steps}
    general = []
    for fault in faults:
        name, colon, sentence = fault.partition(": ")
        if colon and name in by_step:
            by_step[name].append(sentence)
        else:
            general.append(fault)

    def where(step: Step) -> str:
        if step.name in chosen.stubs:
            return "a stub stands for it"
        if step.name in commands:
            return f"the command {commands[step.name]}"
        return places.get(step.name) or _inline(step)

    return Explanation(
        steps=tuple(
            ExplainedStep(
                name=name,
                type=step.type,
                waits_for=tuple(dict.fromkeys(_waits_for(graph, name))),
                condition=None if step.branch is None else step.branch.condition,
                taken_when=None if step.branch is None else step.branch.taken_when,
                where=where(step),
                left_out=chosen.left_out.get(name),
                refused=() if name in chosen.left_out else tuple(by_step[name]),
            )
            for name, step in graph.steps.items()
        ),
        refused=tuple(general),
    )


def _waits_for(graph: StepGraph, name: str) -> Iterator[str]:
    for dependency in graph.dependencies[name]:
        if dependency.step in graph.steps:
            yield dependency.step


_INLINE = {
    CONDITION: "compared here",
    FAIL: "ends the execution as failed",
    MODEL: "kept with the execution, for Transform steps",
    REGISTER_MODEL: "the registry of the home folder",
    LAMBDA: "a function's file, which --function names",
}


def _inline(step: Step) -> str:
    if step.type in _INLINE:
        return _INLINE[step.type]
    known = STEP_TYPES.get(step.type)
    if known is not None and known.job_name is not None:
        return "a process in its image's environment"
    return "nothing here"


def told_image(found: Environment | UnbuiltEnvironment, uri: str) -> str:
    """An image's environment in a few words."""
    if isinstance(found, Environment):
        return "this Python environment" if found.here else f"{found.python}"
    return f"an environment to be made of {found.requirements} for {uri}"
