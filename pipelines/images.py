"""Container images: the folders of `containers/`, and which image each job of a workload runs in.

A folder with a Dockerfile becomes an image. `image.toml` says what the image extends, and the tag
is a digest of the folder's content and of that base, so that the step cache notices a change.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from compilegate.catalog.images import BaseImage, UnknownImageError, base_images, find_image
from compilegate.declaration_errors import matching, parse_toml, validate
from compilegate.errors import CompilegateError
from compilegate.pipelines.deployment import Deployment
from compilegate.workload import AWS_IMAGE, Arm, Served, Workload

GATE = "gate"
"""The image folder that the gate runs in."""
FILE = "image.toml"
TAG_LENGTH = 16
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_Text = Annotated[str, StringConstraints(min_length=1, max_length=250)]


class ImageFolderError(CompilegateError):
    """An image folder cannot be used; one sentence that names the file and what to do."""


class NoImageError(CompilegateError):
    """There is no such image; one sentence without a full stop."""


@dataclass(frozen=True, kw_only=True)
class ImageFolder:
    """A folder that becomes a container image."""

    name: str
    folder: Path
    base: BaseImage | str
    """What it extends: an image of the catalog, or the URI of any other."""
    tag: str
    digest: str | None = None
    """The digest behind the base's tag, where the settings pin it."""

    @property
    def base_name(self) -> str:
        """The base without its region's registry."""
        return self.base if isinstance(self.base, str) else self.base.name

    def base_uri(self, region: str) -> str:
        """The BASE_IMAGE of `docker build`. Raises ImageFolderError where AWS has no such image in
        the region."""
        if isinstance(self.base, str):
            return _pinned(self.base, self.digest)
        try:
            return _pinned(self.base.uri(region), self.digest)
        except UnknownImageError as error:
            raise ImageFolderError(
                f"{self.folder / FILE}: {error}; name a base that can be had there under "
                "[images] base in infra/settings.toml, or remove the folder if nothing uses it"
            ) from error


def image_folders(
    containers: Path,
    bases: Mapping[str, str] | None = None,
    digests: Mapping[str, str] | None = None,
) -> dict[str, ImageFolder]:
    """The folders with a Dockerfile, by name.

    `bases` replaces bases by folder, as `[images] base` of the settings does; `digests` pins bases,
    as `[images] pinned` does. Raises ImageFolderError for a missing or wrong image.toml, and for a
    name that cannot be a repository's.
    """
    bases = bases or {}
    folders = [each for each in sorted(containers.iterdir()) if (each / "Dockerfile").is_file()]
    found = {
        folder.name: _image_folder(folder, bases.get(folder.name), digests or {})
        for folder in folders
    }
    if unknown := bases.keys() - found.keys():
        raise ImageFolderError(
            f"infra/settings.toml: images.base names {min(unknown)!r}, and {containers} has no "
            f"such folder with a Dockerfile; it has {', '.join(found) or 'none'}"
        )
    return found


def image_tags(containers: Path, bases: Mapping[str, str] | None = None) -> dict[str, str]:
    """Tag by image folder, also of one without a Dockerfile, which is a local environment only.

    A tag is the same in every region. Raises ImageFolderError for a missing or wrong image.toml.
    """
    built = image_folders(containers, bases)
    return {
        folder.name: built[folder.name].tag if folder.name in built else _tag(folder, "")
        for folder in sorted(containers.iterdir())
        if folder.name in built or (folder / "requirements.txt").is_file()
    }


def _image_folder(folder: Path, base: str | None, digests: Mapping[str, str]) -> ImageFolder:
    if _NAME.fullmatch(folder.name) is None:
        raise ImageFolderError(
            f"{folder}: found an image folder {folder.name!r}, allowed: lower-case letters, digits "
            "and single hyphens, which name a repository too"
        )
    extends = read_image_file(folder / FILE) if base is None else base
    name = extends if isinstance(extends, str) else extends.name
    digest = None if "@" in name else digests.get(name)
    tag = _tag(folder, _pinned(name, digest))
    return ImageFolder(name=folder.name, folder=folder, base=extends, tag=tag, digest=digest)


def _pinned(uri: str, digest: str | None) -> str:
    return uri if digest is None else f"{uri.rpartition(':')[0]}@{digest}"


def _tag(folder: Path, base: str) -> str:
    digest = hashlib.sha256(base.encode() + b"\0")
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            name = path.relative_to(folder).as_posix()
            digest.update(f"{len(name)}:{name}:{len(content)}:".encode())
            digest.update(content)
    return digest.hexdigest()[:TAG_LENGTH]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _CatalogBase(_Table):
    """An image of AWS by what it holds; the catalog has its URI in each region."""

    framework: _Text
    version: _Text
    transformers: _Text | None = None
    processor: Literal["cpu", "gpu", "neuron"] = "gpu"


class _NamedBase(_Table):
    """Any other image by its URI, with a tag or a digest: without either it may change."""

    image: Annotated[
        str,
        matching(
            r"^[^\s:@]+(?::\d+/[^\s:@]+)?[:@][^\s]+$",
            "an image with a tag or a digest, such as python:3.12",
        ),
    ]


