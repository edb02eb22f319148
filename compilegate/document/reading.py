"""Reads the JSON of a definition (version 2020-12-01).

Whatever can be understood becomes a Definition, and every part that cannot becomes a sentence, so
that all faults of a definition are told at once. A member that nobody knows is such a fault: left
out in silence, it would be a request that nobody carries out. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from compilegate.document.expressions import is_expression
from compilegate.document.model import (
    PARAMETER_TYPES,
    TRIGGERS,
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
    parse_duration,
    refuse_constant,
)
from compilegate.document.step_types import CONDITION, LAMBDA, STEP_TYPES, step_members

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


_UNSPEAKABLE = re.compile("[\ud800-\udfff]")


def read_definition(
    text: bytes | str, unread: Collection[str] = ()
) -> tuple[Definition, list[str]]:
    """The definition, and one sentence for each part of it that could not be read.

    Nothing is said of the steps whose names are in `unread`: they are not carried out.
    """
    faults: list[str] = []
    try:
        raw = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        return Definition((), ()), [f"the definition is not JSON: {error}"]
    if (where := _unspeakable(raw)) is not None:
        told = "half a character (a lone surrogate), which no file or process can be given"
        return Definition((), ()), [f"the definition holds {told}: {where}"]
    if not isinstance(raw, dict):
        return Definition((), ()), [f"the definition is a JSON {_kind(raw)}, expected an object"]
    faults += _unknown("the definition", raw, DEFINITION_MEMBERS)
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


def _unknown(owner: str, raw: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    for member in raw:
        if member not in known:
            yield f"{owner}: unknown member {member}, expected one of {', '.join(known)}"


def _unspeakable(raw: Any) -> str | None:
    """Where JSON holds a lone surrogate, which is no text."""
    pending: list[tuple[str, Any]] = [("", raw)]
    while pending:
        where, value = pending.pop()
        if isinstance(value, str):
            if _UNSPEAKABLE.search(value):
                return f"{where} is {value!a:.60}"
        elif isinstance(value, dict):
            for name, member in value.items():
                inner = f"{where}.{name}" if where else name
                if _UNSPEAKABLE.search(name):
                    return f"a member named {inner!a:.80}"
                pending.append((inner, member))
        elif isinstance(value, list):
            pending.extend((f"{where}[{index}]", item) for index, item in enumerate(value))
    return None


def _list(raw: Mapping[str, Any], key: str, faults: list[str], where: str = "") -> list[Any]:
    value = raw.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        faults.append(f"{where}{key} is a JSON {_kind(value)}, expected an array")
        return []
    return value


def _kind(value: Any) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")


def _parameter(raw: Any, faults: list[str]) -> Parameter | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("Name"), str):
        faults.append(f"a parameter has no Name: {raw!r:.80}")
        return None
    name, kind = raw["Name"], raw.get("Type")
    faults += _unknown(f"parameter {name}", raw, ("Name", "Type", "DefaultValue", "EnumValues"))
    if not isinstance(kind, str) or kind not in PARAMETER_TYPES:
        faults.append(
            f"parameter {name}: Type is {kind!r}, expected one of {', '.join(PARAMETER_TYPES)}"
        )
        return None
    default, allowed = raw.get("DefaultValue"), raw.get("EnumValues")
    if default is not None and not matches(default, kind):
        faults.append(f"parameter {name}: DefaultValue {default!r} is not of type {kind}")
        default = None
    if allowed is not None and not isinstance(allowed, list):
        faults.append(f"parameter {name}: EnumValues is a JSON {_kind(allowed)}, expected an array")
        allowed = None
    return Parameter(name, kind, default, None if allowed is None else tuple(allowed))


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
        if kind in STEP_TYPES:
            faults += _unknown(name, raw, step_members(kind))
        own = {k: v for k, v in arguments.items() if k not in {"IfSteps", "ElseSteps"}}
        is_condition = kind == CONDITION
        yield Step(
            name=name,
            type=kind,
            arguments=own if is_condition else arguments,
            depends_on=tuple(_dependencies(name, raw, faults)),
            branch=branch,
            cache=_cache_policy(name, raw.get("CacheConfig"), faults),
            retry_policies=tuple(_retry_policies(name, raw, faults)),
            property_files=tuple(_property_files(name, raw, faults)),
            function=_function(name, raw, faults) if kind == LAMBDA else None,
            members={
                member: raw[member]
                for member in (STEP_TYPES[kind].members if kind in STEP_TYPES else ())
                if raw.get(member) is not None
            },
            output_parameters=tuple(_output_parameters(name, raw, faults)),
            display_name=_text(name, raw, "DisplayName", faults),
            description=_text(name, raw, "Description", faults),
        )
        if is_condition:
            for key, taken_when in (("IfSteps", True), ("ElseSteps", False)):
                nested = _list(arguments, key, faults, f"{name}: ")
                yield from _steps(nested, Branch(name, taken_when), told, unread)


def _function(name: str, raw: Mapping[str, Any], faults: list[str]) -> Any:
    arn = raw.get("FunctionArn")
    if not isinstance(arn, str) and not is_expression(arn):
        faults.append(f"{name}: FunctionArn is {arn!r:.60}, expected the ARN of a function")
        return ""
    return arn


def _output_parameters(
    name: str, raw: Mapping[str, Any], faults: list[str]
) -> Iterator[OutputParameter]:
    keys = ("OutputName", "OutputType")
    for output, kind in _entries(name, raw, "OutputParameters", keys, faults):
        if kind in PARAMETER_TYPES:
            yield OutputParameter(output, kind)
        else:
            allowed = ", ".join(PARAMETER_TYPES)
            faults.append(f"{name}: OutputType of {output} is {kind!r}, expected one of {allowed}")


def _property_files(name: str, raw: Mapping[str, Any], faults: list[str]) -> Iterator[PropertyFile]:
    keys = ("PropertyFileName", "OutputName", "FilePath")
    for values in _entries(name, raw, "PropertyFiles", keys, faults):
        yield PropertyFile(*values)


def _entries(
    name: str, raw: Mapping[str, Any], key: str, members: Sequence[str], faults: list[str]
) -> Iterator[list[str]]:
    """The texts of each object in a list whose members are these."""
    for index, entry in enumerate(_list(raw, key, faults, f"{name}: ")):
        found = [entry.get(each) if isinstance(entry, dict) else None for each in members]
        values = [value for value in found if isinstance(value, str)]
        if len(values) == len(members):
            faults += _unknown(f"{name}: {key}[{index}]", entry, members)
            yield values
        else:
            faults.append(f"{name}: {key}[{index}] needs {', '.join(members)} (strings)")


def _text(name: str, raw: Mapping[str, Any], key: str, faults: list[str]) -> str | None:
    value = raw.get(key)
    if value is None or isinstance(value, str):
        return value
    faults.append(f"{name}: {key} is a JSON {_kind(value)}, expected a string")
    return None


def _dependencies(name: str, raw: Mapping[str, Any], faults: list[str]) -> Iterator[Dependency]:
    for entry in _list(raw, "DependsOn", faults, f"{name}: "):
        if isinstance(entry, str):
            yield Dependency(entry)
        elif isinstance(entry, dict) and isinstance(entry.get("Step"), str):
            trigger = entry.get("Trigger", "Completed")
            if trigger in TRIGGERS:
                yield Dependency(entry["Step"], trigger)
            else:
                allowed = ", ".join(TRIGGERS)
                faults.append(
                    f"{name}: DependsOn Trigger is {trigger!r}, expected one of {allowed}"
                )
        else:
            faults.append(f"{name}: DependsOn holds {entry!r:.80}, expected a step's name")


def _cache_policy(name: str, raw: Any, faults: list[str]) -> CachePolicy | None:
    if raw is None:
        return None
    if not isinstance(raw, dict) or not isinstance(raw.get("Enabled"), bool):
        faults.append(f"{name}: CacheConfig needs Enabled (true or false)")
        return None
    faults += _unknown(f"{name}: CacheConfig", raw, ("Enabled", "ExpireAfter"))
    expire_after = raw.get("ExpireAfter")
    if not raw["Enabled"]:
        return None
    if expire_after is None:
        return CachePolicy(None)
    try:
        return CachePolicy(parse_duration(str(expire_after)))
    except ValueError as error:
        faults.append(f"{name}: CacheConfig.ExpireAfter: {error}")
        return None


def _retry_policies(name: str, raw: Mapping[str, Any], faults: list[str]) -> Iterator[RetryPolicy]:
    for entry in _list(raw, "RetryPolicies", faults, f"{name}: "):
        types = entry.get("ExceptionType") if isinstance(entry, dict) else None
        types = [types] if isinstance(types, str) else types
        if not isinstance(types, list) or not all(isinstance(item, str) for item in types):
            faults.append(f"{name}: a retry policy needs ExceptionType (strings)")
            continue
        faults += _unknown(f"{name}: a retry policy", entry, ("ExceptionType", *_RETRY_NUMBERS))
        numbers = {key: entry.get(key) for key in _RETRY_NUMBERS}
        wrong = [key for key, value in numbers.items() if not _is_count(value)]
        if wrong:
            faults.append(f"{name}: {wrong[0]} of a retry policy is {numbers[wrong[0]]!r:.40}")
            continue
        yield RetryPolicy(
            exception_types=tuple(types),
            interval_seconds=_or_default(numbers["IntervalSeconds"], RetryPolicy.interval_seconds),
            backoff_rate=_or_default(numbers["BackoffRate"], RetryPolicy.backoff_rate),
            max_attempts=None if numbers["MaxAttempts"] is None else int(numbers["MaxAttempts"]),
            expire_after_minutes=numbers["ExpireAfterMin"],
        )


_RETRY_NUMBERS = ("IntervalSeconds", "BackoffRate", "MaxAttempts", "ExpireAfterMin")


def _is_count(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _or_default(value: float | None, default: float) -> float:
    return default if value is None else value
