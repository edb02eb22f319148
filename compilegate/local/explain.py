"""What each step of a definition would do here, as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from compilegate.document.graph import StepGraph, build_graph
from compilegate.document.model import Step
from compilegate.document.step_types import (
    CONDITION,
    FAIL,
    LAMBDA,
    MODEL,
    REGISTER_MODEL,
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


def explanation_lines(checked: Checked) -> list[str]:
    """Every step in definition order, those of a branch below its condition; then what is wrong
    with no single step, and a sum."""
    graph, lines = build_graph(checked.whole), []
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
            _INDENT * depth[name] + line for line in _step_lines(step, graph, checked, faults)
        ]
    lines += [f"refused: {fault}" for fault in general]
    count, left_out = len(graph.steps), len(checked.left_out)
    parts = [
        f"{count} step{'' if count == 1 else 's'}: {count - len(refused) - left_out} can run here"
    ]
    parts += [f"{left_out} left out"] if left_out else []
    parts += [f"{len(refused)} refused"] if refused else []
    return [*lines, "", ", ".join(parts)]


def _step_lines(step: Step, graph: StepGraph, checked: Checked, faults: list[str]) -> Iterator[str]:
    side = "" if step.branch is None else ("if: " if step.branch.taken_when else "else: ")
    yield f"{side}{step.name} ({step.type})"
    after = [each.step for each in graph.dependencies[step.name] if each.step in graph.steps]
    if after:
        yield f"{_INDENT}after   {', '.join(dict.fromkeys(after))}"
    left_out = checked.left_out.get(step.name)
    if left_out is not None:
        yield f"{_INDENT}left out: {left_out}"
    elif faults:
        yield from (f"{_INDENT}refused: {fault}" for fault in faults)
    else:
        yield f"{_INDENT}by      {_by(step, checked)}"


def _by(step: Step, checked: Checked) -> str:
    """What carries a step out."""
    if step.name in checked.commands:
        return f"the command {checked.commands[step.name]}"
    handler, job = checked.handlers.get(step.name), checked.jobs.get(step.name)
    if handler is not None:
        return f"{handler.function} of {handler.file}"
    if job is None:
        return _INLINE.get(step.type, "nothing here")
    image = checked.images.get(job.image)
    if image is None:
        return "a process in its image's environment"
    if isinstance(image, Environment):
        return f"a process in {'this Python environment' if image.here else image.python}"
    return f"a process in an environment to be made of {image.requirements} for {job.image}"
