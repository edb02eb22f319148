"""Which steps of a definition an execution carries out: all, or what --until and --skip leave.

- A step that is left out does not hold up a step that only waits for it; a step that reads what it
  would have given is left out as well, and so are the steps on its branches.
- A model is not registered where a step that was left out lies before it.

The choice is kept with the execution: HOME/executions/ID/selection.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from compilegate.document.expressions import describe_reference, step_references
from compilegate.document.graph import StepGraph, build_graph
from compilegate.document.model import Definition, Step
from compilegate.document.step_types import REGISTER_MODEL
from compilegate.job.files import write_json
from compilegate.local.errors import ExecutionError

_FILE = "selection.json"


@dataclass(frozen=True)
class Selection:
    """The steps that were named on the command line; by default every step is carried out."""

    until: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chosen:
    """Which steps are left out."""

    left_out: Mapping[str, str]
    """By step, why it is not carried out."""

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
        return Chosen({}), faults
    graph = build_graph(definition)
    left_out = dict.fromkeys(selection.skip, "--skip")
    if selection.until:
        needed = _needed(graph, selection)
        names = ", ".join(selection.until)
        others = (name for name in graph.steps if name not in needed and name not in left_out)
        left_out |= dict.fromkeys(others, f"--until {names}")
    _spread(graph, left_out)
    left_out |= _not_registered(graph, selection)
    _spread(graph, left_out)
    for name in selection.until:
        if name in left_out:
            faults.append(f"--until {name}: it would be left out: {left_out[name]}")
    return Chosen({name: left_out[name] for name in graph.steps if name in left_out}), faults


def _faults(definition: Definition, selection: Selection) -> Iterator[str]:
    steps = [step.name for step in definition.steps]
    for option, names in (("--until", selection.until), ("--skip", selection.skip)):
        for name in names:
            if name not in steps:
                there = ", ".join(steps) or "none"
                yield f"{option}: {name!r:.80} is not a step of this definition; there are {there}"
    for name in selection.until:
        if name in selection.skip:
            yield f"--until: {name} is given to --skip as well, allowed: one of them"


def _needed(graph: StepGraph, selection: Selection) -> set[str]:
    """The steps that were named, and those that must end before."""
    found: set[str] = set()
    pending = list(selection.until)
    while pending:
        name = pending.pop()
        if name not in found and name not in selection.skip and name in graph.steps:
            found.add(name)
            pending.extend(graph.parents(name))
    return found


def _spread(graph: StepGraph, left_out: dict[str, str]) -> None:
    """Leave out what cannot go on without a step that is left out."""
    while True:
        more = {
            name: why
            for name, step in graph.steps.items()
            if name not in left_out and (why := _cannot_go_on(step, left_out))
        }
        if not more:
            return
        left_out |= more


def _cannot_go_on(step: Step, left_out: Mapping[str, str]) -> str | None:
    if step.branch is not None and step.branch.condition in left_out:
        return f"it is on a branch of {step.branch.condition}, which is left out"
    for reference in step_references([step.arguments, step.function, dict(step.members)]):
        if reference.step in left_out:
            return f"it reads {describe_reference(reference)}, which is left out"
    return None


def _not_registered(graph: StepGraph, selection: Selection) -> dict[str, str]:
    """The registrations of what a step that was left out should have checked."""
    found = {}
    for name, step in graph.steps.items():
        if step.type == REGISTER_MODEL and name not in selection.skip:
            before = _ancestors(graph, name)
            skipped = [each for each in graph.steps if each in before and each in selection.skip]
            if skipped:
                found[name] = (
                    f"{skipped[0]}, which is left out, lies before it; a model is registered where "
                    f"a command does that step (--command {skipped[0]}=COMMAND)"
                )
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


def write_selection(folder: Path, selection: Selection) -> None:
    """Keep it for whoever carries the execution out; nothing where every step is."""
    if selection != ALL_STEPS:
        write_json(folder / _FILE, asdict(selection))


def read_selection(folder: Path) -> Selection:
    """The choice that an execution was started with.

    Raises ExecutionError where the file is damaged.
    """
    path = folder / _FILE
    if not path.is_file():
        return ALL_STEPS
    try:
        raw = json.loads(path.read_bytes())
        return Selection(tuple(raw["until"]), tuple(raw["skip"]))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ExecutionError(f"{path} cannot be read: {error!r}") from error
