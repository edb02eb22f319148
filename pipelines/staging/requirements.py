"""What a program's `requirements.txt` asks for is in its images: no job installs anything when it
starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from compilegate.errors import CompilegateError
from compilegate.workload import Workload

REQUIREMENTS = "requirements.txt"


class RequirementsError(CompilegateError):
    """A requirements.txt cannot be used, or an image lacks what it asks for."""


def read_requirements(path: Path) -> list[Requirement]:
    """The packages that a requirements.txt asks for. Raises RequirementsError for a line that is
    more than a package and its versions: an option, an address, another file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RequirementsError(f"{path} cannot be read: {error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        text = re.split(r"(?:^|\s)#", line)[0].strip()
        if not text:
            continue
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            requirement = None
        if requirement is None or requirement.url is not None:
            raise RequirementsError(
                f"{path}, line {number}: found {text!r}, allowed: a package and its versions, as "
                "in 'pandas>=2,<3'; write anything else into the Dockerfile of an image folder"
            )
        found.append(requirement)
    return found


def images_in_use(workload: Workload) -> dict[str, tuple[str, ...]]:
    """The image folders that run a workload's own program, each with the keys that name it."""
    used: dict[str, dict[str, None]] = {}
    key, image = workload.kind.processing_image
    if workload.kind.preparation is not None:
        used.setdefault(image, {})[key] = None
    for name, setup in workload.arms.items():
        used.setdefault(setup.image_folder, {})[f"arms.{name}.image"] = None
    return {image: tuple(keys) for image, keys in used.items()}


def unbuilt_requirements(workload: Workload, folder: Path, containers: Path) -> Iterator[str]:
    """A sentence for each package that a program asks for and an image of the workload lacks, where
    the workload says that they are in its images. `folder` is that of the workload's file."""
    source = workload.kind.source_folder
    if source is None or not workload.kind.requirements_in_image:
        return
    path = folder / source / REQUIREMENTS
    wanted = read_requirements(path) if path.is_file() else []
    for image, keys in images_in_use(workload).items():
        there = containers / image / REQUIREMENTS
        has = {_normal(each) for each in read_requirements(there)} if there.is_file() else set()
        for each in wanted:
            if _normal(each) not in has:
                yield (
                    f"program.requirements_in_image is true, and the image {image!r} of {keys[0]} "
                    f"lacks {str(each)!r} of {path}, allowed: that line in {there}"
                )
                break


def _normal(requirement: Requirement) -> str:
    """The same for two ways to write one requirement."""
    extras = ",".join(sorted(requirement.extras))
    name = canonicalize_name(requirement.name)
    return f"{name}[{extras}]{requirement.specifier};{requirement.marker or ''}"
