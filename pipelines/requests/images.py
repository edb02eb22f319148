"""Which image each job runs in, and which one models are served in."""

from __future__ import annotations

from collections.abc import Iterable

from compilegate.catalog.images import BaseImage, UnknownImageError
from compilegate.errors import CompilegateError
from compilegate.pipelines.deployment import Deployment
from compilegate.workload import AWS_IMAGE, Arm, Served, Workload

GATE = "gate"
"""The image folder that the gate runs in."""


class NoImageError(CompilegateError):
    """There is no such image; one sentence without a full stop."""


def image_of(deployment: Deployment, arm: Arm) -> str:
    """The URI of the image that an arm's jobs run in.

    That of the project's own folder, or AWS's own image in the deployment's region. Raises
    NoImageError.
    """
    if arm.image_folder != AWS_IMAGE:
        return _own_image(deployment, arm.image_folder)
    if arm.known_stack is None:
        raise NoImageError(f"the catalog has no AWS image for this {arm.compiler} arm")
    return _aws_image(deployment, arm.known_stack.image)


def serving_image(deployment: Deployment, serving: Served) -> str:
    """The URI of the image that a workload's models are served in. Raises NoImageError."""
    if serving.in_image_of_aws:
        return _aws_image(deployment, serving.base_image)
    return _own_image(deployment, serving.image)


def image_folders_of(workload: Workload) -> dict[str, str]:
    """The folders whose images a workload's jobs run in, each with what needs it first."""
    used: dict[str, str] = {}
    for name, setup in workload.arms.items():
        if setup.image_folder != AWS_IMAGE:
            used.setdefault(setup.image_folder, f"arms.{name}.image")
    step, image = workload.kind.processing_image
    used.setdefault(image, f"step {step}")
    used.setdefault(GATE, "step Gate")
    if workload.serving is not None and not workload.serving.in_image_of_aws:
        used.setdefault(workload.serving.image, "serving.image")
    return used


def used_images(workloads: Iterable[Workload]) -> dict[str, str]:
    """The folders whose images these workloads need, each with the first key that names it:
    `topics: arms.baseline.image`."""
    used: dict[str, str] = {}
    for workload in workloads:
        for folder, key in image_folders_of(workload).items():
            used.setdefault(folder, f"{workload.name}: {key}")
    return used


def image_faults(deployment: Deployment, workload: Workload) -> list[str]:
    """A sentence for each image that the workload's jobs and models need and that is not there."""
    kind = workload.kind
    faults = {}
    for name, setup in workload.arms.items():
        try:
            image_of(deployment, setup)
        except NoImageError as error:
            faults[setup.image_folder, setup.compiler] = f"arms.{name}.image: {error}"
    for step, folder in (kind.processing_image, ("Gate", GATE)):
        if not any(folder == refused for refused, _ in faults) and folder not in deployment.images:
            faults[folder, ""] = f"{step}: {_missing(deployment, folder)}"
    if workload.serving is not None:
        try:
            serving_image(deployment, workload.serving)
        except NoImageError as error:
            faults["", ""] = f"serving.image: {error}"
    return list(faults.values())


def _missing(deployment: Deployment, folder: str) -> str:
    return (
        f"the image {folder!r} is not a folder in containers/ with a Dockerfile, allowed: "
        f"{', '.join(sorted(deployment.images))}"
    )


def _own_image(deployment: Deployment, folder: str) -> str:
    if folder not in deployment.images:
        raise NoImageError(_missing(deployment, folder))
    return deployment.images[folder]


def _aws_image(deployment: Deployment, image: BaseImage) -> str:
    try:
        return image.uri(deployment.registry_region or deployment.region)
    except UnknownImageError as error:
        raise NoImageError(str(error)) from error
