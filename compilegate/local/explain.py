"""What each step of a definition would do here, as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compilegate.document.graph import StepGraph, build_graph
from compilegate.document.model import Step
from compilegate.document.step_types import (
    CONDITION,
    FAIL,
    LAMBDA,
    MODEL,
    REGISTER_MODEL,
    STEP_TYPES,
)
from compilegate.local.checks import Checked
from compilegate.local.home.images import Environment

_INLINE = {
    CONDITION: "compared here",
    FAIL: "ends the execution as failed",
    MODEL: "kept with the execution, for Transform steps",
    REGISTER_MODEL: "the registry of the home folder",
    LAMBDA: "a function's file, which --function names",
}
_INDENT = "    "


@dataclass(frozen=True)
class Explanation:
    """A definition that has been checked, step by step."""

    checked: Checked
    commands: Mapping[str, str]
    """By step, what stands for it."""

    @property
    def runs(self) -> bool:
        """Whether it can start."""
        return not self.checked.faults


def explanation_lines(explanation: Explanation) -> list[str]:
    """Every step in definition order, those of a branch below its condition; then what is wrong
    with no single step, and a sum."""
    checked, lines = explanation.checked, []
    graph = build_graph(checked.whole)
    refused: dict[str, list[str]] = {}
    for fault in checked.faults:
        name, colon, sentence = fault.partition(": ")
        of_a_step = colon and name in graph.steps
        refused.setdefault(name if of_a_step else "", []).append(sentence if of_a_step else fault)
    general = refused.pop("", [])
    depth: dict[str, int] = {}
    for name, step in graph.steps.items():  # a branch's steps follow their condition
        depth[name] = 0 if step.branch is None else depth.get(step.branch.condition, 0) + 1
        faults = refused.get(name, [])
        lines += [
            _INDENT * depth[name] + line for line in _step_lines(step, graph, explanation, faults)
        ]
    lines += [f"refused: {fault}" for fault in general]
    count, left_out = len(graph.steps), len(checked.left_out)
    parts = [
        f"{count} step{'' if count == 1 else 's'}: {count - len(refused) - left_out} can run here"
    ]
    parts += [f"{left_out} left out"] if left_out else []
    parts += [f"{len(refused)} refused"] if refused else []
    return [*lines, "", ", ".join(parts)]


def _step_lines(
    step: Step, graph: StepGraph, explanation: Explanation, faults: list[str]
) -> Iterator[str]:
    side = "" if step.branch is None else ("if: " if step.branch.taken_when else "else: ")
    yield f"{side}{step.name} ({step.type})"
    after = [each.step for each in graph.dependencies[step.name] if each.step in graph.steps]
    if after:
        yield f"{_INDENT}after   {', '.join(dict.fromkeys(after))}"
    left_out = explanation.checked.left_out.get(step.name)
    if left_out is not None:
        yield f"{_INDENT}left out: {left_out}"
    elif faults:
        yield from (f"{_INDENT}refused: {fault}" for fault in faults)
    else:
        yield f"{_INDENT}by      {_by(step, explanation)}"


def _by(step: Step, explanation: Explanation) -> str:
    """What carries a step out."""
    checked = explanation.checked
    if step.name in explanation.commands:
        return f"the command {explanation.commands[step.name]}"
    handler, image = checked.handler_of.get(step.name), checked.image_of.get(step.name, "")
    if handler is not None:
        return f"{handler.function} of {handler.file}"
    found, known = checked.images.get(image), STEP_TYPES.get(step.type)
    if isinstance(found, Environment):
        return f"a process in {'this Python environment' if found.here else found.python}"
    if found is not None:
        return f"a process in an environment to be made of {found.requirements} for {image}"
    if known is not None and known.job_name is not None:
        return "a process in its image's environment"
    return _INLINE.get(step.type, "nothing here")
