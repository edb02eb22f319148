"""Stand-ins for what only CloudFormation knows: bucket, key, roles, images, a network.

The CDK app compiles a definition against these values and then replaces each of them in the text
by a token. They are valid for the service's patterns, so a definition that holds them is checked
like any other; none occurs in any other's text, nor in anything else that a definition holds.

    deployment = standin_deployment(images=["training", "gate"])
    text = compile_definition(workload, deployment, standin_sources(placement.sources))
    for name, value in stand_ins(["training", "gate"]).items():
        text = text.replace(value, tokens[name])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compilegate.pipelines.deployment import Deployment, MadeNetwork, Network, Sources, object_name

REGION = "us-standin-1"
BUCKET = "compilegate-standin-bucket"
ASSETS_BUCKET = "compilegate-standin-assets"
"""The bucket that the source objects are assets in; `BUCKET` is the project's own."""

_ACCOUNT = "999999999999"
_ROLE = f"arn:aws:iam::{_ACCOUNT}:role/compilegate-standin"
_STAND_INS = {
    "region": REGION,
    "bucket": BUCKET,
    "assets_bucket": ASSETS_BUCKET,
    "kms_key": f"arn:aws:kms:us-east-1:{_ACCOUNT}:key/compilegate-standin",
    "training_role_arn": f"{_ROLE}-training",
    "processing_role_arn": f"{_ROLE}-processing",
    "posture_function": f"arn:aws:lambda:us-east-1:{_ACCOUNT}:function:compilegate-standin",
}


_SECURITY_GROUP = "sg-standin"


def stand_ins(images: Iterable[str], subnets: int = 0) -> Mapping[str, str]:
    """Every stand-in by the name of what it stands for; an image folder's is `images.FOLDER`.

    `subnets` says how many the VPC has that is made for the project: none where none is.
    """
    network = {f"network.subnet{n}": _subnet(n) for n in range(1, subnets + 1)}
    return {
        **_STAND_INS,
        **{f"images.{folder}": _image(folder) for folder in images},
        **network,
        **({"network.security_group": _SECURITY_GROUP} if subnets else {}),
    }


def standin_network(subnets: int) -> MadeNetwork:
    """A VPC that is not made yet."""
    return MadeNetwork(
        subnets=[_subnet(number) for number in range(1, subnets + 1)],
        security_group=_SECURITY_GROUP,
    )


def standin_deployment(
    *,
    images: Iterable[str],
    registry_region: str | None = None,
    encrypted: bool = True,
    network: Network | None = None,
    name_prefix: str = "",
    tags: Mapping[str, str] | None = None,
) -> Deployment:
    """A deployment of stand-ins. What is known without CloudFormation is given as it is."""
    return Deployment(
        region=REGION,
        registry_region=registry_region,
        bucket=BUCKET,
        training_role_arn=_STAND_INS["training_role_arn"],
        processing_role_arn=_STAND_INS["processing_role_arn"],
        images={folder: _image(folder) for folder in images},
        kms_key=_STAND_INS["kms_key"] if encrypted else None,
        posture_function=_STAND_INS["posture_function"],
        network=network,
        name_prefix=name_prefix,
        tags=tags or {},
    )


def standin_sources(sources: Sources) -> Sources:
    """The same content as assets: an object of the assets bucket is called `DIGEST.EXTENSION`.

    Raw data is no asset, and stays where it is.
    """
    return Sources(
        training_archive=_asset(sources.training_archive),
        training_code=_asset(sources.training_code),
        gate_code=_asset(sources.gate_code),
        experiment=_asset(sources.experiment),
        data=sources.data,
        serving_code=None if sources.serving_code is None else _asset(sources.serving_code),
    )


def _asset(uri: str) -> str:
    return f"s3://{ASSETS_BUCKET}/{object_name(uri)}"


def _subnet(number: int) -> str:
    # There are fewer than ten, so that none is the start of another.
    return f"subnet-standin{number}"


def _image(folder: str) -> str:
    # The tag ends it, so that no folder's image is the start of another's.
    return f"{_ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/compilegate-standin/{folder}:standin"
