"""Whether a base image was patched: its tag then stands for another one."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from builder.builds import Project

MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_PRIVATE = re.compile(r"(\d{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.[a-z0-9.-]+/([^:@]+):(.+)")
_SECONDS = 10
_UNAUTHORIZED = 401


@dataclass(frozen=True)
class Registries:
    """Asks the registries of base images."""

    ecr_in: Callable[[str], Any]
    """A boto3 client of `ecr`, by region."""

    def has_moved(self, project: Project) -> bool:
        """Whether the tag of the project's base stands for another image than it is built from."""
        return self._digest(project.base_name) != project.base_image.rpartition("@")[2]

    def _digest(self, name: str) -> str:
        private = _PRIVATE.fullmatch(name)
        if private is None:
            return _in_registry(name)
        account, region, repository, tag = private.groups()
        images = self.ecr_in(region).batch_get_image(
            registryId=account,
            repositoryName=repository,
            imageIds=[{"imageTag": tag}],
            acceptedMediaTypes=list(MANIFESTS),
        )["images"]
        return str(images[0]["imageId"]["imageDigest"]) if images else ""


def _in_registry(name: str) -> str:
    """The digest in a registry that lets anybody pull."""
    image, _, tag = name.rpartition(":")
    host, _, path = image.partition("/")
    scheme = "http" if host.startswith("localhost:") else "https"
    address = f"{scheme}://{host}/v2/{path}/manifests/{tag}"
    try:
        return _digest_at(address, {})
    except urllib.error.HTTPError as error:
        if error.code != _UNAUTHORIZED:
            raise
        challenge = dict(re.findall(r'(\w+)="([^"]*)"', error.headers.get("WWW-Authenticate", "")))
    place = f"{challenge.pop('realm')}?{urllib.parse.urlencode(challenge)}"
    with urllib.request.urlopen(place, timeout=_SECONDS) as answer:  # noqa: S310
        token = json.load(answer)["token"]
    return _digest_at(address, {"Authorization": f"Bearer {token}"})


def _digest_at(address: str, headers: Mapping[str, str]) -> str:
    request = urllib.request.Request(  # noqa: S310  https, or a registry of this machine
        address, headers={"Accept": ", ".join(MANIFESTS), **headers}, method="HEAD"
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
        return str(answer.headers["Docker-Content-Digest"])
