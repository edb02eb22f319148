"""`containers/NAME/image.toml` as types: what an image extends."""

from __future__ import annotations

import tomllib
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

from pipelines.catalog.images import BaseImage, UnknownImageError, find_image

FILE = "image.toml"

Text = Annotated[str, StringConstraints(min_length=1, max_length=250)]


class ImageFolderError(Exception):
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
    """The whole file."""

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
