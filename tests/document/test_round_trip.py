"""What is written is read back the same, and what nobody knows is refused by its name."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.document.model import (
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
from compilegate.document.step_types import STEP_TYPES
from compilegate.document.writing import compact, write_definition

RETRIES = (RetryPolicy(("Step.THROTTLING",), max_attempts=2), RetryPolicy((), 5, 1.5, None, 60))
FILE = PropertyFile("Verdict", "verdict", "verdict.json")
OUTPUTS = (OutputParameter("arm", "String"), OutputParameter("speedup", "Float"))
WAITS = (Dependency("train"), Dependency("gate", "Failed"))
TAKEN, NOT_TAKEN = Branch("decide", True), Branch("decide", False)
EVERYTHING = Definition(
    parameters=(
        Parameter("Data", "String", "s3://bucket/data"),
        Parameter("Arm", "String", "a", ("a", "b")),
        Parameter("Count", "Integer"),
        Parameter("On", "Boolean", False),
    ),
    steps=(
        Step("train", "Training", {"a": [{"Get": "Parameters.Data"}]}, retry_policies=RETRIES),
        Step("gate", "Processing", {}, cache=CachePolicy(timedelta(30)), property_files=(FILE,)),
        Step("decide", "Condition", {"Conditions": []}, depends_on=WAITS),
        Step("deep", "Condition", {"Conditions": []}, branch=TAKEN),
        Step("register", "RegisterModel", {}, branch=Branch("deep", False), display_name="R"),
        Step("fail", "Fail", {"ErrorMessage": "no"}, branch=NOT_TAKEN, description="Ends it."),
        Step("call", "Lambda", {}, function={"Get": "Parameters.Data"}, output_parameters=OUTPUTS),
        Step("ask", "Callback", {}, members={"SqsQueueUrl": "q"}, output_parameters=OUTPUTS),
        Step("model", "Model", {"PrimaryContainer": {}}),
        Step("answer", "Transform", {}, cache=CachePolicy()),
    ),
    max_parallel_steps=3,
)


def test_a_definition_is_read_back_as_it_was_written() -> None:
    assert {step.type for step in EVERYTHING.steps} == set(STEP_TYPES)
    text = write_definition(EVERYTHING)
    assert read_definition(text) == (EVERYTHING, [])
    assert read_definition(compact(text)) == (EVERYTHING, [])


@given(st.timedeltas(timedelta(0), timedelta(days=10**6)))
def test_a_duration_is_read_back_as_it_was_written(length: timedelta) -> None:
    whole = length - timedelta(microseconds=length.microseconds)
    assert parse_duration(format_duration(whole)) == whole


@pytest.mark.parametrize(
    ("place", "member", "sentence"),
    [
        ((), "Unknown", "the definition: unknown member Unknown, expected one of Version, "),
        (("Parameters", 0), "Unknown", "parameter Data: unknown member Unknown, expected one of"),
        (("Steps", 0), "Unknown", "train: unknown member Unknown, expected one of Name, Type, "),
        # Those of other types of step: a Lambda step's function was left out in silence once.
        (("Steps", 0), "FunctionArn", "train: unknown member FunctionArn, "),
        (("Steps", 0), "PropertyFiles", "train: unknown member PropertyFiles, "),
        (("Steps", 0, "RetryPolicies", 0), "Unknown", "train: RetryPolicies[0]: unknown member "),
        (("Steps", 1, "CacheConfig"), "Unknown", "gate: CacheConfig: unknown member Unknown, "),
        (("Steps", 2, "Arguments", "ElseSteps", 0), "Unknown", "fail: unknown member Unknown, "),
    ],
)
def test_a_member_that_nobody_knows_is_refused_by_its_name(
    place: tuple[Any, ...], member: str, sentence: str
) -> None:
    document = json.loads(write_definition(EVERYTHING))
    at: Any = document
    for key in place:
        at = at[key]
    at[member] = []
    assert read_definition(json.dumps(document))[1][0].startswith(sentence)


@given(half=st.characters(categories=["Cs"]), as_name=st.booleans())
def test_half_a_character_is_refused_wherever_it_stands(half: str, *, as_name: bool) -> None:
    """Neither a file nor a process can be given one."""
    document = json.loads(write_definition(EVERYTHING))
    document["Steps"][0]["Arguments"] = {half: 1} if as_name else {"a": [1, {"b": half}]}
    _, (fault,) = read_definition(json.dumps(document))
    assert "half a character" in fault
