"""A request that the service would refuse is refused by step and field before anybody pays."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from compilegate.document.reading import read_definition
from compilegate.pipelines.compilation import InvalidRequestError, check_requests
from compilegate.pipelines.deployment import local_deployment
from tests.pipelines.definitions import HERE, compiled, workload

GOLDEN = HERE / "golden" / "topics.json"
Document = dict[str, Any]


def problems_of(change: Callable[[Document], object]) -> list[str]:
    """What is wrong with the golden definition after a change."""
    document = json.loads(GOLDEN.read_text(encoding="utf-8"))
    change(document)
    definition, faults = read_definition(json.dumps(document))
    assert faults == []
    with pytest.raises(InvalidRequestError) as caught:
        check_requests(definition)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("ResourceConfig.InstanceType", "ml.g5.xlarg", "did you mean 'ml.g5.xlarge'?"),
        ("RoleArn", "the role of the jobs", "RoleArn is 'the role of the jobs', expected a string"),
        ("HyperParameters.arm", "x" * 2501, "arm has 2501 characters, expected 2500 at most"),
        ("HyperParameters", dict.fromkeys(map(str, range(101)), "1"), "101 entries, expected 100"),
        ("HyperParameters." + "x" * 257, "1", "HyperParameters: the key has 257 characters, expe"),
        ("ResourceConfig.InstanceCount", "one", "is 'one', expected a value of type integer"),
        ("StoppingCondition.MaxRuntimeInSeconds", 0, "is 0, expected 1 at least"),
        ("OutputDataConfig", None, "OutputDataConfig is missing"),
        ("Fantasy", 1, "Train-baseline-7.Fantasy: boto3 knows no such member"),
    ],
)
def test_a_request_that_the_service_would_refuse_is_named(
    place: str, value: Any, sentence: str
) -> None:
    def change(document: Document) -> None:
        *parents, last = place.split(".")
        table = document["Steps"][1]["Arguments"]
        for part in parents:
            table = table[part]
        if value is None:
            del table[last]
        else:
            table[last] = value

    problems = problems_of(change)
    assert problems[0].startswith("Train-baseline-7")
    assert sentence in problems[0]


def test_a_parameter_s_default_that_the_service_would_refuse_is_named_once() -> None:
    def change(document: Document) -> None:
        named = {each["Name"]: each for each in document["Parameters"]}
        named["TrainingInstanceType"]["DefaultValue"] = "ml.g5.xlarg"

    (problem,) = problems_of(change)
    assert problem.startswith("the parameter TrainingInstanceType is 'ml.g5.xlarg', expected ")


def test_images_that_are_not_there_are_refused_by_the_key_that_needs_them() -> None:
    deployment = local_deployment({"training": "1111", "xgboost": "3333"})
    declared = workload("trees", program={"image": "boost"}, arms__baseline={"image": "mine"})
    with pytest.raises(InvalidRequestError) as refused:
        compiled(declared, deployment)
    reason = "is not a folder in containers/ with a Dockerfile, allowed: training, xgboost"
    assert list(refused.value.problems) == [
        f"{key}: the image {folder!r} {reason}"
        for key, folder in (
            ("arms.baseline.image", "mine"),
            ("program.image", "boost"),
            ("Gate", "gate"),
        )
    ]
