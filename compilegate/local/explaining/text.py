"""An explanation as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compilegate.local.explaining.explanation import ExplainedStep, Explanation


def text_lines(explanation: Explanation) -> list[str]:
    """Every step in definition order, those of a branch below its condition."""
    depth = _depths(explanation)
    lines = [line for step in explanation.steps for line in _step_lines(step, depth[step.name])]
    lines += [f"refused: {fault}" for fault in explanation.refused]
    return [*lines, "", _sum(explanation)]


def _depths(explanation: Explanation) -> Mapping[str, int]:
    depth: dict[str, int] = {}
    for step in explanation.steps:  # a branch's steps follow their condition
        depth[step.name] = 0 if step.condition is None else depth.get(step.condition, 0) + 1
    return depth


def _step_lines(step: ExplainedStep, depth: int) -> Iterator[str]:
    indent = "    " * depth
    side = "" if step.taken_when is None else ("if: " if step.taken_when else "else: ")
    yield f"{indent}{side}{step.name} ({step.type})"
    if step.waits_for:
        yield f"{indent}    after   {', '.join(step.waits_for)}"
    if step.left_out is not None:
        yield f"{indent}    left out: {step.left_out}"
    elif step.refused:
        for fault in step.refused:
            yield f"{indent}    refused: {fault}"
    else:
        yield f"{indent}    by      {step.where}"


def _sum(explanation: Explanation) -> str:
    steps = explanation.steps
    refused = sum(bool(step.refused) for step in steps)
    left_out = sum(step.left_out is not None for step in steps)
    ready = len(steps) - refused - left_out
    parts = [f"{len(steps)} step{'' if len(steps) == 1 else 's'}: {ready} can run here"]
    parts += [f"{left_out} left out"] if left_out else []
    parts += [f"{refused} refused"] if refused else []
    return ", ".join(parts)
