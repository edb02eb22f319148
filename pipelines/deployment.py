"""Where a definition will run: everything it names that a workload does not declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compilegate.posture.contract import FUNCTION
from compilegate.workload import Workload

LOCAL_ACCOUNT = "000000000000"
LOCAL_REGION = "us-east-1"
PREFIX = "compilegate"


@dataclass(frozen=True, kw_only=True)
class Network:
    """The VPC that jobs run in, and what they may reach from there."""

    subnets: Sequence[str] = ()
    """Subnet ids; with none, jobs run outside of any VPC of the account's."""
    security_group_ids: Sequence[str] = ()
    isolation: bool = False
    """Containers can reach nothing at all: SageMaker alone moves their inputs and outputs."""

    def __post_init__(self) -> None:
        if bool(self.subnets) != bool(self.security_group_ids):
            raise ValueError(
                f"{len(self.subnets)} subnets and {len(self.security_group_ids)} security groups, "
                "allowed: one or more of each, or none of either"
            )


@dataclass(frozen=True, kw_only=True)
class MadeNetwork:
    """What jobs need to know of the VPC that a project has made for them."""

    subnets: Sequence[str]
    security_group: str


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """An account's names. Inside CloudFormation they are tokens; locally they are stand-ins."""

    region: str
    registry_region: str | None = None
    """Whose registry AWS's own images come from, where `region` is only a stand-in."""
    bucket: str
    training_role_arn: str
    processing_role_arn: str
    """The role of the prepare, gather and gate jobs."""
    images: Mapping[str, str]
    """Image URI by the name of its folder in `containers/`."""
    prefix: str = PREFIX
    """Every key in the bucket begins with it."""
    kms_key: str | None = None
    """ARN of the key for volumes and outputs; without one the service's own keys are used."""
    network: Network | None = None
    posture_function: str | None = None
    """ARN of the function that keeps the records of postures; without one no workload with a
    posture can be compiled."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of every job, beside those that say which arm and workload it is."""
    name_prefix: str = ""
    """What the account's names of pipelines and model package groups start with, as in
    `compilegate-`, so that two deployments live side by side."""

    def uri(self, *parts: str) -> str:
        return "/".join((f"s3://{self.bucket}", self.prefix, *parts))

    @property
    def isolated(self) -> bool:
        """Whether containers can reach no network."""
        return self.network is not None and self.network.isolation

    def pipeline_name(self, workload: Workload) -> str:
        return f"{self.name_prefix}{workload.name}"

    def model_package_group(self, workload: Workload) -> str:
        return f"{self.name_prefix}{workload.model_package_group}"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where staged content lies: one object each. Each URI holds the digest of its content, so
    that the step cache is hit exactly when nothing changed."""

    training_archive: str
    """The training code as a gzipped tar, for the training toolkit."""
    training_code: str
    """The same files as a zip that Python imports from, for processing jobs: `.../DIGEST.zip`."""
    gate_code: str
    """The gate's program as such a zip, the same for all workloads: `.../DIGEST.zip`."""
    experiment: str
    """What the gate gets to know about this workload: `.../DIGEST.json`."""
    data: str
    """The raw data: the prefix of one `train.*` and one `validation.*`."""
    serving_code: str | None = None
    """What goes into `code/` of a registered model's archive, as a gzipped tar; None where the
    workload does not say how it is served, or its image needs no code."""


def object_name(uri: str) -> str:
    """The last part of an object's URI: its name in the folder that a job gets it in."""
    return uri.rpartition("/")[2]


def local_deployment(image_tags: Mapping[str, str]) -> Deployment:
    """Stand-ins for a machine without an AWS account. The names are valid, and nobody's.

    `image_tags` maps each image folder to the tag its content gives it.
    """
    registry = f"{LOCAL_ACCOUNT}.dkr.ecr.{LOCAL_REGION}.amazonaws.com/compilegate"
    role = f"arn:aws:iam::{LOCAL_ACCOUNT}:role/compilegate-local"
    return Deployment(
        region=LOCAL_REGION,
        bucket="compilegate-local",
        training_role_arn=f"{role}-training",
        processing_role_arn=f"{role}-processing",
        images={name: f"{registry}/{name}:{tag}" for name, tag in image_tags.items()},
        posture_function=f"arn:aws:lambda:{LOCAL_REGION}:{LOCAL_ACCOUNT}:function:{FUNCTION}",
    )
