"""Reads the JSON of a definition (version 2020-12-01).

Whatever can be understood becomes a Definition, and every part that cannot becomes a sentence, so
that all faults of a definition are reported at once. An unknown member is such a fault: ignored, it
would be a request that nobody carries out. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from compilegate.document.members import read_members, read_part, unknown
from compilegate.document.model import (
    BRANCHES,
    VERSION,
    Branch,
    Definition,
    Parameter,
    Step,
    refuse_constant,
)
from compilegate.document.step_types import COMMON_MEMBERS, CONDITION, STEP_TYPES, StepType

DEFINITION_MEMBERS = (
    "Version",
    "Metadata",
    "Parameters",
    "PipelineExperimentConfig",
    "MlflowConfig",
    "ParallelismConfiguration",
    "Steps",
)
"""Metadata and the two that say where the service records an execution change nothing in it."""


def read_definition(
    text: bytes | str, unread: Collection[str] = ()
) -> tuple[Definition, list[str]]:
    """The definition, and one sentence for each part of it that could not be read, but for the
    steps whose names are in `unread`: they are not carried out."""
    faults: list[str] = []
    try:
        raw = json.loads(text, parse_constant=refuse_constant)
        json.dumps(raw, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        half = "half a character (a lone surrogate), which no file or process can be given"
        return Definition((), ()), [f"the definition holds {half}"]
    except (ValueError, RecursionError) as error:
        return Definition((), ()), [f"the definition is not JSON: {error}"]
    if not isinstance(raw, dict):
        return Definition((), ()), [f"the definition is {raw!r:.60}, expected an object"]
    faults += unknown("the definition", raw, DEFINITION_MEMBERS)
    if raw.get("Version") != VERSION:
        faults.append(f"Version is {raw.get('Version')!r}, expected {VERSION!r}")
    parameters = [_parameter(item, faults) for item in _list(raw, "Parameters", faults)]
    steps = list(_steps(_list(raw, "Steps", faults), None, faults, unread))
    if not steps:
        faults.append("Steps is empty: there is nothing to run")
    definition = Definition(
        parameters=tuple(item for item in parameters if item is not None),
        steps=tuple(steps),
        max_parallel_steps=_max_parallel(raw, faults),
    )
    return definition, faults


def _list(raw: Mapping[str, Any], key: str, faults: list[str], where: str = "") -> list[Any]:
    value = raw.get(key) or []
    if isinstance(value, list):
        return value
    faults.append(f"{where}{key} is {value!r:.60}, expected an array")
    return []


def _parameter(raw: Any, faults: list[str]) -> Parameter | None:
    name = raw.get("Name") if isinstance(raw, dict) else None
    return read_part(Parameter, raw, f"parameter {name}", faults)


def _max_parallel(raw: Mapping[str, Any], faults: list[str]) -> int | None:
    section = raw.get("ParallelismConfiguration")
    value = section.get("MaxParallelExecutionSteps") if isinstance(section, dict) else section
    if section is None or (isinstance(value, int) and value > 0):
        return value
    faults.append("ParallelismConfiguration needs MaxParallelExecutionSteps of 1 or more")
    return None


def _steps(
    raw_steps: list[Any], branch: Branch | None, faults: list[str], unread: Collection[str]
) -> Iterator[Step]:
    for raw in raw_steps:
        if not isinstance(raw, dict) or not isinstance(raw.get("Name"), str):
            faults.append(f"a step has no Name: {raw!r:.80}")
            continue
        name, kind, arguments = raw["Name"], raw.get("Type"), raw.get("Arguments", {})
        own_faults: list[str] = [] if name in unread else faults
        if not isinstance(kind, str) or not isinstance(arguments, dict):
            own_faults.append(f"{name}: a step needs a Type (string) and Arguments (object)")
            continue
        own = {key: value for key, value in arguments.items() if key not in BRANCHES}
        yield from _step({**raw, "Arguments": own}, branch, own_faults)
        if kind == CONDITION:
            for key, taken_when in BRANCHES.items():
                nested = _list(arguments, key, own_faults, f"{name}: ")
                yield from _steps(nested, Branch(name, taken_when), faults, unread)


def _step(raw: Mapping[str, Any], branch: Branch | None, faults: list[str]) -> Iterator[Step]:
    name, kind = raw["Name"], raw["Type"]
    known = STEP_TYPES.get(kind, StepType())
    if kind in STEP_TYPES:
        faults += unknown(name, raw, (*COMMON_MEMBERS, *known.members))
    if known.function and raw.get("FunctionArn") is None:
        faults.append(f"{name} needs FunctionArn")
    fields = read_members(Step, raw, name, faults)
    if fields is not None:
        cache = fields.pop("cache", None)
        beside = {key: raw[key] for key in known.beside if raw.get(key) is not None}
        enabled = cache is not None and cache.enabled
        yield Step(**fields, branch=branch, cache=cache if enabled else None, members=beside)
