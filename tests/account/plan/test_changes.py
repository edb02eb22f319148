"""Definitions compared by step and field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.account.plan.changes import (
    FieldChange,
    StepChange,
    compare_definitions,
    compare_values,
)


def definition(*steps: dict[str, Any], **more: Any) -> str:
    return json.dumps({"Version": "2020-12-01", "Parameters": [], "Steps": steps, **more})


def training(name: str, **arguments: Any) -> dict[str, Any]:
    return {"Name": name, "Type": "Training", "Arguments": arguments}


def test_the_same_definition_has_no_changes_whatever_its_spaces() -> None:
    text = definition(training("A", HyperParameters={"epochs": "2"}))
    assert compare_definitions(text, json.dumps(json.loads(text), indent=4)).none


def test_steps_that_change_alike_are_told_of_together() -> None:
    before = definition(*(training(name, RoleArn="old") for name in "ABC"), training("D"))
    after = definition(*(training(name, RoleArn="new") for name in "ABC"), training("E"))
    changes = compare_definitions(before, after)
    assert changes.changed == (
        StepChange(("A", "B", "C"), (FieldChange("RoleArn", "old", "new"),)),
    )
    assert (changes.added, changes.removed) == (("E",), ("D",))


def test_steps_on_the_branches_of_a_condition_are_compared_too() -> None:
    def deciding(version: str) -> str:
        inner = {"Name": "R", "Type": "RegisterModel", "Arguments": {"Group": version}}
        arguments = {"Conditions": [], "IfSteps": [inner], "ElseSteps": []}
        return definition({"Name": "Decide", "Type": "Condition", "Arguments": arguments})

    changes = compare_definitions(deciding("1"), deciding("2"))
    assert changes.changed == (StepChange(("R",), (FieldChange("Group", "1", "2"),)),)


def test_elements_with_names_are_compared_by_name_and_not_by_place() -> None:
    def inputs(*names: str) -> str:
        listed = [{"InputName": name, "S3Uri": f"s3://b/{name}"} for name in names]
        return definition({"Name": "P", "Type": "Processing", "Arguments": {"Inputs": listed}})

    (change,) = compare_definitions(inputs("code", "data"), inputs("data", "more", "code")).changed
    assert change.fields == (
        FieldChange("Inputs.[more]", None, '{"InputName": "more", "S3Uri": "s3://b/more"}'),
    )


def test_of_a_list_of_words_only_the_differing_stretch_is_told() -> None:
    before, after = ["--a", "1", "--b", "2"], ["--a", "1", "--c", "3", "--b", "2"]
    assert list(compare_values(before, after, "Arguments")) == [
        FieldChange("Arguments", None, "--c 3")
    ]


def test_an_expression_is_one_value() -> None:
    before = {"Uri": {"Get": "Parameters.Data"}}
    after = {"Uri": {"Std:Join": {"On": "/", "Values": ["a", "b"]}}}
    (change,) = compare_values(before, after)
    assert change.path == "Uri"
    assert change.before == '{"Get": "Parameters.Data"}'


def test_a_parameters_default_is_a_change_of_parameters() -> None:
    before, after = (
        definition(training("A"), Parameters=[{"Name": "Data", "DefaultValue": uri}])
        for uri in ("s3://b/1", "s3://b/2")
    )
    changes = compare_definitions(before, after)
    assert changes.changed == ()
    assert changes.parameters == (FieldChange("[Data].DefaultValue", "s3://b/1", "s3://b/2"),)


def test_against_nothing_every_step_is_new() -> None:
    assert compare_definitions("{}", definition(training("A"), training("B"))).added == ("A", "B")


KEYS = st.sampled_from(["Name", "Key", "Value", "Get"])
JSON = st.recursive(
    st.none() | st.integers(2) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def without_order(value: Any) -> Any:
    """The value as far as it says something: lists of uniquely named elements have no order."""
    if isinstance(value, dict):
        return {key: without_order(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((without_order(item) for item in value), key=repr)
    return value


@pytest.mark.slow
@settings(max_examples=40)
@given(JSON, JSON)
def test_values_that_differ_in_more_than_order_have_changes(before: Any, after: Any) -> None:
    if without_order(before) != without_order(after):
        assert list(compare_values(before, after))
    assert not list(compare_values(before, before))


@pytest.mark.slow
@settings(max_examples=40)
@given(JSON, JSON)
def test_the_way_back_has_its_changes_at_the_same_places(before: Any, after: Any) -> None:
    there, back = compare_values(before, after), compare_values(after, before)
    assert {change.path for change in there} == {change.path for change in back}
