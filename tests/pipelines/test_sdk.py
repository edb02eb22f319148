"""The SageMaker SDK, given our steps, writes the definition that we write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compilegate.document.reading import read_definition
from compilegate.document.writing import write_definition

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SDK_PIPELINE = HERE.parent / "local" / "sdk_pipeline.json"
"""Every kind of step and expression, written by the SDK's own classes."""
MISSION = sorted((HERE.parent / "mission" / "golden" / "definitions").glob("*.json"))
WHOLE = [*(HERE / "golden" / f"{name}.json" for name in ("topics", "diffusion", "trees")), *MISSION]


@pytest.mark.parametrize("path", [*WHOLE, SDK_PIPELINE], ids=lambda path: path.stem)
def test_the_sdk_writes_the_same_definition(path: Path) -> None:
    from tests.pipelines.sdk import sdk_document  # noqa: PLC0415  takes seconds

    definition, faults = read_definition(path.read_text(encoding="utf-8"))
    assert faults == []
    assert json.dumps(sdk_document(definition), indent=2) + "\n" == write_definition(definition)


def test_our_writing_of_what_the_sdk_wrote_changes_no_step() -> None:
    """But for a duration, which is written in one way."""
    text = SDK_PIPELINE.read_text(encoding="utf-8").replace('"30d"', '"P30D"')
    definition, _ = read_definition(text)
    assert json.loads(write_definition(definition))["Steps"] == json.loads(text)["Steps"]
