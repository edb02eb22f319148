"""Which repositories a workload's jobs pull their images from."""

from __future__ import annotations

from collections.abc import Iterable

from compilegate.access import Arns
from compilegate.catalog.images import EcrRepository, ecr_repository
from compilegate.pipelines.requests.images import GATE
from compilegate.workload import AWS_IMAGE, Workload


def arm_folders(workload: Workload, folders: Iterable[str]) -> list[str]:
    """Those of the image folders that training jobs run in."""
    used = {setup.image_folder for setup in workload.arms.values()}
    return [folder for folder in folders if folder in used]


def processing_folders(workload: Workload, folders: Iterable[str]) -> list[str]:
    """Those that processing jobs run in."""
    return sorted({workload.kind.processing_image[1], GATE} & set(folders))


def aws_repositories(workloads: Iterable[Workload], region: str) -> list[EcrRepository]:
    """AWS's own images that arms use unchanged: their repositories are in AWS's accounts, in that
    region, each once.

    Raises UnknownImageError if AWS has no such image there.
    """
    found = {
        ecr_repository(stack.image.uri(region))
        for workload in workloads
        for setup in workload.arms.values()
        if setup.image_folder == AWS_IMAGE and (stack := setup.known_stack) is not None
    }
    return sorted((each for each in found if each is not None), key=lambda each: each.name)


def serving_folders(workload: Workload) -> list[str]:
    """The image folder that models are served in; none for an image of AWS."""
    serving = workload.serving
    return [] if serving is None or serving.in_image_of_aws else [serving.image]


def serving_repositories(workload: Workload, region: str) -> list[EcrRepository]:
    """The repository of AWS's image that models are served in, which whoever registers one must
    see. Raises UnknownImageError if AWS has no such image there."""
    serving = workload.serving
    if serving is None or not serving.in_image_of_aws:
        return []
    found = ecr_repository(serving.base_image.uri(region))
    return [] if found is None else [found]


def repository_arns(arns: Arns, repositories: Iterable[EcrRepository]) -> list[str]:
    """Their ARNs, in the accounts that they lie in."""
    return [arns.repository(each.name, each.account) for each in repositories]
