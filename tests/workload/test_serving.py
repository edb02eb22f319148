"""`[serving]`: what follows from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compilegate.datasets import raw_data
from compilegate.pipelines.compilation import InvalidRequestError, compile_definition
from compilegate.pipelines.deployment import local_deployment
from compilegate.pipelines.staging.placement import Placement, placement_of
from compilegate.pipelines.staging.source_trees import OwnCodeError
from compilegate.workload import Workload
from tests.workload.settled import workload_with

PIPELINES = Path(__file__).parents[1] / "pipelines"
TOPICS = PIPELINES / "topics.toml"
DEPLOYMENT = local_deployment({"training": "1111", "gate": "2222", "xgboost": "3333"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the workload's file, with its data."""
    for split in ("train", "validation"):
        (tmp_path / f"{split}.csv").write_text("text,label\nwheat,grain\n", encoding="utf-8")
    return tmp_path


def placed(workload: Workload, folder: Path) -> Placement:
    return placement_of(workload, DEPLOYMENT, raw_data(workload.data, folder), folder)


def registered(workload: Workload, folder: Path) -> dict[str, Any]:
    """The request that registers the baseline, as it is compiled."""
    sources = placed(workload, folder).sources
    steps = json.loads(compile_definition(workload, DEPLOYMENT, sources))["Steps"]
    found = [below for step in steps for below in step["Arguments"].get("IfSteps", ())]
    request: dict[str, Any] = next(
        step["Arguments"] for step in found if step["Name"] == "Register-baseline"
    )
    return request


def test_a_workload_without_serving_registers_without_content_types_and_says_so(
    folder: Path,
) -> None:
    request = registered(workload_with(TOPICS), folder)
    specification = request["InferenceSpecification"]
    assert set(specification) == {"Containers"}
    assert "/training:" in specification["Containers"][0]["Image"]
    assert request["ModelPackageDescription"].endswith(
        "Cannot be served as it is: its workload has no [serving]."
    )


def test_an_empty_table_is_enough_for_the_built_in_program(folder: Path) -> None:
    request = registered(workload_with(TOPICS, serving={}), folder)
    specification = request["InferenceSpecification"]
    (container,) = specification["Containers"]
    assert "/huggingface-pytorch-inference:" in container["Image"]
    assert container["Environment"]["SAGEMAKER_SUBMIT_DIRECTORY"] == "/opt/ml/model/code"
    assert specification["SupportedContentTypes"] == [
        "application/json",
        "application/jsonlines",
        "text/plain",
    ]
    assert request["ModelPackageDescription"].endswith("Can be served.")


def test_an_own_image_and_types_of_ones_own_are_registered(folder: Path) -> None:
    table = {"image": "gate", "content_types": ["text/csv"], "response_types": ["text/csv"]}
    batch = {"deploy": "batch", "instance_type": "ml.c5.xlarge"}
    specification = registered(workload_with(TOPICS, serving=table | batch), folder)[
        "InferenceSpecification"
    ]
    assert specification["Containers"][0]["Image"] == DEPLOYMENT.images["gate"]
    assert specification["SupportedContentTypes"] == ["text/csv"]
    assert specification["SupportedTransformInstanceTypes"] == ["ml.c5.xlarge"]


def test_how_it_is_served_changes_nothing_that_trains(folder: Path) -> None:
    plain = placed(workload_with(TOPICS), folder).sources
    served = placed(workload_with(TOPICS, serving={}), folder).sources
    assert plain.serving_code is None
    assert str(served.serving_code).endswith("-serving.tgz")
    assert vars(plain) | {"serving_code": None} == vars(served) | {"serving_code": None}


def test_an_image_that_is_not_there_is_refused_by_name(folder: Path) -> None:
    workload = workload_with(TOPICS, serving={"image": "waiter"})
    with pytest.raises(InvalidRequestError, match=r"serving\.image: the image 'waiter' is not a"):
        registered(workload, folder)


def test_a_handler_that_is_not_in_its_folder_is_refused(folder: Path) -> None:
    (folder / "ours").mkdir()
    workload = workload_with(TOPICS, serving={"folder": "ours", "handler": "serve.py"})
    with pytest.raises(OwnCodeError, match=r"has no file 'serve\.py'"):
        placed(workload, folder)
