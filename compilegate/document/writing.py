"""Writes the JSON of a definition, as the SageMaker Python SDK does: the same members in the same
order, and none for what is not set. `reading.py` reads it back to an equal Definition. Pure.
"""

from __future__ import annotations

import json
from typing import Any

from compilegate.document.members import write_part
from compilegate.document.model import BRANCHES, VERSION, Branch, Definition, Step
from compilegate.document.step_types import CONDITION


def write_definition(definition: Definition) -> str:
    return json.dumps(definition_document(definition), indent=2) + "\n"


def compact(definition: str) -> str:
    """The same JSON without the space that is there for people, as CloudFormation gets it."""
    return json.dumps(json.loads(definition), separators=(",", ":"))


def definition_document(definition: Definition) -> dict[str, Any]:
    document: dict[str, Any] = {
        "Version": VERSION,
        "Metadata": {},
        "Parameters": [write_part(parameter) for parameter in definition.parameters],
    }
    if definition.max_parallel_steps is not None:
        document["ParallelismConfiguration"] = {
            "MaxParallelExecutionSteps": definition.max_parallel_steps
        }
    return document | {"Steps": _steps(definition, None)}


def _steps(definition: Definition, branch: Branch | None) -> list[dict[str, Any]]:
    """The steps of one level: those on a branch, or those on none."""
    return [_step(definition, step) for step in definition.steps if step.branch == branch]


def _step(definition: Definition, step: Step) -> dict[str, Any]:
    written = write_part(step) | dict(step.members)
    if step.type == CONDITION:
        branches = {
            key: _steps(definition, Branch(step.name, taken_when))
            for key, taken_when in BRANCHES.items()
        }
        written["Arguments"] = {**step.arguments, **branches}
    if step.function is not None:
        written.setdefault("OutputParameters", [])
    return written
