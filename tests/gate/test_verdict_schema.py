"""The published JSON schema of verdict.json: current, and true of verdicts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from compilegate.gate.verdict import verdict_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "verdict.schema.json"


def test_the_published_schema_is_that_of_the_types():
    """UPDATE_GOLDEN=1 writes it."""
    text = json.dumps(verdict_schema(), indent=2, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        PUBLISHED.write_text(text, encoding="utf-8")
    assert PUBLISHED.read_text(encoding="utf-8") == text


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seeds": (1,)},
        {"worse_by": 0.05},
        {"speedup": 1.0, "candidates": ("one", "two")},
        {
            "slices": [
                {"column": "no_such", "metric": "accuracy", "watched": True},
                {"column": "no_such", "metric": "accuracy", "margin": 0.1},
            ]
        },
    ],
)
def test_verdicts_satisfy_it(validator, new_execution, changes):
    document = json.loads(new_execution(examples=300, **changes).judge().to_json())
    assert list(validator.iter_errors(document)) == []


def test_a_verdict_on_nothing_satisfies_it(validator, execution):
    execution.records.clear()
    assert list(validator.iter_errors(json.loads(execution.judge().to_json()))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 2),
        (("decision", "arm"), None),
        (("candidates", 0, "outcome"), "maybe"),
        (("candidates", 0, "reasons", 0, "code"), "no.such_code"),
        (("candidates", 0, "metrics", 0, "surprise"), 1),
    ],
)
def test_what_is_no_verdict_does_not(validator, execution, path, value):
    document = json.loads(execution.judge().to_json())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert list(validator.iter_errors(document)) != []
