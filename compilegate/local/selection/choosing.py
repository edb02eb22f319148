"""Which steps of a definition an execution carries out: all, or those that --until, --skip and
--stub leave. Pure.

- A step that is left out does not hold up a step that only waits for it; a step that reads what it
  would have given is left out as well, and so are the steps on its branches.
- A stub stands for a step: its members are what later steps read. What the stub does not say comes
  from the step's own request.
- A model is not registered where a stub, or a step that was left out, lies before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from compilegate.document.expressions import describe_reference, step_references
from compilegate.document.graph import StepGraph, build_graph
from compilegate.document.model import Definition, Step
from compilegate.document.step_types import CONDITION, REGISTER_MODEL

Stub = Mapping[str, Any]
"""What a step is said to have given: members of its Describe* response, `PropertyFiles` with the
content of each, `OutputParameters`, or a Condition's `Outcome`."""

PROPERTY_FILES = "PropertyFiles"


@dataclass(frozen=True)
class Selection:
    """What was asked for on the command line; by default every step."""

    until: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    stubs: Mapping[str, Stub] = field(default_factory=dict)
    register_from_stubs: bool = False


@dataclass(frozen=True)
class Chosen:
    """What becomes of the steps."""

    left_out: Mapping[str, str]
    """Why each of them is not carried out."""
    stubs: Mapping[str, Stub]
    """The stubs of the steps that are."""

    def unread(self) -> frozenset[str]:
        """The steps in whose requests nothing need be right."""
        return frozenset({*self.left_out, *self.stubs})

    def applied(self, definition: Definition) -> Definition:
        """The definition without what is left out."""
        steps = tuple(
            replace(
                step,
                depends_on=tuple(d for d in step.depends_on if d.step not in self.left_out),
            )
            for step in definition.steps
            if step.name not in self.left_out
        )
        return replace(definition, steps=steps)


ALL_STEPS = Selection()


def choose(definition: Definition, selection: Selection) -> tuple[Chosen, list[str]]:
    """What is carried out, and a sentence for each thing that cannot be chosen so."""
    faults = list(_faults(definition, selection))
    if faults:
        return Chosen({}, {}), faults
    graph = build_graph(definition)
    left_out = dict.fromkeys(selection.skip, "--skip")
    if selection.until:
        needed = _needed(graph, selection)
        names = ", ".join(selection.until)
        others = (name for name in graph.steps if name not in needed and name not in left_out)
        left_out |= dict.fromkeys(others, f"--until {names}")
    _spread(graph, left_out, selection.stubs)
    if not selection.register_from_stubs:
        left_out |= _not_registered(graph, selection)
        _spread(graph, left_out, selection.stubs)
    for name in selection.until:
        if name in left_out:
            faults.append(f"--until {name}: it would be left out: {left_out[name]}")
    in_order = {name: left_out[name] for name in graph.steps if name in left_out}
    stubs = {name: stub for name, stub in selection.stubs.items() if name not in left_out}
    return Chosen(in_order, stubs), faults


def _faults(definition: Definition, selection: Selection) -> Iterator[str]:
    steps = {step.name: step for step in definition.steps}
    asked = {"--until": selection.until, "--skip": selection.skip, "--stub": tuple(selection.stubs)}
    for option, names in asked.items():
        for name in names:
            if name not in steps:
                there = ", ".join(steps) or "none"
                yield f"{option}: {name!r:.80} is not a step of this definition; there are {there}"
    for option in ("--until", "--stub"):
        for name in asked[option]:
            if name in selection.skip:
                yield f"{option}: {name} is given to --skip as well, allowed: one of them"
    for name, stub in selection.stubs.items():
        if name in steps:
            yield from (f"--stub {name}: {fault}" for fault in _stub_faults(steps[name], stub))


def _stub_faults(step: Step, stub: Stub) -> Iterator[str]:
    if step.type == CONDITION and not isinstance(stub.get("Outcome"), bool):
        yield f"Outcome is {stub.get('Outcome')!r:.60}, expected true or false, the branch to take"
    files = stub.get(PROPERTY_FILES, {})
    declared = [file.name for file in step.property_files]
    if not isinstance(files, Mapping):
        yield f"{PROPERTY_FILES} is {files!r:.60}, expected an object with the content of each file"
    elif unknown := [name for name in files if name not in declared]:
        there = ", ".join(declared) or "none"
        yield f"{PROPERTY_FILES} has {unknown[0]}; the step declares {there}"


def _needed(graph: StepGraph, selection: Selection) -> set[str]:
    """The steps that must end before, and those that were named; a stub needs nothing before it
    but the condition on whose branch it stands."""
    found: set[str] = set()
    pending = list(selection.until)
    while pending:
        name = pending.pop()
        if name in found or name in selection.skip or name not in graph.steps:
            continue
        found.add(name)
        branch = graph.steps[name].branch
        if name not in selection.stubs:
            pending.extend(graph.parents(name))
        elif branch is not None:
            pending.append(branch.condition)
    return found


def _spread(graph: StepGraph, left_out: dict[str, str], stubs: Mapping[str, Stub]) -> None:
    """Leave out what cannot go on without a step that is left out."""
    while True:
        more = {
            name: why
            for name, step in graph.steps.items()
            if name not in left_out and (why := _cannot_go_on(step, left_out, stubs))
        }
        if not more:
            return
        left_out |= more


def _cannot_go_on(step: Step, left_out: Mapping[str, str], stubs: Mapping[str, Stub]) -> str | None:
    if step.branch is not None and step.branch.condition in left_out:
        return f"it is on a branch of {step.branch.condition}, which is left out"
    if step.name in stubs:
        return None
    for reference in step_references([step.arguments, step.function, dict(step.members)]):
        if reference.step in left_out:
            return f"it reads {describe_reference(reference)}, which is left out"
    return None


def _not_registered(graph: StepGraph, selection: Selection) -> dict[str, str]:
    """The registrations of what nobody computed."""
    found = {}
    for name, step in graph.steps.items():
        if step.type != REGISTER_MODEL or name in selection.skip:
            continue
        before = _ancestors(graph, name)
        unproven = [each for each in graph.steps if each in before & {*selection.stubs}]
        skipped = [each for each in graph.steps if each in before & {*selection.skip}]
        if unproven or skipped:
            what = f"the stub of {unproven[0]}" if unproven else f"{skipped[0]}, which is left out,"
            found[name] = f"{what} lies before it"
    return found


def _ancestors(graph: StepGraph, name: str) -> set[str]:
    found: set[str] = set()
    pending = list(graph.parents(name))
    while pending:
        parent = pending.pop()
        if parent not in found and parent in graph.steps:
            found.add(parent)
            pending.extend(graph.parents(parent))
    return found
