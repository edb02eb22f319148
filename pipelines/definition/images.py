"""Which image an arm's jobs run in."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.catalog.compilers import Stack, compilers
from pipelines.catalog.images import UnknownImageError
from pipelines.definition.deployment import Deployment
from pipelines.workload import Arm, Program
from pipelines.workload.arm import AWS_IMAGE


class ImageError(Exception):
    """There is no image for an arm; one sentence without a full stop."""


def image_of(deployment: Deployment, arm: Arm) -> str:
    """The URI of the image that an arm's jobs run in.

    That of the project's own folder, or AWS's own image in the deployment's region. Raises
    ImageError.
    """
    if arm.image_folder == AWS_IMAGE:
        return _aws_image(deployment, arm)
    if arm.image_folder not in deployment.images:
        raise ImageError(
            f"the {arm.compiler} arm runs in the image {arm.image_folder!r}, which is no folder "
            f"of containers/ that has one, allowed: {', '.join(sorted(deployment.images))}"
        )
    return deployment.images[arm.image_folder]


def image_faults(deployment: Deployment, arms: Mapping[str, Arm]) -> list[str]:
    """A sentence for each arm that has no image there."""
    faults = []
    for name, arm in arms.items():
        try:
            image_of(deployment, arm)
        except ImageError as error:
            faults.append(f"arms.{name}.image: {error}")
    return faults


def processing_faults(deployment: Deployment, program: Program | None) -> list[str]:
    """A sentence for each processing step without an image: what prepares data, a program of one's
    own or the project's, and the gate."""
    runs_in = {
        "Prepare" if program is None else "program.image": program.image if program else "training",
        "Gate": "gate",
    }
    return [
        f"{step} runs in the image {image!r}, which is no folder of containers/ with a "
        f"Dockerfile, allowed: {', '.join(sorted(deployment.images))}"
        for step, image in runs_in.items()
        if image not in deployment.images
    ]


def stack_of(arm: Arm) -> Stack | None:
    """What the catalog knows of the versions that an arm declares; None where it declares none, or
    there are no such."""
    declared = arm.stack
    if declared is None:
        return None
    return compilers()[arm.compiler].stack(
        declared.framework, declared.version, declared.transformers
    )


def _aws_image(deployment: Deployment, arm: Arm) -> str:
    stack = stack_of(arm)
    if stack is None:
        raise ImageError(f"the catalog knows no image of AWS's for this {arm.compiler} arm")
    try:
        return stack.image.uri(deployment.registry_region or deployment.region)
    except UnknownImageError as error:
        raise ImageError(str(error)) from error
