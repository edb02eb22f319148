"""Reads the JSON of a definition (version 2020-12-01).

Whatever can be understood becomes a Definition, and every part that cannot becomes a sentence, so
that all faults of a definition are told at once. A member that nobody knows is such a fault: left
out in silence, it would be a request that nobody carries out. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from compilegate.document.expressions import is_expression
from compilegate.document.members import TEXT, Kind, Part, json_kind, read_part, unknown
from compilegate.document.model import (
    VERSION,
    Branch,
    CachePolicy,
    Definition,
    Dependency,
    OutputParameter,
    Parameter,
    PropertyFile,
    RetryPolicy,
    Step,
    matches,
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
FUNCTION = Kind(
    "the ARN of a function", lambda value: isinstance(value, str) or is_expression(value)
)


def read_definition(
    text: bytes | str, unread: Collection[str] = ()
) -> tuple[Definition, list[str]]:
    """The definition, and one sentence for each part of it that could not be read.

    Nothing is said of the steps whose names are in `unread`: they are not carried out.
    """
    faults: list[str] = []
    try:
        raw = json.loads(text, parse_constant=refuse_constant)
        json.dumps(raw, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        where = ascii(error.object[max(error.start - 40, 0) : error.start + 1])
        told = "half a character (a lone surrogate), which no file or process can be given"
        return Definition((), ()), [f"the definition holds {told}, after {where}"]
    except (ValueError, RecursionError) as error:
        return Definition((), ()), [f"the definition is not JSON: {error}"]
    if not isinstance(raw, dict):
        return Definition((), ()), [
            f"the definition is a JSON {json_kind(raw)}, expected an object"
        ]
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
    value = raw.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        faults.append(f"{where}{key} is a JSON {json_kind(value)}, expected an array")
        return []
    return value


def _parameter(raw: Any, faults: list[str]) -> Parameter | None:
    name = raw.get("Name") if isinstance(raw, dict) else None
    found = read_part(Parameter, raw, f"parameter {name}", faults)
    if found is None or found.default is None or matches(found.default, found.type):
        return found
    faults.append(f"parameter {name}: DefaultValue {found.default!r} is not of type {found.type}")
    return Parameter(found.name, found.type, None, found.allowed)


def _max_parallel(raw: Mapping[str, Any], faults: list[str]) -> int | None:
    section = raw.get("ParallelismConfiguration")
    if section is None:
        return None
    value = section.get("MaxParallelExecutionSteps") if isinstance(section, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        faults.append("ParallelismConfiguration needs MaxParallelExecutionSteps of 1 or more")
        return None
    return value


def _steps(
    raw_steps: list[Any], branch: Branch | None, told: list[str], unread: Collection[str]
) -> Iterator[Step]:
    for raw in raw_steps:
        if not isinstance(raw, dict) or not isinstance(raw.get("Name"), str):
            told.append(f"a step has no Name: {raw!r:.80}")
            continue
        name, kind, arguments = raw["Name"], raw.get("Type"), raw.get("Arguments", {})
        faults: list[str] = [] if name in unread else told
        if not isinstance(kind, str) or not isinstance(arguments, dict):
            faults.append(f"{name}: a step needs a Type (string) and Arguments (object)")
            continue
        if is_expression(arguments):
            faults.append(
                f"{name}: Arguments is the expression {arguments!r:.80}, expected a request"
            )
            continue
        yield _step(raw, branch, faults)
        if kind == CONDITION:
            for key, taken_when in (("IfSteps", True), ("ElseSteps", False)):
                nested = _list(arguments, key, faults, f"{name}: ")
                yield from _steps(nested, Branch(name, taken_when), told, unread)


def _step(raw: Mapping[str, Any], branch: Branch | None, faults: list[str]) -> Step:
    name, kind, arguments = raw["Name"], raw["Type"], raw.get("Arguments", {})
    known = STEP_TYPES.get(kind, StepType())
    if kind in STEP_TYPES:
        faults += unknown(name, raw, (*COMMON_MEMBERS, *known.members))
    if kind == CONDITION:
        arguments = {k: v for k, v in arguments.items() if k not in {"IfSteps", "ElseSteps"}}

    def parts(part: type[Part], key: str) -> tuple[Part, ...]:
        raw_parts = enumerate(_list(raw, key, faults, f"{name}: "))
        found = [read_part(part, each, f"{name}: {key}[{at}]", faults) for at, each in raw_parts]
        return tuple(each for each in found if each is not None)

    def value(key: str, kind: Kind) -> Any:
        given = raw.get(key)
        if given is None or kind.accepts(given):
            return given
        faults.append(f"{name}: {key} is {given!r:.60}, expected {kind.expected}")
        return None

    cache = raw.get("CacheConfig")
    policy = (
        None if cache is None else read_part(CachePolicy, cache, f"{name}: CacheConfig", faults)
    )
    if known.function and raw.get("FunctionArn") is None:
        faults.append(f"{name} needs FunctionArn, {FUNCTION.expected}")
    return Step(
        name=name,
        type=kind,
        arguments=arguments,
        depends_on=tuple(_dependencies(name, raw, faults)),
        branch=branch,
        cache=policy if policy is not None and policy.enabled else None,
        retry_policies=parts(RetryPolicy, "RetryPolicies"),
        property_files=parts(PropertyFile, "PropertyFiles"),
        function=(value("FunctionArn", FUNCTION) or "") if known.function else None,
        members={key: raw[key] for key in known.beside if raw.get(key) is not None},
        output_parameters=parts(OutputParameter, "OutputParameters"),
        display_name=value("DisplayName", TEXT),
        description=value("Description", TEXT),
    )


def _dependencies(name: str, raw: Mapping[str, Any], faults: list[str]) -> Iterator[Dependency]:
    for index, entry in enumerate(_list(raw, "DependsOn", faults, f"{name}: ")):
        full = {"Step": entry} if isinstance(entry, str) else entry
        found = read_part(Dependency, full, f"{name}: DependsOn[{index}]", faults)
        if found is not None:
            yield found
