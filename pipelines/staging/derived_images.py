"""Image folders derived for a program that brings a `requirements.txt`: what its jobs need is built
into an image, once, and no job installs anything when it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from compilegate.errors import CompilegateError
from compilegate.workload import AWS_IMAGE, Workload

REQUIREMENTS = "requirements.txt"
MARK = "# Derived by `compilegate derive-images`; it is written anew from"
_IMAGE_OF_AWS_EXTENDED = "training-compiler"
"""The folder whose Dockerfile extends an image of AWS's that an arm takes as it is."""


class DerivedImageError(CompilegateError):
    """No image can be derived; one sentence that names the file, what was found and what to do."""


@dataclass(frozen=True, kw_only=True)
class DerivedImage:
    """One folder of `containers/`, as it is to be written."""

    name: str
    keys: tuple[str, ...]
    """The keys of the workload that are to name it: `program.image`, `arms.compiled.image`."""
    source: str
    """The folder that it was derived from; or AWS_IMAGE."""
    files: Mapping[str, str]
    """The text of each of its files, by name."""


def read_requirements(path: Path) -> list[Requirement]:
    """The packages that a requirements.txt asks for. Raises DerivedImageError for a line that is
    more than a package and its versions: an option, an address, another file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DerivedImageError(f"{path} cannot be read: {error}") from error
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
            raise DerivedImageError(
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
                    f"lacks {str(each)!r} of {path}, allowed: that line in {there}; "
                    f"`compilegate derive-images {workload.name}` writes such folders"
                )
                break


def derived_images(workload: Workload, folder: Path, containers: Path) -> list[DerivedImage]:
    """The folders to write: one for each image that runs the workload's own program, with what the
    program's requirements.txt adds. Raises DerivedImageError."""
    source = workload.kind.source_folder
    if source is None:
        raise DerivedImageError(
            f"the workload {workload.name!r} has no program of its own, allowed: one with [program]"
        )
    path = folder / source / REQUIREMENTS
    if not path.is_file():
        raise DerivedImageError(
            f"{path} does not exist, so there is nothing to build into an image"
        )
    return [
        _derived(workload, image, keys, program=path, containers=containers)
        for image, keys in images_in_use(workload).items()
    ]


def _derived(
    workload: Workload,
    image: str,
    keys: tuple[str, ...],
    *,
    program: Path,
    containers: Path,
) -> DerivedImage:
    """The folder for one image in use; `program` is the requirements.txt of the program."""
    wanted = read_requirements(program)
    prefix = f"{workload.name}-"
    if image.startswith(prefix) and _is_derived(containers / image):
        image = image.removeprefix(prefix)  # derived before: from the same, with what is new
    origin = containers / (_IMAGE_OF_AWS_EXTENDED if image == AWS_IMAGE else image)
    if not (origin / "Dockerfile").is_file():
        raise DerivedImageError(
            f"{origin} has no Dockerfile, allowed: to derive from an image folder with one; put "
            f"the lines of {program} into {origin / REQUIREMENTS} by hand"
        )
    files = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(origin.iterdir())
        if file.is_file()
    }
    if image == AWS_IMAGE:
        files |= _as_aws_made_it(workload, keys)
    mark = f"{MARK}\n# {workload.kind.source_folder}/{REQUIREMENTS} and {image}."
    has = files[REQUIREMENTS].splitlines()
    files[REQUIREMENTS] = "\n".join([mark, *has, *map(str, wanted)]) + "\n"
    return DerivedImage(name=f"{workload.name}-{image}", keys=keys, source=image, files=files)


def _as_aws_made_it(workload: Workload, keys: tuple[str, ...]) -> dict[str, str]:
    """What differs in a folder that extends the image of an arm's stack."""
    arms = [workload.arms[key.split(".")[1]] for key in keys if key.startswith("arms.")]
    stacks = {arm.known_stack for arm in arms}
    if len(stacks) != 1 or None in stacks:
        raise DerivedImageError(
            f"{' and '.join(keys)} are 'aws' with different stacks, allowed: one stack; name a "
            "folder of containers/ for the others"
        )
    (stack,) = stacks
    if stack is None or stack.framework != "pytorch":
        raise DerivedImageError(
            f"{keys[0]} is AWS's image of {'' if stack is None else stack.label}, allowed: one of "
            "PyTorch; extend others by a folder of containers/ that you write"
        )
    base = stack.image
    table = {"framework": base.framework, "version": base.version}
    if base.transformers is not None:
        table["transformers"] = base.transformers
    lines = [f'{key} = "{value}"' for key, value in {**table, "processor": base.processor}.items()]
    return {
        "image.toml": "\n".join(["[base]", *lines]) + "\n",
        "constraints.txt": "# What the base brings stays as it is.\n",
        REQUIREMENTS: f"torch=={base.version}\nsafetensors\n",
    }


def _is_derived(folder: Path) -> bool:
    path = folder / REQUIREMENTS
    return path.is_file() and path.read_text(encoding="utf-8").startswith(MARK)


def may_be_written(folder: Path) -> bool:
    """Whether a derived folder may take this place: nothing is there, or one that was derived."""
    return not folder.exists() or _is_derived(folder)


def _normal(requirement: Requirement) -> str:
    """The same for two ways to write one requirement."""
    extras = ",".join(sorted(requirement.extras))
    name = canonicalize_name(requirement.name)
    return f"{name}[{extras}]{requirement.specifier};{requirement.marker or ''}"
