"""AWS's own images that arms use unchanged; their repositories are in AWS's accounts."""

from __future__ import annotations

from collections.abc import Iterable

from compilegate.catalog.images import EcrRepository, ecr_repository
from compilegate.infra.project import DeclaredWorkload
from compilegate.workload import AWS_IMAGE


def aws_repositories(workloads: Iterable[DeclaredWorkload], region: str) -> list[EcrRepository]:
    """The repositories that training jobs pull from, in that region, each once.

    Raises UnknownImageError if AWS has no such image there.
    """
    found = {
        ecr_repository(stack.image.uri(region))
        for declared in workloads
        for arm in declared.workload.arms.values()
        if arm.image_folder == AWS_IMAGE and (stack := arm.known_stack) is not None
    }
    return sorted((each for each in found if each is not None), key=lambda each: each.name)
