"""The folders of `containers/`: what each image extends, as `image.toml` says, and the tag that a
folder's content gives its image."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    StringConstraints,
    Tag,
    ValidationError,
)

from compilegate.catalog.images import BaseImage, UnknownImageError, find_image
from compilegate.errors import CompilegateError

FILE = "image.toml"

Text = Annotated[str, StringConstraints(min_length=1, max_length=250)]


class ImageFolderError(CompilegateError):
    """An image folder cannot be used; one sentence that names the file and what to do."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CatalogBase(_Table):
    """An image of AWS, by what it holds: the catalog has its URI for each region."""

    framework: Text
    version: Text
    transformers: Text | None = None
    processor: Literal["cpu", "gpu", "neuron"] = "gpu"

    def image(self) -> BaseImage:
        """The catalog's image. Raises UnknownImageError."""
        return find_image(
            self.framework,
            self.version,
            transformers=self.transformers,
            processor=self.processor,
        )


class NamedBase(_Table):
    """Any other image, by its URI, which is the same in every region."""

    image: Annotated[str, StringConstraints(pattern=r"^[^\s:@]+(?::\d+/[^\s:@]+)?[:@][^\s]+$")]
    """With a tag or a digest: an image without either is another one tomorrow."""


def _kind_of_base(base: object) -> str:
    return "named" if isinstance(base, dict) and "image" in base else "catalog"


class ImageFile(_Table):
    """`containers/NAME/image.toml`."""

    base: Annotated[
        Annotated[CatalogBase, Tag("catalog")] | Annotated[NamedBase, Tag("named")],
        Discriminator(_kind_of_base),
    ]


def read_image_file(path: Path) -> CatalogBase | NamedBase:
    """What the image extends, checked against the catalog.

    Raises ImageFolderError.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        base = ImageFile.model_validate(raw).base
        if isinstance(base, CatalogBase):
            base.image()
    except FileNotFoundError as error:
        raise ImageFolderError(
            f"{path} does not exist, and a Dockerfile lies beside it: "
            "say there what the image extends, or name its base in infra/settings.toml"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ImageFolderError(f"{path} cannot be read as TOML: {error}") from error
    except UnknownImageError as error:
        raise ImageFolderError(f"{path}: base: {error}") from error
    except ValidationError as error:
        raise ImageFolderError(_what_is_wrong(path, error)) from error
    return base


def _what_is_wrong(path: Path, error: ValidationError) -> str:
    found = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in found["loc"] if part not in ("catalog", "named"))
    return (
        f"{path}: {key}: {found['msg'].lower()}; allowed: a table [base] with image = "
        '"REPOSITORY:TAG", or with framework, version and, where needed, processor and transformers'
    )


TAG_LENGTH = 16
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class ImageFolder:
    """A folder that becomes a container image."""

    name: str
    folder: Path
    base: BaseImage | str
    """What it extends: an image of the catalog, or a URI that was named."""
    tag: str
    digest: str | None = None
    """What the base's tag stood for when somebody looked; None where nobody has."""

    @property
    def base_name(self) -> str:
        """The base without its region's registry."""
        return self.base if isinstance(self.base, str) else self.base.name

    def base_uri(self, region: str) -> str:
        """What `docker build` gets as BASE_IMAGE. Raises ImageFolderError for a region in which
        AWS has no such image."""
        if isinstance(self.base, str):
            return _pinned(self.base, self.digest)
        try:
            return _pinned(self.base.uri(region), self.digest)
        except UnknownImageError as error:
            raise ImageFolderError(
                f"{self.folder / FILE}: {error}; name a base that can be had there under "
                "[images] base in infra/settings.toml, or remove the folder if nothing uses it"
            ) from error


def _pinned(uri: str, digest: str | None) -> str:
    """The image by its digest in place of its tag."""
    return uri if digest is None else f"{uri.rpartition(':')[0]}@{digest}"


def image_folders(
    containers: Path,
    bases: Mapping[str, str] | None = None,
    pinned: Mapping[str, str] | None = None,
) -> dict[str, ImageFolder]:
    """The folders with a Dockerfile, by name.

    `bases` names another base by folder, as `[images] base` of the settings does; `pinned` has the
    digest by base, as its `pinned` does.
    Raises ImageFolderError when an image.toml is missing or wrong, or a name cannot be an image's.
    """
    named = dict(bases or {})
    folders = [folder for folder in sorted(containers.iterdir()) if _has_image(folder)]
    digests = pinned or {}
    found = {
        folder.name: _image_folder(folder, named.pop(folder.name, None), digests)
        for folder in folders
    }
    if named:
        raise ImageFolderError(
            f"infra/settings.toml: images.base names {min(named)!r}, and {containers} has no such "
            f"folder with a Dockerfile; it has {', '.join(found) or 'none'}"
        )
    return found


def _has_image(folder: Path) -> bool:
    if not (folder / "Dockerfile").is_file():
        return False
    if NAME.fullmatch(folder.name) is None:
        raise ImageFolderError(
            f"{folder}: found an image folder {folder.name!r}, allowed: lower-case letters, digits "
            "and single hyphens, which name a repository too"
        )
    return True


def image_tags(containers: Path, bases: Mapping[str, str] | None = None) -> dict[str, str]:
    """Tag by image folder, also of one that is only a local environment (no Dockerfile).

    The tag is a digest of the folder's files and of the base they are built on, by its own digest
    where that is known, so that the step cache notices when an image changes. It is the same in
    every region.
    Raises ImageFolderError when an image.toml is missing or wrong.
    """
    built = image_folders(containers, bases)
    return {
        folder.name: built[folder.name].tag if folder.name in built else _tag(folder, "")
        for folder in sorted(containers.iterdir())
        if folder.name in built or (folder / "requirements.txt").is_file()
    }


def _image_folder(folder: Path, named: str | None, pinned: Mapping[str, str]) -> ImageFolder:
    base: BaseImage | str
    if named is not None:
        base = named
    else:
        declared = read_image_file(folder / FILE)
        base = declared.image() if isinstance(declared, CatalogBase) else declared.image
    name = base if isinstance(base, str) else base.name
    digest = None if "@" in name else pinned.get(name)
    tag = _tag(folder, _pinned(name, digest))
    return ImageFolder(name=folder.name, folder=folder, base=base, tag=tag, digest=digest)


def _tag(folder: Path, base: str) -> str:
    digest = hashlib.sha256(base.encode() + b"\0")
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            name = path.relative_to(folder).as_posix()
            digest.update(f"{len(name)}:{name}:{len(content)}:".encode())
            digest.update(content)
    return digest.hexdigest()[:TAG_LENGTH]
