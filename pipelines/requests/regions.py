"""Which images a region lacks that workloads need. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from compilegate.catalog.images import BaseImage, base_images
from compilegate.pipelines.requests.images import used_images
from compilegate.workload import AWS_IMAGE, Workload

Bases = Mapping[str, BaseImage | str]
"""What each image folder extends: an image of the catalog, or one that was named by its URI."""


def regions() -> list[str]:
    """Every region in which AWS has one of its training images."""
    return sorted({region for image in base_images() for region in image.hosts})


def lacking_images(workloads: Sequence[Workload], bases: Bases, region: str) -> list[str]:
    """A sentence for each image that the workloads need and that cannot be had in the region:
    what a folder that they use extends, and AWS's own where they use it unchanged."""
    lacking = []
    for folder, needed_by in used_images(workloads).items():
        base = bases.get(folder)
        if isinstance(base, BaseImage) and region not in base.hosts:
            lacking.append(
                f"AWS has no image {base.label} in {region}; the image {folder} extends it, and "
                f"{needed_by} needs that; name a base that can be had there under [images] base in "
                "infra/settings.toml, or leave the workload out of its list of workloads"
            )
    for image, needed_by in _unchanged(workloads):
        if region not in image.hosts:
            lacking.append(f"AWS has no image {image.label} in {region}; {needed_by} needs it")
    return lacking


def _unchanged(workloads: Iterable[Workload]) -> Iterator[tuple[BaseImage, str]]:
    """The images of AWS that jobs and endpoints run in as they are, and the key that says so."""
    for workload in workloads:
        for name, setup in workload.arms.items():
            if setup.image_folder == AWS_IMAGE and (stack := setup.known_stack) is not None:
                yield stack.image, f"{workload.name}: arms.{name}.image"
        if workload.serving is not None and workload.serving.in_image_of_aws:
            yield workload.serving.base_image, f"{workload.name}: serving.image"