class _CatalogFile(_Table):
    base: _CatalogBase


class _NamedFile(_Table):
    base: _NamedBase


def read_image_file(path: Path) -> BaseImage | str:
    """What an image extends, by its image.toml: an image of the catalog, or the URI of any other.

    Raises ImageFolderError.
    """
    if not path.is_file():
        raise ImageFolderError(
            f"{path} does not exist, and a Dockerfile lies beside it: "
            "say there what the image extends, or name its base in infra/settings.toml"
        )
    document = parse_toml(path, ImageFolderError)
    table = document.get("base")
    if isinstance(table, dict) and "image" in table:
        return validate(path, document, _NamedFile, ImageFolderError).base.image
    base = validate(path, document, _CatalogFile, ImageFolderError).base
    try:
        return find_image(**base.model_dump())
    except UnknownImageError as error:
        raise ImageFolderError(f"{path}: base: {error}") from error


def image_of(deployment: Deployment, arm: Arm) -> str:
    """The URI of an arm's image: of the project's own folder, or AWS's own in the deployment's
    region. Raises NoImageError."""
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


def _own_image(deployment: Deployment, folder: str) -> str:
    if folder not in deployment.images:
        raise NoImageError(_missing(deployment, folder))
    return deployment.images[folder]


def _missing(deployment: Deployment, folder: str) -> str:
    return (
        f"the image {folder!r} is not a folder in containers/ with a Dockerfile, allowed: "
        f"{', '.join(sorted(deployment.images))}"
    )


def _aws_image(deployment: Deployment, image: BaseImage) -> str:
    try:
        return image.uri(deployment.registry_region or deployment.region)
    except UnknownImageError as error:
        raise NoImageError(str(error)) from error


def image_faults(deployment: Deployment, workload: Workload) -> list[str]:
    """A sentence for each image that the workload's jobs and models need and that is not there."""
    faults: dict[tuple[str, str], str] = {}
    for name, arm in workload.arms.items():
        try:
            image_of(deployment, arm)
        except NoImageError as error:
            faults[arm.image_folder, arm.compiler] = f"arms.{name}.image: {error}"
    for step, folder in (workload.kind.processing_image, ("Gate", GATE)):
        if not any(folder == of_arm for of_arm, _ in faults) and folder not in deployment.images:
            faults[folder, ""] = f"{step}: {_missing(deployment, folder)}"
    if workload.serving is not None:
        try:
            serving_image(deployment, workload.serving)
        except NoImageError as error:
            faults["", ""] = f"serving.image: {error}"
    return list(faults.values())


def _needed(workload: Workload) -> Iterator[tuple[str, str | BaseImage]]:
    """Each image that jobs and endpoints run in, after what needs it: a folder's, or AWS's own."""
    for name, arm in workload.arms.items():
        if arm.image_folder != AWS_IMAGE:
            yield f"arms.{name}.image", arm.image_folder
        elif arm.known_stack is not None:
            yield f"arms.{name}.image", arm.known_stack.image
    step, folder = workload.kind.processing_image
    yield f"step {step}", folder
    yield "step Gate", GATE
    serving = workload.serving
    if serving is not None:
        yield "serving.image", serving.base_image if serving.in_image_of_aws else serving.image


def image_folders_of(workload: Workload) -> dict[str, str]:
    """The folders whose images a workload's jobs run in, each with what needs it first."""
    used: dict[str, str] = {}
    for key, image in _needed(workload):
        if isinstance(image, str):
            used.setdefault(image, key)
    return used


def used_images(workloads: Iterable[Workload]) -> dict[str, str]:
    """The folders whose images these workloads need, each with the first key that names it:
    `topics: arms.baseline.image`."""
    used: dict[str, str] = {}
    for workload in workloads:
        for folder, key in image_folders_of(workload).items():
            used.setdefault(folder, f"{workload.name}: {key}")
    return used


def regions() -> list[str]:
    """Every region in which AWS has one of its training images."""
    return sorted({region for image in base_images() for region in image.hosts})


def lacking_images(
    workloads: Sequence[Workload], bases: Mapping[str, BaseImage | str], region: str
) -> list[str]:
    """A sentence for each image that the workloads need and that AWS does not have in the region:
    the base of a folder that they use, and AWS's own image where they use it unchanged."""
    lacking = []
    for folder, key in used_images(workloads).items():
        base = bases.get(folder)
        if isinstance(base, BaseImage) and region not in base.hosts:
            lacking.append(
                f"AWS has no image {base.label} in {region}; the image {folder} extends it, and "
                f"{key} needs that; name a base that can be had there under [images] base in "
                "infra/settings.toml, or leave the workload out of its list of workloads"
            )
    for workload in workloads:
        for key, image in _needed(workload):
            if isinstance(image, BaseImage) and region not in image.hosts:
                lacking.append(
                    f"AWS has no image {image.label} in {region}; {workload.name}: {key} needs it"
                )
    return lacking
