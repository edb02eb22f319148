"""Which image a workload's models are served in."""

from __future__ import annotations

from compilegate.catalog.images import UnknownImageError
from compilegate.pipelines.deployment import Deployment
from compilegate.pipelines.requests.images import NoImageError
from compilegate.workload import AWS_IMAGE, Served


def serving_image(deployment: Deployment, serving: Served) -> str:
    """The URI of the image. Raises NoImageError."""
    if serving.in_image_of_aws:
        try:
            return serving.base_image.uri(deployment.registry_region or deployment.region)
        except UnknownImageError as error:
            raise NoImageError(str(error)) from error
    folder = serving.image
    if folder not in deployment.images:
        raise NoImageError(
            f"models are served in the image {folder!r}, which is not an image folder in "
            f"containers/, allowed: {AWS_IMAGE}, {', '.join(sorted(deployment.images))}"
        )
    return deployment.images[folder]


def serving_faults(deployment: Deployment, serving: Served | None) -> list[str]:
    """A sentence where there is no image to serve models in."""
    if serving is None:
        return []
    try:
        serving_image(deployment, serving)
    except NoImageError as error:
        return [f"serving.image: {error}"]
    return []
