"""What the tag of a base image stands for now, asked of its registry."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import replace

from compilegate.account.errors import AwsError, asking
from compilegate.account.session import AwsSession
from compilegate.catalog.images import EcrRepository, ecr_repository

MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""An index first: a tag of several platforms is then the same on each of them."""
SECONDS = 30
UNAUTHORIZED = 401
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def base_digest(session: AwsSession, uri: str) -> str:
    """The digest, `sha256:...`, of an image that is named by a tag. Raises AwsError."""
    repository = ecr_repository(uri)
    if repository is not None:
        return _in_ecr(session, repository, uri.rpartition(":")[2])
    return _in_registry(uri)


def _in_ecr(session: AwsSession, repository: EcrRepository, tag: str) -> str:
    client = replace(session, region=repository.region).client("ecr")
    with asking(f"look up {repository.name}:{tag} in the registry of {repository.account}"):
        found = client.batch_get_image(
            registryId=repository.account,
            repositoryName=repository.name,
            imageIds=[{"imageTag": tag}],
            acceptedMediaTypes=list(MANIFESTS),
        )["images"]
    if not found:
        raise AwsError(f"{repository.host}/{repository.name} has no image {tag}")
    return str(found[0]["imageId"]["imageDigest"])


def _in_registry(uri: str) -> str:
    """By the registry's own interface, for one that lets anybody pull."""
    image, _, tag = uri.rpartition(":")
    host, _, name = image.partition("/")
    scheme = "http" if host.startswith("localhost:") else "https"
    address = f"{scheme}://{host}/v2/{name}/manifests/{tag}"
    try:
        try:
            return _digest_at(address, {})
        except urllib.error.HTTPError as error:
            if error.code != UNAUTHORIZED:
                raise
            token = _token(error.headers.get("WWW-Authenticate", ""))
            return _digest_at(address, {"Authorization": f"Bearer {token}"})
    except urllib.error.HTTPError as error:
        raise AwsError(f"{host} does not say what {uri} is: {error}") from error
    except OSError as error:
        raise AwsError(f"{host} cannot be asked what {uri} is: {error}") from error


def _digest_at(address: str, headers: Mapping[str, str]) -> str:
    request = urllib.request.Request(  # noqa: S310  https, or a registry of this machine
        address, headers={"Accept": ", ".join(MANIFESTS), **headers}, method="HEAD"
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
        digest = str(answer.headers.get("Docker-Content-Digest", ""))
    if DIGEST.fullmatch(digest) is None:
        raise AwsError(f"{address} came back without a digest")
    return digest


def _token(challenge: str) -> str:
    """A token for anybody, from where the registry says that there are some."""
    given = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = given.pop("realm", "")
    if not realm.startswith(("https://", "http://localhost:")):
        raise AwsError("the registry wants a login, and names no place for a token")
    address = f"{realm}?{urllib.parse.urlencode(given)}"
    with urllib.request.urlopen(address, timeout=SECONDS) as answer:  # noqa: S310
        said = json.load(answer)
    return str(said.get("token") or said.get("access_token"))
