"""The SageMaker SDK, given our steps, writes the definition that we write."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.document.model import Dependency
from compilegate.document.reading import read_definition
from compilegate.document.writing import write_definition

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
GOLDEN = sorted((HERE / "golden").glob("*.json"))
WHOLE = [path for path in GOLDEN if "Steps" in json.loads(path.read_text(encoding="utf-8"))]
SDK_PIPELINE = HERE.parent / "local" / "sdk_pipeline.json"


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_the_sdk_writes_the_same_bytes(path: Path) -> None:
    from compilegate.pipelines.sdk import sdk_document, sdk_pipeline  # noqa: PLC0415  takes seconds

    text = path.read_text(encoding="utf-8")
    definition, faults = read_definition(text)
    assert faults == []
    pipeline = sdk_pipeline("p", definition, region="eu-west-1", bucket="b")
    assert json.dumps(sdk_document(pipeline), indent=2) + "\n" == text


def test_a_pipeline_with_every_kind_of_step_and_expression_is_the_same_after_our_model() -> None:
    """The definition was made by the SDK's own classes, and is what they would write now."""
    from compilegate.pipelines.sdk import check_against_sdk  # noqa: PLC0415

    definition, faults = read_definition(SDK_PIPELINE.read_text(encoding="utf-8"))
    assert faults == []
    check_against_sdk(definition)


def test_what_the_sdk_would_write_in_another_way_is_named_by_its_step() -> None:
    """The SDK leaves out a dependency that is there twice."""
    from compilegate.pipelines.sdk import SdkError, check_against_sdk  # noqa: PLC0415

    definition, _ = read_definition(WHOLE[0].read_text(encoding="utf-8"))
    first, second, *rest = definition.steps
    twice = replace(second, depends_on=(Dependency(first.name), Dependency(first.name)))
    with pytest.raises(SdkError, match=f"differently: {second.name};"):
        check_against_sdk(replace(definition, steps=(first, twice, *rest)))


def test_our_writing_of_what_the_sdk_wrote_changes_no_step() -> None:
    """But for a duration, which is written in one way."""
    text = SDK_PIPELINE.read_text(encoding="utf-8").replace('"30d"', '"P30D"')
    definition, _ = read_definition(text)
    assert json.loads(write_definition(definition))["Steps"] == json.loads(text)["Steps"]
