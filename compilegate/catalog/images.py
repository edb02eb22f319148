"""AWS's training images: their URIs in each region, and until when they are patched.

Pure. `images.json` is an export of the SageMaker SDK's own table (`tools/export_base_images.py`);
`documented_images.csv` has the few that AWS documents and the SDK does not know;
`image_patches.csv` says how long each gets security patches. Each states its date and source.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter

from compilegate.catalog.tables import fact_lines, fact_rows, fact_text
from compilegate.errors import CompilegateError

AMAZON_LINUX_2023_PYTHON = "3.12"
"""The Python of PyTorch images from 2.11 on, which the SDK does not give. Source: aws/
deep-learning-containers, docs/src/data/pytorch/*-sagemaker.yml, 2026-11."""

LIBRARIES = ("pytorch", "tensorflow")
"""Frameworks that go by several names in AWS's images; the others go by one."""


@dataclass(frozen=True, kw_only=True)
class BaseImage:
    """One training image of AWS."""

    framework: str
    """AWS's name for it: `pytorch`, `pytorch-training-compiler`, ..."""
    version: str
    """The framework's version."""
    transformers: str | None = None
    """The version in a Hugging Face image; None in any other."""
    python: str | None = None
    processor: str
    """`cpu`, `gpu` or `neuron`."""
    repository: str
    tag: str
    hosts: Mapping[str, str]
    """The registry's host, by region."""

    @property
    def name(self) -> str:
        """Repository and tag: the image without its registry; the same in every region."""
        return f"{self.repository}:{self.tag}"

    @property
    def library(self) -> str:
        """The framework that it contains, as a compiler names it: `pytorch`, `tensorflow`."""
        return next((each for each in LIBRARIES if each in self.framework), self.framework)

    @property
    def label(self) -> str:
        transformers = f", Transformers {self.transformers}" if self.transformers else ""
        return f"{self.framework} {self.version}{transformers} ({self.processor})"

    def uri(self, region: str) -> str:
        """The image's URI in a region. Raises UnknownImageError if AWS has none there."""
        if region not in self.hosts:
            regions = ", ".join(sorted(self.hosts))
            raise UnknownImageError(f"AWS has no image {self.label} in {region}, only in {regions}")
        return f"{self.hosts[region]}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Patches:
    """How long AWS patches an image; it stays available afterwards."""

    framework: str
    version: str
    patched_until: datetime.date | Literal["ended"]
    """The last day; `ended` if patching has ended and AWS does not say when."""

    @property
    def until(self) -> datetime.date | None:
        return None if self.patched_until == "ended" else self.patched_until

    def ended(self, today: datetime.date) -> bool:
        return self.until is None or today > self.until


@dataclass(frozen=True, kw_only=True)
class EcrRepository:
    """A private repository in ECR: to pull from it, log in to its host first."""

    account: str
    region: str
    host: str
    name: str


def ecr_repository(uri: str) -> EcrRepository | None:
    """The private ECR repository of an image URI; None for any other registry, such as
    `public.ecr.aws`, which asks for no login."""
    found = re.fullmatch(
        r"((\d{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.[a-z0-9.-]+)/([^:@]+)(?:[:@].*)?", uri
    )
    if found is None:
        return None
    host, account, region, name = found.groups()
    return EcrRepository(account=account, region=region, host=host, name=name)


class UnknownImageError(CompilegateError):
    """The catalog has no such image; the message says which ones it has."""


def find_image(
    framework: str, version: str, *, transformers: str | None = None, processor: str = "gpu"
) -> BaseImage:
    """The image for a framework's version. Raises UnknownImageError, naming those there are."""
    of_framework = [image for image in base_images() if image.framework == framework]
    for image in of_framework:
        same = (image.version, image.processor) == (version, processor)
        if same and transformers in (None, image.transformers):
            return image
    known = ", ".join(
        sorted({image.label for image in of_framework if image.processor == processor})
        or sorted({image.label for image in of_framework})
        or sorted({image.framework for image in base_images()})
    )
    wanted = f"{framework} {version}" + (f", Transformers {transformers}" if transformers else "")
    raise UnknownImageError(f"the catalog has no image {wanted} ({processor}); it has {known}")


def patches_of(image: BaseImage) -> Patches | None:
    """How long AWS patches an image; None if the catalog does not know."""
    return _patches().get((image.framework, image.version))


def version_numbers(version: str) -> tuple[int, ...]:
    """`2.13.0` as (2, 13, 0); stops at the first part that is not a number."""
    return tuple(int(part) for part in itertools.takewhile(str.isdigit, version.split(".")))


@cache
def base_images() -> tuple[BaseImage, ...]:
    """Every image in the catalog: those in the SDK's table, then the documented ones."""
    table: dict[str, Any] = json.loads(fact_text("images.json"))
    rows: list[dict[str, Any]] = [
        {
            **row,
            "python": row["python"]
            or (AMAZON_LINUX_2023_PYTHON if "amzn2023" in row["tag"] else None),
            "hosts": {
                region: table["registries"][row["registry"]][region] for region in row["regions"]
            },
        }
        for row in table["images"]
    ]
    hosts = {f"{row['framework']} {row['version']}": row["hosts"] for row in rows}
    documented = fact_lines("documented_images.csv")
    rows += [{**line, "hosts": hosts[line["regions_of"]]} for line in documented]
    return TypeAdapter(tuple[BaseImage, ...]).validate_python(rows)


@cache
def _patches() -> dict[tuple[str, str], Patches]:
    rows = fact_rows("image_patches.csv", Patches)
    return {(each.framework, each.version): each for each in rows}
