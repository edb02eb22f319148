"""Where this checkout's definition would be deployed: the account's names with its own digests."""

from __future__ import annotations

from collections.abc import Mapping

from compilegate.account.deployed import StackOutputs
from compilegate.account.settings import Names
from compilegate.account.settings.names import output_suffix
from compilegate.account.settings.reading import network_of
from compilegate.pipelines.deployment import Deployment, MadeNetwork, Sources, object_name

NOT_DEPLOYED = "arn:aws:iam::000000000000:role/not-deployed"
"""Stands for the roles of a workload that has no stack yet."""


def target_deployment(
    foundation: StackOutputs,
    stack: StackOutputs | None,
    names: Names,
    image_tags: Mapping[str, str],
    region: str,
    *,
    network: StackOutputs | None = None,
) -> Deployment:
    """The deployment that `make deploy` would compile for. Raises NotDeployedError.

    `stack` is the workload's own, or None when it was never deployed: then its roles have no names
    yet, and there is no definition to compare with.

    `network` is the stack of the VPC that the project has made, or None where it has made none.

    An image folder that is new has no repository yet, and one of a known name in the same registry.
    """
    return Deployment(
        region=region,
        bucket=foundation["BucketName"],
        training_role_arn=stack["TrainingRoleArn"] if stack else NOT_DEPLOYED,
        processing_role_arn=stack["ProcessingRoleArn"] if stack else NOT_DEPLOYED,
        images={
            folder: f"{_repository_uri(foundation, names, folder)}:{tag}"
            for folder, tag in image_tags.items()
        },
        kms_key=foundation["KeyArn"],
        network=network_of(names.settings, None if network is None else _made(network)),
        name_prefix=names.pipeline(""),
        tags=names.tags,
    )


def _made(network: StackOutputs) -> MadeNetwork:
    return MadeNetwork(
        subnets=network["SubnetIds"].split(","), security_group=network["SecurityGroupId"]
    )


def _repository_uri(foundation: StackOutputs, names: Names, folder: str) -> str:
    deployed = foundation.values.get(f"RepositoryUri{output_suffix(folder)}")
    registry = foundation["RepositoryUriGate"].partition("/")[0]
    return deployed or f"{registry}/{names.repository(folder)}"


def target_sources(staged: Sources, stack: StackOutputs) -> Sources:
    """The staged content as assets: in the bucket that the deployed ones lie in, by its own
    digests. Raises NotDeployedError."""
    return Sources(
        training_archive=_beside(stack["TrainingArchiveUri"], staged.training_archive),
        training_code=_beside(stack["TrainingCodeUri"], staged.training_code),
        gate_code=_beside(stack["GateCodeUri"], staged.gate_code),
        experiment=_beside(stack["ExperimentUri"], staged.experiment),
        data=staged.data,
        serving_code=None
        if staged.serving_code is None
        else _beside(stack["GateCodeUri"], staged.serving_code),
    )


def _beside(deployed: str, staged: str) -> str:
    return f"{deployed.rpartition('/')[0]}/{object_name(staged)}"
