"""Which steps of a definition an execution carries out: all, or what --until and --skip leave.

- A step that is left out does not hold up a step that only waits for it; a step that reads what it
  would have given is left out as well, and so are the steps on its branches.
- A model is not registered where a step that was left out lies before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from compilegate.document.expressions import describe_reference, step_references
from compilegate.document.graph import StepGraph, ancestors, build_graph
from compilegate.document.model import Definition, Step
from compilegate.document.step_types import REGISTER_MODEL


def choose(
    definition: Definition, until: Sequence[str], skip: Sequence[str]
) -> tuple[Mapping[str, str], list[str]]:
    """Reasons by step that is left out, and a sentence for each choice that is refused."""
    faults = list(_faults(definition, until, skip))
    if faults:
        return {}, faults
    graph = build_graph(definition)
    left_out = dict.fromkeys(skip, "--skip")
    if until:
        needed = {*until}.union(*(ancestors(graph, name, but=skip) for name in until))
        others = [name for name in graph.steps if name not in needed and name not in left_out]
        left_out |= dict.fromkeys(others, f"--until {', '.join(until)}")
    _spread(graph, left_out)
    left_out |= _not_registered(graph, skip)
    _spread(graph, left_out)
    for name in until:
        if name in left_out:
            faults.append(f"--until {name}: that step is left out: {left_out[name]}")
    return {name: left_out[name] for name in graph.steps if name in left_out}, faults


def without(definition: Definition, left_out: Mapping[str, str]) -> Definition:
    steps = tuple(
        replace(step, depends_on=tuple(d for d in step.depends_on if d.step not in left_out))
        for step in definition.steps
        if step.name not in left_out
    )
    return replace(definition, steps=steps)


def _faults(definition: Definition, until: Sequence[str], skip: Sequence[str]) -> Iterator[str]:
    steps = [step.name for step in definition.steps]
    for option, names in (("--until", until), ("--skip", skip)):
        for name in names:
            if name not in steps:
                there = ", ".join(steps) or "none"
                yield f"{option}: {name!r:.80} is not a step of this definition; there are {there}"
    for name in until:
        if name in skip:
            yield f"--until and --skip both name {name}"


def _spread(graph: StepGraph, left_out: dict[str, str]) -> None:
    """Leave out what cannot go on without a step that is left out."""
    more: dict[str, str] | None = None
    while more != {}:
        more = {
            name: why
            for name, step in graph.steps.items()
            if name not in left_out and (why := _cannot_go_on(step, left_out))
        }
        left_out |= more


def _cannot_go_on(step: Step, left_out: Mapping[str, str]) -> str | None:
    if step.branch is not None and step.branch.condition in left_out:
        return f"it is on a branch of {step.branch.condition}, which is left out"
    for reference in step_references([step.arguments, step.function, dict(step.members)]):
        if reference.step in left_out:
            return f"it reads {describe_reference(reference)}, which is left out"
    return None


def _not_registered(graph: StepGraph, skip: Sequence[str]) -> dict[str, str]:
    """The registrations of what a step that was left out should have checked."""
    found = {}
    for name, step in graph.steps.items():
        if step.type == REGISTER_MODEL and name not in skip:
            before = ancestors(graph, name)
            skipped = next((each for each in skip if each in before), None)
            if skipped is not None:
                found[name] = (
                    f"{skipped}, which is left out, lies before it; a model is registered where "
                    f"a command does that step (--command {skipped}=COMMAND)"
                )
    return found
