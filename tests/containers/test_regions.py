"""Which regions a project can be deployed to: those that have what its workloads use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compilegate.pipelines.images import image_folders, lacking_images, regions
from compilegate.workload import read_workload
from tests.workload.settled import settled_arm

REPOSITORY = Path(__file__).parents[2]
BASES = {name: folder.base for name, folder in image_folders(REPOSITORY / "containers").items()}


@pytest.mark.slow
def test_the_repository_s_own_workloads_can_go_where_aws_has_what_their_arms_need() -> None:
    """Two of them have arms of Training Compiler and Neuron, whose images half of the regions lack;
    the sentence names the arms to leave out there."""
    shipped = [read_workload(path) for path in sorted((REPOSITORY / "workloads").glob("*.toml"))]
    without = [each for each in shipped if each.name not in {"documents-bert", "images-diffusion"}]
    lacking = {region: lacking_images(shipped, BASES, region) for region in regions()}
    assert lacking["us-east-1"] == lacking["eu-west-1"] == lacking["ap-northeast-1"] == []
    assert [region for region in regions() if lacking_images(without, BASES, region)] == []
    for sentences in lacking.values():
        for sentence in sentences:
            assert re.search(r"(documents-bert|images-diffusion): arms\.[a-z-]+\.image", sentence)


def test_what_a_region_lacks_has_the_key_that_needs_it() -> None:
    topics = read_workload(REPOSITORY / "tests" / "pipelines" / "topics.toml")
    common = {
        "compiler": "training-compiler",
        "training_compiler": {"version": "1.13.1"},
        "batch_size": 8,
        "learning_rate": 1e-3,
    }
    own, of_aws = settled_arm(**common), settled_arm(**common, image="aws")
    arms = {**topics.arms, "own": own, "unchanged": of_aws}
    workload = topics.model_copy(update={"arms": arms})
    assert lacking_images([workload], BASES, "us-east-1") == []
    image = "AWS has no image pytorch-training-compiler 1.13.1 (gpu) in mx-central-1"
    assert lacking_images([workload], BASES, "mx-central-1") == [
        f"{image}; the image training-compiler extends it, and {topics.name}: arms.own.image needs "
        "that; name a base that can be had there under [images] base in infra/settings.toml, or "
        "leave the workload out of its list of workloads",
        f"{image}; {topics.name}: arms.unchanged.image needs it",
    ]
    named = {**BASES, "training-compiler": "example.com/own:1"}
    assert len(lacking_images([workload], named, "mx-central-1")) == 1
