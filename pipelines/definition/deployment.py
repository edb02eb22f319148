"""Where a definition will run: everything it names that a workload does not declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LOCAL_ACCOUNT = "000000000000"
LOCAL_REGION = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """An account's names. Inside CloudFormation they are tokens; locally they are stand-ins."""

    region: str
    bucket: str
    role_arn: str
    images: Mapping[str, str]
    """Image URI by the name of its folder in `containers/`."""
    prefix: str = "compilegate"
    """Of every key in the bucket."""

    def uri(self, *parts: str) -> str:
        return "/".join((f"s3://{self.bucket}", self.prefix, *parts))


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where staged content lies. Each URI holds the digest of its content, so that the step cache
    is hit exactly when nothing changed."""

    training_archive: str
    """`sourcedir.tar.gz` for the training toolkit."""
    training_tree: str
    """The same files, unpacked, for processing jobs."""
    gate_tree: str
    """The gate's program and its `gate.json`, unpacked."""
    data: str
    """The raw data: one `train.*` and one `validation.*`."""


def local_deployment(image_tags: Mapping[str, str]) -> Deployment:
    """Stand-ins for a machine without an AWS account. The names are valid, and nobody's.

    `image_tags` maps each image folder to the tag its content gives it.
    """
    registry = f"{LOCAL_ACCOUNT}.dkr.ecr.{LOCAL_REGION}.amazonaws.com/compilegate"
    return Deployment(
        region=LOCAL_REGION,
        bucket="compilegate-local",
        role_arn=f"arn:aws:iam::{LOCAL_ACCOUNT}:role/compilegate-local",
        images={name: f"{registry}/{name}:{tag}" for name, tag in image_tags.items()},
    )
