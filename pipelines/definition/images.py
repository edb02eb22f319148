"""Which image an arm's jobs run in."""

from __future__ import annotations

from pipelines.definition.deployment import Deployment
from pipelines.workload import Arm


def image_of(deployment: Deployment, arm: Arm) -> str:
    """The image's URI. `missing_images` has said before if there is none."""
    return deployment.images[arm.image_folder]


def missing_images(deployment: Deployment, arms: dict[str, Arm]) -> list[str]:
    """A sentence for each arm whose image the deployment does not have."""
    there = ", ".join(sorted(deployment.images))
    return [
        f"arms.{name}.image: the {arm.compiler} arm runs in the image {arm.image_folder!r}, "
        f"which is no folder of containers/, allowed: {there}"
        for name, arm in arms.items()
        if arm.image_folder not in deployment.images
    ]
