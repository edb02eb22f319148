"""Where a definition will run: everything it names that a workload does not declare.

There are three deployments: an account's, this machine's (`local_deployment`), and one of
placeholders. The CDK app compiles a definition with placeholders for what only CloudFormation
knows, and then replaces each of them in the text by a token. They match the service's patterns, so
that such a definition is checked like any other; none is part of another, nor of anything else in
a definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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


@dataclass(frozen=True, kw_only=True)
class ProjectNetwork:
    """The VPC that a project creates, as far as its jobs need to know it."""

    subnets: Sequence[str]
    security_group: str


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """An account's names."""

    region: str
    registry_region: str | None = None
    """Whose registry AWS's own images come from, where `region` is a placeholder."""
    bucket: str
    training_role_arn: str
    processing_role_arn: str
    """The role of the prepare, gather and gate jobs."""
    images: Mapping[str, str]
    """Image URI by the name of its folder in `containers/`."""
    prefix: str = PREFIX
    """What every key in the bucket begins with."""
    kms_key: str | None = None
    """ARN of the key for volumes and outputs; without one the service's own keys are used."""
    network: Network | None = None
    posture_function: str | None = None
    """ARN of the function that records postures; without one no workload with a posture can be
    compiled."""
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
    """Where staged content lies, one object each. Each URI holds the digest of its content, so
    that the step cache is hit exactly when nothing changed."""

    training_archive: str
    """The training code as a gzipped tar, for the training toolkit."""
    training_code: str
    """The same files as a zip that Python imports from, for processing jobs: `.../DIGEST.zip`."""
    gate_code: str
    """The gate's program as such a zip, the same for all workloads: `.../DIGEST.zip`."""
    experiment: str
    """The gate's settings for this workload: `.../DIGEST.json`."""
    data: str
    """The raw data: the prefix of one `train.*` and one `validation.*`."""
    serving_code: str | None = None
    """The content of `code/` in a registered model's archive, as a gzipped tar; None where the
    workload does not say how it is served, or its image needs no code."""


def object_name(uri: str) -> str:
    """The last part of an object's URI: its name in the folder that a job gets it in."""
    return uri.rpartition("/")[2]


def local_deployment(image_tags: Mapping[str, str]) -> Deployment:
    """This machine, without an AWS account: valid names that belong to nobody.

    `image_tags` maps each image folder to the tag of its content.
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


PLACEHOLDER_BUCKET = "compilegate-placeholder-bucket"
PLACEHOLDER_ASSETS = "compilegate-placeholder-assets"
"""The bucket of the CDK's assets, which the source objects are."""
_ACCOUNT = "999999999999"
_ROLE = f"arn:aws:iam::{_ACCOUNT}:role/compilegate-placeholder"
_SECURITY_GROUP = "sg-placeholder"


def placeholders(images: Iterable[str], subnets: int = 0) -> dict[str, str]:
    """Every placeholder by the name of its value; an image folder's is `images.FOLDER`.

    `subnets` is the number of subnets of the VPC that the project creates; 0 without one.
    """
    network = {f"network.subnet{n}": _subnet(n) for n in range(1, subnets + 1)}
    return {
        "region": "us-placeholder-1",
        "bucket": PLACEHOLDER_BUCKET,
        "assets_bucket": PLACEHOLDER_ASSETS,
        "kms_key": f"arn:aws:kms:us-east-1:{_ACCOUNT}:key/compilegate-placeholder",
        "training_role_arn": f"{_ROLE}-training",
        "processing_role_arn": f"{_ROLE}-processing",
        "posture_function": f"arn:aws:lambda:us-east-1:{_ACCOUNT}:function:compilegate-placeholder",
        **{f"images.{folder}": _image(folder) for folder in images},
        **network,
        **({"network.security_group": _SECURITY_GROUP} if network else {}),
    }


def placeholder_network(subnets: int) -> ProjectNetwork:
    """A VPC that CloudFormation has yet to create."""
    return ProjectNetwork(
        subnets=[_subnet(number) for number in range(1, subnets + 1)],
        security_group=_SECURITY_GROUP,
    )


def placeholder_deployment(
    *,
    images: Sequence[str],
    registry_region: str | None = None,
    network: Network | None = None,
    name_prefix: str = "",
    tags: Mapping[str, str] | None = None,
) -> Deployment:
    """A deployment of placeholders; what is known without CloudFormation is given."""
    values = placeholders(())
    return Deployment(
        region=values["region"],
        registry_region=registry_region,
        bucket=PLACEHOLDER_BUCKET,
        training_role_arn=values["training_role_arn"],
        processing_role_arn=values["processing_role_arn"],
        images={folder: _image(folder) for folder in images},
        kms_key=values["kms_key"],
        posture_function=values["posture_function"],
        network=network,
        name_prefix=name_prefix,
        tags=tags or {},
    )


def placeholder_sources(sources: Sources) -> Sources:
    """The same content as assets of the CDK; raw data is no asset and stays where it is."""
    assets = {
        name: f"s3://{PLACEHOLDER_ASSETS}/{object_name(uri)}"
        for name, uri in vars(sources).items()
        if uri is not None and name != "data"
    }
    return replace(sources, **assets)


def _subnet(number: int) -> str:
    # There are fewer than ten, so that none is the start of another.
    return f"subnet-placeholder{number}"


def _image(folder: str) -> str:
    # The tag comes last, so that no folder's image is the start of another's.
    return (
        f"{_ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/compilegate-placeholder/{folder}:placeholder"
    )
