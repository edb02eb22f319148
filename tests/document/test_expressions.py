"""Variables and functions of a definition get the values they stand for."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.document.expressions import (
    ExpressionError,
    Scope,
    StepReference,
    format_path,
    lookup,
    parse_path,
    resolve,
    step_references,
)
from compilegate.document.model import Parameter, parameter_values, parse_duration

REPORT = {"gate": {"passed": True, "arms": [{"name": "a.b"}, {"name": "c"}]}}


def scope(report: bytes | None = None) -> Scope:
    def read_property(reference: StepReference) -> Any:
        return lookup(
            {"Outputs": [{"OutputName": "x", "Uri": "s3://b/x"}]}, reference.path, by_name=True
        )

    return Scope(
        parameters={"Bucket": "data", "Epochs": 3, "Rate": 0.5, "Flag": True},
        execution={"PipelineExecutionId": "abc"},
        read_property=read_property,
        property_file_uri=lambda reference: f"s3://reports/{reference.path[-1]}",
        read_object=lambda uri: json.dumps(REPORT).encode() if report is None else report,
    )


def test_get_and_join_stand_for_values_at_any_depth() -> None:
    values = ["s3:/", {"Get": "Parameters.Bucket"}, 7, {"Get": "Parameters.Flag"}, 0.5]
    arguments = {
        "a": {"Get": "Parameters.Epochs"},
        "b": [{"Get": "Execution.PipelineExecutionId"}],
        "c": {"Get": "Steps.prepare.Outputs['x'].Uri"},
        "d": {"Std:Join": {"On": "/", "Values": values}},
    }
    found = resolve(arguments, scope())
    assert found == {"a": 3, "b": ["abc"], "c": "s3://b/x", "d": "s3://data/7/true/0.5"}


def test_json_get_follows_dots_and_brackets() -> None:
    for path, value in {
        "gate.passed": True,
        "$.gate.passed": True,
        "gate.arms[1].name": "c",
        'gate["arms"][0]["name"]': "a.b",
    }.items():
        by_uri = {"Std:JsonGet": {"S3Uri": {"Get": "Parameters.Bucket"}, "Path": path}}
        assert resolve(of_a_report(path), scope()) == value
        assert resolve(by_uri, scope()) == value


def of_a_report(path: str) -> dict[str, Any]:
    file = {"Get": "Steps.gate.PropertyFiles.Report"}
    return {"Std:JsonGet": {"PropertyFile": file, "Path": path}}


def test_a_report_without_the_value_says_what_is_there() -> None:
    for report, reason in (
        (b"{", "not valid JSON"),
        (b'{"gate": {"passed": NaN}}', "NaN is not a JSON number"),
        (b'{"gate": {}}', "gate has no 'passed'; it has no members"),
        (b"[]", "the document has no 'gate'; it has a list of 0"),
    ):
        with pytest.raises(ExpressionError, match=reason):
            resolve(of_a_report("gate.passed"), scope(report))


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"Get": "Parameters.Nope"}, "names nothing"),
        ({"Get": 3}, "expected a name"),
        ({"Get": "Steps.only"}, "needs the form"),
        ({"Std:Upper": "x"}, "function Std:Upper is unknown"),
        ({"Std:Join": ["a"]}, "expected On and Values"),
        ({"Std:Join": {"On": "", "Values": [[1]]}}, "expected strings"),
        ({"Std:JsonGet": {"PropertyFile": {"Get": "Steps.a.PropertyFiles.b"}}}, "expected a Path"),
    ],
)
def test_an_expression_without_a_value_is_quoted(expression: Any, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        resolve(expression, scope())


def test_references_are_found_at_any_depth() -> None:
    arguments = {
        "x": [{"Std:Join": {"On": "", "Values": [{"Get": "Steps.a.B"}]}}],
        "y": {"Get": "Steps.c.D[0]"},
    }
    found = [StepReference("a", ("B",)), StepReference("c", ("D", 0))]
    assert list(step_references(arguments)) == found


segments = st.one_of(
    st.integers(0, 99), st.text(st.characters(exclude_characters="'\""), min_size=1)
)


@pytest.mark.slow
@given(st.lists(segments, min_size=1, max_size=5))
def test_a_path_survives_being_written_and_read(path: list[str | int]) -> None:
    assert parse_path(format_path(path)) == tuple(path)


def test_a_malformed_path_or_duration_is_refused() -> None:
    for text in ("", "$", "a..b", "a[b]", "a['b", "a[*]", "a.", "a['b']c"):
        with pytest.raises(ExpressionError):
            parse_path(text)
    for text in ("", "PT", "30", "1h", "P-1D", "P1.5D", "P9999999999D"):
        with pytest.raises(ValueError, match="duration"):
            parse_duration(text)


def test_durations_are_read_as_the_service_writes_them() -> None:
    for text, length in {
        "30d": timedelta(days=30),
        "p1w": timedelta(weeks=1),
        "T16m": timedelta(minutes=16),
        "30dT5h": timedelta(days=30, hours=5),
        "P1Y2M": timedelta(days=365 + 60),
    }.items():
        assert parse_duration(text) == length


def test_parameters_take_given_values_over_defaults_and_name_what_is_wrong() -> None:
    declared = (
        Parameter("Name", "String", "x", ("x", "y")),
        Parameter("Count", "Integer", 1),
        Parameter("Rate", "Float", 0.5),
        Parameter("Flag", "Boolean", False),
        Parameter("Needed", "String"),
    )
    values = {"Needed": "n", "Count": "7", "Rate": 2, "Flag": "true"}
    read = {**values, "Name": "x", "Count": 7, "Flag": True}
    assert parameter_values(declared, values) == (read, [])
    wrong = {"Other": 1, "Count": "1.5", "Name": "z", "Flag": 3}
    assert parameter_values(declared, wrong)[1] == [
        "parameter Other is not declared, expected Name, Count, Rate, Flag, Needed",
        "parameter Name is 'z', expected one of x, y",
        "parameter Count is '1.5', expected a value of Integer",
        "parameter Flag is 3, expected a value of Boolean",
        "parameter Needed (String) has no default and was not given",
    ]
