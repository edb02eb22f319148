"""The deployment that a plan compiles for, from what the stacks say and what is in the checkout."""

from __future__ import annotations

from compilegate.account.deployed import StackOutputs
from compilegate.account.plan.target import target_deployment
from compilegate.account.settings import Names, Settings
from tests.account.deployed import FOUNDATION


def test_an_image_folder_that_is_new_has_the_repository_that_a_deployment_would_make() -> None:
    deployment = target_deployment(
        StackOutputs("compilegate-foundation", FOUNDATION),
        None,
        Names(Settings(tags={"cost-centre": "7"})),
        {"training": "1", "brand-new": "2"},
        "us-east-1",
    )
    assert deployment.tags == {"compilegate:project": "compilegate", "cost-centre": "7"}
    deployed = deployment.images["training"].removesuffix("training:1")
    assert deployment.images["brand-new"] == f"{deployed}brand-new:2"
