"""What is written is read back the same, and what nobody knows is refused by its name."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.document.model import (
    PARAMETER_TYPES,
    TRIGGERS,
    Branch,
    CachePolicy,
    Definition,
    Dependency,
    OutputParameter,
    Parameter,
    PropertyFile,
    RetryPolicy,
    Step,
    format_duration,
    parse_duration,
)
from compilegate.document.reading import read_definition
from compilegate.document.step_types import CONDITION, STEP_TYPES
from compilegate.document.writing import compact, definition_document, write_definition

names = st.text("abcXYZ09-_", min_size=1, max_size=8)
texts = st.text(max_size=12)
numbers = st.one_of(st.integers(0, 10**6), st.floats(0, 1e6, allow_nan=False))
scalars = st.one_of(texts, st.integers(), st.booleans(), st.floats(allow_nan=False).filter(abs))
values = st.recursive(
    scalars.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
durations = st.timedeltas(timedelta(0), timedelta(days=10**6)).map(
    lambda length: timedelta(days=length.days, seconds=length.seconds)
)
parameters = st.builds(Parameter, names, st.just("String"), st.none() | texts) | st.builds(
    Parameter, names, st.just("Integer"), st.integers(), st.lists(texts, min_size=1).map(tuple)
)
retry_policies = st.builds(
    RetryPolicy,
    st.lists(names, max_size=3).map(tuple),
    numbers,
    numbers,
    st.none() | st.integers(1, 20),
    st.none() | numbers,
)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Step, ...]:
    """Steps of every type, those on branches right after their condition."""
    number = count()

    def level(branch: Branch | None, depth: int) -> list[Step]:
        found = []
        for _ in range(draw(st.integers(0 if branch else 1, 3))):
            step = one(branch, depth)
            found.append(step)
            if step.type == CONDITION:
                found += level(Branch(step.name, True), depth + 1)
                found += level(Branch(step.name, False), depth + 1)
        return found

    def one(branch: Branch | None, depth: int) -> Step:
        types = [name for name in STEP_TYPES if depth < 2 or name != CONDITION]
        kind = draw(st.sampled_from(types))
        known = STEP_TYPES[kind]

        def some(
            of: Any, *arguments: st.SearchStrategy[Any], where: str | None = None
        ) -> tuple[Any, ...]:
            there = where is None or where in known.members
            return tuple(draw(st.lists(st.builds(of, *arguments), max_size=2 * there)))

        return Step(
            name=f"{draw(names)}-{next(number)}",
            type=kind,
            arguments=draw(st.dictionaries(texts, values, max_size=3)),
            depends_on=some(Dependency, names, st.sampled_from(TRIGGERS)),
            branch=branch,
            cache=draw(st.none() | st.builds(CachePolicy, st.none() | durations))
            if known.cache_key
            else None,
            retry_policies=some(lambda each: each, retry_policies, where="RetryPolicies"),
            property_files=some(PropertyFile, names, names, texts, where="PropertyFiles"),
            function=draw(texts) if known.function else None,
            output_parameters=some(
                OutputParameter,
                names,
                st.sampled_from(list(PARAMETER_TYPES)),
                where="OutputParameters",
            ),
            members=draw(st.fixed_dictionaries({}, optional=dict.fromkeys(known.beside, texts))),
            display_name=draw(st.none() | texts),
            description=draw(st.none() | texts),
        )

    return tuple(level(None, 0))


definitions = st.builds(
    Definition, st.lists(parameters, max_size=3).map(tuple), steps(), st.none() | st.integers(1, 99)
)


@pytest.mark.slow
@given(definitions)
def test_a_definition_is_read_back_as_it_was_written(definition: Definition) -> None:
    text = write_definition(definition)
    assert read_definition(text) == (definition, [])
    assert read_definition(compact(text)) == (definition, [])


@given(durations)
def test_a_duration_is_read_back_as_it_was_written(length: timedelta) -> None:
    assert parse_duration(format_duration(length)) == length


def with_everything() -> dict[str, Any]:
    """The JSON of a definition in which every part of a definition occurs."""
    policies = {
        "cache": CachePolicy(timedelta(days=30)),
        "retry_policies": (RetryPolicy(("Step.THROTTLING",), max_attempts=2),),
    }
    train = Step("train", "Training", {"RoleArn": "role"}, **policies)
    file = PropertyFile("Verdict", "verdict", "verdict.json")
    after = (Dependency("train"),)
    gate = Step("gate", "Processing", {}, depends_on=after, property_files=(file,))
    decide = Step("decide", CONDITION, {"Conditions": []})
    fail = Step("fail", "Fail", {"ErrorMessage": "no"}, branch=Branch("decide", True))
    parameter = Parameter("Data", "String", "s3://bucket/data")
    document = definition_document(Definition((parameter,), (train, gate, decide, fail)))
    assert read_definition(json.dumps(document))[1] == []
    return document


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ((), "the definition: unknown member Unknown, expected one of Version, "),
        (("Parameters", 0), "parameter Data: unknown member Unknown, expected one of Name, "),
        (("Steps", 0), "train: unknown member Unknown, expected one of Name, Type, "),
        (("Steps", 0, "CacheConfig"), "train: CacheConfig: unknown member Unknown, "),
        (("Steps", 1, "PropertyFiles", 0), "gate: PropertyFiles[0]: unknown member Unknown, "),
        (("Steps", 2, "Arguments", "IfSteps", 0), "fail: unknown member Unknown, "),
    ],
)
def test_a_member_that_nobody_knows_is_refused_by_its_name(place: Any, sentence: str) -> None:
    document = with_everything()
    at: Any = document
    for key in place:
        at = at[key]
    at["Unknown"] = 1
    (fault,) = read_definition(json.dumps(document))[1]
    assert fault.startswith(sentence)


@pytest.mark.parametrize(
    ("step", "member"), [(0, "FunctionArn"), (0, "PropertyFiles"), (2, "RetryPolicies")]
)
def test_a_member_that_belongs_to_other_types_of_step_is_refused(step: int, member: str) -> None:
    """A Lambda step's function, for one, was left out in silence once."""
    document = with_everything()
    document["Steps"][step][member] = []
    assert f"unknown member {member}" in read_definition(json.dumps(document))[1][0]
